"""Limited domain top-k: Gumbel noise on the best counts only, and a bottom below which nothing is released."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.noise.argmax_distributions import gumbel_argmax
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.noisy_order import Values, largest_noisy
from pate.mechanisms.top_k.top_k import Array, Counts, Distribution, DomainTopK
from pate.validation import require

_UP = 1 + 2.0**-50
"""Rounding must not bring the bottom closer than the proof has it."""


@dataclass(frozen=True, kw_only=True)
class LimitedDomainTopK(DomainTopK):
    """Releases up to k of the `domain_size` best indices in their noisy order, until a noisy bottom is reached.

    The rest of the histogram need not be known, apart from its largest count. Places below the bottom hold -1, and a
    histogram is answered if at least one index was released.

    Formal guarantee: epsilon-DP except with probability `failure_prob`, under the adjacency given: the bottom lies
    w + log(domain_size / failure_prob) * scale above the best count outside, with w = 2 (replace-one) or 1 (add/remove)
    and scale k w / epsilon.

    Attributes:
        domain_size: how many of the best indices may be released, >= k.
        epsilon: pure DP outside the failure, of the whole release, > 0.
        failure_prob: in (0, 1).

    Source: Durfee & Rogers 2019, whose w = 1 is for add/remove; docs/proofs/top_k.md.

    >>> mechanism = LimitedDomainTopK(k=3, domain_size=5, epsilon=30.0, failure_prob=1e-6)
    >>> mechanism(np.array([90, 2, 50, 0, 1, 1]), rng=np.random.default_rng(0)).indices
    array([ 0,  2, -1])
    """

    @property
    def noise_scale(self) -> float:
        """The Gumbel noise's scale in counts."""
        return self.k * self.adjacency.gap_sensitivity / self.epsilon

    @property
    def margin(self) -> float:
        """How far the bottom lies above the best count outside the domain, in counts."""
        return self.adjacency.gap_sensitivity + self.noise_scale * math.log(self.domain_size / self.failure_prob)

    def draw(self, counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draws for checked counts `[Q, d]`: `[Q, k]`, with -1 below the bottom."""
        indices, numbers = self._domain(counts)
        values = Values(numbers / self.noise_scale, partial(self._utility, numbers))
        places = largest_noisy(values, draw_noise("gumbel", numbers.shape, rng), self.k)
        picked = np.take_along_axis(indices, places, axis=1)
        below = np.cumsum(picked < 0, axis=1) > 0
        return np.where(below, -1, picked)

    def _utility(self, numbers: Array, row: int, place: int) -> Fraction:
        return Fraction(numbers[row, place].item()) / Fraction(self.noise_scale)

    def distribution_of(self, counts: Counts) -> Distribution:
        """The exact distribution for checked counts `[d]`: ordered tuples of length k, -1 below the bottom."""
        indices, numbers = self._domain(counts[None])
        names, values = indices[0], numbers[0] / self.noise_scale
        unfinished: dict[tuple[int, ...], float] = {(): 1.0}  # places in the domain
        distribution: Distribution = {}
        for length in range(1, self.k + 1):
            longer: dict[tuple[int, ...], float] = {}
            for prefix, probability in unfinished.items():
                rest = [place for place in range(len(names)) if place not in prefix]
                for place, p in zip(rest, gumbel_argmax(values[rest]), strict=True):
                    if names[place] < 0:
                        released = tuple(names[list(prefix)].tolist())
                        distribution[released + (-1,) * (self.k - length + 1)] = probability * float(p)
                    else:
                        longer[*prefix, place] = probability * float(p)
            unfinished = longer
        return distribution | {tuple(names[list(places)].tolist()): p for places, p in unfinished.items()}

    def _checked(self, counts: NDArray[np.integer], rank: int | None = None) -> Counts:
        checked = super()._checked(counts, rank)
        size = checked.shape[-1]
        require(self.domain_size <= size, "domain_size", self.domain_size, f"at most the number of counts, {size}")
        return checked

    def _domain(self, counts: Counts) -> tuple[NDArray[np.int64], Array]:
        """The indices that may be released, the bottom as -1, and how far above the rest: `[Q, domain_size + 1]`."""
        order = np.argsort(-counts, axis=1, kind="stable")[:, : self.domain_size + 1]
        falling = np.take_along_axis(counts, order, axis=1)
        if falling.shape[1] == self.domain_size:  # nothing is outside
            falling = np.pad(falling, ((0, 0), (0, 1)))
        outside = falling[:, [-1]]
        numbers = np.concatenate([falling[:, :-1] - outside, np.full(outside.shape, self.margin * _UP)], axis=1)
        bottom = np.full(outside.shape, -1)
        return np.concatenate([order[:, : self.domain_size], bottom], axis=1), numbers
