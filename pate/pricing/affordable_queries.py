"""The number of queries that a budget pays for."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pate.accounting import (
    Accountant,
    AutoAccountant,
    Budget,
    RdpAccountant,
)
from pate.accounting.count_search import largest_count
from pate.accounting.rounding import format_epsilon
from pate.aggregators import Aggregator
from pate.aggregators.failures import with_failure_prob_for
from pate.pricing.budgets import QueryBudget
from pate.validation import (
    InvalidValue,
    require,
    require_count,
    rounded_up,
)
from pate.votes.shape import VoteShape

# Draws compare a multiple of 2**-53, the grid of uniform doubles, with a probability.
_GRID = 2.0**-53
_MAX_QUERIES = 10**9


def require_achievable_delta(target_delta: float, *, num_queries: int, num_labels: int) -> float:
    """Returns `target_delta` if draws in double precision can keep it: at least 2**-53 for every label of every query.

    Events that are rarer than the grid of the draws happen never or too often, and no price accounts for that. Raises
    `InvalidValue` for a smaller delta.
    """
    lowest = (
        require_count("num_queries", num_queries) * require_count("num_labels", num_labels) * _GRID
    )
    rule = f"at least {rounded_up(lowest, digits=3)}, below which draws in double precision are too coarse"
    require(target_delta >= lowest, "target_delta", target_delta, rule)
    return target_delta


def largest_num_queries(
    aggregator: Aggregator,
    *,
    max_epsilon: float,
    target_delta: float,
    num_labels: int,
    num_teachers: int,
    accountant: Callable[[], Accountant] = AutoAccountant,
    at_most: int | None = None,
) -> int:
    """Returns the largest number of queries that costs at most an epsilon, with the noise as it is.

    Args:
        aggregator: the aggregator with its noise.
        max_epsilon: the epsilon that all queries together may cost.
        target_delta: the delta of the guarantee.
        num_labels: the number of labels of a query.
        num_teachers: the number of teachers.
        accountant: makes an empty accountant.
        at_most: an upper limit; None stands for 10**9. Draws in double precision set another limit.

    Raises:
        InvalidValue: the epsilon does not pay for a single query.

    >>> from pate.aggregators import GaussianVotes
    >>> largest_num_queries(
    ...     GaussianVotes(noise_std=100.0),
    ...     max_epsilon=8.0,
    ...     target_delta=1e-6,
    ...     num_labels=40,
    ...     num_teachers=800,
    ... )
    910
    """
    budget = QueryBudget(delta=target_delta, epsilon=max_epsilon, accountant=accountant)
    single_query = VoteShape(num_queries=1, num_labels=num_labels, num_teachers=num_teachers)
    maximum = _MAX_QUERIES if at_most is None else require_count("at_most", at_most)
    num_queries = 1 if at_most is None else maximum  # a first guess
    maximum = min(maximum, math.floor(target_delta / _GRID) // num_labels)

    def is_affordable(candidate: int, query_budget: Budget) -> bool:
        """Returns True if `candidate` queries cost at most the budget's epsilon, by the budget's accountant."""
        planned = with_failure_prob_for(aggregator, delta=target_delta, num_queries=candidate)
        event = planned.event(replace(single_query, num_queries=candidate))
        return query_budget.epsilon_of(event) <= max_epsilon

    # More queries never cost less. A slow accountant is asked only around the answer of Renyi's accountant.
    if accountant is not RdpAccountant:
        budget_by_renyi = replace(budget, accountant=RdpAccountant)
        is_affordable_by_renyi = partial(is_affordable, query_budget=budget_by_renyi)
        with suppress(InvalidValue):  # Renyi's accountant does not know every event
            num_queries = largest_count(is_affordable_by_renyi, guess=num_queries, maximum=maximum)
    is_affordable_by_budget = partial(is_affordable, query_budget=budget)
    num_queries = largest_count(is_affordable_by_budget, guess=num_queries, maximum=maximum)
    if num_queries == 0:
        require_achievable_delta(target_delta, num_queries=1, num_labels=num_labels)
        planned = with_failure_prob_for(aggregator, delta=target_delta, num_queries=1)
        event = planned.event(single_query)
        # The accountant raises where the failure probabilities alone use up delta.
        price = accountant().compose(event).get_epsilon(target_delta)
        require(
            False,
            "max_epsilon",
            max_epsilon,
            f"at least {format_epsilon(price)}, the price of one query",
        )
    return num_queries
