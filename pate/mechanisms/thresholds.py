"""Noisy whole numbers against public thresholds: released above one, or said to be below, between or above two."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, PureDpEvent
from pate.accounting.target_charging import QTarget, between_thresholds, not_prior
from pate.mechanisms.noise.whole_numbers import Array, DiscreteLaplace
from pate.validation import InvalidValue, require, require_choice, require_positive

_STATISTICS = ("count", "gap")
_LARGEST_VALUE = 2**53


@dataclass(frozen=True, kw_only=True)
class ThresholdCall(ABC):
    """Compares noisy whole numbers with public thresholds.

    Attributes:
        epsilon: pure DP of one call, >= 2**-31. The noise is made for the largest rate on its grid that is no larger.
        statistic: "count", a number of teachers, which moves by at most 1; or "gap", the difference of two ranked
            counts, which moves by at most 2 (replace-one) or 1 (add/remove).
        adjacency: what one change means.
    """

    epsilon: float
    statistic: str = "count"
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        require_positive("epsilon", self.epsilon)
        require_choice("statistic", self.statistic, _STATISTICS)
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        _ = self.noise

    @property
    def sensitivity(self) -> int:
        """The most by which the number moves between neighbors."""
        return 1 if self.statistic == "count" else self.adjacency.gap_sensitivity

    @property
    def noise(self) -> DiscreteLaplace:
        """The noise that is added."""
        return DiscreteLaplace.at_most(Fraction(float(self.epsilon)) / self.sensitivity)

    @property
    def event(self) -> Event:
        """The price of one call outside a session."""
        return PureDpEvent(self.call_epsilon)

    @property
    @abstractmethod
    def target(self) -> QTarget:
        """What a call costs in a session of target charging."""

    @property
    def call_epsilon(self) -> float:
        """Pure DP of one call, of the noise as it is drawn: at most `epsilon`."""
        return min(float(self.sensitivity * self.noise.rate), float(self.epsilon))

    def noisy(self, values: Any, rng: np.random.Generator) -> NDArray[np.int64]:
        """Checked values with fresh noise."""
        checked = require_values(values)
        return np.asarray(checked + self.noise.sample(checked.shape, rng))


def require_values(values: Any) -> NDArray[np.int64]:
    """Returns whole numbers `[]` or `[Q]`, or raises."""
    array = np.asarray(values)
    require(array.ndim <= 1, "values.shape", array.shape, "[] or [num_queries]")
    if not np.issubdtype(array.dtype, np.integer):
        raise InvalidValue(f"values.dtype={array.dtype}: expected whole numbers")
    if array.size:
        largest = max(abs(int(array.min())), abs(int(array.max())))
        require(largest <= _LARGEST_VALUE, "values", largest, "at most 2**53 in size")
    return array.astype(np.int64)


@dataclass(frozen=True)
class ReleasedValues:
    """The outcome of calls that release a number or nothing.

    Attributes:
        values: int64 `[]` or `[Q]`; 0 where nothing was released, not to be read.
        answered: bool `[]` or `[Q]`: whether the number was released.
    """

    values: NDArray[np.int64]
    answered: NDArray[np.bool_]

    @property
    def in_target(self) -> NDArray[np.bool_]:
        """The hits of a session: whatever was released."""
        return self.answered


@dataclass(frozen=True, kw_only=True)
class AboveThreshold(ThresholdCall):
    """Releases value + noise where that is at least `threshold`; the noise is discrete Laplace.

    In a session of target charging calls below the threshold are free, however many there are; no noise is added to
    the threshold.

    Formal guarantees:
        * one call: epsilon-DP, for the adjacency given.
        * in a session: releases are a q-target of an epsilon-DP call, q = 1 / (e^epsilon + 1).

    Attributes:
        threshold: a whole number; public, and may depend on all earlier outcomes.

    Source: Cohen & Lyu 2023; docs/proofs/threshold_calls.md.

    >>> test = AboveThreshold(threshold=50, epsilon=2.0)
    >>> outcome = test(np.array([3, 90, 20]), rng=np.random.default_rng(0))
    >>> outcome.answered, outcome.values
    (array([False,  True, False]), array([ 0, 90,  0]))
    """

    threshold: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_threshold("threshold", self.threshold)

    @property
    def target(self) -> QTarget:
        """What a call costs in a session: a release is not the prior, nothing."""
        return not_prior(self.call_epsilon)

    def __call__(self, values: Any, *, rng: np.random.Generator) -> ReleasedValues:
        """Tests one whole number `[]`, or each of a batch `[Q]` with noise of its own."""
        noisy = self.noisy(values, rng)
        answered = np.asarray(noisy >= self.threshold)
        return ReleasedValues(np.where(answered, noisy, 0), answered)

    def probabilities(self, values: Any, *, largest: int) -> Array:
        """The distribution of calls: `[..., n]` over nothing, threshold, threshold + 1, …, largest, all above it."""
        require(largest >= self.threshold, "largest", largest, f"a whole number >= {self.threshold}")
        value = require_values(values)[..., None]
        released = self.noise.mass(np.arange(self.threshold, largest + 1) - value)
        nothing, above = self.noise.tail(value - self.threshold + 1), self.noise.tail(largest + 1 - value)
        return np.concatenate([nothing, released, above], axis=-1)


def require_threshold(name: str, value: Any) -> int:
    """Returns a whole number of either sign as an int, or raises."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    require(whole and abs(int(value)) <= 2**53, name, value, "a whole number")
    return int(value)


@dataclass(frozen=True)
class Sides:
    """The outcome of calls that compare a noisy number with two thresholds.

    Attributes:
        sides: int64 `[]` or `[Q]`: -1 below, 0 between, 1 above.
    """

    sides: NDArray[np.int64]

    @property
    def in_target(self) -> NDArray[np.bool_]:
        """The hits of a session: whatever fell between."""
        return np.asarray(self.sides == 0)


@dataclass(frozen=True, kw_only=True)
class BetweenThresholds(ThresholdCall):
    """Says whether value + noise is < lower, in [lower, upper), or >= upper; the noise is discrete Laplace.

    For a vote count: nearly no teacher, unsure, nearly all. In a session of target charging only "unsure" is paid for.

    Formal guarantees:
        * one call: epsilon-DP, for the adjacency given.
        * in a session: "between" is a q-target of an epsilon-DP call, q = (1 - e^(-width rate)) / (e^epsilon + 1) with
          width = upper - lower and rate = epsilon / sensitivity; tight.

    Attributes:
        lower: a whole number, the smallest between.
        upper: a whole number > lower, the smallest above. Both are public and may depend on all earlier outcomes.

    Source: Cohen & Lyu 2023, for continuous noise; docs/proofs/threshold_calls.md.

    >>> test = BetweenThresholds(lower=300, upper=500, epsilon=0.1)
    >>> test(np.array([20, 410, 790]), rng=np.random.default_rng(0)).sides
    array([-1,  0,  1])
    """

    lower: int
    upper: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_threshold("lower", self.lower)
        require_threshold("upper", self.upper)
        require(self.lower < self.upper, "upper", self.upper, f"more than lower={self.lower}")

    @property
    def target(self) -> QTarget:
        """What a call costs in a session."""
        return between_thresholds(self.call_epsilon, width=(self.upper - self.lower) / self.sensitivity)

    def __call__(self, values: Any, *, rng: np.random.Generator) -> Sides:
        """Tests one whole number `[]`, or each of a batch `[Q]` with noise of its own."""
        noisy = self.noisy(values, rng)
        return Sides(np.asarray((noisy >= self.lower).astype(np.int64) + (noisy >= self.upper) - 1))

    def probabilities(self, values: Any) -> Array:
        """The distribution of calls: `[..., 3]`, below, between and above."""
        value = require_values(values)
        below, above = self.noise.tail(value - self.lower + 1), self.noise.tail(self.upper - value)
        width = self.upper - self.lower
        steps = np.maximum(self.lower - value, value - self.upper + 1)  # outside: how far the nearest between is
        outside = self.noise.tail(np.maximum(steps, 0)) * -np.expm1(-width * float(self.noise.rate))
        between = np.where(steps > 0, outside, 1 - below - above)
        return np.stack([below, between, above], axis=-1)
