"""Canonical top-k: a set of k indices by noise on its best missing and its worst present count."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from pate.accounting import BoundedRangeEvent, Event, PureDpEvent
from pate.mechanisms.noise import NOISES
from pate.mechanisms.order_laws import largest_law
from pate.mechanisms.top_k import Array, Counts, Law, TopKMechanism, bounded_range_of
from pate.validation import require, require_choice


@dataclass(frozen=True)
class CanonicalClasses:
    """The sets of k of d ranks by (h, t): the h best are present, the next is missing, and t is the worst present.

    Attributes:
        first_missing: `[n]` h + 1, 1-based; k for the set of the k best, which stands for itself.
        worst_present: `[n]` t, 1-based.
        k: how many.
    """

    first_missing: NDArray[np.int64]
    worst_present: NDArray[np.int64]
    k: int

    @classmethod
    def of(cls, num_indices: int, k: int) -> CanonicalClasses:
        """All classes that have members: the k best first."""
        pairs = [(k, k)]
        pairs += [(h + 1, t) for h in range(k) for t in range(k + 1, num_indices + 1)]  # t - h - 2 >= k - h - 1
        first, worst = np.array(pairs).T
        return cls(first, worst, k)

    def size(self, place: int) -> int:
        """How many sets a class has, exactly."""
        first, worst = int(self.first_missing[place]), int(self.worst_present[place])
        return 1 if worst == self.k else comb(worst - first - 1, self.k - first)

    @property
    def log_sizes(self) -> Array:
        """`[n]` logarithms of the sizes."""
        free = np.maximum(self.worst_present - self.first_missing - 1.0, 0.0)
        picked = self.k - self.first_missing
        logs = gammaln(free + 1) - gammaln(picked + 1.0) - gammaln(free - picked + 1)
        return np.asarray(logs)

    def member(self, place: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """A uniform set of a class: `[k]` 0-based ranks."""
        first, worst = int(self.first_missing[place]), int(self.worst_present[place])
        if worst == self.k:
            return np.arange(self.k)
        between = first + rng.choice(worst - first - 1, self.k - first, replace=False)
        return np.concatenate([np.arange(first - 1), between, [worst - 1]])


@dataclass(frozen=True, kw_only=True)
class CanonicalTopK(TopKMechanism):
    """Draws a set of k indices by noise on a loss with few distinct values; released in the order of the indices.

    The loss of a set is (1 - gamma) times its best missing count minus gamma times its worst present count; for the set
    of the k best, the k-th count stands in for the missing one.

    Formal guarantee: losses of two sets move against each other by at most 2 (replace-one) or 1 (add/remove). Gumbel
    noise has this as bounded range; the other kinds are pure DP.

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
        require_choice("noise", self.noise, tuple(NOISES))
        require(self.rho is None or self.noise == "gumbel", "rho", self.rho, f"epsilon with noise={self.noise}")
        bounded_range_of(self.epsilon, self.rho)

    @property
    def weight(self) -> float:
        """By what a loss is multiplied."""
        return bounded_range_of(self.epsilon, self.rho) / self.adjacency.gap_sensitivity

    @property
    def event(self) -> Event:
        """One bounded range, or epsilon-DP."""
        price = bounded_range_of(self.epsilon, self.rho)
        return BoundedRangeEvent(price) if self.noise == "gumbel" else PureDpEvent(price)

    def draw(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draws for checked counts `[Q, d]`: `[Q, k]`; takes k d steps a query."""
        classes = CanonicalClasses.of(counts.shape[1], self.k)
        order = np.argsort(-counts, axis=1, kind="stable")
        losses = self._losses(classes, np.take_along_axis(counts, order, axis=1))
        log_sizes = np.broadcast_to(classes.log_sizes, losses.shape)
        places = (NOISES[self.noise].largest_of(log_sizes, rng) - self.weight * losses).argmax(axis=1)
        ranks = np.stack([classes.member(int(place), rng) for place in places])
        return np.sort(np.take_along_axis(order, ranks, axis=1), axis=1)

    def law_of(self, counts: Counts) -> Law:
        """The exact law for checked counts `[d]`, over sorted tuples."""
        d = len(counts)
        classes = CanonicalClasses.of(d, self.k)
        sizes = np.array([classes.size(place) for place in range(len(classes.first_missing))], dtype=np.float64)
        order = np.argsort(-counts, kind="stable")
        values = -self.weight * self._losses(classes, counts[order][None])[0]
        law = largest_law(values, sizes, NOISES[self.noise]) / sizes
        pairs = zip(classes.first_missing.tolist(), classes.worst_present.tolist(), strict=True)
        of_class = dict(zip(pairs, law.tolist(), strict=True))
        sets = combinations(range(d), self.k)
        return {tuple(sorted(order[list(ranks)].tolist())): of_class[_class_of(ranks)] for ranks in sets}

    def _losses(self, classes: CanonicalClasses, falling: Counts) -> Array:
        """`[Q, n]`, the loss of the k best at 0."""
        missing, worst = falling[:, classes.first_missing - 1], falling[:, classes.worst_present - 1]
        kth = falling[:, [self.k - 1]]
        return np.asarray((1 - self.gamma) * (missing - kth) - self.gamma * (worst - kth))


def _class_of(ranks: tuple[int, ...]) -> tuple[int, int]:
    """(first missing, worst present), 1-based, of 0-based ranks in rising order."""
    k = len(ranks)
    if ranks[-1] == k - 1:
        return k, k
    return next(place for place, rank in enumerate(ranks) if rank != place) + 1, ranks[-1] + 1
