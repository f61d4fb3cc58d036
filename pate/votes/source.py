"""Sources of votes: the types of votes that teachers give and aggregators read.

A teacher says which type of votes it gives (`Voter.gives`), an aggregator which type it reads (`Aggregator.reads`). The
two go together where the one type is a subclass of the other. What a type does not have, its methods refuse.

- `VoteSource`: any votes.
- `CountableVotes`: counts, how many teachers vote for each label of each query.
- `CountedVotes` (pate/votes/arrays.py): nothing but counts.
- `CenterableVotes`: real numbers, which are summed around a center.
- `VotesInRounds`: of teachers that can be asked again, against a student.
- `FunctionVotes`: in rounds too; functions on the queries, without bits.
- `GroupVotes`: of private groups, in rounds alone.
- `TeacherVotes`: bits of each teacher, countable and centerable.
- `TeacherVotesInRounds`: the same, of teachers that can be asked again.
- `NoisySum`: a sum that carries its noise already.

Votes are private: they stay with the owner of the records, and no method here has a price.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue
from pate.votes.counts import Bits, histogram, limited
from pate.votes.label_shares import ShareSums, TeacherShares
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.shape import VoteShape
from pate.votes.weighted import Array, Weighted

if TYPE_CHECKING:
    from pate.votes.moment_votes import RoundVotes


class VoteSource(Weighted):
    """The votes of an ensemble on its queries. Nothing of them is priced: they stay with the owner of the data.

    Its subclasses are the types of votes.

    Attributes:
        num_teachers: N, public; like `num_labels`, L, and `weights`, `[N]` in [0, 1]: what each teacher counts, for
            aggregators whose `budgets_by` are weights; None where all count once.
        num_queries: Q.
        records_per_teacher: about how many records a teacher has, public: groups over teachers.
        readers: the aggregators that can read such votes, in words of a refusal.
    """

    num_queries: int
    records_per_teacher: float

    readers: ClassVar[str] = "one that reads such votes"

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

    def votes_around(
        self, center: Array, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> Iterable[Any]:
        """Raises `InvalidValue`, but of `CenterableVotes`."""
        raise self._refusal()

    def span(self, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE) -> Array | None:
        """Returns a public orthonormal basis `[Q, r]` that all `votes_around` lie in.

        Without one, None, votes may be any numbers.

        Args:
            noise_multiplier: of the votes; more noise makes fewer directions worthwhile.
            recipe: the aggregator's constants.
        """
        return None

    def in_rounds(
        self, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> RoundVotes | None:
        """Returns the votes as they are cast against a student, round after round.

        Votes that are cast once, None, have no rounds. Arguments are as of `span`.
        """
        return None

    def label_shares(self) -> Array:
        """Returns each teacher's share of its own records with each label, `[N, L]`.

        Raises `InvalidValue` where nobody knows the shares.
        """
        raise self._refusal()

    def share_sums(self) -> ShareSums | Array:
        """Returns what a prevalence is released from: label shares, or sums of them.

        Sums stand in where shares stay with their holders, and where teachers have weights.
        """
        if self.weights is None:
            return self.label_shares()
        return TeacherShares(self.label_shares(), self.weights)

    def accuracies(self, true_labels: Bits) -> Array:
        """Returns each teacher's share of correct bits, `[N]`, given labels `[Q, L]`; `[0]` without bits."""
        return np.zeros(0)

    def remembered(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Returns what `make` returned when it was first called for this key; `make` is called once a key."""
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
        """Returns how many teachers vote for each label of each query, `[Q, L]`; counted once.

        With `max_votes` each teacher has so many votes a query, chosen from its own alone.
        """


class CenterableVotes(VoteSource):
    """Votes that are numbers and can be summed around a center, as centered votes are."""

    @abstractmethod
    def votes_around(
        self, center: Array, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> Iterable[Any]:
        """Returns the votes that `CenteredVotes` sums, in blocks, once the center is known.

        Args:
            center: `[L]`, or a number; public, or released.
            noise_multiplier: as given to `span`.
            recipe: as given to `span`.
        """


class VotesInRounds(CenterableVotes):
    """Votes of teachers that can be asked again, against a student: `in_rounds` is not None."""


class TeacherVotes(CountableVotes, CenterableVotes):
    """The votes of each teacher, yes or no for each label of each query, cast once.

    A source of one's own gives `bits` and `label_shares`, and has the attributes. The other forms follow from these.
    """

    @abstractmethod
    def bits(self) -> Iterator[Bits]:
        """Yields the votes of teachers 0, 1, …, bool `[c, Q, L]` per block."""

    @abstractmethod
    def label_shares(self) -> Array:
        """Returns each teacher's share of its own records with each label, `[N, L]`."""

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """Returns how many teachers vote for each label of each query, `[Q, L]`; counted once."""
        return np.asarray(self.remembered(("counts", max_votes), lambda: self._counted(max_votes)))

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Yields confidences in [0, 1] of teachers 0, 1, …, `[c, Q, L]` per block.

        The bits stand in where nothing finer is known.
        """
        return self.bits()

    def votes_around(
        self, center: Array, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> Iterable[Any]:
        """Returns the confidences, whatever the center."""
        return self.confidences()

    def accuracies(self, true_labels: Bits) -> Array:
        """Returns each teacher's share of correct bits, `[N]`, given the true labels `[Q, L]`."""
        shares = [(block == true_labels).mean(axis=(1, 2)) for block in self.bits()]
        return np.concatenate(shares)

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
