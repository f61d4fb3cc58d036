"""Pairs (P, Q) of discrete distributions, constructed so that they dominate given pairs.

The *test curve* of a pair maps a probability q in [0, 1] to the largest P(S) over all sets of outcomes S, randomized
sets included, with Q(S) = q; it is concave. One pair dominates another if and only if its curve is nowhere below the
other curve (Blackwell 1953). The curve of a discrete pair is a polygon: an outcome with probability q under Q and the
ratio P / Q is an edge of width q and slope P / Q. So upper bounds on all corners of a curve give a dominating pair: the
concave hull of the bounds is its curve. All heights here are P(S) - Q(S), and all slopes are ratios less one,
P / Q - 1, so that nothing cancels where the privacy loss is small (docs/proofs/winner.md, step 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pate.accounting.convex import lower_hull
from pate.accounting.special import log_ndtr, ndtr
from pate.accounting.winner_law import moved_mass
from pate.array_types import FloatArray

FARTHEST = 8.3
"""Standard deviations: the mass beyond, 5e-17, counts as an infinite loss, or is bounded by a closed form."""
# P / Q - 1 of a possible outcome is above -1. A smaller computed number is a rounding error.
_SMALLEST_RATIO_LESS_ONE = -1 + 2.0**-50
# The relative rounding error of a power and of its exponent.
_ROUNDING = 2.0**-50
# The thresholds at which tangents of the test curve of a normal cut a polygon off.
TANGENT_THRESHOLDS = np.array(
    [-FARTHEST, -6.0, -4.5, -3.25, -2.25, -1.5, 1.5, 2.25, 3.25, 4.5, 6.0, FARTHEST]
)
# The distances of the outcomes of a censored normal from its threshold.
_DISTANCES_FROM_THRESHOLD = np.array([0.0, 0.4, 0.8, 1.3, 2.0, 3.0])


class CurveCorners(NamedTuple):
    """The corners of a test curve, by rising Q(S), `[num_corners]` each."""

    q_masses: FloatArray  # Q(S)
    p_minus_q_masses: FloatArray  # the largest P(S) - Q(S)


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Pair:
    """A pair (P, Q) of discrete distributions.

    Attributes:
        q_masses: the probability of each outcome under Q, `[num_outcomes]`.
        ratios_less_one: P / Q - 1 of each outcome, `[num_outcomes]`.
        infinite_loss_prob: the probability under P of an infinite loss.
        dominated_pairs: the pairs that this pair was constructed to dominate, its children in a tree of pairs.
    """

    q_masses: FloatArray
    ratios_less_one: FloatArray
    infinite_loss_prob: float = 0.0
    dominated_pairs: tuple[Pair, ...] = ()

    @property
    def losses(self) -> FloatArray:
        """The privacy loss log(P / Q) of each outcome; -inf where P is 0."""
        with np.errstate(divide="ignore"):
            return np.log1p(self.ratios_less_one)

    @property
    def curve_corners(self) -> CurveCorners:
        """The corners of the test curve."""
        order = np.argsort(-self.ratios_less_one)
        sorted_q_masses = self.q_masses[order]
        inner_corners = np.minimum(np.cumsum(sorted_q_masses[:-1]), 1.0)
        heights = np.append(0.0, np.cumsum(sorted_q_masses * self.ratios_less_one[order]))
        return CurveCorners(
            q_masses=np.concatenate([[0.0], inner_corners, [1.0]]),
            p_minus_q_masses=self.infinite_loss_prob + heights,
        )

    def mixed_with(self, other_pair: Pair, *, other_share: float) -> Pair:
        """Returns the pair of a release that uses `other_pair` with probability `other_share`, and else this pair.

        The release also reveals which of the two was used.
        """
        q_masses = np.concatenate(
            [(1 - other_share) * self.q_masses, other_share * other_pair.q_masses]
        )
        infinite_loss_prob = (
            1 - other_share
        ) * self.infinite_loss_prob + other_share * other_pair.infinite_loss_prob
        return Pair(
            q_masses=q_masses,
            ratios_less_one=np.concatenate([self.ratios_less_one, other_pair.ratios_less_one]),
            infinite_loss_prob=infinite_loss_prob,
        )

    def product(self, other_pair: Pair) -> Pair:
        """Returns the pair of two independent releases together: one of this pair and one of `other_pair`.

        The probability that either loss is infinite is rounded up to the sum of both probabilities.
        """
        q_masses = np.outer(self.q_masses, other_pair.q_masses).ravel()
        ratios_less_one = (
            self.ratios_less_one[:, None]
            + other_pair.ratios_less_one
            + np.outer(self.ratios_less_one, other_pair.ratios_less_one)
        ).ravel()
        return Pair(
            q_masses=q_masses,
            ratios_less_one=ratios_less_one,
            infinite_loss_prob=self.infinite_loss_prob + other_pair.infinite_loss_prob,
        )


class _CurvePoints(NamedTuple):
    """Points of the test curve of P = N(mean_shift, 1) and Q = N(0, 1), `[num_points]` each.

    The test curve of a pair is the largest P(S) over all sets S with a given Q(S). Each point is that of a set {x > z},
    for a threshold z.
    """

    q_masses: FloatArray  # Q(Z > z)
    p_minus_q_masses: FloatArray  # P(Z > z) - Q(Z > z)
    slopes: FloatArray  # P / Q - 1 at z


def gaussian_curve(thresholds: FloatArray, mean_shift: float) -> _CurvePoints:
    """Returns the points of the test curve of P = N(mean_shift, 1) and Q = N(0, 1) for the sets {x > z}.

    Args:
        thresholds: the thresholds z, `[num_points]`.
        mean_shift: the distance between the two means.
    """
    slopes = np.asarray(np.expm1(thresholds * mean_shift - mean_shift * mean_shift / 2))
    return _CurvePoints(
        q_masses=np.asarray(ndtr(-thresholds)),
        p_minus_q_masses=moved_mass(thresholds, mean_shift=mean_shift),
        slopes=slopes,
    )


def pair_above_points(
    q_masses: FloatArray, p_minus_q_masses: FloatArray, *, mean_shift: float
) -> Pair:
    """Returns a pair whose test curve is near the points (q, q + p_minus_q): above them, but where tangents cut it off.

    The test curve of a pair (P, Q) is the largest P(S) over all sets S of outcomes with a given Q(S). The curve here is
    the least of the edges of the points' concave hull and of some tangents, which may cut it below points. They are
    tangents of the test curve of N(mean_shift, 1) and N(0, 1), which the caller knows to be an upper bound. Edges
    steeper than all tangents, or less steep than all tangents, are left out, which raises the curve there.

    Args:
        q_masses: the probabilities Q(S) of the points, `[num_points]`.
        p_minus_q_masses: P(S) - Q(S) of the points, `[num_points]`.
        mean_shift: the shift of the normal whose test curve is an upper bound.
    """
    x, y = _upper_hull(
        x=np.concatenate([[0.0, 1.0], q_masses]), y=np.concatenate([[0.0, 0.0], p_minus_q_masses])
    )
    edge_widths = np.diff(x)
    tangents = gaussian_curve(thresholds=TANGENT_THRESHOLDS, mean_shift=mean_shift)
    # The edges of the polygon and the tangents, as lines offset + slope * q.
    slopes = np.concatenate([np.diff(y) / edge_widths, tangents.slopes])
    line_x = np.concatenate([x[:-1], tangents.q_masses])
    line_offsets = np.concatenate([y[:-1], tangents.p_minus_q_masses]) - slopes * line_x
    # Edges steeper, or less steep, than all tangents are dropped: fewer lines make a higher curve.
    is_needed = (slopes >= tangents.slopes[0]) & (slopes <= tangents.slopes[-1])
    # The least of the lines at every q in [0, 1]. By duality its lines are the corners of a hull of (slope, -offset).
    hull_slopes, hull_minus_offsets = _upper_hull(x=slopes[is_needed], y=-line_offsets[is_needed])
    slopes = hull_slopes[::-1]
    minus_offsets = hull_minus_offsets[::-1]
    crossings = np.diff(minus_offsets) / np.diff(slopes)
    mass_corners = np.concatenate([[0.0], crossings, [1.0]]).clip(0, 1)
    masses_of_lines = np.diff(np.maximum.accumulate(mass_corners))
    infinite_loss_prob = max(-float(minus_offsets.max()), 0.0)
    return Pair(
        q_masses=masses_of_lines[masses_of_lines > 0],
        ratios_less_one=slopes[masses_of_lines > 0],
        infinite_loss_prob=infinite_loss_prob,
    )


def censored_pair(mean_shift: float, threshold: float, *, q_mean_falls: bool) -> Pair:
    """Returns a pair with few outcomes that dominates the release of max(Z, threshold).

    Z is from P = N(0, 1) or from Q, a normal whose mean is moved by `mean_shift`.

    Args:
        mean_shift: the distance between the two means, > 0.
        threshold: the value below which Z is not revealed.
        q_mean_falls: True for Q = N(-mean_shift, 1), False for Q = N(mean_shift, 1).
    """
    if q_mean_falls:
        inner_interval_edges = threshold + mean_shift + _DISTANCES_FROM_THRESHOLD
        interval_edges = np.append(inner_interval_edges, FARTHEST + mean_shift)
        q_below_threshold = ndtr(threshold + mean_shift)
        moved_q_mass = moved_mass(np.array([threshold + mean_shift]), mean_shift=mean_shift)
    else:
        inner_interval_edges = -threshold + mean_shift - _DISTANCES_FROM_THRESHOLD[::-1]
        interval_edges = np.append(-FARTHEST, inner_interval_edges)
        q_below_threshold = ndtr(threshold - mean_shift)
        moved_q_mass = -moved_mass(np.array([threshold]), mean_shift=mean_shift)
    pair_above_threshold = gaussian_pair(mean_shift, interval_edges=interval_edges)
    q_masses = np.append(pair_above_threshold.q_masses, q_below_threshold)
    return Pair(
        q_masses=q_masses,
        ratios_less_one=np.append(
            pair_above_threshold.ratios_less_one, -moved_q_mass / q_below_threshold
        ),
        infinite_loss_prob=pair_above_threshold.infinite_loss_prob,
    )


def gaussian_pair(mean_shift: float, interval_edges: FloatArray) -> Pair:
    """Returns a pair, with one outcome for each edge, that dominates P = N(mean_shift, 1) and Q = N(0, 1).

    The edges cut the real line into intervals. The probability of each interval between two edges is moved to both
    edges, so that both distributions keep their probability. If the first edge is at -`FARTHEST` or below, the
    probability below it is moved to it. If the last edge is at `FARTHEST` or above, the probability above it counts as
    an infinite loss. Other probability outside of the edges is left out, and the caller has to add it.

    Args:
        mean_shift: the distance between the two means, > 0.
        interval_edges: the edges, rising, `[num_edges]`.
    """
    # masses fall, slopes rise
    curve = gaussian_curve(thresholds=interval_edges, mean_shift=mean_shift)
    slopes = curve.slopes
    lower_edges = interval_edges[:-1]
    upper_edges = interval_edges[1:]
    # Far above 0 the masses below two edges are both near 1, and their difference would lose its digits.
    q_of_interval = np.where(
        lower_edges > 0,
        ndtr(-lower_edges) - ndtr(-upper_edges),
        ndtr(upper_edges) - ndtr(lower_edges),
    )
    p_minus_q_of_interval = curve.p_minus_q_masses[:-1] - curve.p_minus_q_masses[1:]
    slope_steps = np.diff(slopes)
    # Where both slopes are rounded to the same number, all goes to the upper edge.
    q_moved_to_upper_edge = np.where(
        slope_steps > 0,
        np.clip(
            (p_minus_q_of_interval - slopes[:-1] * q_of_interval)
            / np.where(slope_steps > 0, slope_steps, 1.0),
            0.0,
            q_of_interval,
        ),
        q_of_interval,
    )
    q_masses = np.zeros(len(interval_edges))
    q_masses[1:] += q_moved_to_upper_edge
    q_masses[:-1] += q_of_interval - q_moved_to_upper_edge
    if interval_edges[0] <= -FARTHEST:
        q_masses[0] += ndtr(interval_edges[0])
    infinite_loss_prob = (
        float(curve.q_masses[-1] + curve.p_minus_q_masses[-1])
        if interval_edges[-1] >= FARTHEST
        else 0.0
    )
    return Pair(q_masses=q_masses, ratios_less_one=slopes, infinite_loss_prob=infinite_loss_prob)


def dominating_pair_of(pairs: list[Pair]) -> Pair:
    """Returns the pair that dominates all pairs in a list and is dominated by every other such pair.

    A single pair is returned as it is. Otherwise the pairs become the children (`dominated_pairs`) of the new pair.
    """
    if len(pairs) == 1:
        return pairs[0]
    corners_of_pairs = [pair.curve_corners for pair in pairs]
    x, y = _upper_hull(
        x=np.concatenate([corners.q_masses for corners in corners_of_pairs]),
        y=np.concatenate([corners.p_minus_q_masses for corners in corners_of_pairs]),
    )
    slopes = np.diff(y) / np.diff(x)
    return Pair(
        q_masses=np.diff(x),
        ratios_less_one=np.maximum(slopes, _SMALLEST_RATIO_LESS_ONE),
        infinite_loss_prob=float(y[0]),
        dominated_pairs=tuple(pairs),
    )


def _upper_hull(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns the corners of the smallest concave function that is nowhere below the points (x, y), by rising x.

    Args:
        x: the first coordinates, in any order, `[num_points]`.
        y: the second coordinates, `[num_points]`.

    Returns:
        The coordinates of the corners, `[num_corners]` each.
    """
    order = np.lexsort((-y, x))
    is_highest = np.append(True, np.diff(x[order]) > 0)  # of the points with the same x
    order = order[is_highest]
    corner_indices = order[lower_hull(x=x[order], y=-y[order])]
    return x[corner_indices], y[corner_indices]


def largest_excess_moment(
    pairs: Sequence[Pair], renyi_orders: FloatArray, mean_shift: float
) -> FloatArray:
    """Returns the largest E_Q[(P/Q)^a] - 1 of several pairs (P, Q) at each order a, rounded up, `[num_orders]`.

    Because E_Q[P/Q] = 1, E[(P/Q)^a] - 1 = E[(P/Q)^a - 1 - a (P/Q - 1)], whose terms are >= 0, so nothing cancels.

    Args:
        pairs: the pairs.
        renyi_orders: the Renyi orders a > 1, `[num_orders]`.
        mean_shift: where a pair has a probability of an infinite loss, it stands for N(mean_shift, 1) and N(0, 1)
            beyond `FARTHEST`, whose moment is a closed form.
    """
    # E[(P/Q)^a] of N(mean_shift, 1) against N(0, 1) beyond FARTHEST is
    # e^(a (a - 1) mean_shift^2 / 2) P(N(a mean_shift, 1) > FARTHEST).
    log_moment = renyi_orders * (renyi_orders - 1) * (mean_shift * mean_shift / 2)
    far_moment = np.exp(log_moment + log_ndtr(renyi_orders * mean_shift - FARTHEST))
    largest_moments = np.zeros_like(renyi_orders)
    for pair in pairs:
        exponents = renyi_orders[:, None] * pair.losses
        powers_less_one = np.expm1(exponents)
        excess_terms = powers_less_one - renyi_orders[:, None] * pair.ratios_less_one
        rounding = _ROUNDING * (np.abs(powers_less_one) + np.abs(exponents))
        # E[P/Q - 1] of a pair above others is a little more than 0, and counts a times.
        surplus = max(float(pair.q_masses @ pair.ratios_less_one) + pair.infinite_loss_prob, 0.0)
        excess_moments_of_pair = (excess_terms + rounding) @ pair.q_masses + renyi_orders * surplus
        if pair.infinite_loss_prob > 0:
            excess_moments_of_pair = excess_moments_of_pair + far_moment
        np.maximum(largest_moments, excess_moments_of_pair, out=largest_moments)
    return largest_moments
