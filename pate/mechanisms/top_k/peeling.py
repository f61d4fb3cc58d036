"""Peeling: k rounds of the exponential mechanism, each over the indices that are left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from pate.accounting import BoundedRangeEvent, Event, SelfComposedEvent
from pate.mechanisms.noise.argmax_distributions import gumbel_argmax
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.noisy_order import Values, largest_noisy
from pate.mechanisms.top_k.top_k import (
    Array,
    Counts,
    Distribution,
    TopKMechanism,
    bounded_range_of,
    sequences,
    utilities_of,
)


@dataclass(frozen=True, kw_only=True)
class GumbelTopK(TopKMechanism):
    """k picks of a bounded range, drawn with one Gumbel variable per count; base of `PeelingTopK` and `OneShotTopK`.

    Attributes:
        epsilon: pure DP of the whole release, > 0; or
        rho: its zCDP, > 0. Exactly one of the two.
    """

    epsilon: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        bounded_range_of(self.epsilon, self.rho)

    @property
    def noise_scale(self) -> float:
        """The Gumbel noise's scale in counts."""
        return self.adjacency.gap_sensitivity / bounded_range_of(self.epsilon, self.rho, rounds=self.k)

    @property
    def event(self) -> Event:
        """The price: k picks of a bounded range."""
        return SelfComposedEvent(BoundedRangeEvent(bounded_range_of(self.epsilon, self.rho, rounds=self.k)), self.k)

    def draw(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draws for checked counts `[Q, d]`: `[Q, k]`."""
        return largest_noisy(Values.scaled(counts, self.noise_scale), draw_noise("gumbel", counts.shape, rng), self.k)

    def distribution_of(self, counts: Counts) -> Distribution:
        """The exact distribution for checked counts `[d]`, over ordered tuples."""
        return peel_distribution(utilities_of(counts, self.noise_scale), self.k, gumbel_argmax)


@final
@dataclass(frozen=True, kw_only=True)
class PeelingTopK(GumbelTopK):
    """Picks an index with Gumbel noise on the counts, removes it, and repeats k times; released in this order.

    Formal guarantee: each pick has a bounded range e, because the difference of two counts moves by at most 2
    (replace-one) or 1 (add/remove). All picks together are k e pure DP and k e**2 / 8 zCDP, the order included.

    Attributes:
        epsilon: pure DP of the whole release, > 0; or
        rho: its zCDP, > 0. Exactly one of the two.

    Source: Durfee & Rogers 2019; docs/proofs/top_k.md.

    >>> distribution = PeelingTopK(k=1, epsilon=2.0).distribution(np.array([3, 2, 0]))
    >>> {index: round(p, 3) for (index,), p in distribution.items()}
    {0: 0.705, 1: 0.259, 2: 0.035}
    """


def peel_distribution(utilities: Array, k: int, argmax_distribution: Callable[[Array], Array]) -> Distribution:
    """The distribution of k rounds of the noisy maximum for utilities `[d]`, from the distribution of one pick."""
    distribution: Distribution = {(): 1.0}
    for _ in range(k):
        longer: Distribution = {}
        for prefix, probability in distribution.items():
            rest = [i for i in range(len(utilities)) if i not in prefix]
            for i, p in zip(rest, argmax_distribution(utilities[rest]), strict=True):
                longer[*prefix, i] = probability * float(p)
        distribution = longer
    return {outcome: distribution[outcome] for outcome in sequences(len(utilities), k)}
