"""Failure probabilities of stability tests: their choice, and the part of delta that they take.

A stability test releases an unstable set with a probability of at most `failure_prob`. Such an answer has no finite
epsilon. Over Q answers the failure probabilities add up to a part of delta, and only the rest of delta is left for the
noise. Few users have an opinion on `failure_prob`, so its default is None. The functions here replace None by the usual
value of the class, or by a lower one where many queries or a small delta need that.

`with_failure_prob_for` plans for one release at a delta. `with_failure_prob_for_ledger` also leaves room in a ledger
for later releases. `with_failure_prob_at_most` sets a limit that the caller knows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pate.errors import InvalidValue, Remedy

if TYPE_CHECKING:
    from pate.accounting import Ledger
    from pate.aggregators.aggregator import Aggregator

A = TypeVar("A", bound="Aggregator")

USUAL_DELTA = 1e-6
"""The delta that failures are planned for where no budget states one."""

# The part of delta that all failures may take: what the usual 1e-9 takes for 600 queries at 1e-6.
_SHARE_OF_DELTA = 0.6
# The part of the ledger's remaining failure probability that one release may take. It is less than 0.5, so that the
# rounding to two digits does not take more than half.
_SHARE_OF_LEDGER = 0.45
# The smallest probability > 0 with which a test can pass: the uniform numbers that decide tests are multiples of it.
_MIN_FAILURE_PROB = 2.0**-53


def failure_prob_of(aggregator: Aggregator) -> float:
    """Returns the probability that the price of one answer fails; 0 for an aggregator without a `failure_prob`.

    A `failure_prob` of None counts as the class's `usual_failure_prob`.
    """
    failure_prob: float | None = getattr(aggregator, "failure_prob", 0.0)
    return aggregator.usual_failure_prob if failure_prob is None else failure_prob


def with_failure_prob_for(aggregator: A, *, delta: float, num_queries: int) -> A:
    """Returns a copy of the aggregator whose `failure_prob` suits a number of queries at a delta.

    A `failure_prob` that is a number is kept. None becomes the usual value of the class, or less where the failures of
    all tests would take more than 0.6 of delta, or of a smaller `session_delta`.
    """
    if getattr(aggregator, "failure_prob", 0.0) is not None:
        return aggregator
    suitable_failure_prob = _suitable_failure_prob(aggregator, delta=delta, num_queries=num_queries)
    return _with_failure_prob(aggregator, failure_prob=suitable_failure_prob)


def with_failure_prob_for_ledger(aggregator: A, ledger: Ledger, *, num_queries: int) -> A:
    """Returns a copy of the aggregator whose `failure_prob` leaves room for later releases in a ledger.

    The value is that of `with_failure_prob_for`, or less. Where the ledger has charges, all failures of this release
    take less than half of what the ledger allows to later failures (`Ledger.failures_left`), unless that needs a value
    below 2**-53. A `failure_prob` that is a number is kept.
    """
    planned_aggregator = with_failure_prob_for(
        aggregator, delta=ledger.target_delta, num_queries=num_queries
    )
    num_tests = aggregator.num_tests(num_queries)
    if planned_aggregator is aggregator or not ledger.entries or num_tests == 0:
        return planned_aggregator
    affordable_failure_prob = _two_digits(_SHARE_OF_LEDGER * ledger.failures_left / num_tests)
    if _MIN_FAILURE_PROB <= affordable_failure_prob < failure_prob_of(planned_aggregator):
        return _with_failure_prob(planned_aggregator, failure_prob=affordable_failure_prob)
    return planned_aggregator


def with_failure_prob_at_most(aggregator: A, max_failure_prob: float) -> A:
    """Returns the aggregator, or a copy with `max_failure_prob` if its failure probability is larger."""
    if failure_prob_of(aggregator) <= max_failure_prob:
        return aggregator
    return _with_failure_prob(aggregator, failure_prob=max_failure_prob)


def require_delta_left(
    aggregator: Aggregator,
    *,
    num_queries: int,
    target_delta: float,
) -> None:
    """Raises `InvalidValue` if the failure probabilities of all tests of a release add up to `target_delta` or more.

    The error names a smaller `failure_prob` or number of queries, if one would do.
    """
    failure_prob = failure_prob_of(aggregator)
    sum_of_failures = failure_prob * aggregator.num_tests(num_queries)
    if sum_of_failures < target_delta:
        return
    remedies: list[Remedy] = []
    suitable_failure_prob = _suitable_failure_prob(
        aggregator, delta=target_delta, num_queries=num_queries
    )
    # A ready table has a failure probability of its own, which cannot be changed.
    has_ready_table = getattr(aggregator, "table", None) is not None
    if suitable_failure_prob < failure_prob and not has_ready_table:
        remedies.append(
            Remedy(name="failure_prob", value=suitable_failure_prob, owner="aggregator")
        )
    # The factor keeps a whole quotient from being rounded down to the number before it.
    num_affordable_queries = int(_SHARE_OF_DELTA * target_delta / failure_prob * (1 + 1e-9))
    if num_affordable_queries > 0:
        remedies.append(Remedy(name="num_queries", value=num_affordable_queries))
    rule = (
        f"a sum over all queries below target_delta, and {sum_of_failures:.3g} in all uses up "
        f"target_delta={target_delta:g}"
    )
    if not remedies:
        rule += f"; what works: a target_delta above {sum_of_failures:g}"
    raise InvalidValue(
        "failure_prob", failure_prob, rule=rule, remedies=tuple(remedies), owner="aggregator"
    )


def _suitable_failure_prob(aggregator: Aggregator, *, delta: float, num_queries: int) -> float:
    """Returns the usual failure probability of the class, or less where all tests would need too much of delta.

    The failures of all tests together take at most about 0.6 of delta, or of the aggregator's `session_delta` if that
    is smaller. The result is never below 2**-53, even if that takes more.
    """
    # The price of a session has a delta of its own, which the failures of its queries must not use up either.
    smaller_delta = min(delta, getattr(aggregator, "session_delta", 1.0))
    num_tests = max(aggregator.num_tests(num_queries), 1)
    failure_prob_within_delta = _two_digits(_SHARE_OF_DELTA * smaller_delta / num_tests)
    return max(min(aggregator.usual_failure_prob, failure_prob_within_delta), _MIN_FAILURE_PROB)


def _with_failure_prob(aggregator: A, failure_prob: float) -> A:
    """Returns a copy of the aggregator with another `failure_prob`."""
    return replace(aggregator, failure_prob=failure_prob)  # type: ignore[call-arg]  # a field of some classes


def _two_digits(unrounded: float) -> float:
    """Returns a number rounded to two significant digits."""
    return float(f"{unrounded:.1e}")
