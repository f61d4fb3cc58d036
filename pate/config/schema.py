"""Schemas of settings, by which Hydra knows keys and types.

Those of the commands are written here; the comments beside the same keys in `conf/` say what they are. Those of the
groups come from the classes: a YAML names its class by `_target_`, and the class knows its keys and their types.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Union, get_args, get_origin, get_type_hints

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, OmegaConf

from pate.config.location import choices, file_of
from pate.config.targets import TRUSTED_PREFIXES, is_within, kind_of_group, located

_PLAIN = (str, int, float, bool)
_SET_ELSEWHERE = {"aggregator": ("adjacency", "span"), "method": ("name", "adjacency")}
_TARGET = re.compile(r"^_target_: *['\"]?([\w.]+)", re.MULTILINE)
_NUM_TEACHERS = 400

Field = tuple[str, Any, Any]


@dataclass
class SharedConfig:
    """What all commands share."""

    aggregator: Any = MISSING
    accountant: Any = MISSING
    adjacency: str = "replace_one"
    target_delta: float = 1e-6
    num_queries: int = 600
    target_epsilon: float | None = None
    allow_useless: bool = False
    allowed_targets: list[str] = field(default_factory=list)


@dataclass
class TrainConfig(SharedConfig):
    """pate-train."""

    data: Any = MISSING
    features: Any = MISSING
    teacher: Any = MISSING
    engine: Any = MISSING
    student: Any = MISSING
    max_epsilon: float | None = None
    noise: str | None = None
    fewer_queries: bool | None = None
    all_records: bool | None = None
    ledger: str | None = None
    max_total_epsilon: float | None = None
    redraw: bool = False
    new_account: bool = False
    holders: int | None = None
    logger: str = "tensorboard"
    seed: int | None = None
    output_dir: str | None = None


@dataclass
class AccountConfig(SharedConfig):
    """pate-account."""

    num_labels: int = 40
    num_teachers: int = 400
    max_epsilon: float | None = None
    accountants: Any = None
    ledger: str | None = None
    write_table: str | None = None
    votes: str | None = None
    prior: str | None = None
    num_private: int | None = None
    lower_bound: bool = False
    suggest: bool = False
    format: str = "text"


@dataclass
class AuditConfig:
    """pate-audit."""

    votes: str = MISSING
    layout: str = "auto"
    num_teachers: int | None = None
    aggregator: Any = None
    noise_std: float | None = None
    screening_std: float | None = None
    threshold_share: float | None = None
    vote_clip: int | None = None
    max_size: int | None = None
    accountant: Any = MISSING
    adjacency: str = "replace_one"
    target_delta: float = 1e-6
    format: str = "text"
    allowed_targets: list[str] = field(default_factory=list)


@dataclass
class CompareConfig:
    """pate-compare."""

    data: Any = MISSING
    features: Any = MISSING
    teacher: Any = MISSING
    engine: Any = MISSING
    accountant: Any = MISSING
    student: Any = MISSING
    aggregators: Any = MISSING
    method: Any = None
    methods: list[str] = field(default_factory=list)
    epsilons: Any = MISSING
    seeds: Any = 5
    ensemble_seed: int = 0
    metric: str = "mean_average_precision"
    shares: Any = MISSING
    all_records: bool = True
    num_workers: int | None = None
    adjacency: str = "replace_one"
    target_delta: float = 1e-6
    num_queries: int = 600
    fewer_queries: bool | None = None
    allow_useless: bool = False
    allowed_targets: list[str] = field(default_factory=list)
    output_dir: str | None = None


@dataclass
class TableSchemaConfig:
    """pate-schema."""

    data: str = MISSING
    output: str = MISSING
    labels: list[str] = field(default_factory=list)
    group: str | None = None
    id: str | None = None
    split: Any = None
    drop: list[str] = field(default_factory=list)
    category: list[str] = field(default_factory=list)
    encoding: str = "utf-8"
    decimal: str | None = None
    thousands: str | None = None
    missing: list[str] = field(default_factory=list)
    label_separator: str | None = None
    seed: int = 0


@dataclass
class PredictConfig:
    """pate-predict."""

    release: str = MISSING
    data: str = MISSING
    output: str = MISSING
    id: str | None = None
    encoding: str = "utf-8"
    decimal: str | None = None
    thousands: str | None = None
    missing: list[str] = field(default_factory=list)


@dataclass
class VoteConfig:
    """pate-vote."""

    data: Any = MISSING
    features: Any = MISSING
    teacher: Any = MISSING
    engine: Any = MISSING
    holder: Any = MISSING
    holders: int | None = None
    queries: str | None = None
    num_queries: int | None = None
    cast: str = "bits"
    vote_clip: int | None = None
    question: str | None = None
    output: str = MISSING
    output_dir: str | None = None
    seed: int | None = None
    allowed_targets: list[str] = field(default_factory=list)


@dataclass
class ReleaseConfig:
    """pate-release."""

    votes: Any = MISSING
    sum: str | None = None
    roll: Any = None
    max_absent: int = 0
    mailbox: str | None = None
    wait: bool = True
    num_queries: int | None = None
    layout: str = "auto"
    num_teachers: int | None = None
    name: str = "votes"
    queries: str | None = None
    table_schema: str | None = None
    aggregator: Any = MISSING
    accountant: Any = MISSING
    student: Any = MISSING
    adjacency: str = "replace_one"
    target_delta: float = 1e-6
    target_epsilon: float | None = None
    noise: str | None = None
    allow_useless: bool = False
    ledger: str | None = None
    max_total_epsilon: float | None = None
    redraw: bool = False
    seed: int | None = None
    output_dir: str | None = None
    allowed_targets: list[str] = field(default_factory=list)


@dataclass
class StudentConfig:
    """pate-student."""

    release: str = MISSING
    queries: str | None = None
    table_schema: str | None = None
    data: Any = None
    features: Any = MISSING
    student: Any = MISSING
    output: str | None = None
    seed: int | None = None
    allowed_targets: list[str] = field(default_factory=list)


COMMANDS: dict[str, type] = {
    "train": TrainConfig,
    "account": AccountConfig,
    "audit": AuditConfig,
    "compare": CompareConfig,
    "predict": PredictConfig,
    "release": ReleaseConfig,
    "student": StudentConfig,
    "table_schema": TableSchemaConfig,
    "vote": VoteConfig,
}


GROUPS = ("aggregator", "data", "features", "teacher", "engine", "student")
"""The groups of `pate-train` whose members are classes with settings."""


class _Shared(dict[str, Any]):
    """What is stored while Hydra composes is seen by it, which works on a copy of all else."""

    def __deepcopy__(self, memo: Any) -> _Shared:
        return self


def register_configs(*, allowed: Iterable[str] = ()) -> None:
    """Makes the schemas known to Hydra: of the commands, and of a member's class as soon as the member is chosen.

    Args:
        allowed: modules whose classes may be loaded for that, beside pate and scikit-learn.
    """
    store, trusted = ConfigStore.instance().store, (*TRUSTED_PREFIXES, *allowed)
    ConfigStore.instance().repo["schema"] = _Shared()
    for name, command in COMMANDS.items():
        store(name, command, group="schema")

    def schema_for(group: str, choice: Any) -> str:
        """Stores the schema of a chosen member under `schema/GROUP`; a word that names none where there is not one."""
        if not isinstance(choice, str):
            return "none"
        store(choice, member_schema(group, choice, trusted), group=f"schema/{group}")
        return choice

    OmegaConf.register_new_resolver("choices", choices, replace=True)  # for --help
    OmegaConf.register_new_resolver("schema_for", schema_for, replace=True)  # for lists of defaults


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
    file = file_of(group, name)
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
