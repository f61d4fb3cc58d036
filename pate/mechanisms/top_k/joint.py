"""Joint selection of a sequence of k indices by its worst place."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from pate.accounting import BoundedRangeEvent, Event
from pate.mechanisms.noise.softmax import draw_softmax
from pate.mechanisms.ranking import falling_order
from pate.mechanisms.top_k.joint_classes import JointClasses, count_by_loss
from pate.mechanisms.top_k.top_k import Array, Counts, Distribution, TopKMechanism, bounded_range_of, sequences

_FEW_PLACES = 16_384
_PLACES_AT_ONCE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class JointMechanism(TopKMechanism):
    """Selects a sequence by noise on its loss: subclasses choose the noise.

    The loss of a sequence is the most by which a count falls short of the count that is due at its place. Few places
    (k times the number of counts) are all weighed, many queries at a time; otherwise one query at a time, without the
    losses, at both ends, whose sequences together win with a probability below exp(-60).
    """

    @property
    @abstractmethod
    def weight(self) -> float:
        """By what a loss is multiplied: epsilon over the range by which two losses move against each other."""

    @abstractmethod
    def choose(self, log_sizes: Array, values: Array, rng: np.random.Generator) -> NDArray[np.int64]:
        """The class of the winner, from the classes' sizes and the value that its members share: `[Q]`."""

    def draw(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draws for checked counts `[Q, d]`: `[Q, k]`."""
        places = self.k * counts.shape[1]
        rows = _PLACES_AT_ONCE // places if places <= _FEW_PLACES else 1
        blocks = [counts[start : start + rows] for start in range(0, len(counts), rows)]
        return np.concatenate([self._draw_block(block, rng, likely=places > _FEW_PLACES) for block in blocks])

    def class_counts(self, counts: NDArray[np.integer]) -> dict[int, int]:
        """How many sequences of k indices have each loss, for one histogram `[d]`."""
        return count_by_loss(-np.sort(-self._checked(counts, rank=1)), self.k)

    def losses_of(self, counts: Counts) -> tuple[list[tuple[int, ...]], Array]:
        """All sequences and their losses, from the definition."""
        outcomes = list(sequences(len(counts), self.k))
        best = -np.sort(-counts)[: self.k]
        return outcomes, (best - counts[np.array(outcomes)]).max(axis=1).astype(np.float64)

    def _draw_block(self, counts: Counts, rng: np.random.Generator, *, likely: bool) -> NDArray[np.int64]:
        order, falling = falling_order(counts)
        if likely:
            classes = JointClasses.likely(falling, self.k, weight=self.weight)
        else:
            classes = JointClasses.all(falling, self.k)
        values = np.asarray(-self.weight * classes.losses, dtype=np.float64)
        chosen = self.choose(classes.log_sizes, values, rng)
        return np.take_along_axis(order, classes.members(chosen, rng), axis=1)


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
    def weight(self) -> float:
        """By what a loss is multiplied."""
        return bounded_range_of(self.epsilon, self.rho) / self.adjacency.gap_range

    @property
    def event(self) -> Event:
        """One bounded range."""
        return BoundedRangeEvent(bounded_range_of(self.epsilon, self.rho))

    def choose(self, log_sizes: Array, values: Array, rng: np.random.Generator) -> NDArray[np.int64]:
        """By weight: the size of a class times exp of its value."""
        return draw_softmax(log_sizes + values, rng)

    def distribution_of(self, counts: Counts) -> Distribution:
        """The exact distribution for checked counts `[d]`, over ordered tuples."""
        outcomes, losses = self.losses_of(counts)
        return dict(zip(outcomes, softmax(-self.weight * losses).tolist(), strict=True))
