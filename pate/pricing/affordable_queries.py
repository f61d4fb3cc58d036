"""The number of queries that a budget pays for."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from pate.accounting import (
    Accountant,
    AutoAccountant,
    Budget,
    RdpAccountant,
)
from pate.accounting.filters import largest_count
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

_GRID = 2.0**-53

_MOST_QUERIES = 10**9


def require_achievable_delta(target_delta: float, *, num_queries: int, num_labels: int) -> float:
    """Returns a delta that draws in double precision can keep, at least 2**-53 for every label of every query."""
    # Draws compare a multiple of 2**-53 with a probability: what is rarer happens never or too often, unaccounted for.
    lowest = (
        require_count("num_queries", num_queries) * require_count("num_labels", num_labels) * _GRID
    )
    rule = f"at least {rounded_up(lowest, 3)}, below which draws in double precision are too coarse"
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
    """Returns the most queries that cost at most `max_epsilon` at `target_delta`, with the noise as it is.

    At most `at_most`, or 10**9, and no more than draws can keep `target_delta` for; `InvalidValue` where it is none.

    >>> from pate.aggregators import GaussianVotes
    >>> budget = {"max_epsilon": 8.0, "target_delta": 1e-6, "num_labels": 40, "num_teachers": 800}
    >>> largest_num_queries(GaussianVotes(noise_std=100.0), **budget)
    910
    """
    budget = QueryBudget(delta=target_delta, epsilon=max_epsilon, accountant=accountant)
    one = VoteShape(num_queries=1, num_labels=num_labels, num_teachers=num_teachers)
    maximum = _MOST_QUERIES if at_most is None else require_count("at_most", at_most)
    most = 1 if at_most is None else maximum
    maximum = min(maximum, math.floor(target_delta / _GRID) // num_labels)

    def affordable(num_queries: int, budget: Budget) -> bool:
        planned = with_failure_prob_for(aggregator, delta=target_delta, num_queries=num_queries)
        event = planned.event(replace(one, num_queries=num_queries))
        return budget.epsilon_of(event) <= max_epsilon

    # More queries never cost less. An accountant that may be slow is asked only around the Renyi accountant's answer.
    if accountant is not RdpAccountant:
        by_renyi = replace(budget, accountant=RdpAccountant)
        with suppress(InvalidValue):  # an event that it does not know
            most = largest_count(
                lambda count: affordable(count, by_renyi), guess=most, maximum=maximum
            )
    most = largest_count(lambda count: affordable(count, budget), guess=most, maximum=maximum)
    if most == 0:
        require_achievable_delta(target_delta, num_queries=1, num_labels=num_labels)
        event = with_failure_prob_for(aggregator, delta=target_delta, num_queries=1).event(one)
        # raises where failures alone use up delta
        price = accountant().compose(event).get_epsilon(target_delta)
        require(
            False,
            "max_epsilon",
            max_epsilon,
            f"at least {format_epsilon(price)}, the price of one query",
        )
    return most
