"""The report of one run, `report.json`. No epsilon covers most of it: it is for the data owner alone."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pate.accounting.data_dependent_epsilon import DataDependentEpsilon
from pate.files.atomic import write_text
from pate.files.reading import read_value
from pate.files.strict_json import from_json, plain, to_json
from pate.html_table import html_table
from pate.report.bands import PrevalenceBand
from pate.report.intervals import Interval
from pate.report.membership import Membership
from pate.report.metrics import Scores
from pate.report.privacy import Privacy, Scalar
from pate.report.verdict import Baselines, StudentVerdict
from pate.report.wording import MODEL_NAMES
from pate.validation import InvalidValue, require_count

# The dotted keys of report.json that no epsilon covers, each with the reason.
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
    "sampled": "the size of a sample depends on the sizes of private groups",
    "baselines.best_constant": "the labels' frequencies are taken from true labels",
    "intervals": "resampled from the true labels of the test split",
    "membership": "compares the student's losses on private records and on test records",
    "data_dependent": "computed from the votes without noise; the guarantee is privacy.epsilon",
    "verdict": "compares scores that read true labels",
    "bands": "labels are sorted by their prevalence among the private records",
    "macro_auroc": "reads the true labels of the test split",
    "data.num_private": "a private group may have any number of records",
    "data.label_cardinality": "computed from true labels",
    "data.known_labels": "counts which labels of private records are known",
    "heading": "names settings of the command line, a seed among them",
    "duration_s": "the time a run takes depends on the private data",
}
# The further keys that no epsilon covers, for a student that began at a public model.
_START_NOT_COVERED = {"baselines.start_alone": "its scores read the true labels of the test split"}


def keys_no_epsilon_covers(baselines: Baselines) -> dict[str, str]:
    """Returns the dotted keys of a report that no epsilon covers, such as "baselines.prior", each with the reason.

    Args:
        baselines: the scores of the models that the student is compared with. The key of `start_alone` is left out if
            the report has no such model.
    """
    if baselines.start_alone is None:
        return dict(NOT_COVERED)
    return NOT_COVERED | _START_NOT_COVERED


@dataclass(frozen=True)
class Heading:
    """The name of a run's aggregator, and the settings of its command line.

    They are for the data owner alone, except the name if `is_public` is true.

    Attributes:
        aggregator_name: the name by which the aggregator was configured, such as `stable_top_k_table`; empty without
            a name.
        is_public: whether that name ships with the package; any other name is its author's choice, and not published.
        given: the settings on the command line, as text, by name.
        compared: the settings by which TensorBoard compares runs, by name: the name of each part, such as the
            aggregator; some terms, such as `target_epsilon`; and those in `given`.
    """

    aggregator_name: str = ""
    is_public: bool = False
    given: Mapping[str, str] = field(default_factory=dict)
    compared: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def overrides(self) -> str:
        """The settings in one line, as on the command line."""
        return " ".join(f"{setting_name}={setting}" for setting_name, setting in self.given.items())


@dataclass(frozen=True)
class ReleaseSummary:
    """The numbers of queries, answers and hits of a release. `Privacy` has its price.

    A mechanism may be charged by *hits* alone, and not by queries. A hit is a query, answered or not, that uses up one
    of `Privacy.target_hits`. The last four attributes are None for other mechanisms.

    Attributes:
        num_queries: the number of queries.
        num_answered: the number of queries that were answered.
        answer_rate: the share of the queries that were answered; 0 without queries.
        label_accuracy: the share of correct bits in the answers, by the true labels; None without answers or true
            labels.
        micro_f1: the micro-averaged F1 of the answers, by the true labels; None without answers or true labels.
        num_hits: the number of hits.
        remaining_hits: the number of further hits after which the mechanism would have halted.
        num_abstained: the number of hits without an answer.
        num_asked: the number of queries until the mechanism halted, which refuses later ones; or that of all queries.
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
        if self.num_answered > self.num_queries:
            rule = f"at most num_queries={self.num_queries}"
            raise InvalidValue("release.num_answered", self.num_answered, rule=rule)
        computed_rate = self.num_answered / max(self.num_queries, 1)
        if not math.isclose(self.answer_rate, computed_rate, abs_tol=1e-9):
            rule = f"num_answered / num_queries = {computed_rate}"
            raise InvalidValue("release.answer_rate", self.answer_rate, rule=rule)

    @property
    def hits_in_words(self) -> str:
        """The number of hits in one line, if the mechanism is charged by hits; otherwise empty."""
        if self.num_hits is None:
            return ""
        session_line = f"{self.num_hits} hits, {self.remaining_hits} remaining, {self.num_abstained} abstentions"
        return f"{session_line}; {self.num_asked} of {self.num_queries} queries asked"


@dataclass(frozen=True)
class TeacherSummary:
    """The number of teachers, which is public, and two means that no epsilon covers.

    Attributes:
        num_teachers: the number of teachers.
        mean_accuracy: the mean share of right bits in the teachers' votes on the queries; None if it is not known.
        records_per_teacher: the mean number of private records of a teacher.
    """

    num_teachers: int
    mean_accuracy: float | None
    records_per_teacher: float


@dataclass(frozen=True)
class DataSummary:
    """The data set of a run: its name, its numbers of records and labels, and the origin of its features.

    Attributes:
        name: the name of the data set.
        real: False for synthetic data, which shows only that the pipeline works.
        num_private: the number of private records.
        num_public: the number of public records.
        num_test: the number of test records.
        num_labels: the number of labels.
        label_cardinality: the mean number of positive labels of a record.
        num_groups: the number of groups of private records, each a unit of privacy; None in older reports.
        features: the extractor of features, with digests; None if inputs are not transformed.
        known_labels: the share of labels that are known, by split; empty if all labels of private records are known.
    """

    name: str
    real: bool
    num_private: int
    num_public: int
    num_test: int
    num_labels: int
    label_cardinality: float
    num_groups: int | None = None
    features: Mapping[str, Scalar] | None = None
    known_labels: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """The content of `report.json`. No epsilon covers most of it: do not publish it.

    Attributes:
        privacy: the price of the release.
        release: the numbers of queries and answers.
        teachers: the number of teachers, and their mean accuracy and number of records.
        student: the metrics of the private student; None if it had no answer to learn from.
        baselines: the metrics of the models that the student is compared with.
        verdict: where the student's score lies between that of a constant and that of a model without privacy.
        intervals: the interval of each metric over resampled test sets, by model and by metric.
        data: the data set.
        seed: the seed of the run; None if its noise came from the operating system.
        versions: the versions of packages, by name.
        duration_s: the duration of the run in seconds.
        not_covered: the dotted keys of the report that no epsilon covers, with the reasons.
        heading: the name of the aggregator, and the settings on the command line of the run.
        membership: the success of attacks on the published student; None if none were made.
        data_dependent: the cost of the release on its actual votes; None if it was not computed. The number is itself
            private, and no guarantee.
        left_out: why a model was not trained, by its key in `models`. The key `data_dependent`, if it is
            there, states why that field is None.
        sampled: for each model that learned from a sample of the private records, the size of the sample in words, by
            the model's key in `models`.
        bands: the head, middle and tail of the labels, with the scores of models on each; empty for fewer than three
            labels.
        macro_auroc: the mean over labels of the area under the ROC curve, by model; None if it is defined for no label.
    """

    privacy: Privacy
    release: ReleaseSummary
    teachers: TeacherSummary
    student: Scores | None
    baselines: Baselines
    verdict: StudentVerdict
    intervals: Mapping[str, Mapping[str, Interval]]
    data: DataSummary
    seed: int | None
    versions: Mapping[str, str]
    duration_s: float
    not_covered: Mapping[str, str] = field(default_factory=lambda: dict(NOT_COVERED))
    heading: Heading = field(default_factory=Heading)
    membership: Membership | None = None
    data_dependent: DataDependentEpsilon | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    sampled: Mapping[str, str] = field(default_factory=dict)
    bands: tuple[PrevalenceBand, ...] = ()
    macro_auroc: Mapping[str, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        num_priced_queries = self.privacy.num_queries
        num_released_queries = self.release.num_queries
        if num_priced_queries < num_released_queries:
            rule = f"release.num_queries={num_released_queries}, or more"
            raise InvalidValue("privacy.num_queries", num_priced_queries, rule=rule)

    @property
    def name(self) -> str:
        """The name of the aggregator in the configuration; without one, the name of its class."""
        return self.heading.aggregator_name or self.privacy.mechanism

    @property
    def models(self) -> dict[str, Scores | None]:
        """The scores of the models in `MODEL_NAMES`, by their keys; None for a model that was not trained."""
        scores_of = vars(self.baselines) | {"student": self.student}
        return {model_key: scores_of[model_key] for model_key in MODEL_NAMES}

    @property
    def ceiling_name(self) -> str:
        """The key of the model that is the upper limit in the verdict.

        It is the model of all private records, or, if that was not trained, the student of the true labels.
        """
        has_ceiling = self.baselines.all_records_model is not None
        return "all_records_model" if has_ceiling else "true_label_student"

    def _repr_html_(self) -> str:
        """Returns the price and the scores of the student as a table for notebooks."""
        rows = self.privacy.terms
        release = self.release
        rows.append(("answered", f"{release.num_answered} of {release.num_queries} queries"))
        for metric_name in ("mean_average_precision", "micro_f1", "accuracy"):
            score = getattr(self.student, metric_name, None)
            if score is not None:
                rows.append((f"student: {metric_name.replace('_', ' ')}", f"{score:.3f}"))
        student_verdict = self.verdict
        rows.append(("verdict", student_verdict.text))
        rows.append(("scores", "no epsilon covers them: do not publish them"))
        return html_table(title=f"Report of {self.name} on {self.data.name}", rows=rows)

    def reason_without(self, model_key: str) -> str:
        """Returns the reason why a model has no scores; "" if it has scores, and for reports of earlier versions.

        Args:
            model_key: the key of the model in `models`.
        """
        return self.left_out.get(model_key, "") if self.models[model_key] is None else ""

    @property
    def private_records_in_words(self) -> str:
        """The numbers of private records and of their groups, as a phrase."""
        records = f"{self.data.num_private:,} private records"
        groups = self.data.num_groups
        if groups is None or groups == self.data.num_private:
            return records
        return f"{records} of {groups:,} groups"

    def to_json(self) -> str:
        """Returns the report as strict JSON, in which infinity is the text `"inf"` and an undefined number is null."""
        report_fields = plain(self)
        # Reports without these parts keep the form that they had before there were such parts.
        for field_name in ("scores", "start", "tuning"):
            if report_fields["privacy"][field_name] is None:
                del report_fields["privacy"][field_name]
        if self.baselines.start_alone is None:
            del report_fields["baselines"]["start_alone"]
        return to_json(report_fields)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads a report from JSON.

        Raises `InvalidValue` if a key is missing or unknown, or a value has a wrong type.
        """
        return from_json(cls, text, name="report")

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Reads a report from its file; raises `DamagedFile` if the file is missing or holds no report."""
        remedy = (
            "remove it, and the same command writes it again from the release, at no further price"
        )
        return read_value(
            cls, path, name="report", rule="the report of a finished run", remedy=remedy
        )

    def write(self, path: Path | str) -> None:
        """Writes the report to a file, which appears only when it is complete."""
        report_json = self.to_json()
        write_text(path, text=report_json + "\n")
