"""What an ensemble says of the queries, in each form that an aggregator may read; and votes of nobody, to plan with."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.validation import (
    InvalidValue,
    require,
    require_array,
    require_count,
    require_entries,
    require_histogram,
)
from pate.votes.clipping import ClippedSum, Integers, Weighted, histogram, limited
from pate.votes.shape import VoteShape

if TYPE_CHECKING:
    from pate.votes.moment_votes import RoundVotes

Bits = NDArray[np.bool_]
Array = NDArray[np.float64]

# the sum `[Q, L]` of what holders sent, and how many sent something
Total = tuple[NDArray[np.int64], int]

NUM_LENGTHS = 16  # powers of the root of 2 that a teacher's shares may be long
USUAL_LABELS = 3  # that a made-up query has, where there are enough of them
_PARTS = 2**10  # of a teacher that counts once: whole numbers are counted
_BLOCK_ENTRIES = 2**22
_SEED = 7919  # another one than that of the noise, which would be the order of the labels


class ShareSums(Weighted):
    """Sums over teachers of how common each label is among a teacher's records, for a prevalence. None is priced."""

    parts: int = 1  # what a teacher of weight 1 adds to `lengths`

    @abstractmethod
    def lengths(self) -> Integers:
        """How many teachers have shares of each length, `[NUM_LENGTHS]`: sqrt(L) over the k-th power of the root of 2.

        Each teacher is in one entry at most, with at most its weight times `parts`; one without any label is in none.
        """

    @abstractmethod
    def total(self, clipped: ClippedSum, center: Array) -> Integers:
        """The sum of clipped shares around a center `[L]`, in steps, `[1, L]`."""


class TeacherShares(ShareSums):
    """Of teachers whose shares are at hand: numbers in [0, 1], `[N, L]`."""

    def __init__(self, label_shares: Any, weights: Array | None = None) -> None:
        shares = require_array("label_shares", label_shares, kinds=None)
        good = shares.ndim == 2 and shares.size > 0 and shares.dtype.kind in "biuf"
        require(
            good,
            "label_shares.shape",
            f"{shares.dtype} {shares.shape}",
            "numbers [num_teachers, num_labels]",
        )
        require_entries("label_shares", (shares >= 0) & (shares <= 1), "numbers in [0, 1]")
        found = shares.shape[:1] if weights is None else weights.shape
        require(
            found == shares.shape[:1],
            "weights.shape",
            found,
            f"({len(shares)},), one for each teacher",
        )
        self.shares = shares.astype(np.float64)
        self.num_teachers, self.num_labels = self.shares.shape
        self.weights = weights
        self.parts = 1 if weights is None else _PARTS

    def lengths(self) -> Integers:  # rounded up
        """Returns how many teachers have shares of each length, rounded up."""
        lengths = np.linalg.norm(self.shares, axis=1)
        counted = lengths > 0
        places = np.floor(2 * np.log2(math.sqrt(self.num_labels) / lengths[counted]))
        places = places.clip(0, NUM_LENGTHS - 1).astype(np.int64)
        each = None if self.weights is None else np.floor(self.parts * self.weights[counted])
        return np.bincount(places, each, NUM_LENGTHS).astype(np.int64)

    def total(self, clipped: ClippedSum, center: Array) -> Integers:
        """Returns the sum of clipped shares around a center, in steps."""
        votes = self.shares[:, None, :]
        return clipped.total(
            votes, center=center, num_teachers=self.num_teachers, weights=self.weights
        )


class VoteSource(Weighted):
    """The votes of an ensemble on its queries. Nothing of it is priced: it stays with the owner of the data.

    Its subclasses are the types of votes. A teacher says which type it gives (`Voter.gives`), an aggregator which it
    reads (`Aggregator.reads`), and they go together where the one is a subclass of the other
    (`pate.run.compatibility`).

    Attributes:
        num_teachers: N, public; like `num_labels`, L, and `weights`, `[N]` in [0, 1]: what each teacher counts, for
            aggregators whose `budgets_by` are weights; None where all count once.
        num_queries: Q.
        records_per_teacher: about how many records a teacher has, public: groups over teachers.
    """

    num_queries: int
    records_per_teacher: float

    readers: ClassVar[str] = (
        "one that reads such votes"  # which aggregators can, as a refusal says it
    )

    @property
    def shape(self) -> VoteShape:
        """The size of a release of these votes."""
        return VoteShape(self.num_queries, self.num_labels, self.num_teachers)

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """Raises `InvalidValue`, but of `CountableVotes`."""
        raise self._refusal()

    def bits(self) -> Iterator[Bits]:
        """Raises `InvalidValue`, but of `TeacherVotes`."""
        raise self._refusal()

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Raises `InvalidValue`, but of `TeacherVotes`."""
        raise self._refusal()

    def votes_around(self, center: Array, *, noise_multiplier: float) -> Iterable[Any]:
        """Raises `InvalidValue`, but of `CenterableVotes`."""
        raise self._refusal()

    def span(self, *, noise_multiplier: float) -> Array | None:
        """A public orthonormal basis `[Q, r]` that all `votes_around` lie in, or None where any votes are possible."""
        return None

    def in_rounds(self, *, noise_multiplier: float) -> RoundVotes | None:
        """The votes as they are cast against a student, round after round; None where there is but one round."""
        return None

    def label_shares(self) -> Array:
        """Returns each teacher's share of its own records with each label, `[N, L]`; raises where nobody knows it."""
        raise self._refusal()

    def share_sums(self) -> ShareSums | Array:
        """What a prevalence is released from: label shares or, where these stay with their holders, sums of them."""
        return (
            self.label_shares()
            if self.weights is None
            else TeacherShares(self.label_shares(), self.weights)
        )

    def accuracies(self, true: Bits) -> Array:
        """Returns each teacher's share of correct bits, `[N]`, given the true labels `[Q, L]`; `[0]` without bits."""
        return np.zeros(0)

    def remembered(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What `make` gave the first time that it was asked for under this key."""
        memory: dict[Hashable, Any] = self.__dict__.setdefault("_memory", {})
        if key not in memory:
            memory[key] = make()
        return memory[key]

    def _refusal(self) -> InvalidValue:
        return InvalidValue("aggregator", rule=self.readers)


class CountableVotes(VoteSource):
    """Votes that can be added up: how many teachers vote for each label of each query."""

    @abstractmethod
    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """How many teachers vote for each label of each query, `[Q, L]`; counted once.

        With `max_votes` each teacher has so many votes a query, chosen from its own alone.
        """


class CenterableVotes(VoteSource):
    """Votes that are numbers and can be summed around a center, as centered votes are."""

    @abstractmethod
    def votes_around(self, center: Array, *, noise_multiplier: float) -> Iterable[Any]:
        """What `CenteredVotes` sums, once the center, `[L]` or a number, is known; noise as given to `span`."""


class VotesInRounds(CenterableVotes):
    """Votes of teachers that can be asked again, against a student: `in_rounds` is not None."""


class TeacherVotes(CountableVotes, CenterableVotes):
    """The votes of each teacher, yes or no for each label of each query, cast once.

    A source of one's own gives `bits` and `label_shares`, and has the attributes. The other forms follow from these.
    """

    @abstractmethod
    def bits(self) -> Iterator[Bits]:
        """Votes of teachers 0, 1, …, bool `[c, Q, L]` per block."""

    @abstractmethod
    def label_shares(self) -> Array:
        """Returns each teacher's share of its own records with each label, `[N, L]`."""

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """How many teachers vote for each label of each query, `[Q, L]`; counted once."""
        return np.asarray(self.remembered(("counts", max_votes), lambda: self._counted(max_votes)))

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Confidences in [0, 1] of teachers 0, 1, …, `[c, Q, L]` per block; the bits, where nothing finer is known."""
        return self.bits()

    def votes_around(self, center: Array, *, noise_multiplier: float) -> Iterable[Any]:
        """Returns the confidences, whatever the center."""
        return self.confidences()

    def accuracies(self, true: Bits) -> Array:
        """Returns each teacher's share of correct bits, `[N]`, given the true labels `[Q, L]`."""
        return np.concatenate([(block == true).mean(axis=(1, 2)) for block in self.bits()])

    def _counted(self, max_votes: int | None) -> NDArray[np.int64]:
        counts = np.zeros((self.num_queries, self.num_labels), dtype=np.int64)
        for block in self.bits():
            counts += histogram(block if max_votes is None else limited(block, max_votes))
        return counts


class TeacherVotesInRounds(TeacherVotes, VotesInRounds):
    """The votes of each teacher, which says yes or no, and can be asked again in rounds."""


class FunctionVotes(VotesInRounds):
    """Votes that are functions on the queries, without bits. Each teacher counts by its weight, where it has one."""


class GroupVotes(VotesInRounds):
    """Votes of private groups and not of teachers, in rounds alone: the price covers a group, and no whole teacher."""


def mean_labels(labels: Bits, teacher_of: NDArray[np.int64], num_teachers: int) -> Array:
    """Each teacher's share of records with each label, `[N, L]`, from labels `[n, L]` and the teacher of each."""
    shares = np.zeros((num_teachers, labels.shape[1]))
    np.add.at(shares, teacher_of, labels)
    return np.asarray(shares / np.bincount(teacher_of, minlength=num_teachers)[:, None])


class CountedVotes(CountableVotes):
    """Counts of votes, `[Q, L]` in 0..num_teachers, for aggregators that read counts.

    Whoever counted vouches that no teacher had a vote for more than `max_votes` labels of a query; None for all.
    """

    readers = "one that reads counts, since only sums of votes are known"

    def __init__(
        self, counts: NDArray[np.int64], *, num_teachers: int, max_votes: int | None = None
    ) -> None:
        self.num_teachers = require_count("num_teachers", num_teachers)
        self._counts = require_histogram(
            "counts", counts, num_teachers=num_teachers, rank=2
        ).astype(np.int64)
        self.num_queries, self.num_labels = self._counts.shape
        self.records_per_teacher = 1.0
        self.max_votes = max_votes

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """Returns the counts; raises where votes were counted without such a limit."""
        known = self.max_votes
        within = max_votes is None or (known is not None and known <= max_votes)
        require(within, "vote_clip", known, f"at most {max_votes}, as the aggregator's price says")
        return self._counts


class NoisySum(VoteSource):
    """Of these votes there is nothing but a sum that carries its noise, and it may be asked for once.

    `total` makes the sum, or gives the one that was made before; it is called after the price was paid. `num_teachers`
    has absent ones, too. `digest` is of what is asked, and of whom; public.
    """

    readers = "distributed_votes, where holders add the noise and only sums exist"

    def __init__(
        self,
        total: Callable[[], Total],
        *,
        num_teachers: int,
        num_queries: int,
        num_labels: int,
        digest: str,
    ) -> None:
        self.total = total
        self.digest = digest
        self.num_teachers = num_teachers
        self.num_queries = num_queries
        self.num_labels = num_labels
        self.records_per_teacher = 1.0


class MadeUpVotes(TeacherVotes):
    """A public model of queries, drawn with a fixed seed: no data is read.

    Rule: a query has `num_present` of the L labels; where L is 1, every other query has it. The share `agreement` of
    the teachers names each label that is present, and whoever misses it names one that is absent, these in turn. No
    teacher misses a second label of a query before each has missed one.
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
        self.num_queries = require_count("num_queries", num_queries)
        self.num_labels = num_labels
        self.num_teachers = require_count("num_teachers", num_teachers)
        require(0 <= agreement <= 1, "agreement", agreement, "a number in [0, 1]")
        require(
            1 <= num_present <= num_labels,
            "num_present",
            num_present,
            f"1 to {num_labels}, the labels",
        )
        self.agreement = agreement
        self.num_present = num_present
        order = np.argsort(np.random.default_rng(_SEED).random((num_queries, num_labels)), axis=1)
        place = np.argsort(order, axis=1)  # of each label in the order of its query
        # [Q, L], in the order
        present = np.broadcast_to(np.arange(num_labels) < num_present, order.shape).copy()
        if num_labels == 1:
            present[1::2] = False
        counts = np.where(present, right := round(agreement * num_teachers), num_teachers - right)
        if num_labels > 1:  # whoever misses a label names one that is absent, these in turn
            num_absent = num_labels - num_present
            each, more = divmod(num_present * (num_teachers - right), max(num_absent, 1))
            absent = np.minimum(each + (np.arange(num_labels) - num_present < more), num_teachers)
            counts = np.where(present, right, absent)
        # where each label's run of teachers starts, and how long it is; labels in order, those present first
        starts = np.cumsum(counts, axis=1) - counts if num_labels > 1 else np.zeros_like(counts)
        self.labels: Bits = np.take_along_axis(present, place, axis=1)
        self._starts, self._counts = (
            np.take_along_axis(each, place, axis=1) for each in (starts, counts)
        )

    def first(self, num_queries: int) -> MadeUpVotes:
        """The votes on the first queries."""
        return MadeUpVotes(
            num_queries=num_queries,
            num_labels=self.num_labels,
            num_teachers=self.num_teachers,
            agreement=self.agreement,
            num_present=self.num_present,
        )

    def bits(self) -> Iterator[Bits]:
        """Yields the made-up votes of all teachers, `[c, Q, L]` a block."""
        size = max(1, _BLOCK_ENTRIES // self._counts.size)
        for first in range(0, self.num_teachers, size):
            teachers = np.arange(first, min(first + size, self.num_teachers))[:, None, None]
            yield (teachers - self._starts) % self.num_teachers < self._counts

    def label_shares(self) -> Array:
        """Every label is as common as the next."""
        return np.full((self.num_teachers, self.num_labels), self.labels.mean())

    def _counted(self, max_votes: int | None) -> NDArray[np.int64]:
        if max_votes is None or max_votes >= self.num_present:
            return self._counts
        return super()._counted(max_votes)
