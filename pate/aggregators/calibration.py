"""The calibration of aggregators: all noise is multiplied by the least factor that meets a budget, or fits a ledger.

`Aggregator.fitted`, `scaled_to` and `calibrated` are the methods to call; they use the functions of this file.
`pate.accounting.calibrate` searches the factor for a budget, and this file the further factor that a ledger needs. A
subclass with several noises may override `fitted` to find the proportion of its noises before they are multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pate.accounting import Accountant, Budget, Event, NoOpEvent, calibrate
from pate.aggregators.failures import require_delta_left, with_failure_prob_for_ledger
from pate.validation import InvalidValue
from pate.votes.shape import VoteShape

if TYPE_CHECKING:
    from pate.accounting import Ledger
    from pate.aggregators.aggregator import Aggregator

A = TypeVar("A", bound="Aggregator")

# The search for a factor at which noise fits into a ledger doubles it until it exceeds this number, and then gives up.
_LARGEST_FACTOR = 2.0**10
# The relative precision of that factor.
_FACTOR_TOLERANCE = 1e-3


def least_noise(
    event_at_noise: Callable[[float], Event], budget: Budget, *, start_noise: float = 1.0
) -> float:
    """Returns the least noise, or factor of the noise, at which an event meets a budget; see `calibrate`.

    Args:
        event_at_noise: a function that returns the event for a noise > 0; more noise makes the event cheaper.
        budget: the epsilon and delta that the event may cost.
        start_noise: the noise where the search begins, > 0.

    Raises:
        InvalidValue: no noise meets the budget.
    """
    return calibrate(
        event_for=event_at_noise,
        target_epsilon=budget.required_epsilon(),
        target_delta=budget.delta,
        accountant=budget.accountant,
        start=start_noise,
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

    def event_at_factor(noise_factor: float) -> Event:
        return aggregator.scaled(noise_factor).event(vote_shape)

    return aggregator.scaled(least_noise(event_at_factor, budget))


def fitted_to_ledger(
    aggregator: A,
    ledger: Ledger,
    vote_shape: VoteShape,
    *,
    target_epsilon: float | None,
    target_delta: float | None,
    make_accountant: Callable[[], Accountant],
) -> A:
    """Returns a copy of the aggregator with the least noise that meets a target and fits into a ledger.

    Args:
        aggregator: the aggregator to copy.
        ledger: the ledger of the private data, with its earlier charges.
        vote_shape: the number of queries, labels and teachers of the release.
        target_epsilon: the largest epsilon of the release; None stands for the cap of the ledger.
        target_delta: the delta of the ledger, or None, which stands for that delta.
        make_accountant: a function without arguments that returns an empty accountant, which computes epsilon.

    Raises:
        InvalidValue: no noise reaches the target, no epsilon is stated, or the ledger has another adjacency or delta.
        BudgetExceeded: no noise fits into the ledger.
    """
    from pate.accounting.ledger import require_ledger  # loads sqlite3

    require_ledger(ledger)
    adjacency = aggregator.adjacency
    if ledger.adjacency != adjacency:
        rule = f"{adjacency}, as the aggregator"
        raise InvalidValue("ledger.adjacency", ledger.adjacency, rule=rule)
    largest_epsilon = ledger.max_epsilon if target_epsilon is None else target_epsilon
    if largest_epsilon is None:
        rule = "a number > 0, as the ledger has no max_epsilon"
        raise InvalidValue("target_epsilon", None, rule=rule)
    if target_delta not in (None, ledger.target_delta):
        rule = f"{ledger.target_delta}, as the ledger counts"
        raise InvalidValue("target_delta", target_delta, rule=rule)
    planned_aggregator = with_failure_prob_for_ledger(
        aggregator, ledger, num_queries=vote_shape.num_queries
    )
    budget = Budget(epsilon=largest_epsilon, delta=ledger.target_delta, accountant=make_accountant)
    fitted_aggregator = planned_aggregator.fitted(budget, vote_shape)
    if ledger.has_room(fitted_aggregator.event(vote_shape)):
        return fitted_aggregator
    return fitted_aggregator.scaled(_least_factor_that_fits(fitted_aggregator, ledger, vote_shape))


def _least_factor_that_fits(aggregator: Aggregator, ledger: Ledger, vote_shape: VoteShape) -> float:
    """Returns the least factor > 1 of the noise at which the release fits into the ledger, to a relative 1e-3.

    Args:
        aggregator: the aggregator whose noise is multiplied.
        ledger: the ledger with its earlier charges.
        vote_shape: the number of queries, labels and teachers of the release.

    Raises:
        BudgetExceeded: no factor up to 2048 fits.
    """

    def fits(noise_factor: float) -> bool:
        return ledger.has_room(aggregator.scaled(noise_factor).event(vote_shape))

    if not ledger.has_room(NoOpEvent()):
        # The ledger has no room for anything, so this raises.
        ledger.require_room(aggregator.event(vote_shape))
    low_noise_factor = 1.0
    high_noise_factor = 2.0
    while not fits(high_noise_factor):
        if high_noise_factor > _LARGEST_FACTOR:
            ledger.require_room(aggregator.scaled(high_noise_factor).event(vote_shape))
        low_noise_factor = high_noise_factor
        high_noise_factor *= 2
    while high_noise_factor / low_noise_factor > 1 + _FACTOR_TOLERANCE:
        middle_noise_factor = math.sqrt(low_noise_factor * high_noise_factor)
        if fits(middle_noise_factor):
            high_noise_factor = middle_noise_factor
        else:
            low_noise_factor = middle_noise_factor
    return high_noise_factor
