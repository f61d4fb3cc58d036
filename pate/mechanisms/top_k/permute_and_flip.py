"""Peeling by permute-and-flip: an index is picked by coins of exponential probability and removed, k times in a row."""

from dataclasses import dataclass

import numpy as np

from pate import accounting
from pate.accounting import Event, PureDpEvent
from pate.array_types import IntArray
from pate.mechanisms.noise.exponential_coins import (
    FAR,
    draw_lucky_place,
    toss_exponential,
    toss_rare_exponential,
)
from pate.mechanisms.noise.maxima import exponential_argmax
from pate.mechanisms.top_k.mechanism import Distribution, PureTopK
from pate.mechanisms.top_k.ranking import falling_order, peel_distribution, utilities_of

_LONG = 2**15  # counts; below it all rows are drawn at once


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlipTopK(PureTopK):
    """A mechanism that picks an index by permute-and-flip on the counts, removes it, and repeats k times.

    The indices are released in the order of the picks. The picks are drawn by exact coins, so no noise is added to
    counts and no rounding of floats affects a pick.

    Formal guarantee: each pick is (epsilon / k)-DP. It has the distribution of the largest count with exponential noise
    of mean k w / epsilon, where w is 2 (replace-one) or 1 (add/remove). Permute-and-flip has no bounded range, so the
    zCDP price epsilon**2 / 8 does not hold for it.
    Source: McKenna & Sheldon 2020, Ding et al. 2021; docs/proofs/permute_and_flip_top_k.md.

    >>> distribution = PermuteAndFlipTopK(k=1, epsilon=2.0).distribution(np.array([3, 2, 0]))
    >>> {index: round(p, 3) for (index,), p in distribution.items()}
    {0: 0.797, 1: 0.181, 2: 0.022}
    """

    @property
    def event(self) -> Event:
        """The price of one release, which is that of k picks."""
        return accounting.SelfComposedEvent(
            PureDpEvent(epsilon=self.epsilon / self.k), count=self.k
        )

    def draw(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws k indices of each histogram `[Q, d]`, in the order of the picks: `[Q, k]`."""
        # An index whose count is c below the best that is left can win if its noise exceeds c: a coin of probability
        # exp(-c / scale). By how much it exceeds c has one distribution for all, so each of those is as likely to win.
        order, falling = falling_order(counts)
        if counts.shape[1] >= _LONG:
            ranks = np.stack([self._picked(row[0] - row, rng) for row in falling])
            return np.take_along_axis(order, ranks, axis=1)
        left = np.ones(counts.shape, dtype=np.bool_)
        rows = np.arange(len(counts))
        ranks = np.empty((len(counts), self.k), dtype=np.int64)
        for place in range(self.k):
            # below 0 where picked before
            deficits = falling[rows, left.argmax(axis=1)][:, None] - falling
            near = int((deficits <= FAR * self.noise_scale).sum(axis=1).max())
            able = left.copy()
            able[:, :near] &= toss_exponential(
                np.maximum(deficits[:, :near], 0), noise_scale=self.noise_scale, rng=rng
            )
            able[:, near:] &= toss_rare_exponential(
                deficits[:, near:], noise_scale=self.noise_scale, rng=rng
            )
            numbers = np.cumsum(able, axis=1)
            lucky = rng.integers(0, numbers[:, -1])
            ranks[:, place] = (numbers <= lucky[:, None]).sum(axis=1)
            left[rows, ranks[:, place]] = False
        return np.take_along_axis(order, ranks, axis=1)

    def _picked(self, deficits: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws the k picks of one long histogram, without a coin for each index.

        Args:
            deficits: the largest count less each count, rising, `[d]`.
            rng: draws the coins.

        Returns:
            The ranks of the picks, `[k]`.
        """
        alive = np.ones(len(deficits), dtype=np.bool_)
        picks = np.empty(self.k, dtype=np.int64)
        first = 0
        for number in range(self.k):
            while not alive[first]:
                first += 1
            picks[number] = draw_lucky_place(
                deficits,
                first_place=first,
                candidate_mask=alive,
                noise_scale=self.noise_scale,
                rng=rng,
            )
            alive[picks[number]] = False
        return picks

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each sequence of k indices for one histogram `[d]`."""
        return peel_distribution(
            utilities_of(counts, self.noise_scale), k=self.k, argmax_distribution=exponential_argmax
        )
