"""Joint selection of a sequence of k indices by its worst place."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pate.accounting import BoundedRangeEvent, Event
from pate.accounting.special import softmax
from pate.mechanisms.noise.categorical import Weights, draw_index, exponential_weights, with_rest
from pate.mechanisms.noise.lazy_bits_uniform import LazyUniforms
from pate.mechanisms.ranking import falling_order
from pate.mechanisms.top_k.joint_classes import JointClasses, count_by_loss
from pate.mechanisms.top_k.top_k import Array, Counts, Distribution, TopKMechanism, bounded_range_of, sequences

_FEW_PLACES = 16_384
_PLACES_AT_ONCE = 1 << 20
_NEGLIGIBLE = Fraction(1, 10**26)  # above exp(-61), the share of what a window leaves out


@dataclass(frozen=True, kw_only=True)
class JointMechanism(TopKMechanism):
    """Selects a sequence by noise on its loss: subclasses choose the noise.

    The loss of a sequence is the most by which a count falls short of the count that is due at its place. If there
    are few places (k times the number of counts), all of them are weighed, many queries at a time. Otherwise it is one
    query at a time, by runs of equal counts. `JointTopK` first leaves out the losses at both ends, whose sequences
    together win with a probability below exp(-60). It looks at them if its uniform number falls there.
    """

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
    def choose(
        self, classes: JointClasses, values: Array, rng: np.random.Generator
    ) -> tuple[JointClasses, NDArray[np.int64]]:
        """The class of the winner, `[Q]`, from the value that its members share; among these classes or all."""

    def exponent(self, loss: int) -> Fraction:
        """The weight times a loss, exactly."""
        return Fraction(self.weight) * loss

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
        classes = self.classes_of(falling) if likely else JointClasses.all(falling, self.k)
        values = np.asarray(-self.weight * classes.losses, dtype=np.float64)
        classes, chosen = self.choose(classes, values, rng)
        return np.take_along_axis(order, classes.members(chosen, rng), axis=1)


@dataclass(frozen=True, kw_only=True)
class JointTopK(JointMechanism):
    """Draws a sequence of k indices by the exponential mechanism on the loss of its worst position.

    Formal guarantee: losses of two sequences move against each other by at most 4 (replace-one) or 2 (add/remove), half
    of that for k = 1, so the release has a bounded range, whatever k is; the order is included.

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
        return bounded_range_of(self.epsilon, self.rho) / self.range_of_losses

    @property
    def event(self) -> Event:
        """One bounded range."""
        return BoundedRangeEvent(bounded_range_of(self.epsilon, self.rho))

    def classes_of(self, falling: Counts) -> JointClasses:
        """Those that weigh anything."""
        return JointClasses.likely(falling, self.k, weight=self.weight)

    def choose(
        self, classes: JointClasses, values: Array, rng: np.random.Generator
    ) -> tuple[JointClasses, NDArray[np.int64]]:
        """By weight: the size of a class times exp of its value. Outside of the window only where it takes that."""
        logs = values + classes.log_sizes
        floats = np.exp(logs - logs.max(axis=1, keepdims=True))
        uniforms, error = LazyUniforms.draw((len(floats),), rng), classes.error
        chosen = draw_index(floats, uniforms, lambda row: self._weights(classes, row), error)
        if int(chosen.max()) < floats.shape[1]:
            return classes, chosen
        return JointClasses.runs(classes.falling, self.k).after(classes)[0], chosen

    def _weights(self, classes: JointClasses, row: int) -> Weights:
        some = self._exactly(classes.losses[row], [*classes.sizes(row)])
        low, high = classes.window
        falling = classes.falling[row]
        if (low, high) == (-1, int(falling[0] - falling[-1])) or len(classes.falling) > 1:
            return some

        def everything() -> Weights:
            runs = JointClasses.runs(classes.falling, self.k)
            reordered, places = runs.after(classes)
            sizes = [*runs.sizes(0)]
            return self._exactly(reordered.losses[0], [sizes[place] for place in places.tolist()])

        return with_rest(some, _NEGLIGIBLE, everything)

    def _exactly(self, losses: Counts, sizes: list[int]) -> Weights:
        return exponential_weights([self.exponent(loss) for loss in losses.tolist()], sizes)

    def distribution_of(self, counts: Counts) -> Distribution:
        """The exact distribution for checked counts `[d]`, over ordered tuples."""
        outcomes, losses = self.losses_of(counts)
        return dict(zip(outcomes, softmax(-self.weight * losses).tolist(), strict=True))
