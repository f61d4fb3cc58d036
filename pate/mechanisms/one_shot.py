"""One-shot top-k: Gumbel noise on all counts once, and the k largest in their noisy order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import BoundedRangeEvent, Event, SelfComposedEvent
from pate.mechanisms.argmax_laws import gumbel_argmax
from pate.mechanisms.peeling import draw_gumbel_peel, peel_law
from pate.mechanisms.top_k import Counts, Law, TopKMechanism, bounded_range_of, utilities_of


@dataclass(frozen=True, kw_only=True)
class OneShotTopK(TopKMechanism):
    """Adds Gumbel noise to every count once and releases the k largest, in their noisy order.

    Formal guarantee: the law of `PeelingTopK`, hence its price: k picks of bounded range e with noise of scale w / e,
    w = 2 (replace-one) or 1 (add/remove). Other kinds of noise: `LipschitzTopK`.

    Attributes:
        epsilon: pure DP of the whole release, > 0; or
        rho: its zCDP, > 0. Exactly one of the two.

    Source: Durfee & Rogers 2019; docs/proofs/top_k.md.

    >>> outcome = OneShotTopK(k=2, epsilon=50.0)(np.array([90, 10, 50]), rng=np.random.default_rng(0))
    >>> outcome.indices
    array([0, 2])
    """

    epsilon: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        bounded_range_of(self.epsilon, self.rho)

    @property
    def noise_scale(self) -> float:
        """The noise's scale in counts."""
        return self.adjacency.gap_sensitivity / bounded_range_of(self.epsilon, self.rho, rounds=self.k)

    @property
    def event(self) -> Event:
        """The price: k picks of a bounded range."""
        return SelfComposedEvent(BoundedRangeEvent(bounded_range_of(self.epsilon, self.rho, rounds=self.k)), self.k)

    def draw(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draws for checked counts `[Q, d]`: `[Q, k]`."""
        return draw_gumbel_peel(utilities_of(counts, self.noise_scale), self.k, rng)

    def law_of(self, counts: Counts) -> Law:
        """The exact law for checked counts `[d]`, over ordered tuples."""
        return peel_law(utilities_of(counts, self.noise_scale), self.k, gumbel_argmax)
