"""The plan of a session: expected hits and prices, from public or synthetic votes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from pate import aggregators
from pate.accounting import (
    Accountant,
    AutoAccountant,
    Budget,
)
from pate.aggregators.failures import with_failure_prob_at_most, with_failure_prob_for
from pate.array_types import BoolArray
from pate.validation import require, require_count, require_histogram
from pate.votes.shape import VoteShape

# The 95% quantile of the normal distribution.
_NORMAL_QUANTILE_95 = 1.645
# Expected hits are sums of doubles, whose rounding may keep them just below a whole number.
_ROUNDING = 1e-9
# The share of delta that all failures of the stability test together take.
_FAILURE_SHARE = 0.1


@dataclass(frozen=True)
class HitPlan:
    """The expected hits and the prices of a session. If the votes are private, no epsilon covers this plan.

    Attributes:
        hit_rate: the mean probability that a query is a hit.
        expected_hits: the expected number of hits over all queries, if the session never halted.
        expected_asked: the number of queries until the expected hits reach `target_hits`, or all queries.
        epsilon: the price of the session on all queries.
        plain_epsilon: the price of `expected_asked` queries if every query is charged.
        break_even_queries: the smallest number of queries, found to within 1%, for which a session with the same hit
            rate costs less than charging every query; None if there is none up to `max_queries`.
    """

    hit_rate: float
    expected_hits: float
    expected_asked: int
    epsilon: float
    plain_epsilon: float
    break_even_queries: int | None


def plan_hits(
    aggregator: aggregators.TargetChargedAggregator,
    votes: Any,
    *,
    num_teachers: int,
    target_delta: float,
    prior: BoolArray | None = None,
    max_queries: int = 1_000_000,
    accountant: Callable[[], Accountant] = AutoAccountant,
) -> HitPlan:
    """Returns the expected hits and the prices of a session, computed on public or synthetic votes.

    The price of the session and that of charging every query are for the same noise.

    Args:
        aggregator: the aggregator of the session, with its noise.
        votes: counts of votes, `[num_queries, num_labels]`.
        num_teachers: the number of teachers whose votes are counted.
        target_delta: the delta of the guarantee.
        prior: bool `[num_queries, num_labels]`, the predicted labels; None for an aggregator without a prior.
        max_queries: the largest number of queries for which the break-even is searched.
        accountant: a function without arguments that returns an empty accountant.
    """
    counts = require_histogram("votes", votes, num_teachers=num_teachers, num_axes=2).astype(
        np.int64
    )
    shape = VoteShape.from_counts(counts, num_teachers=num_teachers)
    budget = Budget(delta=target_delta, accountant=accountant)
    require_count("max_queries", max_queries)
    if prior is not None:
        rule = f"{counts.shape}, as the votes"
        require(prior.shape == counts.shape, "prior.shape", prior.shape, rule)

    def session_price(charged: aggregators.TargetChargedAggregator, num_queries: int) -> float:
        """Returns the epsilon of a session of that number of queries."""
        session = replace(charged, session_delta=target_delta)
        return budget.epsilon_of(session.event(replace(shape, num_queries=num_queries)))

    def plain_price(charged: aggregators.TargetChargedAggregator, num_queries: int) -> float:
        """Returns the epsilon of that number of queries if every query is charged."""
        return budget.epsilon_of(charged.plain_event(replace(shape, num_queries=num_queries)))

    planned = with_failure_prob_for(aggregator, delta=target_delta, num_queries=len(counts))
    hits = planned.hit_probabilities(counts, num_teachers=num_teachers, prior=prior)
    hit_rate = float(hits.mean())

    @cache
    def is_session_cheaper(num_queries: int) -> bool:
        """Returns True if a session of that number of queries costs less than charging every query."""
        # `target_hits` grows so that a session halts early with a probability of about 1/20.
        expected_hits = num_queries * hit_rate
        most_hits = math.ceil(expected_hits + _NORMAL_QUANTILE_95 * math.sqrt(expected_hits)) + 1
        failure_prob = _FAILURE_SHARE * target_delta / num_queries
        rarely_failing = with_failure_prob_at_most(aggregator, max_failure_prob=failure_prob)
        session = replace(rarely_failing, target_hits=most_hits)
        return session_price(session, num_queries) < plain_price(session, num_queries)

    is_reached = np.cumsum(hits) >= aggregator.target_hits * (1 - _ROUNDING)
    expected_asked = int(np.argmax(is_reached)) + 1 if is_reached.any() else len(counts)
    return HitPlan(
        hit_rate=hit_rate,
        expected_hits=float(hits.sum()),
        expected_asked=expected_asked,
        epsilon=session_price(planned, num_queries=len(counts)),
        plain_epsilon=plain_price(planned, num_queries=expected_asked),
        break_even_queries=_break_even_queries(is_session_cheaper, max_queries),
    )


def _break_even_queries(is_cheaper: Callable[[int], bool], max_queries: int) -> int | None:
    """Returns the smallest number of queries, within 1%, for which a session costs less than charging every query.

    The result is None if a session of `max_queries` queries does not cost less.

    Args:
        is_cheaper: returns True if a session of a number of queries costs less; then it should for all larger numbers.
        max_queries: the largest number to try.
    """
    fewer_queries = 0
    num_queries = 1
    while num_queries < max_queries and not is_cheaper(num_queries):
        fewer_queries = num_queries
        num_queries = min(2 * num_queries, max_queries)
    if not is_cheaper(num_queries):
        return None
    while num_queries - fewer_queries > max(1, fewer_queries // 100):
        middle_queries = (fewer_queries + num_queries) // 2
        if is_cheaper(middle_queries):
            num_queries = middle_queries
        else:
            fewer_queries = middle_queries
    return num_queries
