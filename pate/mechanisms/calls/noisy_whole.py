"""The base class of mechanisms that add discrete Laplace noise to whole numbers."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from pate.accounting import Adjacency
from pate.array_types import IntArray
from pate.mechanisms.noise.discrete_laplace import DiscreteLaplace
from pate.mechanisms.parameters import POSITIVE, Parameters
from pate.validation import require, require_array

# The largest whole number, or threshold, in absolute value. Larger numbers are not exact in floats.
LARGEST_VALUE = 2**53


def require_values(values: Any) -> IntArray:
    """Returns whole numbers, `[]` or `[Q]`, as int64.

    Raises `InvalidValue` for values that are no integers, have two or more axes, or exceed 2**53 in size.
    """
    integer_values = require_array("values", values, dtype_kinds="iu")
    require(integer_values.ndim <= 1, "values.shape", integer_values.shape, "[] or [num_queries]")
    largest_size = max(
        abs(int(integer_values.min(initial=0))), abs(int(integer_values.max(initial=0)))
    )
    require(largest_size <= LARGEST_VALUE, "values", largest_size, "at most 2**53 in size")
    return integer_values.astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class NoisyWhole(Parameters):
    """The base class of mechanisms that add discrete Laplace noise to whole numbers.

    The rate of the noise is epsilon / sensitivity, rounded down to a multiple of 2**-32. A subclass may override
    `sensitivity`.

    Attributes:
        epsilon: the epsilon of pure DP of one noisy number; epsilon / sensitivity lies in [2**-32, 2**16].
        adjacency: how neighboring data sets differ.
    """

    epsilon: float = field(metadata=POSITIVE)
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.noise  # raises `InvalidValue` for an `epsilon` whose rate is out of range

    @property
    def sensitivity(self) -> int:
        """The largest difference of a number between neighboring data sets: 1."""
        return 1

    @property
    def noise(self) -> DiscreteLaplace:
        """The discrete Laplace noise that is added to each number.

        Its rate is the largest multiple of 2**-32 at which a noisy number costs at most `epsilon`.
        """
        return DiscreteLaplace.at_most(rate=Fraction(float(self.epsilon)) / self.sensitivity)
