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
    Event,
    RdpAccountant,
)
from pate.accounting.count_search import largest_count
from pate.accounting.rounding import ceil_to_digits, format_epsilon
from pate.aggregators import Aggregator
from pate.aggregators.failures import with_failure_prob_for
from pate.pricing.budgets import QueryBudget
from pate.validation import (
    InvalidValue,
    require_count,
)
from pate.votes.shape import VoteShape

# Draws compare a uniform double, which is a multiple of 2**-53, with a probability.
_UNIFORM_STEP = 2.0**-53
# The largest number of queries that the search returns without `at_most`.
_MAX_QUERIES = 10**9


def require_achievable_delta(target_delta: float, *, num_queries: int, num_labels: int) -> float:
    """Returns `target_delta` if draws in double precision can keep it: at least 2**-53 num_queries num_labels.

    An event with a probability below 2**-53 happens never or too often, and no price accounts for that. Raises
    `InvalidValue` for a smaller delta.
    """
    require_count("num_queries", num_queries)
    require_count("num_labels", num_labels)
    min_delta = num_queries * num_labels * _UNIFORM_STEP
    if target_delta < min_delta:
        least = ceil_to_digits(min_delta, num_digits=3)
        rule = f"at least {least}, as draws in double precision are coarser than a smaller delta"
        raise InvalidValue("target_delta", target_delta, rule=rule)
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
        accountant: a function without arguments that returns an empty accountant.
        at_most: an upper limit; None stands for 10**9. Draws in double precision set another limit.

    Raises:
        InvalidValue: the epsilon does not pay for a single query, or draws cannot keep so small a delta.

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
    make_accountant = accountant
    budget = QueryBudget(delta=target_delta, epsilon=max_epsilon, accountant=make_accountant)
    single_query = VoteShape(num_queries=1, num_labels=num_labels, num_teachers=num_teachers)
    first_guess = 1
    query_limit = _MAX_QUERIES
    if at_most is not None:
        query_limit = require_count("at_most", at_most)
        first_guess = query_limit
    # `require_achievable_delta` refuses more queries than these.
    query_limit_of_draws = math.floor(target_delta / _UNIFORM_STEP) // num_labels
    query_limit = min(query_limit, query_limit_of_draws)

    def event_of(num_queries: int) -> Event:
        """Returns the event of a number of queries, which an accountant prices."""
        planned_aggregator = with_failure_prob_for(
            aggregator, delta=target_delta, num_queries=num_queries
        )
        return planned_aggregator.event(replace(single_query, num_queries=num_queries))

    def is_affordable(num_queries: int, query_budget: Budget) -> bool:
        """Returns True if a number of queries costs at most `max_epsilon` by the accountant of `query_budget`."""
        return query_budget.epsilon_of(event_of(num_queries)) <= max_epsilon

    # More queries never cost less. A slow accountant prices only numbers of queries around the result of the Renyi
    # accountant.
    if accountant is not RdpAccountant:
        budget_with_renyi_accountant = replace(budget, accountant=RdpAccountant)
        is_affordable_by_renyi = partial(is_affordable, query_budget=budget_with_renyi_accountant)
        with suppress(InvalidValue):  # the Renyi accountant does not know every event
            first_guess = largest_count(
                holds=is_affordable_by_renyi, guess=first_guess, maximum=query_limit
            )
    is_affordable_by_budget = partial(is_affordable, query_budget=budget)
    num_queries = largest_count(
        holds=is_affordable_by_budget, guess=first_guess, maximum=query_limit
    )
    if num_queries == 0:
        require_achievable_delta(target_delta, num_queries=1, num_labels=num_labels)
        # The accountant raises where the failure probabilities alone use up delta.
        price = make_accountant().compose(event_of(num_queries=1)).get_epsilon(target_delta)
        rule = f"at least {format_epsilon(price)}, the price of one query"
        raise InvalidValue("max_epsilon", max_epsilon, rule=rule)
    return num_queries
