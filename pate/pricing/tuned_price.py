"""The epsilon of a single run in a tuning, whose best run costs a given epsilon (docs/proofs/tuning.md).

A tuning makes a secret, random number of runs and publishes only the best one. The best run costs more than a single
run, but far less than all runs together.
"""

import math
from collections.abc import Callable

from pate.accounting import Budget, Event

# A single run has at least this share of the budget's epsilon.
_MIN_SHARE = 1 / 16
# The number of halvings of the interval of log epsilon. They leave a relative error of 16**(2**-16) - 1, about 4e-5.
_NUM_HALVINGS = 16


def epsilon_of_one_run(compute_best_run_event: Callable[[float], Event], budget: Budget) -> float:
    """Returns the largest epsilon of one run at which the best of all runs costs at most the budget's epsilon.

    The search goes from a sixteenth of the budget's epsilon up to all of it, with a relative error of 4e-5. If the best
    run costs more at every epsilon that is tried, the sixteenth is returned unchecked. So a caller has to compare the
    price with the budget.

    Args:
        compute_best_run_event: returns the price of the best run, as a function of the epsilon of each single run.
        budget: the budget of the best run; it must have an epsilon.
    """
    max_epsilon = budget.required_epsilon()
    low_epsilon = max_epsilon * _MIN_SHARE
    high_epsilon = max_epsilon
    for _ in range(_NUM_HALVINGS):
        middle_epsilon = math.sqrt(low_epsilon * high_epsilon)  # the middle of the logarithms
        if budget.epsilon_of(compute_best_run_event(middle_epsilon)) <= max_epsilon:
            low_epsilon = middle_epsilon
        else:
            high_epsilon = middle_epsilon
    return low_epsilon
