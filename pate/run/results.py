"""The results of a run as a report and as figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from pate import __version__
from pate.aggregators import Aggregator, Release
from pate.data import Dataset, Split
from pate.pricing import Budget, PricedRelease, ReleaseShape
from pate.pricing.remedies import group_votes_tell_more
from pate.report import Privacy, Report, Scores, metric_intervals, multilabel_metrics, per_label_metrics
from pate.report.metrics import CONSTANT_NAMES, Constant, PrecisionRecall, micro_f1, summarized
from pate.report.report import Baselines, DataSummary, Heading, ReleaseSummary, RunFigures, TeacherSummary, Verdict
from pate.run.privacy import privacy_of, summary_of
from pate.run.student import Prediction

_PACKAGES = ("numpy", "scipy", "torch", "scikit-learn", "hydra-core")
_POINTS = 48
_EACH_LABEL = ("student", "majority_vote_student", "all_records_model")


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything that a finished run knows.

    Attributes:
        dataset: the data.
        queries: the public samples that were asked.
        release: what was released.
        num_teachers: T.
        histogram: int `[Q, L]`, the noiseless votes, or None where votes are not bits.
        teacher_accuracies: `[T]`, or empty where votes are not bits.
        predictions: of the student and of the models beside it that were trained, by the names of report.json.
        aggregator: as it was used.
        budget: the delta of the guarantee, and the accountant.
        epsilon: the total of the ledger.
        won_by: the accountant whose figure one draw's price is, where the budget's asks others.
        seed: None where the noise came from the operating system.
        student_curve: the student's values by epoch.
        heading: what the run is called.
    """

    dataset: Dataset
    queries: Split
    release: Release
    num_teachers: int
    histogram: NDArray[np.int64] | None
    teacher_accuracies: NDArray[np.float64]
    predictions: Mapping[str, Prediction]
    aggregator: Aggregator
    budget: Budget
    epsilon: float
    won_by: str | None
    seed: int | None
    student_curve: Sequence[Mapping[str, float]] = ()
    heading: Heading = field(default_factory=Heading)

    def report(self, *, duration_s: float) -> Report:
        """The values of report.json."""
        predictions = {**self._constants(), **self.predictions}
        scores = {name: self._scores(name, prediction) for name, prediction in predictions.items()}
        baselines = Baselines(**{item.name: scores.get(item.name) for item in fields(Baselines)})
        return Report(
            privacy=self._privacy(),
            release=self._release_summary(),
            teachers=TeacherSummary(
                num_teachers=self.num_teachers,
                mean_accuracy=float(self.teacher_accuracies.mean()) if len(self.teacher_accuracies) else None,
                records_per_teacher=len(self.dataset.private) / self.num_teachers,
            ),
            student=scores["student"],
            baselines=baselines,
            verdict=Verdict.of(
                scores["student"],
                baselines,
                num_answered=self.release.num_answered,
                remedies=self.aggregator.remedies,
                better=self._better(),
            ),
            intervals={name: self._intervals(prediction) for name, prediction in predictions.items()},
            data=self._data_summary(),
            seed=self.seed,
            versions={"pate": __version__} | {package: version(package) for package in _PACKAGES},
            duration_s=duration_s,
            heading=self.heading,
        )

    def figures(self, report: Report) -> RunFigures:
        """The arrays behind the pictures."""
        gaps = None
        if self.histogram is not None:
            gaps = _largest_gaps(self.histogram, self.num_teachers)
        student, true = self.predictions["student"], self.dataset.test.labels
        test = self.aggregator.stability_test(num_teachers=self.num_teachers)
        names = self.student_curve[0].keys() if self.student_curve else ()
        return RunFigures(
            label_names=self.dataset.label_names,
            answered=self.release.answered,
            labels=self.release.labels,
            epsilon_after_query=self._epsilon_after_query(report.privacy.epsilon),
            gaps=gaps,
            gap_name="largest gap",
            histogram=self.histogram,
            num_teachers=self.num_teachers,
            pass_gaps=None if test is None else np.arange(test.num_teachers + 1),
            pass_probability=None if test is None else np.array(test.pass_probs),
            per_label={name: found for name, found in self._per_label.items() if name in _EACH_LABEL},
            precision_recall=PrecisionRecall.of(
                student.probabilities,
                student.labels,
                true,
                constant=Constant.best(self.dataset.private.labels.mean(axis=0)).labels,
                threshold=student.threshold,
            ),
            student_curve={name: np.array([values[name] for values in self.student_curve]) for name in names},
        )

    def _better(self) -> str:
        """A method that public numbers put far ahead on these data, in a sentence; empty where there is none."""
        shape = ReleaseShape(
            num_queries=len(self.release.labels), num_labels=self.dataset.num_labels, num_teachers=self.num_teachers
        )
        priced = PricedRelease(self.aggregator, shape, self.release.event, self.epsilon)
        groups = self.dataset.private.num_groups
        applies = self.dataset.kind == "features" and not self.aggregator.single_label
        if not applies or not group_votes_tell_more(priced, self.budget, num_groups=groups):
            return ""
        reason = f"it learns from all {groups:,} private groups"
        return f"experiment=centered_votes would do far better at this price: {reason}."

    def _privacy(self) -> Privacy:
        return privacy_of(
            self.release,
            self.aggregator,
            self.budget,
            epsilon=self.epsilon,
            num_teachers=self.num_teachers,
            seeded=self.seed is not None,
            won_by=self.won_by,
        )

    def _release_summary(self) -> ReleaseSummary:
        answered = self.release.answered
        labels, true = self.release.labels[answered], self.queries.labels[answered]
        measured = len(labels) > 0 and self.dataset.public_labeled
        return replace(
            summary_of(self.release),
            label_accuracy=float(np.mean(labels == true)) if measured else None,
            micro_f1=micro_f1(labels, true) if measured else None,
        )

    def _data_summary(self) -> DataSummary:
        data = self.dataset
        origin = {} if data.preprocessing is None else data.preprocessing.origin
        return DataSummary(
            name=data.name,
            real=data.real,
            num_private=len(data.private),
            num_public=len(data.public),
            num_test=len(data.test),
            num_labels=data.num_labels,
            label_cardinality=float(data.private.labels.sum(axis=1).mean()),
            features=dict(origin) or None,
        )

    def _constants(self) -> dict[str, Prediction]:
        """What predicts the same for every sample, by the frequencies among the private records."""
        frequencies, count = self.dataset.private.labels.mean(axis=0), len(self.dataset.test)
        return {name: Prediction(*Constant.named(name, frequencies).for_samples(count)) for name in CONSTANT_NAMES}

    @cached_property
    def _per_label(self) -> dict[str, dict[str, NDArray[np.float64]]]:
        """The metrics of each label, by the models that were trained."""
        true = self.dataset.test.labels
        return {
            name: per_label_metrics(model.labels, model.probabilities, true) for name, model in self.predictions.items()
        }

    def _scores(self, name: str, prediction: Prediction) -> Scores:
        true = self.dataset.test.labels
        if name in self._per_label:
            return summarized(self._per_label[name], micro_f1=micro_f1(prediction.labels, true))
        return multilabel_metrics(prediction.labels, prediction.probabilities, true)

    def _intervals(self, prediction: Prediction) -> dict[str, tuple[float, float]]:
        return metric_intervals(prediction.labels, prediction.probabilities, self.dataset.test.labels)

    def _epsilon_after_query(self, total: float) -> NDArray[np.float64]:
        """The price of the first q + 1 queries, `[Q]`: computed at some of them, between them the next one's."""
        num_queries, num_labels = self.release.labels.shape
        if self.aggregator.pays_in_advance:
            return np.full(num_queries, total)
        points = np.unique(np.linspace(1, num_queries, min(_POINTS, num_queries)).round().astype(int))
        values = []
        for count in points.tolist():
            event = self.aggregator.event_for(num_queries=count, num_labels=num_labels, num_teachers=self.num_teachers)
            values.append(self.budget.epsilon_of(event))
        values[-1] = max(values[-1], total) if math.isfinite(total) else total
        return np.array(values)[np.searchsorted(points, np.arange(1, num_queries + 1))]


def _largest_gaps(histogram: NDArray[np.int64], num_teachers: int) -> NDArray[np.int64]:
    """The largest gap of each query `[Q]`, "no label" and "all labels" included."""
    num_queries, num_labels = histogram.shape
    counts = np.empty((num_queries, num_labels + 2), np.int32)
    counts[:, 0], counts[:, -1] = 0, num_teachers
    counts[:, 1:-1] = np.sort(histogram.astype(np.min_scalar_type(num_teachers)), axis=1)
    gaps: NDArray[np.int64] = np.diff(counts, axis=1).max(axis=1).astype(np.int64)
    return gaps
