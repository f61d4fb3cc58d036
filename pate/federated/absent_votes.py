"""The votes of those who are there, and of teachers that are absent: constants, which the price covers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.aggregators import Aggregator
from pate.validation import InvalidValue
from pate.votes.holders import GatheredVotes
from pate.votes.round_votes import RoundVotes
from pate.votes.source import Array, Bits, VoteSource


class AbsentVotes(VoteSource):
    """See `VoteSource`. T stays what the roll says; absent teachers say the same of every query.

    Formal guarantee: under replace-one a teacher may change to any votes, and so to these. Whoever is absent, the price
    of the release is the same, where records do not decide it (docs/proofs/distributed_noise.md, "Absent holders").

    Args:
        present: the votes of those who are there.
        num_absent: how many teachers are not.
        first_label: whether absent teachers vote for the first label, where every teacher has exactly one vote.
    """

    def __init__(self, present: GatheredVotes, num_absent: int, *, first_label: bool) -> None:
        self.present, self.num_absent, self.first_label = present, num_absent, first_label
        self.num_teachers = present.num_teachers + num_absent
        self.num_queries, self.num_labels = present.num_queries, present.num_labels
        self.records_per_teacher = present.records_per_teacher

    @classmethod
    def beside(cls, present: GatheredVotes, num_absent: int, aggregator: Aggregator) -> AbsentVotes:
        """For an aggregator; raises `InvalidValue` where its price does not cover such votes."""
        if aggregator.adjacency is Adjacency.ADD_REMOVE and aggregator.input_form != "counts":
            rule = "replace_one where holders are absent: a teacher that says nothing is not one that is missing"
            raise InvalidValue(f"adjacency=add_remove: expected {rule}; or max_absent=0")
        return cls(present, num_absent, first_label=aggregator.single_label)

    def bits(self) -> Iterator[Bits]:
        """See `VoteSource.bits`."""
        yield from self.present.bits()
        yield from self._constant(np.dtype(np.bool_))

    def confidences(self) -> Iterator[NDArray[Any]]:
        """See `VoteSource.confidences`."""
        dtype = np.dtype(np.bool_)
        for block in self.present.confidences():
            dtype = block.dtype
            yield block
        yield from self._constant(dtype)

    def label_shares(self) -> Array:
        """See `VoteSource.label_shares`: absent teachers have records without labels."""
        return np.concatenate([self.present.label_shares(), np.zeros((self.num_absent, self.num_labels))])

    def in_rounds(self, *, noise_multiplier: float) -> RoundVotes | None:
        """See `GatheredVotes.in_rounds`."""
        return self.present.in_rounds(noise_multiplier=noise_multiplier)

    def _constant(self, dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
        one = np.zeros((1, self.num_queries, self.num_labels), dtype=dtype)
        one[:, :, 0] = self.first_label
        for _ in range(self.num_absent):
            yield one
