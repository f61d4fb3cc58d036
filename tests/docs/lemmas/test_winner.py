"""Steps of docs/proofs/winner.md."""

import itertools
import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from pate.accounting import WinnerEvent
from pate.accounting.discrete_pairs import TANGENT_THRESHOLDS, Pair, gaussian_curve
from pate.accounting.exact_grid import LossGrid, rounded_spacing
from pate.accounting.exact_pairs import dominating_pairs
from pate.accounting.exact_steps import composition_step
from pate.accounting.winner import (
    MEANS_MINUS_THRESHOLDS,
    RaisedPoints,
    bit_release_pairs,
    cover_of_squares,
    points_of_corners,
    winner_pairs,
    winner_rdp,
)
from pate.accounting.winner_law import (
    bend_of_change,
    bend_of_mass,
    bend_of_mass_of_rest,
    bend_of_rest,
    moved_mass,
)

Array = np.ndarray
Range = tuple[Array, Array]
"""The ends of ranges, `[num_ranges]` each."""
MEANS = (-7.0, -2.2, -1.0, -0.3, 0.2, 0.75, 1.4, 2.0, 3.1, 8.0)
ORDERS = np.array([1.01, 1.5, 2.0, 4.0, 8.0, 20.0, 100.0])


def density(x: float) -> float:
    """Returns the density of the standard normal at x."""
    return math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


@cache
def winner_law(first_mean: float, second_mean: float) -> Array:
    """Returns the probabilities `[3]` that the first count wins, that the second wins, and that another wins.

    The first count has mean `first_mean`, the second `second_mean`, and the others 0, all with unit normal noise. The
    probabilities are computed by adaptive quadrature.
    """

    def win_prob(mean: float, rival_mean: float) -> float:
        def integrand(x: float) -> float:
            return density(x - mean) * float(ndtr(x - rival_mean))

        low = max(0.0, mean - 12)
        high = max(12.0, mean + 12)
        peaks = [peak for peak in (mean, rival_mean) if low < peak < high]
        return float(quad(integrand, low, high, points=peaks, epsabs=0, epsrel=1e-12, limit=300)[0])

    return np.array(
        [
            win_prob(first_mean, rival_mean=second_mean),
            win_prob(second_mean, rival_mean=first_mean),
            float(ndtr(-first_mean) * ndtr(-second_mean)),
        ]
    )


def pairs_of_winner_laws(mean_shift: float, num_moving: int) -> list[tuple[Array, Array]]:
    """Returns the laws of the winner before and after a move, for all means in `MEANS`, both ways round.

    With `num_moving` 1, one count falls, and a law has two outcomes. With 2, a second count rises, and it has three.
    """
    if num_moving == 1:
        pairs = [
            (
                np.array([ndtr(mean), ndtr(-mean)]),
                np.array([ndtr(mean - mean_shift), ndtr(mean_shift - mean)]),
            )
            for mean in MEANS
        ]
    else:
        pairs = [
            (
                winner_law(first_mean=first_mean, second_mean=second_mean),
                winner_law(
                    first_mean=first_mean - mean_shift, second_mean=second_mean + mean_shift
                ),
            )
            for first_mean, second_mean in itertools.product(MEANS, repeat=2)
        ]
    return [*pairs, *((moved_law, law) for law, moved_law in pairs)]


def renyi_divergence(first_law: Array, second_law: Array) -> Array:
    """Returns the Renyi divergence of two laws at each Renyi order of `ORDERS`."""
    support = (first_law > 1e-250) & (second_law > 1e-250)
    log_terms = ORDERS[:, None] * np.log(first_law[support]) - (ORDERS[:, None] - 1) * np.log(
        second_law[support]
    )
    return np.logaddexp.reduce(log_terms, axis=1) / (ORDERS - 1)


@pytest.mark.slow
@pytest.mark.parametrize("num_moving", [1, 2])
@pytest.mark.parametrize("mean_shift", [0.02, 0.3, 1.0])
def test_no_law_costs_more_and_a_price_3_percent_smaller_fails(
    mean_shift: float, num_moving: int
) -> None:
    """The Renyi divergence of each pair of laws of the winner is at most the price.

    The price is at most that of the noisy counts.

    Negative control: for the smallest shift, some pair exceeds 97% of the price at one of the five smallest Renyi
    orders.
    """
    price = winner_rdp(noise_multiplier=1 / mean_shift, num_moving_counts=num_moving, orders=ORDERS)
    pairs = pairs_of_winner_laws(mean_shift, num_moving=num_moving)
    largest_divergence = np.max(
        [renyi_divergence(first_law, second_law) for first_law, second_law in pairs], axis=0
    )
    price_of_noisy_counts = ORDERS * (num_moving * mean_shift * mean_shift / 2)
    assert (largest_divergence <= price * (1 + 1e-9) + 1e-12).all()
    assert (price <= price_of_noisy_counts * (1 + 1e-12)).all()
    if mean_shift == 0.02:
        assert (largest_divergence[:5] > 0.97 * price[:5]).any()
        assert (largest_divergence[:4] > 0.97 * 0.6475 * price_of_noisy_counts[:4]).all()


@pytest.mark.slow
@pytest.mark.parametrize("num_moving", [1, 2])
@pytest.mark.parametrize("mean_shift", [0.02, 0.3])
def test_one_step_is_above_every_law_for_convex_functions(
    mean_shift: float, num_moving: int
) -> None:
    """The composition step of a winner raises a function V to at least what each pair of laws of the winner gives.

    Four V are tried, each a mean of hockey sticks as a function of epsilon. Negative control: for the smallest shift
    and the last V, 97% of this rise is too little for some pair.
    """
    event = WinnerEvent(noise_multiplier=1 / mean_shift, num_moving=num_moving)
    grid = LossGrid(
        first_index=-400, num_points=900, spacing=rounded_spacing(spacing=mean_shift / 14)
    )
    take_step = composition_step(dominating_pairs(event), grid, negligible_delta=1e-18)
    rng = np.random.default_rng(3)
    pairs = pairs_of_winner_laws(mean_shift, num_moving=num_moving)
    inner = slice(150, 700)  # from these points, nothing beyond the grid is reached
    inner_points = grid.points[inner]
    for kinks in (
        np.zeros(1),
        rng.normal(scale=mean_shift, size=3),
        rng.normal(scale=8 * mean_shift, size=40),
        np.linspace(-9, 9, 200) * mean_shift,
    ):

        def mean_stick(epsilons: Array, kinks: Array = kinks) -> Array:
            return np.clip(1 - np.exp(epsilons[..., None] - kinks), 0, None).mean(axis=-1)

        def mean_stick_after(first_law: Array, second_law: Array) -> Array:
            """Returns the mean of V, the mean of hockey sticks, after the loss of one release with these laws."""
            return sum(
                first_prob * mean_stick(inner_points - math.log(first_prob / second_prob))
                for first_prob, second_prob in zip(first_law, second_law, strict=True)
                if first_prob > 1e-18
            )

        before = mean_stick(inner_points)
        after_step = take_step(mean_stick(grid.points))[inner]
        largest_exact = np.max(
            [mean_stick_after(first_law, second_law) for first_law, second_law in pairs], axis=0
        )
        assert (after_step >= largest_exact * (1 - 1e-12) - 1e-15).all()
        if len(kinks) == 200 and mean_shift == 0.02:
            assert (before + 0.97 * (after_step - before) < largest_exact).any()


def mixture(pairs: list[Pair], shares: Array) -> Pair:
    """Returns the pair of a release that draws one of several pairs with these probabilities, and reveals which."""
    return Pair(
        q_masses=np.concatenate(
            [share * pair.q_masses for pair, share in zip(pairs, shares, strict=True)]
        ),
        ratios_less_one=np.concatenate([pair.ratios_less_one for pair in pairs]),
        infinite_loss_prob=float(shares @ [pair.infinite_loss_prob for pair in pairs]),
    )


def lead_over_points(pair: Pair, points: RaisedPoints, shares: Array, bound_shift: float) -> float:
    """Returns the smallest height of a pair's test curve (P over Q) above the points that the proof allows for a law.

    Allowed points lie up to the slack from the interpolated points, and below the tangents that bound all curves.

    Args:
        pair: the pair, which has to dominate the law.
        points: the points of the laws between which is interpolated, with one slack for all laws.
        shares: the share of each of these laws in the interpolation; they sum to 1.
        bound_shift: the distance of two normals, of whose test curve tangents bound all curves.
    """
    interpolated_q = points.q_masses @ shares
    q_slack = points.q_slack[:, 0]
    q_masses = np.concatenate([interpolated_q - q_slack, interpolated_q + q_slack]).clip(0, 1)
    heights = points.p_minus_q_masses @ shares + points.p_minus_q_slack[:, 0]
    tangents = gaussian_curve(TANGENT_THRESHOLDS, mean_shift=bound_shift)
    heights_of_tangents = tangents.p_minus_q_masses[:, None] + tangents.slopes[:, None] * (
        q_masses - tangents.q_masses[:, None]
    )
    allowed_heights = np.minimum(np.tile(heights, 2), heights_of_tangents.min(axis=0))
    return float((np.interp(q_masses, *pair.curve_corners) - allowed_heights).min())


def shares_at(x: float, y: float) -> Array:
    """Returns the share of each corner of a square in the bilinear interpolation at a place of the square."""
    return np.array([(1 - x) * (1 - y), (1 - x) * y, x * (1 - y), x * y])


@pytest.mark.parametrize("mean_shift", [1e-6, 0.02, 0.3, 1.0, 2.0, 3.9])
def test_every_allowed_point_in_a_square_is_below_the_pairs_of_the_square(
    mean_shift: float,
) -> None:
    """In each square of means, the chosen pair has a test curve above all points that the proof allows for a law.

    The pair is a mixture of those of the corners, or in the cells that replace cut squares, one pair. A square is cut
    where a corner's curve is cut off. Negative control: for the two smallest shifts, the mixture of a cut square is too
    low for some of these points.
    """
    cover = cover_of_squares(mean_shift)
    bound_shift = math.sqrt(2) * mean_shift
    places = np.random.default_rng(0).random((5, 2))
    rounding = 1e-14 * mean_shift
    leads_in_cut_squares = []
    for corner, width, indices, is_cut in zip(
        cover.lower_left_corners, cover.widths, cover.corners_of_squares, cover.is_cut, strict=True
    ):
        points = points_of_corners(corner[None], widths=np.array([width]), mean_shift=mean_shift)
        for x, y in places:
            shares = shares_at(x, y)
            dominating_pair = mixture(
                [cover.corner_pairs[index] for index in indices], shares=shares
            )
            lead = lead_over_points(dominating_pair, points.raised, shares, bound_shift=bound_shift)
            if is_cut:
                leads_in_cut_squares.append(lead)
            else:
                assert lead >= -rounding
    if mean_shift <= 0.02:
        assert min(leads_in_cut_squares) < -1e-4 * mean_shift
    for corner, width, dominating_pair in zip(
        cover.cell_corners, cover.cell_widths, cover.cell_pairs, strict=True
    ):
        points = points_of_corners(corner[None], widths=np.array([width]), mean_shift=mean_shift)
        for x, y in places:
            lead = lead_over_points(
                dominating_pair, points.raised, shares_at(x, y), bound_shift=bound_shift
            )
            assert lead >= -rounding


@pytest.mark.parametrize("mean_shift", [1e-6, 0.02, 0.3, 1.0, 3.0])
def test_squares_and_cells_cover_the_region(mean_shift: float) -> None:
    """Each point (a, b) of means of a certain region is in a square that is not cut, or in a cell.

    In the region a and b are at least -1.8, and a + b is at most 2.8. A square is cut where the curve of a corner's
    pair is cut off. Cells are the squares that replace cut ones.
    """
    cover = cover_of_squares(mean_shift)
    rng = np.random.default_rng(1)
    points = rng.uniform(-1.8, 4.6, size=(4000, 2))
    points = points[points.sum(axis=1) <= 2.8]
    lower_left_corners = np.concatenate(
        [cover.lower_left_corners[~cover.is_cut], cover.cell_corners]
    )
    widths = np.concatenate([cover.widths[~cover.is_cut], cover.cell_widths])
    places = (points[:, None] - lower_left_corners) / widths[:, None]
    is_inside = ((places >= -1e-9) & (places <= 1 + 1e-9)).all(axis=2)
    assert is_inside.any(axis=1).all()


@pytest.mark.parametrize("mean_shift", [1e-6, 0.02, 0.3, 1.0, 3.0])
def test_every_bit_is_below_a_mixture_of_two_pairs(mean_shift: float) -> None:
    """For each bit Z > t, the point of its two probabilities is below the curve of a pair or of a mixture of two.

    The bits have t within 2.4 of the mean of Z, and the two are pairs of neighboring thresholds. Negative control: the
    curve of the pair of the nearest threshold alone is below some point.
    """
    pairs = bit_release_pairs(mean_shift)
    num_thresholds = len(MEANS_MINUS_THRESHOLDS)
    pairs_of_parts = pairs[num_thresholds:]
    leads_of_nearest_pair = []
    for mean_minus_threshold in np.linspace(-2.4, 2.4, 400):
        index = int(np.searchsorted(MEANS_MINUS_THRESHOLDS, mean_minus_threshold, side="right")) - 1
        index = min(max(index, 0), num_thresholds - 2)
        lower_end, upper_end = MEANS_MINUS_THRESHOLDS[index : index + 2]
        upper_share = (mean_minus_threshold - lower_end) / (upper_end - lower_end)
        candidates = [
            mixture([*pairs[index : index + 2]], shares=np.array([1 - upper_share, upper_share])),
            *pairs_of_parts,
        ]
        q_mass = float(ndtr(mean_minus_threshold - mean_shift))
        height = float(moved_mass(np.array([mean_minus_threshold]), mean_shift=mean_shift)[0])
        leads = [
            float(np.interp(q_mass, *candidate.curve_corners)) - height for candidate in candidates
        ]
        assert max(leads) >= 0
        nearest_pair = pairs[index + round(upper_share)]
        leads_of_nearest_pair.append(float(np.interp(q_mass, *nearest_pair.curve_corners)) - height)
    assert min(leads_of_nearest_pair) < 0


def leaves(pair: Pair) -> list[Pair]:
    """Returns the leaves of the tree of dominated pairs under a pair of laws."""
    return [leaf for child in pair.dominated_pairs for leaf in leaves(child)] or [pair]


@pytest.mark.parametrize("num_moving", [1, 2])
@pytest.mark.parametrize("noise_multiplier", [0.2501, 0.3, 0.4, 1.0, 50.0, 1e6])
def test_no_pair_loses_probability(noise_multiplier: float, num_moving: int) -> None:
    """In each pair of laws P and Q, P sums to at least 1, with the probability of an infinite loss, and Q to 1."""
    for root in winner_pairs(noise_multiplier, num_moving).roots:
        for pair in leaves(root):
            p_mass = pair.q_masses @ (1 + pair.ratios_less_one) + pair.infinite_loss_prob
            assert p_mass >= 1 - 1e-12
            assert pair.q_masses.sum() == pytest.approx(1, abs=1e-12)
            assert (pair.q_masses >= 0).all()


@pytest.mark.slow
def test_bends_are_bounded() -> None:
    """Second differences of winning probabilities and of their derivatives are at most the proven bounds.

    They are taken at random means in random ranges.
    """
    rng = np.random.default_rng(0)
    root_of_2 = math.sqrt(2)

    def derivative_of_first_prob(first_mean: float, second_mean: float) -> float:
        """Returns the derivative of the first count's win probability as both means move along (1, -1)."""
        change_against_rest = density(first_mean) * ndtr(-second_mean)
        change_against_second = density((first_mean - second_mean) / root_of_2) * ndtr(
            (first_mean + second_mean) / root_of_2
        )
        return float(change_against_rest + root_of_2 * change_against_second)

    def derivative_of_rest_prob(first_mean: float, second_mean: float) -> float:
        """Returns the derivative of the others' win probability as the first and second mean move along (1, -1)."""
        return float(
            -density(first_mean) * ndtr(-second_mean) + ndtr(-first_mean) * density(second_mean)
        )

    def prob_that_first_wins(first_mean: float, second_mean: float) -> float:
        return float(winner_law(first_mean=first_mean, second_mean=second_mean)[0])

    def prob_that_rest_wins(first_mean: float, second_mean: float) -> float:
        return float(winner_law(first_mean=first_mean, second_mean=second_mean)[2])

    def second_differences(
        function_of_means: Callable[[float, float], float],
        first_mean: float,
        second_mean: float,
        step: float,
    ) -> Array:
        """Returns second differences of a function, divided by step^2, along the first and along the second mean."""
        middle = function_of_means(first_mean, second_mean)
        along_first = function_of_means(first_mean + step, second_mean) + function_of_means(
            first_mean - step, second_mean
        )
        along_second = function_of_means(first_mean, second_mean + step) + function_of_means(
            first_mean, second_mean - step
        )
        return np.array([along_first - 2 * middle, along_second - 2 * middle]) / step**2

    def sum_and_difference(
        first_mean_range: Range, second_mean_range: Range
    ) -> tuple[Range, Range]:
        """Returns the ranges of (first - second) / sqrt(2) and (first + second) / sqrt(2)."""
        difference_range = (
            (first_mean_range[0] - second_mean_range[1]) / root_of_2,
            (first_mean_range[1] - second_mean_range[0]) / root_of_2,
        )
        sum_range = (
            (first_mean_range[0] + second_mean_range[0]) / root_of_2,
            (first_mean_range[1] + second_mean_range[1]) / root_of_2,
        )
        return difference_range, sum_range

    for trial in range(400):
        first_low, second_low = rng.uniform(low=-3, high=4, size=2)
        width = rng.uniform(low=0.05, high=0.7)
        first_share, second_share = rng.uniform(size=2)
        first_mean = first_low + width * first_share
        second_mean = second_low + width * second_share
        first_mean_range = (np.array([first_low]), np.array([first_low + width]))
        second_mean_range = (np.array([second_low]), np.array([second_low + width]))
        difference_range, sum_range = sum_and_difference(first_mean_range, second_mean_range)
        bends = second_differences(derivative_of_first_prob, first_mean, second_mean, step=1e-3)
        bound_on_change = bend_of_change(
            first_mean_range, second_mean_range, difference_range, sum_range
        )[0]
        assert np.maximum(-bends, 0).sum() <= bound_on_change + 1e-5
        bends = second_differences(derivative_of_rest_prob, first_mean, second_mean, step=1e-3)
        bound_on_fall = bend_of_rest(first_mean_range, second_mean_range)[0]
        bound_on_rise = bend_of_rest(second_mean_range, first_mean_range)[0]
        assert np.maximum(-bends, 0).sum() <= bound_on_fall + 1e-5
        assert np.maximum(bends, 0).sum() <= bound_on_rise + 1e-5
        if trial % 20 == 0:
            step = 0.05
            first_mean_range = (first_mean_range[0] - step, first_mean_range[1] + step)
            second_mean_range = (second_mean_range[0] - step, second_mean_range[1] + step)
            difference_range, sum_range = sum_and_difference(first_mean_range, second_mean_range)
            bends = second_differences(prob_that_first_wins, first_mean, second_mean, step=step)
            bound_on_prob = bend_of_mass(
                first_mean_range, second_mean_range, difference_range, sum_range
            )[0]
            assert np.abs(bends).sum() <= bound_on_prob + 1e-6
            bends = second_differences(prob_that_rest_wins, first_mean, second_mean, step=step)
            bound_on_rest = bend_of_mass_of_rest(first_mean_range, second_mean_range)[0]
            assert np.abs(bends).sum() <= bound_on_rest + 1e-6
