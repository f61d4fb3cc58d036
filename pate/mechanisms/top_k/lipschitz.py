"""Top-k with one noise of any Lipschitz log-density on every count."""

from dataclasses import dataclass, field

import numpy as np

from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.maxima import ordered_distribution
from pate.mechanisms.parameters import one_of
from pate.mechanisms.top_k.mechanism import Counts, Distribution, PureTopK
from pate.mechanisms.top_k.ranking import largest_noisy_counts, utilities_of


@dataclass(frozen=True, kw_only=True)
class LipschitzTopK(PureTopK):
    """A mechanism that adds noise to every count once and releases the k largest in their noisy order.

    Formal guarantee: epsilon-DP with noise of scale k w / epsilon, w = 2 (replace-one) or 1 (add/remove). `noise` is
    "gumbel", "exponential", "laplace", "logistic" or "half_logistic". The zCDP price is that of epsilon-DP; for Gumbel
    noise `OneShotTopK` has a smaller one.
    Source: Shekelyan & Loukides 2022; docs/proofs/lipschitz_top_k.md.

    >>> mechanism = LipschitzTopK(k=2, noise="half_logistic", epsilon=50.0)
    >>> mechanism(np.array([90, 10, 50]), rng=np.random.default_rng(0)).indices
    array([0, 2])
    """

    noise: str = field(default="exponential", metadata=one_of(UNIT_NOISES))

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws the k largest of noisy counts, in order, `[Q, k]`."""
        return largest_noisy_counts(counts, self.noise_scale, self.noise, self.k, rng)

    def distribution_of(self, counts: Counts) -> Distribution:
        """Returns the probability of each ordered outcome for one histogram."""
        return ordered_distribution(
            utilities_of(counts, self.noise_scale), self.k, UNIT_NOISES[self.noise]
        )
