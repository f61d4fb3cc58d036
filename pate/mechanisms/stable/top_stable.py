"""Top-stable selection: the first rank from k on whose gap exceeds one noisy threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import gauss_legendre
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.noisy_order import Scaled, are_above
from pate.mechanisms.noise.unit_noise import UNIT_NOISES
from pate.mechanisms.ranking import falling_order
from pate.mechanisms.top_k.top_k import Array, Counts, Distribution, DomainTopK
from pate.validation import require

_NODES = 16
_PANEL, _TAIL = 0.5, 42.0


@dataclass(frozen=True, kw_only=True)
class TopStableTopK(DomainTopK):
    """Releases the set of the j best for the first j in k..domain_size whose gap exceeds a noisy threshold, or nothing.

    A reconstruction from the description in Carvalho et al., whose own algorithm differs. The outcome has
    `domain_size` places, j of them filled, in the order of the indices; the rest hold -1.

    Formal guarantee: (epsilon, failure_prob)-DP under the adjacency given. Let w = 2 (replace-one) or 1 (add/remove).
    From the gap after rank j we subtract w, but not below 0, and add Laplace noise of scale 4 w / epsilon. We compare
    the result with a threshold plus Laplace noise of scale 2 w / epsilon. A gap of at most w passes with a probability
    of at most failure_prob divided by the number of ranks.

    Attributes:
        domain_size: the last rank whose gap is looked at, >= k, below the number of counts.
        epsilon: pure DP outside the failure, > 0.
        failure_prob: in (0, 1).

    Source: after Carvalho et al. 2020; docs/proofs/top_k.md.

    >>> mechanism = TopStableTopK(k=1, domain_size=3, epsilon=30.0, failure_prob=1e-6)
    >>> mechanism(np.array([90, 2, 89, 0, 1, 1]), rng=np.random.default_rng(0)).indices
    array([ 0,  2, -1])
    """

    @property
    def gap_scale(self) -> float:
        """The scale of the noise on each gap, in counts."""
        return 2 * self.threshold_scale

    @property
    def threshold_scale(self) -> float:
        """The scale of the noise on the threshold, in counts."""
        return 2 * self.adjacency.gap_sensitivity / self.epsilon

    @property
    def threshold(self) -> float:
        """What a gap beyond w is compared with, in counts: the difference of the two noises seldom exceeds it."""
        share = self.failure_prob / (self.domain_size - self.k + 1)
        if share >= 0.5:
            return 0.0
        # P[noise of a gap - noise of the threshold > x threshold_scale] = (4 u - u**2) / 6 with u = exp(-x / 2)
        u = 6 * share / (2 + math.sqrt(4 - 6 * share))
        return -2 * self.threshold_scale * math.log(u)

    def draw(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draws for checked counts `[Q, d]`: `[Q, domain_size]`, with -1 in places that are not filled."""
        order, excess = self._excess(counts)
        threshold = Scaled(draw_noise("laplace", (len(counts), 1), rng), -self.threshold_scale)
        gaps = Scaled(draw_noise("laplace", excess.shape, rng), self.gap_scale)
        passed = are_above(excess, self.threshold, (threshold, gaps))
        length = np.where(passed.any(axis=1), self.k + passed.argmax(axis=1), 0)
        places = np.arange(self.domain_size)
        released = np.where(places < length[:, None], order[:, : self.domain_size], counts.shape[1])
        released = np.sort(released, axis=1)
        return np.where(released < counts.shape[1], released, -1)

    def distribution_of(self, counts: Counts) -> Distribution:
        """The exact distribution for checked counts `[d]`, over tuples as they are released."""
        order, excess = self._excess(counts[None])
        points, weights = _nodes(excess[0] - self.threshold, self.threshold_scale, self.gap_scale)
        laplace = UNIT_NOISES["laplace"]
        fails = laplace.cdf((self.threshold + points - excess[0][:, None]) / self.gap_scale)  # [ranks, G]
        weights = weights * laplace.density(points / self.threshold_scale) / self.threshold_scale
        reached = np.cumprod(np.vstack([np.ones_like(points), fails]), axis=0)
        distribution: Distribution = {(-1,) * self.domain_size: float(reached[-1] @ weights)}
        for rank, (before, fail) in enumerate(zip(reached, fails, strict=False), start=self.k):
            best = tuple(sorted(order[0, :rank].tolist())) + (-1,) * (self.domain_size - rank)
            distribution[best] = float((before * (1 - fail)) @ weights)
        return distribution

    def _checked(self, counts: NDArray[np.integer], rank: int | None = None) -> Counts:
        checked = super()._checked(counts, rank)
        most = checked.shape[-1] - 1
        require(self.domain_size <= most, "domain_size", self.domain_size, f"at most {most}, one below the counts")
        return checked

    def _excess(self, counts: Counts) -> tuple[Counts, Counts]:
        """The ranking, and by how much the gap after each rank k..domain_size exceeds w: `[Q, ranks]`."""
        order, falling = falling_order(counts)
        ranks = slice(self.k - 1, self.domain_size)
        gaps = falling[:, :-1][:, ranks] - falling[:, 1:][:, ranks]
        return order, np.maximum(gaps - self.adjacency.gap_sensitivity, 0)


def _nodes(kinks: Array, threshold_scale: float, gap_scale: float) -> tuple[Array, Array]:
    """Nodes and weights for the noise of the threshold, in panels that end where a factor is not smooth."""
    reach = _TAIL * threshold_scale
    corners = np.unique([-reach, reach, 0.0, *kinks[np.abs(kinks) < reach]])
    counts = [max(1, int(np.ceil((b - a) / (_PANEL * min(threshold_scale, gap_scale))))) for a, b in pairwise(corners)]
    edges = [np.linspace(a, b, n + 1) for (a, b), n in zip(pairwise(corners), counts, strict=True)]
    low = np.concatenate([edge[:-1] for edge in edges])[:, None]
    half = np.concatenate([np.diff(edge) for edge in edges])[:, None] / 2
    nodes, weights = gauss_legendre(_NODES)
    return (low + half * (1 + nodes)).ravel(), (half * weights).ravel()
