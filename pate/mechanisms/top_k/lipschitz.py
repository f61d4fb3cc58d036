"""Lipschitz top-k: noise on all counts once, from any distribution whose density falls no faster than exp(-x)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, PureDpEvent
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.noisy_order import Values, largest_noisy
from pate.mechanisms.noise.order_distributions import ordered_distribution
from pate.mechanisms.noise.unit_noise import UNIT_NOISES
from pate.mechanisms.top_k.top_k import Counts, Distribution, TopKMechanism, utilities_of
from pate.validation import require_choice, require_positive


@dataclass(frozen=True, kw_only=True)
class LipschitzTopK(TopKMechanism):
    """Adds noise to every count once and releases the k largest, in their noisy order.

    Formal guarantee: epsilon-DP with noise of scale k w / epsilon, w = 2 (replace-one) or 1 (add/remove); its zCDP
    price is that of epsilon-DP. Gumbel noise has a better one: `OneShotTopK`.

    Attributes:
        noise: "gumbel", "exponential", "laplace", "logistic" or "half_logistic".
        epsilon: pure DP of the whole release, > 0.

    Source: Shekelyan & Loukides 2022; docs/proofs/top_k.md.

    >>> mechanism = LipschitzTopK(k=2, noise="half_logistic", epsilon=50.0)
    >>> mechanism(np.array([90, 10, 50]), rng=np.random.default_rng(0)).indices
    array([0, 2])
    """

    noise: str = "exponential"
    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("noise", self.noise, tuple(UNIT_NOISES))
        require_positive("epsilon", self.epsilon)

    @property
    def noise_scale(self) -> float:
        """The noise's scale in counts."""
        return self.k * self.adjacency.gap_sensitivity / self.epsilon

    @property
    def event(self) -> Event:
        """Pure DP."""
        return PureDpEvent(self.epsilon)

    def draw(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draws for checked counts `[Q, d]`: `[Q, k]`."""
        return largest_noisy(Values.scaled(counts, self.noise_scale), draw_noise(self.noise, counts.shape, rng), self.k)

    def distribution_of(self, counts: Counts) -> Distribution:
        """The exact distribution for checked counts `[d]`, over ordered tuples."""
        return ordered_distribution(utilities_of(counts, self.noise_scale), self.k, UNIT_NOISES[self.noise])
