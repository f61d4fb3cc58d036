"""Joint selection of a sequence of k indices by permute-and-flip."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, Event, PureDpEvent
from pate.mechanisms.noise.drawn_noise import draw_largest
from pate.mechanisms.noise.noisy_order import Values, largest_noisy
from pate.mechanisms.noise.order_distributions import largest_distribution
from pate.mechanisms.noise.unit_noise import UNIT_NOISES
from pate.mechanisms.top_k.joint import JointMechanism
from pate.mechanisms.top_k.joint_classes import JointClasses
from pate.mechanisms.top_k.top_k import Array, Counts, Distribution
from pate.validation import require, require_positive, rounded_up

_MOST_CLASSES = 2**25
_LOG_LEFT_OUT = -60.0  # by what probability classes outside the window win, at most


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlipJointTopK(JointMechanism):
    """Draws a sequence of k indices by exponential noise on the loss of its worst position, as in `JointTopK`.

    Formal guarantee: epsilon-DP, whatever k is, the order included; its zCDP price is that of epsilon-DP. With a
    `failure_prob`, (epsilon, failure_prob)-DP.

    Attributes:
        epsilon: pure DP, > 0.
        failure_prob: in [0, 1). Above 2**25 pairs of a place and a distinct count, classes that win with a probability
            below exp(-60) are left out; this takes a failure_prob of exp(-60) (1 + exp(epsilon)) or more.

    Source: Shekelyan & Loukides 2022; docs/proofs/top_k.md.

    >>> mechanism = PermuteAndFlipJointTopK(k=2, epsilon=9.0, adjacency="add_remove")
    >>> distribution = mechanism.distribution(np.array([5, 1, 0]))
    >>> max(distribution, key=distribution.get)
    (0, 1)
    """

    epsilon: float
    failure_prob: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("epsilon", self.epsilon)
        require(0 <= self.failure_prob < 1, "failure_prob", self.failure_prob, "a number in [0, 1)")

    @property
    def weight(self) -> float:
        """By what a loss is multiplied."""
        return self.epsilon / self.range_of_losses

    @property
    def event(self) -> Event:
        """Pure DP, outside the failure where there is one."""
        pure = PureDpEvent(self.epsilon)
        return ApproximateEvent(pure, self.failure_prob) if self.failure_prob else pure

    def classes_of(self, falling: Counts) -> JointClasses:
        """All of them, or where they are too many those that win with a probability above exp(-60)."""
        num_classes = self.k * (1 + np.count_nonzero(np.diff(falling[0])))
        if num_classes <= _MOST_CLASSES:
            return JointClasses.runs(falling, self.k)
        least = _LOG_LEFT_OUT + np.logaddexp(0.0, self.epsilon)
        needed = (
            f"{rounded_up(math.exp(least), 2)} or more"
            if least < 0
            else "a smaller epsilon, or JointTopK, for as many counts"
        )
        require(math.log(self.failure_prob or 5e-324) >= least, "failure_prob", self.failure_prob, needed)
        return JointClasses.likely(falling, self.k, weight=self.weight)

    def choose(
        self, classes: JointClasses, values: Array, rng: np.random.Generator
    ) -> tuple[JointClasses, NDArray[np.int64]]:
        """By the largest of as many exponential variables as a class has members, plus their value."""
        noise = draw_largest("exponential", classes.log_sizes, lru_cache(8)(classes.size), rng, error=classes.error)
        exact = Values(values, lambda row, place: -self.exponent(int(classes.losses[row, place])))
        return classes, largest_noisy(exact, noise, 1)[:, 0]

    def distribution_of(self, counts: Counts) -> Distribution:
        """The exact distribution for checked counts `[d]`, over ordered tuples: one integral for each loss."""
        outcomes, losses = self.losses_of(counts)
        values, member_of, sizes = np.unique(losses, return_inverse=True, return_counts=True)
        distribution = (
            largest_distribution(-self.weight * values, sizes.astype(np.float64), UNIT_NOISES["exponential"]) / sizes
        )
        return dict(zip(outcomes, distribution[member_of].tolist(), strict=True))
