"""The price of releasing only the winner of noisy counts, of which one or two differ by at most 1 between neighbors.

The winner is the index of the largest count after Gaussian noise. Divide all counts by the noise std. Then the noise is
N(0, 1), and a count differs by at most mean_shift = 1 / noise_multiplier. Suppose that the release also reveals the
largest noisy count M of those that do not differ. Let a and b be the two differing counts less M, before noise. Then
the release is dominated by the worst pair of distributions over all points (a, b) (docs/proofs/winner.md, steps 1-3).

If one count differs, the release is the bit Z > t, with Z from N(0, 1) or from N(mean_shift, 1). If two differ, the
plane of points (a, b) is covered by the regions below. A *law* is the pair (P, Q) of distributions of the outcome on
the two data sets at one point. Its *test curve* is the largest P(S) over all sets S of outcomes with a given Q(S). A
pair dominates a law if its curve is nowhere below that of the law. In each region a few discrete pairs dominate
(`winner_law`, `discrete_pairs`):

    a < -1.8, or b < -1.8   The pair of a normal that is revealed only above a threshold, and another normal. Both are
                            moved by mean_shift.

    a + b > 2.8             The pair of a bit of a normal that is moved by sqrt 2 mean_shift. With probability <= 0.024
                            the whole normal is revealed.

    between these           The plane is cut into squares. At each corner the points of the law's curve are raised by a
                            bound on the error of interpolation (`RaisedPoints`), and a pair is built whose curve is
                            above them. The pairs of the four corners together dominate in the square. Tangents cut
                            these curves off where they are too steep (`_pairs_above`). If that cuts a curve below a
                            raised point, the square, or each part of it, gets one pair for the points of all corners.

The Renyi curve is log E_Q[(P/Q)^a] / (a - 1) at the worst of these pairs. Optimal composition takes the worst pair in
each step from trees of these pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pate.accounting.discrete_pairs import (
    FARTHEST,
    Pair,
    censored_pair,
    dominating_pair_of,
    gaussian_pair,
    largest_excess_moment,
    pair_above_points,
)
from pate.accounting.special import log_ndtr, ndtr
from pate.accounting.winner_law import (
    bend_of_change,
    bend_of_mass,
    bend_of_mass_of_rest,
    bend_of_rest,
    curve_points,
    moved_mass,
)
from pate.array_types import BoolArray, FloatArray, IntArray

SMALLEST_MULTIPLIER = 0.25
LARGEST_MULTIPLIER = 1e7
"""With no more noise than the smallest multiplier, or no less than the largest, the counts themselves are priced."""
# The limits of the regions in the module docstring: the smallest a and b, and the largest a + b, of the region between.
_SMALLEST_COUNT = -1.8
_LARGEST_SUM = 2.8
# A bit whose threshold is farther from P's mean than this is a function of a normal that is censored there.
_FARTHEST_BIT = 2.4
# How far P's mean is above the thresholds of the bits for which pairs are computed, in standard deviations.
_POSITIVE_DISTANCES = np.append(np.arange(7) / 10, 0.6 + np.arange(1, 10) / 5)
MEANS_MINUS_THRESHOLDS = np.append(-_POSITIVE_DISTANCES[:0:-1], _POSITIVE_DISTANCES)
# The squares are chosen for this small shift, and serve all shifts.
_SMALL_SHIFT = 1e-3
# A square is divided while a corner of it costs more. At the small shift the largest second moment of a law over
# mean_shift^2 is 1.2800, so all squares near the costliest laws get the smallest width.
_LARGEST_COST = 1.25
# The weight of large positive losses in the cost of a corner.
_SKEW = 0.1
# The largest slope of a test curve over mean_shift: the test curve of the two counts themselves cuts off steeper pairs.
_STEEPEST = 4.0
# The widths of the largest and the smallest squares, in standard deviations.
_LARGEST_WIDTH = 0.64
_SMALLEST_WIDTH = 0.16
# The corners of a square, in units of its width.
_CORNERS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
# The number of parts of each side of a square that is divided, as one pair for it all would cost too much.
_PARTS_OF_SIDE = 3
# The Renyi orders less one, times the shift of a normal, at which the costs of squares are compared.
_COMPARED_ORDERS_MINUS_ONE = np.array([0.1, 0.25, 0.5, 1.0, 1.5])
# The number of parts of an interval of thresholds in which one pair dominates.
_PARTS_OF_CUT_INTERVAL = 4
# The rounding error of the points of test curves at the corners.
_CORNER_ROUNDING = 1e-13
# The largest |phi'| and |phi''|: the bends of a normal's distribution function and of its density.
_BEND_OF_MASS = 0.2420
_BEND_OF_DENSITY = 0.3990
# The factor that covers the rounding of a few operations.
_ROUNDED_UP = 1 + 1e-12
# The probability that the whole normal is revealed where a + b > 2.8: Phi(-2.8 / sqrt 2) = erfc(2.8 / 2) / 2.
_WHOLE_NORMAL_PROB = 0.5 * math.erfc(_LARGEST_SUM / 2) * _ROUNDED_UP
# The relative rounding error of a logarithm.
_ROUNDING = 2.0**-50
# The points to which the mass of a normal is moved.
_POSITIVE_EDGES = np.array([0.0, 0.6, 1.2, 1.8, 2.6, 3.6, 5.0, FARTHEST])
_EDGES = np.append(-_POSITIVE_EDGES[:0:-1], _POSITIVE_EDGES)
# The largest number of trees into which all pairs are gathered.
_LARGEST_NUM_ROOTS = 40
# The largest number of pairs that get one parent in a tree.
_LARGEST_NUM_CHILDREN = 4


@lru_cache(maxsize=64)  # the Renyi curve and the discrete pairs of a winner need them
def bit_release_pairs(mean_shift: float) -> tuple[Pair, ...]:
    """Returns discrete pairs that dominate the release of the bit Z > t, for thresholds t near `mean_shift`.

    At every t with |mean_shift - t| <= 2.4, no divergence of the release exceeds the largest of the divergences of
    these pairs. Z is from P = N(mean_shift, 1) or from Q = N(0, 1).
    """
    raised_points = points_of_bits(MEANS_MINUS_THRESHOLDS, mean_shift=mean_shift)
    pairs = _pairs_above(raised_points, mean_shift=mean_shift)
    is_cut = _are_cut(pairs, raised_points=raised_points, mean_shift=mean_shift)
    pairs_of_parts: list[Pair] = []
    for start in np.flatnonzero(is_cut[:-1] | is_cut[1:]).tolist():
        lower_end, upper_end = MEANS_MINUS_THRESHOLDS[start : start + 2].tolist()
        part_ends = np.linspace(lower_end, upper_end, num=_PARTS_OF_CUT_INTERVAL + 1)
        points_of_parts = points_of_bits(part_ends, mean_shift=mean_shift)
        ends_of_parts = np.stack(
            [np.arange(_PARTS_OF_CUT_INTERVAL), 1 + np.arange(_PARTS_OF_CUT_INTERVAL)], axis=1
        )
        pairs_of_parts += _pairs_above(
            points_of_parts.of_cells(ends_of_parts), mean_shift=mean_shift
        )
    return (*pairs, *pairs_of_parts)


def points_of_bits(means_minus_thresholds: FloatArray, mean_shift: float) -> RaisedPoints:
    """Returns the raised points (`RaisedPoints`) of the bits Z > t at several thresholds t, one law for each.

    Args:
        means_minus_thresholds: how far P's mean is above each threshold, rising, `[num_thresholds]`.
        mean_shift: P's mean, while Q's is 0.
    """
    widths = np.diff(means_minus_thresholds)
    wider_widths = np.maximum(np.append(widths, 0), np.append(0, widths))
    # Between two thresholds the curve's point lies within width^2 / 8 times the bend from the chord.
    error_per_bend = wider_widths**2 / 8
    return RaisedPoints(
        q_masses=ndtr(means_minus_thresholds - mean_shift)[None],  # Q(Z > t)
        p_minus_q_masses=moved_mass(means_minus_thresholds, mean_shift=mean_shift)[None],
        q_slack=(error_per_bend * _BEND_OF_MASS + _CORNER_ROUNDING)[None],
        p_minus_q_slack=(error_per_bend * _BEND_OF_DENSITY + _CORNER_ROUNDING)[None] * mean_shift,
    )


@lru_cache(maxsize=64)  # the Renyi curve and the discrete pairs of a winner need them
def pairs_of_squares(mean_shift: float) -> tuple[Pair, ...]:
    """Returns discrete pairs that dominate the release of the winner at all points (a, b) of a middle region.

    a and b are the two counts that differ between neighbors, less the largest noisy count of all others. In the region
    both are at least -1.8, and a + b is at most 2.8. The region is covered by squares. At a point of a square, either
    the pairs of its four corners together dominate, or one pair for the square or for a part of it.

    Args:
        mean_shift: the distance by which a count differs between neighbors, in standard deviations of the noise:
            1 / noise_multiplier.
    """
    cover = cover_of_squares(mean_shift)
    return (*cover.corner_pairs, *cover.cell_pairs)


@dataclass(frozen=True)
class SquareCover:
    """The pairs that dominate the release of the winner at all points (a, b) of a region.

    The region is covered by squares and, in place of those that are cut, by smaller or equal squares, the cells.

    Attributes:
        lower_left_corners: the points (a, b) at the lower left corners of the squares, `[num_squares, 2]`.
        widths: the widths of the squares, `[num_squares]`.
        corner_pairs: the pairs of all distinct corners.
        corners_of_squares: the indices of each square's corners in `corner_pairs`, `[num_squares, 4]`, in the order of
            `_CORNERS`.
        is_cut: whether the curve of a pair at a corner of the square is cut off below its raised points,
            `[num_squares]`. In all other squares the pairs of the four corners together dominate.
        cell_corners: the points (a, b) at the lower left corners of the cells, `[num_cells, 2]`.
        cell_widths: the widths of the cells, `[num_cells]`.
        cell_pairs: one pair for each cell, which dominates in the cell.
    """

    lower_left_corners: FloatArray
    widths: FloatArray
    corner_pairs: tuple[Pair, ...]
    corners_of_squares: IntArray
    is_cut: BoolArray
    cell_corners: FloatArray
    cell_widths: FloatArray
    cell_pairs: tuple[Pair, ...]


def cover_of_squares(mean_shift: float) -> SquareCover:
    """Returns the pairs of `pairs_of_squares`, with the squares in which they dominate."""
    lower_left_corners, widths = _covering_squares()
    points = points_of_corners(lower_left_corners, widths=widths, mean_shift=mean_shift)
    pair_shift = math.sqrt(2) * mean_shift
    corner_pairs = _pairs_above(points.raised, mean_shift=pair_shift)
    is_cut_corner = _are_cut(corner_pairs, raised_points=points.raised, mean_shift=mean_shift)
    is_cut = np.any(is_cut_corner[points.corners_of_squares], axis=1)
    pairs_of_cut_squares = _pairs_above(
        points.raised.of_cells(points.corners_of_squares[is_cut]), mean_shift=pair_shift
    )
    # A cut square is divided if its pair costs more than the pairs of all corners at one of some Renyi orders.
    orders = 1 + _COMPARED_ORDERS_MINUS_ONE / pair_shift
    largest_cost = largest_excess_moment(corner_pairs, orders, mean_shift=pair_shift)
    is_divided = np.array(
        [
            (largest_excess_moment([pair], orders, mean_shift=pair_shift) > largest_cost).any()
            for pair in pairs_of_cut_squares
        ],
        dtype=bool,
    )
    steps = np.arange(_PARTS_OF_SIDE)
    steps_of_parts = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    part_widths = widths[is_cut][is_divided] / _PARTS_OF_SIDE
    part_corners = (
        lower_left_corners[is_cut][is_divided][:, None]
        + part_widths[:, None, None] * steps_of_parts
    ).reshape(-1, 2)
    part_widths = np.repeat(part_widths, len(steps_of_parts))
    is_in_region = part_corners.sum(axis=1) < _LARGEST_SUM
    part_corners = part_corners[is_in_region]
    part_widths = part_widths[is_in_region]
    points_of_parts = points_of_corners(part_corners, widths=part_widths, mean_shift=mean_shift)
    part_pairs = _pairs_above(
        points_of_parts.raised.of_cells(points_of_parts.corners_of_squares), mean_shift=pair_shift
    )
    undivided_pairs = [
        pair for pair, divided in zip(pairs_of_cut_squares, is_divided, strict=True) if not divided
    ]
    return SquareCover(
        lower_left_corners=lower_left_corners,
        widths=widths,
        corner_pairs=tuple(corner_pairs),
        corners_of_squares=points.corners_of_squares,
        is_cut=is_cut,
        cell_corners=np.concatenate([lower_left_corners[is_cut][~is_divided], part_corners]),
        cell_widths=np.concatenate([widths[is_cut][~is_divided], part_widths]),
        cell_pairs=(*undivided_pairs, *part_pairs),
    )


@dataclass(frozen=True)
class RaisedPoints:
    """Points (Q(S), P(S) - Q(S)) of sets S of outcomes in several laws, with bounds on an error of interpolation.

    Attributes:
        q_masses: Q(S) of each set S in each law, `[num_sets, num_laws]`.
        p_minus_q_masses: P(S) - Q(S), `[num_sets, num_laws]`.
        q_slack: the distance by which Q(S) between these laws may differ from its interpolation to either side,
            `[num_sets, num_laws]`.
        p_minus_q_slack: the amount by which P(S) - Q(S) between these laws may exceed its interpolation,
            `[num_sets, num_laws]`.
    """

    q_masses: FloatArray
    p_minus_q_masses: FloatArray
    q_slack: FloatArray
    p_minus_q_slack: FloatArray

    @property
    def q_ends(self) -> FloatArray:
        """Both ends of the range of each Q(S), `[2 * num_sets, num_laws]`; they may lie outside of [0, 1].

        They are not clipped. Otherwise an interpolation between the ends of several laws would miss what the ends of
        the interpolated ranges need.
        """
        return np.concatenate([self.q_masses - self.q_slack, self.q_masses + self.q_slack])

    @property
    def heights(self) -> FloatArray:
        """The largest P(S) - Q(S), with its slack, at each of `q_ends`, `[2 * num_sets, num_laws]`."""
        raised = self.p_minus_q_masses + self.p_minus_q_slack
        return np.concatenate([raised, raised])

    def of_cells(self, laws_of_cells: IntArray) -> RaisedPoints:
        """Returns the points of all corners of each cell as the points of one law; all arrays are `[.., num_cells]`.

        A cell is a square of points (a, b), or an interval of thresholds, at each of whose corners there is a law.

        Args:
            laws_of_cells: the indices of the laws at the corners of each cell, `[num_cells, num_corners]`.
        """
        num_cells, num_corners = laws_of_cells.shape

        def gathered(values: FloatArray) -> FloatArray:
            return values[:, laws_of_cells.T].reshape(len(values) * num_corners, num_cells)

        return RaisedPoints(
            q_masses=gathered(self.q_masses),
            p_minus_q_masses=gathered(self.p_minus_q_masses),
            q_slack=gathered(self.q_slack),
            p_minus_q_slack=gathered(self.p_minus_q_slack),
        )


@dataclass(frozen=True)
class CornerPoints:
    """The points of test curves at the corners of some squares; a corner that several squares share is kept once.

    A corner is a point (a, b) of the two differing counts less the largest noisy count of all others. It has a law, the
    distributions P and Q of the outcome on two neighboring data sets. The corners themselves are not kept.

    Attributes:
        raised: (Q(S), P(S) - Q(S)) of four sets S of outcomes at each distinct corner, with bounds on the error of
            interpolation between corners; all its arrays are `[4, num_corners]`.
        corners_of_squares: the column in these arrays of each square's four corners, `[num_squares, 4]`.
    """

    raised: RaisedPoints
    corners_of_squares: IntArray


def points_of_corners(
    lower_left_corners: FloatArray, widths: FloatArray, mean_shift: float
) -> CornerPoints:
    """Returns the raised points of the four sets of outcomes (`winner_law.curve_points`) at the corners of squares.

    Args:
        lower_left_corners: the points (a, b) at the lower left corners of the squares, `[num_squares, 2]`.
        widths: the widths of the squares, `[num_squares]`.
        mean_shift: the distance by which two counts differ between neighbors, in standard deviations of the noise.
    """
    # [S, 4, 2]
    square_corners = lower_left_corners[:, None] + widths[:, None, None] * _CORNERS
    square_corners = square_corners.reshape(-1, 2)
    # Rounding only tells which corners are the same, up to the last bits of their coordinates.
    _, first_indices, index_of_corner = np.unique(
        square_corners.round(6), axis=0, return_index=True, return_inverse=True
    )
    distinct_corners = square_corners[first_indices]
    corners_of_squares = index_of_corner.reshape(-1, len(_CORNERS))
    # A corner serves several squares, so it takes the largest slack of them.
    slack_of_squares = _interpolation_slack(
        lower_left_corners=lower_left_corners, widths=widths, mean_shift=mean_shift
    )  # [8, S]
    slack_of_corners = np.zeros((len(slack_of_squares), len(distinct_corners)))
    for slack_of_corner, slack_of_square in zip(slack_of_corners, slack_of_squares, strict=True):
        np.maximum.at(slack_of_corner, corners_of_squares, slack_of_square[:, None])
    q_masses, p_minus_q_masses = curve_points(
        leads_of_first_count=distinct_corners[:, 0],
        leads_of_second_count=distinct_corners[:, 1],
        mean_shift=mean_shift,
    )
    raised_points = RaisedPoints(
        q_masses=q_masses,
        p_minus_q_masses=p_minus_q_masses,
        q_slack=slack_of_corners[:4],
        p_minus_q_slack=slack_of_corners[4:],
    )
    return CornerPoints(raised=raised_points, corners_of_squares=corners_of_squares)


@lru_cache(maxsize=1)  # the same for every `mean_shift`
def _covering_squares() -> tuple[FloatArray, FloatArray]:
    """Returns the lower left corners, `[num_squares, 2]`, and the widths, `[num_squares]`, of squares of points (a, b).

    The squares cover the region with a and b at least -1.8 and a + b at most 2.8 (`pairs_of_squares`). A
    square is divided into four where the pair at one of its corners costs too much.
    """
    num_columns = round((_LARGEST_SUM - 2 * _SMALLEST_COUNT) / _LARGEST_WIDTH)
    column_starts = _SMALLEST_COUNT + _LARGEST_WIDTH * np.arange(num_columns)
    lower_left_corners = np.stack(np.meshgrid(column_starts, column_starts), axis=-1).reshape(-1, 2)
    finished_corners: list[FloatArray] = []
    finished_widths: list[FloatArray] = []
    width = _LARGEST_WIDTH
    while len(lower_left_corners):
        lower_left_corners = lower_left_corners[
            lower_left_corners.sum(axis=1) < _LARGEST_SUM - 1e-9
        ]
        corner_costs = _corner_costs(lower_left_corners, width=width)
        is_fine_enough = (corner_costs <= _LARGEST_COST).all(axis=1) | (
            width < 1.5 * _SMALLEST_WIDTH
        )
        finished_corners.append(lower_left_corners[is_fine_enough])
        finished_widths.append(np.full(int(is_fine_enough.sum()), width))
        width /= 2
        lower_left_corners = (
            lower_left_corners[~is_fine_enough][:, None] + width * _CORNERS
        ).reshape(-1, 2)
    return np.concatenate(finished_corners), np.concatenate(finished_widths)


def _corner_costs(lower_left_corners: FloatArray, width: float) -> FloatArray:
    """Returns the cost of the pair at each corner of squares of one width, at a small shift, `[num_squares, 4]`.

    The cost is about the second moment of the pair's loss divided by mean_shift^2, with large positive losses weighted
    a little more.
    """
    slack_of_squares = _interpolation_slack(
        lower_left_corners=lower_left_corners,
        widths=np.full(len(lower_left_corners), width),
        mean_shift=_SMALL_SHIFT,
    )
    slack = np.repeat(slack_of_squares, len(_CORNERS), axis=1)
    corners = (lower_left_corners[:, None] + width * _CORNERS).reshape(-1, 2)
    q_masses, p_minus_q_masses = curve_points(
        leads_of_first_count=corners[:, 0],
        leads_of_second_count=corners[:, 1],
        mean_shift=_SMALL_SHIFT,
    )
    raised_changes = (p_minus_q_masses + slack[4:]) / _SMALL_SHIFT
    # The points of the outcomes A (the first count wins) and A or R (the second count does not win).
    q_first, q_not_second = q_masses[:2]
    change_first, change_not_second = raised_changes[:2]
    slack_first, slack_not_second = slack[:2]
    # The masses and the changes of the outcomes A, R and B, from these points.
    masses = np.stack(
        [
            q_first - slack_first,
            q_not_second - q_first - slack_first - slack_not_second,
            1 - q_not_second - slack_not_second,
        ]
    )
    changes = np.stack([change_first, change_not_second - change_first, -change_not_second])
    masses = np.maximum(masses, np.abs(changes) / _STEEPEST)
    skew_factors = np.maximum(1 + _SKEW * changes / masses, 1)
    costs = (changes**2 / masses * skew_factors).sum(axis=0)
    return np.asarray(costs.reshape(-1, len(_CORNERS)))


def _interpolation_slack(
    lower_left_corners: FloatArray, widths: FloatArray, mean_shift: float
) -> FloatArray:
    """Returns bounds on the error of interpolation between the corners of each square, `[8, num_squares]`.

    The first four rows bound the error of Q(S) for each of the four sets S of outcomes that `winner_law.curve_points`
    lists. The other four rows bound by how much P(S) - Q(S) may exceed its interpolation.

    Args:
        lower_left_corners: the points (a, b) at the lower left corners of the squares, `[num_squares, 2]`.
        widths: the widths of the squares, `[num_squares]`.
        mean_shift: the distance by which two counts differ between neighbors, in standard deviations of the noise.
    """
    a_low, b_low = lower_left_corners.T
    a_high, b_high = lower_left_corners.T + widths
    # the ranges of all points on the path from before to after the change
    a_range = (a_low - mean_shift, a_high)
    b_range = (b_low, b_high + mean_shift)
    d_range = (a_range[0] - b_range[1]) / 2**0.5, (a_range[1] - b_range[0]) / 2**0.5
    t_range = (a_low + b_low) / 2**0.5, (a_high + b_high) / 2**0.5
    # bilinear interpolation errs by at most width^2 / 8 times the bend
    error_per_bend = widths**2 / 8
    bend_of_first_mass = bend_of_mass(
        a_range=a_range, b_range=b_range, d_range=d_range, t_range=t_range
    )
    # That of the second count, and so of its complement, by symmetry.
    bend_of_second_mass = bend_of_mass(
        a_range=b_range, b_range=a_range, d_range=d_range, t_range=t_range
    )
    bend_of_rest_mass = bend_of_mass_of_rest(a_range=a_range, b_range=b_range)
    bends_of_masses = np.stack(
        [bend_of_first_mass, bend_of_second_mass, bend_of_rest_mass, bend_of_rest_mass]
    )
    bend_of_first_wins = bend_of_change(
        a_range=a_range, b_range=b_range, d_range=d_range, t_range=t_range
    )
    bend_of_second_loses = bend_of_change(
        a_range=b_range, b_range=a_range, d_range=d_range, t_range=t_range
    )
    bends_of_changes = np.stack(
        [
            bend_of_first_wins,
            bend_of_second_loses,
            bend_of_rest(a_range=a_range, b_range=b_range),
            bend_of_rest(a_range=b_range, b_range=a_range),
        ]
    )
    q_slacks = error_per_bend * bends_of_masses + _CORNER_ROUNDING
    p_minus_q_slacks = (error_per_bend * bends_of_changes + _CORNER_ROUNDING) * mean_shift
    return np.concatenate([q_slacks, p_minus_q_slacks])


def _pairs_above(raised_points: RaisedPoints, mean_shift: float) -> list[Pair]:
    """Returns, for each law, a pair whose test curve is nowhere below its points, but where it is cut off.

    A law is a pair (P, Q) of distributions of the winner, or of a bit, on two neighbors.

    Args:
        raised_points: the points of each law.
        mean_shift: the distance of two normals whose test curve is known to lie above those of all laws. Tangents of
            it cut the curves of the pairs off.
    """
    return [
        pair_above_points(q_of_law, p_minus_q_masses=p_minus_q_of_law, mean_shift=mean_shift)
        for q_of_law, p_minus_q_of_law in zip(
            raised_points.q_ends.T, raised_points.heights.T, strict=True
        )
    ]


def _are_cut(pairs: Sequence[Pair], *, raised_points: RaisedPoints, mean_shift: float) -> BoolArray:
    """Returns whether the test curve of each pair is below one or more of the points it was made for, `[num_laws]`.

    A point outside of [0, 1], where there is no curve, counts as a point that the curve is below.

    Args:
        pairs: the pair that `_pairs_above` returns for each law.
        raised_points: the points of each law.
        mean_shift: the distance by which a count differs between neighbors, in standard deviations of the noise.
    """
    is_cut = np.zeros(len(pairs), dtype=bool)
    for index, (pair, q_of_law, height_of_law) in enumerate(
        zip(pairs, raised_points.q_ends.T, raised_points.heights.T, strict=True)
    ):
        corners = pair.curve_corners
        height_of_curve = np.interp(q_of_law, corners.q_masses, corners.p_minus_q_masses)
        # The slack covers ten times the rounding that is allowed here.
        is_below = height_of_curve < height_of_law - _CORNER_ROUNDING / 10 * mean_shift
        is_cut[index] = (is_below | (q_of_law < 0) | (q_of_law > 1)).any()
    return is_cut


def winner_rdp(noise_multiplier: float, num_moving_counts: int, orders: FloatArray) -> FloatArray:
    """Returns an upper bound on the Renyi curve of releasing only the index of the largest noisy count, `[num_orders]`.

    The bound is never above the curve of releasing all noisy counts.

    Args:
        noise_multiplier: the noise std / the largest difference of one count, >= 0.
        num_moving_counts: the number of counts that differ between neighbors, 1 or 2.
        orders: a > 1, `[num_orders]`.
    """
    if noise_multiplier == 0:
        return np.full_like(orders, np.inf)
    mean_shift = 1 / noise_multiplier
    rdp_of_counts = orders * (num_moving_counts * mean_shift * mean_shift / 2)
    if not SMALLEST_MULTIPLIER < noise_multiplier < LARGEST_MULTIPLIER:
        return rdp_of_counts
    # log E[(P/Q)^a] of N(mean_shift, 1) against N(0, 1) is a (a - 1) mean_shift^2 / 2
    log_moment = orders * (orders - 1) * (mean_shift * mean_shift / 2) * _ROUNDED_UP
    with np.errstate(over="ignore", invalid="ignore"):
        # E[(P/Q)^a] - 1 of the worst bit of N(bit_shift, 1) against N(0, 1)
        bit_shift = math.sqrt(num_moving_counts) * mean_shift
        excess_moment = np.maximum(
            np.expm1(_log_censored_moment(orders, bit_shift, censoring_threshold=_FARTHEST_BIT)),
            largest_excess_moment(bit_release_pairs(bit_shift), orders, mean_shift=bit_shift),
        )
        if num_moving_counts == 2:
            moment_of_large_sums = (
                1 - _WHOLE_NORMAL_PROB
            ) * excess_moment + _WHOLE_NORMAL_PROB * np.expm1(2 * log_moment)
            log_censored_moment = _log_censored_moment(
                orders, mean_shift, censoring_threshold=-_SMALLEST_COUNT
            )
            moment_of_small_counts = np.expm1(log_censored_moment + log_moment)
            moment_of_squares = largest_excess_moment(
                pairs_of_squares(mean_shift),
                orders,
                mean_shift=math.sqrt(2) * mean_shift,
            )
            excess_moment = np.maximum(
                np.maximum(moment_of_large_sums, moment_of_small_counts), moment_of_squares
            )
        rdp_of_winner = np.log1p(excess_moment) * _ROUNDED_UP / (orders - 1)
    return np.where(
        np.isfinite(rdp_of_winner), np.minimum(rdp_of_winner, rdp_of_counts), rdp_of_counts
    )


def _log_censored_moment(
    orders: FloatArray, mean_shift: float, censoring_threshold: float
) -> FloatArray:
    """Returns log E_Q[(P/Q)^a] of the release of max(Z, threshold), rounded up, `[num_orders]`.

    Z is from P = N(0, 1) or from Q, which is N(-mean_shift, 1) or N(mean_shift, 1), whichever gives the larger moment.
    The moment is the sum of two parts: that of the event Z <= threshold, and that of Z above the threshold.

    Args:
        orders: a > 1, `[num_orders]`.
        mean_shift: the distance between the two means, > 0.
        censoring_threshold: the threshold, below which Z is not revealed.
    """
    log_moment = orders * (orders - 1) * (mean_shift * mean_shift / 2) * _ROUNDED_UP
    log_moments_of_signs = []
    for sign in (1, -1):
        log_moment_below = orders * log_ndtr(censoring_threshold) - (orders - 1) * log_ndtr(
            censoring_threshold + sign * mean_shift
        )
        log_moment_above = log_moment + log_ndtr(
            sign * ((orders - 1) * mean_shift) - censoring_threshold
        )
        log_moments_of_signs.append(np.logaddexp(log_moment_below, log_moment_above))
    rounding = _ROUNDING * (1 + orders * -log_ndtr(censoring_threshold - mean_shift))
    return np.asarray(
        np.maximum(np.maximum(log_moments_of_signs[0], log_moments_of_signs[1]), 0.0) + rounding
    )


@dataclass(frozen=True)
class WinnerPairs:
    """Pairs of distributions that together dominate the release of the index of the largest noisy count.

    No divergence of the release, on any two neighbors, exceeds the largest of the divergences of these pairs. The pairs
    are the leaves of the trees under `roots`. An inner node of a tree is a pair that dominates its children, so a
    search for the worst pair can skip them.
    """

    roots: tuple[Pair, ...]
    variance: float  # the largest second moment, under Q, of P / Q - 1 of a leaf
    largest_loss: float  # the largest absolute loss of any pair


@lru_cache(maxsize=16)
def winner_pairs(noise_multiplier: float, num_moving_counts: int) -> WinnerPairs:
    """Returns the trees of pairs that dominate the release of the index of the largest noisy count, from a cache.

    An inner node has at most four children.

    Args:
        noise_multiplier: the noise std / the largest difference of one count, > 0.
        num_moving_counts: the number of counts that differ between neighbors, 1 or 2.
    """
    mean_shift = 1 / noise_multiplier
    bit_shift = math.sqrt(num_moving_counts) / noise_multiplier
    pairs = [
        *bit_release_pairs(bit_shift),
        censored_pair(bit_shift, threshold=_FARTHEST_BIT, q_mean_falls=True),
        censored_pair(bit_shift, threshold=_FARTHEST_BIT, q_mean_falls=False),
    ]
    if num_moving_counts == 2:
        whole_normal = gaussian_pair(bit_shift, interval_edges=_EDGES)
        moving_normal = gaussian_pair(mean_shift, interval_edges=_EDGES)
        small_count_pairs = [
            censored_pair(
                mean_shift, threshold=-_SMALLEST_COUNT, q_mean_falls=q_mean_falls
            ).product(moving_normal)
            for q_mean_falls in (True, False)
        ]
        large_sum_pairs = [
            pair.mixed_with(whole_normal, other_share=_WHOLE_NORMAL_PROB) for pair in pairs
        ]
        pairs = [
            *large_sum_pairs,
            *small_count_pairs,
            *pairs_of_squares(mean_shift),
        ]
    variance = max(
        float(pair.q_masses @ (pair.ratios_less_one * pair.ratios_less_one)) for pair in pairs
    )
    # Pairs that are alike in both tails, the masses of large losses of either sign, stand side by side, and get one
    # parent.
    large_ratio_less_one = variance**0.5 / 4
    masses_of_both_tails = [
        [
            pair.q_masses[pair.ratios_less_one > large_ratio_less_one].sum(),
            pair.q_masses[pair.ratios_less_one < -large_ratio_less_one].sum(),
        ]
        for pair in pairs
    ]
    order_of_pairs = _ordered_by_nearness(
        points=np.array(masses_of_both_tails), indices=np.arange(len(pairs))
    )
    pairs_of_level = [pairs[index] for index in order_of_pairs]
    while len(pairs_of_level) > _LARGEST_NUM_ROOTS:
        pairs_of_level = [
            dominating_pair_of(pairs_of_level[start : start + _LARGEST_NUM_CHILDREN])
            for start in range(0, len(pairs_of_level), _LARGEST_NUM_CHILDREN)
        ]
        pairs += pairs_of_level
    largest_loss = max(float(np.abs(pair.losses).max()) for pair in pairs)
    return WinnerPairs(roots=tuple(pairs_of_level), variance=variance, largest_loss=largest_loss)


def _ordered_by_nearness(points: FloatArray, indices: IntArray) -> list[int]:
    """Returns some indices of points in an order in which groups of 4, of 16, … consecutive points are near each other.

    The points are divided into two parts along the axis in which they spread more, recursively. The size of the first
    part is the smallest power of two that is at least half of their number.

    Args:
        points: the points, `[num_points, 2]`.
        indices: the indices of the points to be ordered.
    """
    if len(indices) <= 2:
        return [*indices.tolist()]
    wider_axis = int(np.ptp(points[indices], axis=0).argmax())
    ranked_indices = indices[np.argsort(points[indices, wider_axis], kind="stable")]
    size_of_first_part = 2 ** (math.ceil(math.log2(len(indices))) - 1)
    return _ordered_by_nearness(
        points, indices=ranked_indices[:size_of_first_part]
    ) + _ordered_by_nearness(points, indices=ranked_indices[size_of_first_part:])
