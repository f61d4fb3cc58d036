"""The q-targets of epsilon-DP calls: sets of outcomes that are charged as hits in a session with target charging.

A call runs an epsilon-DP algorithm on the private data. For every pair of neighbors the two distributions of its
outcome can be written as mixtures

    p C + (1 - p) B_0   and   p C + (1 - p) B_1

with a distribution C, which is the same for both neighbors, and distributions B_0 and B_1 within a factor e^epsilon of
each other. So the call accesses the private data only with probability 1 - p. A set of outcomes is a q-target of the
call if B_0(set) >= q and B_1(set) >= q: an access hits the set with probability at least q. The functions here return
epsilon and q for several kinds of calls (Cohen & Lyu 2023; docs/proofs/target_charging.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pate.array_types import FloatArray
from pate.validation import (
    InvalidValue,
    require,
    require_array,
    require_kind,
    require_positive,
    require_probability,
)

# Probabilities sum to 1 up to this error.
_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class QTarget:
    """The epsilon of one access to the private data by a call, and a lower bound q on the probability of a hit.

    A call runs an epsilon-DP algorithm. It can be seen as first deciding at random whether to access the private data
    at all. A hit is a call whose outcome lies in a given set, the target; q is the bound given an access.
    """

    epsilon: float  # pure DP of one access to the data, > 0
    hit_prob: float  # q, the smallest probability of a hit given an access, in (0, 1)

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        require_probability("hit_prob", self.hit_prob)

    def covers(self, other: QTarget) -> bool:
        """Returns True if the other target has an epsilon of at most, and a `hit_prob` of at least, this target's.

        A session for this target may then make calls with the other target.
        """
        return other.epsilon <= self.epsilon and other.hit_prob >= self.hit_prob


def not_prior(call_epsilon: float) -> QTarget:
    """Returns the q-target "every outcome except a predicted one" of an epsilon-DP call: q = 1 / (e^epsilon + 1).

    The caller may predict any outcome before the call. A hit is a call whose outcome differs from the prediction, and q
    bounds its probability given an access to the private data (`QTarget`). The same q holds for a conditional release,
    which publishes an outcome only if it lies in a given set. The value of q is tight.

    Args:
        call_epsilon: the epsilon of the call, > 0.
    """
    shrink = math.exp(-require_positive("call_epsilon", call_epsilon))
    return QTarget(epsilon=call_epsilon, hit_prob=shrink / (1 + shrink))


def revise(call_epsilon: float) -> QTarget:
    """Returns the q-target of a further test of a stored outcome of an epsilon-DP call.

    The test releases the stored outcome if it lies in a given set. All earlier tests of this outcome, with other sets,
    have released nothing. A release is a hit, so each stored outcome gives at most one. The test is priced as
    `not_prior(2 * epsilon)`.

    Args:
        call_epsilon: the epsilon of the call whose outcome is stored, > 0.
    """
    doubled_epsilon = 2 * require_positive("call_epsilon", call_epsilon)
    return not_prior(call_epsilon=doubled_epsilon)


def boundary(call_epsilon: float) -> QTarget:
    """Returns the q-target "boundary" of an epsilon-DP call in the boundary wrapper, with the paper's constants.

    The wrapper returns the extra outcome "boundary" with some probability, and otherwise runs the call
    (`boundary_distribution`). A hit is the outcome "boundary". An access to the private data (`QTarget`) is t-DP with
    t = 4/3 epsilon, and q = (e^t - 1) / (2 (e^(epsilon + t) - 1)), which rises to 2/7 as epsilon falls to 0.
    `tight_boundary` costs less.

    Args:
        call_epsilon: the epsilon of the call before it is wrapped, > 0.
    """
    access_epsilon = 4 * require_positive("call_epsilon", call_epsilon) / 3
    hit_prob = (
        math.exp(-call_epsilon)
        * math.expm1(-access_epsilon)
        / (2 * math.expm1(-call_epsilon - access_epsilon))
    )
    return QTarget(epsilon=access_epsilon, hit_prob=hit_prob)


def tight_boundary(call_epsilon: float) -> QTarget:
    """Returns the q-target "boundary" of an epsilon-DP call in the boundary wrapper, with tight constants.

    `boundary` explains the wrapper. An access to the private data (`QTarget`) is t-DP, where t is
    epsilon + log(3 e^epsilon / (2 e^epsilon + 1)), which is below 4/3 epsilon. The value of q is
    (e^t - 1) / (e^epsilon (2 e^t + 1) - e^t - 2), which rises to 4/13 as epsilon falls to 0. No smaller t and no larger
    q hold for all epsilon-DP calls.

    Args:
        call_epsilon: the epsilon of the call before it is wrapped, > 0.
    """
    one_minus_shrink = -math.expm1(
        -require_positive("call_epsilon", call_epsilon)
    )  # 1 - e^-epsilon
    access_epsilon = call_epsilon - math.log1p(-one_minus_shrink / 3)
    one_minus_access_shrink = -math.expm1(-access_epsilon)  # 1 - e^-t
    denominator = (
        3 * one_minus_shrink
        + one_minus_access_shrink
        - 2 * one_minus_shrink * one_minus_access_shrink
    )
    hit_prob = math.exp(-call_epsilon) * one_minus_access_shrink / denominator
    return QTarget(epsilon=access_epsilon, hit_prob=hit_prob)


def between_thresholds(call_epsilon: float, *, width: float) -> QTarget:
    """Returns the q-target "between" of a call that compares a noisy value with two thresholds.

    The call adds Laplace noise of scale 1 / epsilon to a value of sensitivity 1, and returns "below", "between" or
    "above" the two thresholds. A hit is the outcome "between", with q = (1 - e^(-width epsilon)) / (e^epsilon + 1),
    which is tight. The same q holds for integer values and thresholds with discrete Laplace noise.

    Args:
        call_epsilon: the epsilon of the call, > 0.
        width: the distance of the two thresholds, > 0; for a value of sensitivity s, the distance divided by s.
    """
    scaled_width = require_positive("width", width) * require_positive("call_epsilon", call_epsilon)
    hit_prob = -math.expm1(-scaled_width) * not_prior(call_epsilon).hit_prob
    return QTarget(epsilon=call_epsilon, hit_prob=hit_prob)


def run_twice(run_epsilon: float) -> QTarget:
    """Returns the q-target "the two outcomes differ" of a call that runs an epsilon-DP algorithm twice.

    The call releases both outcomes, so an access to the private data (`QTarget`) is (2 epsilon)-DP. The value of q is
    the smaller of (e^epsilon + 1) / (e^(2 epsilon) + e^epsilon + 1) and 2 e^epsilon / (e^epsilon + 1)^2. It is tight,
    and rises to 1/2 as epsilon falls to 0.

    Args:
        run_epsilon: the epsilon of one run, > 0.
    """
    shrink = math.exp(-require_positive("run_epsilon", run_epsilon))
    first_lower_bound = shrink * (1 + shrink) / (1 + shrink + shrink * shrink)
    second_lower_bound = 2 * shrink / (1 + shrink) ** 2
    return QTarget(epsilon=2 * run_epsilon, hit_prob=min(first_lower_bound, second_lower_bound))


def common_target(targets: Iterable[QTarget]) -> QTarget:
    """Returns the cheapest target that covers all given targets: their largest epsilon and smallest `hit_prob`.

    A session for this target may make the calls of all of them (`QTarget.covers`). Raises `InvalidValue` where no
    target is given.
    """
    q_targets = list(targets)
    require(len(q_targets) > 0, "targets", q_targets, "at least one target")
    for target in q_targets:
        require_kind("targets", target, kind=QTarget, rule="QTargets")
    largest_epsilon = max(target.epsilon for target in q_targets)
    smallest_hit_prob = min(target.hit_prob for target in q_targets)
    return QTarget(epsilon=largest_epsilon, hit_prob=smallest_hit_prob)


def exact_hit_prob(
    first_law: ArrayLike, second_law: ArrayLike, *, in_target: ArrayLike, epsilon: float
) -> float:
    """Returns the largest q for which a set of outcomes is a q-target of a call, for one pair of neighbors.

    A set is a q-target if an access to the private data hits it with a probability of at least q (`QTarget`). Returns 1
    where both distributions are equal.

    Args:
        first_law: the probability of each outcome on one data set, `[num_outcomes]`.
        second_law: the probability of each outcome on the neighbor of that data set, `[num_outcomes]`.
        in_target: True for each outcome in the set, bool `[num_outcomes]`.
        epsilon: the epsilon of the call, > 0.

    Raises:
        InvalidValue: the two probabilities of an outcome differ by more than a factor e^epsilon. Or the arguments
            differ in shape, or a law is no distribution.
    """
    both_laws = np.stack(
        [
            _checked_distributions(argument_name="first_law", probabilities=first_law, num_axes=1),
            _checked_distributions(
                argument_name="second_law", probabilities=second_law, num_axes=1
            ),
        ]
    )
    is_outcome_in_target = np.asarray(in_target, dtype=bool)
    expected_shape = both_laws.shape[1:]
    require(
        is_outcome_in_target.shape == expected_shape,
        "in_target.shape",
        is_outcome_in_target.shape,
        f"{expected_shape}",
    )
    smaller_probs = both_laws.min(axis=0)
    larger_probs = both_laws.max(axis=0)
    exp_epsilon = np.exp(require_positive("epsilon", epsilon))
    if not np.all(larger_probs <= exp_epsilon * smaller_probs * (1 + _SUM_TOLERANCE)):
        rule = "at least the largest log-ratio of the two distributions"
        raise InvalidValue("epsilon", epsilon, rule=rule)
    if np.array_equal(smaller_probs, larger_probs):
        return 1.0  # no access is needed; below, rounding could leave a tiny one
    # The common part p C contains at most (e^epsilon smaller - larger) / (e^epsilon - 1) of an outcome, because the
    # ratio of B_0 and B_1 is at most e^epsilon. For the largest q it contains that much of each outcome outside of the
    # target, and nothing of the target.
    common_probs = np.maximum(exp_epsilon * smaller_probs - larger_probs, 0) / (exp_epsilon - 1)
    access_prob = 1 - common_probs[~is_outcome_in_target].sum()
    smallest_target_prob = both_laws[:, is_outcome_in_target].sum(axis=1).min()
    return float(min(1.0, smallest_target_prob / access_prob)) if access_prob > 0 else 1.0


def boundary_distribution(distributions: ArrayLike) -> FloatArray:
    """Returns the distribution of the outcomes of a call, or of many calls, after it is put into the boundary wrapper.

    Let pi = min(1 - largest probability of an outcome, 1/2). The wrapper returns the extra outcome "boundary" with
    probability pi / (1 + pi), which is at most 1/3, and otherwise runs the call. The wrapper knows the distribution on
    the private data.

    Args:
        distributions: the probability of each outcome of each call, `[..., num_outcomes]`; 1 in total for each call.

    Returns:
        The probability of each outcome of the wrapped call, `[..., num_outcomes + 1]`, with "boundary" last.
    """
    checked_distributions = _checked_distributions(
        argument_name="distributions", probabilities=distributions
    )
    # pi is the sum of the other probabilities, so no digits cancel.
    probs_with_zeroed_largest = checked_distributions.copy()
    np.put_along_axis(
        probs_with_zeroed_largest,
        checked_distributions.argmax(axis=-1, keepdims=True),
        0.0,
        axis=-1,
    )
    pi = np.minimum(probs_with_zeroed_largest.sum(axis=-1, keepdims=True), 0.5)
    return np.asarray(np.concatenate([checked_distributions, pi], axis=-1) / (1 + pi))


def _checked_distributions(
    argument_name: str, probabilities: Any, *, num_axes: int | None = None
) -> FloatArray:
    """Returns `probabilities` as an array of distributions over the last axis.

    Args:
        argument_name: the name of the argument, for the error message.
        probabilities: the probabilities, `[..., num_outcomes]`.
        num_axes: the number of axes that the array must have; None allows any number.

    Raises:
        InvalidValue: a probability is negative, a distribution does not sum to 1 or has no outcomes, or the array has
            another number of axes.
    """
    checked_array: FloatArray = require_array(argument_name, probabilities).astype(np.float64)
    require(
        num_axes in (None, checked_array.ndim),
        f"{argument_name}.shape",
        checked_array.shape,
        "[num_outcomes]",
    )
    has_outcomes = checked_array.ndim > 0 and checked_array.shape[-1] > 0
    require(has_outcomes, f"{argument_name}.shape", checked_array.shape, "at least one outcome")
    is_proper = (checked_array >= 0).all(axis=-1) & (
        np.abs(checked_array.sum(axis=-1) - 1) <= _SUM_TOLERANCE
    )
    # The error names only the number of bad distributions, because they come from the data.
    num_improper_in_words = f"{int((~is_proper).sum())} of {is_proper.size} distributions"
    require(
        bool(is_proper.all()), argument_name, num_improper_in_words, "probabilities that sum to 1"
    )
    return checked_array
