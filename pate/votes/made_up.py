"""Made-up votes: a public model of queries, on which the usefulness of a release is estimated before it is charged."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pate.array_types import BoolArray, FloatArray, IntArray
from pate.validation import InvalidValue, require, require_count
from pate.votes.source import TeacherVotes

USUAL_LABELS = 3
"""The number of present labels of a made-up query, if there are as many labels."""

_BLOCK_ENTRIES = 2**22  # the largest number of votes in a block, unless one teacher has more
# A seed that no noise has: numbers of noise would otherwise decide the order of the labels, too.
_SEED = 7919


class MadeUpVotes(TeacherVotes):
    """The votes of made-up teachers on made-up queries, drawn with a fixed seed from no data.

    Rule: each query has `num_present` present labels. For each present label, the share `agreement` of the teachers
    votes for the label. A teacher who misses a present label votes for an absent one instead, until all teachers vote
    for all absent labels. The wrong votes are spread over all absent labels. No teacher misses two labels of a query
    before every teacher misses one. If there is only one label, every other query has it, and in the queries without it
    the share 1 - `agreement` of the teachers votes for it.

    Attributes:
        labels: bool `[num_queries, num_labels]`, the present labels.
        agreement: the share of the teachers that vote for a present label, in [0, 1].
        num_present: the number of present labels of a query.
    """

    records_per_teacher = 1.0

    def __init__(
        self,
        *,
        num_queries: int,
        num_labels: int,
        num_teachers: int,
        agreement: float,
        num_present: int = USUAL_LABELS,
    ) -> None:
        """Draws the present labels of each query, by a fixed seed.

        Args:
            num_queries: the number of queries.
            num_labels: the number of labels.
            num_teachers: the number of teachers.
            agreement: the share of the teachers that vote for a present label, in [0, 1].
            num_present: the number of present labels of a query.

        Raises:
            InvalidValue: the agreement is outside of [0, 1], `num_present` is not in 1..`num_labels`, or there is no
                query or teacher.
        """
        self.num_queries = require_count("num_queries", num_queries)
        self.num_labels = num_labels
        self.num_teachers = require_count("num_teachers", num_teachers)
        require(0 <= agreement <= 1, "agreement", agreement, "a number in [0, 1]")
        if not 1 <= num_present <= num_labels:
            raise InvalidValue("num_present", num_present, rule=f"1 to {num_labels}, the labels")
        self.agreement = agreement
        self.num_present = num_present
        # Each query has an order of the labels, in which those that are present come first.
        random_numbers = np.random.default_rng(_SEED).random((num_queries, num_labels))
        label_at_rank = np.argsort(random_numbers, axis=1)
        # The rank of each label in the order of its query.
        rank_of_label = np.argsort(label_at_rank, axis=1)
        is_rank_present = np.broadcast_to(
            np.arange(num_labels) < num_present, label_at_rank.shape
        ).copy()
        if num_labels == 1:
            is_rank_present[1::2] = False
        count_by_rank = self._counts_in_order(is_rank_present)
        # The teachers that vote for a label have consecutive numbers, which begin behind those of the label before.
        first_teacher_by_rank = np.zeros_like(count_by_rank)
        if num_labels > 1:
            first_teacher_by_rank = np.cumsum(count_by_rank, axis=1) - count_by_rank
        self.labels: BoolArray = np.take_along_axis(is_rank_present, rank_of_label, axis=1)
        self._first_teachers = np.take_along_axis(first_teacher_by_rank, rank_of_label, axis=1)
        self._vote_counts = np.take_along_axis(count_by_rank, rank_of_label, axis=1)

    def _counts_in_order(self, is_rank_present: BoolArray) -> IntArray:
        """Returns the counts of votes, `[num_queries, num_labels]`, with the present labels of each query first.

        Args:
            is_rank_present: bool `[num_queries, num_labels]`, which labels are present, in the order of the counts.
        """
        num_right = round(self.agreement * self.num_teachers)
        num_wrong = self.num_teachers - num_right
        if self.num_labels == 1:
            return np.where(is_rank_present, num_right, num_wrong)
        # The wrong votes are dealt to the absent labels in turn, so some of them get one vote more than others.
        num_absent = self.num_labels - self.num_present
        wrong_votes_per_label, num_with_one_more = divmod(
            self.num_present * num_wrong, max(num_absent, 1)
        )
        index_among_absent = np.arange(self.num_labels) - self.num_present
        has_one_more = index_among_absent < num_with_one_more
        absent_counts = np.minimum(wrong_votes_per_label + has_one_more, self.num_teachers)
        return np.where(is_rank_present, num_right, absent_counts)

    def first(self, num_queries: int) -> MadeUpVotes:
        """Returns the votes on the first `num_queries` queries."""
        return MadeUpVotes(
            num_queries=num_queries,
            num_labels=self.num_labels,
            num_teachers=self.num_teachers,
            agreement=self.agreement,
            num_present=self.num_present,
        )

    def bits(self) -> Iterator[BoolArray]:
        """Yields blocks of all teachers' votes, bool `[num_teachers_in_block, num_queries, num_labels]`."""
        teachers_at_once = max(1, _BLOCK_ENTRIES // self._vote_counts.size)
        for first_teacher in range(0, self.num_teachers, teachers_at_once):
            end_teacher = min(first_teacher + teachers_at_once, self.num_teachers)
            teacher_indices = np.arange(first_teacher, end_teacher)[:, None, None]
            yield (teacher_indices - self._first_teachers) % self.num_teachers < self._vote_counts

    def label_shares(self) -> FloatArray:
        """Returns label shares that are equal for all teachers and labels, `[num_teachers, num_labels]`.

        Each is the mean number of present labels of a query divided by the number of labels.
        """
        return np.full((self.num_teachers, self.num_labels), self.labels.mean())

    def _counted(self, max_votes: int | None) -> IntArray:
        """Returns the counts of votes, int `[num_queries, num_labels]`.

        They are computed here only if `max_votes` is below `num_present`, the most votes of a teacher on a query.
        Otherwise they are those that the constructor computed.

        Args:
            max_votes: the largest number of a teacher's votes that count on a query; None for all.
        """
        if max_votes is None or max_votes >= self.num_present:
            return self._vote_counts
        return super()._counted(max_votes)
