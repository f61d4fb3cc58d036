"""The privacy loss of a pair of continuous distributions, discretized on a grid so that the result dominates the pair.

The real line is cut at the points where the loss is a multiple i h of the spacing h, so within an interval the loss
lies between i h and (i + 1) h. Let P and Q be the probabilities of the interval under both distributions. They are
moved to the two ends of the interval, so that both distributions keep their probability:

    at (i + 1) h:   (P - e^(i h) Q) / (1 - e^-h),        at i h:   the rest of P.

The discretized pair is easier to distinguish: the expectation of any function that is convex in e^-loss grows
(docs/proofs/pld.md). The literature calls the distribution of the loss the privacy loss distribution (PLD).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pate.accounting.gaussian_pairs import SampledPair, ShiftedMaximum, Tails
from pate.array_types import BoolArray, FloatArray, IntArray

# The smallest error of the end of an interval, as a fraction of the spacing.
_LOCATION_ERROR = 1e-9
# After so many halvings the ends of a search are neighboring floats.
_NUM_BISECTIONS = 80
# The relative rounding error of a tail probability.
_MASS_ROUNDING = 2.0**-44
# A larger loss counts as infinite, because its exponential may be no float.
_LARGEST_LOSS = 700.0


class _Masses(NamedTuple):
    """The probabilities of intervals and bounds on their rounding errors, `[num_intervals]` each."""

    values: FloatArray
    rounding_errors: FloatArray


class _Cells(NamedTuple):
    """The outcomes x where a privacy loss is a multiple of a spacing, and these multiples, `[num_intervals + 1]` each.

    Both rise. The points x cut the part of the real line that the grid covers into intervals. A multiple is stored as
    the whole number that the spacing is multiplied by. The first point is the left end of the search for points, so the
    loss there may be above its multiple.
    """

    outcomes: FloatArray
    multiples: IntArray


def discretized_loss(
    gaussian_pair: ShiftedMaximum | SampledPair,
    spacing: float,
    largest_multiple: int,
    *,
    negligible_mass: float,
) -> tuple[FloatArray, float]:
    """Returns the distribution of the privacy loss of a pair, discretized on multiples of a spacing.

    A `ShiftedMaximum` must be that of one normal, which is a Gaussian release. It is its own mirror image: where both
    distributions are exchanged and x is reflected, the loss is negated. So only the intervals with losses above 0 are
    searched, and each of them is added a second time as its image.

    Args:
        gaussian_pair: the pair.
        spacing: the spacing h, > 0.
        largest_multiple: the largest multiple of the spacing.
        negligible_mass: the probability of large losses that may count as infinite.

    Returns:
        The probabilities of the losses -n..n times the spacing, `[2 n + 1]`, and the probability of an infinite loss,
        all under the distribution that positive losses favor. n is at most `largest_multiple` + 2.

    The delta at epsilon = 1 of a Gaussian release whose noise has the standard deviation of its sensitivity is .12694:

    >>> pair = ShiftedMaximum(num_normals=1, shift_of_maximum=1.0)
    >>> masses, infinite_loss_prob = discretized_loss(pair, 0.01, largest_multiple=1000, negligible_mass=1e-12)
    >>> n = len(masses) // 2
    >>> losses = 0.01 * np.arange(-n, n + 1)
    >>> delta = infinite_loss_prob + masses @ np.maximum(-np.expm1(1.0 - losses), 0.0)
    >>> round(float(delta), 5)
    0.12694
    """
    loss_cells = _cells(
        gaussian_pair,
        spacing=spacing,
        largest_multiple=largest_multiple,
        negligible_mass=negligible_mass,
    )
    location_errors = _LOCATION_ERROR + gaussian_pair.loss_rounding(loss_cells.outcomes) / spacing
    location_errors_of_ends = np.maximum(
        location_errors[:-1], location_errors[1:]
    )  # [num_intervals]
    first_masses = _interval_masses(gaussian_pair.first_tails(loss_cells.outcomes))
    second_masses = _interval_masses(gaussian_pair.second_tails(loss_cells.outcomes))
    # The loss 0 is in the middle. On either side one point lies beyond all multiples; the right one takes rounding
    # errors.
    loss_masses = np.zeros(2 * int(np.abs(loss_cells.multiples).max()) + 3)
    _add_intervals(
        loss_masses,
        lower_multiples=loss_cells.multiples[:-1],
        spacing=spacing,
        favored_masses=first_masses,
        other_masses=second_masses,
        location_errors_of_ends=location_errors_of_ends,
    )
    if isinstance(gaussian_pair, SampledPair):
        infinite_loss_prob = _add_tails(
            loss_masses, sampled_pair=gaussian_pair, loss_cells=loss_cells
        )
    else:
        _add_intervals(
            loss_masses,
            lower_multiples=-loss_cells.multiples[1:],
            spacing=spacing,
            favored_masses=second_masses,
            other_masses=first_masses,
            location_errors_of_ends=location_errors_of_ends,
        )
        infinite_loss_prob = _add_mirrored_tails(
            loss_masses=loss_masses, shifted_maximum=gaussian_pair, loss_cells=loss_cells
        )
    return loss_masses, infinite_loss_prob * (1 + _MASS_ROUNDING)


def _add_intervals(
    loss_masses: FloatArray,
    *,
    lower_multiples: IntArray,
    spacing: float,
    favored_masses: _Masses,
    other_masses: _Masses,
    location_errors_of_ends: FloatArray,
) -> None:
    """Adds the probabilities of intervals of losses to `loss_masses`: a part of each at either end of its interval.

    Each interval lies between two neighboring losses of the grid. A bound on what rounding may have moved is added one
    loss above the upper end, where it makes the price larger.

    Args:
        loss_masses: the probabilities of the losses on the grid, with loss 0 in the middle; the function changes them.
        lower_multiples: the smaller loss of each interval, as a multiple of the spacing, `[num_intervals]`.
        spacing: the spacing of the grid.
        favored_masses: the probabilities under the distribution that positive losses favor.
        other_masses: the probabilities under the other distribution.
        location_errors_of_ends: the error of the ends of each interval, as a fraction of the spacing,
            `[num_intervals]`.
    """
    ratio = np.exp(lower_multiples * spacing)
    scale = -math.expm1(-spacing)
    mass_at_upper_end = np.clip(
        (favored_masses.values - ratio * other_masses.values) / scale, 0.0, favored_masses.values
    )
    # What rounding and the search for the ends may have moved goes one point farther, where the price is larger.
    moved_by_rounding = (
        favored_masses.rounding_errors + ratio * other_masses.rounding_errors
    ) / scale + (favored_masses.values + favored_masses.rounding_errors) * location_errors_of_ends
    lower_indices = len(loss_masses) // 2 + lower_multiples
    np.add.at(loss_masses, lower_indices, favored_masses.values - mass_at_upper_end)
    np.add.at(loss_masses, lower_indices + 1, mass_at_upper_end)
    np.add.at(loss_masses, lower_indices + 2, 2 * moved_by_rounding)


def _add_tails(loss_masses: FloatArray, sampled_pair: SampledPair, loss_cells: _Cells) -> float:
    """Adds the probability of all x left of the first point to `loss_masses`, and returns that right of the last point.

    Both are probabilities under the first distribution of the pair. Losses on the left are rounded up to the second
    multiple in `loss_cells`. Losses on the right count as infinite.

    Args:
        loss_masses: the probabilities of the losses on the grid, with loss 0 in the middle; the function changes them.
        sampled_pair: the pair.
        loss_cells: the points x, and the losses there as multiples of the spacing.
    """
    end_outcomes = loss_cells.outcomes[[0, -1]]
    tails_at_ends = sampled_pair.first_tails(end_outcomes)
    prob_below_first = float(tails_at_ends.below[0])
    prob_above_last = float(tails_at_ends.above[1])
    # Losses left of the first point are below the multiple at the second point, to which they are rounded up.
    index_of_rounded_up = len(loss_masses) // 2 + int(loss_cells.multiples[0]) + 1
    loss_masses[index_of_rounded_up] += prob_below_first * (1 + _MASS_ROUNDING)
    return prob_above_last


def _add_mirrored_tails(
    loss_masses: FloatArray, shifted_maximum: ShiftedMaximum, loss_cells: _Cells
) -> float:
    """Adds the probability of losses below those of the grid to `loss_masses`, and returns that of losses above.

    The pair is its own mirror image, so losses below are the image of what lies right of the last point. They are
    rounded up to minus the last multiple in `loss_cells`. Losses above count as infinite.

    Args:
        loss_masses: the probabilities of the losses on the grid, with loss 0 in the middle; the function changes them.
        shifted_maximum: the pair.
        loss_cells: the points x, and the losses there, >= 0, as multiples of the spacing.
    """
    end_outcomes = loss_cells.outcomes[[0, -1]]
    first_above_start, first_above_last = shifted_maximum.first_tails(end_outcomes).above.tolist()
    second_above_start, second_above_last = shifted_maximum.second_tails(
        end_outcomes
    ).above.tolist()
    # Losses of the image are below minus the last multiple, to which they are rounded up.
    loss_masses[len(loss_masses) // 2 - int(loss_cells.multiples[-1])] += second_above_last
    # The part right of the first point and its image have all mass, up to the error of the search for that point.
    unassigned_mass = abs(1 - first_above_start - second_above_start)
    infinite_loss_prob = first_above_last + unassigned_mass
    return float(infinite_loss_prob)


def _interval_masses(tails: Tails) -> _Masses:
    """Returns the probability of the interval between each two neighboring points, given the tails at the points.

    The probability of an interval is the difference of the smaller one of both tails, which keeps its digits.
    """
    below = tails.below
    above = tails.above
    is_below_smaller = below[1:] < above[:-1]
    mass_differences = np.where(is_below_smaller, below[1:] - below[:-1], above[:-1] - above[1:])
    rounding_errors = _MASS_ROUNDING * np.where(is_below_smaller, below[1:], above[:-1])
    return _Masses(values=np.maximum(mass_differences, 0.0), rounding_errors=rounding_errors)


def _cells(
    gaussian_pair: ShiftedMaximum | SampledPair,
    spacing: float,
    largest_multiple: int,
    negligible_mass: float,
) -> _Cells:
    """Returns the points x at which the privacy loss of a pair is a multiple of `spacing`.

    The points reach from the first loss of the grid to where larger losses are negligible. `discretized_loss` explains
    the arguments.
    """
    clipped_multiple = min(largest_multiple, int(_LARGEST_LOSS / spacing))

    def is_right_of_start(outcomes: FloatArray) -> BoolArray:
        """Returns, for each outcome, whether it lies strictly right of the point where the grid begins.

        There the loss of `gaussian_pair` is 0 for a `ShiftedMaximum`, and minus the largest multiple for a
        `SampledPair`.
        """
        if isinstance(gaussian_pair, SampledPair):
            return np.asarray(gaussian_pair.loss(outcomes) > -clipped_multiple * spacing)
        return np.asarray(
            gaussian_pair.second_tails(outcomes).below > gaussian_pair.first_tails(outcomes).above
        )

    def is_tail_negligible(outcomes: FloatArray) -> BoolArray:
        """Returns, for each outcome x, whether the pair's first distribution has less than `negligible_mass` above x.

        The losses right of such an x count as infinite.
        """
        return np.asarray(gaussian_pair.first_tails(outcomes).above < negligible_mass)

    farthest_outcomes = np.array([gaussian_pair.farthest])
    start_outcome = _bisected(
        is_right_of_start, lower_ends=-farthest_outcomes, upper_ends=farthest_outcomes
    )
    end_outcome = _bisected(
        is_tail_negligible, lower_ends=-farthest_outcomes, upper_ends=farthest_outcomes
    )
    losses = gaussian_pair.loss(np.concatenate([start_outcome, end_outcome]))
    losses_in_steps = np.clip(losses / spacing, -clipped_multiple, clipped_multiple)
    first_multiple = math.floor(losses_in_steps[0])
    last_multiple = max(math.ceil(losses_in_steps[1]), first_multiple + 1)
    multiples = np.arange(first_multiple, last_multiple + 1)

    def loss_exceeds_multiple(outcomes: FloatArray) -> BoolArray:
        return np.asarray(gaussian_pair.loss(outcomes) > multiples * spacing)

    outcomes = _bisected(
        loss_exceeds_multiple,
        lower_ends=np.repeat(start_outcome, len(multiples)),
        upper_ends=np.repeat(farthest_outcomes, len(multiples)),
    )
    outcomes[:1] = (
        start_outcome  # the grid begins here, also where the loss is above the first multiple
    )
    return _Cells(outcomes=outcomes, multiples=multiples)


def _bisected(
    condition: Callable[[FloatArray], BoolArray], lower_ends: FloatArray, upper_ends: FloatArray
) -> FloatArray:
    """Returns, for each of several conditions, the smallest x at which it holds, `[num_conditions]`, by bisection.

    Args:
        condition: a function from one x for each condition to booleans, which are True from some x on.
        lower_ends: an x at which each condition is False, `[num_conditions]`.
        upper_ends: an x at which each condition is True, `[num_conditions]`.
    """
    for _ in range(_NUM_BISECTIONS):
        middle_points = (lower_ends + upper_ends) / 2
        holds = condition(middle_points)
        lower_ends = np.where(holds, lower_ends, middle_points)
        upper_ends = np.where(holds, middle_points, upper_ends)
    return np.asarray(upper_ends)
