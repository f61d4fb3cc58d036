"""Classes of sets with the same loss, by which a canonical draw is made without listing the sets."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.noise.uniforms import (
    Array,
)
from pate.mechanisms.top_k.mechanism import Counts
from pate.mechanisms.top_k.weighted_class import draw_class

# minus the log of the weight, relative to that of the k best, below which sets are left out
_LOG_NO_SETS = 120.0


_LEVELS = 96


@dataclass(frozen=True, eq=False)
class CanonicalClasses:
    """Classes (first missing, worst present) of sets of k ranks; rank 1 is that of the largest count.

    The ranks before `first` are present, `first` is missing, the worst one present lies in low + 1..high, and those in
    between are free. One class is the set of the k best: its first missing rank is k, and so is its worst.
    """

    first: Counts  # [n]; 0 where the first missing rank is free, too
    low: Counts  # [n]
    high: Counts  # [n]
    log_sizes: Array  # [n], of how many sets each class holds
    k: int

    @classmethod
    @lru_cache(maxsize=32)
    def all(cls, num_ranks: int, k: int) -> Self:
        """One class for each pair of ranks; the k best first."""
        return cls.runs(-np.arange(num_ranks), k, gamma=0.5)

    @classmethod
    @lru_cache(maxsize=32)
    def by_worst(cls, num_ranks: int, k: int) -> Self:
        """One class for each worst rank k..d, whatever is missing: for a loss that does not look at it."""
        worst = np.arange(k, num_ranks + 1)
        # C(w - 1, k - 1) sets end at rank w: the ratio to w - 1
        steps = np.log((worst[1:] - 1.0) / (worst[1:] - k))
        return cls(np.zeros_like(worst), worst - 1, worst, np.append(0.0, np.cumsum(steps)), k)

    @classmethod
    def likely(cls, falling: Counts, k: int, *, weight: float, gamma: float) -> Self:
        """The classes `runs` of one histogram `[d]` but those that together weigh below exp(-120) of the k best."""
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
        kept = int(np.count_nonzero(tails >= -_LOG_NO_SETS))  # tails fall, heads rise
        first = 1 + int(np.count_nonzero(heads < -_LOG_NO_SETS))
        return cls.runs(
            falling, k, gamma=gamma, first=first, num_ranks=int(ends[kept - 1]) if kept else k
        )

    @classmethod
    def runs(
        cls, falling: Counts, k: int, *, gamma: float, first: int = 1, num_ranks: int | None = None
    ) -> Self:
        """All classes of `[d]`, the worst by runs of equal counts; or from a missing rank on, among so many ranks."""
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
        known = self.log_sizes[np.isfinite(self.log_sizes)]
        return (len(self.log_sizes) + self.k + 8) * 2.0**-52 * (1 + float(np.abs(known).max()))

    def after(self, window: Self) -> Self:
        """The same classes, those of a window first and in its order."""
        place_of = {pair: place for place, pair in enumerate(window.names)}
        return self.those(
            np.argsort([place_of.get(pair, len(place_of)) for pair in self.names], kind="stable")
        )

    def those(self, places: Counts | slice) -> Self:
        """Returns some of the classes."""
        return replace(
            self,
            **{name: getattr(self, name)[places] for name in ("first", "low", "high", "log_sizes")},
        )

    @property
    def names(self) -> list[tuple[int, int]]:
        """Each class by its best missing rank and the last that may be the worst present."""
        return list(zip(self.first.tolist(), self.high.tolist(), strict=True))

    def size(self, place: int) -> int:
        """How many sets a class holds, exactly."""
        first, low, high = (int(ranks[place]) for ranks in (self.first, self.low, self.high))
        if first == high:
            return 1
        # as many ranks as are settled by `first`, and one more that is present
        free = first + (first == 0)
        picked = self.k - free + 1
        return comb(high - first, picked) - comb(low - first, picked)

    def losses(self, falling: Counts, gamma: Any) -> NDArray[Any]:
        """Of each class for falling counts `[..., d]`, the k best at 0: `[..., n]`, fractions if gamma is one."""
        # by how much the best missing and the worst present count exceed it
        kth = falling[..., [self.k - 1]]
        missing = falling[..., np.maximum(self.first, 1) - 1] - kth
        worst = falling[..., self.high - 1] - kth
        if isinstance(gamma, Fraction):
            missing = missing.astype(object)
            worst = worst.astype(object)
        return np.asarray((1 - gamma) * missing - gamma * worst)

    def members(self, chosen: Counts, rng: np.random.Generator) -> Counts:
        """A uniform set of one class for each query: `[Q, k]` 0-based ranks, rising, from classes `[Q]`."""
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
    """Logarithms of C(high - f, k - f + 1) - C(low - f, k - f + 1) for f in `first`, which ends at k: `[F, R]`."""
    # k, k - 1, …: each row multiplies the one before by one factor
    down = first[::-1, None].astype(np.float64)
    log_all = np.cumsum(np.log((high - down) / (k - down + 1)), axis=0)
    with np.errstate(divide="ignore"):
        # of the sets that end at `low`
        log_share = np.cumsum(np.log1p((low - high) / (high - down)), axis=0)
    return np.asarray((log_all + np.log(-np.expm1(log_share)))[::-1])
