"""Selection of a set of k indices as a whole, by noise on the canonical loss."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, partial
from itertools import combinations

import numpy as np

from pate.accounting import BoundedRangeEvent, Event, PureDpEvent
from pate.mechanisms.noise.real_numbers import (
    UNIT_NOISES,
    Values,
    draw_largest,
    largest_distribution,
    largest_noisy,
)
from pate.mechanisms.noise.uniforms import (
    Weights,
    exponential_weights,
    with_rest,
)
from pate.mechanisms.parameters import one_of
from pate.mechanisms.top_k.canonical_classes import _LOG_NO_SETS, CanonicalClasses
from pate.mechanisms.top_k.mechanism import BoundedRangeTopK, Counts, Distribution
from pate.mechanisms.top_k.ranking import draw_in_blocks, falling_order
from pate.mechanisms.top_k.weighted_class import draw_class
from pate.validation import require

_NO_SETS = Fraction(1, 10**50)  # above exp(-120), the share of what is left out at first


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
        return draw_in_blocks(counts, num_classes, partial(self._draw_block, rng))

    def distribution_of(self, counts: Counts) -> Distribution:
        """Returns the probability of each set for one histogram."""
        d = len(counts)
        classes = CanonicalClasses.all(d, self.k)
        sizes = np.array(
            [classes.size(place) for place in range(len(classes.first))], dtype=np.float64
        )
        order, falling = falling_order(counts[None])
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
        order, falling = falling_order(counts)
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
            chosen = draw_class(values + some.log_sizes, weights, some.error, rng)
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
