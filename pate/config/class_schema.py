"""Schemas from classes: a YAML names its class by `_target_`, and the class knows its keys and their types."""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from hydra.core.config_store import ConfigNode, ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from pate.config.classes import is_within, located
from pate.config.kinds import kind_of_group
from pate.config.location import file_of

_PLAIN = (str, int, float, bool)
_SET_ELSEWHERE = {"aggregator": ("adjacency", "span"), "method": ("name", "adjacency")}
_TARGET = re.compile(r"^_target_: *['\"]?([\w.]+)", re.MULTILINE)
_NUM_TEACHERS = 400

Field = tuple[str, Any, Any]


def store_command(name: str, command: type) -> None:
    """Stores the schema of a command under `schema`."""
    _store("schema", name, partial(_structured, command))


def store_schemas(groups: Iterable[str], folders: Iterable[Path], trusted: tuple[str, ...]) -> None:
    """Stores, for each member of some groups, the schema of its class under `schema/GROUP` and its own name.

    The schema is without keys, and open to all, if its class has no trusted prefix, is none of the group's, is no
    dataclass or cannot be loaded. Such a member is composed unchecked, and building it says what is wrong.
    """
    searched = tuple(folders)
    for group in groups:
        for name in {path.stem for folder in searched for path in (folder / group).glob("*.yaml")}:
            _store(f"schema/{group}", name, partial(_schema, group, name, searched, trusted))


def _store(group: str, name: str, make: Callable[[], DictConfig]) -> None:
    place = ConfigStore.instance().repo
    for part in group.split("/"):
        place = place.setdefault(part, {})
    place[f"{name}.yaml"] = _SchemaLater(f"{name}.yaml", group, make)


class _SchemaLater(ConfigNode):
    """A schema that is made when it is composed: a class is loaded only where the member is chosen."""

    def __init__(self, name: str, group: str, make: Callable[[], DictConfig]) -> None:
        self.name, self.group, self.package, self.provider = name, group, None, None
        self._make = make
        self._made: DictConfig | None = None

    @property
    def node(self) -> DictConfig:
        """The schema."""
        if self._made is None:
            self._made = self._make()
        return self._made

    @node.setter
    def node(self, copied: DictConfig) -> None:
        self._made = copied


def _schema(group: str, name: str, folders: tuple[Path, ...], trusted: tuple[str, ...]) -> DictConfig:
    target = target_of(group, name, folders)
    cls = _dataclass(target, group) if target is not None and is_within(target, trusted) else None
    if cls is None:
        return OmegaConf.create({})
    extra = [_number_of(cls)] if group == "teacher" else []
    return _structured(schema_of(cls, without=_SET_ELSEWHERE.get(group, ()), extra=extra))


def _structured(cls: type) -> DictConfig:
    made: DictConfig = OmegaConf.structured(cls)
    return made


def target_of(group: str, name: str, folders: tuple[Path, ...]) -> str | None:
    """The `_target_` of a member, or that of the member of the same group that it begins from; None without one."""
    file = file_of(group, name, folders)
    if file is None:
        return None
    text = file.read_text(encoding="utf-8")
    if found := _TARGET.search(text):
        return found[1]
    if "defaults" not in text:
        return None
    content: Any = OmegaConf.to_container(OmegaConf.load(file))
    bases = [entry for entry in content.get("defaults", []) if isinstance(entry, str) and entry not in ("_self_", name)]
    return next((target for base in bases if (target := target_of(group, base, folders))), None)


def schema_of(cls: type, *, without: tuple[str, ...] = (), extra: Iterable[Field] = ()) -> type:
    """A dataclass with the same fields, typed where OmegaConf knows the type, and `_target_`."""
    target = ("_target_", str, f"{cls.__module__}.{cls.__qualname__}")
    return dataclasses.make_dataclass(f"{cls.__name__}Config", [target, *extra, *_fields(cls, without)])


def _fields(cls: type, without: tuple[str, ...]) -> Iterator[Field]:
    try:
        hints = get_type_hints(cls)
    except NameError:  # names that only a type checker imports
        hints = {}
    for item in dataclasses.fields(cls):
        if item.init and item.name not in without:
            yield item.name, _config_type(hints.get(item.name)), _default(item)


def _default(item: dataclasses.Field[Any]) -> Any:
    if item.default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=item.default_factory)
    return MISSING if item.default is dataclasses.MISSING else item.default


def _config_type(hint: Any) -> Any:
    """The hint itself where it is a plain type, or optional; anything else is left unchecked."""
    if hint in _PLAIN:
        return hint
    if get_origin(hint) in (Union, types.UnionType):
        parts = [part for part in get_args(hint) if part is not type(None)]
        if len(parts) == 1 and parts[0] in _PLAIN:
            return parts[0] | None
    return Any


def _number_of(teacher: type) -> Field:
    """How many teachers; of kernel teachers by default one for each private group."""
    from pate.teachers import KernelTeacher

    number = ("num_teachers", int | None, None)
    return number if teacher is KernelTeacher else ("num_teachers", int, _NUM_TEACHERS)


def _dataclass(target: str, group: str) -> type | None:
    try:
        cls = located(target)
        fits = cls is not None and kind_of_group(group).accepts(cls)
    except Exception:
        return None
    return cls if fits and dataclasses.is_dataclass(cls) else None
