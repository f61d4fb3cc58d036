"""Distributed votes: each label against a threshold, with noise that many holders draw."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate import accounting as pa
from pate.aggregators import aggregator as base
from pate.aggregators.aggregator import Rng
from pate.aggregators.expectation import (
    ExpectedRelease,
    expected_from_votes,
)
from pate.aggregators.record import Arrays, ReleaseRecord
from pate.aggregators.release import Answers, Release
from pate.aggregators.thresholds import expected_bits, squared_sensitivity
from pate.mechanisms.parameters import COUNT, NOISE, PROBABILITY
from pate.validation import require, require_array, require_count
from pate.votes.made_up import MadeUpVotes
from pate.votes.shape import VoteShape
from pate.votes.source import VoteSource
from pate_federated.noise_shares import NoiseShares
from pate_federated.noisy_sum import NoisySum

Counts = NDArray[np.int64]

_UP = 1 + 2.0**-46  # relative: far above the rounding error of a few operations


@dataclass(frozen=True, kw_only=True)
class DistributedVotes(base.Aggregator):
    """Releases, for each label, whether count + noise > threshold_share * num_teachers; holders draw the noise.

    Every holder adds a share of discrete Gaussian noise to the counts of its own teachers (`contribution`). Secure
    aggregation shows the server their sum alone, and `release_of` makes labels of it. `aggregate` does all of it in one
    place, with one draw of the same width: for plans, and to compare. Answers every query. Source: Kairouz, Liu &
    Steinke 2021; docs/proofs/distributed_noise.md.

    Formal guarantees:
        * The price is that of all noisy counts, which the server sees: s**2 / (2 v) zCDP with s**2 = Q min(2 max_votes,
          L) under replace-one and Q min(max_votes, L) under add/remove, outside a failure of negligible probability.
        * v is the variance of `num_holders - max_dropouts - max_colluders` shares: the price holds where so many
          holders drop out, and against a server to which so many others tell their shares. Without secure aggregation
          it sees each holder's counts with one share of the noise; no price here is for that.
        * A teacher of an absent holder counts as one that votes for nothing, which under replace-one it may have cast.
          num_teachers and num_holders stay as they are declared.

    Attributes:
        noise_std: of the noise that is counted on, in votes, > 0; there is more where fewer drop out or collude.
        num_holders: how many draw a share, public.
        max_dropouts: how many of them may be absent.
        max_colluders: how many of the others may tell the server their share, or draw none.
        max_votes: the most labels of a query that a teacher votes for; None for all.
        threshold_share: in (0, 1), public.

    >>> aggregator = DistributedVotes(noise_std=2.0, num_holders=2)
    >>> parts = [aggregator.contribution([[40, 1, 20]], num_teachers=50, rng=np.random.default_rng(i)) for i in (0, 1)]
    >>> aggregator.release_of(sum(parts), num_teachers=100, num_contributions=2).labels
    array([[ True, False, False]])
    """

    noise_std: float = field(metadata=NOISE)
    num_holders: int
    max_dropouts: int = 0
    max_colluders: int = 0
    max_votes: int | None = field(default=None, metadata=COUNT)
    threshold_share: float = field(default=0.5, metadata=PROBABILITY)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.shares

    @property
    def max_votes_per_teacher(self) -> int | None:
        """The most labels of a query that the price lets one teacher vote for: `max_votes`."""
        return self.max_votes

    @cached_property
    def shares(self) -> NoiseShares:
        """The noise of each holder, and of those that are counted on."""
        return self.part(NoiseShares)

    def event(self, shape: VoteShape) -> pa.Event:
        """Returns the price of the bits of all queries; see `Aggregator.event`."""
        max_votes = self.max_votes or shape.num_labels
        moved = squared_sensitivity(
            max_votes, num_labels=shape.num_labels, adjacency=self.adjacency
        )
        price = pa.ZCdpEvent(shape.num_queries * moved / (2 * self.shares.variance) * _UP)
        failure_prob = self.shares.failure_prob(shape.num_queries * shape.num_labels)
        return pa.ApproximateEvent(price, failure_prob) if failure_prob else price

    def contribution(self, counts: Any, *, num_teachers: int, rng: Rng) -> Counts:
        """Returns what one holder sends: its own teachers' counts in steps, each with a share of the noise, `[Q, L]`.

        Where there is `max_votes` they are from `counts_for`; counts that these teachers cannot have cast are refused.
        The generator is the holder's own, from `secret_generator()`; whoever else knows it is a colluder.
        """
        require_count("num_teachers", num_teachers)
        own = self.checked_counts(counts, num_teachers=num_teachers)
        return own.astype(np.int64) * self.shares.steps + self.shares.share.sample(own.shape, rng)

    def release_of(self, total: Any, *, num_teachers: int, num_contributions: int) -> Release:
        """Returns the release of the sum of contributions, whole numbers `[Q, L]`, which was paid for beforehand.

        `num_teachers` are those of all holders, absent ones included. Raises `InvalidValue` for fewer contributions
        than the price counts on, or more than there are holders.
        """
        least = self.num_holders - self.max_dropouts
        rule = f"{least} to {self.num_holders}, as num_holders and max_dropouts say"
        require(
            least <= num_contributions <= self.num_holders,
            "num_contributions",
            num_contributions,
            rule,
        )
        noisy = require_array("total", total, kinds="iu")
        require(noisy.ndim == 2, "total.shape", noisy.shape, "[Q, L]")
        event = self.event(VoteShape.from_counts(noisy, num_teachers=num_teachers))
        labels = np.asarray(noisy > self.threshold_share * num_teachers * self.shares.steps)
        return Release(labels, np.ones(len(labels), dtype=np.bool_), event, self.adjacency)

    def require_source(self, votes: VoteSource) -> None:
        """See `Aggregator.require_source`; a sum that holders have yet to make is not asked for before it is paid."""
        if not isinstance(votes, NoisySum):
            super().require_source(votes)

    def release(self, votes: VoteSource, rng: Rng, record: ReleaseRecord) -> Release:
        """See `Aggregator.release`; a sum that holders make is asked for once the ledger was charged."""
        if not isinstance(votes, NoisySum):
            return super().release(votes, rng, record)
        # what holders send is the release: it is paid for before they are asked
        record.part("asked", dict)

        def ask() -> Arrays:
            total, num_contributions = votes.total()
            return {"total": np.asarray(total), "present": np.array(num_contributions)}

        arrays = record.part("total", ask)
        return self.release_of(
            arrays["total"],
            num_teachers=votes.num_teachers,
            num_contributions=int(arrays["present"]),
        )

    def draw(self, summary: Counts, shape: VoteShape, rng: Rng) -> Answers:
        """Draws the noise of all holders together, and compares each count with the threshold."""
        noisy = summary * self.shares.steps + self.shares.drawn_together(summary.shape, rng)
        threshold = self.threshold_share * shape.num_teachers * self.shares.steps
        return Answers.to_all(np.asarray(noisy > threshold))


@expected_from_votes.register(DistributedVotes)
def _expected_from_distributed_votes(
    aggregator: DistributedVotes, votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expectation with the noise of all holders that may be present."""
    shares = aggregator.shares
    noise_std = (shares.variance * aggregator.num_holders / shares.num_counted) ** 0.5
    return expected_bits(votes, threshold_share=aggregator.threshold_share, noise_std=noise_std)
