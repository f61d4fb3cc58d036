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
    budget = Budget(target_delta=target_delta, accountant=accountant)
    require_count("max_queries", max_queries)
    if prior is not None:
        require(prior.shape == counts.shape, "prior.shape", prior.shape, f"{counts.shape}, as the votes")

    def prices(charged: TargetChargedAggregator, session: int, plain: int) -> tuple[float, float]:
        """Of a session of so many queries, and of plain composition of so many."""
        in_all = shape.with_queries(session).event_of(replace(charged, session_delta=target_delta))
        alone = charged.plain_event(**shape.with_queries(plain).as_arguments)
        return budget.epsilon_of(in_all), budget.epsilon_of(alone)

    def pays(num_queries: int) -> bool:
        # `target_hits` grows with the queries so that a session halts early with a probability of about 1/20, and
        # failure probabilities shrink so that they take a tenth of delta
        expected = num_queries * rate
        changes: dict[str, Any] = {"target_hits": math.ceil(expected + _QUANTILE * math.sqrt(expected)) + 1}
        if hasattr(aggregator, "failure_prob"):
            share = _FAILURE_SHARE * target_delta / num_queries
            changes["failure_prob"] = min(aggregator.failure_prob or aggregator.usual_failure_prob, share)
        in_all, alone = prices(replace(aggregator, **changes), num_queries, num_queries)
        return in_all < alone

    hits = aggregator.hit_probabilities(counts, num_teachers=num_teachers, prior=prior)
    reached = np.flatnonzero(np.cumsum(hits) >= aggregator.target_hits * (1 - _ROUNDING))
    asked = int(reached[0]) + 1 if reached.size else len(counts)
    rate = float(hits.mean())
    epsilon, plain_epsilon = prices(aggregator, len(counts), asked)
    return HitPlan(rate, float(hits.sum()), asked, epsilon, plain_epsilon, _break_even(pays, max_queries))


def _break_even(pays: Callable[[int], bool], max_queries: int) -> int | None:
    """The first of 1, 2, 4, … queries for which the session pays, then halved back."""
    low, high = 0, 1
    while not pays(high):
        if high >= max_queries:
            return None
        low, high = high, min(2 * high, max_queries)
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high
