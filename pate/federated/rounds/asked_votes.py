"""The votes of holders that are asked round after round, as an aggregator reads them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pate.federated.rounds.inbox import RoundInbox
from pate.federated.rounds.question import LENGTHS, MOMENTS, SHARES, Question
from pate.validation import InvalidValue
from pate.votes.clipping import ClippedMoments, ClippedSum, Integers
from pate.votes.moment_votes import MOST_PUBLIC, RoundVotes
from pate.votes.public_pca import SHARE_IN_ROUNDS, PublicPCA, affordable_directions
from pate.votes.share_sums import ShareSums
from pate.votes.source import Array, Bits, VoteSource

_RULE = "centered_votes in rounds (aggregator.rounds=2 or more, or 200 teachers), which needs sums alone"


class AskedShares(ShareSums):
    """See `ShareSums`. Whoever is absent adds nothing.

    Args:
        inbox: where sums come from.
        num_labels: L.
    """

    def __init__(self, inbox: RoundInbox, num_labels: int) -> None:
        self._inbox, self.num_teachers, self.num_labels = inbox, inbox.roll.num_teachers, num_labels

    def lengths(self) -> Integers:
        """See `ShareSums.lengths`."""
        return self._inbox.sum(self._question(LENGTHS)).total

    def total(self, clipped: ClippedSum, center: Array) -> Integers:
        """See `ShareSums.total`."""
        return self._inbox.sum(self._question(SHARES, center=center, clip=np.float64(clipped.clip))).total

    def _question(self, kind: str, **state: NDArray[np.float64] | np.float64) -> Question:
        arrays = {name: np.asarray(value, dtype=np.float64) for name, value in state.items()}
        return Question(kind=kind, asked=self._inbox.opening.asked, num_labels=self.num_labels, state=arrays)


class AskedMoments(RoundVotes):
    """See `RoundVotes`. Each total is asked of all holders; whoever is absent in a round adds nothing to it.

    Formal guarantee: see docs/proofs/vote_rounds.md, "Rounds of many holders".

    Args:
        inbox: where sums come from.
        directions: of the public pool.
        public_inputs: float32 `[m, d]`, what stands for the pool.
        records_per_teacher: about, public.
        num_labels: L.
    """

    def __init__(
        self,
        inbox: RoundInbox,
        directions: PublicPCA,
        public_inputs: NDArray[np.float32],
        records_per_teacher: float,
        num_labels: int,
    ) -> None:
        self._inbox, self._directions = inbox, directions
        self.public = directions.with_constant(public_inputs).astype(np.float32)
        self.variances = directions.feature_variances
        self.num_teachers, self.records_per_teacher = inbox.roll.num_teachers, records_per_teacher
        self.num_labels = num_labels

    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        """See `RoundVotes.total`."""
        state = {
            "records_per_teacher": np.asarray(self.records_per_teacher),
            "weights": weights,
            "label_scale": label_scale,
            "clip": np.asarray(clipped.clip),
            "pool_center": self._directions.center,
            "projection": self._directions.projection,
            "variances": self._directions.variances,
        }
        arrays = {name: np.asarray(value, dtype=np.float64) for name, value in state.items()}
        asked = self._inbox.opening.asked
        return self._inbox.sum(Question(kind=MOMENTS, asked=asked, num_labels=self.num_labels, state=arrays)).total


class AskedVotes(VoteSource):
    """See `VoteSource`. Holders say sums and nothing finer, so no other form of votes is there.

    Args:
        inbox: where sums come from.
        pool: float32 `[P, d]`, the public samples; the queries first.
        num_queries: Q.
        num_labels: L.
    """

    gives_bits = False

    def __init__(self, inbox: RoundInbox, pool: NDArray[np.float32], num_queries: int, num_labels: int) -> None:
        self._inbox, self._pool = inbox, pool
        self.num_teachers, self.num_queries, self.num_labels = inbox.roll.num_teachers, num_queries, num_labels
        heads = inbox.opened.values()
        self.records_per_teacher = sum(head.num_groups for head in heads) / sum(head.num_teachers for head in heads)

    def bits(self) -> Iterator[Bits]:
        """Raises `InvalidValue`: there are none."""
        raise InvalidValue(f"aggregator: expected {_RULE}")

    def confidences(self) -> Iterator[NDArray[np.float32]]:
        """Raises `InvalidValue`: there are none."""
        raise InvalidValue(f"aggregator: expected {_RULE}")

    def label_shares(self) -> Array:
        """Raises `InvalidValue`: holders say sums of them."""
        raise InvalidValue(f"aggregator: expected {_RULE}")

    def share_sums(self) -> AskedShares:
        """See `VoteSource.share_sums`."""
        return AskedShares(self._inbox, self.num_labels)

    def in_rounds(self, *, noise_multiplier: float) -> AskedMoments:
        """See `VoteSource.in_rounds`."""
        count = affordable_directions(
            noise_multiplier=noise_multiplier,
            num_teachers=self.num_teachers,
            num_records=max(1, round(self.records_per_teacher * self.num_teachers)),
            num_labels=self.num_labels,
            noise_share=SHARE_IN_ROUNDS,
        )
        found: AskedMoments = self.remembered(("moments", count), lambda: self._moments(count))
        return found

    def _moments(self, count: int) -> AskedMoments:
        rows = self._pool[: max(MOST_PUBLIC, self.num_queries)]
        directions = PublicPCA.of(self._pool, count)
        return AskedMoments(self._inbox, directions, rows, self.records_per_teacher, self.num_labels)
