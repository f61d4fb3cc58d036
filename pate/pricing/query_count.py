"""How many queries a budget pays for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from pate.accounting import Accountant, AutoAccountant, RdpAccountant
from pate.accounting.calibration import largest_count
from pate.aggregators import Aggregator
from pate.pricing.achievable_delta import require_achievable_delta, smallest_delta
from pate.pricing.budget import Budget
from pate.pricing.shape import ReleaseShape
from pate.validation import InvalidValue, require, require_count, require_positive, rounded_up

_MOST_QUERIES = 10**9


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
    """The most queries that cost at most `max_epsilon` at `target_delta`, with the noise as it is.

    At most `at_most`, or 10**9, and no more than draws can keep `target_delta` for (`smallest_delta`).

    More queries never cost less, so the search doubles and then halves. An accountant other than Renyi's is asked only
    around the Renyi accountant's answer, as it may be slow.

    Raises:
        InvalidValue: not even one query is affordable.

    >>> from pate.aggregators import GaussianVotes
    >>> budget = {"max_epsilon": 8.0, "target_delta": 1e-6, "num_labels": 40, "num_teachers": 800}
    >>> largest_num_queries(GaussianVotes(noise_std=100.0), **budget)
    909
    """
    require_positive("max_epsilon", max_epsilon)
    budget = Budget(target_delta=target_delta, max_epsilon=max_epsilon, accountant=accountant)
    one = ReleaseShape(num_queries=1, num_labels=num_labels, num_teachers=num_teachers)
    maximum = _MOST_QUERIES if at_most is None else require_count("at_most", at_most)

    def affordable(num_queries: int, budget: Budget) -> bool:
        if num_queries == 0:
            return True
        if smallest_delta(num_queries=num_queries, num_labels=num_labels) > target_delta:
            return False
        return budget.epsilon_of(one.with_queries(num_queries).event_of(aggregator)) <= max_epsilon

    most = 1 if at_most is None else maximum
    if accountant is not RdpAccountant:
        by_renyi = replace(budget, accountant=RdpAccountant)
        with suppress(InvalidValue):  # an event that it does not know
            most = _largest(lambda count: affordable(count, by_renyi), guess=most, maximum=maximum)
    most = _largest(lambda count: affordable(count, budget), guess=most, maximum=maximum)
    if most == 0:
        require_achievable_delta(target_delta, num_queries=1, num_labels=num_labels)
        spent = accountant().compose(one.event_of(aggregator))
        price = spent.get_epsilon(target_delta)  # raises where failures alone use up delta
        require(False, "max_epsilon", max_epsilon, f"at least {rounded_up(price, 4)}, the price of one query")
    return most


def _largest(affordable: Callable[[int], bool], *, guess: int, maximum: int) -> int:
    """The largest affordable count, 0 being affordable: bracketed in growing steps from a guess, then halved."""
    step = max(guess // 32, 1)
    if affordable(guess):
        low, high = guess, guess + step
        while high <= maximum and affordable(high):
            low, high, step = high, high + 2 * step, 2 * step
        high = min(high, maximum + 1)
    else:
        low, high = max(guess - step, 0), guess
        while not affordable(low):
            low, high, step = max(low - 2 * step, 0), low, 2 * step
    return low + largest_count(lambda more: affordable(low + more), maximum=high - low - 1)
