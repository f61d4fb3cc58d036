"""Peeling by permute-and-flip: an index is picked by coins of exponential probability and removed, k times in a row."""

from dataclasses import dataclass

import numpy as np

from pate.accounting import Event, PureDpEvent, SelfComposedEvent
from pate.array_types import IntArray
from pate.mechanisms.noise.exponential_coins import (
    FAR,
    draw_lucky_place,
    toss_exponential,
    toss_rare_exponential,
)
from pate.mechanisms.noise.maxima import exponential_noise_argmax
from pate.mechanisms.top_k.mechanism import Distribution, PureTopK
from pate.mechanisms.top_k.pick_distributions import peel_distribution, utilities_of
from pate.mechanisms.top_k.sorted_counts import falling_order

# Histograms with at least so many counts are drawn one by one, and shorter ones all at once.
_MANY_COUNTS = 2**15


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlipTopK(PureTopK):
    """A mechanism that picks an index by permute-and-flip on the counts, removes it, and repeats k times.

    The indices are released in the order of the picks. The picks are drawn by exact coins, so no noise is added to
    counts and no rounding of floats affects a pick.

    Formal guarantee: each pick is (epsilon / k)-DP. It has the distribution of the largest count with exponential noise
    of mean k w / epsilon, where w is 2 (replace-one) or 1 (add/remove). The bounded range of a pick exceeds
    epsilon / k, so the zCDP price of a Gumbel pick, (epsilon / k)**2 / 8, does not hold for it.
    Source: McKenna & Sheldon 2020, Ding et al. 2021; docs/proofs/permute_and_flip_top_k.md.

    >>> distribution = PermuteAndFlipTopK(k=1, epsilon=2.0).distribution(np.array([3, 2, 0]))
    >>> {index: round(p, 3) for (index,), p in distribution.items()}
    {0: 0.797, 1: 0.181, 2: 0.022}
    """

    @property
    def event(self) -> Event:
        """The price of one release, which is that of k picks."""
        pick_event = PureDpEvent(epsilon=self.epsilon / self.k)
        return SelfComposedEvent(pick_event, count=self.k)

    def draw(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws k indices of each histogram `[Q, d]`, in the order of the picks: `[Q, k]`."""
        # An index whose count is c below the largest remaining count can win only if its exponential noise exceeds c,
        # which a coin of probability exp(-c / scale) decides. The excess over c has the same distribution for every
        # index, so each index whose coin shows True is equally likely to win.
        ranked_indices, falling_counts = falling_order(counts)
        if counts.shape[1] >= _MANY_COUNTS:
            picked_ranks = np.stack(
                [
                    self._draw_long_histogram(counts_of_histogram[0] - counts_of_histogram, rng)
                    for counts_of_histogram in falling_counts
                ]
            )
        else:
            picked_ranks = self._draw_short_histograms(falling_counts, rng)
        return np.take_along_axis(ranked_indices, picked_ranks, axis=1)

    def _draw_short_histograms(
        self, falling_counts: IntArray, rng: np.random.Generator
    ) -> IntArray:
        """Draws the k picks of each of Q histograms, with a coin for each index.

        Args:
            falling_counts: counts in falling order, `[Q, d]`.
            rng: draws the coins.

        Returns:
            The ranks of the picks, counted from 0, in the order of the picks: `[Q, k]`.
        """
        histogram_rows = np.arange(len(falling_counts))
        is_remaining = np.ones(falling_counts.shape, dtype=np.bool_)
        picked_ranks = np.empty((len(falling_counts), self.k), dtype=np.int64)
        for pick_number in range(self.k):
            largest_remaining = falling_counts[histogram_rows, is_remaining.argmax(axis=1)]
            # Deficits of indices that were picked before may be negative.
            deficits = largest_remaining[:, None] - falling_counts
            num_near = int((deficits <= FAR * self.noise_scale).sum(axis=1).max())
            can_win = is_remaining.copy()
            can_win[:, :num_near] &= toss_exponential(
                np.maximum(deficits[:, :num_near], 0), noise_scale=self.noise_scale, rng=rng
            )
            can_win[:, num_near:] &= toss_rare_exponential(
                deficits[:, num_near:], noise_scale=self.noise_scale, rng=rng
            )
            # One of the indices that can win is drawn uniformly, by its number among them.
            numbers_among_winners = np.cumsum(can_win, axis=1)
            drawn_numbers = rng.integers(0, numbers_among_winners[:, -1])
            picked_ranks[:, pick_number] = (numbers_among_winners <= drawn_numbers[:, None]).sum(
                axis=1
            )
            is_remaining[histogram_rows, picked_ranks[:, pick_number]] = False
        return picked_ranks

    def _draw_long_histogram(self, deficits: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws the k picks of one long histogram, without a coin for each index.

        Args:
            deficits: the largest count less each count, rising, `[d]`.
            rng: draws the coins.

        Returns:
            The ranks of the picks, counted from 0, in the order of the picks: `[k]`.
        """
        is_remaining = np.ones(len(deficits), dtype=np.bool_)
        picked_ranks = np.empty(self.k, dtype=np.int64)
        first_remaining = 0
        for pick_number in range(self.k):
            while not is_remaining[first_remaining]:
                first_remaining += 1
            picked_ranks[pick_number] = draw_lucky_place(
                deficits,
                first_place=first_remaining,
                candidate_mask=is_remaining,
                noise_scale=self.noise_scale,
                rng=rng,
            )
            is_remaining[picked_ranks[pick_number]] = False
        return picked_ranks

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each sequence of k indices for one histogram `[d]`."""
        return peel_distribution(
            utilities=utilities_of(counts, noise_scale=self.noise_scale),
            k=self.k,
            argmax_distribution=exponential_noise_argmax,
        )
