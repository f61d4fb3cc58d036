"""Whole numbers with discrete Laplace noise, the base of the calls that compare or release them."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from pate.accounting import (
    Adjacency,
)
from pate.mechanisms.noise.uniforms import (
    Integers,
)
from pate.mechanisms.noise.whole_numbers import DiscreteLaplace
from pate.mechanisms.parameters import POSITIVE, Parameters
from pate.validation import (
    require,
    require_array,
)

_LARGEST_VALUE = 2**53


def require_values(values: Any) -> Integers:
    """Returns whole numbers `[]` or `[Q]`, or raises."""
    array = require_array("values", values, kinds="iu")
    require(array.ndim <= 1, "values.shape", array.shape, "[] or [num_queries]")
    largest = max(abs(int(array.min(initial=0))), abs(int(array.max(initial=0))))
    require(largest <= _LARGEST_VALUE, "values", largest, "at most 2**53 in size")
    return array.astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class NoisyWhole(Parameters):
    """Whole numbers with discrete Laplace noise."""

    # pure DP of one noisy number, >= 2**-31; the noise is made for the largest rate on its grid that is no larger
    epsilon: float = field(metadata=POSITIVE)
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.noise

    @property
    def sensitivity(self) -> int:
        """The most by which a number moves between neighbors."""
        return 1

    @property
    def noise(self) -> DiscreteLaplace:
        """The discrete Laplace noise of a call."""
        return DiscreteLaplace.at_most(Fraction(float(self.epsilon)) / self.sensitivity)
