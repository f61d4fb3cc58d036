"""Top-k with independent noise on every count, of a kind whose log-density falls with a slope of at most 1.

The log-density may rise with any slope, as that of Gumbel noise does.
"""

from dataclasses import dataclass, field

import numpy as np

from pate.array_types import IntArray
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.maxima import ordered_distribution
from pate.mechanisms.parameters import one_of
from pate.mechanisms.top_k.mechanism import Distribution, PureTopK
from pate.mechanisms.top_k.noisy_counts import largest_noisy_counts
from pate.mechanisms.top_k.pick_distributions import utilities_of


@dataclass(frozen=True, kw_only=True)
class LipschitzTopK(PureTopK):
    """A mechanism that adds noise to every count once and releases the indices of the k largest in their noisy order.

    `noise` is "gumbel", "exponential", "laplace", "logistic" or "half_logistic".

    Formal guarantee: epsilon-DP with noise of scale k w / epsilon, w = 2 (replace-one) or 1 (add/remove). The zCDP
    price is that of epsilon-DP. For Gumbel noise `OneShotTopK` has a smaller zCDP price.
    Source: Shekelyan & Loukides 2022; docs/proofs/lipschitz_top_k.md.

    >>> mechanism = LipschitzTopK(k=2, noise="half_logistic", epsilon=50.0)
    >>> mechanism(np.array([90, 10, 50]), rng=np.random.default_rng(0)).indices
    array([0, 2])
    """

    noise: str = field(default="exponential", metadata=one_of(UNIT_NOISES))

    def draw(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws, for each histogram `[Q, d]`, the indices of the k largest noisy counts, largest first: `[Q, k]`."""
        return largest_noisy_counts(
            counts, noise_scale=self.noise_scale, noise_kind=self.noise, k=self.k, rng=rng
        )

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each sequence of k indices for one histogram `[d]`."""
        return ordered_distribution(
            values_in_scales=utilities_of(counts, noise_scale=self.noise_scale),
            k=self.k,
            unit_noise=UNIT_NOISES[self.noise],
        )
