"""Schemas from classes: a YAML names its class by `_target_`, and the class knows its keys and their types."""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from omegaconf import MISSING, OmegaConf

from pate.config.location import file_of
from pate.config.targets import is_within, kind_of_group, located

_PLAIN = (str, int, float, bool)
_SET_ELSEWHERE = {"aggregator": ("adjacency", "span"), "method": ("name", "adjacency")}
_TARGET = re.compile(r"^_target_: *['\"]?([\w.]+)", re.MULTILINE)
_NUM_TEACHERS = 400

Field = tuple[str, Any, Any]


def member_schema(group: str, name: str, trusted: tuple[str, ...]) -> Any:
    """The schema of a member: that of its class.

    It is without keys, and open to all, if its class has no trusted prefix, is none of the group's, is no dataclass or
    cannot be loaded. Such a member is composed unchecked, and building it says what is wrong.
    """
    target = target_of(group, name)
    cls = _dataclass(target, group) if target is not None and is_within(target, trusted) else None
    if cls is None:
        return {}
    extra = [_number_of(cls)] if group == "teacher" else []
    return schema_of(cls, without=_SET_ELSEWHERE.get(group, ()), extra=extra)


def target_of(group: str, name: str) -> str | None:
    """The `_target_` of a member, or that of the member of the same group that it begins from; None without one."""
    file: Path | None = file_of(group, name)
    if file is None:
        return None
    try:
        text = file.read_text(encoding="utf-8")
        if found := _TARGET.search(text):
            return found[1]
        content: Any = OmegaConf.to_container(OmegaConf.load(file)) if "defaults" in text else {}
    except Exception:  # what is wrong with a file is said where it is composed
        return None
    defaults = content.get("defaults") if isinstance(content, dict) else None
    bases = [entry for entry in defaults or () if isinstance(entry, str) and entry not in ("_self_", name)]
    return next((target for base in bases if (target := target_of(group, base))), None)


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
