"""The epsilon of a single run, of which the best of a secret number costs a given epsilon (docs/proofs/tuning.md)."""

import math
from collections.abc import Callable

from pate.accounting import Budget, Event

_NUM_HALVINGS = 16


def epsilon_of_one_run(event_at: Callable[[float], Event], budget: Budget) -> float:
    """Returns the largest epsilon of one run at which the best of all runs costs at most the budget's epsilon.

    Args:
        event_at: the price of the best run, if one run has the noise of an epsilon.
        budget: the budget of the best run.
    """
    total = budget.required_epsilon()
    low, high = total / 16, total
    for _ in range(_NUM_HALVINGS):
        middle = math.sqrt(low * high)
        if budget.epsilon_of(event_at(middle)) <= total:
            low = middle
        else:
            high = middle
    return low
