"""Permute-and-flip peeling: k rounds of the noisy maximum with exponential noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, PureDpEvent, SelfComposedEvent
from pate.mechanisms.noise.argmax_distributions import exponential_argmax
from pate.mechanisms.noise.coins import toss_exponential, toss_rare_exponential
from pate.mechanisms.noise.flips import lucky_place
from pate.mechanisms.ranking import falling_order
from pate.mechanisms.top_k.peeling import peel_distribution
from pate.mechanisms.top_k.top_k import Counts, Distribution, TopKMechanism, utilities_of
from pate.validation import require_positive

_LONG = 2**15  # counts; below it all rows are drawn at once
_FAR = 40.0  # noise scales; one uniform number says that no count further behind is lifted


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlipTopK(TopKMechanism):
    """Picks an index by permute-and-flip on the counts, removes it, and repeats k times; released in this order.

    It is drawn by coins: noise of any kind on the counts is not needed, and no digits of a float decide.

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
        """Draws for checked counts `[Q, d]`: `[Q, k]`.

        An index whose count is c below the best that is left can win if its noise exceeds c: a coin of probability
        exp(-c / scale). By how much it exceeds c has one distribution for all, so each of those is as likely to win.
        """
        order, falling = falling_order(counts)
        if counts.shape[1] >= _LONG:
            ranks = np.stack([self._picked(row[0] - row, rng) for row in falling])
            return np.take_along_axis(order, ranks, axis=1)
        left, rows = np.ones(counts.shape, dtype=np.bool_), np.arange(len(counts))
        ranks = np.empty((len(counts), self.k), dtype=np.int64)
        for place in range(self.k):
            deficits = falling[rows, left.argmax(axis=1)][:, None] - falling  # below 0 where picked before
            near = int((deficits <= _FAR * self.noise_scale).sum(axis=1).max())
            able = left.copy()
            able[:, :near] &= toss_exponential(np.maximum(deficits[:, :near], 0), self.noise_scale, rng)
            able[:, near:] &= toss_rare_exponential(deficits[:, near:], self.noise_scale, math.exp(-_FAR), rng)
            numbers = np.cumsum(able, axis=1)
            lucky = rng.integers(0, numbers[:, -1])
            ranks[:, place] = (numbers <= lucky[:, None]).sum(axis=1)
            left[rows, ranks[:, place]] = False
        return np.take_along_axis(order, ranks, axis=1)

    def _picked(self, deficits: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        """The places `[k]` picked from one long row of rising deficits `[d]`: the same law, without a coin for each."""
        alive, picks, first = np.ones(len(deficits), dtype=np.bool_), np.empty(self.k, dtype=np.int64), 0
        for number in range(self.k):
            while not alive[first]:
                first += 1
            picks[number] = lucky_place(deficits, first, alive, self.noise_scale, rng)
            alive[picks[number]] = False
        return picks

    def distribution_of(self, counts: Counts) -> Distribution:
        """The exact distribution for checked counts `[d]`, over ordered tuples."""
        return peel_distribution(utilities_of(counts, self.noise_scale), self.k, exponential_argmax)
