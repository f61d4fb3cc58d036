"""The plan of a session under target charging: its expected hits and its price, from public or synthetic votes.

A *session* is a sequence of queries with one price, charged before the first answer. *Hits* are the answers that the
session counts, such as abstentions in doubt. A session halts after `target_hits` hits, and its price is fixed by that
number and the largest number of queries (`pate.accounting.target_charging`; docs/how-to/pay-for-hits.md). In the plain
release of the same queries, every query is charged. The break-even is the number of queries from which on a session
costs less than the plain release.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pate.accounting import (
    Accountant,
    AutoAccountant,
    Budget,
)
from pate.aggregators.failures import with_failure_prob_at_most, with_failure_prob_for
from pate.array_types import BoolArray
from pate.validation import require, require_count, require_histogram
from pate.votes.shape import VoteShape

if TYPE_CHECKING:
    from pate.aggregators import TargetChargedAggregator

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
    aggregator: TargetChargedAggregator,
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
    vote_counts = require_histogram("votes", votes, largest_count=num_teachers, num_axes=2).astype(
        np.int64
    )
    require_count("max_queries", max_queries)
    if prior is not None:
        rule = f"{vote_counts.shape}, as the votes"
        require(prior.shape == vote_counts.shape, "prior.shape", prior.shape, rule)
    vote_shape = VoteShape.from_counts(vote_counts, num_teachers=num_teachers)
    budget = Budget(delta=target_delta, accountant=accountant)
    session = with_failure_prob_for(
        aggregator, delta=target_delta, num_queries=vote_shape.num_queries
    )
    hit_probs = session.hit_probabilities(vote_counts, num_teachers=num_teachers, prior=prior)
    hit_rate = float(hit_probs.mean())
    # The queries after which the session is expected to have halted.
    has_halted = np.cumsum(hit_probs) >= aggregator.target_hits * (1 - _ROUNDING)
    expected_asked = int(np.argmax(has_halted)) + 1 if has_halted.any() else vote_shape.num_queries

    @cache
    def is_session_cheaper(num_queries: int) -> bool:
        """Returns True if a session of a number of queries costs less than charging every query."""
        tried_shape = replace(vote_shape, num_queries=num_queries)
        candidate_session = _session_for(
            aggregator, hit_rate=hit_rate, num_queries=num_queries, target_delta=target_delta
        )
        session_epsilon = _session_epsilon(
            session=candidate_session, vote_shape=tried_shape, budget=budget
        )
        return session_epsilon < _plain_epsilon(
            session=candidate_session, vote_shape=tried_shape, budget=budget
        )

    return HitPlan(
        hit_rate=hit_rate,
        expected_hits=float(hit_probs.sum()),
        expected_asked=expected_asked,
        epsilon=_session_epsilon(session=session, vote_shape=vote_shape, budget=budget),
        plain_epsilon=_plain_epsilon(
            session=session,
            vote_shape=replace(vote_shape, num_queries=expected_asked),
            budget=budget,
        ),
        break_even_queries=_break_even_queries(holds=is_session_cheaper, max_queries=max_queries),
    )


def _session_epsilon(
    session: TargetChargedAggregator, vote_shape: VoteShape, budget: Budget
) -> float:
    """Returns the epsilon of a session of as many queries as `vote_shape` has, at the delta of the budget.

    It is the price that is charged before the first answer; it does not depend on votes or hits.
    """
    priced_session = replace(session, session_delta=budget.delta)
    return budget.epsilon_of(priced_session.event(vote_shape))


def _plain_epsilon(
    session: TargetChargedAggregator, vote_shape: VoteShape, budget: Budget
) -> float:
    """Returns the epsilon of all queries of a shape if each is charged, hit or not, with the noise of the session."""
    return budget.epsilon_of(session.plain_event(vote_shape))


def _session_for(
    aggregator: TargetChargedAggregator,
    *,
    hit_rate: float,
    num_queries: int,
    target_delta: float,
) -> TargetChargedAggregator:
    """Returns a session for another number of queries, with the same noise, which rarely halts before the last query.

    From the expected number of hits, `target_hits` is set such that the probability of an early halt is at most about
    1/20. The failure probability of a stability test (`pate.aggregators.failures`) is lowered if need be, so that the
    failures of all queries together take at most a tenth of `target_delta`.

    Args:
        aggregator: the aggregator of the session, with its noise.
        hit_rate: the probability that a query is a hit.
        num_queries: the number of queries.
        target_delta: the delta of the guarantee.
    """
    failure_prob = _FAILURE_SHARE * target_delta / num_queries
    rarely_failing_aggregator = with_failure_prob_at_most(aggregator, max_failure_prob=failure_prob)
    # The number of hits is about Poisson, so its variance is about its mean.
    expected_hits = num_queries * hit_rate
    likely_hits = expected_hits + _NORMAL_QUANTILE_95 * math.sqrt(expected_hits)
    return replace(rarely_failing_aggregator, target_hits=math.ceil(likely_hits) + 1)


def _break_even_queries(holds: Callable[[int], bool], max_queries: int) -> int | None:
    """Returns the smallest number of queries, within 1%, for which a session costs less than charging every query.

    The result is None if a session of `max_queries` queries does not cost less.

    Args:
        holds: returns True if a session of a number of queries costs less. If it returns True for a number, it
            should do so for all larger numbers.
        max_queries: the largest number to try.
    """
    fewer_queries = 0
    num_queries = 1
    while num_queries < max_queries and not holds(num_queries):
        fewer_queries = num_queries
        num_queries = min(2 * num_queries, max_queries)
    if not holds(num_queries):
        return None
    while num_queries - fewer_queries > max(1, fewer_queries // 100):
        middle_queries = (fewer_queries + num_queries) // 2
        if holds(middle_queries):
            num_queries = middle_queries
        else:
            fewer_queries = middle_queries
    return num_queries
