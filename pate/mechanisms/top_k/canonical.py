"""Canonical selection: a whole set of k indices is drawn, by noise on the loss of each set.

The loss of a set depends on two counts alone: the largest count outside the set and the smallest count in the set. So
sets are grouped in classes of equal loss (`CanonicalClasses`). With Gumbel noise a class is drawn by its weight. With
other noise one variable is drawn for each class: the largest noise of all its sets. The outcome is a uniform set of the
class that wins.

Source: Shekelyan & Loukides 2022; docs/proofs/canonical_top_k.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import BoundedRangeEvent, Event, PureDpEvent
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
from pate.mechanisms.parameters import one_of
from pate.mechanisms.top_k.canonical_classes import LOG_NEGLIGIBLE, CanonicalClasses
from pate.mechanisms.top_k.histogram_blocks import draw_in_blocks
from pate.mechanisms.top_k.mechanism import BoundedRangeTopK, Distribution
from pate.mechanisms.top_k.sorted_counts import falling_order
from pate.mechanisms.top_k.weighted_class import draw_class
from pate.validation import InvalidValue, require

# `CanonicalTopK` leaves out at most 2 exp(-120) of the weight of all sets, see `LOG_NEGLIGIBLE`. This bound is larger.
_REST_SHARE = Fraction(1, 10**50)

# Draws a class for each histogram `[q, d]` of counts in falling order: the classes, and the place of each drawn class.
ClassDraw = Callable[[IntArray, np.random.Generator], tuple[CanonicalClasses, IntArray]]


@dataclass(frozen=True, kw_only=True)
class CanonicalTopK(BoundedRangeTopK):
    """A mechanism that draws a set of k indices by noise on its loss, and releases it in the order of the indices.

    The loss of a set is (1 - gamma) times the largest count outside the set, minus gamma times the smallest count in
    the set. For the set of the k largest counts, the k-th largest count replaces the count outside.

    Formal guarantee: between neighboring data sets the difference of the losses of two sets moves by at most
    r = 2 (replace-one) or 1 (add/remove). For k = 1 it moves by at most gamma r, and for k = d - 1 of d counts by at
    most max(gamma, 1 - gamma) r. The noise is smaller in proportion. `epsilon` is the bounded range with Gumbel noise,
    and pure DP with other noise.

    Attributes:
        gamma: the share of the smallest count in the set in the loss, in [0, 1].
        noise: "gumbel", "exponential", "laplace", "logistic" or "half_logistic"; only Gumbel noise takes `rho`.

    Source: Shekelyan & Loukides 2022; docs/proofs/canonical_top_k.md.

    >>> mechanism = CanonicalTopK(k=2, epsilon=50.0, noise="exponential")
    >>> mechanism(np.array([90, 10, 50]), rng=np.random.default_rng(0)).indices
    array([0, 2])
    """

    gamma: float = 0.5
    noise: str = field(default="gumbel", metadata=one_of(UNIT_NOISES))

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.gamma <= 1, "gamma", self.gamma, "a number in [0, 1]")
        if self.rho is not None and self.noise != "gumbel":
            raise InvalidValue("rho", self.rho, rule=f"epsilon with noise={self.noise}")

    def loss_weight_for(self, num_counts: int) -> float:
        """Returns the inverse of the scale of the noise on losses, for histograms of `num_counts` counts.

        It is the bounded range, or the pure epsilon, divided by the largest change of the difference of two losses
        between neighbors, rounded down.
        """
        share_of_sensitivity = 1.0
        if self.k == 1 and self.gamma > 0:
            # The largest count is in the loss of every set, and cancels out of differences. With gamma = 0 all losses
            # are equal.
            share_of_sensitivity = self.gamma
        elif self.k == num_counts - 1 and self.k > 1:
            share_of_sensitivity = max(self.gamma, 1 - self.gamma)
        loss_weight = self.range_of() / (self.adjacency.gap_sensitivity * share_of_sensitivity)
        if share_of_sensitivity in (0.5, 1.0):
            return loss_weight  # the divisor is a power of 2, so the quotient is not rounded
        # Rounding must not make the weight larger. The rounding of 1 - gamma makes it larger by at most one step
        # between floats, and that of the quotient by half a step.
        return math.nextafter(math.nextafter(loss_weight, 0.0), 0.0)

    @property
    def event(self) -> Event:
        """The price of one release."""
        if self.noise == "gumbel":
            return BoundedRangeEvent(epsilon=self.range_of())
        return PureDpEvent(epsilon=self.range_of())

    def draw(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws a set of k indices for each histogram of a batch `[Q, d]`; returns `[Q, k]`, in rising order."""
        classes_per_histogram = counts.shape[1] * (1 if self.gamma == 1 else self.k)
        return draw_in_blocks(
            counts,
            classes_per_histogram=classes_per_histogram,
            draw_batch=partial(self._draw_sets, draw_classes=self._draw_class_of_each, rng=rng),
            draw_one=partial(self._draw_sets, draw_classes=self._draw_class_of_one, rng=rng),
        )

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each set of k indices, a tuple in rising order, for one histogram `[d]`."""
        num_counts = len(counts)
        set_classes = CanonicalClasses.all(num_ranks=num_counts, k=self.k)
        class_sizes = np.array(
            [
                float(set_classes.size(class_index))
                for class_index in range(len(set_classes.first_missing_ranks))
            ]
        )
        ranked_indices, falling_counts = falling_order(counts[None])
        values_of_classes = (
            -self.loss_weight_for(num_counts)
            * set_classes.losses(falling_counts, gamma=self.gamma)[0]
        )
        class_probabilities = largest_distribution(
            values_of_classes,
            class_sizes=class_sizes,
            unit_noise=UNIT_NOISES[self.noise],
        )
        set_probabilities = dict(
            zip(
                set_classes.rank_pairs,
                (class_probabilities / class_sizes).tolist(),
                strict=True,
            )
        )
        distribution = {}
        # Ranks are counted from 1, as in the classes, and rise within a set.
        for ranks in combinations(range(1, num_counts + 1), self.k):
            index_set = tuple(sorted(ranked_indices[0, np.array(ranks) - 1].tolist()))
            missing_ranks = [rank for rank in range(1, self.k + 1) if ranks[rank - 1] != rank]
            first_missing_rank = missing_ranks[0] if missing_ranks else self.k
            distribution[index_set] = set_probabilities[first_missing_rank, ranks[-1]]
        return distribution

    def _draw_sets(
        self, counts: IntArray, *, draw_classes: ClassDraw, rng: np.random.Generator
    ) -> IntArray:
        """Draws a set of k indices for each histogram `[q, d]`: first a class of sets, and then a set of this class.

        Returns:
            The indices `[q, k]`, in rising order.
        """
        ranked_indices, falling_counts = falling_order(counts)
        set_classes, class_indices = draw_classes(falling_counts, rng)
        ranks_in_set = set_classes.draw_members(class_indices, rng)
        return np.sort(np.take_along_axis(ranked_indices, ranks_in_set, axis=1), axis=1)

    def _draw_class_of_each(
        self, falling_counts: IntArray, rng: np.random.Generator
    ) -> tuple[CanonicalClasses, IntArray]:
        """Draws a class of sets (`CanonicalClasses`) for each of q histograms with few classes.

        Args:
            falling_counts: counts in falling order, `[q, d]`.
            rng: draws the noise.

        Returns:
            The classes, and for each histogram the place of the class that was drawn among them, `[q]`.
        """
        make_classes = CanonicalClasses.by_last_rank if self.gamma == 1 else CanonicalClasses.all
        set_classes = make_classes(num_ranks=falling_counts.shape[1], k=self.k)
        if self.noise != "gumbel":
            return set_classes, self._draw_by_noise(
                set_classes, falling_counts=falling_counts, rng=rng
            )

        def make_encloser(row: int) -> WeightEncloser:
            return self._weight_encloser(set_classes, falling_counts=falling_counts[row])

        class_indices = self._draw_by_weight(
            set_classes,
            falling_counts=falling_counts,
            make_encloser=make_encloser,
            rng=rng,
        )
        return set_classes, class_indices

    def _draw_class_of_one(
        self, falling_counts: IntArray, rng: np.random.Generator
    ) -> tuple[CanonicalClasses, IntArray]:
        """Draws a class of sets (`CanonicalClasses`) for one histogram with many classes.

        With Gumbel noise only likely classes are computed. All classes are computed only if the first bits of the
        uniform number of the draw decide for no likely class.

        Args:
            falling_counts: counts in falling order, `[1, d]`.
            rng: draws the noise.

        Returns:
            The classes, and the place of the class that was drawn among them, `[1]`.
        """
        if self.noise != "gumbel":
            set_classes = CanonicalClasses.runs(falling_counts[0], k=self.k, gamma=self.gamma)
            return set_classes, self._draw_by_noise(
                set_classes, falling_counts=falling_counts, rng=rng
            )
        likely_set_classes = self._likely_classes(falling_counts[0])

        # The exact weights are those of the likely classes, the window, and, as last entry, a bound on the total of all
        # other classes. A draw that may end at this entry goes on with the weights of all classes, the window first. So
        # an index beyond the window is the place of a class in that order.
        @cache
        def make_classes_likely_first() -> CanonicalClasses:
            all_classes = CanonicalClasses.runs(falling_counts[0], k=self.k, gamma=self.gamma)
            return all_classes.with_first(likely_set_classes)

        def make_encloser_of_all() -> WeightEncloser:
            return self._weight_encloser(
                make_classes_likely_first(), falling_counts=falling_counts[0]
            )

        def make_encloser_of_window_and_rest(row: int) -> WeightEncloser:
            enclose_window_weights = self._weight_encloser(
                likely_set_classes, falling_counts=falling_counts[row]
            )
            return encloser_with_rest(
                enclose_window_weights,
                rest_share=_REST_SHARE,
                make_encloser_of_all=make_encloser_of_all,
            )

        class_indices = self._draw_by_weight(
            likely_set_classes,
            falling_counts=falling_counts,
            make_encloser=make_encloser_of_window_and_rest,
            rng=rng,
        )
        if int(class_indices.max()) < len(likely_set_classes.log_sizes):
            return likely_set_classes, class_indices
        return make_classes_likely_first(), class_indices

    def _draw_by_weight(
        self,
        set_classes: CanonicalClasses,
        *,
        falling_counts: IntArray,
        make_encloser: Callable[[int], WeightEncloser],
        rng: np.random.Generator,
    ) -> IntArray:
        """Draws a class for each histogram `[q, d]`, with Gumbel noise on losses: `[q]`.

        By the Gumbel-max trick a class wins with a probability in proportion to its weight.
        """
        return draw_class(
            log_weights=self._values_of(set_classes, falling_counts) + set_classes.log_sizes,
            make_encloser=make_encloser,
            log_rounding_error=set_classes.log_size_error,
            rng=rng,
        )

    def _weight_encloser(
        self, set_classes: CanonicalClasses, *, falling_counts: IntArray
    ) -> WeightEncloser:
        """Returns the function that encloses the exact weights of the classes of one histogram `[d]`."""
        losses = set_classes.losses(falling_counts, gamma=Fraction(self.gamma))
        exponents = (
            Fraction(self.loss_weight_for(num_counts=len(falling_counts))) * losses
        ).tolist()
        class_sizes = [set_classes.size(class_index) for class_index in range(len(exponents))]
        return exponential_encloser(exponents, class_sizes=class_sizes)

    def _draw_by_noise(
        self,
        set_classes: CanonicalClasses,
        *,
        falling_counts: IntArray,
        rng: np.random.Generator,
    ) -> IntArray:
        """Draws a class for each histogram `[q, d]`, with noise on losses that is not Gumbel: `[q]`.

        A class wins with its value plus the largest of as many noises as it has sets.
        """
        values_of_classes = self._values_of(set_classes, falling_counts)
        has_sets = np.broadcast_to(np.isfinite(set_classes.log_sizes), values_of_classes.shape)

        # All rows share the classes and their sizes.
        def compute_class_size(row: int, class_index: int) -> int:
            return set_classes.size(class_index)

        drawn_noise = draw_largest(
            noise_kind=self.noise,
            log_num_noises=np.where(has_sets, set_classes.log_sizes, 0.0),
            count_noises=compute_class_size,
            rng=rng,
            log_rounding_error=set_classes.log_size_error,
        )

        # Fractions are slow, and several classes of a row may need a comparison in fractions.
        @cache
        def compute_exact_losses(row: int) -> NDArray[Any]:
            return set_classes.losses(falling_counts[row], gamma=Fraction(self.gamma))

        loss_weight = Fraction(self.loss_weight_for(num_counts=falling_counts.shape[1]))

        def compute_fraction(row: int, class_index: int) -> Fraction:
            value: Fraction = -loss_weight * compute_exact_losses(row)[class_index]
            return value

        exact_values = ExactValues(floats=values_of_classes, compute_fraction=compute_fraction)
        return largest_noisy(exact_values, drawn_noise, k=1, candidate_mask=has_sets)[:, 0]

    def _values_of(self, set_classes: CanonicalClasses, falling_counts: IntArray) -> FloatArray:
        """Returns minus the loss of each class, divided by the scale of the noise, as floats: `[q, n]`."""
        loss_weight = self.loss_weight_for(num_counts=falling_counts.shape[1])
        return -loss_weight * set_classes.losses(falling_counts, gamma=self.gamma)

    def _likely_classes(self, falling_counts: IntArray) -> CanonicalClasses:
        """Returns the classes of one histogram `[d]` without those whose weight is negligible with Gumbel noise."""
        num_ranks = len(falling_counts)
        loss_weight = self.loss_weight_for(num_counts=num_ranks)
        if self.gamma < 1:
            return CanonicalClasses.likely(
                falling_counts, k=self.k, loss_weight=loss_weight, gamma=self.gamma
            )
        set_classes = CanonicalClasses.runs(falling_counts, k=self.k, gamma=self.gamma)
        # With gamma = 1 the loss of a set is minus its smallest count. There are at most d**k sets, so all sets whose
        # smallest count is below `smallest_likely_count` are negligible together.
        log_num_sets = self.k * math.log(num_ranks)
        smallest_likely_count = (
            falling_counts[self.k - 1] - (LOG_NEGLIGIBLE + log_num_sets) / loss_weight
        )
        num_likely_classes = int((falling_counts >= smallest_likely_count).sum()) - self.k + 1
        return set_classes.at(class_indices=slice(num_likely_classes))
