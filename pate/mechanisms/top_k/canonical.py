"""Canonical top-k: a set of k indices, chosen by noise on a loss of its best missing and its worst present count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from pate.accounting import BoundedRangeEvent, Event, PureDpEvent
from pate.mechanisms.noise.categorical import Weights, draw_index, exponential_weights, with_rest
from pate.mechanisms.noise.drawn_noise import draw_largest
from pate.mechanisms.noise.lazy_bits_uniform import LazyUniforms
from pate.mechanisms.noise.noisy_order import Values, largest_noisy
from pate.mechanisms.noise.order_distributions import largest_distribution
from pate.mechanisms.noise.unit_noise import UNIT_NOISES
from pate.mechanisms.ranking import falling_order
from pate.mechanisms.top_k.canonical_classes import NEGLIGIBLE, CanonicalClasses
from pate.mechanisms.top_k.top_k import Array, Counts, Distribution, TopKMechanism, bounded_range_of
from pate.validation import require, require_choice

_FEW_CLASSES = 16_384
_CLASSES_AT_ONCE = 1 << 20
_NEGLIGIBLE = Fraction(1, 10**50)  # above exp(-120), the share of what is left out at first


@dataclass(frozen=True, kw_only=True)
class CanonicalTopK(TopKMechanism):
    """Draws a set of k indices by noise on a loss with few distinct values; released in the order of the indices.

    The loss of a set is (1 - gamma) times its best missing count minus gamma times its worst present count; for the set
    of the k best, the k-th count stands in for the missing one.

    Formal guarantee: losses of two sets move against each other by at most 2 (replace-one) or 1 (add/remove). For one
    index and for all but one it is max(gamma, 1 - gamma) times that, and the noise is smaller by the same factor.
    Gumbel noise has this as bounded range; the other kinds are pure DP.

    Attributes:
        gamma: in [0, 1].
        noise: "gumbel", "exponential", "laplace", "logistic" or "half_logistic".
        epsilon: pure DP (for Gumbel noise also the bounded range), > 0; or
        rho: its zCDP, > 0, for Gumbel noise only. Exactly one of the two.

    Source: Shekelyan & Loukides 2022; docs/proofs/top_k.md.

    >>> mechanism = CanonicalTopK(k=2, epsilon=50.0, noise="exponential")
    >>> mechanism(np.array([90, 10, 50]), rng=np.random.default_rng(0)).indices
    array([0, 2])
    """

    gamma: float = 0.5
    noise: str = "gumbel"
    epsilon: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.gamma <= 1, "gamma", self.gamma, "a number in [0, 1]")
        require_choice("noise", self.noise, tuple(UNIT_NOISES))
        require(self.rho is None or self.noise == "gumbel", "rho", self.rho, f"epsilon with noise={self.noise}")
        bounded_range_of(self.epsilon, self.rho)

    def weight_for(self, num_counts: int) -> float:
        """By what a loss is multiplied, for d = `num_counts` counts; never above price / range."""
        price = bounded_range_of(self.epsilon, self.rho)
        share = max(self.gamma, 1 - self.gamma) if self.k in (1, num_counts - 1) else 1.0
        weight = price / (self.adjacency.gap_sensitivity * share)
        return weight if share in (0.5, 1.0) else math.nextafter(math.nextafter(weight, 0.0), 0.0)

    @property
    def event(self) -> Event:
        """One bounded range, or epsilon-DP."""
        price = bounded_range_of(self.epsilon, self.rho)
        return BoundedRangeEvent(price) if self.noise == "gumbel" else PureDpEvent(price)

    def draw(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draws for checked counts `[Q, d]`: `[Q, k]`.

        All classes are weighed, many queries at a time, where they are few; otherwise one query at a time, by runs of
        equal counts. With Gumbel noise those that together weigh less than exp(-120) of the k best are looked at only
        where the uniform number falls there.
        """
        num_classes = counts.shape[1] * (1 if self.gamma == 1 else self.k)
        few = num_classes <= _FEW_CLASSES
        rows = max(1, _CLASSES_AT_ONCE // num_classes) if few else 1
        blocks = [counts[start : start + rows] for start in range(0, len(counts), rows)]
        return np.concatenate([self._draw_block(block, rng, few=few) for block in blocks])

    def distribution_of(self, counts: Counts) -> Distribution:
        """The exact distribution for checked counts `[d]`, over sorted tuples."""
        d = len(counts)
        classes = CanonicalClasses.all(d, self.k)
        sizes = np.array([classes.size(place) for place in range(len(classes.first))], dtype=np.float64)
        order, falling = falling_order(counts[None])
        distribution = (
            largest_distribution(
                -self.weight_for(d) * classes.losses(falling, self.gamma)[0], sizes, UNIT_NOISES[self.noise]
            )
            / sizes
        )
        pairs = zip(classes.first.tolist(), classes.high.tolist(), strict=True)
        of_class = dict(zip(pairs, distribution.tolist(), strict=True))
        sets = combinations(range(d), self.k)
        return {tuple(sorted(order[0, list(ranks)].tolist())): of_class[_class_of(ranks)] for ranks in sets}

    def _draw_block(self, counts: Counts, rng: np.random.Generator, *, few: bool) -> NDArray[np.int64]:
        order, falling = falling_order(counts)
        classes, chosen = self._choose(self._classes(falling, few=few), falling, rng, few=few)
        return np.sort(np.take_along_axis(order, classes.members(chosen, rng), axis=1), axis=1)

    def _classes(self, falling: Counts, *, few: bool) -> CanonicalClasses:
        """All classes, or those of one histogram that weigh anything."""
        num_ranks = falling.shape[1]
        if few:
            make = CanonicalClasses.by_worst if self.gamma == 1 else CanonicalClasses.all
            return make(num_ranks, self.k)
        if self.noise != "gumbel":
            return self._everything(falling)
        if self.gamma < 1:
            return CanonicalClasses.likely(falling[0], self.k, weight=self.weight_for(num_ranks), gamma=self.gamma)
        least = falling[0, self.k - 1] - (NEGLIGIBLE + self.k * math.log(num_ranks)) / self.weight_for(num_ranks)
        return CanonicalClasses.by_worst(num_ranks, self.k).up_to(int((falling[0] >= least).sum()))

    def _everything(self, falling: Counts) -> CanonicalClasses:
        """All classes of one long histogram."""
        if self.gamma == 1:
            return CanonicalClasses.by_worst(falling.shape[1], self.k)
        return CanonicalClasses.runs(falling[0], self.k, gamma=self.gamma)

    def _choose(
        self, classes: CanonicalClasses, falling: Counts, rng: np.random.Generator, *, few: bool
    ) -> tuple[CanonicalClasses, NDArray[np.int64]]:
        """The class of the largest noisy value among all sets, `[Q]`; among these classes or all."""
        values = -self.weight_for(falling.shape[1]) * classes.losses(falling, self.gamma)
        if self.noise != "gumbel":
            return classes, self._largest(classes, values, falling, rng)
        logs = values + classes.log_sizes
        floats = np.exp(logs - logs.max(axis=1, keepdims=True))

        def weights(row: int) -> Weights:
            some = self._weights(classes, falling[row])
            if few:
                return some

            def everything() -> Weights:
                return self._weights(self._everything(falling).after(classes), falling[row])

            return with_rest(some, _NEGLIGIBLE, everything)

        chosen = draw_index(floats, LazyUniforms.draw((len(floats),), rng), weights, classes.error)
        if int(chosen.max()) < floats.shape[1]:
            return classes, chosen
        return self._everything(falling).after(classes), chosen

    def _largest(
        self, classes: CanonicalClasses, values: Array, falling: Counts, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """By the largest of as much noise as a class has sets, plus their value."""
        losses = cache(lambda row: classes.exact_losses(falling[row], self.gamma))
        any_sets = np.broadcast_to(np.isfinite(classes.log_sizes), values.shape)
        logs = np.where(any_sets, classes.log_sizes, 0.0)
        noise = draw_largest(self.noise, logs, lambda row, place: classes.size(place), rng, error=classes.error)
        weight = Fraction(self.weight_for(falling.shape[1]))
        exact = Values(values, lambda row, place: -weight * losses(row)[place])
        return largest_noisy(exact, noise, 1, any_sets)[:, 0]

    def _weights(self, classes: CanonicalClasses, falling: Counts) -> Weights:
        weight = Fraction(self.weight_for(len(falling)))
        exponents = [weight * loss for loss in classes.exact_losses(falling, self.gamma)]
        return exponential_weights(exponents, [classes.size(place) for place in range(len(exponents))])


def _class_of(ranks: tuple[int, ...]) -> tuple[int, int]:
    """(first missing, worst present), 1-based, of 0-based ranks in rising order."""
    k = len(ranks)
    if ranks[-1] == k - 1:
        return k, k
    return next(place for place, rank in enumerate(ranks) if rank != place) + 1, ranks[-1] + 1
