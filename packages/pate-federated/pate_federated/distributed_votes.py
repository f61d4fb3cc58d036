"""The aggregator `DistributedVotes`: labels whose count exceeds a threshold, with noise that the holders draw."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, Event, ZCdpEvent
from pate.aggregators import aggregator as base
from pate.aggregators.aggregator import Rng
from pate.aggregators.answers import Answers
from pate.aggregators.expectation import (
    ExpectedRelease,
    expected_from_votes,
)
from pate.aggregators.record import Arrays, ReleaseRecord
from pate.aggregators.release import Release
from pate.aggregators.thresholds import expected_bits, squared_sensitivity, threshold_votes
from pate.array_types import IntArray
from pate.mechanisms.parameters import COUNT, NOISE, PROBABILITY
from pate.validation import require, require_array, require_count
from pate.votes.made_up import MadeUpVotes
from pate.votes.shape import VoteShape
from pate.votes.source import CountableVotes, VoteSource
from pate_federated.noise_shares import NoiseShares
from pate_federated.noisy_sum import NoisySum

_UP = 1 + 2.0**-46  # relative: far above the rounding error of a few operations


@dataclass(frozen=True, kw_only=True)
class DistributedVotes(base.Aggregator):
    """Releases, for each label, whether count + noise > threshold_share * num_teachers, with noise that holders draw.

    Every holder adds a share of discrete Gaussian noise to the counts of its own teachers (`contribution`). By secure
    aggregation the server reads the sum alone, and `release_of` computes the labels from the sum. `aggregate` draws the
    noise of all holders at one place, for plans and comparisons. Every query is answered. Source: Kairouz, Liu &
    Steinke 2021; docs/proofs/distributed_noise.md.

    Formal guarantees:
        * The price covers all noisy counts, which the server reads: s**2 / (2 v) zCDP with s**2 = Q min(2 max_votes,
          L) under replace-one and Q min(max_votes, L) under add/remove, outside a failure of negligible probability.
        * v is the variance of `num_holders - max_dropouts - max_colluders` shares. The price holds if up to
          `max_dropouts` holders are absent, and if up to `max_colluders` others disclose their shares to the server. It
          covers the records of holders that do not disclose theirs. Without secure aggregation it does not hold: the
          server reads each holder's counts with one share.
        * A teacher of an absent holder counts as a teacher that votes for no label. Under replace-one the price covers
          this change of its votes. num_teachers and num_holders are the declared numbers.

    Attributes:
        noise_std: the standard deviation, in votes, of the noise that the price counts on, > 0. The noise is larger if
            fewer holders are absent or collude.
        num_holders: the number of holders that draw a share, public.
        max_dropouts: the largest number of holders that may be absent.
        max_colluders: the largest number of other holders that may disclose their share to the server, or draw none.
        max_votes: the largest number of labels of a query that a teacher votes for; None for all.
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
        """The largest number of labels of a query that a teacher may vote for under this price: `max_votes`."""
        return self.max_votes

    @cached_property
    def shares(self) -> NoiseShares:
        """The shares of noise that the holders draw, with the variance that the price counts on."""
        return self.convert_to(NoiseShares)

    def event(self, shape: VoteShape) -> Event:
        """Returns the price of the noisy counts of all queries; see `Aggregator.event`."""
        max_votes = self.max_votes or shape.num_labels
        sensitivity_per_query = squared_sensitivity(
            max_votes, num_labels=shape.num_labels, adjacency=self.adjacency
        )
        price = ZCdpEvent(
            rho=shape.num_queries * sensitivity_per_query / (2 * self.shares.variance) * _UP
        )
        failure_prob = self.shares.failure_prob(num_counts=shape.num_queries * shape.num_labels)
        return ApproximateEvent(price, failure_prob) if failure_prob else price

    def contribution(self, counts: Any, *, num_teachers: int, rng: Rng) -> IntArray:
        """Returns the numbers that a holder sends: its counts in steps, plus its share of the noise.

        The result is int64 `[num_queries, num_labels]`.

        Args:
            counts: the counts of the holder's teachers, `[num_queries, num_labels]`; with `max_votes` those that
                `counts_for` returns.
            num_teachers: the number of the holder's teachers.
            rng: the holder's generator, from `secret_generator()`. Anybody else who knows its state counts as a
                colluder.

        Raises:
            InvalidValue: these teachers cannot have cast such votes.
        """
        require_count("num_teachers", num_teachers)
        checked_counts = self.require_counts(counts, num_teachers=num_teachers)
        noise = self.shares.share.sample(checked_counts.shape, rng)
        return checked_counts.astype(np.int64) * self.shares.steps + noise

    def release_of(
        self, summed_contributions: Any, *, num_teachers: int, num_contributions: int
    ) -> Release:
        """Returns the release computed from a sum of contributions; the caller has charged the price of the release.

        Args:
            summed_contributions: the sum of the noisy counts that holders send, whole numbers
                `[num_queries, num_labels]`. One vote counts `shares.steps` steps in it.
            num_teachers: the number of teachers of all holders, absent holders included.
            num_contributions: the number of contributions in the sum.

        Raises:
            InvalidValue: there are fewer than `num_holders - max_dropouts` contributions, or more than `num_holders`;
                or the sum is no matrix of whole numbers.
        """
        least = self.num_holders - self.max_dropouts
        rule = f"{least} to {self.num_holders}, as num_holders and max_dropouts say"
        require(
            least <= num_contributions <= self.num_holders,
            "num_contributions",
            num_contributions,
            rule,
        )
        noisy_counts = require_array("total", summed_contributions, dtype_kinds="iu")
        require(noisy_counts.ndim == 2, "total.shape", noisy_counts.shape, "[Q, L]")
        event = self.event(VoteShape.from_counts(noisy_counts, num_teachers=num_teachers))
        labels = np.asarray(noisy_counts > self.threshold_share * num_teachers * self.shares.steps)
        return Release(
            labels,
            answered=np.ones(len(labels), dtype=np.bool_),
            event=event,
            adjacency=self.adjacency,
        )

    def require_source(self, vote_source: VoteSource) -> None:
        """Accepts a `NoisySum` without having its sum made; checks other votes as `Aggregator.require_source` does."""
        if not isinstance(vote_source, NoisySum):
            super().require_source(vote_source)

    def release(self, votes: VoteSource, rng: Rng, record: ReleaseRecord) -> Release:
        """Releases labels of votes, as `Aggregator.release` does, or of a `NoisySum`.

        The sum of a `NoisySum` is made only after the ledger is charged, and stored in the record.
        """
        if not isinstance(votes, NoisySum):
            return super().release(votes, rng, record)

        def no_arrays() -> Arrays:
            return {}

        # the holders' sum is the release, so the charge comes before the question
        record.part("asked", draw=no_arrays)

        def ask_for_total() -> Arrays:
            total, num_contributions = votes.total()
            return {"total": np.asarray(total), "present": np.array(num_contributions)}

        arrays = record.part("total", draw=ask_for_total)
        return self.release_of(
            summed_contributions=arrays["total"],
            num_teachers=votes.num_teachers,
            num_contributions=int(arrays["present"]),
        )

    def summarize(self, votes: VoteSource) -> NDArray[Any]:
        """Returns the counts of the votes plus a public constant for each label, `[num_queries, num_labels]`.

        The constant is `threshold_share` times the number of teachers whose holder lacks the label, rounded down. So
        these teachers neither help nor hinder the release of the label.
        """
        counts = super().summarize(votes)
        num_without_label = votes.require_type(CountableVotes).num_without_label()
        return counts + threshold_votes(num_without_label, threshold_share=self.threshold_share)

    def draw(self, summary: IntArray, shape: VoteShape, rng: Rng) -> Answers:
        """Releases the labels whose count plus noise exceeds `threshold_share * num_teachers`.

        The noise is drawn at one place instead of by the holders. It has the variance of the shares of all holders
        together, and nearly the distribution of their sum.

        Args:
            summary: the counts, as `summarize` returns them.
            shape: the numbers of queries, labels and teachers.
            rng: the source of the noise.
        """
        noisy_counts = summary * self.shares.steps + self.shares.drawn_together(summary.shape, rng)
        threshold = self.threshold_share * shape.num_teachers * self.shares.steps
        return Answers.to_all(np.asarray(noisy_counts > threshold))


@expected_from_votes.register(DistributedVotes)
def _expected_from_distributed_votes(
    aggregator: DistributedVotes, votes: MadeUpVotes, num_queries: int
) -> ExpectedRelease:
    """Returns the expected shares of right labels on made-up votes, with the noise of all holders together."""
    shares = aggregator.shares
    noise_std = (shares.variance * aggregator.num_holders / shares.num_counted) ** 0.5
    return expected_bits(votes, threshold_share=aggregator.threshold_share, noise_std=noise_std)
