"""Joint selection of a sequence of k indices by its worst place."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import islice, permutations

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, BoundedRangeEvent, Event, PureDpEvent
from pate.accounting.special import softmax
from pate.mechanisms import top_k
from pate.mechanisms.noise.kinds import UNIT_NOISES, largest_distribution
from pate.mechanisms.noise.noisy_order import Values, draw_largest, largest_noisy
from pate.mechanisms.noise.uniforms import LazyUniforms, Weights, draw_index, exponential_weights, with_rest
from pate.mechanisms.parameters import POSITIVE
from pate.mechanisms.top_k import Array, BoundedRangeTopK, Counts, Distribution, TopKMechanism
from pate.validation import require, rounded_up

_LOG_NEGLIGIBLE = 62.0  # minus the log of the weight, relative to all sequences, below which losses are cut off
_NEGLIGIBLE = Fraction(1, 10**26)  # above exp(-61), the share of what a window leaves out
_MOST_CLASSES = 2**25
_LOG_LEFT_OUT = -60.0  # by what probability classes outside the window win, at most
_COARSE, _FINE = 32, 48


@dataclass(frozen=True, eq=False)
class JointClasses:
    """Classes of the sequences of k distinct ranks, rank 0 being that of the largest count.

    A class (i, first, last) holds the sequences whose worst place is position i, with a rank in first..last - 1 there.
    Of several worst places the first position decides. One class more, at loss 0, holds the sequence 0, 1, …, k - 1.
    """

    falling: Counts  # [Q, d], in falling order
    rows: Counts  # [n] position i of each class; k for the sequence of the k best
    first: Counts  # [n]
    last: Counts  # [n], exclusive
    order: Counts  # [Q, n] the classes by rising loss, the last position first among equal losses
    losses: Counts  # [Q, n] of the classes in this order
    log_sizes: Array  # [Q, n] logarithms of how many sequences each holds, in this order
    window: tuple[int, int]  # losses in (low, high] are all there; (-1, largest) where nothing was left out

    @classmethod
    def all(cls, falling: Counts, k: int) -> JointClasses:
        """Every class, one for each position and rank: k d of them, for a batch `[Q, d]`."""
        rows, first = _all_places(falling.shape[1], k)
        return cls._of(falling, k, rows, first, first + 1, (-1, int((falling[:, 0] - falling[:, -1]).max())))

    @classmethod
    def likely(cls, falling: Counts, k: int, *, weight: float) -> JointClasses:
        """The classes of one histogram `[1, d]` that weigh anything, one for each position and distinct count.

        Others have losses l, smaller or larger, and together weigh, by exp(-weight l), less than exp(-61) times all
        sequences. The best sequence is always there.
        """
        return cls.runs(falling, k, *_window(falling[0], k, weight))

    @classmethod
    def runs(
        cls, falling: Counts, k: int, low: int = -1, high: int | None = None, log_below: float = 0.0
    ) -> JointClasses:
        """All classes of one histogram `[1, d]`, one for each position and distinct count, or those in (low, high]."""
        counts = falling[0]
        high = int(counts[0] - counts[-1]) if high is None else high
        starts = np.flatnonzero(np.diff(counts, prepend=counts[0] + 1))
        ends, values = np.append(starts[1:], len(counts)), counts[starts]
        positions = np.arange(k)[::-1]
        stop, seen = (np.searchsorted(-values, loss - counts[positions], side="right") for loss in (high, low))
        begin = np.maximum(np.searchsorted(ends, positions + 1, side="right"), seen)  # the run of the next rank, or on
        lengths = np.maximum(stop - begin, 0)
        rows = np.repeat(positions, lengths)
        runs = np.arange(lengths.sum()) + np.repeat(begin - np.cumsum(lengths) + lengths, lengths)
        return cls._of(falling, k, rows, np.maximum(starts[runs], rows + 1), ends[runs], (low, high), log_below)

    @classmethod
    def _of(
        cls,
        falling: Counts,
        k: int,
        rows: Counts,
        first: Counts,
        last: Counts,
        window: tuple[int, int],
        log_below: float = 0.0,
    ) -> JointClasses:
        """The class of the k best, and these; the first of them finds a total of exp(log_below) sequences."""
        # All sequences up to a loss are a product of k factors, one a position: the ranks in reach, less those used
        # before. A class (i, first, last) raises the i-th from first - i to last - i; what it adds is last - first of
        # first - i.
        steps = np.append(log_below, np.log((last - rows) / (first - rows)))
        parts = np.append(0.0, np.log((last - first) / (first - rows)))
        rows, first, last = np.append(k, rows), np.append(0, first), np.append(1, last)
        order, losses = top_k.stable_sort(falling[:, np.minimum(rows, first)] - falling[:, first])
        before = np.cumsum(steps[order], axis=1) - steps[order]
        return cls(falling, rows, first, last, order, losses, before + parts[order], window)

    @property
    def error(self) -> float:
        """How far a logarithm can be off: each is a running sum."""
        return float((self.log_sizes.shape[1] + 8) * 2.0**-52 * (1 + np.abs(self.log_sizes).max()))

    def sizes(self, row: int) -> Iterator[int]:
        """How many sequences each class of one histogram holds, exactly, in its order."""
        k, low, falling, total = int(self.rows[0]), self.window[0], self.falling[row], 1
        if low >= 0:  # how many have at most that loss
            reach = np.searchsorted(-falling, low - falling[:k], side="right")
            total = math.prod(n - used for used, n in enumerate(reach.tolist()))
        for place in self.order[row].tolist():
            position, first, last = (int(ranks[place]) for ranks in (self.rows, self.first, self.last))
            size = 1 if place == 0 else total * (last - first) // (first - position)
            yield size
            total += size if place else 0

    def after(self, window: JointClasses) -> tuple[JointClasses, Counts]:
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
        rows, k = self.rows[places], int(self.rows[0])
        ranks = rng.integers(self.first[places], self.last[places])
        # how many of the best ranks may stand at each position; fewer before the position that decides
        floors = self.falling[:, :k] - (self.losses[at, chosen][:, None] - (np.arange(k) <= rows[:, None]))
        if len(floors) == 1:
            reach = np.searchsorted(-self.falling[0], -floors, side="right")
        else:
            reach = (self.falling[:, None, :] >= floors[:, :, None]).sum(axis=2)
        reach = np.maximum(reach, np.arange(1, k + 1))
        width = max(int(reach.max()), int(ranks.max()) + 1)
        left = np.tile(np.arange(width), (len(chosen), 1))
        for position in range(k):  # ranks already used stand before `position`; those in reach stay in reach
            picked = np.where(rows == position, ranks, rng.integers(position, reach[:, position]))
            left[at, picked], left[at, position] = left[at, position], left[at, picked]
        return left[:, :k]


@lru_cache(maxsize=32)
def _all_places(num_indices: int, k: int) -> tuple[Counts, Counts]:
    rows, first = np.triu_indices(k, 1, num_indices)
    last_row_first = np.argsort(-rows, kind="stable")
    return rows[last_row_first], first[last_row_first]


def _window(falling: Counts, k: int, weight: float) -> tuple[int, int, float]:
    """Losses (low, high], all sequences outside being negligible, and the logarithm of how many have up to low."""
    largest = int(falling[0] - falling[-1])
    low, high, log_below = 0, largest, 0.0
    levels = np.append(np.geomspace(1, max(largest, 1), _COARSE).astype(np.int64), [0, largest])
    for more in (0, _FINE):
        levels = np.unique(np.append(levels, np.linspace(max(low, 0), high, more).astype(np.int64)))
        reach = np.searchsorted(-falling, levels[:, None] - falling[:k], side="right")
        log_totals = np.log(reach - np.arange(k)).sum(axis=1)
        # all sequences up to a level weigh at least that
        negligible = (log_totals - weight * levels).max() - _LOG_NEGLIGIBLE
        parts = log_totals[1:] - weight * (levels[:-1] + 1.0)  # of losses in (level, next level], at most
        tails = np.append(np.logaddexp.accumulate(parts[::-1])[::-1], -np.inf)
        heads = np.logaddexp.accumulate(np.append(log_totals[0], parts))
        high = int(levels[np.flatnonzero(tails < negligible)[0]])
        last = np.count_nonzero(heads < negligible) - 1  # heads rise
        low, log_below = (-1, 0.0) if last < 0 else (int(levels[last]), float(log_totals[last]))
    return low, high, log_below


@dataclass(frozen=True, kw_only=True)
class JointMechanism(TopKMechanism):
    """Selects a sequence by noise on its loss: the most by which a count falls short of the count due at its place."""

    @abstractmethod
    def classes_of(self, falling: Counts) -> JointClasses:
        """The classes of one long histogram `[1, d]` that `choose` needs at first."""

    @property
    @abstractmethod
    def weight(self) -> float:
        """By what a loss is multiplied: epsilon over the range by which two losses move against each other."""

    @property
    def range_of_losses(self) -> int:
        """The most by which two losses move against each other; for one index the largest count is in both alike."""
        return self.adjacency.gap_sensitivity if self.k == 1 else self.adjacency.gap_range

    @abstractmethod
    def choose(self, classes: JointClasses, values: Array, rng: np.random.Generator) -> tuple[JointClasses, Counts]:
        """The class of the winner, `[Q]`, from the value that the members of each share; among these classes or all."""

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        # Many places are weighed by runs of equal counts. `JointTopK` looks at the losses at both ends, whose sequences
        # together win with a probability below exp(-60), only if its uniform number falls there.
        return top_k.draw_in_blocks(counts, self.k * counts.shape[1], partial(self._draw_block, rng))

    def class_counts(self, counts: NDArray[np.integer]) -> dict[int, int]:
        """How many sequences of k indices have each loss, exactly, for one histogram `[d]`."""
        falling = -np.sort(-self._checked(counts, rank=1))
        losses = np.unique(np.maximum(falling[: self.k, None] - falling, 0))
        reach = np.searchsorted(-falling, losses[:, None] - falling[: self.k], side="right")  # [losses, k]
        totals = [math.prod(max(0, n - used) for used, n in enumerate(row)) for row in reach.tolist()]
        sizes = [total - before for total, before in zip(totals, [0, *totals], strict=False)]
        return {loss: size for loss, size in zip(losses.tolist(), sizes, strict=True) if size}

    def losses_of(self, counts: Counts) -> tuple[list[tuple[int, ...]], Array]:
        """All sequences and their losses, from the definition."""
        outcomes = list(permutations(range(len(counts)), self.k))
        best = -np.sort(-counts)[: self.k]
        return outcomes, (best - counts[np.array(outcomes)]).max(axis=1).astype(np.float64)

    def _draw_block(self, rng: np.random.Generator, counts: Counts, few: bool) -> Counts:
        order, falling = top_k.falling_order(counts)
        classes = JointClasses.all(falling, self.k) if few else self.classes_of(falling)
        classes, chosen = self.choose(classes, -self.weight * classes.losses.astype(np.float64), rng)
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
        return self.range_of() / self.range_of_losses

    @property
    def event(self) -> Event:
        return BoundedRangeEvent(self.range_of())

    def classes_of(self, falling: Counts) -> JointClasses:
        return JointClasses.likely(falling, self.k, weight=self.weight)

    def choose(self, classes: JointClasses, values: Array, rng: np.random.Generator) -> tuple[JointClasses, Counts]:
        """By weight: the size of a class times exp of its value. Outside of the window only where it takes that."""
        logs = values + classes.log_sizes
        floats = np.exp(logs - logs.max(axis=1, keepdims=True))
        uniforms, error = LazyUniforms.draw((len(floats),), rng), classes.error
        chosen = draw_index(floats, uniforms, lambda row: self._weights(classes, row), error)
        if int(chosen.max()) < floats.shape[1]:
            return classes, chosen
        return JointClasses.runs(classes.falling, self.k).after(classes)[0], chosen

    def _weights(self, classes: JointClasses, row: int) -> Weights:
        some, falling = self._exactly(classes.losses[row], [*classes.sizes(row)]), classes.falling[row]
        if len(classes.falling) > 1 or classes.window == (-1, int(falling[0] - falling[-1])):
            return some

        def everything() -> Weights:
            runs = JointClasses.runs(classes.falling, self.k)
            reordered, places = runs.after(classes)
            sizes = [*runs.sizes(0)]
            return self._exactly(reordered.losses[0], [sizes[place] for place in places.tolist()])

        return with_rest(some, _NEGLIGIBLE, everything)

    def _exactly(self, losses: Counts, sizes: list[int]) -> Weights:
        return exponential_weights([Fraction(self.weight) * loss for loss in losses.tolist()], sizes)

    def distribution_of(self, counts: Counts) -> Distribution:
        outcomes, losses = self.losses_of(counts)
        return dict(zip(outcomes, softmax(-self.weight * losses).tolist(), strict=True))


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlipJointTopK(JointMechanism):
    """Draws a sequence of k indices by exponential noise on the loss of its worst position, as in `JointTopK`.

    Formal guarantee: epsilon-DP, whatever k is, the order included; its zCDP price is that of epsilon-DP. With a
    `failure_prob`, (epsilon, failure_prob)-DP.

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
        return self.epsilon / self.range_of_losses

    @property
    def event(self) -> Event:
        pure = PureDpEvent(self.epsilon)
        return ApproximateEvent(pure, self.failure_prob) if self.failure_prob else pure

    def classes_of(self, falling: Counts) -> JointClasses:
        """All of them, or where they are too many those that win with a probability above exp(-60)."""
        num_classes = self.k * (1 + np.count_nonzero(np.diff(falling[0])))
        if num_classes <= _MOST_CLASSES:
            return JointClasses.runs(falling, self.k)
        least = _LOG_LEFT_OUT + np.logaddexp(0.0, self.epsilon)
        needed = f"{rounded_up(math.exp(least), 2)} or more" if least < 0 else "a smaller epsilon, or JointTopK"
        require(math.log(self.failure_prob or 5e-324) >= least, "failure_prob", self.failure_prob, needed)
        return JointClasses.likely(falling, self.k, weight=self.weight)

    def choose(self, classes: JointClasses, values: Array, rng: np.random.Generator) -> tuple[JointClasses, Counts]:
        """By the largest of as many exponential variables as a class has members, plus their value."""

        @lru_cache(8)
        def size(row: int, place: int) -> int:  # all of a million at once do not fit into memory
            return next(islice(classes.sizes(row), place, None))

        noise = draw_largest("exponential", classes.log_sizes, size, rng, error=classes.error)
        exact = Values(values, lambda row, place: -Fraction(self.weight) * int(classes.losses[row, place]))
        return classes, largest_noisy(exact, noise, 1)[:, 0]

    def distribution_of(self, counts: Counts) -> Distribution:
        outcomes, losses = self.losses_of(counts)
        values, member_of, sizes = np.unique(losses, return_inverse=True, return_counts=True)
        of_class = largest_distribution(-self.weight * values, sizes.astype(np.float64), UNIT_NOISES["exponential"])
        return dict(zip(outcomes, (of_class / sizes)[member_of].tolist(), strict=True))
