"""The calibration of aggregators: all noise is multiplied by the least factor that meets a budget, or fits a ledger.

`Aggregator.fitted`, `scaled_to` and `calibrated` are the methods to call; they use the functions of this file. The
search for the factor is `pate.accounting.calibrate`. A subclass with several noises overrides `fitted` and finds the
proportion of its noises before they are multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pate.accounting import Accountant, Budget, Event, NoOpEvent, calibrate
from pate.aggregators.failures import require_delta_left, with_failure_prob_left
from pate.validation import InvalidValue
from pate.votes.shape import VoteShape

if TYPE_CHECKING:
    from pate.accounting import Ledger
    from pate.aggregators.aggregator import Aggregator

A = TypeVar("A", bound="Aggregator")

# The largest factor by which noise grows to fit into a ledger.
_LARGEST_FACTOR = 2.0**10
# The relative precision of that factor.
_FACTOR_TOLERANCE = 1e-3


def least_noise(
    make_event: Callable[[float], Event], budget: Budget, *, start: float = 1.0
) -> float:
    """Returns the least noise, or factor of the noise, at which an event meets a budget; see `calibrate`.

    Args:
        make_event: a function that returns the event for a noise > 0; more noise makes the event cheaper.
        budget: the epsilon and delta that the event may cost.
        start: the noise where the search begins, > 0.

    Raises:
        InvalidValue: no noise meets the budget.
    """
    return calibrate(
        event_for=make_event,
        target_epsilon=budget.required_epsilon(),
        target_delta=budget.delta,
        accountant=budget.accountant,
        start=start,
    )


def scaled_to_budget(aggregator: A, budget: Budget, vote_shape: VoteShape) -> A:
    """Returns a copy of the aggregator with all noise multiplied by the least factor whose price meets a budget.

    Args:
        aggregator: the aggregator to copy.
        budget: the epsilon and delta that the release may cost.
        vote_shape: the number of queries, labels and teachers of the release.

    Raises:
        InvalidValue: no factor meets the budget, or the failure probabilities use up its delta.
    """
    require_delta_left(aggregator, num_queries=vote_shape.num_queries, target_delta=budget.delta)

    def event_at(factor: float) -> Event:
        return aggregator.scaled(factor).event(vote_shape)

    return aggregator.scaled(least_noise(event_at, budget))


def fitted_to_ledger(
    aggregator: A,
    ledger: Ledger,
    shape: VoteShape,
    *,
    target_epsilon: float | None,
    target_delta: float | None,
    accountant: Callable[[], Accountant],
) -> A:
    """Returns a copy of the aggregator with the least noise that meets a target and fits into a ledger.

    Args:
        aggregator: the aggregator to copy.
        ledger: the ledger of the private data, with its earlier charges.
        shape: the number of queries, labels and teachers of the release.
        target_epsilon: the largest epsilon of the release; None stands for the cap of the ledger.
        target_delta: the delta of the ledger; None stands for the same.
        accountant: a function without arguments that returns an empty accountant, which computes epsilon.

    Raises:
        InvalidValue: no noise reaches the target, or the ledger has another adjacency or delta.
        BudgetExceeded: no noise fits into the ledger.
    """
    from pate.accounting.ledger import require_ledger  # loads sqlite3

    require_ledger(ledger)
    adjacency = aggregator.adjacency
    if ledger.adjacency != adjacency:
        rule = f"{adjacency}, as the aggregator"
        raise InvalidValue("ledger.adjacency", ledger.adjacency, rule=rule)
    target = ledger.max_epsilon if target_epsilon is None else target_epsilon
    if target is None:
        rule = "a number > 0, as the ledger has no max_epsilon"
        raise InvalidValue("target_epsilon", None, rule=rule)
    if target_delta not in (None, ledger.target_delta):
        rule = f"{ledger.target_delta}, as the ledger counts"
        raise InvalidValue("target_delta", target_delta, rule=rule)
    planned_aggregator = with_failure_prob_left(aggregator, ledger, num_queries=shape.num_queries)
    budget = Budget(epsilon=target, delta=ledger.target_delta, accountant=accountant)
    fitted_aggregator = planned_aggregator.fitted(budget, shape)
    if ledger.has_room(fitted_aggregator.event(shape)):
        return fitted_aggregator
    return fitted_aggregator.scaled(_least_factor_that_fits(fitted_aggregator, ledger, shape))


def _least_factor_that_fits(aggregator: Aggregator, ledger: Ledger, vote_shape: VoteShape) -> float:
    """Returns the least factor > 1 of the noise at which the release fits into the ledger, to a relative 1e-3.

    Args:
        aggregator: the aggregator whose noise is multiplied.
        ledger: the ledger with its earlier charges.
        vote_shape: the number of queries, labels and teachers of the release.

    Raises:
        BudgetExceeded: no noise fits.
    """

    def fits(factor: float) -> bool:
        return ledger.has_room(aggregator.scaled(factor).event(vote_shape))

    if not ledger.has_room(NoOpEvent()):
        # The ledger has no room for anything, so this raises.
        ledger.require_room(aggregator.event(vote_shape))
    low_factor = 1.0
    high_factor = 2.0
    while not fits(high_factor):
        if high_factor > _LARGEST_FACTOR:
            ledger.require_room(aggregator.scaled(high_factor).event(vote_shape))
        low_factor = high_factor
        high_factor *= 2
    while high_factor / low_factor > 1 + _FACTOR_TOLERANCE:
        middle_factor = math.sqrt(low_factor * high_factor)
        if fits(middle_factor):
            high_factor = middle_factor
        else:
            low_factor = middle_factor
    return high_factor
