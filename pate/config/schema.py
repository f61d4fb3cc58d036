"""Schemas: what each YAML may say and of which type, taken from the dataclasses that it configures."""

from __future__ import annotations

import dataclasses
import types
from dataclasses import dataclass, field
from typing import Any, Union, get_args, get_origin, get_type_hints

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, OmegaConf

from pate.aggregators import (
    BoundaryMax,
    BoundaryTopK,
    CenteredVotes,
    ClippedVotes,
    ConfidentGNMax,
    ConfidentVotes,
    FixedTopK,
    GaussianVotes,
    GNMax,
    NotPriorTopK,
    PowersetGNMax,
    StableFixedTopK,
    StableTopK,
)
from pate.config.choices import choices

_PLAIN = (str, int, float, bool)
_AGGREGATORS: dict[str, type] = {
    "stable_top_k": StableTopK,
    "stable_top_k_fixed": StableFixedTopK,
    "stable_top_k_boundary": BoundaryTopK,
    "stable_top_k_not_prior": NotPriorTopK,
    "boundary_max": BoundaryMax,
    "peeling": FixedTopK,
    "gaussian_votes": GaussianVotes,
    "centered_votes": CenteredVotes,
    "confident_votes": ConfidentVotes,
    "clipped_votes": ClippedVotes,
    "powerset_gnmax": PowersetGNMax,
    "gnmax": GNMax,
    "confident_gnmax": ConfidentGNMax,
}
_SET_ELSEWHERE = {"aggregator": ("adjacency", "span")}


@dataclass
class SharedConfig:
    """What all commands share.

    Attributes:
        adjacency: replace_one or add_remove.
        target_delta: in (0, 1).
        num_queries: Q.
        allowed_targets: prefixes that `_target_` may begin with, beside pate. and sklearn.
    """

    aggregator: Any = MISSING
    accountant: Any = MISSING
    adjacency: str = "replace_one"
    target_delta: float = 1e-6
    num_queries: int = 600
    target_epsilon: float | None = None
    allowed_targets: list[str] = field(default_factory=list)


@dataclass
class TrainConfig(SharedConfig):
    """pate-train.

    Attributes:
        max_epsilon: ask only as many queries as this pays for; a target_epsilon that is only the default gives way.
        seed: None draws noise from the operating system.
        output_dir: None names the folder after the settings.
    """

    data: Any = MISSING
    teacher: Any = MISSING
    engine: Any = MISSING
    student: Any = MISSING
    max_epsilon: float | None = None
    seed: int | None = None
    output_dir: str | None = None


@dataclass
class AccountConfig(SharedConfig):
    """pate-account.

    Attributes:
        num_labels: L.
        num_teachers: T.
        max_epsilon: solve for the number of queries that it pays for, in place of num_queries.
        accountants: all, or a list of names: their prices side by side.
        write_table: write the stability test's table here.
        votes: a file of public or synthetic votes, to plan a session of charged calls on.
        prior: a file of the sets of labels that such votes are compared with.
        format: text or json.
    """

    num_labels: int = 40
    num_teachers: int = 400
    max_epsilon: float | None = None
    accountants: Any = None
    write_table: str | None = None
    votes: str | None = None
    prior: str | None = None
    format: str = "text"


@dataclass
class AuditConfig:
    """pate-audit.

    Attributes:
        votes: the file.
        layout: auto, or one of teacher_votes, histogram, classes, pairs.
        num_teachers: N, where the file does not say.
        aggregator: the one on top; None for the plain one.
        noise_std: of the release that was made, for all aggregators that have it; the other parameters likewise.
        format: text or json.
    """

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
    """pate-compare.

    Attributes:
        aggregators: names of the groups aggregator and experiment, each with @ and a number of teachers, or without.
        epsilons: the budgets.
        seeds: how many, or a list.
        ensemble_seed: of partition and teachers.
        metric: of the frontier.
        shares: goals, shares of the non-private student's gain over the prior.
        num_workers: None for one a core.
        output_dir: None names the folder after the settings.
    """

    data: Any = MISSING
    teacher: Any = MISSING
    engine: Any = MISSING
    accountant: Any = MISSING
    student: Any = MISSING
    aggregators: Any = MISSING
    epsilons: Any = MISSING
    seeds: Any = 5
    ensemble_seed: int = 0
    metric: str = "micro_f1"
    shares: Any = MISSING
    num_workers: int | None = None
    adjacency: str = "replace_one"
    target_delta: float = 1e-6
    num_queries: int = 600
    allowed_targets: list[str] = field(default_factory=list)
    output_dir: str | None = None


COMMANDS: dict[str, type] = {
    "train": TrainConfig,
    "account": AccountConfig,
    "audit": AuditConfig,
    "compare": CompareConfig,
}


def register_configs(*, training: bool = True) -> None:
    """Makes the schemas known to Hydra, under the group `schema`; without training, torch is not loaded."""
    OmegaConf.register_new_resolver("choices", choices, replace=True)  # for --help
    store = ConfigStore.instance()
    for name, command in COMMANDS.items():
        store.store(group="schema", name=name, node=command)
    for group, classes in (groups() if training else {"aggregator": _AGGREGATORS}).items():
        for name, cls in classes.items():
            extra: list[tuple[str, Any, Any]] = [_number_of(cls)] if group == "teacher" else []
            node = schema_of(cls, without=_SET_ELSEWHERE.get(group, ()), extra=extra)
            store.store(group=f"schema/{group}", name=name, node=node)


def _number_of(teacher: type) -> tuple[str, Any, Any]:
    """How many teachers; of kernel teachers by default one for each private group."""
    from pate.teachers import KernelTeacher

    return ("num_teachers", int | None, None) if teacher is KernelTeacher else ("num_teachers", int, 400)


def groups() -> dict[str, dict[str, type]]:
    """The classes behind each group, by the name of their schema."""
    from pate.data import CelebA, DigitsGrid, SynthFaces, WordNet40, Yeast
    from pate.student import CNNStudent, LinearStudent, LowRankStudent, MLPStudent, ResNet50Student
    from pate.teachers import (
        CNNTeacher,
        KernelTeacher,
        LinearTeacher,
        MLPTeacher,
        ProcessesEngine,
        RayEngine,
        ResNet50Teacher,
        SequentialEngine,
        SklearnTeacher,
        StackedEngine,
    )

    return {
        "aggregator": _AGGREGATORS,
        "data": {
            "wordnet": WordNet40,
            "digits_grid": DigitsGrid,
            "yeast": Yeast,
            "celeba": CelebA,
            "synth_faces": SynthFaces,
        },
        "teacher": {
            "cnn": CNNTeacher,
            "kernel": KernelTeacher,
            "linear": LinearTeacher,
            "mlp": MLPTeacher,
            "resnet50": ResNet50Teacher,
            "sklearn": SklearnTeacher,
        },
        "engine": {
            "sequential": SequentialEngine,
            "processes": ProcessesEngine,
            "ray": RayEngine,
            "stacked": StackedEngine,
        },
        "student": {
            "cnn": CNNStudent,
            "linear": LinearStudent,
            "low_rank": LowRankStudent,
            "mlp": MLPStudent,
            "resnet50": ResNet50Student,
        },
    }


def schema_of(cls: type, *, without: tuple[str, ...] = (), extra: list[tuple[str, Any, Any]] | None = None) -> type:
    """A dataclass with the same fields, typed where OmegaConf knows the type, and `_target_`."""
    hints = get_type_hints(cls)
    fields: list[tuple[str, Any, Any]] = [
        ("_target_", str, f"{cls.__module__}.{cls.__qualname__}"),
        *(extra or []),
    ]
    for item in dataclasses.fields(cls):
        if item.init and item.name not in without:
            fields.append((item.name, _config_type(hints[item.name]), _default(item)))
    return dataclasses.make_dataclass(f"{cls.__name__}Config", fields)


def _default(item: dataclasses.Field[Any]) -> Any:
    if item.default is not dataclasses.MISSING:
        return item.default
    return MISSING


def _config_type(hint: Any) -> Any:
    """The hint itself where it is a plain type, or optional; anything else is left unchecked."""
    if hint in _PLAIN:
        return hint
    if get_origin(hint) in (Union, types.UnionType):
        parts = [part for part in get_args(hint) if part is not type(None)]
        if len(parts) == 1 and parts[0] in _PLAIN:
            return parts[0] | None
    return Any
