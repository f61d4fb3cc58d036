"""The aggregator `DistributedVotes`: each label against a threshold, with noise that many holders draw."""

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
    """An aggregator that releases count + noise > threshold_share * num_teachers for each label, with holders' noise.

    Every holder adds a share of discrete Gaussian noise to the counts of its own teachers (`contribution`). Secure
    aggregation shows the server the sum alone, and `release_of` turns the sum into labels. `aggregate` draws noise of
    the same width in one place, for plans and comparisons. Every query is answered. Source: Kairouz, Liu & Steinke
    2021; docs/proofs/distributed_noise.md.

    Formal guarantees:
        * The price covers all noisy counts, which the server reads: s**2 / (2 v) zCDP with s**2 = Q min(2 max_votes,
          L) under replace-one and Q min(max_votes, L) under add/remove, outside a failure of negligible probability.
        * v is the variance of `num_holders - max_dropouts - max_colluders` shares. The price holds where so many
          holders drop out, and against a server to which so many other holders disclose their shares. The price does
          not hold without secure aggregation, where the server reads each holder's counts with one share of the noise.
        * A teacher of an absent holder counts as a teacher that votes for no label, which is one of the replacements
          under replace-one. num_teachers and num_holders stay as they are declared.

    Attributes:
        noise_std: the standard deviation of the counted noise, in votes, > 0. The noise is wider where fewer holders
            drop out or collude.
        num_holders: the number of holders that draw a share, public.
        max_dropouts: the most holders that may be absent.
        max_colluders: the most other holders that may disclose their share to the server, or draw none.
        max_votes: the most labels of a query that a teacher votes for; None for all.
        threshold_share: the share of teachers above which a label is released, in (0, 1), public.

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
        """The noise of each holder, and the noise that the price counts on."""
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
        """Returns a holder's contribution: its teachers' counts in steps, each with a share of the noise, `[Q, L]`.

        Args:
            counts: the counts of the holder's own teachers, `[Q, L]`; with `max_votes` those of `counts_for`.
            num_teachers: the number of the holder's teachers.
            rng: the holder's own generator, of `secret_generator()`; whoever else knows its state is a colluder.

        Raises `InvalidValue` for counts that these teachers cannot have cast.
        """
        require_count("num_teachers", num_teachers)
        checked = self.checked_counts(counts, num_teachers=num_teachers)
        noise = self.shares.share.sample(checked.shape, rng)
        return checked.astype(np.int64) * self.shares.steps + noise

    def release_of(self, total: Any, *, num_teachers: int, num_contributions: int) -> Release:
        """Returns the release of a sum of contributions, which was paid for beforehand.

        Args:
            total: the sum of the contributions in steps, whole numbers `[Q, L]`.
            num_teachers: the number of teachers of all holders, absent holders included.
            num_contributions: the number of contributions in the sum.

        Raises `InvalidValue` for fewer contributions than the price counts on, or more than `num_holders`.
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
        """Accepts a sum that holders have yet to make, without asking for it; else see `Aggregator.require_source`."""
        if not isinstance(votes, NoisySum):
            super().require_source(votes)

    def release(self, votes: VoteSource, rng: Rng, record: ReleaseRecord) -> Release:
        """Releases votes; a sum of holders is asked for after the ledger is charged. See `Aggregator.release`."""
        if not isinstance(votes, NoisySum):
            return super().release(votes, rng, record)
        # the holders' sum is the release, so the charge comes before the question
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
