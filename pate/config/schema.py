"""Schemas of settings, by which Hydra knows keys and types.

A command's keys are those of its file in `conf/`, which says what they are and what they are by default; of which type
each is, is said here, as YAML cannot. Those of the groups come from the classes: a YAML names its class by `_target_`,
and the class knows its keys and their types.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import yaml
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, OmegaConf

from pate.config.build import GROUPS_OF_CLASSES, TRUSTED_PREFIXES, is_within, kind_of_group, located
from pate.config.location import choices, file_of, folder_of, is_part_of_others, parts_of_others

# Of settings that are no text. `votes` is that of pate-release: a file, a pattern, or a list of files.
_NAMES: dict[Any, str] = {
    bool: "all_records allow_useless data_dependent fewer_queries lower_bound new_account redraw suggest wait",
    int: "ensemble_seed holders max_absent max_size num_canaries num_labels num_private num_queries num_runs "
    "num_teachers num_workers seed vote_clip",
    float: "confidence max_epsilon max_total_epsilon noise_std screening_std target_delta threshold_share",
    float | None: "target_epsilon",  # null in place of a default
    list[str]: "allowed_targets category drop labels methods missing text",
    Any: "accountants aggregators budgets epsilons holder roll seeds shares split votes",
}
_TYPES = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_PLAIN = (str, int, float, bool)
_SET_ELSEWHERE = {"aggregator": ("adjacency", "span", "weights"), "method": ("name", "adjacency")}
_TARGET = re.compile(r"^_target_: *['\"]?([\w.]+)", re.MULTILINE)
_NUM_TEACHERS = 400

Field = tuple[str, Any, Any]


class _Shared(dict[str, Any]):
    """What is stored while Hydra composes is seen by it, which works on a copy of all else."""

    def __deepcopy__(self, memo: Any) -> _Shared:
        return self


def register_configs(*, allowed: Iterable[str] = ()) -> None:
    """Makes schemas known to Hydra once a command or member is composed; loads trusted and `allowed` classes."""
    store, trusted = ConfigStore.instance().store, (*TRUSTED_PREFIXES, *allowed)
    ConfigStore.instance().repo["schema"] = _Shared()

    def schema_of_command(command: str) -> str:
        store(command, command_schema(command), group="schema")
        return command

    def schema_for(group: str, choice: Any) -> str:
        """Stores the schema of a chosen member under `schema/GROUP`; a word that names none where there is not one."""
        if not isinstance(choice, str):
            return "none"
        store(choice, member_schema(group, choice, trusted), group=f"schema/{group}")
        return choice

    OmegaConf.register_new_resolver("choices", choices, replace=True)  # for --help
    OmegaConf.register_new_resolver("schema_of_command", schema_of_command, replace=True)  # for lists of defaults
    OmegaConf.register_new_resolver("schema_for", schema_for, replace=True)


@cache
def command_schema(command: str) -> type:
    """The settings of a command in the order of its file: the parts that it chooses, then the keys that it sets."""
    fields: dict[str, Field] = {}

    def read(name: str) -> dict[str, Any]:
        content: dict[str, Any] = yaml.load((folder_of(command) / f"{name}.yaml").read_bytes(), yaml.SafeLoader)
        return content

    content = read(command)
    if "shared" in content["defaults"]:
        content = read("shared") | content
    for entry in content.pop("defaults"):
        for group, choice in entry.items() if isinstance(entry, dict) else ():
            if group in GROUPS_OF_CLASSES:
                fields[group] = (group, Any, None if choice is None else MISSING)
    for name, value in content.items():
        kind = str if name == "votes" and command != "release" else _TYPES.get(name, str)
        if name != "hydra" and name not in fields:
            fields[name] = (name, kind if value is not None or kind is Any else kind | None, MISSING)
    return dataclasses.make_dataclass(f"{command.title().replace('_', '')}Config", list(fields.values()))


def member_schema(group: str, name: str, trusted: tuple[str, ...]) -> Any:
    """The schema of a member: that of its class, or open to all where building it will say what is wrong."""
    target, cls = target_of(group, name), None
    if target is not None and (is_within(target, trusted) or is_part_of_others(target)):
        with suppress(Exception):
            cls = located(target)
            cls = cls if cls is not None and kind_of_group(group).accepts(cls) else None
    if cls is None or not dataclasses.is_dataclass(cls):
        return {}
    extra: list[Field] = []
    if group == "teacher":
        from pate.teachers import KernelTeacher  # by default one for each private group

        kind, number = (int | None, None) if cls is KernelTeacher else (int, _NUM_TEACHERS)
        extra = [("num_teachers", kind, number)]
    return schema_of(cls, without=_SET_ELSEWHERE.get(group, ()), extra=extra)


def target_of(group: str, name: str) -> str | None:
    """The `_target_` of a member, or that of the member of the same group that it begins from; None without one."""
    file = file_of(group, name)
    if file is None:
        return parts_of_others(group).get(name)
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
    try:
        hints = get_type_hints(cls)
    except NameError:  # names that only a type checker imports
        hints = {}
    target = ("_target_", str, f"{cls.__module__}.{cls.__qualname__}")
    fields: list[Field] = []
    for item in dataclasses.fields(cls):
        default: Any = MISSING if item.default is dataclasses.MISSING else item.default
        if item.default_factory is not dataclasses.MISSING:
            default = dataclasses.field(default_factory=item.default_factory)
        if item.init and item.name not in without:
            fields.append((item.name, _config_type(hints.get(item.name)), default))
    return dataclasses.make_dataclass(f"{cls.__name__}Config", [target, *extra, *fields])


def _config_type(hint: Any) -> Any:
    """The hint itself where it is a plain type, or optional; anything else is left unchecked."""
    optional = get_origin(hint) in (Union, types.UnionType)
    parts = [part for part in get_args(hint) if part is not type(None)] if optional else [hint]
    if len(parts) != 1 or parts[0] not in _PLAIN:
        return Any
    return parts[0] | None if optional else hint
