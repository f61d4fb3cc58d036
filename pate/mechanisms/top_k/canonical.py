"""Canonical selection: a whole set of k indices is drawn, by noise on the loss of each set.

The loss of a set depends on two counts alone: the largest count outside the set and the smallest count in the set. So
sets are grouped in classes of equal loss (`CanonicalClasses`). With Gumbel noise a class is drawn by its weight. With
other noise one variable is drawn for each class: the largest noise of all its sets. The outcome is a uniform set of the
class that wins. docs/proofs/canonical_top_k.md.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from itertools import combinations

import numpy as np

from pate.accounting import BoundedRangeEvent, Event, PureDpEvent
from pate.array_types import IntArray
from pate.mechanisms.noise.comparisons import Values, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_largest
from pate.mechanisms.noise.kinds import UNIT_NOISES
from pate.mechanisms.noise.maxima import largest_distribution
from pate.mechanisms.noise.weighted_index import Weights, exponential_weights, weights_with_rest
from pate.mechanisms.parameters import one_of
from pate.mechanisms.top_k.canonical_classes import LOG_NO_SETS, CanonicalClasses
from pate.mechanisms.top_k.mechanism import BoundedRangeTopK, Distribution
from pate.mechanisms.top_k.ranking import draw_in_blocks, falling_order
from pate.mechanisms.top_k.weighted_class import draw_class
from pate.validation import require

_NO_SETS = Fraction(1, 10**50)  # above exp(-120), the share of what is left out at first


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
        require(
            self.rho is None or self.noise == "gumbel",
            "rho",
            self.rho,
            f"epsilon with noise={self.noise}",
        )

    def weight_for(self, num_counts: int) -> float:
        """Returns the inverse of the scale of the noise on losses, for histograms of `num_counts` counts.

        It is the bounded range, or the pure epsilon, divided by the most by which the difference of two losses moves
        between neighbors, rounded down.
        """
        share = 1.0
        if self.k == 1:  # the largest count is in every loss; with gamma = 0 all losses are equal
            share = self.gamma or 1.0
        elif self.k == num_counts - 1:
            share = max(self.gamma, 1 - self.gamma)
        weight = self.range_of() / (self.adjacency.gap_sensitivity * share)
        # rounding must not make it larger
        return weight if share in (0.5, 1.0) else math.nextafter(math.nextafter(weight, 0.0), 0.0)

    @property
    def event(self) -> Event:
        """The price of one release."""
        return (
            BoundedRangeEvent(epsilon=self.range_of())
            if self.noise == "gumbel"
            else PureDpEvent(epsilon=self.range_of())
        )

    def draw(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws a set of k indices for each histogram of a batch `[Q, d]`; returns `[Q, k]`, in rising order."""
        num_classes = counts.shape[1] * (1 if self.gamma == 1 else self.k)
        return draw_in_blocks(counts, num_classes, draw_block=partial(self._draw_block, rng))

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each set of k indices, a tuple in rising order, for one histogram `[d]`."""
        num_counts = len(counts)
        classes = CanonicalClasses.all(num_counts, self.k)
        sizes = np.array(
            [float(classes.size(class_index)) for class_index in range(len(classes.first))]
        )
        order, falling_counts = falling_order(counts[None])
        values = -self.weight_for(num_counts) * classes.losses(falling_counts, self.gamma)[0]
        probabilities = (
            largest_distribution(values, sizes, noise_kind=UNIT_NOISES[self.noise]) / sizes
        )
        of_class = dict(zip(classes.names, probabilities.tolist(), strict=True))
        distribution = {}
        for ranks in combinations(range(num_counts), self.k):  # 0-based, rising
            indices = tuple(sorted(order[0, list(ranks)].tolist()))
            missing = [class_index for class_index, rank in enumerate(ranks) if rank != class_index]
            first = missing[0] if missing else self.k - 1
            distribution[indices] = of_class[first + 1, ranks[-1] + 1]
        return distribution

    def _draw_block(
        self, rng: np.random.Generator, counts: IntArray, has_few_classes: bool
    ) -> IntArray:
        """Draws a set of k indices for each of a block of histograms.

        Args:
            rng: draws the noise.
            counts: `[q, d]`, or `[1, d]` unless `has_few_classes`.
            has_few_classes: whether a histogram has few classes of sets, see `draw_in_blocks`.

        Returns:
            The indices `[q, k]`, in rising order.
        """
        ranked_indices, falling_counts = falling_order(counts)
        classes = self._classes(falling_counts, has_few_classes)
        weight = Fraction(self.weight_for(falling_counts.shape[1]))
        gamma = Fraction(self.gamma)
        values = -float(weight) * classes.losses(falling_counts, self.gamma)

        def exact_weights(classes: CanonicalClasses, row: int) -> Weights:
            exponents = (weight * classes.losses(falling_counts[row], gamma)).tolist()
            sizes = [classes.size(class_index) for class_index in range(len(exponents))]
            return exponential_weights(exponents, sizes)

        def all_classes() -> CanonicalClasses:
            return CanonicalClasses.runs(
                falling_counts[0], self.k, gamma=self.gamma
            ).with_window_first(classes)

        def weights_of_all() -> Weights:
            return exact_weights(all_classes(), row=0)

        def weights(row: int) -> Weights:
            in_window = exact_weights(classes, row)
            return (
                in_window
                if has_few_classes
                else weights_with_rest(in_window, rest_share=_NO_SETS, all_weights=weights_of_all)
            )

        if self.noise == "gumbel":
            # By the Gumbel-max trick a class wins with a probability in proportion to its weight. A histogram with many
            # sets has the classes of a window, and all of them only where the uniform number falls outside of it.
            class_indices = draw_class(
                log_weights=values + classes.log_sizes,
                exact_weights_of_row=weights,
                log_rounding_error=classes.error,
                rng=rng,
            )
            if int(class_indices.max()) >= values.shape[1]:
                return self._draw_members(ranked_indices, all_classes(), class_indices, rng)
        else:
            # a class wins with the largest of as many noises as it has sets, plus its value
            has_sets = np.broadcast_to(np.isfinite(classes.log_sizes), values.shape)
            noise = draw_largest(
                self.noise,
                log_num_noises=np.where(has_sets, classes.log_sizes, 0.0),
                exact_num_noises=lambda row, place: classes.size(place),
                rng=rng,
                log_rounding_error=classes.error,
            )
            losses = cache(lambda row: classes.losses(falling_counts[row], gamma))
            exact_values = Values(
                floats=values, exact=lambda row, place: -weight * losses(row)[place]
            )
            class_indices = largest_noisy(exact_values, noise, k=1, candidate_mask=has_sets)[:, 0]
        return self._draw_members(ranked_indices, classes, class_indices, rng)

    def _draw_members(
        self,
        ranked_indices: IntArray,
        classes: CanonicalClasses,
        class_indices: IntArray,
        rng: np.random.Generator,
    ) -> IntArray:
        """Draws a uniform set of one class for each of q histograms.

        Args:
            ranked_indices: the indices of each histogram in falling order of their counts, `[q, d]`.
            classes: the classes of sets.
            class_indices: the place of each histogram's class in `classes`, `[q]`.
            rng: draws the set.

        Returns:
            The indices `[q, k]`, in rising order.
        """
        ranks = classes.draw_members(class_indices, rng)
        return np.sort(np.take_along_axis(ranked_indices, ranks, axis=1), axis=1)

    def _classes(self, falling_counts: IntArray, has_few_classes: bool) -> CanonicalClasses:
        """Returns the classes of sets among which a draw chooses.

        Args:
            falling_counts: counts in falling order, `[q, d]`; one histogram `[1, d]` unless `has_few_classes`.
            has_few_classes: whether a histogram has few classes of sets.

        With Gumbel noise and many classes, classes of negligible weight are left out.
        """
        num_ranks = falling_counts.shape[1]
        weight = self.weight_for(num_ranks)
        leaves_out = self.noise == "gumbel" and not has_few_classes
        if self.gamma < 1 and has_few_classes:
            return CanonicalClasses.all(num_ranks, self.k)
        if self.gamma < 1 and leaves_out:
            return CanonicalClasses.likely(
                falling_counts[0], self.k, loss_weight=weight, gamma=self.gamma
            )
        classes = CanonicalClasses.runs(falling_counts[0], self.k, gamma=self.gamma)
        if not leaves_out:
            return classes
        # d ranks have at most d**k sets
        least = (
            falling_counts[0, self.k - 1] - (LOG_NO_SETS + self.k * math.log(num_ranks)) / weight
        )
        num_kept = int((falling_counts[0] >= least).sum()) - self.k + 1
        return classes.at(slice(num_kept))
