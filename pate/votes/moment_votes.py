"""The votes of teachers in rounds: the gradient of a public student's errors on their records.

In a round the student is public, and so are its probabilities p(x) on any input x. A teacher's vote is the mean over
its records of features(x) (y - p(x))^T, a matrix `[num_features, num_labels]`. This is the gradient by which the
student would learn the teacher's labels y. The vote is clipped to a fixed length. The clipped votes are added in whole
steps of a grid (`ClippedMoments`), and the caller adds noise.

Two kinds of teachers vote in this way. A teacher without training, such as a kernel teacher, uses its records alone. A
trained teacher also uses its own confidences on its records and on the public pool (`PoolAnswers`). In its vote they
replace a share of p, `Recipe.trust`. If the confidences of a teacher are right, its vote then hardly depends on the
choice of its records.

Noise and price hold for one exact sum. So a sum must not depend on the number of processors or blocks. Features and
weights are therefore rounded to grids on which doubles hold every product (`RoundShard`).

Source: docs/proofs/vote_rounds.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pate.array_types import Float32Array, FloatArray, IntArray
from pate.votes.feature_rows import DEFAULT_STORAGE, FeatureStorage
from pate.votes.label_gaps import GapLabels, zero_where_unknown
from pate.votes.pool_answers import PoolAnswers
from pate.votes.public_pca import PublicPCA
from pate.votes.round_records import RoundRecords, ShardRecords, no_report
from pate.votes.round_shard import RoundShard, VotesFromPool, vote_factor
from pate.votes.round_sums import RoundSums, ThreadSums
from pate.votes.round_votes import RoundQuestion, RoundVotes


@dataclass(eq=False, repr=False, kw_only=True)  # a generated __eq__ fails on arrays
class MomentVotes(RoundVotes):
    """The votes in rounds of teachers whose records this process can read.

    A teacher's vote is the mean over its records of features(x) (y - p(x))^T, where p is the student's probability. The
    features are public (`PublicPCA.with_constant`). The mean over n records is multiplied by sqrt(n /
    records_per_teacher). If records are independent, the votes of all teachers then have about the same length, and one
    clip fits all of them. The vote of a trained teacher is not multiplied, and its own confidences replace a part of p
    (`PoolAnswers`). The votes of trained teachers are summed in this process. Those of other teachers are summed by
    `make_round_sums`, here or elsewhere.

    Raises `InvalidValue`, naming the setting `scratch`, if the disk of `feature_storage` has too little space.

    Attributes:
        inputs: float32 `[num_records, ...]`, private; an array, or an object that reads rows from a disk as an array
            does.
        labels: `[num_records, num_labels]`, private; bool, or int8 if they have gaps (`labels_with_gaps`). The residual
            of an unknown label is 0.
        teacher_of: int `[num_records]`, the index of each record's teacher.
        num_teachers: the number of teachers.
        public_pca: the directions of the public pool; its `recipe` holds the trust in trained teachers.
        public_inputs: float32 `[num_public, ...]`, the rows that stand for the pool.
        records_per_teacher: the approximate number of independent records of a teacher, public.
        ask_teachers: a function that returns the confidences of all trained teachers on the pool; called once. None for
            teachers without training.
        weights: public, `[num_teachers]` in [0, 1], the weight of each teacher; None for 1.
        make_round_sums: makes the sums over all records, in threads, processes or on several machines.
        feature_storage: where the features of records lie between rounds.
        report_num_rows: is called with the number of records of each block that is read to fill a shard, here or for a
            worker.
        public_row_weights: `[num_public]`, > 0, or None; see `RoundVotes`.
    """

    inputs: Any
    labels: GapLabels
    teacher_of: IntArray
    num_teachers: int
    public_pca: PublicPCA
    public_inputs: Float32Array
    records_per_teacher: float
    ask_teachers: Callable[[], PoolAnswers] | None = None
    weights: FloatArray | None = None
    make_round_sums: Callable[[RoundRecords], RoundSums] = ThreadSums
    feature_storage: FeatureStorage = DEFAULT_STORAGE
    report_num_rows: Callable[[int], object] = no_report
    public_row_weights: FloatArray | None = None

    def __post_init__(self) -> None:
        # the attributes of `RoundVotes`
        self.num_labels = self.labels.shape[1]
        self.public_features = self.public_pca.with_constant(self.public_inputs).astype(np.float32)
        self.feature_variances = self.public_pca.feature_variances
        self.feature_storage.require_room(num_rows=len(self.labels), num_features=self.num_features)

    def total(self, question: RoundQuestion) -> IntArray:
        """Returns the sum of the clipped votes, `[num_features, num_labels]`, in grid steps; see `RoundVotes.total`."""
        pool_answers = self._answers
        if pool_answers is None:
            return self._sums.total(question)
        teacher_indices = self._shard_records.teacher_indices
        mean_student_products = pool_answers.mean_student_products(question.student_weights)
        trust = self.public_pca.recipe.trust

        def compute_votes_of_teachers(teacher_range: slice) -> FloatArray:
            return pool_answers.votes(
                teacher_indices=teacher_indices[teacher_range],
                mean_student_products=mean_student_products,
                trust=trust,
            )

        votes_from_pool = VotesFromPool(
            trust=trust, compute_votes_of_teachers=compute_votes_of_teachers
        )
        return self._shard.total(question, votes_from_pool=votes_from_pool)

    def open(self) -> None:
        """Reaches the workers that sum the votes of teachers without training; no record is read.

        Does nothing for trained teachers, whose votes this process sums.
        """
        if self.ask_teachers is None:
            _ = self._sums  # made when it is first read

    def close(self) -> None:
        """Releases features, scratch files and processes; the next round makes them again."""
        # Only what was made is closed. Without its entry in `__dict__` a cached property is made again.
        for attribute_name in ("_sums", "_shard"):
            if attribute_name in self.__dict__:
                self.__dict__.pop(attribute_name).close()

    def record_factors(
        self, inputs: Float32Array, labels: GapLabels, question: RoundQuestion
    ) -> tuple[FloatArray, FloatArray]:
        """Returns two arrays whose rows give the vote that each record casts if it is the only one of its teacher.

        The arrays are features `[num_records, num_features]` and clipped residuals `[num_records, num_labels]`. The
        outer product of a record's two rows is the vote of a teacher without training, in grid steps, before it is
        weighted and rounded. The privacy audit computes the votes of its canaries in this way.

        Args:
            inputs: float32 `[num_records, ...]`.
            labels: `[num_records, num_labels]`.
            question: the question of the round: the student's weights, the scale of each label's residuals, and the
                clip.
        """
        moment_clipping = question.moment_clipping
        features = self.public_pca.with_constant(inputs)
        probabilities = 0.5 * (1 + np.tanh(features @ question.student_weights / 2))
        residuals = zero_where_unknown(labels - probabilities, gap_labels=labels)
        residuals *= question.label_scale * vote_factor(
            num_records_of_teacher=1, records_per_teacher=self.records_per_teacher
        )
        # Features have length 1, so a vote is as long as its residuals.
        lengths = np.linalg.norm(residuals, axis=1, keepdims=True)
        residuals *= moment_clipping.clip / np.maximum(lengths, moment_clipping.clip)
        return features, residuals / moment_clipping.step

    @cached_property
    def _records(self) -> RoundRecords:
        """The records of all teachers, as shards and sums of votes need them.

        For trained teachers `records_per_teacher` is None, as their votes are not multiplied by a function of their
        numbers of records.
        """
        return RoundRecords(
            inputs=self.inputs,
            labels=self.labels,
            teacher_of=self.teacher_of,
            num_teachers=self.num_teachers,
            public_pca=self.public_pca,
            records_per_teacher=self.records_per_teacher if self.ask_teachers is None else None,
            teacher_weights=self.weights,
            feature_storage=self.feature_storage,
            report_num_rows=self._report_rows,
        )

    def _report_rows(self, num_rows: int) -> None:
        """Calls the attribute `report_num_rows` with the number of records that were just read, which is no total.

        The attribute is looked up at each call, so it may be replaced between two calls.
        """
        self.report_num_rows(num_rows)

    @cached_property
    def _sums(self) -> RoundSums:
        """The object that sums the votes of teachers without training in each round; made by `make_round_sums`."""
        return self.make_round_sums(self._records)

    @cached_property
    def _shard_records(self) -> ShardRecords:
        """The records of all teachers, in the order in which the single shard of this process holds them."""
        return self._records.shards(num_shards=1)[0]

    @cached_property
    def _shard(self) -> RoundShard:
        """The records of all teachers, from which this process sums the votes of trained teachers."""
        return self._shard_records.filled_shard()

    @cached_property
    def _answers(self) -> PoolAnswers | None:
        """The confidences of trained teachers on the pool, which are asked for once; None without training."""
        return None if self.ask_teachers is None else self.ask_teachers()
