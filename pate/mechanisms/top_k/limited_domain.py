"""Top-k that reads the best counts alone: the base, and the mechanism with a noisy bottom."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, Event, PureDpEvent
from pate.mechanisms.noise import real_numbers
from pate.mechanisms.noise.real_numbers import (
    Values,
    draw_noise,
    largest_noisy,
)
from pate.mechanisms.noise.uniforms import Array
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
    """A top-k mechanism that looks at the best counts alone."""

    domain_size: int  # how many of them, >= k
    # pure DP outside the failure, of the whole release, > 0
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
        rule = (
            f"at most {(most := checked.shape[-1] - self._outside)} of {checked.shape[-1]} counts"
        )
        require(self.domain_size <= most, "domain_size", self.domain_size, rule)
        return checked


@dataclass(frozen=True, kw_only=True)
class LimitedDomainTopK(DomainTopK, PureTopK):
    """Releases up to k of the `domain_size` best indices in their noisy order, until a noisy bottom is reached.

    The rest of the histogram need not be known, apart from its largest count. Places below the bottom hold -1, and a
    histogram is answered if at least one index was released.

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
        """How far the bottom lies above the best count outside the domain, in counts."""
        # An index enters or leaves the domain only within w of the best count outside; there one Gumbel value against
        # the bottom's wins with less than exp(-(margin - w) / scale), and domain_size of them with failure_prob.
        return self.adjacency.gap_sensitivity + self.noise_scale * math.log(
            self.domain_size / self.failure_prob
        )

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws up to k labels of the limited domain, in order, `[Q, k]`."""
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
        ordered = peel_distribution(
            numbers[0] / self.noise_scale, self.k, real_numbers.gumbel_argmax
        )
        picks = {places: indices[0, list(places)] for places in ordered}
        return renamed(
            ordered, lambda at: np.where(np.cumsum(picks[at] < 0) > 0, -1, picks[at]).tolist()
        )

    def _domain(self, counts: Counts) -> tuple[Counts, Array]:
        """The indices that may be released, the bottom as -1, and how far above the rest: `[Q, domain_size + 1]`."""
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
