"""Joint selection: a whole sequence of k indices is drawn, by noise on the loss of each sequence.

The loss of a position is the count that ranks there, less the count of the sequence's index there. The loss of a
sequence is the largest loss of its positions. Losses have few distinct values, so sequences are grouped in classes of
equal loss (`JointClasses`). A class is drawn by its weight, then a uniform sequence of the class. So the exponential
mechanism takes about k d steps, although there are d! / (d - k)! sequences.
Sources: Gillenwater et al. 2022, Shekelyan & Loukides 2022; docs/proofs/joint_top_k.md.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from itertools import islice, permutations

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, BoundedRangeEvent, Event, PureDpEvent
from pate.accounting.special import softmax
from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.comparisons import Values, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_largest
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.maxima import largest_distribution
from pate.mechanisms.noise.weighted_index import Weights, exponential_weights, weights_with_rest
from pate.mechanisms.parameters import POSITIVE
from pate.mechanisms.top_k.joint_classes import JointClasses
from pate.mechanisms.top_k.mechanism import BoundedRangeTopK, Distribution, TopKMechanism
from pate.mechanisms.top_k.ranking import draw_in_blocks, falling_order
from pate.mechanisms.top_k.weighted_class import draw_class
from pate.validation import require, rounded_up

_NEGLIGIBLE = Fraction(1, 10**26)  # above exp(-61), the share of what a window leaves out
_MOST_CLASSES = 2**25
_LOG_LEFT_OUT = -60.0  # log of a bound on the probability that a class outside the window wins


@dataclass(frozen=True, kw_only=True)
class JointMechanism(TopKMechanism):
    """The base class of mechanisms that draw a sequence of k indices by noise on the loss of each sequence."""

    @property
    @abstractmethod
    def weight(self) -> float:
        """The inverse of the scale of the noise on losses: the pure epsilon or bounded range over `range_of_losses`."""

    @property
    def range_of_losses(self) -> int:
        """The most by which the difference of two losses moves between neighboring data sets.

        For k = 1 it is smaller, because the largest count cancels out of the difference.
        """
        return self.adjacency.gap_sensitivity if self.k == 1 else self.adjacency.gap_range

    @abstractmethod
    def draw_class_indices(
        self, falling_counts: IntArray, has_few_classes: bool, rng: np.random.Generator
    ) -> tuple[JointClasses, IntArray]:
        """Draws a class of sequences for each histogram.

        Args:
            falling_counts: counts in falling order, `[Q, d]`; one histogram `[1, d]` unless `has_few_classes`.
            has_few_classes: whether a histogram has few classes of sequences.
            rng: draws the noise.

        Returns:
            The classes, and for each histogram the place of the class that was drawn in their order, `[Q]`.
        """

    def draw(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws a sequence of k indices for each histogram of a batch `[Q, d]`: `[Q, k]`."""
        # Many positions are weighed by runs of equal counts. Losses at both ends win with a probability below exp(-60)
        # in all; `JointTopK` counts their sequences only where its uniform number falls there.
        return draw_in_blocks(
            counts, num_classes=self.k * counts.shape[1], draw_block=partial(self._draw_block, rng)
        )

    def class_counts(self, counts: NDArray[np.integer]) -> dict[int, int]:
        """Returns the exact number of sequences with each loss, by loss, for one histogram `[d]`."""
        falling = -np.sort(-self._checked(counts, rank=1))
        losses = np.unique(np.maximum(falling[: self.k, None] - falling, 0))
        # [losses, k]
        reach = np.searchsorted(-falling, losses[:, None] - falling[: self.k], side="right")
        totals = [
            math.prod(max(0, n - position) for position, n in enumerate(row))
            for row in reach.tolist()
        ]
        sizes = [total - before for total, before in zip(totals, [0, *totals], strict=False)]
        return {loss: size for loss, size in zip(losses.tolist(), sizes, strict=True) if size}

    def losses_of(self, counts: IntArray) -> tuple[list[tuple[int, ...]], FloatArray]:
        """Returns a list of all sequences of k indices, and the loss of each of them, for one histogram `[d]`."""
        outcomes = list(permutations(range(len(counts)), self.k))
        best = -np.sort(-counts)[: self.k]
        return outcomes, (best - counts[np.array(outcomes)]).max(axis=1).astype(np.float64)

    def _draw_block(
        self, rng: np.random.Generator, counts: IntArray, has_few_classes: bool
    ) -> IntArray:
        ranked_indices, falling_counts = falling_order(counts)
        classes, class_indices = self.draw_class_indices(
            falling_counts, has_few_classes=has_few_classes, rng=rng
        )
        return np.take_along_axis(ranked_indices, classes.draw_members(class_indices, rng), axis=1)


@dataclass(frozen=True, kw_only=True)
class JointTopK(JointMechanism, BoundedRangeTopK):
    """A mechanism that draws a sequence of k indices by the exponential mechanism on the loss of its worst position.

    Formal guarantee: between neighboring data sets the difference of the losses of two sequences moves by at most
    4 (replace-one) or 2 (add/remove), and by half of that for k = 1. So the release has a bounded range of `epsilon`
    for every k. The order of the indices is released too.
    Source: Gillenwater, Joseph, Munoz Medina & Ribero 2022; docs/proofs/joint_top_k.md.

    >>> JointTopK(k=2, epsilon=1.0).class_counts(np.array([3, 2, 2, 0]))  # loss: number of sequences
    {0: 2, 1: 4, 2: 3, 3: 3}
    """

    @property
    def weight(self) -> float:
        """The inverse of the scale of the noise on losses: the bounded range over `range_of_losses`."""
        return self.range_of() / self.range_of_losses

    @property
    def event(self) -> Event:
        """The price of one release."""
        return BoundedRangeEvent(epsilon=self.range_of())

    def draw_class_indices(
        self, falling_counts: IntArray, has_few_classes: bool, rng: np.random.Generator
    ) -> tuple[JointClasses, IntArray]:
        """Draws a class with a probability in proportion to its weight; arguments and result as in the base class."""
        all_classes = partial(
            JointClasses.from_counts, falling_counts, self.k, splits_ties=has_few_classes
        )
        classes = (
            all_classes()
            if has_few_classes
            else JointClasses.likely(falling_counts, self.k, loss_weight=self.weight)
        )
        is_complete = has_few_classes or classes.window == (
            -1,
            int(falling_counts[0, 0] - falling_counts[0, -1]),
        )

        def exact_weights(losses: IntArray, sizes: list[int]) -> Weights:
            exponents = [Fraction(self.weight) * loss for loss in losses.tolist()]
            return exponential_weights(exponents, sizes)

        def weights_of_all() -> Weights:
            reordered, places = all_classes().with_window_first(classes)
            sizes = [*all_classes().sizes(0)]
            return exact_weights(reordered.losses[0], [sizes[place] for place in places.tolist()])

        def weights(row: int) -> Weights:
            in_window = exact_weights(classes.losses[row], [*classes.sizes(row)])
            if is_complete:
                return in_window
            return weights_with_rest(in_window, rest_share=_NEGLIGIBLE, all_weights=weights_of_all)

        log_weights = classes.log_sizes - self.weight * classes.losses
        chosen = draw_class(
            log_weights=log_weights,
            exact_weights_of_row=weights,
            log_rounding_error=classes.error,
            rng=rng,
        )
        # The uniform number may fall outside of the window.
        if int(chosen.max()) >= classes.losses.shape[1]:
            classes = all_classes().with_window_first(classes)[0]
        return classes, chosen

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each sequence of k indices for one histogram `[d]`."""
        outcomes, losses = self.losses_of(counts)
        return dict(zip(outcomes, softmax(-self.weight * losses).tolist(), strict=True))


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlipJointTopK(JointMechanism):
    """A mechanism that releases the sequence of k indices whose loss, less exponential noise, is smallest.

    Each sequence has noise of its own. The loss of a sequence is defined as for `JointTopK`.

    Formal guarantee: (epsilon, failure_prob)-DP for every k. The order of the indices is released too. The zCDP price
    is that of epsilon-DP.

    Attributes:
        epsilon: the epsilon of the guarantee, > 0.
        failure_prob: the delta of the guarantee, in [0, 1). A histogram with more than 2**25 pairs of a position and a
            distinct count needs exp(-60) (1 + exp(epsilon)) or more, because sequences that win with a probability
            below exp(-60) are then left out of the draw.

    Source: Shekelyan & Loukides 2022; docs/proofs/joint_top_k.md.

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
        """The inverse of the scale of the noise on losses: the pure epsilon over `range_of_losses`."""
        return self.epsilon / self.range_of_losses

    @property
    def event(self) -> Event:
        """The price of one release."""
        pure = PureDpEvent(self.epsilon)
        return ApproximateEvent(pure, failure_prob=self.failure_prob) if self.failure_prob else pure

    def draw_class_indices(
        self, falling_counts: IntArray, has_few_classes: bool, rng: np.random.Generator
    ) -> tuple[JointClasses, IntArray]:
        """Draws the class of the sequence with the largest noisy value; arguments and result as in the base class.

        Raises `InvalidValue` if there are too many classes for `failure_prob`.
        """
        if (
            has_few_classes
            or self.k * (1 + np.count_nonzero(np.diff(falling_counts[0]))) <= _MOST_CLASSES
        ):
            classes = JointClasses.from_counts(falling_counts, self.k, splits_ties=has_few_classes)
        else:  # only classes that win with a probability above exp(-60)
            least = _LOG_LEFT_OUT + np.logaddexp(0.0, self.epsilon)
            needed = (
                f"{rounded_up(math.exp(least), digits=2)} or more"
                if least < 0
                else "a smaller epsilon, or JointTopK"
            )
            require(
                math.log(self.failure_prob or 5e-324) >= least,
                "failure_prob",
                self.failure_prob,
                needed,
            )
            classes = JointClasses.likely(falling_counts, self.k, loss_weight=self.weight)

        @lru_cache(8)
        def size(row: int, place: int) -> int:  # all of a million at once do not fit into memory
            return next(islice(classes.sizes(row), place, None))

        noise = draw_largest(
            noise_kind="exponential",
            log_num_noises=classes.log_sizes,
            exact_num_noises=size,
            rng=rng,
            log_rounding_error=classes.error,
        )
        weight = Fraction(self.weight)
        exact = Values(
            floats=-self.weight * classes.losses.astype(np.float64),
            exact=lambda row, place: -weight * int(classes.losses[row, place]),
        )
        return classes, largest_noisy(exact, noise, k=1)[:, 0]

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each sequence of k indices for one histogram `[d]`."""
        outcomes, losses = self.losses_of(counts)
        values, member_of, sizes = np.unique(losses, return_inverse=True, return_counts=True)
        of_class = largest_distribution(
            -self.weight * values,
            class_sizes=sizes.astype(np.float64),
            noise_kind=UNIT_NOISES["exponential"],
        )
        return dict(zip(outcomes, (of_class / sizes)[member_of].tolist(), strict=True))
