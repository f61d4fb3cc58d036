"""Top-k mechanisms that read the best counts alone: their base, and the one with a noisy bottom."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, Event, PureDpEvent
from pate.mechanisms.noise.comparisons import Values, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.lazy_uniforms import Array
from pate.mechanisms.noise.maxima import gumbel_argmax
from pate.mechanisms.parameters import POSITIVE, PROBABILITY
from pate.mechanisms.top_k.mechanism import Counts, Distribution, PureTopK, TopKMechanism
from pate.mechanisms.top_k.ranking import peel_distribution, renamed
from pate.validation import (
    require,
    require_count,
)

_UP = 1 + 2.0**-50  # rounding must not bring a bottom closer than the proof has it


@dataclass(frozen=True, kw_only=True)
class DomainTopK(TopKMechanism):
    """A top-k mechanism that reads the best counts alone, those of its domain."""

    domain_size: int  # the number of counts that are read, >= k
    # of (epsilon, failure_prob)-DP of the whole release, > 0
    epsilon: float = field(metadata=POSITIVE)
    failure_prob: float = field(metadata=PROBABILITY)  # in (0, 1)
    _outside: ClassVar[int] = 0  # the fewest counts beside the domain

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("domain_size", self.domain_size, minimum=self.k)

    @property
    def event(self) -> Event:
        """The price of one query."""
        return ApproximateEvent(PureDpEvent(self.epsilon), self.failure_prob)

    def _checked(self, counts: NDArray[np.integer], rank: int | None = None) -> Counts:
        checked = super()._checked(counts, rank)
        num_counts = checked.shape[-1]
        most = num_counts - self._outside
        rule = f"at most {most} of {num_counts} counts"
        require(self.domain_size <= most, "domain_size", self.domain_size, rule)
        return checked


@dataclass(frozen=True, kw_only=True)
class LimitedDomainTopK(DomainTopK, PureTopK):
    """A mechanism that releases up to k of the `domain_size` best indices in their noisy order, down to a noisy bottom.

    Of the rest of the histogram only the largest count is needed. Places below the bottom hold -1. A histogram is
    answered if at least one index was released.

    Formal guarantee: epsilon-DP except with probability `failure_prob`, under the adjacency given: the bottom lies
    w + log(domain_size / failure_prob) * scale above the best count outside, with w = 2 (replace-one) or 1 (add/remove)
    and scale k w / epsilon.
    Source: Durfee & Rogers 2019, whose w = 1 is for add/remove; docs/proofs/limited_domain_top_k.md.

    >>> mechanism = LimitedDomainTopK(k=3, domain_size=5, epsilon=30.0, failure_prob=1e-6)
    >>> mechanism(np.array([90, 2, 50, 0, 1, 1]), rng=np.random.default_rng(0)).indices
    array([ 0,  2, -1])
    """

    @property
    def margin(self) -> float:
        """The height of the bottom above the best count outside the domain, in counts."""
        # An index enters or leaves the domain only within w of the best count outside; there one Gumbel value against
        # the bottom's wins with less than exp(-(margin - w) / scale), and domain_size of them with failure_prob.
        return self.adjacency.gap_sensitivity + self.noise_scale * math.log(
            self.domain_size / self.failure_prob
        )

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws up to k indices of the domain, in order, `[Q, k]`."""
        indices, numbers = self._domain(counts)
        scale = Fraction(self.noise_scale)
        values = Values(
            numbers / self.noise_scale,
            lambda row, place: Fraction(numbers[row, place].item()) / scale,
        )
        places = largest_noisy(values, draw_noise("gumbel", numbers.shape, rng), self.k)
        picked = np.take_along_axis(indices, places, axis=1)
        return np.where(np.cumsum(picked < 0, axis=1) > 0, -1, picked)

    def distribution_of(self, counts: Counts) -> Distribution:
        """Returns the probability of each ordered outcome for one histogram."""
        indices, numbers = self._domain(counts[None])
        ordered = peel_distribution(numbers[0] / self.noise_scale, self.k, gumbel_argmax)
        picks = {places: indices[0, list(places)] for places in ordered}
        return renamed(
            ordered, lambda at: np.where(np.cumsum(picks[at] < 0) > 0, -1, picks[at]).tolist()
        )

    def _domain(self, counts: Counts) -> tuple[Counts, Array]:
        """Returns the indices of the domain with -1 for the bottom, and their heights: `[Q, domain_size + 1]` each.

        A height is that above the best count outside, in counts.
        """
        order = np.argsort(-counts, axis=1, kind="stable")[:, : self.domain_size + 1]
        falling = np.take_along_axis(counts, order, axis=1)
        if falling.shape[1] == self.domain_size:  # nothing is outside
            falling = np.pad(falling, ((0, 0), (0, 1)))
        outside = falling[:, [-1]]
        numbers = np.concatenate(
            [falling[:, :-1] - outside, np.full(outside.shape, self.margin * _UP)], axis=1
        )
        return np.concatenate(
            [order[:, : self.domain_size], np.full(outside.shape, -1)], axis=1
        ), numbers
