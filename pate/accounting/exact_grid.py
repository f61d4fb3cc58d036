"""The grid of optimal composition: bounds on delta at equally spaced epsilons, and their shifts by a privacy loss.

Optimal composition computes functions V of a loss x, where V(x) is the delta that the remaining steps can reach at
epsilon = x (`pate.accounting.exact`). Each V falls in x and is convex in e^x, with V = 1 at e^x = 0. A grid holds V at
the points x_i = i h. Elsewhere V is replaced by a function that is nowhere smaller:

    between two points   the chord in e^x, which lies above a convex function,
    left of all points   the chord in e^x from the first point to V = 1 at e^x = 0,
    right of all points  the constant V(x_last), as V falls.

A step of the composition needs V(x - loss) at all points x. With -loss = (w + share) h the chord makes this value a
weighted sum of V(x_(i + w)) and V(x_(i + w + 1)): a shift of the whole grid. The spacing h has so few digits that its
multiples are exact, so every weight is exact to a few units in the last place, however close two losses are.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pate.array_types import FloatArray

CompositionStep = Callable[[FloatArray], FloatArray]
"""A step from the values V on a grid, `[num_points]`, to the new values there."""

STEP_ROUNDING = 2.0**-46
"""The relative amount by which a step raises its values: 128 units of 2**-53. Rounding errors are at most 72 units."""

# The number of binary digits of a spacing. With so few digits its multiples up to 2**21 are exact floats.
_SPACING_DIGITS = 32
# This factor moves a loss away from 0 by more than its rounding error.
_OUTWARD = 1 + 2.0**-50
# A loss that is nearer to 0 than a multiple of the spacing by at most this relative amount is rounded to the multiple.
_MULTIPLE_TOLERANCE = 1e-8


class Shift(NamedTuple):
    """The weights that express V(x - loss) by V at two points of the grid with spacing h, for all points x.

    V(x) is the delta at epsilon = x that the remaining releases can reach. The expression, with w = `whole_steps`, is
    lower_point_weight * V(x + w h) + upper_point_weight * V(x + (w + 1) h). Both weights include the probability of the
    loss. If w is minus the grid's number of points, x + w h lies left of all points, where V counts as 1.
    """

    whole_steps: int
    lower_point_weight: float
    upper_point_weight: float


Shifts = tuple[Shift, ...]
"""The shifts by all privacy losses of one pair of distributions."""


@dataclass(frozen=True)
class LossGrid:
    """The grid with the points k * spacing, for `num_points` integers k from `first_index` on.

    The points are privacy losses or epsilons, at which a privacy profile V (a delta for each epsilon) is known.

    Attributes:
        first_index: the integer k of the first point.
        num_points: the number of points, >= 2.
        spacing: the distance h > 0 of two points, as `rounded_spacing` returns it.
        mirrored: True for profiles of symmetric pairs, which satisfy V(-x) = 1 - e^-x + e^-x V(x). The first index is
            0 then. V left of all points follows from this equation, and not from a chord to V = 1 at minus infinity.
    """

    first_index: int
    num_points: int
    spacing: float
    mirrored: bool = False

    @property
    def points(self) -> FloatArray:
        """The points of the grid, `[num_points]`."""
        indices = np.arange(self.first_index, self.first_index + self.num_points, dtype=np.float64)
        return np.asarray(indices * self.spacing)

    def padding(self, largest_loss: float) -> int:
        """Returns the number of points that `padded` must add on each side of a profile.

        With so many points the profile can be shifted by every privacy loss up to `largest_loss`.
        """
        return math.ceil(min(largest_loss / self.spacing, self.num_points)) + 3

    def padded(self, deltas: FloatArray, num_padding: int) -> FloatArray:
        """Returns V at the points of the grid and upper bounds of V at `num_padding` further points on each side.

        V is a privacy profile: a delta for each epsilon.

        Args:
            deltas: V at the points of the grid, `[num_points]`.
            num_padding: the number of further points on each side.

        Returns:
            The values, `[num_padding + num_points + num_padding]`.
        """
        distance_before_grid = self.spacing * np.arange(num_padding, 0, -1)
        deltas_beyond_end = np.full(num_padding, deltas[-1])
        if self.mirrored:
            missing_deltas = np.full(max(num_padding + 1 - self.num_points, 0), deltas[-1])
            reflected_deltas = np.concatenate([deltas[1 : num_padding + 1], missing_deltas])[::-1]
            mirrored_deltas = (
                -np.expm1(-distance_before_grid) + np.exp(-distance_before_grid) * reflected_deltas
            )
            return np.concatenate([mirrored_deltas, deltas, deltas_beyond_end])
        deltas_on_chord = deltas[0] + (1 - deltas[0]) * -np.expm1(-distance_before_grid)
        return np.concatenate([deltas_on_chord, deltas, deltas_beyond_end])

    def rounded_outward(self, loss: float, *, to_multiple: bool = True) -> float:
        """Returns a loss that lies a little farther from 0 than `loss`, to cover rounding errors.

        If `loss` is a multiple of the spacing, or lies at most 1e-8 of its value nearer to 0 than a multiple, that
        multiple is returned. A shift by a multiple needs no interpolation.

        Args:
            loss: the loss.
            to_multiple: False never moves the loss as far as a multiple, but by a relative 2**-50 only.
        """
        nearest_multiple = math.inf
        if abs(loss) < self.num_points * self.spacing:
            nearest_multiple = round(loss / self.spacing) * self.spacing
        is_nearly_multiple = (
            abs(loss) <= abs(nearest_multiple) <= abs(loss) * (1 + _MULTIPLE_TOLERANCE)
        )
        return nearest_multiple if to_multiple and is_nearly_multiple else loss * _OUTWARD

    def shift(self, privacy_loss: float, loss_probability: float = 1.0) -> Shift:
        """Returns the shift (`Shift`) of a privacy profile by a loss that has the probability `loss_probability`.

        The weights are exact for a profile that is linear in e^x between the points of the grid.
        """
        if abs(privacy_loss) > (self.num_points - 1) * self.spacing:
            steps_beyond_all_points = -self.num_points if privacy_loss > 0 else self.num_points + 1
            return Shift(
                whole_steps=steps_beyond_all_points,
                lower_point_weight=loss_probability,
                upper_point_weight=0.0,
            )
        whole_steps = math.floor(-privacy_loss / self.spacing)
        # The quotient was rounded, so its floor may be wrong by one.
        if -privacy_loss >= (whole_steps + 1) * self.spacing:
            whole_steps += 1
        elif -privacy_loss < whole_steps * self.spacing:
            whole_steps -= 1
        # the distances from the lower point to the loss, and from the loss to the upper point
        loss_beyond_lower = -privacy_loss - whole_steps * self.spacing
        loss_before_upper = (whole_steps + 1) * self.spacing + privacy_loss
        # Chord in e^x, with distances b and c: the weights are e^b (e^c - 1) / (e^h - 1) and (e^b - 1) / (e^h - 1).
        scale = loss_probability / math.expm1(self.spacing)
        lower_point_weight = scale * math.exp(loss_beyond_lower) * math.expm1(loss_before_upper)
        return Shift(
            whole_steps=whole_steps,
            lower_point_weight=lower_point_weight,
            upper_point_weight=scale * math.expm1(loss_beyond_lower),
        )

    def shifted(self, padded_deltas: FloatArray, num_padding: int, shift: Shift) -> FloatArray:
        """Returns V(x - loss), multiplied by the probability of the loss, at all points x of the grid, `[num_points]`.

        V(x) is the delta at epsilon = x that the remaining releases can reach.

        Args:
            padded_deltas: the values of V that the method `padded` has returned,
                `[num_padding + num_points + num_padding]`.
            num_padding: the number of points that were added on each side.
            shift: the shift by the loss, whose weights include the probability of the loss.
        """
        if shift.whole_steps <= -self.num_points:  # left of all points V counts as 1
            return np.full(self.num_points, shift.lower_point_weight)
        start = num_padding + shift.whole_steps
        lower_values = padded_deltas[start : start + self.num_points]
        if shift.upper_point_weight == 0:
            return (
                lower_values
                if shift.lower_point_weight == 1
                else shift.lower_point_weight * lower_values
            )
        upper_values = padded_deltas[start + 1 : start + 1 + self.num_points]
        return np.asarray(
            shift.lower_point_weight * lower_values + shift.upper_point_weight * upper_values
        )


def rounded_spacing(spacing: float) -> float:
    """Returns `spacing` with 32 binary digits, rounded upwards, so that its multiples are exact floats."""
    spacing_fraction, exponent = math.frexp(spacing)
    spacing_digits = math.ceil(math.ldexp(spacing_fraction, _SPACING_DIGITS))
    return math.ldexp(spacing_digits, exponent - _SPACING_DIGITS)


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Profile:
    """A privacy profile: upper bounds on delta at the epsilons of a grid.

    Between two points of the grid the chord in e^epsilon is an upper bound, because delta is convex in e^epsilon.
    """

    grid: LossGrid  # the epsilons
    deltas: FloatArray  # the delta at each epsilon, `[num_points]`

    def delta(self, epsilon: float) -> float:
        """Returns an upper bound on delta at an epsilon.

        The epsilon must be at least the smallest epsilon of the grid; this is not checked.
        """
        grid = self.grid
        position_in_grid = epsilon / grid.spacing - grid.first_index
        if position_in_grid >= grid.num_points - 1:
            return float(self.deltas[-1])
        index_below = max(math.floor(position_in_grid), 0)
        distance_in_cell = epsilon - (grid.first_index + index_below) * grid.spacing
        share_of_cell = math.expm1(distance_in_cell) / math.expm1(grid.spacing)
        share_within_cell = min(max(share_of_cell, 0.0), 1.0)
        delta_rise = self.deltas[index_below + 1] - self.deltas[index_below]
        return float(self.deltas[index_below] + share_within_cell * delta_rise)

    def epsilon(self, delta: float) -> float:
        """Returns the smallest epsilon >= 0 at which the profile is at most `delta`; infinity where it never is."""
        is_nonnegative = np.arange(self.grid.num_points) + self.grid.first_index >= 0
        indices_of_larger_deltas = np.flatnonzero((self.deltas > delta) & is_nonnegative)
        if indices_of_larger_deltas.size == 0:
            return 0.0
        last_index_of_larger = int(indices_of_larger_deltas[-1])
        if last_index_of_larger + 1 == self.grid.num_points:
            return math.inf
        # The chord in e^epsilon from the last point above `delta` to the next point crosses `delta`.
        share_of_drop = float(
            (self.deltas[last_index_of_larger] - delta)
            / (self.deltas[last_index_of_larger] - self.deltas[last_index_of_larger + 1])
        )
        epsilon_beyond_last = math.log1p(share_of_drop * math.expm1(self.grid.spacing))
        return (
            self.grid.first_index + last_index_of_larger
        ) * self.grid.spacing + epsilon_beyond_last
