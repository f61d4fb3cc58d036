"""The plan of a fit with scikit-learn estimators: clones learn from disjoint records and vote on public samples."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from pate.aggregators import Aggregator, TrainingSet
from pate.array_types import BoolArray, Float32Array, FloatArray
from pate.classifier.fit_plan import FitPlan
from pate.classifier.inputs import dense, is_frame, numbers_of, rows_of
from pate.classifier.label_models import LabelModel, Model
from pate.classifier.samples import Pools
from pate.classifier.tasks import Task
from pate.data.partition import Partition
from pate.models.sklearn import fit_errors_hidden, is_scale_sensitive
from pate.models.student import OnEpoch
from pate.pricing import PricedRelease, plan_release, require_useful
from pate.pricing.affordable_queries import require_achievable_delta
from pate.run.plan_warnings import few_records_doubts, uneven_inputs_doubts
from pate.threads import one_blas_thread
from pate.validation import InvalidValue
from pate.votes.label_shares import shares_of_teachers
from pate.votes.shape import VoteShape
from pate.votes.source import TeacherVotes, VoteSource

# The numbers of public samples that estimators of a DataFrame are tried on: at most the first number, and with fewer
# than the second they are not tried.
_MAX_REHEARSED = 200
_MIN_REHEARSED = 20
# The most characters that are shown of an estimator's own error.
_MAX_SHOWN = 120


def shown_error(error: Exception) -> str:
    """Returns the message of an estimator's error as one line, which is cut if it is long."""
    return " ".join(str(error).split())[:_MAX_SHOWN]


@dataclass(frozen=True)
class EstimatorLearner:
    """A recipe that fits clones of an estimator, both for the teachers of a fit and for its student.

    Attributes:
        label_task: the kind of labels; its method `fit` fits an estimator to labels of that kind.
        estimator: the unfitted estimator.
    """

    label_task: Task
    estimator: Any

    def learn(
        self,
        training: TrainingSet,
        *,
        pool: Float32Array,
        seed: int,
        on_epoch: OnEpoch | None = None,
    ) -> Model:
        """Fits a clone, the student, to the answers that it can learn from (`Task.is_usable`).

        The public pool without labels is not used, and neither are released scores.
        """
        is_usable = self.label_task.is_usable(training.labels)
        usable_inputs = rows_of(training.inputs, is_usable)
        usable_labels = training.labels[is_usable]
        return self.label_task.fit(self.estimator, usable_inputs, usable_labels, seed=seed)

    def confidences(
        self,
        private_inputs: Float32Array,
        private_targets: BoolArray,
        *,
        known_label_mask: BoolArray | None,
        seed: int,
        query_inputs: Float32Array,
    ) -> Float32Array:
        """Fits a clone, a teacher, and returns its confidences on the queries, `[num_queries, num_labels]`.

        The computation uses one thread, so the last bits of the result do not depend on the load of the machine.

        Args:
            private_inputs: the private inputs of the teacher, `[num_records, num_features]`.
            private_targets: their label bits, `[num_records, num_labels]`.
            known_label_mask: which of the bits are known, `[num_records, num_labels]`; None for all. The confidence in
                a label that is known for no record is 0.
            seed: the seed of the teacher.
            query_inputs: the inputs of the queries, `[num_queries, num_features]`.
        """
        with one_blas_thread(), fit_errors_hidden(self.estimator):
            if known_label_mask is None:
                model = self.label_task.fit(
                    self.estimator, private_inputs, private_targets, seed=seed
                )
                return model.confidences(query_inputs)
            model_of_known = LabelModel.fit_known(
                self.estimator,
                inputs=private_inputs,
                labels=private_targets,
                known_label_mask=known_label_mask,
                seed=seed,
            )
            is_taught = known_label_mask.any(axis=0)  # [num_labels]
            return np.asarray(model_of_known.confidences(query_inputs) * is_taught, np.float32)

    def rehearse(self, argument_name: str, query_inputs: Any) -> None:
        """Fits a clone to public samples with invented labels, as a test before anything is spent.

        At most 200 samples are used. With fewer than 20, nothing is done.

        Args:
            argument_name: the name of the parameter that holds the estimator, for the error.
            query_inputs: the inputs of the public samples.

        Raises:
            InvalidValue: the estimator cannot be fitted to the columns of the samples.
        """
        few_query_inputs = query_inputs[:_MAX_REHEARSED]
        if len(few_query_inputs) < _MIN_REHEARSED:
            return
        num_labels = self.label_task.num_labels
        made_up_label_indices = np.arange(len(few_query_inputs)) % min(2, num_labels)
        made_up_labels = made_up_label_indices[:, None] == np.arange(num_labels)
        try:
            self.label_task.fit(self.estimator, few_query_inputs, made_up_labels, seed=0).predict(
                few_query_inputs
            )
        except (ValueError, TypeError) as error:
            reason = shown_error(error)
            rule = f"one that takes the columns of X, such as a pipeline with a ColumnTransformer ({reason})"
            raise InvalidValue(argument_name, type(self.estimator).__name__, rule=rule) from error


@dataclass(frozen=True, eq=False, kw_only=True)  # compared by identity, as its parts are
class EnsemblePlan(FitPlan):
    """The plan of a fit whose teachers and student are scikit-learn estimators.

    Attributes:
        teacher_estimator: the unfitted estimator of the teachers.
        student_estimator: the unfitted estimator of the student.
        aggregator: the aggregator as it was configured; `price` chooses its noise for the budget.
        num_queries: the number of queries: teachers vote on so many public samples, the first ones.
        num_jobs: the number of processes that fit teachers, as in joblib.
        verbose: the level of messages, as in joblib.
    """

    teacher_estimator: Any
    student_estimator: Any
    aggregator: Aggregator
    num_queries: int
    num_jobs: int | None
    verbose: int

    @property
    def teacher_recipe(self) -> EstimatorLearner:
        """The recipe of the teachers."""
        return EstimatorLearner(label_task=self.label_task, estimator=self.teacher_estimator)

    @property
    def student_recipe(self) -> EstimatorLearner:
        """The recipe of the student."""
        return EstimatorLearner(label_task=self.label_task, estimator=self.student_estimator)

    @cached_property
    def query_inputs(self) -> Any:
        """The inputs of the queries: a DataFrame if the inputs are one, otherwise a dense array."""
        return dense(self.data_pools.public_inputs[: self.num_queries])

    @property
    def pool_inputs(self) -> Any:
        """The inputs of no sample, as estimators learn from labeled samples alone; in the form of `query_inputs`."""
        return self.query_inputs[:0]

    def price(self) -> PricedRelease:
        """Solves for the noise of the aggregator, and returns the priced release; nothing has been fitted yet."""
        vote_shape = VoteShape(
            num_queries=len(self.query_inputs),
            num_labels=self.label_task.num_labels,
            num_teachers=self.num_teachers,
        )
        require_achievable_delta(
            self.budget.delta, num_queries=vote_shape.num_queries, num_labels=vote_shape.num_labels
        )
        self.aggregator.check_run()
        priced_release = plan_release(self.aggregator, vote_shape, self.budget)
        doubts = list(
            require_useful(
                self.aggregator,
                priced_release,
                self.budget,
                num_groups=self.data_pools.num_groups,
                allow_useless=self.allow_useless,
            )
        )
        doubts += few_records_doubts(
            num_records=self.data_pools.private_inputs.shape[0],
            num_teachers=self.num_teachers,
            remedy="fewer teachers",
        )
        estimators = {"teacher": self.teacher_estimator, "student": self.student_estimator}
        scale_sensitive_parts = [
            part_name
            for part_name, estimator in estimators.items()
            if is_scale_sensitive(estimator)
        ]
        if scale_sensitive_parts:
            doubts += uneven_inputs_doubts(
                linear_parts_in_words=" and ".join(scale_sensitive_parts),
                public_inputs=numbers_of(self.query_inputs),
            )
        return replace(priced_release, doubts=tuple(doubts))

    def rehearse(self) -> None:
        """Fits the estimators to public rows of a DataFrame; raises `InvalidValue` if one cannot read its columns.

        Nothing is done if the inputs are no DataFrame.
        """
        if is_frame(self.query_inputs):
            self.teacher_recipe.rehearse(argument_name="estimator", query_inputs=self.query_inputs)
            self.student_recipe.rehearse(argument_name="student", query_inputs=self.query_inputs)

    def vote(
        self, priced_release: PricedRelease, partition: Partition, *, seeds: list[int]
    ) -> VoteSource:
        """Fits a clone of the estimator to each part of the private records, and returns the votes on the queries.

        Args:
            priced_release: the priced release, whose aggregator decides whether confidences are kept beside the votes.
            partition: the assignment of private records to teachers.
            seeds: the seed of each teacher.
        """
        return train_and_vote(
            self.teacher_recipe,
            self.data_pools,
            partition,
            query_inputs=self.query_inputs,
            seeds=seeds,
            keep_confidences=not priced_release.aggregator.reads_counts,
            num_jobs=self.num_jobs,
            verbose=self.verbose,
        )


def train_and_vote(
    learner: EstimatorLearner,
    data_pools: Pools,
    partition: Partition,
    *,
    query_inputs: Any,
    seeds: list[int],
    keep_confidences: bool,
    num_jobs: int | None,
    verbose: int,
) -> "FittedVotes":
    """Fits a teacher to each part of the private records, and returns the votes of all teachers on the queries.

    Args:
        learner: the recipe of each teacher.
        data_pools: the private records.
        partition: the assignment of private records to teachers.
        query_inputs: the inputs of the queries, one entry for each query.
        seeds: the seed of each teacher.
        keep_confidences: true keeps confidences (four bytes each) in addition to the votes (one bit each).
        num_jobs: the number of processes, as in joblib. A teacher is fitted and votes in one process, and is then
            deleted.
        verbose: the level of messages, as in joblib.
    """
    rows_of_teachers = [
        partition.indices(teacher_index) for teacher_index in range(partition.num_teachers)
    ]
    parallel = Parallel(n_jobs=num_jobs, return_as="generator", verbose=verbose)
    fit_and_vote = delayed(learner.confidences)
    confidences_by_teacher: Iterator[Float32Array] = parallel(
        fit_and_vote(
            private_inputs=rows_of(data_pools.private_inputs, row_indices),
            private_targets=data_pools.private_targets[row_indices],
            known_label_mask=None
            if data_pools.known_label_mask is None
            else data_pools.known_label_mask[row_indices],
            seed=seed,
            query_inputs=query_inputs,
        )
        for row_indices, seed in zip(rows_of_teachers, seeds, strict=True)
    )
    packed_bits: list[NDArray[np.uint8]] = []
    kept_confidences: list[Float32Array] = []
    for teacher_confidences in confidences_by_teacher:
        packed_bits.append(np.packbits(teacher_confidences >= 0.5))
        if keep_confidences:
            kept_confidences.append(teacher_confidences)
    share_by_teacher = partial(
        shares_of_teachers, teacher_of=partition.teacher_of, num_teachers=partition.num_teachers
    )
    return FittedVotes(
        packed_bits=packed_bits,
        confidences=kept_confidences,
        label_shares=share_by_teacher(data_pools.private_targets),
        known_shares=None
        if data_pools.known_label_mask is None
        else share_by_teacher(data_pools.known_label_mask),
        num_queries=len(query_inputs),
        num_labels=learner.label_task.num_labels,
        records_per_teacher=data_pools.num_groups / partition.num_teachers,
    )


class FittedVotes(TeacherVotes):
    """The votes of fitted teachers. No epsilon covers them; they are deleted at the end of the fit.

    If confidences were not kept, the votes are returned in their place, as 0 and 1.

    Args:
        packed_bits: the votes of each teacher, 8 in a byte, as `np.packbits` packs `[num_queries, num_labels]`.
        confidences: the confidences of each teacher, `[num_queries, num_labels]`; empty if they were not kept.
        label_shares: the share of each teacher's records that have each label, `[num_teachers, num_labels]`.
        known_shares: the share of each teacher's records for which each label is known, of the same shape; None if
            labels have no gaps.
        num_queries: the number of queries.
        num_labels: the number of labels.
        records_per_teacher: the average number of private groups, not of records, of a teacher.
    """

    def __init__(
        self,
        *,
        packed_bits: list[NDArray[np.uint8]],
        confidences: list[Float32Array],
        label_shares: FloatArray,
        known_shares: FloatArray | None,
        num_queries: int,
        num_labels: int,
        records_per_teacher: float,
    ) -> None:
        self.num_teachers = len(packed_bits)
        self.num_queries = num_queries
        self.num_labels = num_labels
        self.records_per_teacher = records_per_teacher
        self._packed_bits = packed_bits
        self._confidences = confidences
        self._label_shares = label_shares
        self._known_shares = known_shares

    def bits(self) -> Iterator[BoolArray]:
        """Yields the votes of one teacher after another, `[1, num_queries, num_labels]`."""
        for packed_votes in self._packed_bits:
            bits = np.unpackbits(packed_votes, count=self.num_queries * self.num_labels)
            yield bits.reshape(1, self.num_queries, self.num_labels).astype(np.bool_)

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Yields each teacher's confidences, `[1, num_queries, num_labels]`, or its votes if they were not kept."""
        if not self._confidences:
            yield from self.bits()
        for confidences in self._confidences:
            yield confidences[None]

    def label_shares(self) -> FloatArray:
        """Returns the share of each teacher's records that have each label, `[num_teachers, num_labels]`."""
        return self._label_shares

    def known_shares(self) -> FloatArray | None:
        """Returns the share of each teacher's records for which each label is known, `[num_teachers, num_labels]`.

        None means that labels have no gaps.
        """
        return self._known_shares
