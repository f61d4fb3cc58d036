"""The report of one training run: the values behind `report.json`, and the verdict on them in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pate.accounting.data_dependent import DataDependentEpsilon
from pate.files.disk import damaged, read_text, write_text
from pate.files.values import from_json, to_json
from pate.report.metrics import Bits, Floats, Interval, Membership, PrecisionRecall, Scores
from pate.validation import require, require_count

_FILE = "the report of a finished run"
_REMEDY = "remove it, and the same command writes it again from the release, at no further price"

Scalar = str | int | float | bool | None


class PrivacyCoverage(Enum):
    """What protects a figure of the report."""

    COVERED = "covered by the epsilon"
    HELD_OUT = "no epsilon covers the true labels it is scored with"
    UNCOVERED = "no epsilon covers this"


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
    "baselines.best_constant": "the labels' frequencies are taken from true labels",
    "intervals": "resampled from the true labels of the test split",
    "membership": "compares the student's losses on private records and on test records",
    "data_dependent": "computed from the votes without noise; the guarantee is privacy.epsilon",
    "verdict": "compares scores that read true labels",
    "data.label_cardinality": "computed from true labels",
    "heading": "names settings of the command line, a seed among them",
    "duration_s": "the time a run takes depends on the private data",
}

# What the epsilon of a release says nothing about, in sentences fit to publish.
CAVEATS = (
    "Settings that somebody chose after looking at the private data, among them the teachers' own.",
    "A representation of the samples that was fitted on private records.",
    "The public samples themselves: they are used in the open.",
    "Other releases made from the same private data; their epsilons add up with this one.",
    "More than one unit of privacy at once: a group of g units is protected about g times less.",
    "What the machine gives away besides the release: running time, memory, and the votes, teachers and "
    "evaluation that the data owner keeps.",
    "The pseudo-random generator, which is taken to be ideal, and rounding errors in computing the price.",
)

OF_CLASSES = "Who is in which budget class: that is taken as public."
SEEDED_WARNING = "seeded noise protects nobody who knows the seed"
PAPER_LABEL = "as the paper accounts; not a bound"
HEADLINE = "mean_average_precision"

_NAMES = {
    "mean_average_precision": "mean average precision",
    "micro_f1": "micro-F1",
    "macro_f1": "macro-F1",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
}
_STEPS = (
    ("majority_vote_student", "student", "noise"),
    ("true_label_student", "majority_vote_student", "the teachers"),
    ("all_records_model", "true_label_student", "the number of queries"),
)

_OPTIONAL = ("paper_epsilon", "failure_prob", "max_gap", "gap_at_50", "gap_at_95", "target_hits", "plain_epsilon")


@dataclass(frozen=True)
class Heading:
    """A run's name and the settings that it was given; the data owner's.

    Attributes:
        aggregator: the name that it was configured by, such as `stable_top_k_table`; empty where it has none.
        is_public: whether that name ships with the package; another says what its author chose.
        given: the settings that the command named, as text, by name.
        compared: terms of the run by name, by which TensorBoard compares runs; those given are among them.
    """

    aggregator: str = ""
    is_public: bool = False
    given: Mapping[str, str] = field(default_factory=dict)
    compared: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)

    @property
    def overrides(self) -> str:
        """The settings in one line, as they are given on the command line."""
        return " ".join(f"{name}={value}" for name, value in self.given.items())


@dataclass(frozen=True)
class Privacy:
    """The price of a release: a guarantee that does not depend on votes or noise, and may be published.

    Attributes:
        epsilon: bound, >= 0; infinity means no guarantee and is written as `"inf"`.
        delta: the delta at which `epsilon` holds, in [0, 1), failure probabilities included.
        adjacency: `replace_one` or `add_remove`.
        unit: what one private record is, in words.
        accountant: name of the accountant.
        mechanism: name of the aggregator.
        num_queries: queries that were priced, refused ones included.
        paper_epsilon: what the paper's own accounting gives; not a bound. None where it gives nothing.
        noise_seeded: whether the noise came from a seed, which protects nobody who knows the seed.
        failure_prob: share of `delta` that the mechanism itself uses up over all queries, or None.
        max_gap: the largest gap that the teachers can make, for a mechanism with a stability test, or None.
        gap_at_50: gap in votes at which that test passes with probability 1/2; None where none does, or without a test.
        gap_at_95: the same for probability 0.95.
        parameters: the mechanism's public parameters by name.
        target_hits: hits after which the session of a charged mechanism halts, or None.
        won_by: the accountant whose figure `epsilon` is, where `accountant` asks others; else None.
        classes: the epsilon of each class of groups with a budget of its own, by its name; none where all have
            `epsilon`, which is the largest.
        plain_epsilon: what plain composition of the same queries, those that were asked, would cost at `delta`, for a
            charged mechanism, or None. Infinity where its failure probabilities alone exceed `delta`.
    """

    epsilon: float
    delta: float
    adjacency: str
    unit: str
    accountant: str
    mechanism: str
    num_queries: int
    paper_epsilon: float | None = None
    noise_seeded: bool = False
    failure_prob: float | None = None
    max_gap: int | None = None
    gap_at_50: float | None = None
    gap_at_95: float | None = None
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    target_hits: int | None = None
    plain_epsilon: float | None = None
    won_by: str | None = None
    classes: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(self.epsilon >= 0, "privacy.epsilon", self.epsilon, "a number >= 0 or infinity")
        require(0 <= self.delta < 1, "privacy.delta", self.delta, "a number in [0, 1)")
        require_count("privacy.num_queries", self.num_queries, minimum=0)
        for name in _OPTIONAL:
            value = getattr(self, name)
            require(value is None or value >= 0, f"privacy.{name}", value, "a number >= 0 or None")


@dataclass(frozen=True)
class ReleaseSummary:
    """What was released, counted.

    Attributes:
        answer_rate: of the queries, 0 without any.
        label_accuracy: share of correct bits in the answered rows against true labels; None without answers.
        micro_f1: micro-averaged F1 of the answered rows against true labels; None without answers.
        num_hits: queries that a charged mechanism paid for, or None, as the next three.
        remaining_hits: how many more would have halted it.
        num_abstained: hits without an answer.
        num_asked: queries until it halted; the rest is refused.
    """

    num_queries: int
    num_answered: int
    answer_rate: float
    label_accuracy: float | None
    micro_f1: float | None
    num_hits: int | None = None
    remaining_hits: int | None = None
    num_abstained: int | None = None
    num_asked: int | None = None

    def __post_init__(self) -> None:
        require_count("release.num_queries", self.num_queries, minimum=0)
        require_count("release.num_answered", self.num_answered, minimum=0)
        rule = f"at most num_queries={self.num_queries}"
        require(self.num_answered <= self.num_queries, "release.num_answered", self.num_answered, rule)
        rate = self.num_answered / max(self.num_queries, 1)
        rule = f"num_answered / num_queries = {rate}"
        require(math.isclose(self.answer_rate, rate, abs_tol=1e-9), "release.answer_rate", self.answer_rate, rule)


@dataclass(frozen=True)
class TeacherSummary:
    """The ensemble, which no epsilon covers: its size, the mean share of correct bits of a teacher, and of records."""

    num_teachers: int
    mean_accuracy: float | None
    records_per_teacher: float


@dataclass(frozen=True)
class DataSummary:
    """The data set.

    Attributes:
        real: False for synthetic data, which is evidence of nothing but a working pipeline.
        label_cardinality: mean number of positive labels per sample.
        features: what stands for pictures, what it was fitted on, and digests; None where inputs are plain.
    """

    name: str
    real: bool
    num_private: int
    num_public: int
    num_test: int
    num_labels: int
    label_cardinality: float
    features: Mapping[str, Scalar] | None = None


@dataclass(frozen=True)
class Baselines:
    """Models to compare the private student with. No epsilon covers them. None where one was not trained.

    Attributes:
        prior: always predicts each label's majority.
        best_constant: always predicts the one set of labels with the best micro-F1.
        majority_vote_student: the student trained on the votes without noise.
        true_label_student: the student trained on the true labels of the queries.
        all_records_model: the best model of all private records, linear or a network: the ceiling.
    """

    prior: Scores | None
    best_constant: Scores | None
    majority_vote_student: Scores | None
    true_label_student: Scores | None
    all_records_model: Scores | None


@dataclass(frozen=True)
class Verdict:
    """What a run is worth.

    Attributes:
        share_of_reachable: of the mean average precision between a constant and the all-records model, or in its place
            the true-label student; below 0 for a student worse than a constant. None where it is undefined.
        beats_constant: whether the student is better than the best constant in every metric; None without a student.
        beats_prior: the same for the prior.
        text: both in words, and where the rest was lost.
    """

    share_of_reachable: float | None
    beats_constant: bool | None
    beats_prior: bool | None
    text: str

    @classmethod
    def of(
        cls,
        student: Scores | None,
        baselines: Baselines,
        *,
        num_answered: int,
        remedies: Mapping[str, str],
        better: str = "",
    ) -> Verdict:
        """The verdict on a student, by the aggregator's remedies and a sentence on a method that is better."""
        if student is None or not num_answered:
            helps = f"What helps: {remedies['noise']}, or another aggregator."
            text = f"No query was answered, so the student learned nothing. {helps} {better}"
            return cls(None, None, None, text.strip())
        behind = {name: _behind(student, constant) for name, constant in _constants(baselines).items()}
        share = _share(student, baselines)
        loss = _loss_text(student, baselines, remedies)
        said = [_share_text(student, baselines, share), _beaten_text(behind), loss, better]
        text = " ".join(sentence for sentence in said if sentence)
        beats = {name: not metrics for name, metrics in behind.items()}
        return cls(share, beats.get("best_constant"), beats.get("prior"), text)


@dataclass(frozen=True)
class Report:
    """Everything in `report.json`. No epsilon covers most of it: do not publish it.

    Attributes:
        student: metrics of the private student; None if nothing was answered to train it on.
        baselines: the models to compare with.
        intervals: `(low, high)` of each metric over resampled test sets, by the names of `student` and `baselines`.
        seed: of the run, None if its noise came from the operating system.
        versions: by package name.
        duration_s: wall-clock seconds of the run.
        not_covered: dotted keys of this report that no epsilon covers, each with the reason.
        membership: an attack on the published student, or None.
        data_dependent: what the release cost on the votes at hand, or None: no guarantee.
    """

    privacy: Privacy
    release: ReleaseSummary
    teachers: TeacherSummary
    student: Scores | None
    baselines: Baselines
    verdict: Verdict
    intervals: Mapping[str, Mapping[str, Interval]]
    data: DataSummary
    seed: int | None
    versions: Mapping[str, str]
    duration_s: float
    not_covered: Mapping[str, str] = field(default_factory=lambda: dict(NOT_COVERED))
    heading: Heading = field(default_factory=Heading)
    membership: Membership | None = None
    data_dependent: DataDependentEpsilon | None = None

    def __post_init__(self) -> None:
        rule = f"release.num_queries={self.release.num_queries}, or more"
        enough = self.privacy.num_queries >= self.release.num_queries
        require(enough, "privacy.num_queries", self.privacy.num_queries, rule)

    @property
    def name(self) -> str:
        """What was released by: the name that it was configured by, or the class of the aggregator."""
        return self.heading.aggregator or self.privacy.mechanism

    def to_json(self) -> str:
        """The report as strict JSON: infinity is the string `"inf"`, an undefined number is null."""
        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Reads what `to_json` wrote; `InvalidValue` for a missing or unknown key, or a value of another type."""
        return from_json(cls, text, name="report")

    @classmethod
    def read(cls, path: Path | str) -> Report:
        """Reads what `write` wrote; `DamagedFile` where there is no file, or no report."""
        text = read_text(path, rule=_FILE, remedy=_REMEDY)
        try:
            return cls.from_json(text)
        except ValueError as error:
            raise damaged(path, _FILE, str(error), _REMEDY) from None

    def write(self, path: Path | str) -> None:
        """Writes `report.json` atomically."""
        write_text(path, self.to_json() + "\n")


@dataclass(frozen=True)
class RunFigures:
    """The figures behind the pictures of one run. Do not publish them.

    Attributes:
        label_names: the L names.
        answered: bool `[Q]`.
        labels: bool `[Q, L]`, the released labels; rows of refused queries are not read.
        epsilon_after_query: float `[Q]`, the epsilon of the first q + 1 queries.
        gaps: `[Q]`, the noiseless gap of every query in votes, or None. No epsilon covers it.
        gap_name: which gap that is, as it reads on an axis.
        histogram: int `[Q, L]`, the noiseless votes, or None. No epsilon covers it.
        num_teachers: teachers behind the votes, the end of the axes that count votes; None if not known.
        pass_gaps: `[G]`, gaps in votes at which the pass probability is given, increasing, or None.
        pass_probability: `[G]`, the probability that the stability test passes at that gap, or None.
        per_label: float `[L]` by metric, as `per_label_metrics` gives them, by model; empty without a student.
        precision_recall: the student's, or None.
        student_curve: values after each epoch by name, `[E]`; empty for a student solved in one step.
    """

    label_names: tuple[str, ...]
    answered: Bits
    labels: Bits
    epsilon_after_query: Floats
    gaps: NDArray[np.int64] | Floats | None = None
    gap_name: str = "gap at the chosen k"
    histogram: NDArray[np.int64] | None = None
    num_teachers: int | None = None
    pass_gaps: NDArray[np.int64] | Floats | None = None
    pass_probability: Floats | None = None
    per_label: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict)
    precision_recall: PrecisionRecall | None = None
    student_curve: Mapping[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("answered", "labels"):
            kind = getattr(self, name).dtype
            require(kind == np.bool_, f"figures.{name}.dtype", kind, "bool")
        num_labels, num_queries = len(self.label_names), len(self.answered)
        require(num_labels > 0, "figures.label_names", self.label_names, "at least one name")
        _require_shape("answered", self.answered, (num_queries,))
        _require_shape("labels", self.labels, (num_queries, num_labels))
        _require_shape("epsilon_after_query", self.epsilon_after_query, (num_queries,))
        _require_shape("gaps", self.gaps, (num_queries,))
        _require_shape("histogram", self.histogram, (num_queries, num_labels))
        if self.pass_gaps is None:
            alone = self.pass_probability is None
            require(alone, "figures.pass_gaps", None, "the gaps that pass_probability is given at")
        else:
            given = self.pass_probability is not None
            require(given, "figures.pass_probability", None, "one for each of pass_gaps")
            _require_shape("pass_probability", self.pass_probability, (len(self.pass_gaps),))
        for model, metrics in self.per_label.items():
            for name, values in metrics.items():
                _require_shape(f"per_label[{model}][{name}]", values, (num_labels,))


def _require_shape(name: str, array: NDArray[np.generic] | None, shape: tuple[int, ...]) -> None:
    if array is not None:
        require(np.shape(array) == shape, f"figures.{name}.shape", np.shape(array), f"{shape}")


def _constants(baselines: Baselines) -> dict[str, Scores]:
    found = {"best_constant": baselines.best_constant, "prior": baselines.prior}
    return {name: scores for name, scores in found.items() if scores is not None}


def _behind(student: Scores, constant: Scores) -> list[str]:
    pairs = ((name, getattr(student, key), getattr(constant, key)) for key, name in _NAMES.items())
    return [name for name, own, other in pairs if own is not None and other is not None and own <= other]


def _ceiling(baselines: Baselines) -> tuple[str, Scores] | None:
    if baselines.all_records_model is not None:
        return "a model of all private records without privacy", baselines.all_records_model
    if baselines.true_label_student is not None:
        return "a student of the queries' true labels", baselines.true_label_student
    return None


def _share(student: Scores, baselines: Baselines) -> float | None:
    ceiling = _ceiling(baselines)
    low = baselines.prior.mean_average_precision if baselines.prior else None
    high = ceiling[1].mean_average_precision if ceiling else None
    reached = student.mean_average_precision
    if low is None or high is None or reached is None or high <= low:
        return None
    return (reached - low) / (high - low)


def _share_text(student: Scores, baselines: Baselines, share: float | None) -> str:
    ceiling = _ceiling(baselines)
    if share is None or ceiling is None or baselines.prior is None:
        return "The share of the reachable is undefined here: it needs a constant and a ceiling above it."
    low, high = baselines.prior.mean_average_precision, ceiling[1].mean_average_precision
    mean = student.mean_average_precision
    scale = f"a constant has {low:.3f}, {ceiling[0]} {high:.3f}"
    if share > 1:
        return f"Above what counts as reachable in mean average precision: {mean:.3f}, where {scale}."
    reached = f"{mean:.3f}, where {scale}"
    return f"Reached {share:.0%} of the reachable mean average precision: {reached}."


def _beaten_text(behind: dict[str, list[str]]) -> str:
    words = {"best_constant": "the best constant", "prior": "the prior"}
    lost = [f"{words[name]} in {_listed(metrics)}" for name, metrics in behind.items() if metrics]
    if lost:
        return f"No better than {' and than '.join(lost)}."
    return f"Better than {' and '.join(words[name] for name in behind)} in every metric." if behind else ""


def _loss_text(student: Scores, baselines: Baselines, remedies: Mapping[str, str]) -> str:
    """The steps from the ceiling down to the student, none below it: the one that lost at least half, and what helps.

    Steps between levels that are not there cannot be told, and count to the whole all the same.
    """
    levels = {name: getattr(found, HEADLINE, None) for name, found in (vars(baselines) | {"student": student}).items()}
    own = levels["student"] or 0.0
    names = {name for better, worse, _ in _STEPS for name in (better, worse)}
    whole = max((level for name in names if (level := levels[name]) is not None), default=own) - own
    losses = {}
    for better, worse, name in _STEPS:
        high, low = levels[better], levels[worse]
        if name in remedies and high is not None and low is not None and low >= own and round(high - low, 3) > 0:
            losses[name] = high - low
    if not losses or sum(losses.values()) < whole / 2:
        return ""
    most = max(losses, key=losses.__getitem__)
    if losses[most] >= whole / 2:
        return f"Most was lost to {most} ({losses[most]:.3f}); what helps: {remedies[most]}."
    return f"Lost to {_listed([f'{name} ({lost:.3f})' for name, lost in losses.items()])}, to none of them most."


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
