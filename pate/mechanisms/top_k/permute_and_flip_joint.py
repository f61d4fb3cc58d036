"""Joint selection of a sequence of k indices by permute-and-flip."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, PureDpEvent
from pate.mechanisms.noise.kinds import NOISES
from pate.mechanisms.noise.order_distributions import largest_law
from pate.mechanisms.top_k.joint import JointMechanism
from pate.mechanisms.top_k.top_k import Array, Counts, Law
from pate.validation import require_positive


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlipJointTopK(JointMechanism):
    """Draws a sequence of k indices by exponential noise on its worst place; losses as in `JointTopK`.

    Formal guarantee: epsilon-DP, whatever k is, the order included; no zCDP price but the one that follows.

    Attributes:
        epsilon: pure DP, > 0.

    Source: Shekelyan & Loukides 2022; docs/proofs/top_k.md.

    >>> law = PermuteAndFlipJointTopK(k=2, epsilon=9.0, adjacency="add_remove").distribution(np.array([5, 1, 0]))
    >>> max(law, key=law.get)
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

    def choose(self, log_sizes: Array, values: Array, rng: np.random.Generator) -> NDArray[np.int64]:
        """By the largest of as many exponential variables as a class has members, plus their value."""
        return np.asarray((NOISES["exponential"].largest_of(log_sizes, rng) + values).argmax(axis=1))

    def law_of(self, counts: Counts) -> Law:
        """The exact law for checked counts `[d]`, over ordered tuples: one integral for each loss."""
        outcomes, losses = self.losses_of(counts)
        values, member_of, sizes = np.unique(losses, return_inverse=True, return_counts=True)
        law = largest_law(-self.weight * values, sizes.astype(np.float64), NOISES["exponential"]) / sizes
        return dict(zip(outcomes, law[member_of].tolist(), strict=True))
