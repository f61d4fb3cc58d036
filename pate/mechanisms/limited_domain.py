"""Top-k that looks at the best counts alone: Gumbel noise above a bottom, or the first gap above a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, Event, PureDpEvent
from pate.accounting.special import gauss_legendre
from pate.mechanisms.noise.kinds import UNIT_NOISES, gumbel_argmax, panels
from pate.mechanisms.noise.noisy_order import Values, are_above, draw_noise, largest_noisy
from pate.mechanisms.parameters import POSITIVE, PROBABILITY
from pate.mechanisms.top_k import Array, Counts, Distribution, TopKMechanism, falling_order
from pate.validation import require, require_count

_UP = 1 + 2.0**-50
"""Rounding must not bring the bottom closer than the proof has it."""
_PANEL, _TAIL = 0.5, 42.0


@dataclass(frozen=True, kw_only=True)
class DomainTopK(TopKMechanism):
    """A top-k mechanism that looks at the best counts alone."""

    domain_size: int  # how many of them, >= k
    epsilon: float = field(metadata=POSITIVE)  # pure DP outside the failure, of the whole release, > 0
    failure_prob: float = field(metadata=PROBABILITY)  # in (0, 1)
    _outside: ClassVar[int] = 0  # the fewest counts beside the domain

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("domain_size", self.domain_size, minimum=self.k)

    @property
    def event(self) -> Event:
        return ApproximateEvent(PureDpEvent(self.epsilon), self.failure_prob)

    def _checked(self, counts: NDArray[np.integer], rank: int | None = None) -> Counts:
        checked = super()._checked(counts, rank)
        most = checked.shape[-1] - self._outside
        require(
            self.domain_size <= most, "domain_size", self.domain_size, f"at most {most} of {checked.shape[-1]} counts"
        )
        return checked


@dataclass(frozen=True, kw_only=True)
class LimitedDomainTopK(DomainTopK):
    """Releases up to k of the `domain_size` best indices in their noisy order, until a noisy bottom is reached.

    The rest of the histogram need not be known, apart from its largest count. Places below the bottom hold -1, and a
    histogram is answered if at least one index was released.

    Formal guarantee: epsilon-DP except with probability `failure_prob`, under the adjacency given: the bottom lies
    w + log(domain_size / failure_prob) * scale above the best count outside, with w = 2 (replace-one) or 1 (add/remove)
    and scale k w / epsilon.

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
        # An index enters or leaves the domain only within w of the best count outside; there one Gumbel value against
        # the bottom's wins with less than exp(-(margin - w) / scale), and domain_size of them with failure_prob.
        return self.adjacency.gap_sensitivity + self.noise_scale * math.log(self.domain_size / self.failure_prob)

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        indices, numbers = self._domain(counts)
        scale = Fraction(self.noise_scale)
        values = Values(numbers / self.noise_scale, lambda row, place: Fraction(numbers[row, place].item()) / scale)
        places = largest_noisy(values, draw_noise("gumbel", numbers.shape, rng), self.k)
        picked = np.take_along_axis(indices, places, axis=1)
        below = np.cumsum(picked < 0, axis=1) > 0
        return np.where(below, -1, picked)

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

    def _domain(self, counts: Counts) -> tuple[Counts, Array]:
        """The indices that may be released, the bottom as -1, and how far above the rest: `[Q, domain_size + 1]`."""
        order = np.argsort(-counts, axis=1, kind="stable")[:, : self.domain_size + 1]
        falling = np.take_along_axis(counts, order, axis=1)
        if falling.shape[1] == self.domain_size:  # nothing is outside
            falling = np.pad(falling, ((0, 0), (0, 1)))
        outside = falling[:, [-1]]
        numbers = np.concatenate([falling[:, :-1] - outside, np.full(outside.shape, self.margin * _UP)], axis=1)
        bottom = np.full(outside.shape, -1)
        return np.concatenate([order[:, : self.domain_size], bottom], axis=1), numbers


@dataclass(frozen=True, kw_only=True)
class TopStableTopK(DomainTopK):
    """Releases the set of the j best for the first j in k..domain_size whose gap exceeds a noisy threshold, or nothing.

    A reconstruction from the description in Carvalho et al., whose own algorithm differs. The outcome has
    `domain_size` places, j of them filled, in the order of the indices; the rest hold -1. There are more counts than
    that.

    Formal guarantee: (epsilon, failure_prob)-DP under the adjacency given. Let w = 2 (replace-one) or 1 (add/remove).
    From the gap after rank j we subtract w, but not below 0, and add Laplace noise of scale 4 w / epsilon. We compare
    the result with a threshold plus Laplace noise of scale 2 w / epsilon. A gap of at most w passes with a probability
    of at most failure_prob divided by the number of ranks.

    Source: after Carvalho et al. 2020; docs/proofs/top_k.md.

    >>> mechanism = TopStableTopK(k=1, domain_size=3, epsilon=30.0, failure_prob=1e-6)
    >>> mechanism(np.array([90, 2, 89, 0, 1, 1]), rng=np.random.default_rng(0)).indices
    array([ 0,  2, -1])
    """

    _outside: ClassVar[int] = 1

    @property
    def gap_scale(self) -> float:
        """The scale of the noise on each gap, in counts."""
        return 2 * self.threshold_scale

    @property
    def threshold_scale(self) -> float:
        """The scale of the noise on the threshold, in counts."""
        return 2 * self.adjacency.gap_sensitivity / self.epsilon

    @property
    def threshold(self) -> float:
        """What a gap beyond w is compared with, in counts: the difference of the two noises seldom exceeds it."""
        share = self.failure_prob / (self.domain_size - self.k + 1)
        if share >= 0.5:
            return 0.0
        # P[noise of a gap - noise of the threshold > x threshold_scale] = (4 u - u**2) / 6 with u = exp(-x / 2)
        # is the share: u is the smaller root of u**2 - 4 u + 6 share = 0, written without cancellation
        u = 6 * share / (2 + math.sqrt(4 - 6 * share))
        return -2 * self.threshold_scale * math.log(u)

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws for checked counts `[Q, d]`: `[Q, domain_size]`, with -1 in places that are not filled."""
        order, excess = self._excess(counts)
        threshold = draw_noise("laplace", (len(counts), 1), rng), -self.threshold_scale
        gaps = draw_noise("laplace", excess.shape, rng), self.gap_scale
        passed = are_above(excess, self.threshold, (threshold, gaps))
        length = np.where(passed.any(axis=1), self.k + passed.argmax(axis=1), 0)
        unfilled = counts.shape[1]
        released = np.where(np.arange(self.domain_size) < length[:, None], order[:, : self.domain_size], unfilled)
        released = np.sort(released, axis=1)
        return np.where(released < unfilled, released, -1)

    def distribution_of(self, counts: Counts) -> Distribution:
        order, excess = self._excess(counts[None])
        kinks, reach = excess[0] - self.threshold, _TAIL * self.threshold_scale
        corners = np.unique([-reach, reach, 0.0, *kinks[np.abs(kinks) < reach]])
        grid, half = panels(corners, _PANEL * min(self.threshold_scale, self.gap_scale))  # of the threshold's noise
        points, weights = grid.ravel(), (half * gauss_legendre(grid.shape[1])[1]).ravel()
        laplace = UNIT_NOISES["laplace"]
        fails = laplace.cdf((self.threshold + points - excess[0][:, None]) / self.gap_scale)  # [ranks, G]
        weights = weights * laplace.density(points / self.threshold_scale) / self.threshold_scale
        reached = np.cumprod(np.vstack([np.ones_like(points), fails]), axis=0)
        distribution: Distribution = {(-1,) * self.domain_size: float(reached[-1] @ weights)}
        for rank, (before, fail) in enumerate(zip(reached, fails, strict=False), start=self.k):
            best = tuple(sorted(order[0, :rank].tolist())) + (-1,) * (self.domain_size - rank)
            distribution[best] = float((before * (1 - fail)) @ weights)
        return distribution

    def _excess(self, counts: Counts) -> tuple[Counts, Counts]:
        """The ranking, and by how much the gap after each rank k..domain_size exceeds w: `[Q, ranks]`."""
        order, falling = falling_order(counts)
        gaps = -np.diff(falling, axis=1)[:, self.k - 1 : self.domain_size]
        return order, np.maximum(gaps - self.adjacency.gap_sensitivity, 0)
