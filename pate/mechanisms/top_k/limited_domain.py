"""Top-k mechanisms that read the largest counts alone: their base class, and `LimitedDomainTopK`."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pate.accounting import ApproximateEvent, Event, PureDpEvent
from pate.array_types import FloatArray, IntArray
from pate.mechanisms.noise.comparisons import ExactValues, largest_noisy
from pate.mechanisms.noise.drawn_noise import draw_noise
from pate.mechanisms.noise.maxima import gumbel_noise_argmax
from pate.mechanisms.parameters import POSITIVE, PROBABILITY
from pate.mechanisms.top_k.mechanism import Distribution, PureTopK, TopKMechanism
from pate.mechanisms.top_k.pick_distributions import peel_distribution, relabel_outcomes
from pate.validation import InvalidValue, require_count

# The height of the bottom is raised by this factor, so that rounding never lowers it below what the proof needs.
_ROUNDING_UP = 1 + 2.0**-50


@dataclass(frozen=True, kw_only=True)
class DomainTopK(TopKMechanism):
    """The base class of top-k mechanisms that read the `domain_size` largest counts (the domain) and the largest other.

    Attributes:
        domain_size: the number of indices that can be released, >= k.
        epsilon: the epsilon of the whole release, which is (epsilon, failure_prob)-DP; > 0.
        failure_prob: the delta of the whole release, in (0, 1).
    """

    domain_size: int
    epsilon: float = field(metadata=POSITIVE)
    failure_prob: float = field(metadata=PROBABILITY)
    # The smallest number of counts that a histogram has outside the domain.
    _min_outside: ClassVar[int] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("domain_size", self.domain_size, minimum=self.k)

    @property
    def event(self) -> Event:
        """The price of one release."""
        return ApproximateEvent(PureDpEvent(self.epsilon), failure_prob=self.failure_prob)

    def _checked(self, counts: NDArray[np.integer], num_axes: int | None = None) -> IntArray:
        """Returns counts as int64, `[d]` or `[Q, d]`.

        Raises `InvalidValue` for invalid counts, and for fewer than `domain_size`; `TopStableTopK` needs one more.
        """
        checked_counts = super()._checked(counts, num_axes=num_axes)
        num_counts = checked_counts.shape[-1]
        largest_domain = num_counts - self._min_outside
        if self.domain_size > largest_domain:
            rule = f"at most {largest_domain} of {num_counts} counts"
            raise InvalidValue("domain_size", self.domain_size, rule=rule)
        return checked_counts


@dataclass(frozen=True, kw_only=True)
class LimitedDomainTopK(DomainTopK, PureTopK):
    """A mechanism that releases up to k indices in their noisy order, those whose noisy count exceeds a noisy bottom.

    The domain is the set of the `domain_size` indices with the largest counts. Only these are released. The bottom is a
    threshold above the largest count outside the domain. Counts and bottom have Gumbel noise. Places of the outcome
    that are not filled hold -1. A histogram is answered if at least one index was released. If the domain has all
    indices, the largest count outside is 0.

    Formal guarantee: epsilon-DP except with probability `failure_prob`, for `adjacency`. The bottom lies
    w + log(domain_size / failure_prob) * scale above the largest count outside the domain, with w = 2 (replace-one) or
    1 (add/remove) and scale = k w / epsilon.
    Source: Durfee & Rogers 2019, whose w = 1 is for add/remove; docs/proofs/limited_domain_top_k.md.

    >>> mechanism = LimitedDomainTopK(k=3, domain_size=5, epsilon=30.0, failure_prob=1e-6)
    >>> mechanism(np.array([90, 2, 50, 0, 1, 1]), rng=np.random.default_rng(0)).indices
    array([ 0,  2, -1])
    """

    @property
    def margin(self) -> float:
        """The height of the bottom, before noise, above the largest count outside the domain, in votes."""
        # Only an index whose count is within w of the largest count outside can enter or leave the domain. Its noisy
        # count exceeds the noisy bottom with a probability below exp(-(margin - w) / scale). There are at most
        # domain_size such indices, so the probability that one of them is released is below failure_prob.
        return self.adjacency.gap_sensitivity + self.noise_scale * math.log(
            self.domain_size / self.failure_prob
        )

    def draw(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws up to k indices of each histogram `[Q, d]`, in their noisy order, then -1: `[Q, k]`."""
        candidate_indices, noiseless_heights = self._candidates(counts)
        drawn_noise = draw_noise(noise_kind="gumbel", shape=noiseless_heights.shape, rng=rng)
        exact_noise_scale = Fraction(self.noise_scale)

        def compute_fraction(row: int, place: int) -> Fraction:
            return Fraction(noiseless_heights[row, place].item()) / exact_noise_scale

        exact_values = ExactValues(
            floats=noiseless_heights / self.noise_scale, compute_fraction=compute_fraction
        )
        places_by_noisy_height = largest_noisy(exact_values, drawn_noise, k=self.k)
        return _cut_at_bottom(np.take_along_axis(candidate_indices, places_by_noisy_height, axis=1))

    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the probability of each outcome, a tuple of k indices or -1, for one histogram `[d]`."""
        candidate_indices, noiseless_heights = self._candidates(counts[None])
        place_distribution = peel_distribution(
            utilities=noiseless_heights[0] / self.noise_scale,
            k=self.k,
            argmax_distribution=gumbel_noise_argmax,
        )

        def places_to_released_indices(place_sequence: tuple[int, ...]) -> list[int]:
            drawn_indices = candidate_indices[:, list(place_sequence)]
            released: list[int] = _cut_at_bottom(drawn_indices)[0].tolist()
            return released

        return relabel_outcomes(place_distribution, relabel_outcome=places_to_released_indices)

    def _candidates(self, counts: IntArray) -> tuple[IntArray, FloatArray]:
        """Returns the candidates of each histogram `[Q, d]`: the indices of the domain, and the bottom, a threshold.

        Returns:
            Two arrays `[Q, domain_size + 1]`: the index of each candidate, -1 for the bottom; and its height before
            noise, the number of votes by which it exceeds the largest count outside the domain. That count is taken as
            0 if the domain has all indices. The height of the bottom is `margin`.
        """
        indices_by_count = np.argsort(-counts, axis=1, kind="stable")[:, : self.domain_size + 1]
        falling_counts = np.take_along_axis(counts, indices_by_count, axis=1)
        if falling_counts.shape[1] == self.domain_size:  # nothing is outside
            falling_counts = np.pad(falling_counts, ((0, 0), (0, 1)))
        largest_counts_outside_domain = falling_counts[:, [-1]]
        one_per_histogram = (len(counts), 1)
        bottom_heights = np.full(one_per_histogram, self.margin * _ROUNDING_UP)
        bottom_indices = np.full(one_per_histogram, -1)
        noiseless_heights = np.concatenate(
            [falling_counts[:, :-1] - largest_counts_outside_domain, bottom_heights], axis=1
        )
        candidate_indices = np.concatenate(
            [indices_by_count[:, : self.domain_size], bottom_indices], axis=1
        )
        return candidate_indices, noiseless_heights


def _cut_at_bottom(released_indices: IntArray) -> IntArray:
    """Returns indices `[Q, k]` in which all entries of a row after its first -1, the bottom, are -1 too."""
    return np.where(np.cumsum(released_indices < 0, axis=1) > 0, -1, released_indices)
