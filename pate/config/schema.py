"""Schemas of the commands, and how those of the classes behind the groups are found beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING, OmegaConf

from pate.config.choices import choices
from pate.config.class_schema import store_command, store_schemas
from pate.config.classes import TRUSTED_PREFIXES
from pate.config.location import CONFIG_FOLDER
from pate.config.overlay import allowed_prefixes, own_folders
from pate.config.stage_schema import ReleaseConfig, StudentConfig, VoteConfig


@dataclass
class SharedConfig:
    """What all commands share.

    Attributes:
        adjacency: replace_one or add_remove.
        target_delta: in (0, 1).
        num_queries: Q.
        allow_useless: let a release pass that tells nothing.
        allowed_targets: modules that `_target_` may name a class of, beside pate. and sklearn.; of the command line
            alone.
    """

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
    """pate-train.

    Attributes:
        max_epsilon: ask only as many queries as this pays for; a target_epsilon that is only the default gives way.
        all_records: train a model of all private records, the ceiling; None does where that does not take long.
        ledger: a file that all runs on the same records are charged to, beside the run's own; None for none.
        max_total_epsilon: what all of them may cost together.
        new_account: give records an account of their own in `ledger` although another one knows some of them.
        redraw: draw a release again that was charged and is gone, with fresh noise and at its price.
        holders: among how many holders the teachers are spread, for the privacy card; None for one.
        seed: None draws noise from the operating system.
        output_dir: None names the folder after the settings.
        logger: tensorboard keeps curves in the run's folder, mlflow sends what release/ holds to a server, or none.
    """

    data: Any = MISSING
    features: Any = MISSING
    teacher: Any = MISSING
    engine: Any = MISSING
    student: Any = MISSING
    max_epsilon: float | None = None
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
    """pate-account.

    Attributes:
        num_labels: L.
        num_teachers: T.
        max_epsilon: solve for the number of queries that it pays for, in place of num_queries.
        accountants: all, or a list of names: their prices side by side.
        ledger: of several runs: what is left of its cap, and what that buys.
        write_table: write the stability test's table here.
        votes: a file of public or synthetic votes, to plan a session of charged calls on.
        prior: a file of the sets of labels that such votes are compared with.
        num_private: private groups, where they are known: what teachers are dealt, and what delta is held against.
        lower_bound: search neighbors whose exact laws show what epsilon is at least.
        suggest: search teachers and queries for the best release at the target.
        format: text or json.
    """

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
        method: one of the group, with settings of its own.
        methods: names of the group: what would be taken in place of PATE.
        epsilons: the budgets.
        seeds: how many, or a list.
        ensemble_seed: of partition and teachers.
        metric: of the frontier.
        shares: goals, shares of the way from a constant to the ceiling.
        all_records: train the ceiling, a model of all private records.
        num_workers: None for one per core.
        allow_useless: run what tells nothing, too.
        output_dir: None names the folder after the settings.
    """

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
    allow_useless: bool = False
    allowed_targets: list[str] = field(default_factory=list)
    output_dir: str | None = None


@dataclass
class TableSchemaConfig:
    """pate-schema.

    Attributes:
        data: the file of the public records.
        output: the file to write.
        labels: columns that are no features, like group, id, split and drop.
        category: columns of codes, each value a category.
        encoding: of a CSV file.
        decimal: point or comma, of text.
        thousands: what stands between thousands, of text.
        missing: words that are missing cells.
        label_separator: where one of `labels` names all labels of a record.
        seed: of the dealing, where split gives two shares.
    """

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
    """pate-predict.

    Attributes:
        release: the folder of a bundle.
        data: the records: a table, a folder of pictures, or an array.
        output: the file to write.
        id: a column that names the records; None for their numbers.
        encoding: of a CSV file.
        decimal: point or comma, of text; None for that of the public file, like the next two.
        thousands: what stands between thousands.
        missing: words that are missing cells.
    """

    release: str = MISSING
    data: str = MISSING
    output: str = MISSING
    id: str | None = None
    encoding: str = "utf-8"
    decimal: str | None = None
    thousands: str | None = None
    missing: list[str] = field(default_factory=list)


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

_OF_A_COMPARISON = "method"


def register_configs(*, training: bool = True, words: Sequence[str] = ()) -> None:
    """Makes the schemas known to Hydra: of the commands, and of every member's class, under the group `schema`.

    Args:
        training: whether more than aggregators is configured; without, torch is not loaded.
        words: of the command line, which may name a folder of one's own by `--config-dir`.
    """
    OmegaConf.register_new_resolver("choices", choices, replace=True)  # for --help
    OmegaConf.register_new_resolver("one", _one, replace=True)
    for name, command in COMMANDS.items():
        store_command(name, command)
    folders = (CONFIG_FOLDER, *own_folders(words))
    trusted = (*TRUSTED_PREFIXES, *allowed_prefixes(words))
    store_schemas((*GROUPS, _OF_A_COMPARISON) if training else GROUPS[:1], folders, trusted)


def _one(choice: Any) -> str:
    """The chosen member of a group, for which there is a schema; a word that names none where there is not one."""
    return choice if isinstance(choice, str) else "none"
