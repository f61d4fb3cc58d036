"""Between thresholds: is a number below, between or above two thresholds? Only "between" is paid for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting.target_charging import QTarget, between_thresholds
from pate.mechanisms.noise.discrete_laplace import Array
from pate.mechanisms.threshold.above_threshold import require_threshold
from pate.mechanisms.threshold.threshold_call import ThresholdCall, require_values
from pate.validation import require


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
