"""What a finished run knows: its report, its figures, and the files that people read."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ExactAccountant, JointLawAccountant, PldAccountant, RdpAccountant
from pate.accounting.data_dependent_epsilon import DataDependentEpsilon, UnknownCost
from pate.aggregators import CenteredVotes, Release
from pate.data import Dataset, Split
from pate.extras import VERSION
from pate.models import StudentModel, Voter
from pate.pricing import PricedRelease
from pate.pricing.guard import group_votes_tell_more
from pate.report import Report, metric_intervals, per_label_metrics
from pate.report.metrics import (
    CONSTANTS,
    Constant,
    Membership,
    PrecisionRecall,
    micro_f1,
    summarized,
)
from pate.report.report import (
    Baselines,
    DataSummary,
    Heading,
    RunFigures,
    TeacherSummary,
    Verdict,
)
from pate.run.charging import RunCharge
from pate.run.plan import EpsilonOnVotes
from pate.run.plan_warnings import remedies_of
from pate.run.published_price import privacy_of, summary_of
from pate.votes.source import CountableVotes, VoteSource

_PACKAGES = ("numpy", "scipy", "torch", "scikit-learn", "hydra-core")
_POINTS = 24
_ASKED = {
    each.name: each for each in (RdpAccountant, PldAccountant, ExactAccountant, JointLawAccountant)
}
_EACH_LABEL = ("student", "majority_vote_student", "all_records_model")


@dataclass(frozen=True)
class Prediction:
    """What a model says of the test split: bits and probabilities, `[num_test, L]` each, and its threshold, if any."""

    labels: NDArray[np.bool_]
    probabilities: NDArray[np.floating]
    threshold: float | tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Results:
    """Everything that a finished run knows."""

    dataset: Dataset  # the data
    queries: Split  # the public samples that were asked
    charge: RunCharge  # in the ledger
    priced: PricedRelease  # with the aggregator as it was used
    votes: VoteSource  # what was asked
    release: Release  # what was released of it
    curve: Sequence[Mapping[str, float]]  # the student's values by epoch
    # the student and the models beside it, by the names of report.json
    models: Mapping[str, StudentModel]
    membership: Membership | None  # an attack on the student
    teacher: Voter  # the recipe for teachers
    heading: Heading = field(default_factory=Heading)  # what the run is called
    # computes the cost of the release on the votes at hand; None where the report has none
    epsilon_on_votes: EpsilonOnVotes | None = None
    # why a model was not trained, by its name
    left_out: Mapping[str, str] = field(default_factory=dict)

    def report(self, *, duration_s: float) -> Report:
        data = self.dataset
        shape = self.priced.shape
        true = self.dataset.test.labels
        scores = {
            name: summarized(self._per_label[name], micro_f1=micro_f1(each.labels, true))
            for name, each in self._models.items()
        }
        baselines = Baselines(**{item.name: scores.get(item.name) for item in fields(Baselines)})
        dependent = None
        left_out = dict(self.left_out)
        if self.epsilon_on_votes is not None:
            try:
                dependent = self._data_dependent(self.epsilon_on_votes)
            except UnknownCost as error:
                left_out["data_dependent"] = str(error)
        return Report(
            privacy=privacy_of(self.release, self.charge),
            release=summary_of(self.release, self.queries.labels if data.public_labeled else None),
            teachers=TeacherSummary(
                num_teachers=shape.num_teachers,
                mean_accuracy=float(self.accuracies.mean()) if len(self.accuracies) else None,
                records_per_teacher=len(data.private) / shape.num_teachers,
            ),
            student=scores["student"],
            baselines=baselines,
            verdict=Verdict.of(
                scores["student"],
                baselines,
                num_answered=self.release.num_answered,
                remedies=remedies_of(self.priced.aggregator, self.teacher, data),
                better=self._better(),
            ),
            intervals={
                name: metric_intervals(each.labels, each.probabilities, true)
                for name, each in self._models.items()
            },
            data=DataSummary(
                name=data.name,
                real=data.real,
                num_private=len(data.private),
                num_groups=data.private.num_groups,
                num_public=len(data.public),
                num_test=len(data.test),
                num_labels=data.num_labels,
                label_cardinality=float(data.private.labels.sum(axis=1).mean()),
                features=None
                if data.preprocessing is None
                else dict(data.preprocessing.origin) or None,
            ),
            seed=self.charge.seed,
            versions={"pate": VERSION} | {package: version(package) for package in _PACKAGES},
            duration_s=duration_s,
            heading=self.heading,
            membership=self.membership,
            data_dependent=dependent,
            left_out=left_out,
        )

    def _data_dependent(self, epsilon_on_votes: EpsilonOnVotes) -> DataDependentEpsilon:
        """Returns the cost of the release on the votes at hand; raises `UnknownCost` where no theorem bounds it."""
        if not isinstance(self.votes, CountableVotes):
            raise UnknownCost(
                "votes",
                rule="a bit for each label, which the theorems are about; these are numbers",
            )
        return epsilon_on_votes(
            self.priced.aggregator,
            self.votes.counts(),
            self.priced.shape,
            self.charge.budget.delta,
            self.release.answered,
        )

    def figures(self, report: Report) -> RunFigures:
        num_teachers = self.priced.shape.num_teachers
        student = self._models["student"]
        data = self.dataset
        histogram = self.votes.counts() if isinstance(self.votes, CountableVotes) else None
        names = self.curve[0] if self.curve else ()
        test = self.priced.aggregator.stability_test(num_teachers=num_teachers)
        reached = np.arange(0 if test is None else test.num_teachers + 1)
        gaps = None
        if histogram is not None:  # the largest of each query, "no label" and "all labels" included
            counts = np.sort(histogram.astype(np.min_scalar_type(num_teachers)), axis=1).astype(
                np.int32
            )
            ends = np.zeros((len(counts), 1), np.int32)
            gaps = (
                np.diff(counts, axis=1, prepend=ends, append=ends + num_teachers)
                .max(axis=1)
                .astype(np.int64)
            )
        return RunFigures(
            label_names=data.label_names,
            answered=self.release.answered,
            labels=self.release.labels,
            epsilon_after_query=self._epsilon_after_query(report.privacy.epsilon),
            gaps=gaps,
            gap_name="largest gap",
            histogram=histogram,
            num_teachers=num_teachers,
            pass_gaps=None if test is None else reached,
            pass_probability=None if test is None else test.pass_probabilities(reached),
            per_label={name: self._per_label[name] for name in _EACH_LABEL if name in self.models},
            precision_recall=PrecisionRecall.of(
                student.probabilities,
                student.labels,
                data.test.labels,
                constant=Constant.best(data.private.labels.mean(axis=0)).labels,
                threshold=student.threshold,
            ),
            student_curve={
                name: np.array([values[name] for values in self.curve]) for name in names
            },
        )

    @cached_property
    def accuracies(self) -> NDArray[np.float64]:
        """Of teachers, `[T]`; none where votes are not bits, or queries have no labels."""
        return (
            self.votes.accuracies(self.queries.labels)
            if self.dataset.public_labeled
            else np.empty(0)
        )

    @cached_property
    def _models(self) -> dict[str, Prediction]:
        """What the constants and all models that were trained say."""
        frequencies = self.dataset.private.labels.mean(axis=0)
        test = self.dataset.test.inputs
        found = {
            name: Prediction(*made(frequencies).for_samples(len(test)))
            for name, made in CONSTANTS.items()
        }
        for name, model in self.models.items():
            found[name] = Prediction(
                model.predict(test), model.predict_proba(test), model.threshold
            )
        return found

    @cached_property
    def _per_label(self) -> dict[str, dict[str, NDArray[np.float64]]]:
        true = self.dataset.test.labels
        return {
            name: per_label_metrics(each.labels, each.probabilities, true)
            for name, each in self._models.items()
        }

    def _better(self) -> str:
        """A method that public numbers put far ahead on these data, in a sentence; empty where there is none."""
        groups = self.dataset.private.num_groups
        if self.dataset.kind != "features" or self.priced.aggregator.single_label:
            return ""
        centered = CenteredVotes(noise_multiplier=1.0)
        priced = replace(self.priced, epsilon=self.charge.epsilon)
        if not group_votes_tell_more(priced, self.charge.budget, centered, num_groups=groups):
            return ""
        reason = f"it learns from all {groups:,} private groups"
        return f"experiment=centered_votes would do far better at this price: {reason}."

    def _epsilon_after_query(self, total: float) -> NDArray[np.float64]:
        """The price of the first q + 1 queries, `[Q]`: computed at some of them, between them the next one's.

        Where the budget's accountant asks others, the one whose figure the whole has is asked alone: a bound, and fast.
        """
        aggregator = self.priced.aggregator
        num_queries = self.release.num_queries
        if aggregator.pays_in_advance:
            return np.full(num_queries, total)
        points = np.unique(
            np.linspace(1, num_queries, min(_POINTS, num_queries)).round().astype(int)
        )
        asked = _ASKED.get(self.priced.won_by or "", self.charge.budget.accountant)
        budget = replace(self.charge.budget, accountant=asked)
        shapes = [replace(self.priced.shape, num_queries=count) for count in points.tolist()]
        values = [budget.epsilon_of(aggregator.event(shape)) for shape in shapes]
        values[-1] = max(values[-1], total) if math.isfinite(total) else total
        return np.array(values)[np.searchsorted(points, np.arange(1, num_queries + 1))]
