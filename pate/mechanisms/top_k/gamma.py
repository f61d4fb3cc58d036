"""Top-k with noise that is a uniform point of a cube, whose size is a Gamma variable."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pate.accounting.special import gammainccinv, gammaincinv, gammaln, gauss_legendre
from pate.array_types import IntArray
from pate.mechanisms.noise.comparisons import Values, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.kinds import KINDS
from pate.mechanisms.noise.maxima import ordered_distribution
from pate.mechanisms.top_k.mechanism import Distribution, PureTopK
from pate.mechanisms.top_k.ranking import utilities_of

# of the integral over the cube's size
_NODES = 10
_PANELS = 6
_TAIL = 1e-16


@dataclass(frozen=True, kw_only=True)
class GammaTopK(PureTopK):
    """A mechanism that adds a uniform point of a cube of random size to the counts and releases the k largest in order.

    The cube is [-R, R]^d for d counts, and R is a Gamma variable.

    Formal guarantee: epsilon-DP for every k. The noise has a density proportional to exp(-epsilon |x| 2 / w), with
    |x| the largest entry and w = 2 (replace-one) or 1 (add/remove). A shift of all counts does not change the order of
    noisy counts, and up to such a shift every count moves by at most w / 2.
    Source: Steinke & Ullman 2017, Section 4.1; docs/proofs/gamma_top_k.md.

    >>> mechanism = GammaTopK(k=2, epsilon=50.0)
    >>> mechanism(np.array([90, 10, 50]), rng=np.random.default_rng(0)).indices
    array([0, 2])
    """

    @property
    def noise_scale(self) -> float:
        """The scale of the Gamma distribution, in votes; its shape parameter is the number of counts plus 1."""
        return self.adjacency.gap_sensitivity / (2 * self.epsilon)

    def draw(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws, for each histogram `[Q, d]`, the indices of the k largest noisy counts, largest first: `[Q, k]`."""
        radius = draw_noise(
            noise_kind="exponential", shape=(len(counts), counts.shape[1] + 1), rng=rng
        ).summed()
        noise = draw_noise(noise_kind="uniform", shape=counts.shape, rng=rng).times(radius)
        return largest_noisy(Values.scaled(counts, self.noise_scale), noise, self.k)

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each sequence of k indices for one histogram `[d]`."""
        values = utilities_of(counts, self.noise_scale)
        shape = len(counts) + 1.0
        ends = float(gammaincinv(shape, _TAIL)), float(gammainccinv(shape, _TAIL))
        # where two intervals begin to overlap
        halves = np.abs(values[:, None] - values).ravel() / 2
        inside = halves[(halves > ends[0]) & (halves < ends[1])]
        corners = np.unique([*np.linspace(*ends, _PANELS + 1), *inside])
        nodes, weights = gauss_legendre(_NODES)
        distribution: Distribution = {}
        for low, high in pairwise(corners.tolist()):
            half = (high - low) / 2
            for r, weight in zip(low + half * (1 + nodes), half * weights, strict=True):
                density = math.exp((shape - 1) * math.log(r) - r - gammaln(shape))  # of R at r
                for outcome, p in ordered_distribution(
                    values / r, k=self.k, noise_kind=KINDS["uniform"]
                ).items():
                    distribution[outcome] = (
                        distribution.get(outcome, 0.0) + float(weight * density) * p
                    )
        total = sum(distribution.values())
        return {outcome: p / total for outcome, p in distribution.items()}
