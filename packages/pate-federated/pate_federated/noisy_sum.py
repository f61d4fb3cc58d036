"""A vote source for a sum of votes to which holders have added noise, as secure aggregation returns it."""

from collections.abc import Callable

from pate.array_types import IntArray
from pate.votes.source import VoteSource

# the sum `[Q, L]` of the holders' contributions, and the number of contributions
Total = tuple[IntArray, int]


class NoisySum(VoteSource):
    """A sum of votes that already has its noise; no other form of the votes is available.

    Attributes:
        total: a function that returns the sum, which it makes if it was not made before, and the number of holders in
            it. It is called after the charge.
        digest: a public digest of the request for votes and of the holders, whose teachers vote.
        num_teachers: the number of teachers, those of absent holders included.
    """

    readers = "distributed_votes, where holders add the noise and only sums exist"

    def __init__(
        self,
        make_sum: Callable[[], Total],
        *,
        num_teachers: int,
        num_queries: int,
        num_labels: int,
        digest: str,
    ) -> None:
        """Stores the function that makes the sum, without calling it.

        Args:
            make_sum: makes the sum.
            num_teachers: the number of teachers, those of absent holders included.
            num_queries: the number of queries.
            num_labels: the number of labels.
            digest: a public digest of the request for votes and of the holders, whose teachers vote.
        """
        self.total = make_sum
        self.digest = digest
        self.num_teachers = num_teachers
        self.num_queries = num_queries
        self.num_labels = num_labels
        self.records_per_teacher = 1.0
