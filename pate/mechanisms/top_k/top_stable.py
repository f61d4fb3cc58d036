"""Top-k that releases the first set of largest counts whose noisy gap exceeds a noisy threshold."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pate.accounting.special import gauss_legendre
from pate.array_types import IntArray
from pate.mechanisms.noise.comparisons import weighted_noisy_at_least
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.maxima import panels
from pate.mechanisms.top_k.limited_domain import DomainTopK
from pate.mechanisms.top_k.mechanism import Distribution
from pate.mechanisms.top_k.sorted_counts import falling_order

# The exact distribution is an integral over the noise of the threshold, from -42 to 42 scales, in panels of at most
# half a scale.
_PANEL_WIDTH = 0.5
_LARGEST_NOISE = 42.0
# The share of the failure probability is lowered by this factor, so that a rounded threshold never makes it too large.
_ROUNDING_DOWN = 1 - 2.0**-45


@dataclass(frozen=True, kw_only=True)
class TopStableTopK(DomainTopK):
    """A mechanism that releases the set of the j largest counts, for the first j whose noisy gap exceeds a threshold.

    The gap of j is the j-th largest count less the next one. j runs over k..domain_size; if no gap exceeds the
    threshold, nothing is released. The outcome has `domain_size` places: j indices in rising order, then -1. A
    histogram must have more than `domain_size` counts. The mechanism is a reconstruction from the description in
    Carvalho et al., whose own algorithm differs.

    Formal guarantee: (epsilon, failure_prob)-DP for `adjacency`. Let w be 2 (replace-one) or 1 (add/remove). The
    number max(gap - w, 0) with Laplace noise of scale 4 w / epsilon is compared with a threshold that has Laplace noise
    of scale 2 w / epsilon. A gap of at most w passes with a probability of at most failure_prob / num_gaps, where
    num_gaps = domain_size - k + 1.
    Source: after Carvalho et al. 2020; docs/proofs/top_stable_top_k.md.

    >>> mechanism = TopStableTopK(k=1, domain_size=3, epsilon=30.0, failure_prob=1e-6)
    >>> mechanism(np.array([90, 2, 89, 0, 1, 1]), rng=np.random.default_rng(0)).indices
    array([ 0,  2, -1])
    """

    _min_outside: ClassVar[int] = 1

    @property
    def gap_scale(self) -> float:
        """The scale of the Laplace noise on each gap, in votes."""
        return 2 * self.threshold_scale

    @property
    def threshold_scale(self) -> float:
        """The scale of the Laplace noise on the threshold, in votes."""
        return 2 * self.adjacency.gap_sensitivity / self.epsilon

    @property
    def threshold(self) -> float:
        """The threshold, before noise, that max(gap - w, 0) must exceed, in votes.

        Noise alone exceeds the threshold with a probability of at most failure_prob / num_gaps.
        """
        share = self.failure_prob / (self.domain_size - self.k + 1)
        if share >= 0.5:
            return 0.0
        # P[noise of a gap - noise of the threshold > x threshold_scale] = (4 u - u**2) / 6 with u = exp(-x / 2)
        # is the share: u is the smaller root of u**2 - 4 u + 6 share = 0, written without cancellation
        share *= _ROUNDING_DOWN
        smaller_root = 6 * share / (2 + math.sqrt(4 - 6 * share))
        return -2 * self.threshold_scale * math.log(smaller_root)

    def draw(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws the first set of each histogram `[Q, d]` that passes: indices in rising order, then -1.

        Returns `[Q, domain_size]`.
        """
        ranked_indices, votes_over_sensitivity = self._order_and_gap_excess(counts)
        noise_of_threshold = draw_noise(noise_kind="laplace", shape=(len(counts), 1), rng=rng)
        noise_of_gaps = draw_noise(
            noise_kind="laplace", shape=votes_over_sensitivity.shape, rng=rng
        )
        weighted_noises = (
            (noise_of_threshold, -self.threshold_scale),
            (noise_of_gaps, self.gap_scale),
        )
        has_passed = weighted_noisy_at_least(
            votes_over_sensitivity, threshold=self.threshold, weighted_noises=weighted_noises
        )
        set_sizes = np.where(has_passed.any(axis=1), self.k + has_passed.argmax(axis=1), 0)
        is_released = np.arange(self.domain_size) < set_sizes[:, None]
        # A number above all indices marks the other places, so that they are last in rising order.
        unfilled_mark = counts.shape[1]
        released_indices = np.sort(
            np.where(is_released, ranked_indices[:, : self.domain_size], unfilled_mark), axis=1
        )
        return np.where(released_indices < unfilled_mark, released_indices, -1)

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each outcome, a tuple of indices or -1, for one histogram `[d]`."""
        ranked_indices, votes_over_sensitivity = self._order_and_gap_excess(counts[None])
        # Nodes and weights of the integral over the noise of the threshold, [G].
        largest_threshold_noise = _LARGEST_NOISE * self.threshold_scale
        kink_noises = votes_over_sensitivity[0] - self.threshold
        corner_noises = np.unique(
            [
                -largest_threshold_noise,
                largest_threshold_noise,
                0.0,
                *kink_noises[np.abs(kink_noises) < largest_threshold_noise],
            ]
        )
        panel_width = _PANEL_WIDTH * min(self.threshold_scale, self.gap_scale)
        nodes, panel_half_widths = panels(corner_noises, largest_width=panel_width)
        threshold_noise_at_nodes = nodes.ravel()
        _, node_weights = gauss_legendre(nodes.shape[1])
        laplace_kind = UNIT_NOISES["laplace"]
        density = laplace_kind.density(threshold_noise_at_nodes / self.threshold_scale)
        integration_weights = (
            (panel_half_widths * node_weights).ravel() * density / self.threshold_scale
        )
        # The probability that each gap fails, and that all gaps before it fail, for each node: [ranks, G].
        noisy_thresholds = self.threshold + threshold_noise_at_nodes
        fail_probs_by_gap_and_node = laplace_kind.cdf(
            (noisy_thresholds - votes_over_sensitivity[0][:, None]) / self.gap_scale
        )
        probs_that_all_gaps_before_fail = np.cumprod(
            np.vstack([np.ones_like(threshold_noise_at_nodes), fail_probs_by_gap_and_node]), axis=0
        )
        distribution: Distribution = {
            (-1,) * self.domain_size: float(
                probs_that_all_gaps_before_fail[-1] @ integration_weights
            )
        }
        for gap_index, fail_probs_at_nodes in enumerate(fail_probs_by_gap_and_node):
            set_size = self.k + gap_index
            released_outcome = tuple(sorted(ranked_indices[0, :set_size].tolist())) + (-1,) * (
                self.domain_size - set_size
            )
            probs_that_gap_passes_first = probs_that_all_gaps_before_fail[gap_index] * (
                1 - fail_probs_at_nodes
            )
            distribution[released_outcome] = float(
                probs_that_gap_passes_first @ integration_weights
            )
        return distribution

    def _order_and_gap_excess(self, counts: IntArray) -> tuple[IntArray, IntArray]:
        """Returns the order of the counts and the excess of each gap over w, for histograms `[Q, d]`.

        Here w is the most by which a gap moves between neighbors: 2 (replace-one) or 1 (add/remove).

        Returns two arrays: the indices in falling order of their counts, `[Q, d]`; and max(gap - w, 0) after each rank
        k..domain_size, `[Q, domain_size - k + 1]`.
        """
        ranked_indices, falling_counts = falling_order(counts)
        gaps_after_ranks = -np.diff(falling_counts, axis=1)[:, self.k - 1 : self.domain_size]
        return ranked_indices, np.maximum(gaps_after_ranks - self.adjacency.gap_sensitivity, 0)
