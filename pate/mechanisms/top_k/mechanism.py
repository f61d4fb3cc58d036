"""The base classes of top-k mechanisms, which release k indices of a histogram and state their price."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, PureDpEvent
from pate.array_types import BoolArray, IntArray
from pate.mechanisms.parameters import COUNT, POSITIVE, Parameters
from pate.validation import require, require_generator, require_histogram, require_positive

# The probability of each outcome, a tuple of indices.
Distribution = dict[tuple[int, ...], float]
# Noise that is added to a larger count in floats would lose most of its digits.
LARGEST_COUNT = 2**40
# An exact distribution is computed for at most so many sequences of k indices.
MAX_OUTCOMES = 100_000
_ONLY_HISTOGRAM = 0  # the index of the histogram of a batch of one


@dataclass(frozen=True)
class TopK:
    """The outcome of a top-k mechanism for one histogram, or for a batch of Q histograms.

    Attributes:
        indices: the released indices, `[k]`, or `[Q, k]` for a batch; -1 where a place was not filled. `TopStableTopK`
            has `domain_size` places in place of k.
        answered: bool `[]` or `[Q]`, True if at least one index was released.
    """

    indices: IntArray
    answered: BoolArray


@dataclass(frozen=True, kw_only=True)
class TopKMechanism(Parameters, ABC):
    """The base class of mechanisms that release k indices of a histogram.

    `LimitedDomainTopK` may release fewer, and `TopStableTopK` none or up to `domain_size` of them.

    Between neighboring data sets each count moves by at most 1. Subclasses define `event`, `draw` and
    `distribution_of`. The price `event` depends on public parameters alone.

    Attributes:
        k: the number of indices, >= 1.
        adjacency: how neighboring data sets differ. Under replace-one each count moves by -1, 0 or 1. Under add/remove
            all counts move by 0 or 1 in the same direction.
    """

    k: int = field(metadata=COUNT)
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    @abstractmethod
    def event(self) -> Event:
        """The price of one release, which is that of the indices of one histogram."""

    @abstractmethod
    def draw(self, counts: IntArray, rng: np.random.Generator) -> IntArray:
        """Draws indices for each histogram of a batch `[Q, d]` of valid counts; -1 stands where a place is not filled.

        Returns `[Q, k]`, but `[Q, domain_size]` for `TopStableTopK`. The subclass names the order of the indices.
        """

    @abstractmethod
    def distribution_of(self, counts: IntArray) -> Distribution:
        """Returns the exact probability of each outcome, a tuple of indices, for valid counts `[d]`."""

    def __call__(self, counts: NDArray[np.integer], *, rng: np.random.Generator) -> TopK:
        """Draws k indices of one histogram `[d]`, or of each of a batch `[Q, d]`.

        Args:
            counts: whole numbers in 0..2**40, for at least k indices (d >= k).
            rng: draws the noise.
        """
        require_generator(rng)
        checked_counts = self._checked(counts)
        drawn_indices = self.draw(np.atleast_2d(checked_counts), rng)
        answered = np.asarray((drawn_indices >= 0).any(axis=1))
        if checked_counts.ndim == 2:
            return TopK(indices=drawn_indices, answered=answered)
        return TopK(
            indices=drawn_indices[_ONLY_HISTOGRAM],
            answered=np.asarray(answered[_ONLY_HISTOGRAM]),
        )

    def distribution(self, counts: NDArray[np.integer]) -> Distribution:
        """Returns the exact probability of each outcome, a tuple of indices, for one small histogram `[d]`.

        Raises `InvalidValue` for more than 100,000 sequences of k indices. `LaplaceTopK` and `LipschitzTopK` also raise
        it for counts that are more than 5,000 noise scales apart.
        """
        histogram = self._checked(counts, num_axes=1)
        require_few_outcomes(num_outcomes=math.perm(len(histogram), self.k))
        return self.distribution_of(histogram)

    def _checked(self, counts: NDArray[np.integer], num_axes: int | None = None) -> IntArray:
        """Returns counts as int64, `[d]` or `[Q, d]`, after a check that they are valid for this mechanism."""
        return require_counts(counts, min_num_counts=self.k, num_axes=num_axes)


@dataclass(frozen=True, kw_only=True)
class PureTopK(TopKMechanism):
    """The base class of top-k mechanisms whose noise is set by `epsilon`, the pure DP of the whole release.

    The noise has the scale k w / epsilon, where w is 2 (replace-one) or 1 (add/remove), unless a subclass overrides
    `noise_scale`.

    Attributes:
        epsilon: the epsilon of pure DP of the whole release, > 0.
    """

    epsilon: float = field(metadata=POSITIVE)

    @property
    def noise_scale(self) -> float:
        """The scale, in votes, of the noise on the counts; the subclass names the distribution of the noise."""
        return self.k * self.adjacency.gap_sensitivity / self.epsilon

    @property
    def event(self) -> Event:
        """The price of one release."""
        return PureDpEvent(self.epsilon)


@dataclass(frozen=True, kw_only=True)
class BoundedRangeTopK(TopKMechanism):
    """The base class of top-k mechanisms whose price is given as pure DP (`epsilon`) or as zCDP (`rho`).

    Exactly one of `epsilon` and `rho` is given.

    Attributes:
        epsilon: the epsilon of pure DP of the whole release, > 0; None if `rho` is given.
        rho: the rho of zCDP of the whole release, > 0; None if `epsilon` is given.
    """

    epsilon: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rho is None:
            require(self.epsilon is not None, "epsilon", self.epsilon, "epsilon or rho")
            require_positive("epsilon", self.epsilon or 0.0)
        else:
            require(self.epsilon is None, "rho", self.rho, "epsilon or rho, not both")
            require_positive("rho", self.rho)

    def range_of(self, *, rounds: int = 1) -> float:
        """Returns the bounded range of each of `rounds` equal picks that together cost `epsilon` or `rho`."""
        # Ranges of e add up to rounds * e pure DP and to rounds * e**2 / 8 zCDP.
        if self.epsilon is not None:
            return float(self.epsilon) / rounds
        rho = cast(float, self.rho)  # exactly one of both is None
        return math.sqrt(8 * float(rho) / rounds)


def require_few_outcomes(num_outcomes: int) -> None:
    """Raises `InvalidValue` if the exact distribution of a histogram has more than 100,000 sequences of indices."""
    is_few = num_outcomes <= MAX_OUTCOMES
    require(is_few, "counts", value=f"{num_outcomes} sequences", rule=f"at most {MAX_OUTCOMES}")


def require_counts(
    counts: NDArray[np.integer], min_num_counts: int, num_axes: int | None = None
) -> IntArray:
    """Returns counts as int64, `[d]` or `[Q, d]`.

    Args:
        counts: integers from 0 to 2**40, both included; at least one.
        min_num_counts: the least allowed length d of a histogram.
        num_axes: the number of axes, 1 or 2; None for either.

    Raises:
        InvalidValue: the counts are no such integers, or have another number of axes, or d is below `min_num_counts`.
    """
    checked_counts = require_histogram(
        "counts", counts, largest_count=LARGEST_COUNT, num_axes=num_axes
    )
    num_counts = checked_counts.shape[-1]
    require(
        min_num_counts <= num_counts,
        "k",
        min_num_counts,
        f"at most the number of counts, {num_counts}",
    )
    return checked_counts.astype(np.int64, copy=False)
