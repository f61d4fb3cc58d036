"""The privacy loss of a pair of continuous distributions, discretized on a grid so that the result dominates the pair.

The real line is cut at the points where the loss is a multiple i h of the spacing h, so within an interval the loss
lies between i h and (i + 1) h. Let P and Q be the probabilities of the interval under both distributions. They are
moved to the two ends of the interval, so that both distributions keep their probability:

    at (i + 1) h:   (P - e^(i h) Q) / (1 - e^-h),        at i h:   the rest of P.

The discretized pair is easier to distinguish: the expectation of any function that is convex in e^-loss grows
(docs/proofs/pld.md).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pate.accounting.gaussian_pairs import SampledPair, ShiftedMaximum, Tails
from pate.accounting.special import Array

# relative to the spacing: how well the ends of an interval are known at best
_LOCATION_ERROR = 1e-9
_NUM_BISECTIONS = 80
_MASS_ROUNDING = 2.0**-44
_LARGEST_LOSS = 700.0  # a larger one counts as missing; its exponential may be no float


class _Masses(NamedTuple):
    """The probabilities of intervals and bounds on their rounding errors, `[num_intervals]` each."""

    values: Array
    rounding: Array


class _Cells(NamedTuple):
    """The places at which the loss is a multiple of the spacing, and these multiples, `[num_intervals + 1]` each."""

    places: Array
    multiples: NDArray[np.int64]


def discretized_loss(
    pair: ShiftedMaximum | SampledPair,
    spacing: float,
    largest_multiple: int,
    *,
    negligible_mass: float,
) -> tuple[Array, float]:
    """Returns the distribution of the privacy loss of a pair, discretized on multiples of a spacing.

    A `ShiftedMaximum` is symmetrized: its upper part, from the place x with P(M + shift > x) = P(M <= x) on, is joined
    with the mirror image of that part, in which both distributions are exchanged and the loss is negated. For one
    normal, the only maximum for which the function is used, the result is the pair itself.

    Args:
        pair: the pair.
        spacing: the spacing h, > 0.
        largest_multiple: the largest multiple of the spacing.
        negligible_mass: the probability of large losses that may count as infinite.

    Returns:
        The probabilities of the losses -n..n times the spacing, `[2 n + 1]`, and the probability of an infinite loss,
        all under the distribution that positive losses favor. n is at most `largest_multiple` + 2.
    """
    places, multiples = _cells(
        pair, spacing=spacing, largest_multiple=largest_multiple, negligible_mass=negligible_mass
    )
    location_error = _LOCATION_ERROR + pair.loss_rounding(places) / spacing  # [C + 1]
    blur = np.maximum(location_error[:-1], location_error[1:])
    # under the distribution that the losses favor, and under its neighbor
    p = _interval_masses(pair.first(places))
    q = _interval_masses(pair.second(places))
    last = int(np.abs(multiples).max())
    masses = np.zeros(2 * last + 3)
    middle = last + 1
    losses = multiples.astype(np.float64) * spacing
    scale = -math.expm1(-spacing)

    def add_intervals(
        smaller_losses: Array, favored_masses: _Masses, other_masses: _Masses
    ) -> None:
        """Adds the probabilities of intervals to the grid, at both ends of each interval, and rounding errors beyond.

        Args:
            smaller_losses: the smaller loss of each interval, `[num_intervals]`.
            favored_masses: the probabilities under the distribution that positive losses favor.
            other_masses: the probabilities under the other distribution.
        """
        ratio = np.exp(smaller_losses)
        to_upper_end = np.clip(
            (favored_masses.values - ratio * other_masses.values) / scale,
            0.0,
            favored_masses.values,
        )
        # What rounding and the search for the ends may have moved goes one point farther, where the price is larger.
        moved_by_rounding = (favored_masses.rounding + ratio * other_masses.rounding) / scale + (
            favored_masses.values + favored_masses.rounding
        ) * blur
        index = middle + np.round(smaller_losses / spacing).astype(np.int64)
        np.add.at(masses, index, favored_masses.values - to_upper_end)
        np.add.at(masses, index + 1, to_upper_end)
        np.add.at(masses, index + 2, 2 * moved_by_rounding)

    add_intervals(losses[:-1], p, q)
    if not isinstance(pair, SampledPair):
        add_intervals(-losses[1:], q, p)
    end_tails = pair.first(places[[0, -1]])
    below_first = float(end_tails.below[0])
    above_first, beyond_last = end_tails.above.tolist()
    if isinstance(pair, SampledPair):
        masses[middle + int(multiples[0]) + 1] += below_first * (1 + _MASS_ROUNDING)
    else:
        other_above, other_beyond = pair.second(places[[0, -1]]).above.tolist()
        masses[middle - int(multiples[-1])] += other_beyond
        beyond_last += abs(1 - above_first - other_above)  # mass that has no mirror image
    return masses, beyond_last * (1 + _MASS_ROUNDING)


def _interval_masses(tails: Tails) -> _Masses:
    """Returns the probabilities between neighboring places, given the tail probabilities at the places.

    Each is a difference of the smaller of both tails, which keeps its digits.
    """
    below, above = tails
    is_left = below[1:] < above[:-1]
    difference = np.where(is_left, below[1:] - below[:-1], above[:-1] - above[1:])
    rounding = _MASS_ROUNDING * np.where(is_left, below[1:], above[:-1])
    return _Masses(values=np.maximum(difference, 0.0), rounding=rounding)


def _cells(
    pair: ShiftedMaximum | SampledPair,
    spacing: float,
    largest_multiple: int,
    negligible_mass: float,
) -> _Cells:
    """Returns the places at which the loss is a multiple of the spacing; `discretized_loss` explains the arguments."""
    clipped_multiple = min(largest_multiple, int(_LARGEST_LOSS / spacing))

    def are_beyond_ends(x: Array) -> NDArray[np.bool_]:
        """Returns two booleans: whether the grid begins left of x[0], and whether it ends left of x[1]."""
        above = pair.first(x).above
        if isinstance(pair, SampledPair):
            begins = pair.loss(x) > -clipped_multiple * spacing
        else:
            begins = pair.second(x).below > above
        return np.where([True, False], begins, above < negligible_mass)

    def exceed_multiples(x: Array) -> NDArray[np.bool_]:
        return np.asarray(pair.loss(x) > multiples * spacing)

    ends = _bisected(
        are_beyond_ends, low=np.full(2, -pair.farthest), high=np.full(2, pair.farthest)
    )
    low, high = np.clip(pair.loss(ends) / spacing, -clipped_multiple, clipped_multiple).tolist()
    first = math.floor(low)
    multiples = np.arange(first, max(math.ceil(high), first + 1) + 1)
    num_places = len(multiples)
    places = _bisected(
        exceed_multiples, low=np.full(num_places, ends[0]), high=np.full(num_places, pair.farthest)
    )
    places[0] = ends[0]
    return _Cells(places=places, multiples=multiples)


def _bisected(condition: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array) -> Array:
    """Returns, for each of several conditions, the smallest place at which it holds, `[num_conditions]`, by bisection.

    Args:
        condition: a function from one place for each condition to booleans, which are True from some place on.
        low: a place at which each condition is False, `[num_conditions]`.
        high: a place at which each condition is True, `[num_conditions]`.
    """
    for _ in range(_NUM_BISECTIONS):
        middle = (low + high) / 2
        holds = condition(middle)
        low = np.where(holds, low, middle)
        high = np.where(holds, middle, high)
    return np.asarray(high)
