"""Targets: sets of outcomes that have at least probability q whenever the data is accessed.

A set is a q-target of an epsilon-DP call if, for every pair of neighbors, the call's two distributions are
p C + (1 - p) B_b with B_0 and B_1 within e^epsilon of each other and B_b(target) >= q (Cohen & Lyu 2023). A payment
per hit covers 1 / q accesses on average; docs/proofs/target_charging.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pate.validation import InvalidValue, require_kind, require_positive, require_probability


@dataclass(frozen=True, slots=True)
class QTarget:
    """The price of a call in a session, and how likely an access hits its target.

    Attributes:
        epsilon: pure DP of one access to the data, > 0.
        hit_prob: q, the least probability of the target given an access, in (0, 1).
    """

    epsilon: float
    hit_prob: float

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        require_probability("hit_prob", self.hit_prob)

    def covers(self, other: QTarget) -> bool:
        """Whether every call of the other target is also one of this target: smaller epsilon, larger hit_prob."""
        return other.epsilon <= self.epsilon and other.hit_prob >= self.hit_prob


def not_prior(epsilon: float) -> QTarget:
    """Every outcome but one chosen in advance, of an epsilon-DP call: q = 1 / (e^epsilon + 1), tight.

    The prior may be anything that is known before the call: a constant, the last release, a student's prediction. Also
    the target of a conditional release (publish the outcome if it is in a set, else a refusal).

    Args:
        epsilon: of the call, > 0.
    """
    return QTarget(epsilon, _logistic(-require_positive("epsilon", epsilon)))


def revise(epsilon: float) -> QTarget:
    """One more look at a stored outcome of an epsilon-DP call, released if it lies in a set not asked before.

    Charged as a not-prior call of 2 epsilon; one stored outcome gives at most one hit in its whole life.

    Args:
        epsilon: of the call whose outcome is stored, > 0.
    """
    return not_prior(2 * require_positive("epsilon", epsilon))


def boundary(epsilon: float) -> QTarget:
    """The boundary outcome of a wrapped epsilon-DP call (`boundary_distribution`); an access is t = 4/3 epsilon DP.

    q = (e^t - 1) / (2 (e^(epsilon + t) - 1)), which rises to 2/7 as epsilon falls. The published figures use it;
    `tight_boundary` is proved as well and costs less.

    Args:
        epsilon: of the call that is wrapped, > 0.
    """
    wrapped = 4 * require_positive("epsilon", epsilon) / 3
    hit_prob = math.exp(-epsilon) * math.expm1(-wrapped) / (2 * math.expm1(-epsilon - wrapped))
    return QTarget(wrapped, hit_prob)


def tight_boundary(epsilon: float) -> QTarget:
    """The boundary outcome with the smallest epsilon of an access and the largest q that hold, both attained.

    t = epsilon + log(3 e^epsilon / (2 e^epsilon + 1)), below 4/3 epsilon, and
    q = (e^t - 1) / (e^epsilon (2 e^t + 1) - e^t - 2), which rises to 4/13 as epsilon falls.

    Args:
        epsilon: of the call that is wrapped, > 0.
    """
    lost = -math.expm1(-require_positive("epsilon", epsilon))  # 1 - e^-epsilon; lost_wrapped is 1 - e^-t
    wrapped = epsilon - math.log1p(-lost / 3)
    lost_wrapped = -math.expm1(-wrapped)
    hit_prob = math.exp(-epsilon) * lost_wrapped / (3 * lost + lost_wrapped - 2 * lost * lost_wrapped)
    return QTarget(wrapped, hit_prob)


def between_thresholds(epsilon: float, *, width: float) -> QTarget:
    """A value of sensitivity 1 with Laplace noise of scale 1 / epsilon falls between two thresholds `width` apart.

    Outcomes below, between and above; q = (1 - e^(-width epsilon)) / (e^epsilon + 1), tight. The same q holds for
    whole numbers with discrete Laplace noise and whole thresholds; for a sensitivity of s, divide the width by s.

    Args:
        epsilon: of one noisy value, > 0.
        width: distance of the thresholds, in units of the value, > 0.
    """
    scaled_width = require_positive("width", width) * require_positive("epsilon", epsilon)
    return QTarget(epsilon, -math.expm1(-scaled_width) * _logistic(-epsilon))


def run_twice(epsilon: float) -> QTarget:
    """Two runs of the same epsilon-DP call, both released, differ; an access is 2 epsilon DP.

    q is the smaller of (e^epsilon + 1) / (e^(2 epsilon) + e^epsilon + 1) and 2 e^epsilon / (e^epsilon + 1)^2, which
    rises to 1/2 as epsilon falls; proved, and both are attained.

    Args:
        epsilon: of one of the two runs, > 0.
    """
    shrink = math.exp(-require_positive("epsilon", epsilon))
    rare = shrink * (1 + shrink) / (1 + shrink + shrink * shrink)
    return QTarget(2 * epsilon, min(rare, 2 * shrink / (1 + shrink) ** 2))


def common_target(targets: Iterable[QTarget]) -> QTarget:
    """The cheapest target that covers all of them: the largest epsilon and the smallest hit_prob.

    Args:
        targets: those of all calls that the session may make.

    Raises:
        InvalidValue: no targets.
    """
    listed = list(targets)
    if not listed:
        raise InvalidValue("targets=[]: expected at least one target")
    for target in listed:
        require_kind("targets", target, QTarget, "QTargets")
    return QTarget(max(target.epsilon for target in listed), min(target.hit_prob for target in listed))


def _logistic(x: float) -> float:
    """1 / (1 + e^-x) for x < 0."""
    return math.exp(x) / (1 + math.exp(x))
