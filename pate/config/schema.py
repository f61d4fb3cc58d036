"""Schemas of the commands' settings, and how Hydra comes to know them and those of the classes behind the groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, OmegaConf

from pate.config.class_schema import member_schema
from pate.config.location import choices
from pate.config.targets import TRUSTED_PREFIXES


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
        noise: solve for a target, or take it as given; see `settle`, which puts one of them in the place of None.
        fewer_queries: ask a public pool whole that has less than num_queries; None where nobody named their number.
        all_records: train a model of all private records, the ceiling; None does where that does not take long.
        ledger: a file that all runs on the same records are charged to, beside the run's own; None for none.
        max_total_epsilon: what all of them may cost together.
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
    noise: str | None = None
    fewer_queries: bool | None = None
    all_records: bool | None = None
    ledger: str | None = None
    max_total_epsilon: float | None = None
    redraw: bool = False
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
        fewer_queries: as in `TrainConfig`.
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
    fewer_queries: bool | None = None
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


@dataclass
class VoteConfig:
    """pate-vote.

    Attributes:
        holder: the name of this place, or its number where records are dealt.
        holders: among how many places the records are dealt; None where all are this place's.
        queries: the file of the public samples; None for those of the data set.
        num_queries: how many of them are asked, the first ones; None for all.
        cast: bits or confidences.
        vote_clip: labels of a query that a teacher may vote for; None for all.
        question: of rounds, the file of pate-release that is answered; None for votes on queries.
        output: the vote file.
        output_dir: of partition and checkpoints; None for a folder beside the vote file.
        seed: None draws a secret from the operating system.
        allowed_targets: as in `SharedConfig`.
    """

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
    """pate-release.

    Attributes:
        votes: the files: a pattern, a name, or a list of them.
        sum: a file for the sum of these votes, in place of a release; later levels read it as votes.
        roll: of rounds, the holders and how many teachers each has; None for vote files.
        max_absent: how many of them may be absent in a round.
        mailbox: of rounds, the folder of questions and answers.
        wait: whether rounds wait for all holders.
        num_queries: of rounds, how many public samples the release is about; None for all.
        layout: of files of other projects, see `AuditConfig`.
        num_teachers: of each file, where it holds counts only.
        name: of the data, in files of other projects.
        queries: the public samples, for an aggregator that goes by a student's expectation.
        table_schema: of queries in a table.
        target_epsilon: what the release may cost.
        noise: as in `TrainConfig`.
        ledger: of all releases of these holders.
        max_total_epsilon: what they may cost together.
        redraw: draw again what was charged and is gone, at its price.
        seed: None draws noise from the operating system.
        output_dir: None names the folder after the settings.
    """

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
    """pate-student.

    Attributes:
        release: the folder that pate-release wrote, or its release/.
        queries: the file of the public samples.
        table_schema: of queries in a table.
        data: the data set whose public samples they are, in place of a file.
        output: a folder for the bundle; None for that of the release.
        seed: None makes one of the release.
        allowed_targets: as in `SharedConfig`.
    """

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
