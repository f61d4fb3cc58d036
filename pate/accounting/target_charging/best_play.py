"""The best play against a session: the recursion over accesses and hits, on the lattice of losses."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pate.accounting.target_charging.hit_tail import min_accesses, overrun_probability
from pate.accounting.target_charging.targets import QTarget
from pate.validation import require

Array = NDArray[np.float64]

_OVERRUN_SHARE = 1e-3  # of delta: accesses beyond those that are played
_MOST_WORK = 600_000  # accesses**2 * hits: a price comes in less than a second
_LARGEST_EPSILON = 30.0  # of an access
_TOLERANCE = 1e-4  # of the epsilon that is known to suffice
_ROUNDING = 2.0**-44  # relative: of a loss, and per access of products and sums of numbers >= 0


def best_play_epsilon(target: QTarget, *, target_hits: int, target_delta: float, at_most: float) -> float:
    """The epsilon of a session, from the play that gives away the most of all; infinity where that takes too long.

    Every access may be of any q-target call, chosen by what came before. What is returned is above the best play's
    epsilon by at most 1e-4 of `at_most`, and by what an overrun of a thousandth of delta costs.

    Args:
        target: of every call.
        target_hits: tau, >= 1.
        target_delta: of the session, in (0, 1).
        at_most: an epsilon that is known to suffice.
    """
    overrun = _OVERRUN_SHARE * target_delta
    accesses = min_accesses(target_hits=target_hits, hit_prob=target.hit_prob, overrun_prob=overrun)
    if accesses * accesses * target_hits > _MOST_WORK or target.epsilon > _LARGEST_EPSILON:
        return math.inf
    left = target_delta - overrun_probability(accesses, target_hits=target_hits, hit_prob=target.hit_prob)
    low, high = 0.0, at_most
    while high - low > _TOLERANCE * at_most:
        middle = (low + high) / 2
        delta = best_play_delta(target, target_hits=target_hits, num_accesses=accesses, target_epsilon=middle)
        low, high = (low, middle) if delta <= left else (middle, high)
    return high


def best_play_delta(target: QTarget, *, target_hits: int, num_accesses: int, target_epsilon: float) -> float:
    """The largest hockey stick of any play of so many accesses at most, rounded up.

    Losses are multiples of the target's epsilon: every call is a mixture of outcomes with ratios e^epsilon and
    e^-epsilon, and the probabilities of a hit on both neighbors lie in a polygon whose corners are tried.

    Args:
        target: of every call.
        target_hits: tau, >= 1.
        num_accesses: n, >= 0.
        target_epsilon: >= 0.

    Raises:
        InvalidValue: an access of more than epsilon 30, whose losses double precision cannot hold.
    """
    rule = f"at most {_LARGEST_EPSILON:g}: a larger one is composed as its accesses"
    require(target.epsilon <= _LARGEST_EPSILON, "target.epsilon", target.epsilon, rule)
    losses = target.epsilon * np.arange(-num_accesses - 1, num_accesses + 2)
    beyond = losses - target_epsilon + _ROUNDING * (np.abs(losses) + target_epsilon)  # rounded up
    stick = -np.expm1(-np.maximum(beyond, 0.0))  # [2 n + 3]
    values = np.tile(stick, (target_hits + 1, 1))  # by hits that are left
    moves = _moves(target)
    for _ in range(num_accesses):
        best = values[1:, 1:-1].copy()
        up, down = values[:, 2:], values[:, :-2]
        for hit_up, hit_down, missed_up, missed_down in moves:
            value = hit_up * up[:-1]
            value += hit_down * down[:-1]
            value += missed_up * up[1:]
            value += missed_down * down[1:]
            np.maximum(best, value, out=best)
        values[1:, 1:-1] = best
    return float(values[target_hits, num_accesses + 1]) * (1 + num_accesses * _ROUNDING)


def _moves(target: QTarget) -> list[tuple[float, float, float, float]]:
    """The calls at the corners: the probabilities, on the first neighbor, of a hit and of a miss with either loss."""
    rise, least = math.expm1(target.epsilon), target.hit_prob
    rare = 1 / (rise + 2)
    most = min(rise * least, -math.expm1(-target.epsilon) * (1 - least))  # by which a hit can be likelier
    corners = [(1.0, 0.0), (least, 0.0), (least, most), (least + most, -most)]
    if least < rare:
        corners += [(rare, rise * rare), ((rise + 1) * rare, -rise * rare)]
    found = (_split(*hit, target.epsilon) + _split(1 - hit[0], -hit[1], target.epsilon) for hit in corners)
    return list(dict.fromkeys(found))


def _split(first: float, more: float, epsilon: float) -> tuple[float, float]:
    """Outcomes of ratios e^epsilon and e^-epsilon in place of one: their probabilities on the first neighbor, >= 0.

    Args:
        first: the probability of the one outcome on the first neighbor.
        more: by how much it is larger on the other one.
        epsilon: > 0.
    """
    rise, both = math.expm1(epsilon), math.expm1(2 * epsilon)
    up, down = (rise + 1) * (rise * first - more), rise * first + (rise + 1) * more
    return max(up, 0.0) / both, max(down, 0.0) / both
