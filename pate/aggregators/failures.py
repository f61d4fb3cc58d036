"""Failures of tests: each answer's price may fail with a `failure_prob`, and their sum is taken from delta."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pate.errors import InvalidValue, Remedy

if TYPE_CHECKING:
    from pate.accounting import Ledger
    from pate.aggregators.aggregator import Aggregator

A = TypeVar("A", bound="Aggregator")

# The delta that is taken where no budget says another.
USUAL_DELTA = 1e-6
# The part of delta that all failures may take: what the usual 1e-9 takes for 600 queries at 1e-6.
_SHARE_OF_DELTA = 0.6
# The part of what a ledger has left for failures: less than half, as the result is rounded to two digits.
_SHARE_OF_LEDGER = 0.45
# Draws are compared with multiples of it.
_LEAST = 2.0**-53


def failure_prob_of(aggregator: Aggregator) -> float:
    """Returns the probability that the price of one answer fails: 0 for an aggregator that has no `failure_prob`.

    One that nobody named is the class's `usual_failure_prob`, until a plan lowers it (`with_failure_prob_for`).
    """
    named: float | None = getattr(aggregator, "failure_prob", 0.0)
    return aggregator.usual_failure_prob if named is None else named


def with_failure_prob_for(aggregator: A, *, delta: float, num_queries: int) -> A:
    """Returns the aggregator with a `failure_prob` that a plan of so many queries at this delta can have.

    A `failure_prob` that the user named is never changed. One that nobody named becomes the class's usual one, or less
    where the failures of all queries would take more than 0.6 of delta.
    """
    if getattr(aggregator, "failure_prob", 0.0) is not None:
        return aggregator
    return _with_failure_prob(aggregator, _fitting(aggregator, delta, num_queries))


def with_failure_prob_left(aggregator: A, ledger: Ledger, *, num_queries: int) -> A:
    """Returns the aggregator with a `failure_prob` that leaves room for later releases in a ledger.

    That of `with_failure_prob_for`, or less, so that all failures take less than half of what a ledger with charges has
    left for them.
    """
    planned = with_failure_prob_for(aggregator, delta=ledger.target_delta, num_queries=num_queries)
    num_tests = aggregator.num_tests(num_queries)
    if planned is aggregator or not ledger.entries or num_tests == 0:
        return planned
    left = _two_digits(_SHARE_OF_LEDGER * ledger.failures_left / num_tests)
    if _LEAST <= left < failure_prob_of(planned):
        return _with_failure_prob(planned, left)
    return planned


def with_failure_prob_at_most(aggregator: A, most: float) -> A:
    """Returns the aggregator with its failure probability lowered to `most`, where it has a larger one."""
    failure_prob = failure_prob_of(aggregator)
    return aggregator if failure_prob <= most else _with_failure_prob(aggregator, most)


def require_delta_left(
    aggregator: Aggregator,
    *,
    num_queries: int,
    target_delta: float,
) -> None:
    """Raises `InvalidValue`, with what works, where the failures of all queries use up delta in (0, 1)."""
    failure_prob = failure_prob_of(aggregator)
    in_all = failure_prob * aggregator.num_tests(num_queries)
    if in_all < target_delta:
        return
    remedies = list[Remedy]()
    fitting = _fitting(aggregator, target_delta, num_queries)
    has_own_table = getattr(aggregator, "table", None) is not None  # with a failure_prob of its own
    if fitting < failure_prob and not has_own_table:
        remedies.append(Remedy("failure_prob", fitting, owner="aggregator"))
    fewer = int(_SHARE_OF_DELTA * target_delta / failure_prob * (1 + 1e-9))
    if fewer > 0:
        remedies.append(Remedy("num_queries", fewer))
    rule = (
        f"a sum over all queries below target_delta, and {in_all:.3g} in all uses up "
        f"target_delta={target_delta:g}"
    )
    if not remedies:
        rule += f"; what works: a target_delta above {in_all:g}"
    raise InvalidValue(
        "failure_prob", failure_prob, rule=rule, remedies=tuple(remedies), owner="aggregator"
    )


def _fitting(aggregator: Aggregator, delta: float, num_queries: int) -> float:
    """Returns the class's usual failure probability, or less where all of them would take more than 0.6 of delta."""
    # A session's accesses are counted for a delta of its own.
    delta = min(delta, getattr(aggregator, "session_delta", 1.0))
    share = _SHARE_OF_DELTA * delta / max(aggregator.num_tests(num_queries), 1)
    return max(min(aggregator.usual_failure_prob, _two_digits(share)), _LEAST)


def _with_failure_prob(aggregator: A, failure_prob: float) -> A:
    return replace(aggregator, failure_prob=failure_prob)  # type: ignore[call-arg]  # of some classes


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")
