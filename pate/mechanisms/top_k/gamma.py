"""Top-k with noise that is a uniform point of a cube, whose size is a Gamma variable."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pate.accounting.special import gammainccinv, gammaincinv, gammaln, gauss_legendre
from pate.array_types import IntArray
from pate.mechanisms.noise.comparisons import ExactValues, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.kinds import KINDS
from pate.mechanisms.noise.maxima import ordered_distribution
from pate.mechanisms.top_k.mechanism import Distribution, PureTopK
from pate.mechanisms.top_k.pick_distributions import utilities_of

# The exact distribution is an integral over the size of the cube, in panels with so many nodes each. The integral
# leaves out this probability at either end.
_NUM_NODES = 10
_NUM_PANELS = 6
_TAIL_PROB = 1e-16


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
        # The sum of d + 1 exponential variables is a Gamma variable of shape d + 1.
        drawn_radii = draw_noise(
            noise_kind="exponential", shape=(len(counts), counts.shape[1] + 1), rng=rng
        ).summed()
        drawn_noise = draw_noise(noise_kind="uniform", shape=counts.shape, rng=rng).times(
            row_factors=drawn_radii
        )
        return largest_noisy(
            ExactValues.scaled(counts, noise_scale=self.noise_scale), drawn_noise, k=self.k
        )

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each sequence of k indices for one histogram `[d]`."""
        counts_in_scales = utilities_of(counts, noise_scale=self.noise_scale)
        gamma_shape = len(counts) + 1.0
        smallest_radius = float(gammaincinv(gamma_shape, _TAIL_PROB))
        largest_radius = float(gammainccinv(gamma_shape, _TAIL_PROB))
        # At these radii the noisy values of two counts begin to overlap, so the integrand is not smooth there.
        kink_radii = np.abs(counts_in_scales[:, None] - counts_in_scales).ravel() / 2
        kink_radii = kink_radii[(kink_radii > smallest_radius) & (kink_radii < largest_radius)]
        evenly_spaced_radii = np.linspace(smallest_radius, largest_radius, _NUM_PANELS + 1)
        corner_radii = np.unique([*evenly_spaced_radii, *kink_radii])
        nodes, node_weights = gauss_legendre(_NUM_NODES)
        distribution: Distribution = {}
        for panel_start, panel_end in pairwise(corner_radii.tolist()):
            half_width = (panel_end - panel_start) / 2
            radii = panel_start + half_width * (1 + nodes)
            for radius, node_weight in zip(radii, half_width * node_weights, strict=True):
                density = math.exp(
                    (gamma_shape - 1) * math.log(radius) - radius - gammaln(gamma_shape)
                )
                distribution_at_radius = ordered_distribution(
                    values_in_scales=counts_in_scales / radius,
                    k=self.k,
                    unit_noise=KINDS["uniform"],
                )
                for index_sequence, probability in distribution_at_radius.items():
                    added_probability = float(node_weight * density) * probability
                    distribution[index_sequence] = (
                        distribution.get(index_sequence, 0.0) + added_probability
                    )
        total = sum(distribution.values())
        return {
            index_sequence: added_probability / total
            for index_sequence, added_probability in distribution.items()
        }
