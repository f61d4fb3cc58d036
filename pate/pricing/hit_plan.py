"""The plan of a session: expected hits and prices, from public or synthetic votes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pate import aggregators
from pate.accounting import (
    Accountant,
    AutoAccountant,
    Budget,
)
from pate.aggregators.failures import with_failure_prob_at_most, with_failure_prob_for
from pate.validation import require, require_count, require_histogram
from pate.votes.shape import VoteShape

if TYPE_CHECKING:  # it loads others, that few quotes need
    pass

_QUANTILE = 1.645  # one in twenty sessions has more hits

_ROUNDING = 1e-9

_FAILURE_SHARE = 0.1  # of delta, for all failures together


@dataclass(frozen=True)
class HitPlan:
    """Expected hits and prices of a session; a function of the votes, so no epsilon covers it if they are private."""

    hit_rate: float  # mean probability that a query hits
    expected_hits: float  # over all queries, as if nothing halted
    # queries until the expected hits reach `target_hits`; all of them where they do not
    expected_asked: int
    epsilon: float  # of the session
    plain_epsilon: float  # of plain composition of as many queries as are expected to be asked
    # the fewest of that rate for which a session with room for the hits costs less
    break_even_queries: int | None


def plan_hits(
    aggregator: aggregators.TargetChargedAggregator,
    votes: Any,
    *,
    num_teachers: int,
    target_delta: float,
    prior: NDArray[np.bool_] | None = None,
    max_queries: int = 1_000_000,
    accountant: Callable[[], Accountant] = AutoAccountant,
) -> HitPlan:
    """Plans a session on public or synthetic votes `[Q, L]`, with a prior of that shape where hits depend on one.

    Both prices are for the same noise. The break-even is searched up to `max_queries`.
    """
    counts = require_histogram("votes", votes, num_teachers=num_teachers, rank=2).astype(np.int64)
    shape = VoteShape.from_counts(counts, num_teachers=num_teachers)
    budget = Budget(delta=target_delta, accountant=accountant)
    require_count("max_queries", max_queries)
    if prior is not None:
        require(
            prior.shape == counts.shape, "prior.shape", prior.shape, f"{counts.shape}, as the votes"
        )

    def prices(
        charged: aggregators.TargetChargedAggregator, session: int, plain: int
    ) -> tuple[float, float]:
        """Returns the epsilons of a session of so many queries, and of plain composition of so many."""
        in_all = replace(charged, session_delta=target_delta).event(
            replace(shape, num_queries=session)
        )
        alone = charged.plain_event(replace(shape, num_queries=plain))
        return budget.epsilon_of(in_all), budget.epsilon_of(alone)

    @cache
    def pays(num_queries: int) -> bool:
        # `target_hits` grows so that a session halts early with a probability of about 1/20; failures take delta / 10
        expected = num_queries * rate
        most_hits = math.ceil(expected + _QUANTILE * math.sqrt(expected)) + 1
        share = _FAILURE_SHARE * target_delta / num_queries
        failing = with_failure_prob_at_most(aggregator, share)
        in_all, alone = prices(replace(failing, target_hits=most_hits), num_queries, num_queries)
        return in_all < alone

    planned = with_failure_prob_for(aggregator, delta=target_delta, num_queries=len(counts))
    hits = planned.hit_probabilities(counts, num_teachers=num_teachers, prior=prior)
    reached = np.flatnonzero(np.cumsum(hits) >= aggregator.target_hits * (1 - _ROUNDING))
    asked = int(reached[0]) + 1 if reached.size else len(counts)
    rate = float(hits.mean())
    low = 0
    high = 1
    while high < max_queries and not pays(high):
        low = high
        high = min(2 * high, max_queries)
    fewest = high if pays(high) else None
    while fewest is not None and fewest - low > max(1, low // 100):  # to a hundredth
        middle = (low + fewest) // 2
        low, fewest = (low, middle) if pays(middle) else (middle, fewest)
    return HitPlan(rate, float(hits.sum()), asked, *prices(planned, len(counts), asked), fewest)
