"""Planning a session of charged calls on public or synthetic votes: how many hits, and from when on they pay."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Accountant, AutoAccountant
from pate.aggregators.target_charging import TargetChargedAggregator
from pate.pricing.priced_release import Budget, ReleaseShape
from pate.validation import require, require_count, require_histogram

_QUANTILE = 1.645  # one in twenty sessions has more hits
_ROUNDING = 1e-9
_FAILURE_SHARE = 0.1  # of delta, for all failures together


@dataclass(frozen=True)
class HitPlan:
    """What to expect of a session; a function of the votes, so no epsilon covers it if they are private."""

    hit_rate: float  # mean probability that a query hits
    expected_hits: float  # over all queries, as if nothing halted
    expected_asked: int  # queries until the expected hits reach `target_hits`; all of them where they do not
    epsilon: float  # of the session
    plain_epsilon: float  # of plain composition of as many queries as are expected to be asked
    break_even_queries: int | None  # the fewest of that rate for which a session with room for the hits costs less


def plan_hits(
    aggregator: TargetChargedAggregator,
    votes: Any,
    *,
    num_teachers: int,
    target_delta: float,
    prior: NDArray[np.bool_] | None = None,
    max_queries: int = 1_000_000,
    accountant: Callable[[], Accountant] = AutoAccountant,
) -> HitPlan:
    """Plans a session with these parameters on public or synthetic votes; both prices are for the same noise.

    Args:
        aggregator: what the session uses.
        votes: integers `[Q, L]`, public or synthetic.
        num_teachers: T.
        target_delta: in (0, 1).
        prior: bool `[Q, L]` where hits depend on one.
        max_queries: how far the break-even is searched.
        accountant: makes an empty accountant.
    """
    counts = require_histogram("votes", votes, num_teachers=num_teachers, rank=2).astype(np.int64)
    shape = ReleaseShape(num_queries=len(counts), num_labels=counts.shape[1], num_teachers=num_teachers)
    prices = _Prices(aggregator, shape, Budget(target_delta=target_delta, accountant=accountant))
    require_count("max_queries", max_queries)
    if prior is not None:
        require(prior.shape == counts.shape, "prior.shape", prior.shape, f"{counts.shape}, as the votes")
    hits = aggregator.hit_probabilities(counts, num_teachers=num_teachers, prior=prior)
    reached = np.flatnonzero(np.cumsum(hits) >= aggregator.target_hits * (1 - _ROUNDING))
    asked = int(reached[0]) + 1 if reached.size else len(counts)
    rate = float(hits.mean())
    return HitPlan(
        hit_rate=rate,
        expected_hits=float(hits.sum()),
        expected_asked=asked,
        epsilon=prices.session(aggregator, len(counts)),
        plain_epsilon=prices.plain(aggregator, asked),
        break_even_queries=_break_even(prices, rate, max_queries),
    )


@dataclass(frozen=True)
class _Prices:
    """Epsilons of one aggregator for any number of queries."""

    aggregator: TargetChargedAggregator
    shape: ReleaseShape
    budget: Budget

    def session(self, aggregator: TargetChargedAggregator, num_queries: int) -> float:
        charged = replace(aggregator, session_delta=self.budget.target_delta)
        return self.budget.epsilon_of(self.shape.with_queries(num_queries).event_of(charged))

    def plain(self, aggregator: TargetChargedAggregator, num_queries: int) -> float:
        shape = self.shape.with_queries(num_queries)
        return self.budget.epsilon_of(aggregator.plain_event(**shape.as_arguments))

    def pays(self, rate: float, num_queries: int) -> bool:
        # `target_hits` grows with the queries so that a session halts early with a probability of about 1/20, and
        # failure probabilities shrink so that they take a tenth of delta
        expected = num_queries * rate
        changes: dict[str, Any] = {"target_hits": math.ceil(expected + _QUANTILE * math.sqrt(expected)) + 1}
        if hasattr(self.aggregator, "failure_prob"):
            share = _FAILURE_SHARE * self.budget.target_delta / num_queries
            usual = self.aggregator.failure_prob or self.aggregator.usual_failure_prob
            changes["failure_prob"] = min(usual, share)
        aggregator = replace(self.aggregator, **changes)
        return self.session(aggregator, num_queries) < self.plain(aggregator, num_queries)


def _break_even(prices: _Prices, rate: float, max_queries: int) -> int | None:
    """The first of 1, 2, 4, … queries for which the session pays, then halved back."""
    low, high = 0, 1
    while not prices.pays(rate, high):
        if high >= max_queries:
            return None
        low, high = high, min(2 * high, max_queries)
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if prices.pays(rate, middle) else (middle, high)
    return high
