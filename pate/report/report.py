"""The report of one training run: the values behind `report.json`, its pictures, the tables, the page and the card."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from pate.files.disk import damaged, read_text, write_text
from pate.files.values import from_json, to_json
from pate.report.metrics import Floats, PrecisionRecall, Scores
from pate.report.verdict import Baselines, Verdict
from pate.validation import require, require_count

_FILE = "the report of a finished run"
_REMEDY = "remove it, and the same command writes it again from the release, at no further price"

Scalar = str | int | float | bool | None


class PrivacyCoverage(Enum):
    """What protects a figure of the report."""

    COVERED = "covered by the epsilon"
    HELD_OUT = "no epsilon covers the true labels it is scored with"
    UNCOVERED = "no epsilon covers this"


NOT_COVERED = MappingProxyType(
    {
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
        "verdict": "compares scores that read true labels",
        "data.label_cardinality": "computed from true labels",
        "heading": "names settings of the command line, a seed among them",
        "duration_s": "the time a run takes depends on the private data",
    }
)
"""Keys of `report.json`, dotted, that no epsilon covers, each with the reason."""

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
"""What the epsilon of a release says nothing about, in sentences fit to publish."""

SEEDED_WARNING = "seeded noise protects nobody who knows the seed"
PAPER_LABEL = "as the paper accounts; not a bound"


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

    def __post_init__(self) -> None:
        """Refuses numbers that are no price."""
        require(self.epsilon >= 0, "privacy.epsilon", self.epsilon, "a number >= 0 or infinity")
        require(0 <= self.delta < 1, "privacy.delta", self.delta, "a number in [0, 1)")
        require_count("privacy.num_queries", self.num_queries, minimum=0)
        for name in (
            "paper_epsilon",
            "failure_prob",
            "max_gap",
            "gap_at_50",
            "gap_at_95",
            "target_hits",
            "plain_epsilon",
        ):
            value = getattr(self, name)
            require(value is None or value >= 0, f"privacy.{name}", value, "a number >= 0 or None")


@dataclass(frozen=True)
class ReleaseSummary:
    """What was released, counted.

    Attributes:
        num_queries: queries asked.
        num_answered: queries answered.
        answer_rate: their ratio, 0 without queries.
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
        """Refuses counts that contradict each other."""
        require_count("release.num_queries", self.num_queries, minimum=0)
        require_count("release.num_answered", self.num_answered, minimum=0)
        rule = f"at most num_queries={self.num_queries}"
        require(self.num_answered <= self.num_queries, "release.num_answered", self.num_answered, rule)
        rate = self.num_answered / max(self.num_queries, 1)
        rule = f"num_answered / num_queries = {rate}"
        require(math.isclose(self.answer_rate, rate, abs_tol=1e-9), "release.answer_rate", self.answer_rate, rule)


@dataclass(frozen=True)
class TeacherSummary:
    """The ensemble; no epsilon covers it.

    Attributes:
        num_teachers: size of the ensemble.
        mean_accuracy: mean over teachers of the share of correct bits; None if not measured.
        records_per_teacher: mean number of private records of a teacher.
    """

    num_teachers: int
    mean_accuracy: float | None
    records_per_teacher: float


@dataclass(frozen=True)
class DataSummary:
    """The data set.

    Attributes:
        name: its name.
        real: False for synthetic data, which is evidence of nothing but a working pipeline.
        num_private: private records.
        num_public: samples of the public pool.
        num_test: test samples.
        num_labels: labels per sample.
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
class Report:
    """Everything in `report.json`. No epsilon covers most of it: do not publish it.

    Attributes:
        privacy: the price.
        release: what was released.
        teachers: the ensemble.
        student: metrics of the private student; None if nothing was answered to train it on.
        baselines: the models to compare with.
        verdict: what the run is worth, in words.
        intervals: `(low, high)` of each metric over resampled test sets, by the names of `student` and `baselines`.
        data: the data set.
        seed: the seed of the run, None if its noise came from the operating system.
        versions: version by package name.
        duration_s: wall-clock seconds of the run.
        not_covered: dotted keys of this report that no epsilon covers, each with the reason.
        heading: what the run is called, by how it was configured.
    """

    privacy: Privacy
    release: ReleaseSummary
    teachers: TeacherSummary
    student: Scores | None
    baselines: Baselines
    verdict: Verdict
    intervals: Mapping[str, Mapping[str, tuple[float, float]]]
    data: DataSummary
    seed: int | None
    versions: Mapping[str, str]
    duration_s: float
    not_covered: Mapping[str, str] = field(default_factory=lambda: dict(NOT_COVERED))
    heading: Heading = field(default_factory=Heading)

    def __post_init__(self) -> None:
        """Refuses a release and a price that count different queries."""
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
        """Reads what `to_json` wrote.

        Raises:
            InvalidValue: text that is no JSON object, a missing or unknown key, or a value of another type.
        """
        return from_json(cls, text, name="report")

    @classmethod
    def read(cls, path: Path) -> Report:
        """Reads what `write` wrote.

        Raises:
            DamagedFile: no such file, or it is no report.
        """
        text = read_text(path, rule=_FILE, remedy=_REMEDY)
        try:
            return cls.from_json(text)
        except ValueError as error:
            raise damaged(path, _FILE, str(error), _REMEDY) from None

    def write(self, path: Path) -> None:
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
    answered: NDArray[np.bool_]
    labels: NDArray[np.bool_]
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
        """Refuses arrays whose shapes do not fit together."""
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
            require(
                self.pass_probability is not None,
                "figures.pass_probability",
                None,
                "one for each of pass_gaps",
            )
            _require_shape("pass_probability", self.pass_probability, (len(self.pass_gaps),))
        for model, metrics in self.per_label.items():
            for name, values in metrics.items():
                _require_shape(f"per_label[{model}][{name}]", values, (num_labels,))


def _require_shape(name: str, array: NDArray[np.generic] | None, shape: tuple[int, ...]) -> None:
    """Refuses an array of another shape; None passes."""
    if array is not None:
        require(np.shape(array) == shape, f"figures.{name}.shape", np.shape(array), f"{shape}")
