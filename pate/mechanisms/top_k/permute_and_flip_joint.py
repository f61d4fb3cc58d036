"""Joint selection of a sequence of k indices by permute-and-flip."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, PureDpEvent
from pate.mechanisms.noise.drawn_noise import draw_largest
from pate.mechanisms.noise.noisy_order import Values, largest_noisy
from pate.mechanisms.noise.order_distributions import largest_distribution
from pate.mechanisms.noise.unit_noise import UNIT_NOISES
from pate.mechanisms.top_k.joint import JointMechanism
from pate.mechanisms.top_k.joint_classes import JointClasses
from pate.mechanisms.top_k.top_k import Array, Counts, Distribution
from pate.validation import require_positive

_MOST_PLACES = 2**25


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlipJointTopK(JointMechanism):
    """Draws a sequence of k indices by exponential noise on its worst place; losses as in `JointTopK`.

    Formal guarantee: epsilon-DP, whatever k is, the order included; no zCDP price but the one that follows. Of more
    than 2**25 places (k times the number of counts) the classes that do not fit into memory are left out: together they
    win with a probability below exp(-60), which the price does not cover.

    Attributes:
        epsilon: pure DP, > 0.

    Source: Shekelyan & Loukides 2022; docs/proofs/top_k.md.

    >>> mechanism = PermuteAndFlipJointTopK(k=2, epsilon=9.0, adjacency="add_remove")
    >>> distribution = mechanism.distribution(np.array([5, 1, 0]))
    >>> max(distribution, key=distribution.get)
    (0, 1)
    """

    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("epsilon", self.epsilon)

    @property
    def weight(self) -> float:
        """By what a loss is multiplied."""
        return self.epsilon / self.adjacency.gap_range

    @property
    def event(self) -> Event:
        """Pure DP."""
        return PureDpEvent(self.epsilon)

    def classes_of(self, falling: Counts) -> JointClasses:
        """All of them; of more than 2**25 places those that win but with a probability below exp(-60)."""
        if self.k * falling.shape[1] > _MOST_PLACES:
            return JointClasses.likely(falling, self.k, weight=self.weight)
        return JointClasses.runs(falling, self.k)

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
