"""Classes of sets with the same loss, by which a canonical draw is made without listing the sets."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.noise.lazy_uniforms import Array
from pate.mechanisms.top_k.mechanism import Counts
from pate.mechanisms.top_k.weighted_class import draw_class

# sets whose weight, relative to that of the k best, is below exp(-120) are left out at first
LOG_NO_SETS = 120.0
_LEVELS = 96  # of the deficit, at which the weights of blocks of ranks are bounded


@dataclass(frozen=True, eq=False)
class CanonicalClasses:
    """Classes (first missing, worst present) of sets of k ranks. Rank 1 is that of the largest count.

    In a class the ranks before `first` are present, `first` is missing, and the worst rank present lies in
    low + 1..high; ranks between the two are free. One class is the set of the k best: its first missing rank is k, and
    so is its worst. Source: Shekelyan & Loukides 2022; docs/proofs/canonical_top_k.md.
    """

    first: Counts  # [n]; 0 where the first missing rank is free too
    low: Counts  # [n]
    high: Counts  # [n]
    log_sizes: Array  # [n], log of the number of sets of each class
    k: int

    @classmethod
    @lru_cache(maxsize=32)
    def all(cls, num_ranks: int, k: int) -> Self:
        """Returns one class for each pair of ranks; the k best first."""
        return cls.runs(-np.arange(num_ranks), k, gamma=0.5)

    @classmethod
    @lru_cache(maxsize=32)
    def by_worst(cls, num_ranks: int, k: int) -> Self:
        """Returns one class for each worst rank k..d, for a loss that does not depend on the missing ranks."""
        worst = np.arange(k, num_ranks + 1)
        # C(w - 1, k - 1) sets end at rank w: the ratio to w - 1
        steps = np.log((worst[1:] - 1.0) / (worst[1:] - k))
        return cls(np.zeros_like(worst), worst - 1, worst, np.append(0.0, np.cumsum(steps)), k)

    @classmethod
    def likely(cls, falling: Counts, k: int, *, weight: float, gamma: float) -> Self:
        """Returns the classes `runs` of one histogram `[d]`, without sets that weigh exp(-120) of the k best in all."""
        missing = np.arange(1, k + 1)[:, None]
        deficit = int(falling[k - 1] - falling[-1])
        levels = np.unique(
            np.append(np.geomspace(1, max(deficit, 1), _LEVELS).astype(np.int64), [0, deficit])
        )
        # ranks up to each level
        ends = np.searchsorted(-falling, levels - falling[k - 1], side="right")
        least = np.append(0, levels[:-1] + 1)  # deficit of a block of ranks
        reached = ends > k
        log_sizes = np.full((k, len(levels)), -np.inf)
        if reached.any():
            log_sizes[:, reached] = _log_sizes(
                missing[:, 0], np.full(reached.sum(), k), ends[reached], k
            )
        losses = (1 - gamma) * (falling[missing - 1] - falling[k - 1]) + gamma * least
        # [k, blocks], no smaller than what the block weighs
        log_weights = log_sizes - weight * losses
        tails = np.logaddexp.accumulate(np.logaddexp.reduce(log_weights, axis=0)[::-1])[::-1]
        heads = np.logaddexp.accumulate(np.logaddexp.reduce(log_weights, axis=1))
        num_kept = int(np.count_nonzero(tails >= -LOG_NO_SETS))  # tails fall, heads rise
        first = 1 + int(np.count_nonzero(heads < -LOG_NO_SETS))
        return cls.runs(
            falling,
            k,
            gamma=gamma,
            first=first,
            num_ranks=int(ends[num_kept - 1]) if num_kept else k,
        )

    @classmethod
    def runs(
        cls, falling: Counts, k: int, *, gamma: float, first: int = 1, num_ranks: int | None = None
    ) -> Self:
        """Returns the classes of a histogram, the worst ranks in runs of equal counts.

        Args:
            falling: counts in falling order, `[d]`.
            k: the size of a set.
            gamma: of the loss; 0 makes one run of all ranks, 1 leaves the missing rank free.
            first: the least first missing rank.
            num_ranks: the largest worst rank; None for d.
        """
        if gamma == 1:
            return cls.by_worst(len(falling), k)
        num_ranks = len(falling) if num_ranks is None else num_ranks
        equal = falling[k:num_ranks] if gamma > 0 else np.zeros(num_ranks - k)
        low = (
            k + np.flatnonzero(np.diff(equal, prepend=np.inf))
            if num_ranks > k
            else np.empty(0, dtype=np.int64)
        )
        high = np.append(low[1:], num_ranks)[: len(low)]
        missing = np.arange(first, k + 1)
        return cls(  # the k best, and every first missing rank with every run
            np.append(k, np.repeat(missing, len(low))),
            np.append(k - 1, np.tile(low, len(missing))),
            np.append(k, np.tile(high, len(missing))),
            np.append(0.0, _log_sizes(missing, low, high, k)),
            k,
        )

    @property
    def error(self) -> float:
        """A bound on the rounding errors of the logarithms of sizes."""
        largest = float(np.abs(self.log_sizes[np.isfinite(self.log_sizes)]).max())
        num_steps = len(self.log_sizes) + self.k + 8
        return num_steps * 2.0**-52 * (1 + largest)

    def after(self, window: Self) -> Self:
        """Returns the same classes, those of a window first and in its order."""
        place_of = {pair: place for place, pair in enumerate(window.names)}
        return self.at(
            np.argsort([place_of.get(pair, len(place_of)) for pair in self.names], kind="stable")
        )

    def at(self, places: Counts | slice) -> Self:
        """Returns the classes at places `[m]`."""
        return replace(
            self,
            first=self.first[places],
            low=self.low[places],
            high=self.high[places],
            log_sizes=self.log_sizes[places],
        )

    @property
    def names(self) -> list[tuple[int, int]]:
        """The first missing rank and the last possible worst rank of each class, which identify it."""
        return list(zip(self.first.tolist(), self.high.tolist(), strict=True))

    def size(self, place: int) -> int:
        """Returns the exact number of sets of a class."""
        first, low, high = (int(ranks[place]) for ranks in (self.first, self.low, self.high))
        if first == high:
            return 1
        # `first` settles that many ranks; of the rest, this many are present
        free = first + (first == 0)
        picked = self.k - free + 1
        return comb(high - first, picked) - comb(low - first, picked)

    def losses(self, falling: Counts, gamma: Any) -> NDArray[Any]:
        """Returns the loss of each class, `[..., n]`, with the k best at 0; fractions where gamma is a fraction.

        Args:
            falling: counts in falling order, `[..., d]`.
            gamma: the share of the worst present count in the loss.
        """
        # the best missing and the worst present count, relative to the k-th
        kth = falling[..., [self.k - 1]]
        missing = falling[..., np.maximum(self.first, 1) - 1] - kth
        worst = falling[..., self.high - 1] - kth
        if isinstance(gamma, Fraction):
            missing = missing.astype(object)
            worst = worst.astype(object)
        return np.asarray((1 - gamma) * missing - gamma * worst)

    def members(self, chosen: Counts, rng: np.random.Generator) -> Counts:
        """Draws a uniform set of one class for each query: 0-based ranks `[Q, k]`, rising, from classes `[Q]`."""
        first = self.first[chosen]
        low = self.low[chosen]
        high = self.high[chosen]
        ends = np.stack([first, low, high], axis=1).tolist()
        worst = np.array([self._worst(before, least, most, rng) for before, least, most in ends])
        ranks = rng.permuted(np.tile(np.arange(int(worst.max())), (len(chosen), 1)), axis=1)
        free = (ranks >= first[:, None]) & (ranks < worst[:, None] - 1)
        needed = self.k - np.maximum(first, 1)
        present = free & (np.cumsum(free, axis=1) <= needed[:, None])
        present |= (ranks < first[:, None] - 1) | (ranks == worst[:, None] - 1)
        return np.sort(ranks[present].reshape(len(chosen), self.k), axis=1)

    def _worst(self, first: int, low: int, high: int, rng: np.random.Generator) -> int:
        """Draws the worst rank of a uniform set of a class, in low + 1..high."""
        if high - low == 1:
            return high
        before = np.arange(low + 1, high)
        logs = np.append(0.0, np.cumsum(np.log((before - first) / (before - self.k))))
        error = len(logs) * 2.0**-52 * (1 + float(np.abs(logs).max()))
        sizes = [(comb(last - first, self.k - max(first, 1)),) * 2 for last in range(low, high)]
        return (
            low + 1 + int(draw_class(logs[None], lambda row: lambda digits: sizes, error, rng)[0])
        )


def _log_sizes(first: Counts, low: Counts, high: Counts, k: int) -> Array:
    """Returns log(C(high - f, k - f + 1) - C(low - f, k - f + 1)) for each f in `first`, which ends at k: `[F, R]`."""
    # k, k - 1, …: each row multiplies the one before by one factor
    down = first[::-1, None].astype(np.float64)
    log_all = np.cumsum(np.log((high - down) / (k - down + 1)), axis=0)
    with np.errstate(divide="ignore"):
        # of the sets that end at `low`
        log_share = np.cumsum(np.log1p((low - high) / (high - down)), axis=0)
    return np.asarray((log_all + np.log(-np.expm1(log_share)))[::-1])
