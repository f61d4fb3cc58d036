"""Regularizers of gap selection: a public preference for some k, added to the gaps before noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue, require, require_count, require_non_negative

Array = NDArray[np.float64]
Regularizer = Callable[[int], float] | Sequence[float]
"""A function of k, or a number for each candidate in rising order of k. It must not depend on private data."""

_LARGEST_OFFSET = 2.0**50
_BITS = 52  # differences of two sums take one bit more


@dataclass(frozen=True, kw_only=True)
class FixedKRegularizer:
    """Prefers candidates near k: -penalty * |candidate - k|.

    Attributes:
        k: the preferred number of labels, >= 0.
        penalty: votes for each label away from k, >= 0.

    Source: Zhu & Wang 2022, Algorithm 3.

    >>> [FixedKRegularizer(k=2, penalty=5.0)(candidate) for candidate in (1, 2, 4)]
    [-5.0, 0.0, -10.0]
    """

    k: int
    penalty: float

    def __post_init__(self) -> None:
        require_count("k", self.k, minimum=0)
        require_non_negative("penalty", self.penalty)

    def __call__(self, candidate: int) -> float:
        """What is added to the gap of that candidate."""
        return 0.0 if candidate == self.k else -self.penalty * abs(candidate - self.k)


def checked_regularizer(regularizer: Regularizer | None) -> Regularizer | None:
    """Returns a function unchanged, and numbers as a tuple of floats, which compares and hashes by value.

    Raises:
        InvalidValue: neither a function nor finite numbers.
    """
    if regularizer is None or callable(regularizer):
        return regularizer
    values = np.asarray(regularizer, dtype=object)
    shown = regularizer if values.ndim == 0 else f"array of shape {values.shape}"
    require(values.ndim == 1, "regularizer", shown, "a function of k or a list of numbers")
    return tuple(_finite(value) for value in values.tolist())


def offsets_of(regularizer: Regularizer | None, candidates: NDArray[np.int64]) -> Array:
    """The regularizer's value for each candidate: `[n]`.

    Raises:
        InvalidValue: values that are not finite, or not one for each candidate.
    """
    if regularizer is None:
        return np.zeros(len(candidates))
    values = [regularizer(k) for k in candidates.tolist()] if callable(regularizer) else list(regularizer)
    require(len(values) == len(candidates), "regularizer", f"({len(values)},)", f"{len(candidates)} numbers")
    return np.array([_finite(value) for value in values])


def exactly_addable(offsets: Array, *, to: int) -> Array:
    """The offsets rounded to a grid on which their sums with whole numbers up to `to`, and differences, are exact.

    The grid is as fine as the largest of them allows, and public like them.

    Raises:
        InvalidValue: an offset so large that whole numbers beside it would be rounded.
    """
    largest = float(np.abs(offsets).max(initial=0.0))
    require(largest <= _LARGEST_OFFSET, "regularizer", largest, f"numbers up to 2**50 = {_LARGEST_OFFSET:.0f} in size")
    unit = 2.0 ** (math.frexp(largest + to)[1] - _BITS)
    return np.asarray(np.rint(offsets / unit) * unit)


def _finite(value: Any) -> float:
    """A finite number as a float, or a refusal."""
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"regularizer={value}: expected finite numbers") from error
    require(math.isfinite(number), "regularizer", value, "finite numbers")
    return number
