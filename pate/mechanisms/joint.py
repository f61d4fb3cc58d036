"""Selection of k indices as a whole, a sequence or a set, by noise on a loss with few distinct values."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import combinations, islice, permutations
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, BoundedRangeEvent, Event, PureDpEvent
from pate.accounting.special import softmax
from pate.mechanisms import top_k
from pate.mechanisms.noise.real_numbers import (
    UNIT_NOISES,
    Values,
    draw_largest,
    largest_distribution,
    largest_noisy,
)
from pate.mechanisms.noise.uniforms import (
    Array,
    LazyUniforms,
    Weights,
    draw_index,
    exponential_weights,
    with_rest,
)
from pate.mechanisms.parameters import POSITIVE, one_of
from pate.mechanisms.top_k import BoundedRangeTopK, Counts, Distribution, TopKMechanism
from pate.validation import require, rounded_up

# minus the log of the weight, relative to all sequences, below which losses are cut off
_LOG_NEGLIGIBLE = 62.0
_NEGLIGIBLE = Fraction(1, 10**26)  # above exp(-61), the share of what a window leaves out
_MOST_CLASSES = 2**25
_LOG_LEFT_OUT = -60.0  # by what probability classes outside the window win, at most
_COARSE = 32
_FINE = 48
# minus the log of the weight, relative to that of the k best, below which sets are left out
_LOG_NO_SETS = 120.0
_NO_SETS = Fraction(1, 10**50)  # above exp(-120), the share of what is left out at first
_LEVELS = 96


@dataclass(frozen=True, eq=False)
class JointClasses:
    """Classes of the sequences of k distinct ranks, rank 0 being that of the largest count.

    A class (i, first, last) holds those whose worst place is position i (the first of several), with a rank in
    first..last - 1 there. One class more, at loss 0, holds the sequence 0, 1, …, k - 1.
    """

    falling: Counts  # [Q, d], in falling order
    rows: Counts  # [n] position i of each class; k for the sequence of the k best
    first: Counts  # [n]
    last: Counts  # [n], exclusive
    order: Counts  # [Q, n] the classes by rising loss, the last position first among equal losses
    losses: Counts  # [Q, n] of the classes in this order
    log_sizes: Array  # [Q, n] logarithms of how many sequences each holds, in this order
    # losses in (low, high] are all there; (-1, largest) where nothing was left out
    window: tuple[int, int]

    @classmethod
    def of(
        cls,
        falling: Counts,
        k: int,
        *,
        each: bool = False,
        low: int = -1,
        high: int | None = None,
        log_low: float = 0.0,
    ) -> Self:
        """One class for each position and distinct count of `[1, d]`, or for `each` rank of `[Q, d]`.

        Or those with losses in (low, high], where exp(log_low) sequences have smaller ones.
        """
        counts = falling[0]
        high = int((falling[:, 0] - falling[:, -1]).max()) if high is None else high
        starts = (
            np.arange(len(counts))
            if each
            else np.flatnonzero(np.diff(counts, prepend=counts[0] + 1))
        )
        ends = np.append(starts[1:], len(counts))
        positions = np.arange(k)[::-1]
        stop, seen = (
            np.searchsorted(-counts[starts], at - counts[positions], side="right")
            for at in (high, low)
        )
        # the run of the next rank, or on
        begin = np.maximum(np.searchsorted(ends, positions + 1, side="right"), seen)
        lengths = np.maximum(stop - begin, 0)
        rows = np.repeat(positions, lengths)
        runs = np.arange(lengths.sum()) + np.repeat(begin - np.cumsum(lengths) + lengths, lengths)
        first = np.maximum(starts[runs], rows + 1)
        last = ends[runs]
        # All sequences up to a loss are a product of k factors, one a position: the ranks in reach, less those used
        # before. A class (i, first, last) raises the i-th from first - i to last - i; what it adds is last - first of
        # first - i. The first class finds a total of exp(log_low) sequences.
        steps = np.append(log_low, np.log((last - rows) / (first - rows)))
        parts = np.append(0.0, np.log((last - first) / (first - rows)))
        rows = np.append(k, rows)
        first = np.append(0, first)
        last = np.append(1, last)
        order, losses = top_k.stable_sort(falling[:, np.minimum(rows, first)] - falling[:, first])
        before = np.cumsum(steps[order], axis=1) - steps[order]
        return cls(falling, rows, first, last, order, losses, before + parts[order], (low, high))

    @classmethod
    def likely(cls, falling: Counts, k: int, *, weight: float) -> Self:
        """The classes of `[1, d]` by distinct counts, but for losses l, small or large, that weigh next to nothing.

        All of these together weigh, by exp(-weight l), less than exp(-61) times all sequences.
        """
        counts = falling[0]
        largest = int(counts[0] - counts[-1])
        low = 0
        high = largest
        log_low = 0.0
        levels = np.append(np.geomspace(1, max(largest, 1), _COARSE).astype(np.int64), [0, largest])
        for more in (0, _FINE):
            levels = np.unique(
                np.append(levels, np.linspace(max(low, 0), high, more).astype(np.int64))
            )
            reach = np.searchsorted(-counts, levels[:, None] - counts[:k], side="right")
            log_totals = np.log(reach - np.arange(k)).sum(axis=1)
            # all sequences up to a level weigh at least that
            negligible = (log_totals - weight * levels).max() - _LOG_NEGLIGIBLE
            # of losses in (level, next level], at most
            parts = log_totals[1:] - weight * (levels[:-1] + 1.0)
            tails = np.append(np.logaddexp.accumulate(parts[::-1])[::-1], -np.inf)
            heads = np.logaddexp.accumulate(np.append(log_totals[0], parts))
            high = int(levels[np.flatnonzero(tails < negligible)[0]])
            last = np.count_nonzero(heads < negligible) - 1  # heads rise
            low, log_low = (-1, 0.0) if last < 0 else (int(levels[last]), float(log_totals[last]))
        return cls.of(falling, k, low=low, high=high, log_low=log_low)

    @property
    def error(self) -> float:
        """How far a logarithm can be off: each is a running sum."""
        return float((self.log_sizes.shape[1] + 8) * 2.0**-52 * (1 + np.abs(self.log_sizes).max()))

    def sizes(self, row: int) -> Iterator[int]:
        """How many sequences each class of one histogram holds, exactly, in its order."""
        k = int(self.rows[0])
        low = self.window[0]
        falling = self.falling[row]
        total = 1
        if low >= 0:  # how many have at most that loss
            reach = np.searchsorted(-falling, low - falling[:k], side="right")
            total = math.prod(n - used for used, n in enumerate(reach.tolist()))
        for place in self.order[row].tolist():
            position, first, last = (
                int(ranks[place]) for ranks in (self.rows, self.first, self.last)
            )
            size = 1 if place == 0 else total * (last - first) // (first - position)
            yield size
            total += size if place else 0

    def after(self, window: Self) -> tuple[Self, Counts]:
        """All classes of one histogram with those of a window first, in its order; also where each was before."""
        low, high = window.window
        inside = (self.order[0] == 0) | ((self.losses[0] > low) & (self.losses[0] <= high))
        places = np.argsort(~inside, kind="stable")
        parts = {name: getattr(self, name)[:, places] for name in ("order", "losses", "log_sizes")}
        return replace(self, **parts), places

    def members(self, chosen: Counts, rng: np.random.Generator) -> Counts:
        """A uniform sequence of one class of each histogram: `[Q, k]` ranks, from indices `[Q]` into the order."""
        at = np.arange(len(chosen))
        places = self.order[at, chosen]
        rows = self.rows[places]
        k = int(self.rows[0])
        ranks = rng.integers(self.first[places], self.last[places])
        # how many of the best ranks may stand at each position; fewer before the position that decides
        floors = self.falling[:, :k] - (
            self.losses[at, chosen][:, None] - (np.arange(k) <= rows[:, None])
        )
        if len(floors) == 1:
            reach = np.searchsorted(-self.falling[0], -floors, side="right")
        else:
            reach = (self.falling[:, None, :] >= floors[:, :, None]).sum(axis=2)
        reach = np.maximum(reach, np.arange(1, k + 1))
        width = max(int(reach.max()), int(ranks.max()) + 1)
        left = np.tile(np.arange(width), (len(chosen), 1))
        # ranks already used stand before `position`; those in reach stay in reach
        for position in range(k):
            picked = np.where(rows == position, ranks, rng.integers(position, reach[:, position]))
            left[at, picked], left[at, position] = left[at, position], left[at, picked]
        return left[:, :k]


@dataclass(frozen=True, kw_only=True)
class JointMechanism(TopKMechanism):
    """Selects a sequence by noise on its loss: the most by which a count falls short of the count due at its place."""

    @property
    @abstractmethod
    def weight(self) -> float:
        """By what a loss is multiplied: epsilon over `range_of_losses`."""

    @property
    def range_of_losses(self) -> int:
        """The most by which two losses move against each other; for one index the largest count is in both alike."""
        return self.adjacency.gap_sensitivity if self.k == 1 else self.adjacency.gap_range

    @abstractmethod
    def choose(
        self, falling: Counts, few: bool, rng: np.random.Generator
    ) -> tuple[JointClasses, Counts]:
        """Classes, of one long histogram or of a few sequences, and which of them the winner of each row is in."""

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws sets of k labels for each query, `[Q, k]`."""
        # Many places are weighed by runs of equal counts. `JointTopK` looks at the losses at both ends, whose sequences
        # together win with a probability below exp(-60), only if its uniform number falls there.
        return top_k.draw_in_blocks(
            counts, self.k * counts.shape[1], partial(self._draw_block, rng)
        )

    def class_counts(self, counts: NDArray[np.integer]) -> dict[int, int]:
        """How many sequences of k indices have each loss, exactly, for one histogram `[d]`."""
        falling = -np.sort(-self._checked(counts, rank=1))
        losses = np.unique(np.maximum(falling[: self.k, None] - falling, 0))
        # [losses, k]
        reach = np.searchsorted(-falling, losses[:, None] - falling[: self.k], side="right")
        totals = [
            math.prod(max(0, n - used) for used, n in enumerate(row)) for row in reach.tolist()
        ]
        sizes = [total - before for total, before in zip(totals, [0, *totals], strict=False)]
        return {loss: size for loss, size in zip(losses.tolist(), sizes, strict=True) if size}

    def losses_of(self, counts: Counts) -> tuple[list[tuple[int, ...]], Array]:
        """All sequences and their losses, from the definition."""
        outcomes = list(permutations(range(len(counts)), self.k))
        best = -np.sort(-counts)[: self.k]
        return outcomes, (best - counts[np.array(outcomes)]).max(axis=1).astype(np.float64)

    def _draw_block(self, rng: np.random.Generator, counts: Counts, few: bool) -> Counts:
        order, falling = top_k.falling_order(counts)
        classes, chosen = self.choose(falling, few, rng)
        return np.take_along_axis(order, classes.members(chosen, rng), axis=1)


@dataclass(frozen=True, kw_only=True)
class JointTopK(JointMechanism, BoundedRangeTopK):
    """Draws a sequence of k indices by the exponential mechanism on the loss of its worst position.

    Formal guarantee: losses of two sequences move against each other by at most 4 (replace-one) or 2 (add/remove), half
    of that for k = 1, so the release has a bounded range of `epsilon`, whatever k is; the order is included.
    Source: Gillenwater, Joseph, Munoz Medina & Ribero 2022; docs/proofs/top_k.md.

    >>> JointTopK(k=2, epsilon=1.0).class_counts(np.array([3, 2, 2, 0]))  # loss: number of sequences
    {0: 2, 1: 4, 2: 3, 3: 3}
    """

    @property
    def weight(self) -> float:
        """The factor of losses in the exponent."""
        return self.range_of() / self.range_of_losses

    @property
    def event(self) -> Event:
        """The price of one query."""
        return BoundedRangeEvent(self.range_of())

    def choose(
        self, falling: Counts, few: bool, rng: np.random.Generator
    ) -> tuple[JointClasses, Counts]:
        """Draws a set of k labels for rows of falling counts."""
        every = partial(JointClasses.of, falling, self.k, each=few)
        some = every() if few else JointClasses.likely(falling, self.k, weight=self.weight)

        def exactly(losses: Counts, sizes: list[int]) -> Weights:
            return exponential_weights(
                [Fraction(self.weight) * loss for loss in losses.tolist()], sizes
            )

        def everything() -> Weights:
            (reordered, places) = every().after(some)
            sizes = [*every().sizes(0)]
            return exactly(reordered.losses[0], [sizes[place] for place in places.tolist()])

        def weights(row: int) -> Weights:
            known = exactly(some.losses[row], [*some.sizes(row)])
            whole = few or some.window == (-1, int(falling[0, 0] - falling[0, -1]))
            return known if whole else with_rest(known, _NEGLIGIBLE, everything)

        chosen = _drawn_class(some.log_sizes - self.weight * some.losses, weights, some.error, rng)
        return (
            some if int(chosen.max()) < some.losses.shape[1] else every().after(some)[0]
        ), chosen

    def distribution_of(self, counts: Counts) -> Distribution:
        """Returns the probability of each set for one histogram."""
        outcomes, losses = self.losses_of(counts)
        return dict(zip(outcomes, softmax(-self.weight * losses).tolist(), strict=True))


def _drawn_class(logs: Array, weights: Any, error: float, rng: np.random.Generator) -> Counts:
    """A class of each row by its weight: the logarithm, and for a row the exact ones, with what they leave out last."""
    floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    return draw_index(floats, LazyUniforms.draw((len(floats),), rng), weights, error)


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlipJointTopK(JointMechanism):
    """Draws a sequence of k indices by exponential noise on the loss of its worst position, as in `JointTopK`.

    Formal guarantee: (epsilon, failure_prob)-DP, whatever k is, with the order; the zCDP price is that of epsilon-DP.

    Attributes:
        epsilon: pure DP, > 0.
        failure_prob: in [0, 1). Above 2**25 pairs of a place and a distinct count, classes that win with a probability
            below exp(-60) are left out; this takes a failure_prob of exp(-60) (1 + exp(epsilon)) or more.

    Source: Shekelyan & Loukides 2022; docs/proofs/top_k.md.

    >>> mechanism = PermuteAndFlipJointTopK(k=2, epsilon=9.0, adjacency="add_remove")
    >>> distribution = mechanism.distribution(np.array([5, 1, 0]))
    >>> max(distribution, key=distribution.get)
    (0, 1)
    """

    epsilon: float = field(metadata=POSITIVE)
    failure_prob: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.failure_prob < 1, "failure_prob", self.failure_prob, "a number in [0, 1)")

    @property
    def weight(self) -> float:
        """The factor of losses in the exponent."""
        return self.epsilon / self.range_of_losses

    @property
    def event(self) -> Event:
        """The price of one query."""
        pure = PureDpEvent(self.epsilon)
        return ApproximateEvent(pure, self.failure_prob) if self.failure_prob else pure

    def choose(
        self, falling: Counts, few: bool, rng: np.random.Generator
    ) -> tuple[JointClasses, Counts]:
        """By the largest of as many exponential variables as a class has members, plus their value."""
        if few or self.k * (1 + np.count_nonzero(np.diff(falling[0]))) <= _MOST_CLASSES:
            classes = JointClasses.of(falling, self.k, each=few)
        else:  # those that win with a probability above exp(-60)
            least = _LOG_LEFT_OUT + np.logaddexp(0.0, self.epsilon)
            needed = (
                f"{rounded_up(math.exp(least), 2)} or more"
                if least < 0
                else "a smaller epsilon, or JointTopK"
            )
            require(
                math.log(self.failure_prob or 5e-324) >= least,
                "failure_prob",
                self.failure_prob,
                needed,
            )
            classes = JointClasses.likely(falling, self.k, weight=self.weight)

        @lru_cache(8)
        def size(row: int, place: int) -> int:  # all of a million at once do not fit into memory
            return next(islice(classes.sizes(row), place, None))

        noise = draw_largest("exponential", classes.log_sizes, size, rng, error=classes.error)
        weight = Fraction(self.weight)
        exact = Values(
            -self.weight * classes.losses.astype(np.float64),
            lambda *place: -weight * int(classes.losses[place]),
        )
        return classes, largest_noisy(exact, noise, 1)[:, 0]

    def distribution_of(self, counts: Counts) -> Distribution:
        """Returns the probability of each set for one histogram."""
        outcomes, losses = self.losses_of(counts)
        values, member_of, sizes = np.unique(losses, return_inverse=True, return_counts=True)
        of_class = largest_distribution(
            -self.weight * values, sizes.astype(np.float64), UNIT_NOISES["exponential"]
        )
        return dict(zip(outcomes, (of_class / sizes)[member_of].tolist(), strict=True))


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
            low + 1 + int(_drawn_class(logs[None], lambda row: lambda digits: sizes, error, rng)[0])
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
        require(
            self.rho is None or self.noise == "gumbel",
            "rho",
            self.rho,
            f"epsilon with noise={self.noise}",
        )

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
        """The price of one query."""
        return (
            BoundedRangeEvent(self.range_of())
            if self.noise == "gumbel"
            else PureDpEvent(self.range_of())
        )

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws sets of k labels for each query, `[Q, k]`."""
        num_classes = counts.shape[1] * (1 if self.gamma == 1 else self.k)
        return top_k.draw_in_blocks(counts, num_classes, partial(self._draw_block, rng))

    def distribution_of(self, counts: Counts) -> Distribution:
        """Returns the probability of each set for one histogram."""
        d = len(counts)
        classes = CanonicalClasses.all(d, self.k)
        sizes = np.array(
            [classes.size(place) for place in range(len(classes.first))], dtype=np.float64
        )
        order, falling = top_k.falling_order(counts[None])
        values = -self.weight_for(d) * classes.losses(falling, self.gamma)[0]
        probabilities = largest_distribution(values, sizes, UNIT_NOISES[self.noise]) / sizes
        of_class = dict(zip(classes.names, probabilities.tolist(), strict=True))
        distribution = {}
        # 0-based, of which the first missing one is found
        for ranks in combinations(range(d), self.k):
            first = next((place for place, rank in enumerate(ranks) if rank != place), self.k - 1)
            distribution[tuple(sorted(order[0, list(ranks)].tolist()))] = of_class[
                first + 1, ranks[-1] + 1
            ]
        return distribution

    def _draw_block(self, rng: np.random.Generator, counts: Counts, few: bool) -> Counts:
        order, falling = top_k.falling_order(counts)
        some = self._classes(falling, few)
        weight = Fraction(self.weight_for(falling.shape[1]))
        values = -float(weight) * some.losses(falling, self.gamma)

        def exactly(classes: CanonicalClasses, row: int) -> Weights:
            exponents = weight * classes.losses(falling[row], Fraction(self.gamma))
            return exponential_weights(
                exponents.tolist(), [classes.size(place) for place in range(len(exponents))]
            )

        def every() -> CanonicalClasses:
            return CanonicalClasses.runs(falling[0], self.k, gamma=self.gamma).after(some)

        def weights(row: int) -> Weights:
            known = exactly(some, row)
            return known if few else with_rest(known, _NO_SETS, lambda: exactly(every(), row))

        if self.noise == "gumbel":  # by weight, among these classes or, not of a few, all
            chosen = _drawn_class(values + some.log_sizes, weights, some.error, rng)
        else:  # by the largest of as much noise as a class has sets, plus their value
            any_sets = np.broadcast_to(np.isfinite(some.log_sizes), values.shape)
            logs, size = (
                np.where(any_sets, some.log_sizes, 0.0),
                lambda row, place: some.size(place),
            )
            noise = draw_largest(self.noise, logs, size, rng, error=some.error)
            losses = cache(lambda row: some.losses(falling[row], Fraction(self.gamma)))
            exact = Values(values, lambda row, place: -weight * losses(row)[place])
            chosen = largest_noisy(exact, noise, 1, any_sets)[:, 0]
        classes = some if int(chosen.max()) < values.shape[1] else every()
        return np.sort(np.take_along_axis(order, classes.members(chosen, rng), axis=1), axis=1)

    def _classes(self, falling: Counts, few: bool) -> CanonicalClasses:
        """All classes, or those of one histogram that weigh anything."""
        num_ranks = falling.shape[1]
        some = not few and self.noise == "gumbel"
        weight = self.weight_for(num_ranks)
        if self.gamma < 1 and few:
            return CanonicalClasses.all(num_ranks, self.k)
        if self.gamma < 1 and some:
            return CanonicalClasses.likely(falling[0], self.k, weight=weight, gamma=self.gamma)
        everything = CanonicalClasses.runs(falling[0], self.k, gamma=self.gamma)
        if not some:
            return everything
        least = falling[0, self.k - 1] - (_LOG_NO_SETS + self.k * math.log(num_ranks)) / weight
        return everything.those(slice(int((falling[0] >= least).sum()) - self.k + 1))
