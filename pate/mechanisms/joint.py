"""Joint selection of a sequence of k indices by its worst place, without listing the sequences."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from pate.accounting import BoundedRangeEvent, Event
from pate.mechanisms.noise import NOISES, Noise
from pate.mechanisms.top_k import Array, Counts, Law, TopKMechanism, bounded_range_of, sequences


@dataclass(frozen=True, eq=False)
class JointClasses:
    """The sequences of k distinct indices by the place (i, j) that decides their loss.

    The loss of a sequence s is max over i of c(i) - h(s_i), where c are the counts h in falling order. Place (i, j)
    puts the j-th best index in position i. A rule for ties makes all places distinct, so that exactly one is the worst
    of each sequence.

    Attributes:
        order: `[d]` the indices in falling order of their counts, ties to the lowest.
        rows: `[k d]` position i of each place, places in rising order of their loss.
        columns: `[k d]` rank j of each place.
        losses: `[k d]` c(i) - c(j).
        reach: `[k d, k]` how many of the best indices may stand at each position without being worse than the place.
    """

    order: NDArray[np.int64]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    losses: NDArray[np.int64]
    reach: NDArray[np.int64]

    @classmethod
    def of(cls, counts: Counts, k: int) -> JointClasses:
        """The classes of one histogram `[d]`."""
        d = len(counts)
        order = np.argsort(-counts, kind="stable")
        falling = counts[order]
        losses = (falling[:k, None] - falling).ravel()
        rows, columns = np.divmod(np.arange(k * d), d)
        ascending = np.lexsort((d * (k - 1 - rows) + columns, losses))
        rows = rows[ascending]
        reach = np.cumsum(rows[:, None] == np.arange(k), axis=0)
        return cls(order, rows, columns[ascending], losses[ascending], reach)

    @cached_property
    def log_sizes(self) -> Array:
        """`[k d]` the logarithm of how many sequences each place decides; -inf where none."""
        free = self.reach - np.arange(self.reach.shape[1])
        free[np.arange(len(self.rows)), self.rows] = 1
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(free, 0)).sum(axis=1))

    def counts_by_loss(self) -> dict[int, int]:
        """How many sequences have each loss, exactly."""
        sizes: dict[int, int] = {}
        for row, loss, reach in zip(self.rows.tolist(), self.losses.tolist(), self.reach.tolist(), strict=True):
            size = 1
            for position, ready in enumerate(reach):
                size *= 1 if position == row else max(0, ready - position)
            if size:
                sizes[loss] = sizes.get(loss, 0) + size
        return sizes

    def member(self, place: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """A uniform sequence among those that the place decides: `[k]` indices."""
        row, column = int(self.rows[place]), int(self.columns[place])
        chosen, sequence = {column}, []
        for position, ready in enumerate(self.reach[place].tolist()):
            rank = column
            while position != row and rank in chosen:
                rank = int(rng.integers(ready))
            chosen.add(rank)
            sequence.append(rank)
        return np.asarray(self.order[sequence])


@dataclass(frozen=True, kw_only=True)
class JointMechanism(TopKMechanism):
    """Selects a sequence by noise on its loss: subclasses choose the noise."""

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """The noise on each sequence's loss, at scale 1."""

    @property
    @abstractmethod
    def weight(self) -> float:
        """By what a loss is multiplied: epsilon over the range by which two losses move against each other."""

    def draw(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draws for checked counts `[Q, d]`: `[Q, k]`; takes k**2 d steps a query."""
        return np.stack([self._draw_one(row, rng) for row in counts])

    def class_counts(self, counts: NDArray[np.integer]) -> dict[int, int]:
        """How many sequences of k indices have each loss, for one histogram `[d]`."""
        return JointClasses.of(self._checked(counts, rank=1), self.k).counts_by_loss()

    def losses_of(self, counts: Counts) -> tuple[list[tuple[int, ...]], Array]:
        """All sequences and their losses, from the definition."""
        outcomes = list(sequences(len(counts), self.k))
        best = -np.sort(-counts)[: self.k]
        return outcomes, (best - counts[np.array(outcomes)]).max(axis=1).astype(np.float64)

    def _draw_one(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        classes = JointClasses.of(counts, self.k)
        possible = np.flatnonzero(np.isfinite(classes.log_sizes))
        noisy = self.noise.largest_of(classes.log_sizes[possible], rng) - self.weight * classes.losses[possible]
        return classes.member(int(possible[noisy.argmax()]), rng)


@dataclass(frozen=True, kw_only=True)
class JointTopK(JointMechanism):
    """Draws a sequence of k indices by the exponential mechanism on its worst place.

    Formal guarantee: losses of two sequences move against each other by at most 4 (replace-one) or 2 (add/remove), so
    the release has a bounded range, whatever k is; the order is included.

    Attributes:
        epsilon: the bounded range, hence pure DP, > 0; or
        rho: its zCDP, > 0. Exactly one of the two.

    Source: Gillenwater, Joseph, Munoz Medina & Ribero 2022; docs/proofs/top_k.md.

    >>> JointTopK(k=2, epsilon=1.0).class_counts(np.array([3, 2, 2, 0]))  # loss: number of sequences
    {0: 2, 1: 4, 2: 3, 3: 3}
    """

    epsilon: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        bounded_range_of(self.epsilon, self.rho)

    @property
    def noise(self) -> Noise:
        """Gumbel."""
        return NOISES["gumbel"]

    @property
    def weight(self) -> float:
        """By what a loss is multiplied."""
        return bounded_range_of(self.epsilon, self.rho) / self.adjacency.gap_range

    @property
    def event(self) -> Event:
        """One bounded range."""
        return BoundedRangeEvent(bounded_range_of(self.epsilon, self.rho))

    def law_of(self, counts: Counts) -> Law:
        """The exact law for checked counts `[d]`, over ordered tuples."""
        outcomes, losses = self.losses_of(counts)
        return dict(zip(outcomes, softmax(-self.weight * losses).tolist(), strict=True))
