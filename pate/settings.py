"""The settings of the commands of this package: each one's name, type, default, help text and marks.

A mark says, for instance, whether a release publishes the setting, or whether its value is a path (`setting`).

Four things are made from these classes: a command's schema in Hydra, the section `Settings` of its help, the settings
that a run's folder compares, and those that a release publishes. To add a setting, add a field here, and use the field
in the command (`pate/cli/`) or in the part of the run (`pate/run/`) that needs it, which has the plan.

A class that commands share comes before their classes. Each command has one class, listed in `SETTINGS_OF_COMMAND`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from pate.package_commands import package_commands
from pate.validation import InvalidValue, require, require_choice

# A setting that may be one value, a list or a mapping of values. OmegaConf has no type for such a choice and takes
# anything; the command that reads the setting refuses all that it cannot use.
OneOrSeveral = Any

_FORMAT_HELP = "text, or json, which prints one object on the last line"
_DATE_ORDER_HELP = "the order of ambiguous dates such as 04.03.2024: dmy, mdy or ymd"
_LIKE_THE_PUBLIC_FILE = "by default as in the public file"


def setting(
    help_text: str,
    *,
    default: Any = MISSING,
    may_change_when_continued: bool = False,
    published: bool = False,
    is_path: bool = False,
    is_name: bool = False,
    is_text: bool = False,
) -> Any:
    """Returns the dataclass field of a setting.

    Args:
        help_text: the text that `--help` prints. It begins in lower case, and ends without a full stop.
        default: the value of the setting where the user sets none. A list is copied. Without a default the user has to
            set a value.
        may_change_when_continued: whether a run may be continued in its folder with another value. The folder compares
            all other settings, on which the release depends (for `pate-vote`: the votes).
        published: whether the value may stand in a release's `config.yaml`.
        is_path: whether the value is the path of a file or folder. Such a value stays text whatever it looks like, but
            for null and interpolations.
        is_name: whether the value is a name, such as the name of a column. Such a value stays text where it looks like
            a number.
        is_text: whether the value is free text, such as an address. It stays text as a path does, even with commas.
    """
    metadata = {
        "help": help_text,
        "may_change_when_continued": may_change_when_continued,
        "published": published,
        "is_path": is_path,
        "is_name": is_name,
        "is_text": is_text,
    }
    if default is MISSING:
        return field(metadata=metadata)
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The setting that lists the user's own modules whose classes a configuration may name."""

    allowed_targets: list[str] = setting(
        "your own modules, whose classes a _target_ may name, such as '[my_module.]'", default=[]
    )


@dataclass(frozen=True, kw_only=True)
class PartSettings(Targets):
    """The setting that the aggregator is built with beside those of its own configuration file: the adjacency."""

    adjacency: str = setting(
        "replace_one (one record changes) or add_remove (one teacher is added or removed)",
        default="replace_one",
        published=True,
    )


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The setting of the differential privacy guarantee for which a price (an epsilon) is computed: its delta."""

    target_delta: float = setting(
        "the delta of the guarantee, well below one over the number of private records",
        default=1e-6,
        published=True,
    )


@dataclass(frozen=True, kw_only=True)
class GuardedSettings(Guarantee):
    """The settings of a release that is checked for usefulness before it is drawn.

    A plan whose labels would be mostly noise is refused, unless the user allows it.
    """

    allow_useless: bool = setting(
        "true allows a plan that the guard refuses because its release would tell nothing",
        default=False,
        may_change_when_continued=True,
    )


@dataclass(frozen=True, kw_only=True)
class AskingSettings(GuardedSettings):
    """The settings of a release whose number of queries the user chooses."""

    num_queries: int = setting(
        "the number of public samples that the teachers vote on, the first ones; all of them if there are fewer",
        default=600,
        published=True,
    )


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings(GuardedSettings):
    """The settings of a release of labels from private records, and of the ledger that the release is charged to.

    `pate.run.release_terms.ReleaseTerms`, the plan of such a release in Python, has these fields and others.
    """

    target_epsilon: float | None = setting(
        "the epsilon that the release may cost; the noise is solved for it. For stable_top_k_boundary pate-train takes "
        "36.0 by default",
        default=8.0,
        published=True,
    )
    ledger: Path | str | None = setting(
        "the file that all releases of the same private records are charged to. By default it is ledger.db in the "
        "folder that output_dir lies in, such as outputs/ledger.db; a run that is continued keeps the file that it "
        "began with. Runs under another adjacency or delta have a second file, and the two cannot be added up",
        default=None,
        may_change_when_continued=True,
        is_path=True,
    )
    max_total_epsilon: float | None = setting(
        "a cap on the epsilon of all releases of these records in the ledger. A release that does not fit ends before "
        "anything is trained. The cap holds even if you look at earlier releases before you choose the next",
        default=None,
        may_change_when_continued=True,
    )
    redraw: bool = setting(
        "true replaces a lost release by a new release with fresh noise, which is charged a second time",
        default=False,
        may_change_when_continued=True,
    )
    seed: int | None = setting(
        "a number that makes the run reproducible; the noise then protects nobody from those who know the seed",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class BudgetSettings(ReleaseSettings):
    """The settings of a run's privacy budget, which may differ between groups of records."""

    max_epsilon: float | None = setting(
        "with noise=given, the epsilon that the run may cost: only as many queries are asked as it pays for",
        default=None,
        published=True,
    )
    target_mu: float | None = setting(
        "in place of target_epsilon, the mu of a Gaussian release that would hide a person as well. It is for "
        "aggregators whose release cannot fail, such as centered_votes and gaussian_votes",
        default=None,
    )
    budgets: OneOrSeveral = setting(
        "with data.budget=COLUMN, the epsilon of each word in that column, such as {cautious: 1, usual: 4}; by default "
        "the words are numbers, and mean themselves",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class RunSettings(AskingSettings, BudgetSettings):
    """The settings of a run that trains teachers on private records and a student on their noisy labels.

    `pate.run.plan.Plan`, the plan of such a run in Python, has these fields and others.
    """

    fewer_queries: bool = setting(
        "false refuses a public pool that has fewer samples than num_queries",
        default=True,
        may_change_when_continued=True,
    )
    new_account: bool = setting(
        "true gives the records an account of their own although another account of the ledger knows some of these "
        "people; no epsilon then counts what both accounts have cost them",
        default=False,
        may_change_when_continued=True,
    )
    start: Path | str | None = setting(
        "the folder release/ of an earlier release of other people, which the student goes on from: the model of last "
        "year, for centered votes in rounds. It costs nothing, and nobody pays twice who is not in both",
        default=None,
        is_path=True,
    )
    holders: int | None = setting(
        "the number of holders of records that the teachers are spread over, as with pate-vote holders=; the privacy "
        "card then says whom the price covers",
        default=None,
    )
    score_epsilon: float | None = setting(
        "an epsilon for scores of the student on the test records, which may then be published: micro-F1, accuracy, "
        "macro-F1, mean average precision and calibration error, with intervals. The people in the test records pay "
        "it, and nobody else; by default no score is published",
        default=None,
    )
    score_groups: OneOrSeveral = setting(
        "with score_epsilon, a list of columns of the table, by whose values or public bands micro-F1 is published, "
        "such as [sex,age]; the price stays the same",
        default=None,
    )
    all_records: bool | None = setting(
        "false leaves out the model of all private records, which is the ceiling in the report, and beyond 200,000 "
        "records another release without noise; by default both take a sample of 200,000 records, and the model is "
        "trained unless that takes long; true takes all records",
        default=None,
        may_change_when_continued=True,
    )
    scratch: bool = setting(
        "false makes the features of private records anew in each round of votes, in place of a scratch file beside "
        "the run where memory is too small for them",
        default=True,
        may_change_when_continued=True,
    )


@dataclass(frozen=True, kw_only=True)
class FolderSettings(PartSettings):
    """The settings of commands that write a release into a folder."""

    output_dir: str | None = setting(
        "the run's folder, of which only release/ may be published; by default it is named after the settings",
        default=None,
        may_change_when_continued=True,
        is_path=True,
    )


@dataclass(frozen=True, kw_only=True)
class NoiseSettings(ReleaseSettings):
    """The settings of commands that release labels, with the choice between solved and given noise.

    A plan in Python has no setting `noise`: there, `target_epsilon=None` takes the aggregator's noise as configured.
    """

    noise: str = setting(
        "solved computes the aggregator's noise from target_epsilon; given takes the noise as it is configured, and "
        "ignores target_epsilon",
        default="solved",
        may_change_when_continued=True,
    )

    def __post_init__(self) -> None:
        require_choice("noise", self.noise, choices=("solved", "given"))
        if self.noise == "solved" and self.target_epsilon is None:
            rule = "an epsilon > 0, or noise=given beside it, which takes the aggregator's noise as it is"
            raise InvalidValue("target_epsilon", self.target_epsilon, rule=rule)

    @property
    def solved_epsilon(self) -> float | None:
        """Returns the epsilon for which the noise is solved; None if the noise is given."""
        return None if self.noise == "given" else self.target_epsilon


@dataclass(frozen=True, kw_only=True)
class TrainSettings(RunSettings, NoiseSettings, FolderSettings):
    """The settings of `pate-train`, without those of its data, aggregator, teachers and student."""

    logger: str = setting(
        "tensorboard (curves in the run's folder), none, or mlflow (with the extra mlflow). MLflow logs only what "
        "release/ holds, in the run's folder or on the server that MLFLOW_TRACKING_URI names",
        default="tensorboard",
        may_change_when_continued=True,
    )
    tune: bool = setting(
        "true makes the runs of a sweep (-m) compete and publishes the best one alone. target_epsilon and "
        "score_epsilon pay for all of it, whatever the number of settings; the number of runs is random and secret",
        default=False,
        may_change_when_continued=True,
    )
    tune_runs: float = setting(
        "with tune=true, the expected number of runs; more runs find better settings, and leave each run less epsilon",
        default=5.0,
        may_change_when_continued=True,
    )
    data_dependent: bool = setting(
        "true adds to the report what the release cost on the votes at hand, as the 2018 PATE paper counts: no "
        "guarantee, and as private as the votes",
        default=False,
        may_change_when_continued=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_epsilon is not None and self.noise == "solved":
            rule = "noise=given beside it, and with that noise it asks only as many queries as this pays for"
            raise InvalidValue("max_epsilon", self.max_epsilon, rule=rule)
        if self.target_mu is not None and self.noise == "given":
            rule = "none beside noise=given, which takes the aggregator's noise as it is"
            raise InvalidValue("target_mu", self.target_mu, rule=rule)
        if self.tune and self.solved_epsilon is None:
            rule = "a solved target_epsilon beside it, not noise=given or target_mu"
            raise InvalidValue("tune", "true", rule=rule)
        require(self.tune_runs > 1, "tune_runs", self.tune_runs, "a number of runs above 1")

    @property
    def solved_epsilon(self) -> float | None:
        """Returns the epsilon for which the noise is solved; None if the noise is given, or solved for `target_mu`."""
        return None if self.target_mu is not None else super().solved_epsilon


@dataclass(frozen=True, kw_only=True)
class VotesOfOthers:
    """The settings of commands that read vote files which another project has written."""

    layout: str = setting(
        "the layout of vote files of other projects: auto, teacher_votes [N, Q, L] (bits or confidences), histogram "
        "[Q, L], classes [Q, C] (one vote per teacher), or pairs [Q, L, 2] (teachers against and for)",
        default="auto",
    )
    num_teachers: int | None = setting(
        "the number of teachers: required if a file holds a histogram, checked otherwise",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class CollectSettings(VotesOfOthers, NoiseSettings, FolderSettings):
    """The settings of `pate-release`, which releases labels from vote files, without its aggregator's and student's."""

    votes: OneOrSeveral = setting(
        "the vote files: a pattern in quotes, a file, or a list of files", is_path=True
    )
    public_answers: str | None = setting(
        "with aggregator=centered_votes, the file of a public model's answers. The vote files are then answers of "
        "experts, such as language models with private examples in their prompts, and the release is the difference",
        default=None,
        is_path=True,
    )
    name: str = setting(
        "the published name of the data behind vote files of other projects", default="votes"
    )
    queries: str | None = setting(
        "the file of public samples, for stable_top_k_not_prior: that aggregator compares votes with the predictions "
        "of the student that student=NAME names",
        default=None,
        is_path=True,
    )
    table_schema: str | None = setting(
        "the file that pate-schema wrote, if the queries are a table", default=None, is_path=True
    )


@dataclass(frozen=True, kw_only=True)
class CompareSettings(AskingSettings, PartSettings):
    """The settings of `pate-compare`, which measures aggregators in releases at several epsilons.

    Those of its data, teachers, student, aggregators and compared methods are elsewhere.
    """

    aggregators: OneOrSeveral = setting(
        "a list of the names above; NAME@T takes T teachers. A name of an experiment brings the experiment's teachers "
        "and student; aggregator:NAME is the aggregator of the same name alone",
        default=[
            "centered_votes",  # one teacher for each private group
            "centered_votes_400",  # 400 convex teachers
            "centered_votes@400",  # 400 kernel teachers
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
    )
    methods: list[str] = setting(
        "a list of the names above: alternatives to PATE, priced for the same unit of privacy. method=NAME is one of "
        "them with settings of its own, such as method.batch_size=2048",
        default=[],
    )
    fewer_queries: bool = setting(
        "false refuses a public pool that has fewer samples than num_queries", default=True
    )
    epsilons: OneOrSeveral = setting(
        "a list of budgets; the table marks an aggregator that cannot meet one of them",
        default=[0.1, 0.25, 0.5, 1, 2, 3.6, 8],
    )
    seeds: OneOrSeveral = setting(
        "the number of seeds for noise and student, or a list of seeds", default=5
    )
    ensemble_seed: int = setting(
        "the seed of the partition and the teachers, which are trained once", default=0
    )
    metric: str = setting(
        "the metric of the frontier: accuracy, balanced_accuracy, micro_f1, macro_f1 or mean_average_precision",
        default="mean_average_precision",
    )
    shares: OneOrSeveral = setting(
        "a list of shares. For each of them a table shows the epsilon from which on a method closes that share of the "
        "gap between a constant and the model of all records",
        default=[0.5, 0.8],
    )
    all_records: bool = setting(
        "false leaves out the model of all private records, which may take long", default=True
    )
    num_workers: int | None = setting(
        "the number of processes; by default one for each core", default=None
    )
    output_dir: str | None = setting(
        "the folder of the comparison; by default it is named after the data and the settings that all methods share",
        default=None,
        is_path=True,
    )


@dataclass(frozen=True, kw_only=True)
class AccountSettings(AskingSettings, PartSettings):
    """The settings of `pate-account`, which prices a release without any data; its aggregator has its own."""

    num_labels: int = setting("the number of labels of a query", default=40)
    num_teachers: int = setting("the number of teachers that vote", default=400)
    target_epsilon: float | None = setting(
        "an epsilon that the noise is solved for; by default the noise is taken as it is",
        default=None,
    )
    target_mu: float | None = setting(
        "in place of target_epsilon, the mu of a Gaussian release that would hide a person as well",
        default=None,
    )
    budgets: OneOrSeveral = setting(
        "in place of target_epsilon, the epsilons of classes of groups, {cautious: 1, usual: 4} or [1,4]; the price of "
        "each class is printed",
        default=None,
    )
    max_epsilon: float | None = setting(
        "in place of num_queries, an epsilon; as many queries are asked as it pays for",
        default=None,
    )
    tune_runs: float | None = setting(
        "an expected number of runs: also prints what the best of a secret number of such releases costs, as "
        "pate-train tune=true publishes it",
        default=None,
    )
    accountants: OneOrSeveral = setting(
        "all, or a list such as '[rdp,exact]', whose prices are printed side by side", default=None
    )
    ledger: str | None = setting(
        "the ledger of runs. For each data set the command prints what is spent and left, how many releases like the "
        "planned one fit, and the largest target_epsilon that fits; with no other setting it lists all charges",
        default=None,
        is_path=True,
    )
    write_table: str | None = setting(
        "a file that the table of the stability test is written to: its probabilities as exact integers, and their "
        "price",
        default=None,
        is_path=True,
    )
    votes: str | None = setting(
        "a file of public or synthetic votes (.npy, .npz), for which the expected hits of a session are counted",
        default=None,
        is_path=True,
    )
    data_dependent: bool = setting(
        "true adds the cost of the release on these votes, as the 2018 PATE paper counts; it is no guarantee",
        default=False,
    )
    prior: str | None = setting(
        "a file of the label sets that stable_top_k_not_prior compares the votes with, bool [Q, L]",
        default=None,
        is_path=True,
    )
    num_private: int | None = setting(
        "the number of private groups, which limits the number of teachers and the delta",
        default=None,
    )
    suggest: bool = setting(
        "true searches for the numbers of teachers and queries with the best release at target_epsilon",
        default=False,
    )
    lower_bound: bool = setting(
        "true adds a lower bound on epsilon, from two neighboring histograms", default=False
    )
    format: str = setting(
        f"{_FORMAT_HELP}; with ledger= alone also jsonl, which prints a line for each charge",
        default="text",
    )


@dataclass(frozen=True, kw_only=True)
class AttackSettings(AskingSettings, PartSettings):
    """The settings of `pate-attack`, which attacks a rehearsal of a release; its aggregator has its own."""

    target_epsilon: float | None = setting(
        "the epsilon that the attack tries to refute; null takes the noise as it is", default=2.0
    )
    num_canaries: int | None = setting(
        "the number of canaries in each run: records or teachers, of which a secret coin chooses one of two variants. "
        "By default 1000, or as many as there is room for, or fewer teachers whose votes tell more",
        default=None,
    )
    num_runs: int = setting(
        "the number of rehearsals, each with coins and noise of its own; more of them refute more",
        default=4,
    )
    num_teachers: int = setting(
        "the number of teachers, for all aggregators except centered_votes", default=4000
    )
    confidence: float = setting("the confidence with which a price is refuted", default=0.95)
    sabotage: str | None = setting(
        "breaks the release on purpose, to see that the attack notices: noise (a tenth of it), clip (exceeded), "
        "charge (half), features (fitted on private records), or seed (shared between runs)",
        default=None,
    )
    tune_runs: float | None = setting(
        "an expected number of runs: the release is the best of a secret number of runs, as pate-train tune=true "
        "publishes it; for centered_votes",
        default=None,
    )
    seed: int | None = setting(
        "the seed of coins and noise; null draws both from the operating system", default=None
    )
    format: str = setting(_FORMAT_HELP, default="text")


@dataclass(frozen=True, kw_only=True)
class AuditSettings(VotesOfOthers, Guarantee, PartSettings):
    """The settings of `pate-audit`, which prices the release of a vote file; its aggregator has its own."""

    votes: str = setting("an .npy, .npz or .csv file, or a run's votes.npz", is_path=True)
    noise_std: float | None = setting(
        "the standard deviation of the noise in the audited release, in votes", default=None
    )
    screening_std: float | None = setting(
        "the standard deviation of the screening noise in the audited release, in votes",
        default=None,
    )
    threshold_share: float | None = setting(
        "the share of the teachers that the screening of the audited release required", default=None
    )
    vote_clip: int | None = setting(
        "the most labels of a query that a teacher voted for in the audited release", default=None
    )
    max_size: int | None = setting(
        "the most labels of a set that the audited release chose as a whole", default=None
    )
    data_dependent: bool = setting(
        "true adds the cost of gnmax, confident_gnmax, gaussian_votes or confident_votes on these votes, as the 2018 "
        "PATE paper counts. The number is no guarantee, and as private as the votes",
        default=False,
    )
    format: str = setting(_FORMAT_HELP, default="text")


@dataclass(frozen=True, kw_only=True)
class PredictSettings:
    """The settings of `pate-predict`, which predicts labels with a published student."""

    release: str = setting("the folder release/ of a finished run, or a copy of it", is_path=True)
    data: str = setting(
        "the records: a table with the columns of the public file, in any order, as .csv, .csv.gz, .tsv, .parquet, "
        ".feather or .arrow; a folder of pictures; or an array of the model's inputs, as .npy or .npz",
        is_path=True,
    )
    output: str = setting("the .csv file to write; a file of that name is replaced", is_path=True)
    id: str | None = setting(
        "the column that names the records; by default they are numbered from 1",
        default=None,
        is_name=True,
    )
    encoding: str = setting(
        "the encoding of a CSV file that is not UTF-8, such as cp1252 or latin-1", default="utf-8"
    )
    decimal: str | None = setting(
        f"comma for numbers such as 3,5, point for 3.5; {_LIKE_THE_PUBLIC_FILE}",
        default=None,
    )
    thousands: str | None = setting(
        f"the separator of thousands, one of . , ' _ or a blank; {_LIKE_THE_PUBLIC_FILE}",
        default=None,
    )
    missing: list[str] = setting(
        "the words that stand for missing cells, such as [?,-]; by default those of the public file",
        default=[],
        is_name=True,
    )
    date_order: str | None = setting(
        f"the order of dates in numbers: dmy, mdy or ymd; {_LIKE_THE_PUBLIC_FILE}", default=None
    )
    first_year: int | None = setting(
        f"the earliest year that two digits in a date can mean; {_LIKE_THE_PUBLIC_FILE}",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class DossierSettings:
    """The settings of `pate-dossier`, which writes a page on a release for readers such as a review board."""

    release: str = setting("the folder release/ of a finished run, or a copy of it", is_path=True)
    output: str = setting(
        "the file to write: a page if it ends in .html, the same facts for programs if it ends in .json; a file of "
        "that name is replaced",
        is_path=True,
    )
    lower_bound: str | None = setting(
        "a file with what `pate-attack format=json` printed for a release of this kind, to be shown on the page; by "
        "default no attack is shown",
        default=None,
        is_path=True,
    )
    rehearsed_on: str | None = setting(
        "public states that this attack ran on public records in place of the private ones; otherwise an attack whose "
        "canaries are records is refused, as no epsilon covers its result",
        default=None,
    )
    publisher: str | None = setting(
        "who publishes the release, for the top of the page", default=None, is_text=True
    )
    contact: str | None = setting(
        "whom people may ask or object to, such as an address", default=None, is_text=True
    )
    date: str | None = setting(
        "the date of publication, such as 2026-11-29", default=None, is_text=True
    )


@dataclass(frozen=True, kw_only=True)
class TableSchemaSettings:
    """The settings of `pate-schema`, which learns a table's schema from a file of public records."""

    data: str = setting(
        "the file of the public records: .csv, .csv.gz, .tsv, .parquet, .feather or .arrow",
        is_path=True,
    )
    output: str = setting("the file to write; a file of that name is never replaced", is_path=True)
    labels: list[str] = setting(
        "the columns that hold labels. A run takes labels, group, id, drop, label_separator, uncertain, "
        "uncertain_words and encoding from the schema's file, unless its own command sets them",
        default=[],
        is_name=True,
    )
    group: str | None = setting(
        "the column that says whose records belong together", default=None, is_name=True
    )
    id: str | None = setting("the column that names the records", default=None, is_name=True)
    drop: list[str] = setting("the columns that are left out", default=[], is_name=True)
    category: list[str] = setting(
        "the columns of codes, such as numbers of departments, whose values become categories",
        default=[],
        is_name=True,
    )
    text: list[str] = setting(
        "the columns of free text; the file that turns text into numbers is written beside the schema",
        default=[],
        is_name=True,
    )
    split: OneOrSeveral = setting(
        "if one file holds all records, its column with the words private, public or test; or two shares, such as "
        ".1,.1, of the groups that are dealt to the public and the test part",
        default=None,
    )
    seed: int = setting("the seed by which split= deals groups to the parts", default=0)
    encoding: str = setting(
        "the encoding of a CSV file that is not UTF-8, such as cp1252 or latin-1", default="utf-8"
    )
    decimal: str | None = setting("comma for numbers such as 3,5; by default point", default=None)
    thousands: str | None = setting(
        "the separator of thousands, one of . , ' _ or a blank; by default none", default=None
    )
    missing: list[str] = setting(
        "the words that stand for missing cells, such as [?,-]", default=[], is_name=True
    )
    date_order: str | None = setting(_DATE_ORDER_HELP, default=None)
    first_year: int | None = setting(
        "the earliest year that two digits in a date can mean: with 1930, 45 is 1945 and 22 is 2022",
        default=None,
    )
    label_separator: str | None = setting(
        "the separator of labels, if one column holds all of them, as in flu;cough",
        default=None,
    )
    uncertain: str | None = setting(
        "for runs: what -1, ? and uncertain mean as a label, one of missing, positive, negative",
        default=None,
    )
    uncertain_words: list[str] = setting(
        "words that mean the same as -1, ? and uncertain", default=[], is_name=True
    )


SETTINGS_OF_COMMAND: dict[str, type] = {
    "account": AccountSettings,
    "attack": AttackSettings,
    "audit": AuditSettings,
    "compare": CompareSettings,
    "dossier": DossierSettings,
    "predict": PredictSettings,
    "release": CollectSettings,
    "table_schema": TableSchemaSettings,
    "train": TrainSettings,
}
"""The class of settings of each command of this package, by the command's name."""


def settings_classes() -> Mapping[str, type]:
    """Returns the class of settings of each command, by the command's name, such as "train" for `pate-train`.

    Commands of other installed packages are included.
    """
    added = {name: command.settings_class for name, command in package_commands().items()}
    return SETTINGS_OF_COMMAND | added


def settings_of(command_name: str) -> tuple[Field[Any], ...]:
    """Returns the fields of a command's settings; those inherited from classes that commands share come first.

    Args:
        command_name: the name of the command, such as "train".
    """
    return fields(settings_classes()[command_name])


def values_of(
    settings: Any, settings_class: type, *, omitted_names: Collection[str] = ()
) -> dict[str, Any]:
    """Returns the values of those settings that a class of settings declares, by name.

    A plan, whose fields have the same names, can be made of them.

    Args:
        settings: the settings of a command.
        settings_class: a class of settings, such as `RunSettings`. Its fields name the settings whose values are
            returned.
        omitted_names: names of fields of `settings_class` that are left out.
    """
    setting_names = [
        dataclass_field.name
        for dataclass_field in fields(settings_class)
        if dataclass_field.name not in omitted_names
    ]
    return {name: getattr(settings, name) for name in setting_names}


def names_with(mark: str, *command_names: str) -> frozenset[str]:
    """Returns the names of the settings for which a mark is true.

    Args:
        mark: a keyword of `setting` that is true or false, such as `may_change_when_continued`.
        command_names: the commands whose settings are searched; all commands if none is given.
    """
    return frozenset(
        dataclass_field.name
        for command_name in command_names or settings_classes()
        for dataclass_field in settings_of(command_name)
        if dataclass_field.metadata[mark]
    )


def changeable_names(command_name: str) -> frozenset[str]:
    """Returns the names of settings and configuration groups that may change when a run of a command is continued.

    The group `engine` is among them: engines with equal chunk sizes leave the same bytes, others differ by rounding.

    Args:
        command_name: the name of the command, such as "train".
    """
    mark = "may_change_when_continued"
    return names_with(mark, command_name) | {"engine"}
