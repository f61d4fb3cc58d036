"""Canonical top-k: a set of k indices, chosen by noise on a loss of its best missing and its worst present count."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import BoundedRangeEvent, Event, PureDpEvent
from pate.mechanisms.noise.kinds import UNIT_NOISES, largest_distribution
from pate.mechanisms.noise.noisy_order import Values, draw_largest, largest_noisy
from pate.mechanisms.noise.uniforms import LazyUniforms, Weights, draw_index, exponential_weights, with_rest
from pate.mechanisms.parameters import one_of
from pate.mechanisms.top_k import Array, BoundedRangeTopK, Counts, Distribution, draw_in_blocks, falling_order
from pate.validation import require

_LOG_NEGLIGIBLE = 120.0  # minus the log of the weight, relative to that of the k best, below which classes are left out
_NEGLIGIBLE = Fraction(1, 10**50)  # above exp(-120), the share of what is left out at first
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
    def all(cls, num_ranks: int, k: int) -> CanonicalClasses:
        """One class for each pair of ranks; the k best first."""
        ends = np.arange(k + 1, num_ranks + 1)
        return cls._of(np.arange(1, k + 1), ends - 1, ends, k)

    @classmethod
    @lru_cache(maxsize=32)
    def by_worst(cls, num_ranks: int, k: int) -> CanonicalClasses:
        """One class for each worst rank k..d, whatever is missing: for a loss that does not look at it."""
        worst = np.arange(k, num_ranks + 1)
        steps = np.log((worst[1:] - 1.0) / (worst[1:] - k))  # C(w - 1, k - 1) sets end at rank w: the ratio to w - 1
        return cls(np.zeros_like(worst), worst - 1, worst, np.append(0.0, np.cumsum(steps)), k)

    @classmethod
    def likely(cls, falling: Counts, k: int, *, weight: float, gamma: float) -> CanonicalClasses:
        """The classes `runs` of one histogram `[d]` but those that together weigh below exp(-120) of the k best."""
        missing = np.arange(1, k + 1)[:, None]
        deficit = int(falling[k - 1] - falling[-1])
        levels = np.unique(np.append(np.geomspace(1, max(deficit, 1), _LEVELS).astype(np.int64), [0, deficit]))
        ends = np.searchsorted(-falling, levels - falling[k - 1], side="right")  # ranks up to each level
        least = np.append(0, levels[:-1] + 1)  # deficit of a block of ranks
        reached = ends > k
        log_sizes = np.full((k, len(levels)), -np.inf)
        if reached.any():
            log_sizes[:, reached] = _log_sizes(missing[:, 0], np.full(reached.sum(), k), ends[reached], k)
        losses = (1 - gamma) * (falling[missing - 1] - falling[k - 1]) + gamma * least
        log_weights = log_sizes - weight * losses  # [k, blocks], no smaller than what the block weighs
        tails = np.logaddexp.accumulate(np.logaddexp.reduce(log_weights, axis=0)[::-1])[::-1]
        heads = np.logaddexp.accumulate(np.logaddexp.reduce(log_weights, axis=1))
        kept = int(np.count_nonzero(tails >= -_LOG_NEGLIGIBLE))  # tails fall, heads rise
        first = 1 + int(np.count_nonzero(heads < -_LOG_NEGLIGIBLE))
        return cls.runs(falling, k, gamma=gamma, first=first, num_ranks=int(ends[kept - 1]) if kept else k)

    @classmethod
    def runs(
        cls, falling: Counts, k: int, *, gamma: float, first: int = 1, num_ranks: int | None = None
    ) -> CanonicalClasses:
        """All classes of `[d]`, the worst by runs of equal counts; or from a missing rank on, among so many ranks."""
        num_ranks = len(falling) if num_ranks is None else num_ranks
        equal = falling[k:num_ranks] if gamma > 0 else np.zeros(num_ranks - k)
        starts = k + np.flatnonzero(np.diff(equal, prepend=np.inf)) if num_ranks > k else np.empty(0, dtype=np.int64)
        ends = np.append(starts[1:], num_ranks)[: len(starts)]
        return cls._of(np.arange(first, k + 1), starts, ends, k)

    @classmethod
    def _of(cls, first: Counts, low: Counts, high: Counts, k: int) -> CanonicalClasses:
        """Every first missing rank with every run, and the k best."""
        return cls(
            np.append(k, np.repeat(first, len(low))),
            np.append(k - 1, np.tile(low, len(first))),
            np.append(k, np.tile(high, len(first))),
            np.append(0.0, _log_sizes(first, low, high, k)),
            k,
        )

    @property
    def error(self) -> float:
        """How far a logarithm can be off: each is a running sum."""
        known = self.log_sizes[np.isfinite(self.log_sizes)]
        return (len(self.log_sizes) + self.k + 8) * 2.0**-52 * (1 + float(np.abs(known).max()))

    def after(self, window: CanonicalClasses) -> CanonicalClasses:
        """The same classes, those of a window first and in its order."""
        place_of = {pair: place for place, pair in enumerate(window.names)}
        return self.those(np.argsort([place_of.get(pair, len(place_of)) for pair in self.names], kind="stable"))

    def those(self, places: Counts | slice) -> CanonicalClasses:
        """Some of them, or all in another order."""
        return replace(self, **{name: getattr(self, name)[places] for name in ("first", "low", "high", "log_sizes")})

    @property
    def names(self) -> list[tuple[int, int]]:
        """Each class by its best missing rank and the last that may be the worst present."""
        return list(zip(self.first.tolist(), self.high.tolist(), strict=True))

    def size(self, place: int) -> int:
        """How many sets a class holds, exactly."""
        first, low, high = (int(ranks[place]) for ranks in (self.first, self.low, self.high))
        if first == high:
            return 1
        free = first + (first == 0)  # as many ranks as are settled by `first`, and one more that is present
        picked = self.k - free + 1
        return comb(high - first, picked) - comb(low - first, picked)

    def losses(self, falling: Counts, gamma: Any) -> NDArray[Any]:
        """Of each class for falling counts `[..., d]`, the k best at 0: `[..., n]`, fractions if gamma is one."""
        kth = falling[..., [self.k - 1]]  # by how much the best missing and the worst present count exceed it
        missing, worst = falling[..., np.maximum(self.first, 1) - 1] - kth, falling[..., self.high - 1] - kth
        if isinstance(gamma, Fraction):
            missing, worst = missing.astype(object), worst.astype(object)
        return np.asarray((1 - gamma) * missing - gamma * worst)

    def members(self, chosen: Counts, rng: np.random.Generator) -> Counts:
        """A uniform set of one class for each query: `[Q, k]` 0-based ranks, rising, from classes `[Q]`."""
        first, low, high = self.first[chosen], self.low[chosen], self.high[chosen]
        ends = np.stack([first, low, high], axis=1).tolist()
        worst = np.array([self._worst(before, least, most, rng) for before, least, most in ends])
        ranks = rng.permuted(np.tile(np.arange(int(worst.max())), (len(chosen), 1)), axis=1)
        free = (ranks >= first[:, None]) & (ranks < worst[:, None] - 1)
        needed = self.k - np.maximum(first, 1)
        present = free & (np.cumsum(free, axis=1) <= needed[:, None])
        present |= (ranks < first[:, None] - 1) | (ranks == worst[:, None] - 1)
        return np.sort(ranks[present].reshape(len(chosen), self.k), axis=1)

    def _worst(self, first: int, low: int, high: int, rng: np.random.Generator) -> int:
        """The worst present rank of a uniform member of a class."""
        if high - low == 1:
            return high
        before = np.arange(low + 1, high)
        logs = np.append(0.0, np.cumsum(np.log((before - first) / (before - self.k))))
        error = len(logs) * 2.0**-52 * (1 + float(np.abs(logs).max()))
        free = max(first, 1)

        def sizes(digits: int) -> list[tuple[int, int]]:
            return [(comb(last - first, self.k - free),) * 2 for last in range(low, high)]

        floats = np.exp(logs - logs.max())[None]
        return low + 1 + int(draw_index(floats, LazyUniforms.draw((1,), rng), lambda row: sizes, error)[0])


def _log_sizes(first: Counts, low: Counts, high: Counts, k: int) -> Array:
    """Logarithms of C(high - f, k - f + 1) - C(low - f, k - f + 1) for f in `first`, which ends at k: `[F, R]`."""
    down = first[::-1, None].astype(np.float64)  # k, k - 1, …: each row multiplies the one before by one factor
    log_all = np.cumsum(np.log((high - down) / (k - down + 1)), axis=0)
    with np.errstate(divide="ignore"):
        log_share = np.cumsum(np.log1p((low - high) / (high - down)), axis=0)  # of the sets that end at `low`
    return np.asarray((log_all + np.log(-np.expm1(log_share)))[::-1])


@dataclass(frozen=True, kw_only=True)
class CanonicalTopK(BoundedRangeTopK):
    """Draws a set of k indices by noise on a loss with few distinct values; released in the order of the indices.

    The loss of a set is (1 - gamma) times its best missing count minus gamma times its worst present count; for the set
    of the k best, the k-th count stands in for the missing one.

    Formal guarantee: losses of two sets move against each other by at most 2 (replace-one) or 1 (add/remove). For one
    index they move by gamma times that, for all but one by max(gamma, 1 - gamma) times: the noise is as much smaller.
    Gumbel noise has this as bounded range; the other kinds are pure DP.

    Attributes:
        gamma: in [0, 1].
        noise: "gumbel", "exponential", "laplace", "logistic" or "half_logistic"; all but Gumbel take `epsilon` alone.

    Source: Shekelyan & Loukides 2022; docs/proofs/top_k.md.

    >>> mechanism = CanonicalTopK(k=2, epsilon=50.0, noise="exponential")
    >>> mechanism(np.array([90, 10, 50]), rng=np.random.default_rng(0)).indices
    array([0, 2])
    """

    gamma: float = 0.5
    noise: str = field(default="gumbel", metadata=one_of(UNIT_NOISES))

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.gamma <= 1, "gamma", self.gamma, "a number in [0, 1]")
        require(self.rho is None or self.noise == "gumbel", "rho", self.rho, f"epsilon with noise={self.noise}")

    def weight_for(self, num_counts: int) -> float:
        """By what a loss is multiplied, for d = `num_counts` counts; never above price / range."""
        share = 1.0
        if self.k == 1:  # the largest count is in every loss; with gamma = 0 all are equal
            share = self.gamma or 1.0
        elif self.k == num_counts - 1:
            share = max(self.gamma, 1 - self.gamma)
        weight = self.range_of() / (self.adjacency.gap_sensitivity * share)
        return weight if share in (0.5, 1.0) else math.nextafter(math.nextafter(weight, 0.0), 0.0)

    @property
    def event(self) -> Event:
        return BoundedRangeEvent(self.range_of()) if self.noise == "gumbel" else PureDpEvent(self.range_of())

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        num_classes = counts.shape[1] * (1 if self.gamma == 1 else self.k)
        return draw_in_blocks(counts, num_classes, partial(self._draw_block, rng))

    def distribution_of(self, counts: Counts) -> Distribution:
        d = len(counts)
        classes = CanonicalClasses.all(d, self.k)
        sizes = np.array([classes.size(place) for place in range(len(classes.first))], dtype=np.float64)
        order, falling = falling_order(counts[None])
        values = -self.weight_for(d) * classes.losses(falling, self.gamma)[0]
        probabilities = largest_distribution(values, sizes, UNIT_NOISES[self.noise]) / sizes
        of_class = dict(zip(classes.names, probabilities.tolist(), strict=True))
        distribution = {}
        for ranks in combinations(range(d), self.k):  # 0-based, of which the first missing one is found
            first = next((place for place, rank in enumerate(ranks) if rank != place), self.k - 1)
            distribution[tuple(sorted(order[0, list(ranks)].tolist()))] = of_class[first + 1, ranks[-1] + 1]
        return distribution

    def _draw_block(self, rng: np.random.Generator, counts: Counts, few: bool) -> Counts:
        order, falling = falling_order(counts)
        classes = self._classes(falling, few)
        values = -self.weight_for(falling.shape[1]) * classes.losses(falling, self.gamma)
        if self.noise == "gumbel":
            classes, chosen = self._by_weight(classes, values + classes.log_sizes, falling, rng, few)
        else:
            chosen = self._largest(classes, values, falling, rng)
        return np.sort(np.take_along_axis(order, classes.members(chosen, rng), axis=1), axis=1)

    def _classes(self, falling: Counts, few: bool) -> CanonicalClasses:
        """All classes, or those of one histogram that weigh anything."""
        num_ranks = falling.shape[1]
        if self.gamma < 1 and few:
            return CanonicalClasses.all(num_ranks, self.k)
        if self.gamma < 1 and self.noise == "gumbel":
            return CanonicalClasses.likely(falling[0], self.k, weight=self.weight_for(num_ranks), gamma=self.gamma)
        everything = self._everything(falling)
        if few or self.noise != "gumbel":
            return everything
        least = falling[0, self.k - 1] - (_LOG_NEGLIGIBLE + self.k * math.log(num_ranks)) / self.weight_for(num_ranks)
        return everything.those(slice(int((falling[0] >= least).sum()) - self.k + 1))

    def _everything(self, falling: Counts) -> CanonicalClasses:
        """All classes of one long histogram."""
        if self.gamma == 1:
            return CanonicalClasses.by_worst(falling.shape[1], self.k)
        return CanonicalClasses.runs(falling[0], self.k, gamma=self.gamma)

    def _by_weight(
        self, some: CanonicalClasses, logs: Array, falling: Counts, rng: np.random.Generator, few: bool
    ) -> tuple[CanonicalClasses, Counts]:
        """The class of a set drawn by its weight, `[Q]`; among these classes or, not of a few, all."""

        def weights(row: int) -> Weights:
            known = self._weights(some, falling[row])
            return known if few else with_rest(known, _NEGLIGIBLE, lambda: self._weights(all_of_them(), falling[row]))

        def all_of_them() -> CanonicalClasses:
            return self._everything(falling).after(some)

        floats = np.exp(logs - logs.max(axis=1, keepdims=True))
        chosen = draw_index(floats, LazyUniforms.draw((len(floats),), rng), weights, some.error)
        return (some if int(chosen.max()) < floats.shape[1] else all_of_them()), chosen

    def _largest(self, classes: CanonicalClasses, values: Array, falling: Counts, rng: np.random.Generator) -> Counts:
        """By the largest of as much noise as a class has sets, plus their value."""
        losses = cache(lambda row: classes.losses(falling[row], Fraction(self.gamma)))
        any_sets = np.broadcast_to(np.isfinite(classes.log_sizes), values.shape)
        logs = np.where(any_sets, classes.log_sizes, 0.0)
        noise = draw_largest(self.noise, logs, lambda row, place: classes.size(place), rng, error=classes.error)
        weight = Fraction(self.weight_for(falling.shape[1]))
        exact = Values(values, lambda row, place: -weight * losses(row)[place])
        return largest_noisy(exact, noise, 1, any_sets)[:, 0]

    def _weights(self, classes: CanonicalClasses, falling: Counts) -> Weights:
        exponents = Fraction(self.weight_for(len(falling))) * classes.losses(falling, Fraction(self.gamma))
        return exponential_weights(exponents.tolist(), [classes.size(place) for place in range(len(exponents))])
