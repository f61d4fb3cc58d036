"""Gamma top-k: the largest of counts whose noise is uniform in a cube of random size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, PureDpEvent
from pate.accounting.special import gammainccinv, gammaincinv, gammaln, gauss_legendre
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.noisy_order import Values, largest_noisy
from pate.mechanisms.noise.order_distributions import ordered_distribution
from pate.mechanisms.noise.unit_noise import UnitNoise
from pate.mechanisms.top_k.top_k import Counts, Distribution, TopKMechanism
from pate.validation import require_positive

_UNIFORM = UnitNoise(
    density=lambda x: np.where(np.abs(x) <= 1, 0.5, 0.0),
    cdf=lambda x: np.clip((x + 1) / 2, 0.0, 1.0),
    quantile=lambda log_q: 2 * np.exp(-np.exp(log_q)) - 1,
    low=-1.0,
    high=1.0,
    kinks=(-1.0, 1.0),
    panel=np.inf,
)
_NODES = 10
_PANELS = 6
_TAIL = 1e-16


@dataclass(frozen=True, kw_only=True)
class GammaTopK(TopKMechanism):
    """Adds a uniform point of a cube [-R, R]^d to the d counts, R a Gamma variable; releases the k largest in order.

    Formal guarantee: epsilon-DP. The noise has a density proportional to exp(-epsilon |x| 2 / w), with |x| the largest
    entry and w = 2 (replace-one) or 1 (add/remove). A shift of all counts does not change the order of noisy counts,
    and up to such a shift every count moves by at most w / 2.

    Attributes:
        epsilon: pure DP of the whole release, > 0, whatever k is.

    Source: Steinke & Ullman 2017, Section 4.1; docs/proofs/top_k.md.

    >>> mechanism = GammaTopK(k=2, epsilon=50.0)
    >>> mechanism(np.array([90, 10, 50]), rng=np.random.default_rng(0)).indices
    array([0, 2])
    """

    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("epsilon", self.epsilon)

    @property
    def noise_scale(self) -> float:
        """The scale of the Gamma distribution in counts; its shape is the number of counts plus 1."""
        return self.adjacency.gap_sensitivity / (2 * self.epsilon)

    @property
    def event(self) -> Event:
        """Pure DP."""
        return PureDpEvent(self.epsilon)

    def draw(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draws for checked counts `[Q, d]`: `[Q, k]`."""
        radius = draw_noise("exponential", (len(counts), counts.shape[1] + 1), rng).summed()
        noise = draw_noise("uniform", counts.shape, rng).times(radius)
        return largest_noisy(Values.scaled(counts, self.noise_scale), noise, self.k)

    def distribution_of(self, counts: Counts) -> Distribution:
        """The exact distribution for checked counts `[d]`, over ordered tuples: uniform noise, integrated over R."""
        values = (counts - counts.max()) / self.noise_scale
        shape = len(counts) + 1.0
        ends = float(gammaincinv(shape, _TAIL)), float(gammainccinv(shape, _TAIL))
        halves = np.abs(values[:, None] - values).ravel() / 2  # where two intervals begin to overlap
        corners = np.unique(
            np.concatenate([np.linspace(*ends, _PANELS + 1), halves[(halves > ends[0]) & (halves < ends[1])]])
        )
        nodes, weights = gauss_legendre(_NODES)
        distribution: Distribution = {}
        for low, high in pairwise(corners.tolist()):
            half = (high - low) / 2
            for r, weight in zip(low + half * (1 + nodes), half * weights, strict=True):
                density = math.exp((shape - 1) * math.log(r) - r - gammaln(shape))  # of R at r
                for outcome, p in ordered_distribution(values / r, self.k, _UNIFORM).items():
                    distribution[outcome] = distribution.get(outcome, 0.0) + float(weight * density) * p
        total = sum(distribution.values())
        return {outcome: p / total for outcome, p in distribution.items()}
