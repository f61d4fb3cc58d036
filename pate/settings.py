"""The settings of every command, each named once: its type, its default, its help, and what else depends on it.

A command's schema in Hydra, the section `Settings` of its help, what a run's folder compares and what a release
publishes come from these classes. To add a setting, add a field here and use it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from pate.validation import require, require_choice

_FORMAT = "text, or json: one object on the last line"
_DATE_ORDER = (
    "the order of dates where the file does not say it, as 04.03.2024 does not: dmy, mdy or ymd"
)
_LIKE_THE_PUBLIC_FILE = "as in the public file by default"


def setting(
    default: Any,
    help_text: str,
    *,
    beside_release: bool = False,
    published: bool = False,
    is_path: bool = False,
    is_name: bool = False,
) -> Any:
    """Returns the field of a setting.

    Args:
        default: the value where nothing is said; a list is copied. `MISSING` where one has to be said.
        help_text: for `--help`; it begins in lower case, and ends without a full stop.
        beside_release: whether the release does not depend on it, or the votes of `pate-vote`, so that a run goes on
            in its folder with another value.
        published: whether its value may stand in a release's `config.yaml`.
        is_path: whether it names a file or folder, of which every spelling is taken as it is.
        is_name: whether its words are names, such as of columns, also where they look like numbers.
    """
    metadata = {
        "help": help_text,
        "beside_release": beside_release,
        "published": published,
        "is_path": is_path,
        "is_name": is_name,
    }
    if default is MISSING:
        return field(metadata=metadata)
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Targets:
    """Settings of which classes a configuration may name."""

    allowed_targets: list[str] = setting(
        [], "modules of your own whose classes a _target_ may name, such as '[my_module.]'"
    )


@dataclass(frozen=True, kw_only=True)
class PartSettings(Targets):
    """Settings that an aggregator is made with."""

    adjacency: str = setting(
        "replace_one",
        "replace_one (one record changes) or add_remove (one teacher is added or removed)",
        published=True,
    )


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """Settings of what a price is for."""

    target_delta: float = setting(
        1e-6,
        "the delta of the guarantee, well below one over the number of private records",
        published=True,
    )


@dataclass(frozen=True, kw_only=True)
class GuardedSettings(Guarantee):
    """Settings of a release that is refused where it would tell nothing."""

    allow_useless: bool = setting(
        False,
        "true allows a plan that the guard refuses because its release would tell nothing",
        beside_release=True,
    )


@dataclass(frozen=True, kw_only=True)
class AskingSettings(GuardedSettings):
    """Settings of a release of which somebody says how many queries are asked."""

    num_queries: int = setting(
        600,
        "how many public samples the teachers vote on, the first ones; all, if there are fewer",
        published=True,
    )


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings(GuardedSettings):
    """Settings of a release of private records, wherever its votes come from, and of what it is charged to.

    A plan of such a release in Python has the same.
    """

    target_epsilon: float | None = setting(
        8.0,
        "what the release may cost: the noise follows from it; in pate-train 36.0 for stable_top_k_boundary",
        published=True,
    )
    ledger: Path | str | None = setting(
        None,
        "the file that all releases of the same private records are charged to. By default the one that the run began "
        "with, and for a new run ledger.db in the folder that its output_dir lies in, such as outputs/ledger.db. A run "
        "under another adjacency or delta has a ledger of its own beside that, and the two cannot be added up",
        beside_release=True,
        is_path=True,
    )
    max_total_epsilon: float | None = setting(
        None,
        "what all releases in that ledger may cost together on these records. One that does not fit ends before "
        "anything is trained. The cap holds even if you look at earlier releases before you choose the next",
        beside_release=True,
    )
    redraw: bool = setting(
        False,
        "true replaces a lost release by a new one with fresh noise, which costs its price a second time",
        beside_release=True,
    )
    seed: int | None = setting(
        None, "makes the run reproducible; the noise then protects nobody who knows the seed"
    )


@dataclass(frozen=True, kw_only=True)
class BudgetSettings(ReleaseSettings):
    """Settings of what a run may cost, in other words than one epsilon for everybody."""

    max_epsilon: float | None = setting(
        None,
        "beside noise=given: asks only as many queries as this pays for",
        published=True,
    )
    budgets: Any = setting(
        None,
        "with data.budget=COLUMN: what its words mean, {cautious: 1, usual: 4}; by default they are epsilons",
    )


@dataclass(frozen=True, kw_only=True)
class RunSettings(AskingSettings, BudgetSettings):
    """Settings of a run, from private records to a student: a plan in Python has the same."""

    fewer_queries: bool = setting(
        True, "false refuses a public pool of fewer samples than num_queries", beside_release=True
    )
    new_account: bool = setting(
        False,
        "true gives records an account of their own in the ledger although another one there knows some of them: no "
        "epsilon then counts what both have cost these people",
        beside_release=True,
    )
    holders: int | None = setting(
        None,
        "among how many holders of records the teachers are spread, as with pate-vote holders=; the privacy card then "
        "says whom the price covers",
    )
    all_records: bool | None = setting(
        None,
        "false leaves out the model of all private records, which the report takes as the ceiling; by default it is "
        "trained unless that takes long",
        beside_release=True,
    )


@dataclass(frozen=True, kw_only=True)
class FolderSettings(PartSettings):
    """Settings of commands that leave a release in a folder."""

    output_dir: str | None = setting(
        None,
        "the run's folder, of which you may publish release/; by default named after the settings",
        beside_release=True,
        is_path=True,
    )


@dataclass(frozen=True, kw_only=True)
class NoiseSettings(ReleaseSettings):
    """Settings of commands that release something; in Python `target_epsilon=None` takes the noise as it is."""

    noise: str = setting(
        "solved",
        "solved makes the aggregator's noise meet target_epsilon; given takes it as it is, and no target_epsilon",
        beside_release=True,
    )

    def __post_init__(self) -> None:
        require_choice("noise", self.noise, ("solved", "given"))
        rule = (
            "an epsilon > 0, or noise=given beside it, which takes the aggregator's noise as it is"
        )
        is_met = self.noise == "given" or self.target_epsilon is not None
        require(is_met, "target_epsilon", self.target_epsilon, rule)

    @property
    def solved_epsilon(self) -> float | None:
        """Returns the epsilon that noise is solved for; None where noise is given."""
        return None if self.noise == "given" else self.target_epsilon


@dataclass(frozen=True, kw_only=True)
class TrainSettings(RunSettings, NoiseSettings, FolderSettings):
    """Settings of `pate-train` beside its parts."""

    logger: str = setting(
        "tensorboard",
        "tensorboard (curves in the run's folder), none, or mlflow (extra mlflow). MLflow logs only what release/ "
        "holds, in the run's folder or on the server that MLFLOW_TRACKING_URI names",
        beside_release=True,
    )
    data_dependent: bool = setting(
        False,
        "true adds to the report what the release cost on the votes at hand, as the 2018 PATE paper counts: no "
        "guarantee, and as private as the votes",
        beside_release=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        rule = "noise=given beside it, and with that noise it asks only as many queries as this pays for"
        is_met = self.max_epsilon is None or self.noise == "given"
        require(is_met, "max_epsilon", self.max_epsilon, rule)


@dataclass(frozen=True, kw_only=True)
class VotesOfOthers:
    """Settings of commands that read vote files of other projects."""

    layout: str = setting(
        "auto",
        "of vote files of other projects: auto, or teacher_votes [N, Q, L] (bits, confidences), histogram [Q, L], "
        "classes [Q, C] (one vote per teacher), pairs [Q, L, 2] (teachers against and for)",
    )
    num_teachers: int | None = setting(
        None, "how many teachers voted: needed if a file holds a histogram, checked otherwise"
    )


@dataclass(frozen=True, kw_only=True)
class CollectSettings(VotesOfOthers, NoiseSettings, FolderSettings):
    """Settings of `pate-release` beside its parts."""

    votes: Any = setting(MISSING, "a pattern in quotes, a file, or a list of files", is_path=True)
    sum: str | None = setting(
        None,
        "a file: adds the votes up and writes their sum there, in place of a release. A later pate-release reads such "
        "sums as votes=, and gives the same release as from all votes",
        is_path=True,
    )
    roll: Any = setting(
        None,
        "in place of votes, for centered_votes in rounds: the holders that are asked with their teachers, "
        "{NAME: TEACHERS, …}",
    )
    mailbox: str | None = setting(
        None,
        "with roll=: the folder where questions to holders and their answers go; each call goes on as far as there "
        "are answers",
        beside_release=True,
        is_path=True,
    )
    max_absent: int = setting(0, "with roll=: how many holders a round may go without")
    wait: bool = setting(
        True,
        "with roll=: false goes on without those that have not answered, as long as max_absent allows it",
        beside_release=True,
    )
    num_queries: int | None = setting(
        None,
        "with roll=: how many of the public samples are labeled, the first ones; by default all",
        published=True,
    )
    name: str = setting(
        "votes", "what the data of vote files of other projects are called where it is published"
    )
    queries: str | None = setting(
        None,
        "the public samples, for stable_top_k_not_prior, which compares votes with a student's predictions: "
        "student=NAME is that student",
        is_path=True,
    )
    table_schema: str | None = setting(
        None, "of queries in a table: the file that pate-schema wrote", is_path=True
    )


@dataclass(frozen=True, kw_only=True)
class CompareSettings(AskingSettings, PartSettings):
    """Settings of `pate-compare` beside its parts."""

    aggregators: Any = setting(
        [
            "centered_votes",  # one teacher per private group
            "centered_votes_400",  # convex teachers
            "centered_votes@400",  # kernel teachers of as many records
            "peeling@1000",
            "stable_top_k@2000",
            "stable_top_k_gumbel@2000",
            "stable_top_k_table@400",
            "stable_top_k_table@2000",
            "stable_top_k_fixed@1000",
            "stable_top_k_boundary@2000",
            "stable_top_k_not_prior@1000",
            "gaussian_votes@400",
            "gaussian_votes@2000",
            "clipped_votes@1000",
            "confident_votes@1000",
            "powerset_gnmax@400",
        ],
        "a list of the names above; NAME@T for T teachers; an experiment brings its own teachers and student, and "
        "goes before an aggregator of the same name, which is aggregator:NAME",
    )
    methods: list[str] = setting(
        [],
        "a list of the names above: alternatives to PATE, priced for the same unit; method=NAME is one of them with "
        "settings of its own: method.batch_size=2048",
    )
    fewer_queries: bool = setting(
        True, "false refuses a public pool of fewer samples than num_queries"
    )
    epsilons: Any = setting(
        [0.1, 0.25, 0.5, 1, 2, 3.6, 8],
        "the budgets; the table marks an aggregator that cannot meet one of them",
    )
    seeds: Any = setting(5, "how many seeds of noise and student, or a list of them")
    ensemble_seed: int = setting(
        0, "the seed of the partition and the teachers, which are trained once"
    )
    metric: str = setting(
        "mean_average_precision",
        "what the frontier shows: accuracy, balanced_accuracy, micro_f1, macro_f1, mean_average_precision",
    )
    shares: Any = setting(
        [0.5, 0.8],
        "for each share, a table says from which epsilon on a method closes that share of the gap between a constant "
        "and the model of all records",
    )
    all_records: bool = setting(True, "false where a model of all private records takes too long")
    num_workers: int | None = setting(None, "processes; as many as there are cores unless given")
    output_dir: str | None = setting(
        None,
        "where the folder goes; by default named after data, queries, delta and adjacency",
        is_path=True,
    )


@dataclass(frozen=True, kw_only=True)
class AccountSettings(AskingSettings, PartSettings):
    """Settings of `pate-account` beside its parts."""

    num_labels: int = setting(40, "how many labels a query has")
    num_teachers: int = setting(400, "how many teachers vote")
    target_epsilon: float | None = setting(None, "solve for the noise that meets it")
    budgets: Any = setting(
        None,
        "in place of target_epsilon: classes of groups, {cautious: 1, usual: 4} or [1,4], and the price of each",
    )
    max_epsilon: float | None = setting(
        None, "solve for the number of queries that it pays for, in place of num_queries"
    )
    accountants: Any = setting(
        None, "all, or a list such as '[rdp,exact]': their prices side by side"
    )
    ledger: str | None = setting(
        None,
        "the file of pate-train ledger=…: for each data set, what was spent and what is left, how many releases like "
        "this one fit, and the largest target_epsilon that fits. With nothing else named: all charges",
        is_path=True,
    )
    write_table: str | None = setting(
        None,
        "a file for the table of the stability test: its probabilities as exact integers, and their price",
        is_path=True,
    )
    votes: str | None = setting(
        None,
        "public or synthetic votes (.npy, .npz): counts the hits that a session has on them",
        is_path=True,
    )
    data_dependent: bool = setting(
        False,
        "true adds what the release would cost on these votes, as the 2018 PATE paper counts: no guarantee",
    )
    prior: str | None = setting(
        None,
        "a file of the label sets that stable_top_k_not_prior compares them with, bool [Q, L]",
        is_path=True,
    )
    num_private: int | None = setting(
        None,
        "how many private groups there are: how many teachers are possible, and whether delta is small enough",
    )
    suggest: bool = setting(
        False,
        "true searches for numbers of teachers and queries with the best release at target_epsilon",
    )
    lower_bound: bool = setting(
        False, "true adds a lower bound of epsilon: what two neighboring histograms give away"
    )
    format: str = setting("text", f"{_FORMAT}; jsonl beside ledger= alone: a line for each charge")


@dataclass(frozen=True, kw_only=True)
class AttackSettings(AskingSettings, PartSettings):
    """Settings of `pate-attack` beside its parts."""

    target_epsilon: float | None = setting(
        2.0, "the price that is printed; null takes the noise as it is"
    )
    num_canaries: int | None = setting(
        None,
        "records, or teachers, in each run whose place a secret coin fills with one of two variants; by default 1000, "
        "or as many as there is room for, or fewer teachers that tell more",
    )
    num_runs: int = setting(
        4, "rehearsals, each with coins and noise of its own; more of them refute more"
    )
    num_teachers: int = setting(
        4000, "where canaries are teachers: with all aggregators but centered_votes"
    )
    confidence: float = setting(0.95, "of the refutation")
    sabotage: str | None = setting(
        None,
        "noise (a tenth of it), clip (not applied), charge (half), features (fitted on private records), seed (shared "
        "between runs): breaks the release on purpose, to see that the attack notices",
    )
    seed: int | None = setting(None, "of coins and noise; null draws from the operating system")
    format: str = setting("text", _FORMAT)


@dataclass(frozen=True, kw_only=True)
class AuditSettings(VotesOfOthers, Guarantee, PartSettings):
    """Settings of `pate-audit` beside its parts."""

    votes: str = setting(MISSING, "an .npy, .npz or .csv file, or a run's votes.npz", is_path=True)
    noise_std: float | None = setting(
        None, "of the release that was made, as the four below, for every aggregator that has them"
    )
    screening_std: float | None = setting(None, "the noise of its screening")
    threshold_share: float | None = setting(None, "the share of teachers that it asked for")
    vote_clip: int | None = setting(None, "the most labels of a query that a teacher voted for")
    max_size: int | None = setting(None, "the most labels of a set that was chosen whole")
    data_dependent: bool = setting(
        False,
        "true adds what gnmax, confident_gnmax, gaussian_votes or confident_votes cost on these votes, as the 2018 "
        "PATE paper counts: private like the votes, and no guarantee",
    )
    format: str = setting("text", _FORMAT)


@dataclass(frozen=True, kw_only=True)
class VoteSettings(Targets):
    """Settings of `pate-vote` beside its parts."""

    holder: Any = setting(
        MISSING,
        "the name of this place, which no other has; a number from 1 beside holders=. The aggregator refuses a name "
        "that comes twice",
    )
    queries: str | None = setting(
        None,
        "the public samples, the same file at every place: an .npz with `inputs` and `ids`, or with data=table a "
        "table, to be read by the same data.schema= at every place; by default the data set's own",
        beside_release=True,
        is_path=True,
    )
    num_queries: int | None = setting(
        None, "how many of them are asked, the first ones; by default all"
    )
    cast: str = setting(
        "bits",
        "bits, or confidences (32 times the bytes): what centered_votes reads, and by which clipped_votes chooses each "
        "teacher's surest votes",
    )
    vote_clip: int | None = setting(
        None,
        "the most labels of a query that a teacher votes for, its surest ones: for clipped_votes",
    )
    question: str | None = setting(
        None,
        "a question file of pate-release roll=…, which holds the samples. Write the answer to output=HOLDER.npz, and "
        "give all questions of a release the same output_dir=",
        beside_release=True,
        is_path=True,
    )
    output: str = setting(MISSING, "the vote file", beside_release=True, is_path=True)
    output_dir: str | None = setting(
        None,
        "partition and teachers, which stay here; by default beside the vote file, as NAME.work",
        beside_release=True,
        is_path=True,
    )
    holders: int | None = setting(
        None,
        "to try many places on one machine: deals the private records of one data set to that many places by seed=. "
        "pate-train with all teachers, the same seed and holders= then releases the same bytes",
    )
    seed: int | None = setting(None, "the seed of partition and teachers; votes carry no noise")


@dataclass(frozen=True, kw_only=True)
class StudentSettings(Targets):
    """Settings of `pate-student` beside its parts."""

    release: str = setting(
        MISSING, "the folder that pate-release wrote, or its release/", is_path=True
    )
    queries: str | None = setting(
        None,
        "the file of public samples that the teachers answered, the same samples in the same order; or data=NAME, the "
        "data set whose public samples were asked",
        is_path=True,
    )
    table_schema: str | None = setting(
        None, "the file that pate-schema wrote, if the queries are a table", is_path=True
    )
    output: str | None = setting(
        None, "a folder for the bundle; by default release/ itself", is_path=True
    )
    seed: int | None = setting(
        None, "the seed of the training; by default it follows from the release"
    )


@dataclass(frozen=True, kw_only=True)
class PredictSettings:
    """Settings of `pate-predict`."""

    release: str = setting(
        MISSING, "the folder release/ of a finished run, or a copy of it", is_path=True
    )
    data: str = setting(
        MISSING,
        "a table with the columns of the public file, in any order, as .csv, .csv.gz, .tsv, .parquet, .feather or "
        ".arrow; a folder of pictures; or an array of the model's inputs, as .npy or .npz",
        is_path=True,
    )
    output: str = setting(
        MISSING, "the .csv file to write; one that is there is replaced", is_path=True
    )
    id: str | None = setting(
        None, "a column that names the records; else they have numbers from 1", is_name=True
    )
    encoding: str = setting(
        "utf-8", "the encoding of a CSV file that is not UTF-8, such as cp1252 or latin-1"
    )
    decimal: str | None = setting(
        None, f"comma if numbers read 3,5, point if 3.5; {_LIKE_THE_PUBLIC_FILE}"
    )
    thousands: str | None = setting(
        None,
        f"what stands between thousands, one of . , ' _ or a blank; {_LIKE_THE_PUBLIC_FILE}",
    )
    missing: list[str] = setting(
        [],
        "words that are missing cells, such as [?,-]; by default those of the public file",
        is_name=True,
    )
    date_order: str | None = setting(
        None, f"the order of dates in numbers: dmy, mdy or ymd; {_LIKE_THE_PUBLIC_FILE}"
    )
    first_year: int | None = setting(
        None, "the earliest year that two digits of dates mean; by default as for the public file"
    )


@dataclass(frozen=True, kw_only=True)
class TableSchemaSettings:
    """Settings of `pate-schema`."""

    data: str = setting(
        MISSING,
        "the file of the public records: .csv, .csv.gz, .tsv, .parquet, .feather or .arrow",
        is_path=True,
    )
    output: str = setting(MISSING, "the file to write; one that is there is kept", is_path=True)
    labels: list[str] = setting(
        [],
        "columns that are no features, as group, id and drop, all as in pate-train; a run takes them, label_separator "
        "and encoding from the schema's file, where its command names none",
        is_name=True,
    )
    group: str | None = setting(
        None, "the column that says whose records belong together", is_name=True
    )
    id: str | None = setting(None, "the column that names the records", is_name=True)
    drop: list[str] = setting([], "columns that are left out", is_name=True)
    category: list[str] = setting(
        [],
        "columns of codes, such as numbers of departments: each value becomes a category",
        is_name=True,
    )
    text: list[str] = setting(
        [],
        "columns of free text: what makes numbers of them is written beside the schema",
        is_name=True,
    )
    split: Any = setting(
        None,
        "where one file holds all records: its column that says private, public or test; or two shares, such as "
        ".1,.1, of the groups that are dealt to the public and the test part",
    )
    seed: int = setting(0, "of that dealing: the same seed deals the same way")
    encoding: str = setting(
        "utf-8", "the encoding of a CSV file that is not UTF-8, such as cp1252 or latin-1"
    )
    decimal: str | None = setting(None, "comma if numbers read 3,5; point by default")
    thousands: str | None = setting(
        None, "what stands between thousands, one of . , ' _ or a blank; nothing by default"
    )
    missing: list[str] = setting([], "words that are missing cells, such as [?,-]", is_name=True)
    date_order: str | None = setting(None, _DATE_ORDER)
    first_year: int | None = setting(
        None, "the earliest year that two digits of dates mean: 1930 makes 45 1945 and 22 2022"
    )
    label_separator: str | None = setting(
        None,
        "what stands between labels where one column of labels names them all, such as flu;cough",
    )


SETTINGS_OF_COMMAND: dict[str, type] = {
    "account": AccountSettings,
    "attack": AttackSettings,
    "audit": AuditSettings,
    "compare": CompareSettings,
    "predict": PredictSettings,
    "release": CollectSettings,
    "student": StudentSettings,
    "table_schema": TableSchemaSettings,
    "train": TrainSettings,
    "vote": VoteSettings,
}
"""The settings of each command, by its name."""


def settings_of(command: str) -> tuple[Field[Any], ...]:
    """Returns the settings of a command, those that it shares with others first."""
    return fields(SETTINGS_OF_COMMAND[command])


def values_of(settings: Any, kind: type, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Returns the values of settings of a class by name, but some: to make a plan of them, which has the same names."""
    names = [item.name for item in fields(kind) if item.name not in without]
    return {name: getattr(settings, name) for name in names}


def names_with(mark: str, *commands: str) -> frozenset[str]:
    """Returns the names of settings that have a mark, such as `beside_release`, of some commands or of all."""
    return frozenset(
        item.name
        for command in commands or SETTINGS_OF_COMMAND
        for item in settings_of(command)
        if item.metadata[mark]
    )
