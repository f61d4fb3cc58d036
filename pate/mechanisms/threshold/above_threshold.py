"""Above threshold: a noisy number is released where it reaches a threshold, else nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting.target_charging import QTarget, not_prior
from pate.mechanisms.noise.discrete_laplace import Array
from pate.mechanisms.threshold.threshold_call import ThresholdCall, require_values
from pate.validation import require


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
