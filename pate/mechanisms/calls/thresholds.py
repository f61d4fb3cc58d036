"""Mechanisms that compare a noisy whole number with public thresholds: `AboveThreshold` and `BetweenThresholds`."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pate.accounting import Event, PureDpEvent, q_targets
from pate.accounting.q_targets import QTarget
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.mechanisms.calls.noisy_whole import LARGEST_VALUE, NoisyWhole, require_values
from pate.mechanisms.parameters import one_of
from pate.validation import InvalidValue, require


def require_threshold(threshold_name: str, value: Any) -> int:
    """Returns a threshold as an int.

    Raises `InvalidValue`, which carries `threshold_name`, for a value that is not a whole number or exceeds 2**53 in
    size.
    """
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    require(is_whole and abs(int(value)) <= LARGEST_VALUE, threshold_name, value, "a whole number")
    return int(value)


@dataclass(frozen=True, kw_only=True)
class ThresholdCall(NoisyWhole):
    """The base class of mechanisms that compare a noisy whole number with public thresholds.

    Formal guarantee: one call is epsilon-DP for `adjacency`.

    Attributes:
        statistic: "count", a number of teachers, which moves by at most 1; or "gap", the difference of two ranked
            counts, which moves by at most 2 (replace-one) or 1 (add/remove).
    """

    statistic: str = field(default="count", metadata=one_of(choices=("count", "gap")))

    @property
    def sensitivity(self) -> int:
        """The largest move of the compared number between neighbors: 1 for a count; 2 (replace-one) or 1 for a gap."""
        return 1 if self.statistic == "count" else self.adjacency.gap_sensitivity

    @property
    def event(self) -> Event:
        """The price of one call, the same for every answer."""
        return PureDpEvent(self.call_epsilon)

    @property
    def call_epsilon(self) -> float:
        """The pure-DP epsilon of one call, from the rate of the noise that is drawn; at most `epsilon`."""
        return min(float(self.sensitivity * self.noise.rate), float(self.epsilon))

    def noisy(self, values: Any, rng: np.random.Generator) -> IntArray:
        """Returns whole numbers `[]` or `[Q]` plus fresh discrete Laplace noise."""
        noiseless_values = require_values(values)
        return np.asarray(noiseless_values + self.noise.sample(noiseless_values.shape, rng))


@dataclass(frozen=True)
class ReleasedValues:
    """The outcomes of one call, or of a batch of Q calls, of a mechanism that releases a number or nothing.

    Attributes:
        values: the released numbers, `[]` or `[Q]`; 0, without meaning, where nothing was released.
        answered: bool `[]` or `[Q]`, True where a number was released.
    """

    values: IntArray
    answered: BoolArray

    @property
    def in_target(self) -> BoolArray:
        """The hits of a session, bool `[]` or `[Q]`: True where a number was released."""
        return self.answered


@dataclass(frozen=True, kw_only=True)
class AboveThreshold(ThresholdCall):
    """A mechanism that adds discrete Laplace noise to a number, and releases the sum if it is at least `threshold`.

    The threshold is a whole number. It is public, has no noise, and may depend on all earlier outcomes.

    Formal guarantee: one call is epsilon-DP for `adjacency`. In a session a released sum is a q-target of an epsilon-DP
    call, q = 1 / (e^epsilon + 1). Calls that release nothing are free.
    Source: Cohen & Lyu 2023; docs/proofs/threshold_calls.md.

    >>> test = AboveThreshold(threshold=50, epsilon=2.0)
    >>> outcome = test(np.array([3, 90, 20]), rng=np.random.default_rng(0))
    >>> outcome.answered, outcome.values
    (array([False,  True, False]), array([ 0, 90,  0]))
    """

    threshold: int = field(metadata={"check": require_threshold})

    @property
    def target(self) -> QTarget:
        """The target set of target charging: all outcomes in which a number is released."""
        return q_targets.not_prior(call_epsilon=self.call_epsilon)

    def __call__(self, values: Any, *, rng: np.random.Generator) -> ReleasedValues:
        """Adds fresh noise to one whole number `[]`, or to each of a batch `[Q]`, and releases sums >= threshold."""
        noisy_values = self.noisy(values, rng)
        answered = np.asarray(noisy_values >= self.threshold)
        return ReleasedValues(values=np.where(answered, noisy_values, 0), answered=answered)

    def probabilities(self, values: Any, *, largest: int) -> FloatArray:
        """Returns the distribution of the outcome for each value, `[..., n]`.

        The n outcomes are: no release, then a release of threshold, threshold + 1, …, `largest`, and last a release of
        any number above `largest`.
        """
        if largest < self.threshold:
            rule = f"a whole number >= {self.threshold}"
            raise InvalidValue("largest", largest, rule=rule)
        column_of_values = require_values(values)[..., None]
        probs_of_released = self.noise.mass(
            np.arange(self.threshold, largest + 1) - column_of_values
        )
        # The noise is symmetric, so P(z < threshold - value) = P(z >= value - threshold + 1).
        least_falls_below_threshold = column_of_values - self.threshold + 1
        probs_of_no_release = self.noise.tail(least_falls_below_threshold)
        least_rises_above_largest = largest + 1 - column_of_values
        probs_above_largest = self.noise.tail(least_rises_above_largest)
        return np.concatenate(
            [probs_of_no_release, probs_of_released, probs_above_largest], axis=-1
        )


@dataclass(frozen=True)
class Sides:
    """The outcomes of one call, or of a batch of Q calls, that compare a noisy number with two thresholds.

    Attributes:
        sides: -1 below the lower threshold, 1 from the upper threshold on, 0 otherwise: `[]` or `[Q]`.
        in_target: bool `[]` or `[Q]`, True where the call is a hit, which is where the noisy number lies between.
    """

    sides: IntArray
    in_target: BoolArray


@dataclass(frozen=True, kw_only=True)
class BetweenThresholds(ThresholdCall):
    """A mechanism that releases whether a noisy number is < lower, in [lower, upper), or >= upper.

    The noise is discrete Laplace. Both thresholds are whole numbers and public. They may depend on all earlier
    outcomes.

    Formal guarantee: one call is epsilon-DP for `adjacency`. In a session "between" is a q-target of an epsilon-DP
    call, q = (1 - e^(-width rate)) / (e^epsilon + 1) with width = upper - lower and rate = epsilon / sensitivity. This
    q is tight. Calls that answer "below" or "above" are free.
    Source: Cohen & Lyu 2023, for continuous noise; docs/proofs/threshold_calls.md.

    >>> test = BetweenThresholds(lower=300, upper=500, epsilon=0.1)
    >>> test(np.array([20, 410, 790]), rng=np.random.default_rng(0)).sides
    array([-1,  0,  1])
    """

    lower: int = field(metadata={"check": require_threshold})
    upper: int = field(metadata={"check": require_threshold})

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.lower < self.upper, "upper", self.upper, f"more than lower={self.lower}")

    @property
    def target(self) -> QTarget:
        """The target set of target charging: the answer "between the thresholds"."""
        width_in_sensitivities = (self.upper - self.lower) / self.sensitivity
        return q_targets.between_thresholds(self.call_epsilon, width=width_in_sensitivities)

    def __call__(self, values: Any, *, rng: np.random.Generator) -> Sides:
        """Compares one whole number `[]`, or each of a batch `[Q]`, with both thresholds after fresh noise is added.

        The answer is -1 below `lower`, 0 between the thresholds, 1 from `upper` on.
        """
        noisy_values = self.noisy(values, rng)
        sides = np.asarray(
            (noisy_values >= self.lower).astype(np.int64) + (noisy_values >= self.upper) - 1
        )
        return Sides(sides=sides, in_target=np.asarray(sides == 0))

    def probabilities(self, values: Any) -> FloatArray:
        """Returns the probabilities of "below", "between" and "above" for each value, `[..., 3]`."""
        noiseless_values = require_values(values)
        # The noise is symmetric, so P(z < lower - value) = P(z >= value - lower + 1).
        least_falls_below_lower = noiseless_values - self.lower + 1
        probs_below = self.noise.tail(least_falls_below_lower)
        least_rises_to_upper = self.upper - noiseless_values
        probs_above = self.noise.tail(least_rises_to_upper)
        # The distance from the value to the nearest number between the thresholds; at most 0 for a value between. For
        # a value outside, "between" is a difference of two tails, whose quotient is exp(-width rate).
        whole_steps_to_range = np.maximum(
            self.lower - noiseless_values, noiseless_values - self.upper + 1
        )
        width = self.upper - self.lower
        tails = self.noise.tail(np.maximum(whole_steps_to_range, 0))
        probs_between_from_outside = tails * -np.expm1(-width * float(self.noise.rate))
        probs_between = np.where(
            whole_steps_to_range > 0, probs_between_from_outside, 1 - probs_below - probs_above
        )
        return np.stack([probs_below, probs_between, probs_above], axis=-1)
