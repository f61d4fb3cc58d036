"""Permute-and-flip peeling: k rounds of the noisy maximum with exponential noise."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, PureDpEvent, SelfComposedEvent
from pate.mechanisms.noise.argmax_distributions import exponential_argmax
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.noisy_order import Values, largest_noisy
from pate.mechanisms.ranking import falling_order
from pate.mechanisms.top_k.peeling import peel_distribution
from pate.mechanisms.top_k.top_k import LARGEST_COUNT, Counts, Distribution, TopKMechanism, utilities_of
from pate.validation import require_positive

_LONG_ROW = 8_192
_FEW_PICKS = 5
_OCTAVES = np.arange(65)
_CHANCES = np.exp2(-_OCTAVES[::-1])


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlipTopK(TopKMechanism):
    """Picks an index by permute-and-flip on the counts, removes it, and repeats k times; released in this order.

    Rows of at least 8,192 counts are sorted once, and each pick is found by a few proposals; for shorter rows, or fewer
    than five picks, noise on all counts is as fast. The distribution is the same.

    Formal guarantee: each pick is (epsilon / k)-DP, with exponential noise of mean k w / epsilon, where w is 2
    (replace-one) or 1 (add/remove). The price epsilon**2 / 8 of a bounded range is false for it.

    Attributes:
        epsilon: pure DP of the whole release, > 0.

    Source: McKenna & Sheldon 2020, Ding et al. 2021; docs/proofs/top_k.md.

    >>> distribution = PermuteAndFlipTopK(k=1, epsilon=2.0).distribution(np.array([3, 2, 0]))
    >>> {index: round(p, 3) for (index,), p in distribution.items()}
    {0: 0.797, 1: 0.181, 2: 0.022}
    """

    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("epsilon", self.epsilon)

    @property
    def noise_scale(self) -> float:
        """The noise's mean in counts."""
        return self.k * self.adjacency.gap_sensitivity / self.epsilon

    @property
    def event(self) -> Event:
        """The price: k picks of pure DP."""
        return SelfComposedEvent(PureDpEvent(self.epsilon / self.k), self.k)

    def draw(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draws for checked counts `[Q, d]`: `[Q, k]`."""
        if counts.shape[1] < _LONG_ROW or self.k < _FEW_PICKS:
            return self._draw_by_noise(counts, rng)
        return np.stack([self._draw_by_proposals(row, rng) for row in counts])

    def distribution_of(self, counts: Counts) -> Distribution:
        """The exact distribution for checked counts `[d]`, over ordered tuples."""
        return peel_distribution(utilities_of(counts, self.noise_scale), self.k, exponential_argmax)

    def _draw_by_noise(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        values, left, rows = Values.scaled(counts, self.noise_scale), np.ones(counts.shape, np.bool_), range(len(counts))
        picks = np.empty((len(counts), self.k), dtype=np.int64)
        for place in range(self.k):
            noise = draw_noise("exponential", counts.shape, rng)
            picks[:, place] = largest_noisy(values, noise, 1, left)[:, 0]
            left[rows, picks[:, place]] = False
        return picks

    def _draw_by_proposals(self, row: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        order, falling = falling_order(row[None])
        deficits = falling[0, 0] - falling[0]
        steps = np.ceil(min(self.noise_scale, 2.0 * LARGEST_COUNT) * math.log(2) * _OCTAVES).astype(np.int64)
        ranks: list[int] = []
        picked: set[int] = set()
        best = 0  # the first rank that is left
        for _ in range(self.k):
            while best in picked:
                best += 1
            ranks.append(_next_rank(deficits, steps, best, picked, self.noise_scale, rng))
            picked.add(ranks[-1])
        return order[0, ranks]


def _next_rank(
    deficits: Counts, steps: Counts, best: int, picked: set[int], noise_scale: float, rng: np.random.Generator
) -> int:
    """One pick: a rank is proposed by the octave of its chance to beat the best, and accepted by its hazard.

    Noise lifts a rank above the best count with its chance p, and then by an excess x that has one distribution for all
    ranks. In terms of t = -log(1 - exp(-x)) the winner is the first of independent arrivals, each of hazard
    p exp(-t) / (1 - p (1 - exp(-t))) <= p. The first octave, the rarest, holds whatever is further down.
    """
    bounds = np.append(np.maximum(np.searchsorted(deficits, deficits[best] + steps), best), len(deficits))[::-1]
    weights = np.cumsum((bounds[:-1] - bounds[1:]) * _CHANCES).tolist()
    time = 0.0
    while True:
        time += rng.standard_exponential() / weights[-1]
        octave = bisect_left(weights, weights[-1] * math.exp(-rng.standard_exponential()))
        rank = int(rng.integers(bounds[octave + 1], bounds[octave]))
        if rank in picked:
            continue
        chance, decay = math.exp(int(deficits[best] - deficits[rank]) / noise_scale), math.exp(-time)
        if rng.random() * _CHANCES[octave] * (1 - chance * (1 - decay)) < chance * decay:
            return rank
