"""Classes of sets of k ranks with equal loss, so that `CanonicalTopK` can draw without a list of all sets."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.weighted_index import Weights
from pate.mechanisms.top_k.weighted_class import draw_class

# sets whose weight, relative to that of the k best, is below exp(-120) are left out at first
LOG_NO_SETS = 120.0
_LEVELS = 96  # of the deficit, at which the weights of blocks of ranks are bounded


@dataclass(frozen=True, eq=False)
class CanonicalClasses:
    """n classes of sets of k ranks out of 1..d. Rank 1 is that of the largest count, rank d that of the smallest.

    A class holds all sets with the same first missing rank `first` and with a last rank in low + 1..high. So the ranks
    before `first` are in each set, `first` is not, and ranks between `first` and the last one may be in the set or not.
    One class has a single set, the ranks 1..k: there `first` and `high` are k.
    Source: Shekelyan & Loukides 2022; docs/proofs/canonical_top_k.md.
    """

    # [n], the first missing rank; 0 for a class that leaves the first missing rank open
    first: IntArray
    low: IntArray  # [n], the last rank of a set is larger than `low`
    high: IntArray  # [n], the last rank of a set is at most `high`
    log_sizes: FloatArray  # [n], log of the number of sets of each class
    k: int  # the number of ranks in a set

    @classmethod
    @lru_cache(maxsize=32)
    def all(cls, num_ranks: int, k: int) -> Self:
        """Returns one class for each pair of a first missing rank and a last rank, after the set of ranks 1..k."""
        return cls.runs(-np.arange(num_ranks), k, gamma=0.5)

    @classmethod
    @lru_cache(maxsize=32)
    def by_worst(cls, num_ranks: int, k: int) -> Self:
        """Returns one class for each last rank k..`num_ranks`, for a loss that does not depend on missing ranks."""
        worst = np.arange(k, num_ranks + 1)
        # C(w - 1, k - 1) sets end at rank w: the ratio to w - 1
        steps = np.log((worst[1:] - 1.0) / (worst[1:] - k))
        return cls(
            first=np.zeros_like(worst),
            low=worst - 1,
            high=worst,
            log_sizes=np.append(0.0, np.cumsum(steps)),
            k=k,
        )

    @classmethod
    def likely(cls, falling_counts: IntArray, k: int, *, loss_weight: float, gamma: float) -> Self:
        """Returns the classes of one histogram, without classes of negligible weight.

        All sets that are left out weigh together at most exp(-120) times the set of the k largest counts.

        Args:
            falling_counts: counts in falling order, `[d]`.
            k: the size of a set.
            loss_weight: the factor of losses in the exponent; a set weighs exp(-loss_weight * loss).
            gamma: the share of the smallest count in the set in the loss, in [0, 1).
        """
        missing = np.arange(1, k + 1)[:, None]
        deficit = int(falling_counts[k - 1] - falling_counts[-1])
        levels = np.unique(
            np.append(np.geomspace(1, max(deficit, 1), _LEVELS).astype(np.int64), [0, deficit])
        )
        # ranks up to each level
        ends = np.searchsorted(-falling_counts, levels - falling_counts[k - 1], side="right")
        least = np.append(0, levels[:-1] + 1)  # deficit of a block of ranks
        reached = ends > k
        log_sizes = np.full((k, len(levels)), -np.inf)
        if reached.any():
            log_sizes[:, reached] = _log_sizes(
                missing_ranks=missing[:, 0],
                ranks_below=np.full(reached.sum(), k),
                largest_ranks=ends[reached],
                k=k,
            )
        losses = (1 - gamma) * (falling_counts[missing - 1] - falling_counts[k - 1]) + gamma * least
        # [k, blocks], no smaller than what the block weighs
        log_weights = log_sizes - loss_weight * losses
        tails = np.logaddexp.accumulate(np.logaddexp.reduce(log_weights, axis=0)[::-1])[::-1]
        heads = np.logaddexp.accumulate(np.logaddexp.reduce(log_weights, axis=1))
        num_kept = int(np.count_nonzero(tails >= -LOG_NO_SETS))  # tails fall, heads rise
        first = 1 + int(np.count_nonzero(heads < -LOG_NO_SETS))
        return cls.runs(
            falling_counts,
            k,
            gamma=gamma,
            smallest_missing_rank=first,
            largest_last_rank=int(ends[num_kept - 1]) if num_kept else k,
        )

    @classmethod
    def runs(
        cls,
        falling_counts: IntArray,
        k: int,
        *,
        gamma: float,
        smallest_missing_rank: int = 1,
        largest_last_rank: int | None = None,
    ) -> Self:
        """Returns the classes of one histogram, in which last ranks with equal counts share a class.

        Args:
            falling_counts: counts in falling order, `[d]`.
            k: the size of a set.
            gamma: the share of the smallest count in the set in the loss. With 0 all last ranks share a class. With 1
                all first missing ranks share a class.
            smallest_missing_rank: the smallest first missing rank of a class.
            largest_last_rank: the largest last rank of a class; None for d.
        """
        if gamma == 1:
            return cls.by_worst(len(falling_counts), k)
        largest_last_rank = len(falling_counts) if largest_last_rank is None else largest_last_rank
        equal = (
            falling_counts[k:largest_last_rank] if gamma > 0 else np.zeros(largest_last_rank - k)
        )
        low = (
            k + np.flatnonzero(np.diff(equal, prepend=np.inf))
            if largest_last_rank > k
            else np.empty(0, dtype=np.int64)
        )
        high = np.append(low[1:], largest_last_rank)[: len(low)]
        missing = np.arange(smallest_missing_rank, k + 1)
        # the set of ranks 1..k, then each first missing rank with each run of equal counts
        return cls(
            first=np.append(k, np.repeat(missing, len(low))),
            low=np.append(k - 1, np.tile(low, len(missing))),
            high=np.append(k, np.tile(high, len(missing))),
            log_sizes=np.append(
                0.0, _log_sizes(missing_ranks=missing, ranks_below=low, largest_ranks=high, k=k)
            ),
            k=k,
        )

    @property
    def error(self) -> float:
        """A bound on the rounding error of each entry of `log_sizes`."""
        largest = float(np.abs(self.log_sizes[np.isfinite(self.log_sizes)]).max())
        num_steps = len(self.log_sizes) + self.k + 8
        return num_steps * 2.0**-52 * (1 + largest)

    def with_window_first(self, window_classes: Self) -> Self:
        """Returns the same classes in another order, which begins with `window_classes` in their order."""
        place_of = {pair: place for place, pair in enumerate(window_classes.names)}
        return self.at(
            np.argsort([place_of.get(pair, len(place_of)) for pair in self.names], kind="stable")
        )

    def at(self, class_indices: IntArray | slice) -> Self:
        """Returns the classes at the given m places, in the order of the places."""
        return replace(
            self,
            first=self.first[class_indices],
            low=self.low[class_indices],
            high=self.high[class_indices],
            log_sizes=self.log_sizes[class_indices],
        )

    @property
    def names(self) -> list[tuple[int, int]]:
        """The pair (first missing rank, largest last rank) of each class, which identifies the class."""
        return list(zip(self.first.tolist(), self.high.tolist(), strict=True))

    def size(self, class_index: int) -> int:
        """Returns the exact number of sets of the class at a place."""
        first, low, high = (int(ranks[class_index]) for ranks in (self.first, self.low, self.high))
        if first == high:
            return 1
        # `first` settles that many ranks; of the rest, this many are present
        free = first + (first == 0)
        picked = self.k - free + 1
        return comb(high - first, picked) - comb(low - first, picked)

    def losses(self, falling_counts: IntArray, gamma: Any) -> NDArray[Any]:
        """Returns the loss of each class, less the loss of the set of the k largest counts: `[..., n]`.

        Args:
            falling_counts: counts in falling order, `[..., d]`.
            gamma: the share of the smallest count in the set in the loss. A `Fraction` makes all losses fractions.
        """
        # the best missing and the worst present count, relative to the k-th
        kth = falling_counts[..., [self.k - 1]]
        missing = falling_counts[..., np.maximum(self.first, 1) - 1] - kth
        worst = falling_counts[..., self.high - 1] - kth
        if isinstance(gamma, Fraction):
            missing = missing.astype(object)
            worst = worst.astype(object)
        return np.asarray((1 - gamma) * missing - gamma * worst)

    def draw_members(self, class_indices: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws a uniform set of one class for each of Q histograms.

        Args:
            class_indices: the place of each histogram's class, `[Q]`.
            rng: draws the set.

        Returns:
            The ranks of each set, counted from 0, in rising order: `[Q, k]`.
        """
        first = self.first[class_indices]
        low = self.low[class_indices]
        high = self.high[class_indices]
        ends = np.stack([first, low, high], axis=1).tolist()
        worst = np.array(
            [
                self._draw_last_rank(missing_rank, rank_below, largest_rank, rng)
                for missing_rank, rank_below, largest_rank in ends
            ]
        )
        ranks = rng.permuted(np.tile(np.arange(int(worst.max())), (len(class_indices), 1)), axis=1)
        free = (ranks >= first[:, None]) & (ranks < worst[:, None] - 1)
        needed = self.k - np.maximum(first, 1)
        present = free & (np.cumsum(free, axis=1) <= needed[:, None])
        present |= (ranks < first[:, None] - 1) | (ranks == worst[:, None] - 1)
        return np.sort(ranks[present].reshape(len(class_indices), self.k), axis=1)

    def _draw_last_rank(
        self, missing_rank: int, rank_below: int, largest_rank: int, rng: np.random.Generator
    ) -> int:
        """Draws the last rank of a uniform set whose first missing rank is `missing_rank`.

        The last rank lies in rank_below + 1..largest_rank.
        """
        if largest_rank - rank_below == 1:
            return largest_rank
        before = np.arange(rank_below + 1, largest_rank)
        logs = np.append(0.0, np.cumsum(np.log((before - missing_rank) / (before - self.k))))
        error = len(logs) * 2.0**-52 * (1 + float(np.abs(logs).max()))
        sizes = [
            (comb(last - missing_rank, self.k - max(missing_rank, 1)),) * 2
            for last in range(rank_below, largest_rank)
        ]

        def exact_weights(row: int) -> Weights:
            return lambda digits: sizes  # whole numbers, exact for every number of digits

        return (
            rank_below
            + 1
            + int(
                draw_class(
                    log_weights=logs[None],
                    exact_weights_of_row=exact_weights,
                    log_rounding_error=error,
                    rng=rng,
                )[0]
            )
        )


def _log_sizes(
    *, missing_ranks: IntArray, ranks_below: IntArray, largest_ranks: IntArray, k: int
) -> FloatArray:
    """Returns the log of the number of sets of each class, log(C(high - f, k - f + 1) - C(low - f, k - f + 1)).

    Args:
        missing_ranks: the first missing ranks f, rising, of which the last is k: `[F]`.
        ranks_below: the numbers `low`; last ranks are larger than this: `[R]`.
        largest_ranks: the numbers `high`; last ranks are at most this: `[R]`.
        k: the size of a set.

    Returns:
        One entry for each first missing rank and each range of last ranks, `[F, R]`.
    """
    # k, k - 1, …: each row multiplies the one before by one factor
    down = missing_ranks[::-1, None].astype(np.float64)
    log_all = np.cumsum(np.log((largest_ranks - down) / (k - down + 1)), axis=0)
    with np.errstate(divide="ignore"):
        # of the sets that end at `low`
        log_share = np.cumsum(
            np.log1p((ranks_below - largest_ranks) / (largest_ranks - down)), axis=0
        )
    return np.asarray((log_all + np.log(-np.expm1(log_share)))[::-1])
