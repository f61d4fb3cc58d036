"""Joint selection: a whole sequence of k indices is drawn, by noise on the loss of each sequence (`JointMechanism`).

There are d! / (d - k)! sequences of k out of d indices, but losses have few distinct values. So a draw takes about k d
steps:

    1. Sort the counts (`falling_order`).
    2. Group all sequences in classes of equal loss (`JointClasses`). The place of a class is its index by rising loss.
    3. Draw a class. `JointTopK` draws it by its weight (`draw_class`), `PermuteAndFlipJointTopK` by noise.
    4. Draw a uniform sequence of the class (`JointClasses.draw_members`).

Draws are exact. Where floats cannot decide between two classes, each weight is *enclosed*: it is known to lie between
two whole numbers, and more digits narrow the gap relative to the weight (`WeightEncloser`).

Sources: Gillenwater et al. 2022, Shekelyan & Loukides 2022; docs/proofs/joint_top_k.md.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import islice, permutations

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, BoundedRangeEvent, Event, PureDpEvent
from pate.accounting.rounding import ceil_to_digits
from pate.accounting.special import softmax
from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.comparisons import ExactValues, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_largest
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.maxima import largest_distribution
from pate.mechanisms.noise.weighted_index import (
    WeightEncloser,
    encloser_with_rest,
    exponential_encloser,
)
from pate.mechanisms.parameters import POSITIVE
from pate.mechanisms.top_k.histogram_blocks import draw_in_blocks
from pate.mechanisms.top_k.joint_classes import JointClasses
from pate.mechanisms.top_k.mechanism import BoundedRangeTopK, Distribution, TopKMechanism
from pate.mechanisms.top_k.sorted_counts import falling_order
from pate.mechanisms.top_k.weighted_class import draw_class
from pate.validation import InvalidValue, require

# An upper bound on the share of the weight of all sequences that `JointClasses.likely` leaves out. The share is less
# than exp(-61).
_REST_SHARE = Fraction(1, 10**26)
# The logarithm of an upper bound on the probability that permute-and-flip draws one of the sequences left out.
_LOG_REST_PROBABILITY = -60.0
# Permute-and-flip draws noise for all classes of up to so many pairs of a position and a distinct count.
_MAX_CLASSES = 2**25

# Draws a class for each histogram `[q, d]` of counts in falling order: the classes, and the place of each drawn class
# in `classes_by_loss`.
ClassDraw = Callable[[IntArray, np.random.Generator], tuple[JointClasses, IntArray]]


@dataclass(frozen=True, kw_only=True)
class JointMechanism(TopKMechanism):
    """The base class of mechanisms that draw a sequence of k indices by noise on the loss of each sequence.

    The loss of position i is the i-th largest count less the count of the i-th index of the sequence. The loss of a
    sequence is the largest of these.
    """

    @property
    @abstractmethod
    def loss_weight(self) -> float:
        """The inverse of the scale of the noise on losses: the pure epsilon or bounded range over `range_of_losses`."""

    @property
    def range_of_losses(self) -> int:
        """The largest change of the difference of two losses between neighboring data sets.

        For k = 1 it is smaller, because the largest count cancels out of the difference.
        """
        return self.adjacency.gap_sensitivity if self.k == 1 else self.adjacency.gap_range

    @abstractmethod
    def draw_class_of_each(
        self, falling_counts: IntArray, rng: np.random.Generator
    ) -> tuple[JointClasses, IntArray]:
        """Draws a class of sequences (`JointClasses`), all of one loss, for each of q histograms with few classes.

        Args:
            falling_counts: counts in falling order, `[q, d]`.
            rng: draws the noise.

        Returns:
            The classes, and for each histogram the place of the drawn class in `classes_by_loss`, `[q]`.
        """

    @abstractmethod
    def draw_class_of_one(
        self, falling_counts: IntArray, rng: np.random.Generator
    ) -> tuple[JointClasses, IntArray]:
        """Draws a class of sequences (`JointClasses`), all of one loss, for one histogram with many classes.

        Args:
            falling_counts: counts in falling order, `[1, d]`.
            rng: draws the noise.

        Returns:
            The classes, and the place of the drawn class in `classes_by_loss`, `[1]`.
        """

    def draw(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws a sequence of k indices for each histogram of a batch `[Q, d]`: `[Q, k]`."""
        return draw_in_blocks(
            counts,
            classes_per_histogram=self.k * counts.shape[1],
            draw_batch=partial(self._draw_sequences, draw_classes=self.draw_class_of_each, rng=rng),
            draw_one=partial(self._draw_sequences, draw_classes=self.draw_class_of_one, rng=rng),
        )

    def class_counts(self, counts: NDArray[np.integer]) -> dict[int, int]:
        """Returns the exact number of sequences of k indices with each loss, by loss, for one histogram `[d]`.

        No draw needs it. Tests compare the sizes of `JointClasses` with it.
        """
        falling_counts = -np.sort(-self._checked(counts, num_axes=1))
        distinct_losses = np.unique(np.maximum(falling_counts[: self.k, None] - falling_counts, 0))
        # The number of ranks whose loss at a position is at most a loss: [losses, k].
        num_allowed_ranks = np.searchsorted(
            -falling_counts, distinct_losses[:, None] - falling_counts[: self.k], side="right"
        )
        num_by_loss = {}
        num_with_less = 0
        for loss, ranks_by_position in zip(
            distinct_losses.tolist(), num_allowed_ranks.tolist(), strict=True
        ):
            # The positions are filled in turn, each with one of its ranks that is not used before.
            num_up_to_loss = math.prod(
                max(0, ranks - position) for position, ranks in enumerate(ranks_by_position)
            )
            if num_up_to_loss > num_with_less:
                num_by_loss[loss] = num_up_to_loss - num_with_less
            num_with_less = num_up_to_loss
        return num_by_loss

    def losses_of(self, counts: IntArray) -> tuple[list[tuple[int, ...]], FloatArray]:
        """Returns a list of all sequences of k indices, and the loss of each of them, for one histogram `[d]`."""
        sequences = list(permutations(range(len(counts)), self.k))
        largest_counts = -np.sort(-counts)[: self.k]
        losses_of_positions = largest_counts - counts[np.array(sequences)]
        return sequences, losses_of_positions.max(axis=1).astype(np.float64)

    def _draw_sequences(
        self, counts: IntArray, *, draw_classes: ClassDraw, rng: np.random.Generator
    ) -> IntArray:
        """Draws a sequence of k indices for each histogram `[q, d]`: a class, and then a member of this class.

        The result is `[q, k]`.
        """
        ranked_indices, falling_counts = falling_order(counts)
        equal_loss_classes, class_places = draw_classes(falling_counts, rng)
        return np.take_along_axis(
            ranked_indices, equal_loss_classes.draw_members(class_places, rng), axis=1
        )


@dataclass(frozen=True, kw_only=True)
class JointTopK(JointMechanism, BoundedRangeTopK):
    """A mechanism that draws a sequence of k indices by the exponential mechanism on the loss of its worst position.

    The loss of position i is the i-th largest count less the count of the i-th index of the sequence. The loss of a
    sequence is the largest of these.

    Formal guarantee: between neighboring data sets the difference of the losses of two sequences moves by at most
    4 (replace-one) or 2 (add/remove), and by half of that for k = 1. So the release has a bounded range of `epsilon`,
    or of sqrt(8 `rho`), for every k. The order of the indices is released too.
    Source: Gillenwater, Joseph, Munoz Medina & Ribero 2022; docs/proofs/joint_top_k.md.

    >>> JointTopK(k=2, epsilon=1.0).class_counts(np.array([3, 2, 2, 0]))  # loss: number of sequences
    {0: 2, 1: 4, 2: 3, 3: 3}
    """

    @property
    def loss_weight(self) -> float:
        """The inverse of the scale of the noise on losses: the bounded range over `range_of_losses`."""
        return self.range_of() / self.range_of_losses

    @property
    def event(self) -> Event:
        """The price of one release."""
        return BoundedRangeEvent(epsilon=self.range_of())

    def draw_class_of_each(
        self, falling_counts: IntArray, rng: np.random.Generator
    ) -> tuple[JointClasses, IntArray]:
        """Draws a class with a probability in proportion to its weight; arguments and result as in the base class."""
        equal_loss_classes = JointClasses.from_counts(falling_counts, k=self.k, splits_ties=True)
        class_places = self._draw_by_weight(
            equal_loss_classes,
            make_encloser=partial(self._weight_encloser, equal_loss_classes),
            rng=rng,
        )
        return equal_loss_classes, class_places

    def draw_class_of_one(
        self, falling_counts: IntArray, rng: np.random.Generator
    ) -> tuple[JointClasses, IntArray]:
        """Draws a class with a probability in proportion to its weight; arguments and result as in the base class.

        Only a window of likely classes is computed. All classes are computed only if the first bits of the uniform
        number of the draw decide for no class in the window.
        """
        likely_classes = JointClasses.likely(falling_counts, k=self.k, loss_weight=self.loss_weight)
        make_encloser_of_window = partial(self._weight_encloser, likely_classes)
        largest_loss = int(falling_counts[0, 0] - falling_counts[0, -1])
        if likely_classes.loss_window == (-1, largest_loss):
            # The window holds all classes.
            class_places = self._draw_by_weight(
                likely_classes, make_encloser=make_encloser_of_window, rng=rng
            )
            return likely_classes, class_places

        # A draw reads one of two lists of weights:
        #   - The short list has the classes in the window, and as last entry an interval that holds the weight of all
        #     others together. The interval begins at 0, so a draw never ends in it, but goes on with the long list.
        #   - The long list has all classes, those of the window first and in the order of the short list. It is
        #     computed only if a draw needs it.
        # So a drawn number is an index in the long list. If it lies in the window, it is one in the short list, too.
        @cache
        def all_classes() -> tuple[JointClasses, IntArray]:
            """Returns all classes, and their places in an order that begins with the window."""
            equal_loss_classes = JointClasses.from_counts(falling_counts, k=self.k)
            return equal_loss_classes, equal_loss_classes.places_with_window_first(likely_classes)

        def make_encloser_of_all() -> WeightEncloser:
            equal_loss_classes, places_of_all_classes = all_classes()
            return self._weight_encloser(
                equal_loss_classes, row=0, class_places=places_of_all_classes
            )

        def make_encloser_of_window_and_rest(row: int) -> WeightEncloser:
            return encloser_with_rest(
                make_encloser_of_window(row),
                rest_share=_REST_SHARE,
                make_encloser_of_all=make_encloser_of_all,
            )

        indices_in_long_list = self._draw_by_weight(
            likely_classes, make_encloser=make_encloser_of_window_and_rest, rng=rng
        )
        num_classes_in_window = likely_classes.losses.shape[1]
        if int(indices_in_long_list.max()) < num_classes_in_window:
            return likely_classes, indices_in_long_list
        equal_loss_classes, places_of_all_classes = all_classes()
        return equal_loss_classes, places_of_all_classes[indices_in_long_list]

    def _draw_by_weight(
        self,
        equal_loss_classes: JointClasses,
        *,
        make_encloser: Callable[[int], WeightEncloser],
        rng: np.random.Generator,
    ) -> IntArray:
        """Draws a class for each of q histograms, with a probability in proportion to its weight; returns its place."""
        return draw_class(
            log_weights=equal_loss_classes.log_sizes - self.loss_weight * equal_loss_classes.losses,
            make_encloser=make_encloser,
            log_rounding_error=equal_loss_classes.log_size_error,
            rng=rng,
        )

    def _weight_encloser(
        self, equal_loss_classes: JointClasses, row: int, *, class_places: IntArray | None = None
    ) -> WeightEncloser:
        """Returns the function that encloses the exact weights of the classes of one histogram.

        The weight of a class is its size times exp(-`loss_weight` * loss).

        Args:
            equal_loss_classes: the classes of q histograms.
            row: the index of the histogram among the q.
            class_places: the places in `classes_by_loss` of the classes whose weights are enclosed, in the order of the
                weights; None for all classes, by rising loss.
        """
        losses_of_classes = equal_loss_classes.losses[row].tolist()
        class_sizes = list(equal_loss_classes.sizes(row=row))
        if class_places is not None:
            losses_of_classes = [
                losses_of_classes[class_place] for class_place in class_places.tolist()
            ]
            class_sizes = [class_sizes[class_place] for class_place in class_places.tolist()]
        loss_weight = Fraction(self.loss_weight)
        exponents = [loss_weight * loss for loss in losses_of_classes]
        return exponential_encloser(exponents, class_sizes=class_sizes)

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each sequence of k indices for one histogram `[d]`."""
        sequences, losses_of_sequences = self.losses_of(counts)
        return dict(
            zip(sequences, softmax(-self.loss_weight * losses_of_sequences).tolist(), strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlipJointTopK(JointMechanism):
    """A mechanism that releases the sequence of k indices whose loss, less exponential noise, is smallest.

    Each sequence has noise of its own. The loss of a sequence is defined as for `JointTopK`.

    Formal guarantee: (epsilon, failure_prob)-DP for every k. The order of the indices is released too. The zCDP price
    is that of epsilon-DP.

    Attributes:
        epsilon: the epsilon of the guarantee, > 0.
        failure_prob: the delta of the guarantee, in [0, 1). A histogram with more than 2**25 pairs of a position and a
            distinct count needs exp(-60) (1 + exp(epsilon)) or more. Sequences are then left out of the draw that win
            with a probability below exp(-60), all together.

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
    def loss_weight(self) -> float:
        """The inverse of the scale of the noise on losses: the pure epsilon over `range_of_losses`."""
        return self.epsilon / self.range_of_losses

    @property
    def event(self) -> Event:
        """The price of one release."""
        pure_event = PureDpEvent(self.epsilon)
        return (
            ApproximateEvent(pure_event, failure_prob=self.failure_prob)
            if self.failure_prob
            else pure_event
        )

    def draw_class_of_each(
        self, falling_counts: IntArray, rng: np.random.Generator
    ) -> tuple[JointClasses, IntArray]:
        """Draws, for each histogram, the class of the sequence of k indices that has the largest noisy value.

        The noisy value is exponential noise less `loss_weight` times the loss of the sequence. A class has sequences of
        equal loss (`JointClasses`). Arguments and result are those of the base class.
        """
        equal_loss_classes = JointClasses.from_counts(falling_counts, k=self.k, splits_ties=True)
        return equal_loss_classes, self._draw_class_per_histogram(equal_loss_classes, rng)

    def draw_class_of_one(
        self, falling_counts: IntArray, rng: np.random.Generator
    ) -> tuple[JointClasses, IntArray]:
        """Draws the class of the sequence with the largest noisy value; arguments and result as in the base class.

        Of a histogram with more than 2**25 pairs of a position and a distinct count, classes may be left out that win
        with a probability below exp(-60), all together. Raises `InvalidValue` if `failure_prob` does not cover them.
        """
        num_distinct_counts = 1 + np.count_nonzero(np.diff(falling_counts[0]))
        if self.k * num_distinct_counts <= _MAX_CLASSES:
            equal_loss_classes = JointClasses.from_counts(falling_counts, k=self.k)
        else:
            self._require_failure_prob()
            equal_loss_classes = JointClasses.likely(
                falling_counts, k=self.k, loss_weight=self.loss_weight
            )
        return equal_loss_classes, self._draw_class_per_histogram(equal_loss_classes, rng)

    def _require_failure_prob(self) -> None:
        """Raises `InvalidValue` if `failure_prob` does not cover classes that win with a probability below exp(-60)."""
        log_needed_failure_prob = _LOG_REST_PROBABILITY + np.logaddexp(0.0, self.epsilon)
        log_failure_prob = math.log(self.failure_prob) if self.failure_prob > 0 else -math.inf
        if log_failure_prob < log_needed_failure_prob:
            rule = "a smaller epsilon, or JointTopK"
            if log_needed_failure_prob < 0:
                rule = f"{ceil_to_digits(math.exp(log_needed_failure_prob), num_digits=2)} or more"
            raise InvalidValue("failure_prob", self.failure_prob, rule=rule)

    def _draw_class_per_histogram(
        self, equal_loss_classes: JointClasses, rng: np.random.Generator
    ) -> IntArray:
        """Draws the class of the sequence with the largest noisy value of each histogram; returns its place, `[q]`."""

        # A class is asked for its size a few times in a row. The sizes of a million classes at once would not fit into
        # memory, so few are kept.
        @lru_cache(8)
        def compute_class_size(row: int, class_place: int) -> int:
            return next(islice(equal_loss_classes.sizes(row=row), class_place, None))

        drawn_noise = draw_largest(
            noise_kind="exponential",
            log_num_noises=equal_loss_classes.log_sizes,
            count_noises=compute_class_size,
            rng=rng,
            log_rounding_error=equal_loss_classes.log_size_error,
        )
        loss_weight = Fraction(self.loss_weight)

        def compute_fraction(row: int, class_place: int) -> Fraction:
            return -loss_weight * int(equal_loss_classes.losses[row, class_place])

        exact_values = ExactValues(
            floats=-self.loss_weight * equal_loss_classes.losses.astype(np.float64),
            compute_fraction=compute_fraction,
        )
        return largest_noisy(exact_values, drawn_noise, k=1)[:, 0]

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each sequence of k indices for one histogram `[d]`."""
        sequences, losses_of_sequences = self.losses_of(counts)
        distinct_losses, loss_indices_of_sequences, class_sizes = np.unique(
            losses_of_sequences, return_inverse=True, return_counts=True
        )
        class_probabilities = largest_distribution(
            -self.loss_weight * distinct_losses,
            class_sizes=class_sizes.astype(np.float64),
            unit_noise=UNIT_NOISES["exponential"],
        )
        probabilities_of_sequences = (class_probabilities / class_sizes)[loss_indices_of_sequences]
        return dict(zip(sequences, probabilities_of_sequences.tolist(), strict=True))
