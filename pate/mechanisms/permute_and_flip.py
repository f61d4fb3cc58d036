"""Permute-and-flip peeling: k rounds of the noisy maximum with exponential noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, PureDpEvent, SelfComposedEvent
from pate.mechanisms.argmax_laws import exponential_argmax
from pate.mechanisms.peeling import peel_law
from pate.mechanisms.top_k import Counts, Law, TopKMechanism, utilities_of
from pate.validation import require_positive


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlipTopK(TopKMechanism):
    """Picks an index by permute-and-flip on the counts, removes it, and repeats k times; released in this order.

    Formal guarantee: each pick is (epsilon / k)-DP, with exponential noise of mean k w / epsilon, where w is 2
    (replace-one) or 1 (add/remove). The price epsilon**2 / 8 of a bounded range is false for it.

    Attributes:
        epsilon: pure DP of the whole release, > 0.

    Source: McKenna & Sheldon 2020, Ding et al. 2021; docs/proofs/top_k.md.

    >>> law = PermuteAndFlipTopK(k=1, epsilon=2.0).distribution(np.array([3, 2, 0]))
    >>> {index: round(p, 3) for (index,), p in law.items()}
    {0: 0.797, 1: 0.181, 2: 0.022}
    """

    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("epsilon", self.epsilon)

    @property
    def noise_scale(self) -> float:
        """The noise's mean in counts."""
        return self.k * self.adjacency.gap_sensitivity / self.epsilon

    @property
    def event(self) -> Event:
        """The price: k picks of pure DP."""
        return SelfComposedEvent(PureDpEvent(self.epsilon / self.k), self.k)

    def draw(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draws for checked counts `[Q, d]`: `[Q, k]`."""
        left, rows = utilities_of(counts, self.noise_scale), np.arange(len(counts))
        picks = np.empty((len(counts), self.k), dtype=np.int64)
        for place in range(self.k):
            picks[:, place] = (left + rng.standard_exponential(left.shape)).argmax(axis=1)
            left[rows, picks[:, place]] = -np.inf
        return picks

    def law_of(self, counts: Counts) -> Law:
        """The exact law for checked counts `[d]`, over ordered tuples."""
        return peel_law(utilities_of(counts, self.noise_scale), self.k, exponential_argmax)
