"""Base of the threshold tests: a whole number of sensitivity 1 or 2, discrete Laplace noise, and the price."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, Event, PureDpEvent
from pate.accounting.target_charging import QTarget
from pate.mechanisms.noise.discrete_laplace import DiscreteLaplace
from pate.validation import InvalidValue, require, require_choice, require_positive

_STATISTICS = ("count", "gap")
_LARGEST = 2**53


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
        require(largest <= _LARGEST, "values", largest, "at most 2**53 in size")
    return array.astype(np.int64)
