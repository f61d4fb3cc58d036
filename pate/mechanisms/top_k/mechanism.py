"""The base of top-k mechanisms: k indices of a histogram, their price and their exact distribution."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, PureDpEvent
from pate.mechanisms.parameters import COUNT, POSITIVE, Parameters
from pate.validation import (
    require,
    require_generator,
    require_histogram,
    require_positive,
)

Counts = NDArray[np.int64]
Distribution = dict[tuple[int, ...], float]
LARGEST_COUNT = 2**40  # above it, noise beside a count has few digits left in floating point
MOST_OUTCOMES = 100_000


@dataclass(frozen=True)
class TopK:
    """Outcomes of a top-k mechanism."""

    indices: Counts  # [k], or [Q, k] for a batch; places that were not filled hold -1
    answered: NDArray[np.bool_]  # bool [] or [Q]: at least one index was released


@dataclass(frozen=True, kw_only=True)
class TopKMechanism(Parameters, ABC):
    """A mechanism that releases k indices of a histogram whose counts each move by at most 1 between neighbors.

    A subclass states its price in `event`, which reads no counts.
    """

    k: int = field(metadata=COUNT)  # the number of indices, >= 1
    # counts move by -1, 0 or 1 (replace-one), or all by 0 or 1 in one direction
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    @abstractmethod
    def event(self) -> Event:
        """The price of one histogram."""

    @abstractmethod
    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws indices `[Q, k]` for checked counts `[Q, d]`."""

    @abstractmethod
    def distribution_of(self, counts: Counts) -> Distribution:
        """Returns the exact distribution for checked counts `[d]`."""

    def __call__(self, counts: NDArray[np.integer], *, rng: np.random.Generator) -> TopK:
        """Draws k indices of one histogram `[d]` or each of a batch `[Q, d]`, of k or more whole counts in 0..2**40."""
        require_generator(rng)
        checked = self._checked(counts)
        indices = self.draw(np.atleast_2d(checked), rng)
        answered = np.asarray((indices >= 0).any(axis=1))
        return (
            TopK(indices, answered)
            if checked.ndim == 2
            else TopK(indices[0], np.asarray(answered[0]))
        )

    def distribution(self, counts: NDArray[np.integer]) -> Distribution:
        """Returns the exact distribution of the outcome, a tuple of indices, for one small histogram `[d]`.

        Raises `InvalidValue` for more than 100,000 sequences of k indices, and for counts more than 5,000 noise scales
        apart where the distribution is an integral.
        """
        checked = self._checked(counts, rank=1)
        outcomes = math.perm(len(checked), self.k)
        require(
            outcomes <= MOST_OUTCOMES,
            "counts",
            f"{outcomes} sequences",
            f"at most {MOST_OUTCOMES}",
        )
        return self.distribution_of(checked)

    def _checked(self, counts: NDArray[np.integer], rank: int | None = None) -> Counts:
        return checked_counts(counts, self.k, rank)


@dataclass(frozen=True, kw_only=True)
class PureTopK(TopKMechanism):
    """A top-k mechanism of pure DP, whose noise has the scale k w / epsilon.

    Here w is 2 (replace-one) or 1 (add/remove).
    """

    epsilon: float = field(metadata=POSITIVE)  # pure DP of the whole release, > 0

    @property
    def noise_scale(self) -> float:
        """The noise's scale in counts."""
        return self.k * self.adjacency.gap_sensitivity / self.epsilon

    @property
    def event(self) -> Event:
        """The price of one query."""
        return PureDpEvent(self.epsilon)


@dataclass(frozen=True, kw_only=True)
class BoundedRangeTopK(TopKMechanism):
    """A top-k mechanism whose price is stated as pure DP or as zCDP."""

    epsilon: float | None = None  # pure DP of the whole release, > 0; or
    rho: float | None = None  # its zCDP, > 0; exactly one of the two

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.range_of()

    def range_of(self, *, rounds: int = 1) -> float:
        """Returns the bounded range of each of so many rounds that together have the price."""
        if self.rho is None:
            require(self.epsilon is not None, "epsilon", self.epsilon, "epsilon or rho")
            return require_positive("epsilon", self.epsilon or 0.0) / rounds
        require(self.epsilon is None, "rho", self.rho, "epsilon or rho, not both")
        # ranges of e add up to rounds * e pure DP and to rounds * e**2 / 8 zCDP
        return math.sqrt(8 * require_positive("rho", self.rho) / rounds)


def checked_counts(counts: NDArray[np.integer], k: int, rank: int | None = None) -> Counts:
    """Returns at least k whole numbers in 0..2**40 as int64, `[d]` or `[Q, d]`, of the given rank.

    Raises `InvalidValue` for other counts.
    """
    checked = require_histogram("counts", counts, num_teachers=LARGEST_COUNT, rank=rank)
    require(k <= checked.shape[-1], "k", k, f"at most the number of counts, {checked.shape[-1]}")
    return checked.astype(np.int64, copy=False)
