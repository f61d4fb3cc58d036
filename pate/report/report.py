"""The report of one training run: the values behind `report.json`, the verdict on them, and how figures read.

Privacy parameters are rounded up, as no printed bound may be too small.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting.data_dependent_epsilon import DataDependentEpsilon
from pate.accounting.rounding import format_delta, format_epsilon
from pate.files.disk import read_value, write_text
from pate.files.strict_json import from_json, to_json
from pate.pricing.guard import WEAK_EPSILON
from pate.report.metrics import Bits, Floats, Interval, Membership, PrecisionRecall, Scores
from pate.validation import require, require_count

# Heading of each metric, by its key in report.json; the headline first.
METRIC_NAMES = {
    "mean_average_precision": "mean AP",
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced acc.",
}
# Each model by its key in report.json, from what needs no data to what has no privacy.
MODEL_NAMES = {
    "prior": "prior",
    "best_constant": "best constant",
    "student": "private student",
    "majority_vote_student": "majority-vote student",
    "true_label_student": "true-label student",
    "all_records_model": "all-records model",
}
DASH = "\N{EN DASH}"  # where there is no number
SEEDED_WARNING = "seeded noise protects nobody who knows the seed"
PAPER_LABEL = "as the paper accounts; not a bound"
ADJACENCY_NAMES = {
    "replace_one": "one unit of privacy is replaced by any other",
    "add_remove": "one teacher, with all its records, is added or removed",
}


def percent(share: float) -> str:
    """A share in [0, 1] as a percentage with one decimal."""
    return f"{100 * share:.1f}%"


def add_words(templates: Any) -> None:
    """Gives a Jinja environment the filters and names that all pages use."""
    templates.filters |= {"delta": format_delta, "epsilon": format_epsilon, "percent": percent}
    templates.globals |= {
        "metrics": METRIC_NAMES,
        "names": MODEL_NAMES,
        "adjacencies": ADJACENCY_NAMES,
    }
    templates.globals |= {"PAPER_LABEL": PAPER_LABEL, "SEEDED_WARNING": SEEDED_WARNING}


Scalar = str | int | float | bool | None

# Keys of report.json, dotted, that no epsilon covers, each with the reason.
NOT_COVERED = {
    "release.label_accuracy": "compares the release with the true labels of the public pool",
    "release.micro_f1": "compares the release with the true labels of the public pool",
    "teachers.mean_accuracy": "computed from the teachers, before any noise",
    "teachers.records_per_teacher": "computed from the private partition",
    "student": "the student is covered, but its scores read the true labels of the test split",
    "baselines.majority_vote_student": "trained on the votes without noise",
    "baselines.true_label_student": "trained on true labels",
    "baselines.all_records_model": "trained on the private records without noise",
    "baselines.prior": "each label's majority is taken from true labels",
    "left_out": "says which labels and how many records there are",
    "baselines.best_constant": "the labels' frequencies are taken from true labels",
    "intervals": "resampled from the true labels of the test split",
    "membership": "compares the student's losses on private records and on test records",
    "data_dependent": "computed from the votes without noise; the guarantee is privacy.epsilon",
    "verdict": "compares scores that read true labels",
    "data.label_cardinality": "computed from true labels",
    "heading": "names settings of the command line, a seed among them",
    "duration_s": "the time a run takes depends on the private data",
}

HEADLINE = "mean_average_precision"

_IN_WORDS = METRIC_NAMES | {
    HEADLINE: "mean average precision",
    "balanced_accuracy": "balanced accuracy",
}
# From the student up to the ceiling, and what is lost to each next model.
_STEPS = {
    "student": "",
    "majority_vote_student": "noise",
    "true_label_student": "the teachers",
    "all_records_model": "the number of queries",
}
_OPTIONAL = (
    "paper_epsilon",
    "failure_prob",
    "max_gap",
    "gap_at_50",
    "gap_at_95",
    "target_hits",
    "plain_epsilon",
)


@dataclass(frozen=True)
class Heading:
    """A run's name and the settings that it was given; the data owner's."""

    # the name that it was configured by, such as `stable_top_k_table`; empty where it has none
    aggregator: str = ""
    # whether that name ships with the package; another says what its author chose
    is_public: bool = False
    # the settings that the command named, as text, by name
    given: Mapping[str, str] = field(default_factory=dict)
    # terms of the run, those given among them, by name
    compared: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def overrides(self) -> str:
        """The settings in one line, as they are given on the command line."""
        return " ".join(f"{name}={value}" for name, value in self.given.items())


@dataclass(frozen=True)
class Privacy:
    """The price of a release: a guarantee that does not depend on votes or noise, and may be published."""

    epsilon: float  # bound, >= 0; infinity means no guarantee and is written as `"inf"`
    delta: float  # the delta at which `epsilon` holds, in [0, 1), failure probabilities included
    adjacency: str  # `replace_one` or `add_remove`
    unit: str  # the private records that one change replaces together, in words
    accountant: str  # name of the accountant
    mechanism: str  # name of the aggregator
    num_queries: int  # queries that were priced, refused ones included
    # what the paper's own accounting gives, not a bound; None where it gives none
    paper_epsilon: float | None = None
    # whether the noise came from a seed, which protects nobody who knows the seed
    noise_seeded: bool = False
    # share of `delta` that the mechanism itself uses up over all queries, or None
    failure_prob: float | None = None
    # the largest that the teachers can make, for a mechanism with a stability test, or None
    max_gap: int | None = None
    # in votes, at which that test passes with probability 1/2; None where none does
    gap_at_50: float | None = None
    gap_at_95: float | None = None  # the same for probability 0.95
    # the mechanism's public parameters by name
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    # hits after which the session of a charged mechanism halts, or None
    target_hits: int | None = None
    # what plain composition of the same queries, those that were asked, would cost at `delta`, for a charged mechanism,
    # or None. Infinity where its failure probabilities alone exceed `delta`.
    plain_epsilon: float | None = None
    # the accountant whose figure `epsilon` is, where `accountant` asks others; else None
    won_by: str | None = None
    # the epsilon of each class of groups with a budget of its own, none above `epsilon`; none where all have that
    classes: Mapping[str, float] = field(default_factory=dict)
    # whose values make a unit; none where no column does, or it is not known
    unit_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(self.epsilon >= 0, "privacy.epsilon", self.epsilon, "a number >= 0 or infinity")
        require(0 <= self.delta < 1, "privacy.delta", self.delta, "a number in [0, 1)")
        require_count("privacy.num_queries", self.num_queries, minimum=0)
        for name in _OPTIONAL:
            value = getattr(self, name)
            require(value is None or value >= 0, f"privacy.{name}", value, "a number >= 0 or None")

    @property
    def guarantee(self) -> str:
        """In one line, epsilon and delta rounded up; an infinite epsilon is called no guarantee."""
        unit = f"{self.adjacency}, unit: {self.unit}"
        if math.isinf(self.epsilon):
            return f"no guarantee: epsilon is infinite ({unit})"
        bound = f"epsilon <= {format_epsilon(self.epsilon)} at delta = {format_delta(self.delta)} ({unit})"
        return f"{bound}; by class: {self.of_classes}" if self.classes else bound

    @property
    def weakness(self) -> str:
        """Warns of an epsilon that promises one person little; empty for a smaller one and for none."""
        weak = WEAK_EPSILON < self.epsilon < math.inf
        return f"epsilon above {WEAK_EPSILON} promises one person little" if weak else ""

    @property
    def of_classes(self) -> str:
        """The epsilon of each class of groups with a budget of its own, rounded up."""
        return ", ".join(
            f"{name} {format_epsilon(epsilon)}" for name, epsilon in self.classes.items()
        )

    @property
    def asked_accountant(self) -> str:
        """Its name, and whose figure it took."""
        return (
            self.accountant
            if self.won_by is None
            else f"{self.accountant} (here that of {self.won_by})"
        )

    @property
    def charging(self) -> str:
        """Whether target charging paid, in one sentence; empty for a mechanism that is not charged by hits."""
        if self.plain_epsilon is None:
            return ""
        verdict = "pays: plain composition costs"
        if self.plain_epsilon <= self.epsilon:
            verdict = "does not pay: plain composition costs less,"
        plain = format_epsilon(self.plain_epsilon)
        charged = format_epsilon(self.epsilon)
        return f"{verdict} {plain} instead of {charged} for the queries that were asked, with the same noise"

    @property
    def terms(self) -> list[tuple[str, str]]:
        """The price, and what it is a price of, as (name, text) rows; all of it may be published."""
        meaning = ADJACENCY_NAMES.get(self.adjacency)
        noise = (
            f"seeded: {SEEDED_WARNING}"
            if self.noise_seeded
            else "ChaCha20, from the operating system's entropy"
        )
        plain = self.plain_epsilon
        failure_prob = self.failure_prob
        rows = {
            "epsilon": "infinite: no guarantee"
            if math.isinf(self.epsilon)
            else format_epsilon(self.epsilon),
            "epsilon of each budget class": self.of_classes or None,
            "delta": format_delta(self.delta),
            "adjacency": f"{self.adjacency} ({meaning})" if meaning else self.adjacency,
            "unit of privacy": self.unit,
            "accountant": self.asked_accountant,
            "queries priced": str(self.num_queries),
            "noise": noise,
            "what plain composition would cost, not this release": None
            if plain is None
            else format_epsilon(plain),
            "target charging": self.charging or None,
            "failure probability, within delta": None
            if failure_prob is None
            else format_delta(failure_prob),
        }
        return [(name, text) for name, text in rows.items() if text is not None]

    def made_by(
        self, name: str | None = None, *, digits: int | None = None
    ) -> list[tuple[str, str]]:
        """The mechanism, the name that it was configured by, and its public parameters, as rows to publish.

        Numbers have so many digits; None shows all, as whoever checks a price needs them.
        """
        rows = [("aggregator", name)] if name and name != self.mechanism else []
        rows.append(("mechanism", self.mechanism))
        for key, value in self.parameters.items():
            rounded = f"{value:.{digits}g}" if digits and isinstance(value, float) else str(value)
            rows.append((f"mechanism.{key}", rounded))
        for share, gap in (("50%", self.gap_at_50), ("95%", self.gap_at_95)):
            if gap is not None or self.max_gap is not None:
                scores = (
                    f"no gap of {self.max_gap} votes passes" if gap is None else f"{gap:g} votes"
                )
                rows.append((f"gap that passes with probability {share}", scores))
        return rows


@dataclass(frozen=True)
class ReleaseSummary:
    """What was released, counted."""

    num_queries: int
    num_answered: int
    answer_rate: float  # of the queries, 0 without any
    # share of correct bits in the answered rows against true labels; None without answers
    label_accuracy: float | None
    # micro-averaged F1 of the answered rows against true labels; None without answers
    micro_f1: float | None
    # queries that a charged mechanism paid for, or None, as the next three
    num_hits: int | None = None
    remaining_hits: int | None = None  # how many more would have halted it
    num_abstained: int | None = None  # hits without an answer
    num_asked: int | None = None  # queries until it halted; the rest is refused

    def __post_init__(self) -> None:
        require_count("release.num_queries", self.num_queries, minimum=0)
        require_count("release.num_answered", self.num_answered, minimum=0)
        rate = self.num_answered / max(self.num_queries, 1)
        rule = f"at most num_queries={self.num_queries}"
        require(
            self.num_answered <= self.num_queries, "release.num_answered", self.num_answered, rule
        )
        right = math.isclose(self.answer_rate, rate, abs_tol=1e-9)
        require(
            right, "release.answer_rate", self.answer_rate, f"num_answered / num_queries = {rate}"
        )

    @property
    def hits(self) -> str:
        """The hits of a charged mechanism in one line; empty for another."""
        if self.num_hits is None:
            return ""
        session_line = f"{self.num_hits} hits, {self.remaining_hits} remaining, {self.num_abstained} abstentions"
        return f"{session_line}; {self.num_asked} of {self.num_queries} queries asked"


@dataclass(frozen=True)
class TeacherSummary:
    """The ensemble, which no epsilon covers: its size, the mean share of correct bits of a teacher, and of records."""

    num_teachers: int
    mean_accuracy: float | None
    records_per_teacher: float


@dataclass(frozen=True)
class DataSummary:
    """The data set."""

    name: str
    real: bool  # False for synthetic data, which is evidence of nothing but a working pipeline
    num_private: int
    num_public: int
    num_test: int
    num_labels: int
    label_cardinality: float  # mean number of positive labels per sample
    # units of privacy that the private records belong to; None in older reports
    num_groups: int | None = None
    # what stands for pictures, with digests; None where inputs are plain
    features: Mapping[str, Scalar] | None = None


@dataclass(frozen=True)
class Baselines:
    """Models to compare the private student with. No epsilon covers them. None where one was not trained."""

    prior: Scores | None  # always predicts each label's majority
    best_constant: Scores | None  # always predicts the one set of labels with the best micro-F1
    majority_vote_student: Scores | None  # the student trained on the votes without noise
    true_label_student: Scores | None  # the student trained on the true labels of the queries
    # the best model of all private records, linear or a network: the ceiling
    all_records_model: Scores | None


@dataclass(frozen=True)
class Verdict:
    """What a run is worth."""

    # of the mean average precision between a constant and the all-records model, or the true-label student in its
    # place; below 0 for a student worse than a constant. None where it is undefined.
    share_of_reachable: float | None
    # whether the student beats the best constant in every metric; None without a student
    beats_constant: bool | None
    beats_prior: bool | None  # the same for the prior
    text: str  # both in words, and where the rest was lost

    @classmethod
    def of(
        cls,
        student: Scores | None,
        baselines: Baselines,
        *,
        num_answered: int,
        remedies: Mapping[str, str],
        better: str = "",
    ) -> Self:
        """The verdict on a student, by the aggregator's remedies and a sentence on a method that is better."""
        if student is None or not num_answered:
            helps = f"What helps: {remedies['noise']}, or another aggregator."
            text = f"No query was answered, so the student learned nothing. {helps} {better}"
            return cls(None, None, None, text.strip())
        levels = {key: getattr(scores, HEADLINE, None) for key, scores in vars(baselines).items()}
        levels["student"] = getattr(student, HEADLINE)
        share, reached = _share(levels, baselines.all_records_model is not None)
        constants = {"the best constant": baselines.best_constant, "the prior": baselines.prior}
        distance = {
            name: _behind(student, constant)
            for name, constant in constants.items()
            if constant is not None
        }
        lost = [f"{name} in {_listed(metrics)}" for name, metrics in distance.items() if metrics]
        beaten = f"Better than {' and '.join(distance)} in every metric." if distance else ""
        if lost:
            beaten = f"No better than {' and than '.join(lost)}."
        # above all nothing was lost
        loss = "" if share is not None and share > 1 else _loss_text(levels, remedies)
        beats = {name: not metrics for name, metrics in distance.items()}
        text = " ".join(filter(None, (reached, beaten, loss, better)))
        return cls(share, beats.get("the best constant"), beats.get("the prior"), text)


@dataclass(frozen=True)
class Report:
    """Everything in `report.json`. No epsilon covers most of it: do not publish it."""

    privacy: Privacy
    release: ReleaseSummary
    teachers: TeacherSummary
    # metrics of the private student; None if nothing was answered to train it on
    student: Scores | None
    baselines: Baselines  # the models to compare with
    verdict: Verdict
    # `(low, high)` of each metric over resampled test sets, by model
    intervals: Mapping[str, Mapping[str, Interval]]
    data: DataSummary
    seed: int | None  # of the run, None if its noise came from the operating system
    versions: Mapping[str, str]  # by package name
    duration_s: float  # wall-clock seconds of the run
    # dotted keys, with the reasons
    not_covered: Mapping[str, str] = field(default_factory=lambda: dict(NOT_COVERED))
    heading: Heading = field(default_factory=Heading)
    membership: Membership | None = None  # an attack on the published student, or None
    # what the release cost on these votes, no guarantee; or None
    data_dependent: DataDependentEpsilon | None = None
    # why a model was not trained, by its key in `models`, and why there is no `data_dependent`
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        priced = self.privacy.num_queries
        released = self.release.num_queries
        require(
            priced >= released,
            "privacy.num_queries",
            priced,
            f"release.num_queries={released}, or more",
        )

    @property
    def name(self) -> str:
        """What was released by: the name that it was configured by, or the class of the aggregator."""
        return self.heading.aggregator or self.privacy.mechanism

    @property
    def models(self) -> dict[str, Scores | None]:
        """By the names of `MODEL_NAMES`, in the order of the tables; None for those that were not trained."""
        scores_of = vars(self.baselines) | {"student": self.student}
        return {key: scores_of[key] for key in MODEL_NAMES}

    @property
    def ceiling_name(self) -> str:
        """The model that the verdict's share is a share of, by its key: that of all records, if it was trained."""
        trained = self.baselines.all_records_model is not None
        return "all_records_model" if trained else "true_label_student"

    def reason_without(self, model: str) -> str:
        """Says why a model has no scores, where the run knows it; empty where it has scores, or in older reports."""
        return self.left_out.get(model, "") if self.models[model] is None else ""

    @property
    def private_count(self) -> str:
        """Counts the private records, and the persons or other groups that they belong to, in words."""
        records = f"{self.data.num_private:,} private records"
        groups = self.data.num_groups
        if groups is None or groups == self.data.num_private:
            return records
        return f"{records} of {groups:,} groups, such as persons"

    def to_json(self) -> str:
        """The report as strict JSON: infinity is the string `"inf"`, an undefined number is null."""
        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` wrote; `InvalidValue` for a missing or unknown key, or a value of another type."""
        return from_json(cls, text, name="report")

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Reads what `write` wrote; `DamagedFile` where there is no file, or no report."""
        remedy = (
            "remove it, and the same command writes it again from the release, at no further price"
        )
        return read_value(
            cls, path, name="report", rule="the report of a finished run", remedy=remedy
        )

    def write(self, path: Path | str) -> None:
        """Writes `report.json` atomically."""
        write_text(path, self.to_json() + "\n")


@dataclass(frozen=True)
class RunFigures:
    """The figures behind the pictures of one run. Do not publish them."""

    label_names: tuple[str, ...]  # the L names
    answered: Bits  # bool `[Q]`
    labels: Bits  # bool `[Q, L]`, the released labels; rows of refused queries are not read
    epsilon_after_query: Floats  # float `[Q]`, the epsilon of the first q + 1 queries
    # `[Q]`, noiseless, in votes, or None. No epsilon covers it.
    gaps: NDArray[np.int64] | Floats | None = None
    gap_name: str = "gap at the chosen k"  # which gap that is, as it reads on an axis
    # int `[Q, L]`, the noiseless votes, or None. No epsilon covers it.
    histogram: NDArray[np.int64] | None = None
    # behind the votes, the end of the axes that count votes; None if not known
    num_teachers: int | None = None
    pass_gaps: NDArray[np.int64] | Floats | None = (
        None  # `[G]`, in votes, rising: gaps with a pass probability, or None
    )
    # `[G]`, the probability that the stability test passes at that gap, or None
    pass_probability: Floats | None = None
    # `[L]` by metric, by model, if any
    per_label: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    precision_recall: PrecisionRecall | None = None  # the student's, or None
    # `[E]` by name; none if it is solved in one step
    student_curve: Mapping[str, Floats] = field(default_factory=dict)


def _behind(student: Scores, constant: Scores) -> list[str]:
    pairs = (
        (name, getattr(student, key), getattr(constant, key)) for key, name in _IN_WORDS.items()
    )
    return [
        name
        for name, own_score, other in pairs
        if own_score is not None and other is not None and own_score <= other
    ]


def _share(levels: Mapping[str, float | None], trained: bool) -> tuple[float | None, str]:
    """The share of the reachable, and a sentence on it."""
    name = "a model of all private records without privacy"
    ceiling = "all_records_model"
    if not trained:
        name = "a student of the queries' true labels"
        ceiling = "true_label_student"
    low, high, mean = (levels[key] for key in ("prior", ceiling, "student"))
    if low is None or high is None or mean is None or high <= low:
        return (
            None,
            "The share of the reachable is undefined here: it needs a constant and a ceiling above it.",
        )
    share = (mean - low) / (high - low)
    scale = f"{mean:.3f}, where a constant has {low:.3f}, {name} {high:.3f}."
    if share > 1:
        return share, f"Above what counts as reachable in mean average precision: {scale}"
    return share, f"Reached {share:.0%} of the reachable mean average precision: {scale}"


def _loss_text(levels: Mapping[str, float | None], remedies: Mapping[str, str]) -> str:
    """The steps from the ceiling down to the student, none below it: the one that lost at least half, and what helps.

    Steps between levels that are not there cannot be told, and count to the whole all the same.
    """
    own_level = levels["student"] or 0.0
    whole = (
        max((level for name in _STEPS if (level := levels[name]) is not None), default=own_level)
        - own_level
    )
    losses = {}
    for worse, better in pairwise(_STEPS):
        high = levels[better]
        low = levels[worse]
        name = _STEPS[better]
        if (
            name in remedies
            and high is not None
            and low is not None
            and low >= own_level
            and round(high - low, 3) > 0
        ):
            losses[name] = high - low
    if not losses or sum(losses.values()) < whole / 2:
        return ""
    most = max(losses, key=losses.__getitem__)
    if losses[most] >= whole / 2:
        return f"Most was lost to {most} ({losses[most]:.3f}); what helps: {remedies[most]}."
    return f"Lost to {_listed([f'{name} ({lost:.3f})' for name, lost in losses.items()])}, to none of them most."


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
