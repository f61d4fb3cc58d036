"""One-shot top-k: noise on all counts once, and the k largest in their noisy order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import BoundedRangeEvent, Event, PureDpEvent, SelfComposedEvent
from pate.mechanisms.argmax_laws import gumbel_argmax
from pate.mechanisms.noise import NOISES
from pate.mechanisms.order_laws import ordered_law
from pate.mechanisms.peeling import peel_law
from pate.mechanisms.top_k import Counts, Law, TopKMechanism, bounded_range_of, utilities_of
from pate.validation import require, require_choice

_KINDS = ("gumbel", "exponential", "laplace")


@dataclass(frozen=True, kw_only=True)
class OneShotTopK(TopKMechanism):
    """Adds noise to every count once and releases the k largest, in their noisy order.

    Formal guarantees, with w = 2 (replace-one) or 1 (add/remove) and noise of scale b:
        * gumbel: the law of `PeelingTopK`, hence its price: k picks of bounded range w / b.
        * exponential, laplace: k w / b pure DP, and no zCDP price but the one that follows from it.

    Attributes:
        noise: "gumbel", "exponential" or "laplace".
        epsilon: pure DP of the whole release, > 0; or
        rho: its zCDP, > 0, for Gumbel noise only. Exactly one of the two.

    Source: Durfee & Rogers 2019; docs/proofs/top_k.md.

    >>> outcome = OneShotTopK(k=2, epsilon=50.0)(np.array([90, 10, 50]), rng=np.random.default_rng(0))
    >>> outcome.indices
    array([0, 2])
    """

    noise: str = "gumbel"
    epsilon: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("noise", self.noise, _KINDS)
        require(self.rho is None or self.noise == "gumbel", "rho", self.rho, f"epsilon with noise={self.noise}")
        bounded_range_of(self.epsilon, self.rho)

    @property
    def noise_scale(self) -> float:
        """The noise's scale in counts."""
        return self.adjacency.gap_sensitivity / bounded_range_of(self.epsilon, self.rho, rounds=self.k)

    @property
    def event(self) -> Event:
        """The price: k picks of a bounded range, or epsilon-DP."""
        share = bounded_range_of(self.epsilon, self.rho, rounds=self.k)
        if self.noise == "gumbel":
            return SelfComposedEvent(BoundedRangeEvent(share), self.k)
        return PureDpEvent(self.k * share)

    def draw(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draws for checked counts `[Q, d]`: `[Q, k]`."""
        noisy = utilities_of(counts, self.noise_scale) + NOISES[self.noise].sample(counts.shape, rng)
        return np.argsort(-noisy, axis=1)[:, : self.k]

    def law_of(self, counts: Counts) -> Law:
        """The exact law for checked counts `[d]`, over ordered tuples."""
        utilities = utilities_of(counts, self.noise_scale)
        if self.noise == "gumbel":
            return peel_law(utilities, self.k, gumbel_argmax)
        return ordered_law(utilities, self.k, NOISES[self.noise])
