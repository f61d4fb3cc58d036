"""The targets of calls in a session: sets of outcomes that an access to the data hits with a probability of at least q.

A call is epsilon-DP, and accesses the data or does not. For every pair of neighbors its two distributions are mixtures

    p C + (1 - p) B_0   and   p C + (1 - p) B_1

with a common part C, which needs no data, and parts B_0 and B_1 within e^epsilon of each other. A set of outcomes is a
q-target of the call if B_b(set) >= q for both b: an access hits the set with probability q at least. A function here
returns epsilon and q for each kind of call (Cohen & Lyu 2023; docs/proofs/target_charging.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pate import validation
from pate.accounting.special import Array
from pate.validation import require, require_positive, require_probability

_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class QTarget:
    """The price of a call in a session, and the probability with which an access hits the call's target."""

    epsilon: float  # pure DP of one access to the data, > 0
    hit_prob: float  # q, the least probability of the target given an access, in (0, 1)

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        require_probability("hit_prob", self.hit_prob)

    def covers(self, other: QTarget) -> bool:
        """Returns True where every call of the other target is also a call of this one.

        The other target then has an epsilon that is no larger, and a `hit_prob` that is no smaller.
        """
        return other.epsilon <= self.epsilon and other.hit_prob >= self.hit_prob


def not_prior(epsilon: float) -> QTarget:
    """Returns the target "every outcome but one chosen in advance" of an epsilon-DP call: q = 1 / (e^epsilon + 1).

    The value of q is tight. The prior outcome may be anything that is known before the call. The target also serves a
    conditional release, which publishes an outcome if it lies in a set.
    """
    shrink = math.exp(-require_positive("epsilon", epsilon))
    return QTarget(epsilon, shrink / (1 + shrink))


def revise(epsilon: float) -> QTarget:
    """Returns the target of another look at a stored outcome of an epsilon-DP call.

    The outcome is released if it lies in a set that was not asked before. The look is charged as a not-prior call of
    2 epsilon. One stored outcome gives at most one hit in its whole life.
    """
    return not_prior(2 * require_positive("epsilon", epsilon))


def boundary(epsilon: float) -> QTarget:
    """Returns the boundary outcome of a wrapped epsilon-DP call (`boundary_distribution`) with the paper's constants.

    An access is t-DP with t = 4/3 epsilon, and q = (e^t - 1) / (2 (e^(epsilon + t) - 1)), which rises to 2/7 as epsilon
    falls. `tight_boundary` costs less.
    """
    wrapped = 4 * require_positive("epsilon", epsilon) / 3
    hit_prob = math.exp(-epsilon) * math.expm1(-wrapped) / (2 * math.expm1(-epsilon - wrapped))
    return QTarget(wrapped, hit_prob)


def tight_boundary(epsilon: float) -> QTarget:
    """Returns the boundary outcome with the smallest epsilon of an access and the largest q that hold, both attained.

    An access is t-DP with t = epsilon + log(3 e^epsilon / (2 e^epsilon + 1)), below 4/3 epsilon, and
    q = (e^t - 1) / (e^epsilon (2 e^t + 1) - e^t - 2), which rises to 4/13 as epsilon falls.
    """
    lost = -math.expm1(-require_positive("epsilon", epsilon))  # 1 - e^-epsilon
    wrapped = epsilon - math.log1p(-lost / 3)
    lost_wrapped = -math.expm1(-wrapped)  # 1 - e^-t
    denominator = 3 * lost + lost_wrapped - 2 * lost * lost_wrapped
    return QTarget(wrapped, math.exp(-epsilon) * lost_wrapped / denominator)


def between_thresholds(epsilon: float, *, width: float) -> QTarget:
    """Returns the target "between two thresholds" of a value of sensitivity 1 with Laplace noise of scale 1 / epsilon.

    The outcomes are below, between and above the thresholds, which are `width` apart, and
    q = (1 - e^(-width epsilon)) / (e^epsilon + 1), tight. The value of q also holds for whole numbers with discrete
    Laplace noise and whole thresholds. For a sensitivity of s, divide the width by s.
    """
    scaled_width = require_positive("width", width) * require_positive("epsilon", epsilon)
    return QTarget(epsilon, -math.expm1(-scaled_width) * not_prior(epsilon).hit_prob)


def run_twice(epsilon: float) -> QTarget:
    """Returns the target "both outcomes differ" of two runs of an epsilon-DP call, both released.

    An access is 2 epsilon DP. The value of q is the smaller of (e^epsilon + 1) / (e^(2 epsilon) + e^epsilon + 1) and
    2 e^epsilon / (e^epsilon + 1)^2, both attained, and rises to 1/2 as epsilon falls.
    """
    shrink = math.exp(-require_positive("epsilon", epsilon))
    rare = shrink * (1 + shrink) / (1 + shrink + shrink * shrink)
    return QTarget(2 * epsilon, min(rare, 2 * shrink / (1 + shrink) ** 2))


def common_target(targets: Iterable[QTarget]) -> QTarget:
    """Returns the cheapest target that covers one or more targets: the largest epsilon and the smallest hit_prob."""
    all_targets = list(targets)
    require(len(all_targets) > 0, "targets", all_targets, "at least one target")
    for target in all_targets:
        validation.require_kind("targets", target, QTarget, "QTargets")
    largest_epsilon = max(target.epsilon for target in all_targets)
    return QTarget(largest_epsilon, min(target.hit_prob for target in all_targets))


def exact_hit_prob(
    first: ArrayLike, second: ArrayLike, *, in_target: ArrayLike, epsilon: float
) -> float:
    """Returns the largest q for which a set is a q-target of one pair of distributions; 1 where they are equal.

    Args:
        first: the distribution of the outcomes on one data set, `[Y]`.
        second: the distribution on its neighbor, `[Y]`.
        in_target: True for the outcomes of the set, bool `[Y]`.
        epsilon: the pure DP of the call, > 0.

    Raises:
        InvalidValue: the distributions are not within e^epsilon of each other.
    """
    distributions = np.stack(
        [_distributions("first", first, rank=1), _distributions("second", second, rank=1)]
    )
    target = np.asarray(in_target, dtype=bool)
    shape = distributions.shape[1:]
    require(target.shape == shape, "in_target.shape", target.shape, f"{shape}")
    low = distributions.min(axis=0)
    high = distributions.max(axis=0)
    growth = np.exp(require_positive("epsilon", epsilon))
    is_within = bool(np.all(high <= growth * low * (1 + _SUM_TOLERANCE)))
    rule = "at least the largest log-ratio of the two distributions"
    require(is_within, "epsilon", epsilon, rule)
    # The common part p C may hold up to (e^epsilon low - high) / (e^epsilon - 1) of an outcome, or B_0 and B_1 are
    # farther apart than e^epsilon. The largest q has as much of it off the target as may be, and nothing on it.
    common = np.maximum(growth * low - high, 0) / (growth - 1)
    accessed = 1 - common[~target].sum()
    rarest_hit = distributions[:, target].sum(axis=1).min()
    return float(min(1.0, rarest_hit / accessed)) if accessed > 0 else 1.0


def boundary_distribution(probabilities: ArrayLike) -> Array:
    """Returns the distribution of a call `[..., Y]` in the boundary wrapper, `[..., Y + 1]`, with "boundary" last.

    With pi = min(1 - largest probability, 1/2) the wrapper, which knows the distribution on the data, answers
    "boundary" with probability pi / (1 + pi), at most 1/3, and otherwise runs the call.
    """
    distribution = _distributions("probabilities", probabilities)
    without_largest = (
        distribution.copy()
    )  # pi is the sum of the other probabilities, so no digits cancel
    np.put_along_axis(without_largest, distribution.argmax(axis=-1, keepdims=True), 0.0, axis=-1)
    pi = np.minimum(without_largest.sum(axis=-1, keepdims=True), 0.5)
    return np.asarray(np.concatenate([distribution, pi], axis=-1) / (1 + pi))


def _distributions(name: str, values: Any, *, rank: int | None = None) -> Array:
    """Returns distributions over the last axis as an array; raises unless each sums to 1 and the rank is the given."""
    array: Array = validation.require_array(name, values).astype(np.float64)
    require(rank in (None, array.ndim), f"{name}.shape", array.shape, "[num_outcomes]")
    has_outcomes = array.ndim > 0 and array.shape[-1] > 0
    require(has_outcomes, f"{name}.shape", array.shape, "at least one outcome")
    is_proper = (array >= 0).all(axis=-1) & (np.abs(array.sum(axis=-1) - 1) <= _SUM_TOLERANCE)
    # The error names only the number of bad distributions, because they come from the data.
    value = f"{int((~is_proper).sum())} of {is_proper.size} distributions"
    require(bool(is_proper.all()), name, value, "probabilities that sum to 1")
    return array
