"""Planning a release before any data: how many queries a budget pays for, and how small a delta can be promised."""

from __future__ import annotations

from collections.abc import Callable

from pate.accounting import Accountant, RdpAccountant
from pate.accounting.calibration import largest_count
from pate.accounting.events import failure_probability
from pate.aggregators.aggregator import Aggregator
from pate.validation import require, require_count, require_positive, require_probability

_MOST_QUERIES = 10**9
_GRID = 2.0**-53


def largest_num_queries(
    aggregator: Aggregator,
    *,
    max_epsilon: float,
    target_delta: float,
    num_labels: int,
    num_teachers: int,
    accountant: Callable[[], Accountant] = RdpAccountant,
) -> int:
    """The most queries that cost at most `max_epsilon` at `target_delta`, with the noise as it is.

    At most 10**9, and no more than draws can keep `target_delta` for (`smallest_delta`).

    More queries never cost less, so the search doubles and then halves. An accountant other than Renyi's is asked only
    around the Renyi accountant's answer, as it may be slow.

    Raises:
        InvalidValue: not even one query is affordable.

    >>> from pate.aggregators import GaussianVotes
    >>> budget = {"max_epsilon": 8.0, "target_delta": 1e-6, "num_labels": 40, "num_teachers": 800}
    >>> largest_num_queries(GaussianVotes(noise_std=100.0), **budget)
    826
    """
    require_positive("max_epsilon", max_epsilon)
    require_probability("target_delta", target_delta)
    shape = {"num_labels": num_labels, "num_teachers": num_teachers}

    def epsilon(num_queries: int, make: Callable[[], Accountant]) -> float:
        return make().compose(aggregator.event_for(num_queries=num_queries, **shape)).get_epsilon(target_delta)

    def affordable(num_queries: int, make: Callable[[], Accountant]) -> bool:
        if num_queries == 0:
            return True
        if smallest_delta(num_queries=num_queries, num_labels=num_labels) > target_delta:
            return False
        failing = failure_probability(aggregator.event_for(num_queries=num_queries, **shape))
        return failing < target_delta and epsilon(num_queries, make) <= max_epsilon

    most = _largest(lambda count: affordable(count, RdpAccountant), guess=1)
    if accountant is not RdpAccountant:
        most = _largest(lambda count: affordable(count, accountant), guess=most)
    if most == 0:
        one = epsilon(1, accountant)  # raises where failures alone use up delta
        require(False, "max_epsilon", max_epsilon, f"at least {one:.4g}, the price of one query")
    return most


def smallest_delta(*, num_queries: int, num_labels: int) -> float:
    """The smallest delta that draws in double precision can keep: 2**-53 for every label of every query.

    Draws compare a multiple of 2**-53 with a probability, so whatever is rarer happens never or too often, by up to
    2**-53 a draw, and no accountant sees it.
    """
    return require_count("num_queries", num_queries) * require_count("num_labels", num_labels) * _GRID


def require_achievable_delta(target_delta: float, *, num_queries: int, num_labels: int) -> float:
    """Returns a delta that draws can keep, or raises."""
    lowest = smallest_delta(num_queries=num_queries, num_labels=num_labels)
    rule = f"at least {lowest:.3g}, below which draws in double precision keep no promise"
    require(target_delta >= lowest, "target_delta", target_delta, rule)
    return target_delta


def _largest(affordable: Callable[[int], bool], *, guess: int) -> int:
    """The largest affordable count, 0 being affordable: bracketed in growing steps from a guess, then halved."""
    step = max(guess // 32, 1)
    if affordable(guess):
        low, high = guess, guess + step
        while high <= _MOST_QUERIES and affordable(high):
            low, high, step = high, high + 2 * step, 2 * step
        high = min(high, _MOST_QUERIES + 1)
    else:
        low, high = max(guess - step, 0), guess
        while not affordable(low):
            low, high, step = max(low - 2 * step, 0), low, 2 * step
    return low + largest_count(lambda more: affordable(low + more), maximum=high - low - 1)


def warning_of_one_label(aggregator: Aggregator) -> str:
    """What an aggregator for one label a sample does to samples with several."""
    return f"aggregator={type(aggregator).__name__}: names one label a query; any others that it has count as absent"
