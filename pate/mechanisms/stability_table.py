"""The stability table with the largest pass probabilities within a budget of Renyi divergence."""

import math
from dataclasses import dataclass
from functools import lru_cache

from pate.validation import require, require_count, require_positive, require_probability

# A table ends at the first level with at least these log odds, which are about those of a probability of 1 - 2**-52.
_LARGEST_LOGIT = 36.0
# The largest number of steps that narrow the bracket around the rise to the next level.
_MAX_STEPS = 200
# The width at which the bracket is narrow enough: absolute for a rise of at most 1, relative for a larger one.
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
        first_logits = self.logits[:3]
        require(is_valid, "logits", first_logits, "at least one number")


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
    logits_of_levels = [math.log(failure_prob) - math.log1p(-failure_prob)]
    logit_step = 1.0
    while len(logits_of_levels) < num_levels and logits_of_levels[-1] < _LARGEST_LOGIT:
        logit_step = _largest_step(
            lower_logit=logits_of_levels[-1],
            order=order,
            rdp_budget=rdp_budget,
            guessed_logit_step=logit_step,
        )
        if logit_step == 0:
            break  # the budget is below the rounding errors, so all higher levels have the last probability
        logits_of_levels.append(logits_of_levels[-1] + logit_step)
    return StabilityTable(
        order=order,
        rdp_budget=rdp_budget,
        failure_prob=failure_prob,
        logits=tuple(logits_of_levels),
    )


def _largest_step(
    lower_logit: float, order: float, rdp_budget: float, guessed_logit_step: float
) -> float:
    """Returns the largest rise of the log odds from a level to the next that costs at most `rdp_budget`, rounded down.

    Args:
        lower_logit: the log odds of passing at the lower level.
        order: the Renyi order.
        rdp_budget: the largest Renyi divergence between the levels.
        guessed_logit_step: a rise > 0 from which the search starts. The search is regula falsi (the Illinois
            algorithm).
    """
    # Logarithms of the probabilities q and 1 - q of passing and not passing at the lower level.
    log_pass_prob = -_log_add(0.0, -lower_logit)
    log_fail_prob = -_log_add(0.0, lower_logit)
    less_order = order - 1
    exp = math.exp
    log1p = math.log1p

    def divergence_excess(step: float) -> float:
        """Returns the Renyi divergence, in the larger direction, of log odds that rise by `step`, less the budget."""
        # This is the innermost loop of a calibration, so each log(e^a + e^b) = max(a, b) + log(1 + e^-|a - b|) is
        # written out, without a call of `_log_add`.
        higher_logit = lower_logit + step
        if higher_logit > 0:
            log_higher_pass_prob = -log1p(exp(-higher_logit))
            log_higher_fail_prob = log_higher_pass_prob - higher_logit
        else:
            log_higher_fail_prob = -log1p(exp(higher_logit))
            log_higher_pass_prob = higher_logit + log_higher_fail_prob
        log_passing_from_lower = order * log_higher_pass_prob - less_order * log_pass_prob
        log_failing_from_lower = order * log_higher_fail_prob - less_order * log_fail_prob
        passing_lead_from_lower = log_passing_from_lower - log_failing_from_lower
        log_moment_from_lower = (
            log_passing_from_lower + log1p(exp(-passing_lead_from_lower))
            if passing_lead_from_lower > 0
            else log_failing_from_lower + log1p(exp(passing_lead_from_lower))
        )
        log_passing_from_higher = order * log_pass_prob - less_order * log_higher_pass_prob
        log_failing_from_higher = order * log_fail_prob - less_order * log_higher_fail_prob
        passing_lead_from_higher = log_passing_from_higher - log_failing_from_higher
        log_moment_from_higher = (
            log_passing_from_higher + log1p(exp(-passing_lead_from_higher))
            if passing_lead_from_higher > 0
            else log_failing_from_higher + log1p(exp(passing_lead_from_higher))
        )
        log_moment = (
            log_moment_from_lower
            if log_moment_from_lower > log_moment_from_higher
            else log_moment_from_higher
        )
        return log_moment / less_order - rdp_budget

    bracket_start = 0.0
    excess_at_start = -rdp_budget
    bracket_end = guessed_logit_step
    excess_at_end = divergence_excess(bracket_end)
    while excess_at_end <= 0:
        bracket_start = bracket_end
        excess_at_start = excess_at_end
        bracket_end = bracket_end * 2
        excess_at_end = divergence_excess(bracket_end)
    # -1 after the low end has moved, 1 after the high end has, 0 before both.
    last_moved = 0
    for _ in range(_MAX_STEPS):
        if bracket_end - bracket_start <= _TOLERANCE * max(1.0, bracket_end):
            break
        step_in_bracket = (bracket_start * excess_at_end - bracket_end * excess_at_start) / (
            excess_at_end - excess_at_start
        )
        if not bracket_start < step_in_bracket < bracket_end:
            step_in_bracket = (bracket_start + bracket_end) / 2
        excess_in_bracket = divergence_excess(step_in_bracket)
        # The Illinois algorithm: the value of an end that stays for the second time is halved.
        if excess_in_bracket <= 0:
            bracket_start = step_in_bracket
            excess_at_start = excess_in_bracket
            if last_moved < 0:
                excess_at_end = excess_at_end / 2
            last_moved = -1
        else:
            bracket_end = step_in_bracket
            excess_at_end = excess_in_bracket
            if last_moved > 0:
                excess_at_start = excess_at_start / 2
            last_moved = 1
        if excess_in_bracket == 0:
            break
    return bracket_start


def _log_add(a: float, b: float) -> float:
    """Returns log(e^a + e^b)."""
    larger, smaller = (a, b) if a > b else (b, a)
    return larger + math.log1p(math.exp(smaller - larger))
