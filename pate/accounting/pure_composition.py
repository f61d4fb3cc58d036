"""Optimal homogeneous composition of pure DP: n adaptive epsilon-DP releases, to the last digit.

Among n epsilon-DP releases the worst is n-fold randomised response, whose privacy loss is (2k - n) epsilon with
k ~ Bin(n, 1 / (1 + exp(-epsilon))) (Kairouz, Oh & Viswanath 2015, Theorem 3.3; Murtagh & Vadhan 2016). Its hockey
stick is the largest over thresholds j of P(k > j) - e^x P'(k > j), so both directions are closed forms.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_expit

from pate.validation import require_count, require_non_negative, require_probability

Array = NDArray[np.float64]


def pure_dp_composition_delta(epsilon: float, *, count: int, target_epsilon: float) -> float:
    """The smallest delta at which `count` adaptive epsilon-DP releases are (target_epsilon, delta)-DP."""
    require_non_negative("target_epsilon", target_epsilon)
    log_tail, log_tail_after = _log_tails(epsilon, count)
    worth = log_tail > target_epsilon + log_tail_after
    if not worth.any():
        return 0.0
    return float(np.max(np.exp(log_tail[worth]) * -np.expm1(target_epsilon + (log_tail_after - log_tail)[worth])))


def pure_dp_composition_epsilon(epsilon: float, *, count: int, target_delta: float) -> float:
    """The smallest epsilon at which `count` adaptive epsilon-DP releases are (epsilon, target_delta)-DP.

    Never above what any Renyi bound gives for the same releases.

    Args:
        epsilon: of one release, >= 0.
        count: how many, >= 0.
        target_delta: in (0, 1).

    Source:
        Kairouz, Oh & Viswanath (2015), Theorem 3.3.
    """
    log_delta = math.log(require_probability("target_delta", target_delta))
    log_tail, log_tail_after = _log_tails(epsilon, count)
    worth = log_tail > log_delta
    kept, after = log_tail[worth], log_tail_after[worth]
    with np.errstate(divide="ignore"):
        epsilons = kept + np.log(-np.expm1(log_delta - kept)) - after
    return max(0.0, float(np.max(epsilons, initial=0.0)))


def _log_tails(epsilon: float, count: int) -> tuple[Array, Array]:
    """Logarithms of P(k >= j), j = n, ..., 0, for n-fold randomised response and its neighbour, each `[n + 1]`."""
    require_non_negative("epsilon", epsilon)
    n = require_count("count", count, minimum=0)
    k = np.arange(n, -1, -1, dtype=np.float64)
    log_choices = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    log_mass = log_choices + k * log_expit(epsilon) + (n - k) * log_expit(-epsilon)
    tail = np.logaddexp.accumulate(log_mass)
    tail_after = np.logaddexp.accumulate(log_mass - (2 * k - n) * epsilon)
    return np.asarray(tail), np.asarray(tail_after)
