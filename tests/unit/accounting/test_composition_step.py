"""Steps of composition on a grid of privacy losses are close upper bounds; the grid itself rounds up."""

import math

import mpmath
import numpy as np
import pytest

from pate.accounting import OneBitEvent, gaussian_delta
from pate.accounting.exact_grid import LossGrid, rounded_spacing
from pate.accounting.exact_pairs import (
    Box,
    Span,
    SteppedPairs,
    dominating_pairs,
    two_point_probabilities,
)
from pate.accounting.exact_steps import composition_step
from pate.accounting.gaussian_pairs import ShiftedMaximum
from pate.array_types import FloatArray


def deltas_without_later_events(grid: LossGrid) -> FloatArray:
    """Returns max(0, 1 - e^x) at each point x of the grid: the delta at epsilon x if no event follows."""
    return np.asarray(-np.expm1(np.minimum(grid.points, 0.0)))


def deltas_before_event(
    pairs: SteppedPairs, grid: LossGrid, later_deltas: FloatArray
) -> FloatArray:
    """Returns the deltas of one event followed by later events, at each point of the grid.

    `later_deltas` has the deltas of the later events alone, at the same points.
    """
    return composition_step(step_pairs=pairs, grid=grid, negligible_delta=1e-15)(later_deltas)


def gaussian_delta_at(epsilon: float, mu: float = 0.3) -> float:
    """Returns the delta of a Gaussian pair at an epsilon of any sign: convex in e^epsilon, falling from 1 to 0."""
    if epsilon >= 0:
        return gaussian_delta(mu=mu, epsilon=epsilon)
    return -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(mu=mu, epsilon=-epsilon)


def mean_later_delta(up_loss: float, down_loss: float, epsilon: float) -> float:
    """Returns the mean of `gaussian_delta_at(epsilon - loss)` over the losses of one two-point pair.

    The pair has the losses `up_loss` and `down_loss`, with their probabilities under its first distribution.
    """
    up_prob, down_prob = two_point_probabilities(up_loss, down_loss)
    after_up = gaussian_delta_at(epsilon=epsilon - up_loss)
    after_down = gaussian_delta_at(epsilon=epsilon - down_loss)
    return up_prob * after_up + down_prob * after_down


@pytest.mark.slow
@pytest.mark.parametrize("spacing", [0.02, 0.2 / 7, 0.011])
@pytest.mark.parametrize("loss_range", [0.2, 0.015, 1.1])
def test_a_span_step_is_a_close_upper_bound_over_its_pairs(
    spacing: float, loss_range: float
) -> None:
    """One composition step for a span, the pairs of a bounded-range event, is at least the value of each of 198 pairs.

    The step exceeds the best pair's value by at most 1% plus 1e-4, at each of seven losses of the grid.
    """
    grid = LossGrid(first_index=-200, num_points=500, spacing=rounded_spacing(spacing))
    values_after = deltas_before_event(
        pairs=Span(length=loss_range),
        grid=grid,
        later_deltas=np.array([gaussian_delta_at(epsilon=x) for x in grid.points.tolist()]),
    )
    for index in range(150, 260, 18):
        epsilon = float(grid.points[index])
        best = max(
            mean_later_delta(up_loss=t, down_loss=t - loss_range, epsilon=epsilon)
            for t in np.linspace(0, loss_range, 200)[1:-1].tolist()
        )
        assert best * (1 - 1e-12) <= values_after[index] <= best * (1 + 1e-2) + 1e-4


def test_the_bend_between_two_ends_of_a_piece_is_needed() -> None:
    """The best pair of a span has losses between two neighboring points of the grid.

    At loss 0, the delta of later events alone is 0, and so are the values of the pairs at both ends of the span. The
    composition step there is at least the value of the best pair, and at most 1.5 times this value.
    """
    grid = LossGrid(first_index=-100, num_points=300, spacing=rounded_spacing(spacing=0.4))
    values = deltas_without_later_events(grid)
    values_after = deltas_before_event(pairs=Span(length=0.4), grid=grid, later_deltas=values)
    index_of_zero = int(np.flatnonzero(grid.points == 0)[0])
    best = max(
        two_point_probabilities(up_loss=t, down_loss=t - 0.4)[0] * -math.expm1(-t)
        for t in np.linspace(0, 0.4, 400)[1:-1].tolist()
    )
    assert values[index_of_zero] == 0
    assert best <= values_after[index_of_zero] <= 1.5 * best


@pytest.mark.slow
def test_the_step_of_a_box_bounds_every_pair_in_it() -> None:
    """One composition step for a box of pairs (one noisy bit) gives at least the delta with every pair in the box.

    The step exceeds the best pair's delta by at most 0.1% plus 1e-6. The first call of the step splits boxes, and four
    later calls reuse them.
    """
    root_box = dominating_pairs(OneBitEvent(logits=tuple(np.linspace(-3, 3, 40).tolist()), reach=2))
    assert isinstance(root_box, Box)
    grid = LossGrid(first_index=-300, num_points=700, spacing=rounded_spacing(spacing=0.01))
    later_deltas = np.array([gaussian_delta_at(epsilon=x) for x in grid.points.tolist()])
    step = composition_step(step_pairs=root_box, grid=grid, negligible_delta=1e-15)
    # The first call splits boxes, and later calls use the cover.
    deltas_of_calls = [step(later_deltas) for _ in range(5)]
    pending = [root_box]
    pairs = []
    while pending:
        box = pending.pop()
        pending.extend(box.dominated_pairs)
        pairs += [] if box.dominated_pairs else [box]
    for index in range(200, 500, 11):
        best = max(
            mean_later_delta(
                up_loss=pair.largest_up_loss,
                down_loss=pair.smallest_down_loss,
                epsilon=float(grid.points[index]),
            )
            for pair in pairs
        )
        for deltas in deltas_of_calls:
            assert best * (1 - 1e-12) <= deltas[index] <= best * (1 + 1e-3) + 1e-6


@pytest.mark.parametrize("shift", [0.01, 0.4, 2.5])
@pytest.mark.parametrize("cells_per_shift", [3, 40, 900])
def test_a_gaussian_is_never_below_its_closed_form(shift: float, cells_per_shift: int) -> None:
    """One composition step of a Gaussian pair gives a delta between its closed form and 0.01% more."""
    spacing = rounded_spacing(shift / cells_per_shift)
    grid = LossGrid(
        first_index=-8 * cells_per_shift, num_points=18 * cells_per_shift, spacing=spacing
    )
    values_after = deltas_before_event(
        pairs=ShiftedMaximum(num_normals=1, shift_of_maximum=shift),
        grid=grid,
        later_deltas=deltas_without_later_events(grid),
    )
    for multiple in range(0, 6 * cells_per_shift, max(1, cells_per_shift // 3)):
        truth = gaussian_delta(mu=shift, epsilon=multiple * spacing)
        assert (
            truth * (1 - 1e-9)
            <= values_after[multiple - grid.first_index]
            <= truth * (1 + 1e-4) + 1e-13
        )


@pytest.mark.slow
def test_rounding_is_covered_over_a_thousand_steps() -> None:
    """After 1000 composition steps of one pair, four deltas exceed the binomial sums in 60 digits.

    The relative excess is below 1e-12 plus 2 * 2^-46 for each step, twice the factor by which a step rounds up.
    """
    count = 1000
    epsilon = 0.01
    grid = LossGrid(first_index=-1100, num_points=2300, spacing=rounded_spacing(epsilon))
    step = composition_step(
        step_pairs=Box(up_losses=np.array([epsilon]), down_losses=np.array([-epsilon])),
        grid=grid,
        negligible_delta=1e-300,
    )
    deltas = deltas_without_later_events(grid)
    for _ in range(count):
        deltas = step(deltas)
    with mpmath.workdps(60):
        loss = mpmath.mpf(grid.spacing)
        truth_prob = mpmath.exp(loss) / (1 + mpmath.exp(loss))
        for target in (0, 40, 250, 700):
            exact = mpmath.fsum(
                mpmath.binomial(count, k)
                * truth_prob**k
                * (1 - truth_prob) ** (count - k)
                * -mpmath.expm1((target - 2 * k + count) * loss)
                for k in range(count + 1)
                if 2 * k - count > target
            )
            excess = float(deltas[target - grid.first_index] / exact - 1)
            assert 0 < excess < 2 * count * 2.0**-46 + 1e-12


def test_losses_beyond_the_grid_count_as_infinite() -> None:
    """For a pair of losses 50 and -0.3 on a grid that ends at 1.9, the last delta is at least the probability of 50.

    For losses far beyond the grid, of a two-point pair and of a Gaussian, every delta is 1.
    """
    grid = LossGrid(first_index=-10, num_points=30, spacing=rounded_spacing(spacing=0.1))
    first, _ = two_point_probabilities(up_loss=50.0, down_loss=-0.3)
    values_after = deltas_before_event(
        pairs=Box(up_losses=np.array([50.0]), down_losses=np.array([-0.3])),
        grid=grid,
        later_deltas=deltas_without_later_events(grid),
    )
    assert values_after[-1] >= first * (1 - 1e-15)
    assert deltas_before_event(
        pairs=Box(up_losses=np.array([1e305]), down_losses=np.array([-1e305])),
        grid=grid,
        later_deltas=deltas_without_later_events(grid),
    ) == pytest.approx(1.0)
    assert (
        deltas_before_event(
            pairs=ShiftedMaximum(num_normals=1, shift_of_maximum=1e4),
            grid=grid,
            later_deltas=deltas_without_later_events(grid),
        )
        == 1
    ).all()


GRID = LossGrid(first_index=-50, num_points=200, spacing=rounded_spacing(spacing=0.037))


@pytest.mark.parametrize("loss", [7.2, 7.3627, 7.37, 7.3999, 7.4, -7.37, -7.4])
def test_a_shift_as_wide_as_the_grid_leaves_no_part_out(loss: float) -> None:
    """`LossGrid.shifted` moves the function max(0, 1 - exp(x)) by a loss about as wide as the grid, with weight 0.5.

    The result is at least the true shifted function at every point, and at most 0.5. The grid is
    7.4 wide, and its last cell begins at 7.363.
    """
    deltas = np.maximum(-np.expm1(GRID.points), 0)
    num_padding = GRID.padding(largest_loss=abs(loss))
    shifted_deltas = GRID.shifted(
        GRID.padded(deltas=deltas, num_padding=num_padding),
        num_padding=num_padding,
        shift=GRID.shift(loss, loss_probability=0.5),
    )
    assert (shifted_deltas >= 0.5 * np.maximum(-np.expm1(GRID.points - loss), 0) - 1e-15).all()
    assert (shifted_deltas <= 0.5).all()
