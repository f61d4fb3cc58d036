"""Votes of many holders, each of which adds its share of the noise, so that nobody sees a sum without noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, Event, ZCdpEvent
from pate.accounting.special import ndtr
from pate.aggregators.aggregator import Arrays, Bits, ExpectedRelease, PerQueryAggregator, ReleaseContext, require_shape
from pate.aggregators.gnmax import squared_sensitivity
from pate.aggregators.release import Release
from pate.mechanisms.noise.whole_numbers import NoiseShares
from pate.mechanisms.parameters import COUNT, NOISE, PROBABILITY
from pate.validation import InvalidValue, require, require_array, require_count, require_histogram
from pate.votes.made_up_votes import MadeUpVotes
from pate.votes.source import NoisySum, VoteSource

Integers = NDArray[np.int64]

_UP = 1 + 2.0**-46  # relative: far above the rounding error of a few operations


@dataclass(frozen=True, kw_only=True)
class DistributedVotes(PerQueryAggregator):
    """Releases, for each label, whether count + noise > threshold_share * num_teachers; holders draw the noise.

    Every holder adds a share of discrete Gaussian noise to the counts of its own teachers (`contribution`). Secure
    aggregation shows the server their sum alone, and `release_of` makes labels of it. `aggregate` does all of it in one
    place, with one draw of the same width: for plans, and to compare. Answers every query.

    Formal guarantees:
        * The price is that of all noisy counts, which the server sees: s**2 / (2 v) zCDP with s**2 = Q min(2 max_votes,
          L) under replace-one and Q min(max_votes, L) under add/remove, outside a failure of negligible probability.
        * v is the variance of `num_holders - max_dropouts - max_colluders` shares. So the price holds where that many
          holders drop out, and against a server to which that many others tell their shares.
        * A teacher of a holder that is absent counts as one that votes for nothing: under replace-one that is one of
          the votes that it may have cast. num_teachers and num_holders stay as they are declared.
        * Without secure aggregation the server sees each holder's counts with one share of the noise; no price here is
          for that.

    Attributes:
        noise_std: standard deviation in votes of the noise that is counted on, > 0; there is more of it where fewer
            drop out or collude.
        num_holders: how many draw a share, public.
        max_dropouts: how many of them may be absent.
        max_colluders: how many of the others may tell the server their share, or draw none.
        max_votes: the most labels of a query that a teacher votes for; None for all.
        threshold_share: in (0, 1), public.

    Source: Kairouz, Liu & Steinke 2021; docs/proofs/distributed_noise.md.

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

    @cached_property
    def shares(self) -> NoiseShares:
        return self.part(NoiseShares)

    @property
    def max_votes_per_teacher(self) -> int | None:
        return self.max_votes

    def event_for(self, *, num_queries: int, num_labels: int, num_teachers: int) -> Event:
        require_shape(num_queries=num_queries, num_labels=num_labels, num_teachers=num_teachers)
        moved = squared_sensitivity(self.max_votes or num_labels, num_labels=num_labels, adjacency=self.adjacency)
        price = ZCdpEvent(num_queries * moved / (2 * self.shares.variance) * _UP)
        failure_prob = self.shares.failure_prob(num_queries * num_labels)
        return ApproximateEvent(price, failure_prob) if failure_prob else price

    def contribution(self, counts: Any, *, num_teachers: int, rng: np.random.Generator) -> Integers:
        """What one holder sends: the counts of its own teachers in steps, each with a share of the noise, `[Q, L]`.

        Args:
            counts: `[Q, L]`, by `counts_for` where there is `max_votes`.
            num_teachers: of this holder.
            rng: the holder's own, from `secret_generator()`; whoever else knows it is a colluder.

        Raises:
            InvalidValue: counts that these teachers cannot have cast.
        """
        own = require_histogram("counts", counts, num_teachers=require_count("num_teachers", num_teachers), rank=2)
        cast = own.sum(axis=1, dtype=np.int64) <= (self.max_votes or own.shape[1]) * num_teachers
        rule = f"counts of teachers that vote for at most max_votes={self.max_votes} labels of a query"
        require(bool(cast.all()), "counts", "some query", rule)
        return own.astype(np.int64) * self.shares.steps + self.shares.share.sample(own.shape, rng)

    def release_of(self, total: Any, *, num_teachers: int, num_contributions: int) -> Release:
        """Labels of the sum of contributions; what the sum costs was paid for before it was made.

        Args:
            total: whole numbers `[Q, L]`, the sum of what holders sent.
            num_teachers: of all holders, absent ones included.
            num_contributions: how many sent something.

        Raises:
            InvalidValue: fewer contributions than the price counts on, or more than there are holders.
        """
        least = self.num_holders - self.max_dropouts
        rule = f"{least} to {self.num_holders}, as num_holders and max_dropouts say"
        require(least <= num_contributions <= self.num_holders, "num_contributions", num_contributions, rule)
        noisy = require_array("total", total, kinds="iu")
        if noisy.ndim != 2:
            raise InvalidValue(f"total.shape={noisy.shape}: expected [Q, L]")
        event = self.event_for(num_queries=len(noisy), num_labels=noisy.shape[1], num_teachers=num_teachers)
        labels = self._above(noisy.astype(np.int64), num_teachers)
        return Release(labels, np.ones(len(labels), dtype=np.bool_), event, self.adjacency)

    def require_source(self, source: VoteSource) -> None:
        if not isinstance(source, NoisySum):
            super().require_source(source)  # a sum that is still to be made is not asked for before it is paid

    def release_from(self, source: VoteSource, context: ReleaseContext) -> Release:
        """A sum that holders make is asked for once the ledger was charged."""
        if not isinstance(source, NoisySum):
            return super().release_from(source, context)
        drawn = self._drawn(source, context)
        drawn.once("asked", dict)  # what holders send is the release: it is paid for before they are asked

        def answered() -> Arrays:
            total, present = source.total()
            return {"total": np.asarray(total), "present": np.array(present)}

        found = drawn.once("total", answered)
        present = int(found["present"])
        return self.release_of(found["total"], num_teachers=source.num_teachers, num_contributions=present)

    def _expected(self, votes: MadeUpVotes, num_queries: int) -> ExpectedRelease:
        """In closed form, with the noise of all holders that may be present."""
        noise_std = (self.shares.variance * self.num_holders / self.shares.num_counted) ** 0.5
        above = ndtr((votes.counts() - self.threshold_share * votes.num_teachers) / noise_std)
        return ExpectedRelease(1.0, float(above[votes.labels].mean()), float(1 - above[~votes.labels].mean()))

    def _draw(self, votes: Integers, *, num_teachers: int, rng: np.random.Generator) -> tuple[Bits, Bits]:
        noisy = votes * self.shares.steps + self.shares.drawn_together(votes.shape, rng)
        return self._above(noisy, num_teachers), np.ones(len(votes), dtype=np.bool_)

    def _above(self, noisy: Integers, num_teachers: int) -> Bits:
        return np.asarray(noisy > self.threshold_share * num_teachers * self.shares.steps)
