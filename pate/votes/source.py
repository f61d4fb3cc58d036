"""Sources of votes: the types of votes that teachers give and aggregators read.

A teacher names the type of its votes (`Voter.gives`), and an aggregator the type that it reads (`Aggregator.reads`).
They work together if the teacher's type is the aggregator's type or a subclass of it. `VoteSource.require_type` refuses
votes of another type.

Votes are private and stay with the owner of the records. No method here adds noise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, FloatArray, IntArray
from pate.validation import InvalidValue
from pate.votes.counts import histogram, limit_votes
from pate.votes.feature_rows import DEFAULT_STORAGE, FeatureStorage
from pate.votes.label_shares import ShareSums, TeacherShares
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.round_sums import RoundSums, ThreadSums
from pate.votes.round_votes import RoundVotes
from pate.votes.shape import VoteShape
from pate.votes.weighted import Weighted

if TYPE_CHECKING:
    from pate.votes.round_records import RoundRecords

V = TypeVar("V", bound="VoteSource")


class VoteSource(Weighted):
    """The private votes of all teachers on all queries. Each subclass is a type of votes.

    Attributes:
        num_teachers: the number of teachers, public.
        num_labels: the number of labels.
        num_queries: the number of queries.
        weights: public, `[num_teachers]` in [0, 1], the weight of each teacher for aggregators with
            `budgets_by="weights"`; None for 1.
        records_per_teacher: the approximate number of records of a teacher, public: the number of private groups
            divided by the number of teachers; 1 for votes whose records are not known.
        readers: the aggregators that can read these votes, in words for the message of an error.
    """

    num_queries: int
    records_per_teacher: float

    readers: ClassVar[str] = "one that reads such votes"

    @property
    def shape(self) -> VoteShape:
        """The size of a release of these votes."""
        return VoteShape(
            num_queries=self.num_queries,
            num_labels=self.num_labels,
            num_teachers=self.num_teachers,
        )

    def require_type(self, votes_type: type[V]) -> V:
        """Returns these votes if they are of a type.

        Args:
            votes_type: the type that an aggregator reads.

        Raises:
            InvalidValue: the votes are of another type. The error names the aggregators that can read them.
        """
        if isinstance(self, votes_type):
            return self
        raise self._type_error()

    def accuracies(self, true_labels: BoolArray, known: BoolArray | None = None) -> FloatArray:
        """Returns the share of right bits of each teacher, `[m]`, m <= num_teachers.

        A bit is right if it equals the true label. Unknown labels, and labels that a teacher does not vote on, are left
        out. The m teachers are those with at least one label left. Votes without bits return an empty array.

        Args:
            true_labels: bool `[num_queries, num_labels]`; False where they are unknown.
            known: which true labels are known, bool `[num_queries, num_labels]`; None where all are.
        """
        return np.zeros(0)

    def cached(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Returns the value that `compute` returns, computed once for each key and then kept in memory."""
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]

    def close(self) -> None:
        """Releases the memory, files and processes of votes in rounds; they are made again if they are needed again."""
        for value in self._cache.values():
            if isinstance(value, RoundVotes):
                value.close()

    @cached_property
    def _cache(self) -> dict[Hashable, Any]:
        """The values that `cached` has computed, by key."""
        return {}

    def _type_error(self) -> InvalidValue:
        """Returns the error for an aggregator that cannot read these votes; it names the `readers` that can."""
        aggregators_that_read_these = self.readers
        return InvalidValue("aggregator", rule=aggregators_that_read_these)


class CountableVotes(VoteSource):
    """Votes that can be counted."""

    @abstractmethod
    def counts(self, max_votes: int | None = None) -> IntArray:
        """Returns the number of teachers that vote for each label of each query, `[num_queries, num_labels]`.

        Args:
            max_votes: the largest number of a teacher's votes that count on a query; the teacher's own votes alone
                determine which ones count. None for all.
        """

    def num_abstaining(self) -> IntArray:
        """Returns the number of teachers that do not vote on each label, `[num_labels]`; `counts` omits them."""
        return np.zeros(self.num_labels, dtype=np.int64)

    def num_without_label(self) -> IntArray:
        """Returns the number of teachers whose holder records nothing about each label, `[num_labels]`; public.

        They are among the teachers that do not vote on the label.
        """
        return np.zeros(self.num_labels, dtype=np.int64)


class CenterableVotes(VoteSource):
    """Votes that are real numbers, and are summed after a center is subtracted."""

    @abstractmethod
    def votes_around(
        self, center: FloatArray, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> Iterable[Any]:
        """Returns the votes that `CenteredVotes` sums, as blocks along the axis of teachers.

        The center is subtracted already from blocks of `LowRankVotes`, and from no others.

        Args:
            center: the values that are subtracted from votes, `[num_queries, num_labels]`, `[num_labels]` or a number;
                public or released. Some sources refuse a center for each query.
            noise_multiplier: the noise multiplier of the votes; votes that lie along directions of the pool have fewer
                of these with more noise.
            recipe: the tuned constants of the aggregator.
        """

    @abstractmethod
    def share_sums(self) -> ShareSums | FloatArray:
        """Returns the label shares, `[num_teachers, num_labels]`, or an object that computes sums of them.

        `Prevalence.release` takes either. Sums alone are available, for example, where the shares stay with their
        holders, or where teachers have weights.
        """

    def span(
        self, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> FloatArray | None:
        """Returns a public orthonormal basis in which all votes minus the center lie, `[num_queries, rank]`.

        None means that votes may be any numbers.

        Args:
            noise_multiplier: the noise multiplier of the votes; with more noise the basis has fewer directions.
            recipe: the tuned constants of the aggregator.
        """
        return None

    def in_rounds(
        self,
        *,
        noise_multiplier: float,
        least_directions: int = 0,
        recipe: Recipe = DEFAULT_RECIPE,
    ) -> RoundVotes | None:
        """Returns the votes in rounds, on the errors of a student; None if the source can give its votes only once.

        Votes in rounds lie along features, most of which are principal directions of the inputs of the public pool.

        Args:
            noise_multiplier: the noise multiplier of the votes; with more noise there are fewer features.
            least_directions: the number of directions that are kept whatever the noise, if the pool has as many.
            recipe: the tuned constants of the aggregator.
        """
        return None


class VotesInRounds(CenterableVotes):
    """Votes that can be cast in rounds, on the errors of a student.

    Attributes:
        make_round_sums: makes the sums over all records, in threads, processes or on several machines.
        feature_storage: where the features of records lie between rounds.
    """

    make_round_sums: Callable[[RoundRecords], RoundSums] = ThreadSums
    feature_storage: FeatureStorage = DEFAULT_STORAGE

    @abstractmethod
    def in_rounds(
        self,
        *,
        noise_multiplier: float,
        least_directions: int = 0,
        recipe: Recipe = DEFAULT_RECIPE,
    ) -> RoundVotes:
        """Returns the votes in rounds; see `CenterableVotes.in_rounds`."""


class VotesWithLabelShares(CenterableVotes):
    """Votes of teachers whose label shares are known."""

    @abstractmethod
    def label_shares(self) -> FloatArray:
        """Returns the share of each teacher's records that have each label, `[num_teachers, num_labels]`.

        A label that is not known counts as one that the record does not have.
        """

    def known_shares(self) -> FloatArray | None:
        """Returns the share of each teacher's records for which each label is known, `[num_teachers, num_labels]`.

        None means that labels have no gaps, which is public.
        """
        return None

    def share_sums(self) -> ShareSums | FloatArray:
        """Returns the label shares, `[num_teachers, num_labels]`, or an object that computes sums of them.

        The object is returned if teachers have weights, or labels have gaps.
        """
        known_shares = self.known_shares()
        if self.weights is None and known_shares is None:
            return self.label_shares()
        label_shares_of_teachers = self.label_shares()
        return TeacherShares(
            label_shares_of_teachers, weights=self.weights, known_shares=known_shares
        )


class TeacherVotes(CountableVotes, VotesWithLabelShares):
    """The bits of each teacher for each label of each query; unlike votes in rounds, they are cast once.

    A subclass defines `bits`, `label_shares` and the attributes of `VoteSource`. Counts are computed from the bits. The
    confidences are the bits, unless a subclass overrides them.
    """

    @abstractmethod
    def bits(self) -> Iterator[BoolArray]:
        """Yields blocks of bits in the order of the teachers, `[num_teachers_in_block, num_queries, num_labels]`."""

    def counts(self, max_votes: int | None = None) -> IntArray:
        """Returns the number of teachers that vote for each label of each query, `[num_queries, num_labels]`.

        The counts are kept in memory after the first call.

        Args:
            max_votes: the largest number of a teacher's votes that count on a query; the teacher's own votes alone
                determine which ones count. None for all.
        """
        return np.asarray(
            self.cached(key=("counts", max_votes), compute=partial(self._counted, max_votes))
        )

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Yields blocks of confidences in [0, 1], `[num_teachers_in_block, num_queries, num_labels]`.

        Here the bits are returned; a subclass with confidences overrides the method.
        """
        return self.bits()

    def voting(self) -> BoolArray | None:
        """Returns which teachers vote on which labels, bool `[num_teachers, num_labels]`; private.

        A teacher does not vote on a label that is known for none of its records. Its bits are then False. None means
        that every teacher votes on every label.
        """
        known_shares = self.known_shares()
        return None if known_shares is None else known_shares > 0

    def num_abstaining(self) -> IntArray:
        """Returns the number of teachers that do not vote on each label; see `CountableVotes.num_abstaining`."""
        does_vote_on_label = self.voting()
        if does_vote_on_label is None:
            return super().num_abstaining()
        return np.asarray(np.count_nonzero(~does_vote_on_label, axis=0), dtype=np.int64)

    def votes_around(
        self, center: FloatArray, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> Iterable[Any]:
        """Returns the confidences, and the center where a teacher does not vote; see `CenterableVotes.votes_around`."""
        does_vote_on_label = self.voting()
        return (
            self.confidences()
            if does_vote_on_label is None
            else self._fill_with(center, does_vote_on_label=does_vote_on_label)
        )

    def _fill_with(
        self, center: FloatArray, *, does_vote_on_label: BoolArray
    ) -> Iterator[NDArray[Any]]:
        """Yields the confidences of the teachers that vote on a label, and the center for all others.

        Args:
            center: `[num_queries, num_labels]`, `[num_labels]` or a number.
            does_vote_on_label: bool `[num_teachers, num_labels]`.
        """
        first = 0
        for vote_block in self.confidences():
            does_vote_in_block = does_vote_on_label[first : first + len(vote_block), None]
            yield np.where(does_vote_in_block, vote_block, center)
            first += len(vote_block)

    def accuracies(self, true_labels: BoolArray, known: BoolArray | None = None) -> FloatArray:
        """Returns the share of right bits of each teacher; see `VoteSource.accuracies`."""
        if known is None and self.voting() is None:
            right_bit_shares = [
                (vote_block == true_labels).mean(axis=(1, 2)) for vote_block in self.bits()
            ]
            return np.concatenate(right_bit_shares)
        does_vote_on_label = self.voting()
        if does_vote_on_label is None:
            does_vote_on_label = np.ones((self.num_teachers, self.num_labels), dtype=np.bool_)
        known_label_mask = np.ones_like(true_labels) if known is None else known
        right_counts_of_blocks = [
            ((vote_block == true_labels) & known_label_mask).sum(axis=1)
            for vote_block in self.bits()
        ]
        right_counts_by_teacher_and_label = np.concatenate(
            right_counts_of_blocks
        )  # [num_teachers, num_labels]
        num_right = (right_counts_by_teacher_and_label * does_vote_on_label).sum(axis=1)
        num_counted = does_vote_on_label @ known_label_mask.sum(axis=0)
        is_counted = num_counted > 0
        return np.asarray(num_right[is_counted] / num_counted[is_counted])

    def _counted(self, max_votes: int | None) -> IntArray:
        """Returns the counts of the bits, int64 `[num_queries, num_labels]`, which `counts` keeps in memory.

        Args:
            max_votes: the largest number of a teacher's votes that count on a query; None for all.
        """
        counts = np.zeros((self.num_queries, self.num_labels), dtype=np.int64)
        for vote_block in self.bits():
            limited_votes = (
                vote_block if max_votes is None else limit_votes(vote_block, max_votes=max_votes)
            )
            counts += histogram(limited_votes)
        return counts


class TeacherVotesInRounds(TeacherVotes, VotesInRounds):
    """The bits of each teacher, for teachers that can also vote in rounds."""


class FunctionVotes(VotesInRounds, VotesWithLabelShares):
    """Votes that a teacher computes as a function on the queries: real numbers, not bits; teachers may have weights."""


class GroupVotes(VotesInRounds):
    """Votes of private groups of records in place of teachers, in rounds alone.

    The price covers a group and not a whole teacher.
    """
