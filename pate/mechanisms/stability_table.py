"""The stability table with the largest pass probabilities within a budget of Renyi divergence."""

import math
from dataclasses import dataclass
from functools import lru_cache

from pate.validation import require, require_count, require_positive, require_probability

# A table ends at the first level with log odds above this, which are those of a probability of 1 - 2**-52.
_LARGEST_LOGIT = 36.0
# The largest number of steps of the search for a level.
_MAX_STEPS = 200
# The relative precision of that search.
_TOLERANCE = 1e-13


@dataclass(frozen=True, slots=True)
class StabilityTable:
    """The pass probability of a stability test at each level of the gap.

    A gap of at most one sensitivity has level 0. Each further sensitivity, or part of it, raises the level by 1.

    Attributes:
        order: the Renyi order > 1 at which the table costs `rdp_budget`.
        rdp_budget: the largest Renyi divergence between neighboring levels, in both directions.
        failure_prob: the pass probability at level 0.
        logits: the log odds of the pass probability at level 0, 1, …; all higher levels have the last probability.
    """

    order: float
    rdp_budget: float
    failure_prob: float
    logits: tuple[float, ...]

    def __post_init__(self) -> None:
        are_numbers = all(isinstance(logit, (int, float)) for logit in self.logits)
        is_valid = len(self.logits) > 0 and are_numbers
        require(is_valid, "logits", self.logits[:3], "at least one number")


# Calibration, price and draw ask for the same table, and each level takes a search.
@lru_cache(maxsize=512)
def optimal_stability_table(
    *, order: float, rdp_budget: float, failure_prob: float, num_levels: int
) -> StabilityTable:
    """Returns the stability table with the largest pass probability at every level (docs/proofs/stability_test.md).

    Level 0 passes with `failure_prob`. Each next level passes with the largest probability whose D_order to the level
    before is at most `rdp_budget` in both directions. This greedy choice is optimal, as the divergence grows with the
    distance of the probabilities.

    Args:
        order: the Renyi order > 1 at which the table costs `rdp_budget`; it costs more at larger orders.
        rdp_budget: the largest Renyi divergence between neighboring levels, > 0.
        failure_prob: the pass probability at level 0, in (0, 1).
        num_levels: the largest number of levels of the table, >= 1.

    >>> table = optimal_stability_table(order=8.0, rdp_budget=0.001, failure_prob=1e-6, num_levels=3)
    >>> [round(logit, 3) for logit in table.logits]
    [-13.816, -12.708, -11.739]
    """
    require(order > 1 and math.isfinite(order), "order", order, "a finite number > 1")
    require_positive("rdp_budget", rdp_budget)
    require_probability("failure_prob", failure_prob)
    require_count("num_levels", num_levels)
    logits = [math.log(failure_prob) - math.log1p(-failure_prob)]
    step = 1.0
    while len(logits) < num_levels and logits[-1] < _LARGEST_LOGIT:
        step = _largest_step(logit=logits[-1], order=order, rdp_budget=rdp_budget, guess=step)
        logits.append(logits[-1] + step)
    return StabilityTable(
        order=order, rdp_budget=rdp_budget, failure_prob=failure_prob, logits=tuple(logits)
    )


def _largest_step(logit: float, order: float, rdp_budget: float, guess: float) -> float:
    """Returns the largest rise of the log odds from a level to the next that costs at most `rdp_budget`, rounded down.

    Args:
        logit: the log odds of passing at the lower level.
        order: the Renyi order.
        rdp_budget: the largest Renyi divergence between the levels.
        guess: a rise > 0 from which the search starts. The search is regula falsi (the Illinois algorithm).
    """
    # Logarithms of the probabilities q and 1 - q of passing and not passing at the lower level.
    log_q = -_log_add(0.0, -logit)
    log_not_q = -_log_add(0.0, logit)
    less_order = order - 1
    exp = math.exp
    log1p = math.log1p

    def divergence_excess(step: float) -> float:
        """Returns the Renyi divergence, in the larger direction, of log odds that rise by `step`, less the budget."""
        # This is the innermost loop of a calibration, so each log(e^a + e^b) = max(a, b) + log(1 + e^-|a - b|) stands
        # here without a call of a function.
        higher_logit = logit + step
        if higher_logit > 0:
            log_p = -log1p(exp(-higher_logit))
            log_not_p = log_p - higher_logit
        else:
            log_not_p = -log1p(exp(higher_logit))
            log_p = higher_logit + log_not_p
        ones_up = order * log_p - less_order * log_q
        zeros_up = order * log_not_p - less_order * log_not_q
        lead_up = ones_up - zeros_up
        log_moment_up = (
            ones_up + log1p(exp(-lead_up)) if lead_up > 0 else zeros_up + log1p(exp(lead_up))
        )
        ones_down = order * log_q - less_order * log_p
        zeros_down = order * log_not_q - less_order * log_not_p
        lead_down = ones_down - zeros_down
        log_moment_down = (
            ones_down + log1p(exp(-lead_down))
            if lead_down > 0
            else zeros_down + log1p(exp(lead_down))
        )
        log_moment = log_moment_up if log_moment_up > log_moment_down else log_moment_down
        return log_moment / less_order - rdp_budget

    low = 0.0
    low_value = -rdp_budget
    high = guess
    high_value = divergence_excess(high)
    while high_value <= 0:
        low = high
        low_value = high_value
        high = high * 2
        high_value = divergence_excess(high)
    # -1 after the low end has moved, 1 after the high end has.
    last_moved = 0
    for _ in range(_MAX_STEPS):
        if high - low <= _TOLERANCE * max(1.0, high):
            break
        middle = (low * high_value - high * low_value) / (high_value - low_value)
        if not low < middle < high:
            middle = (low + high) / 2
        value = divergence_excess(middle)
        # The Illinois algorithm: the value of an end that stays for the second time is halved.
        if value <= 0:
            low = middle
            low_value = value
            if last_moved < 0:
                high_value = high_value / 2
            last_moved = -1
        else:
            high = middle
            high_value = value
            if last_moved > 0:
                low_value = low_value / 2
            last_moved = 1
        if value == 0:
            break
    return low


def _log_add(a: float, b: float) -> float:
    """Returns log(e^a + e^b)."""
    high, low = (a, b) if a > b else (b, a)
    return high + math.log1p(math.exp(low - high))
