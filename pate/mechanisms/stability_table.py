"""The stability table with the largest pass probabilities within a budget of Renyi divergence."""

import math
from dataclasses import dataclass
from functools import lru_cache

from pate.validation import require, require_count, require_positive, require_probability

_LARGEST_LOGIT = 36.0
_STEPS = 200


@dataclass(frozen=True, slots=True)
class StabilityTable:
    """The pass probability of a stability test at each level of the gap.

    A gap of at most one sensitivity has level 0. Each further sensitivity, or part of it, raises the level by 1.
    """

    order: float  # the Renyi order a > 1 at which the table costs `rdp_budget`
    rdp_budget: float  # the largest D_a between neighboring levels, in both directions
    failure_prob: float  # the pass probability at level 0
    # log odds of the pass probability at level 0, 1, …; all higher levels pass with the last probability
    logits: tuple[float, ...]

    def __post_init__(self) -> None:
        plain = all(isinstance(logit, (int, float)) for logit in self.logits)
        require(len(self.logits) > 0 and plain, "logits", self.logits[:3], "at least one number")


@lru_cache(maxsize=64)
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
    """Returns the largest rise of the log odds from one level to the next within the budget, rounded down.

    Args:
        logit: the log odds of passing at the lower level.
        order: the Renyi order.
        rdp_budget: the largest Renyi divergence between the levels.
        guess: a rise > 0 from which the search starts. The search is regula falsi (the Illinois algorithm).
    """
    # logarithms of both outcomes' probabilities
    q = -_log_add(0.0, -logit)
    not_q = -_log_add(0.0, logit)

    # the larger of both divergences between the levels, minus the budget
    def excess(step: float) -> float:
        p = -_log_add(0.0, -logit - step)
        not_p = -_log_add(0.0, logit + step)
        up = _log_add(order * p - (order - 1) * q, order * not_p - (order - 1) * not_q)
        down = _log_add(order * q - (order - 1) * p, order * not_q - (order - 1) * not_p)
        return max(up, down) / (order - 1) - rdp_budget

    low = 0.0
    high = guess
    side = 0
    low_value = -rdp_budget
    high_value = excess(high)
    while high_value <= 0:
        low = high
        low_value = high_value
        high = high * 2
        high_value = excess(high)
    for _ in range(_STEPS):
        if high - low <= 1e-13 * max(1.0, high):
            break
        middle = (low * high_value - high * low_value) / (high_value - low_value)
        if not low < middle < high:
            middle = (low + high) / 2
        value = excess(middle)
        if value <= 0:  # Illinois: the value of an end that stays is halved
            low = middle
            low_value = value
            high_value = high_value / (2 if side < 0 else 1)
            side = -1
        else:
            high = middle
            high_value = value
            low_value = low_value / (2 if side > 0 else 1)
            side = 1
        if value == 0:
            break
    return low


def _log_add(a: float, b: float) -> float:
    """Returns log(e^a + e^b)."""
    high, low = (a, b) if a > b else (b, a)
    return high + math.log1p(math.exp(low - high))
