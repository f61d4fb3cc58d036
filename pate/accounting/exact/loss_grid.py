"""Equally spaced points for functions that fall and are convex in exp(x), bounded from above everywhere.

Between the points a function is taken as linear in exp(x), left of them as linear up to 1 at exp(x) = 0, right of them
as constant: all above the function. The spacing has so few digits that its multiples are exact, and so every weight is
exact to a few units in the last place, however close two losses are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_DIGITS = 32  # of a spacing, binary: its multiples up to 2**21 are exact
_OUTWARD = 1 + 2.0**-50
_NEARLY = 1e-8  # relative: a loss this little below a multiple of the spacing is rounded to it


@dataclass(frozen=True)
class Shift:
    """By how many points a loss moves the grid, and the weights of the point there and of the one above."""

    whole: int
    lower: float
    upper: float


@dataclass(frozen=True)
class LossGrid:
    """Points first * spacing, (first + 1) * spacing, ...

    Attributes:
        first: the index of the first point.
        size: how many points, >= 2.
        spacing: > 0, as `rounded_spacing` makes it.
    """

    first: int
    size: int
    spacing: float

    @property
    def points(self) -> Array:
        """`[size]`, rising."""
        return np.asarray(np.arange(self.first, self.first + self.size, dtype=np.float64) * self.spacing)

    def padding(self, largest_loss: float) -> int:
        """How many points `padded` has to add on either side for losses up to this."""
        return math.ceil(min(largest_loss / self.spacing, self.size)) + 3

    def padded(self, values: Array, pad: int) -> Array:
        """The bound at `pad` more points on either side, `[pad + size + pad]`."""
        far = -np.expm1(-self.spacing * np.arange(pad, 0, -1))
        return np.concatenate([values[0] + (1 - values[0]) * far, values, np.full(pad, values[-1])])

    def outward(self, loss: float) -> float:
        """The next multiple of the spacing where the loss is nearly that, else the loss; a little farther from 0."""
        multiple = round(loss / self.spacing) * self.spacing if abs(loss) < self.size * self.spacing else math.inf
        nearly = abs(loss) <= abs(multiple) <= abs(loss) * (1 + _NEARLY)
        return multiple if nearly else loss * _OUTWARD

    def shift(self, loss: float, *, weight: float = 1.0) -> Shift:
        """Where a loss moves the points to: the same expectation as the loss itself, for what is linear between."""
        if abs(loss) > (self.size - 1) * self.spacing:
            return Shift(-self.size if loss > 0 else self.size + 1, weight, 0.0)
        whole = math.floor(-loss / self.spacing)
        whole += (-loss >= (whole + 1) * self.spacing) - (-loss < whole * self.spacing)  # the quotient was rounded
        beyond, before = -loss - whole * self.spacing, (whole + 1) * self.spacing + loss
        scale = weight / math.expm1(self.spacing)
        return Shift(whole, scale * math.exp(beyond) * math.expm1(before), scale * math.expm1(beyond))

    def moved(self, padded: Array, pad: int, shift: Shift) -> Array:
        """The weighted values where a shift leads, `[size]`; 1 where that is left of all points."""
        if shift.whole <= -self.size:
            return np.full(self.size, shift.lower)
        start = pad + shift.whole
        here = padded[start : start + self.size]
        if shift.upper == 0:
            return here if shift.lower == 1 else shift.lower * here
        return np.asarray(shift.lower * here + shift.upper * padded[start + 1 : start + 1 + self.size])

    def at(self, values: Array, x: float) -> float:
        """The bound at any x."""
        position = x / self.spacing - self.first
        if position >= self.size - 1:
            return float(values[-1])
        index = max(math.floor(position), 0)
        share = math.expm1(x - (self.first + index) * self.spacing) / math.expm1(self.spacing)
        return float(values[index] + min(max(share, 0.0), 1.0) * (values[index + 1] - values[index]))


@dataclass(frozen=True)
class MirroredGrid(LossGrid):
    """Points 0, spacing, 2 * spacing, … of functions V(-x) = 1 - exp(-x) + exp(-x) V(x): `first` is 0."""

    def padded(self, values: Array, pad: int) -> Array:
        """The mirror image at `pad` more points on the left, and the bound on the right, `[pad + size + pad]`."""
        away = self.spacing * np.arange(pad, 0, -1)
        near = np.concatenate([values[1 : pad + 1], np.full(max(pad + 1 - self.size, 0), values[-1])])[::-1]
        return np.concatenate([-np.expm1(-away) + np.exp(-away) * near, values, np.full(pad, values[-1])])


def rounded_spacing(spacing: float) -> float:
    """A spacing with few digits, never smaller."""
    fraction, exponent = math.frexp(spacing)
    return math.ldexp(math.ceil(math.ldexp(fraction, _DIGITS)), exponent - _DIGITS)
