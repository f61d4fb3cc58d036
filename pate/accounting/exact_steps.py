"""Steps of optimal composition: the worst pair of distributions of an event at every loss.

Between two neighbors, one step is a pair of distributions (P, Q). The neighbors are chosen by an adversary, so an event
is a family of pairs (`exact_pairs`). A step takes V, the delta that the later steps can reach, to

    V'(x) = max over pairs of  sum over outcomes y of  P(y) V(x - log P(y) / Q(y)).

Every step rounds its values up, so the result of all steps is an upper bound (docs/proofs/exact_composition.md).
`covered_step` has the steps of events with many pairs, and `span_step` that of a bounded range.

All products and sums are of numbers >= 0, so one factor covers what rounding may have taken away.
"""

import numpy as np

from pate.accounting.covered_step import box_step, winner_step
from pate.accounting.discretized_loss import discretized_loss
from pate.accounting.exact_grid import STEP_ROUNDING, CompositionStep, LossGrid
from pate.accounting.exact_pairs import Box, Span, SteppedPairs
from pate.accounting.gaussian_pairs import ShiftedMaximum
from pate.accounting.span_step import span_step
from pate.accounting.winner import WinnerPairs
from pate.array_types import FloatArray


def composition_step(
    step_pairs: SteppedPairs, grid: LossGrid, *, negligible_delta: float
) -> CompositionStep:
    """Returns the composition step of one release: a function from values V on a grid to the new values there.

    V(x) is the delta at epsilon = x that the later releases can reach. The new V(x) includes this release. For all
    releases of a `FixedPair` together, `fixed_pair_step` returns the step.

    Args:
        step_pairs: the pairs that dominate the release.
        grid: the grid of the points x.
        negligible_delta: the amount by which the step may raise each value for speed.
    """
    match step_pairs:
        case Box() as box_of_pairs:
            return box_step(grid, box_of_pairs, negligible_delta=negligible_delta)
        case WinnerPairs() as winner_pairs:
            return winner_step(grid, winner_pairs, negligible_delta=negligible_delta)
        case Span() as span:
            return span_step(grid, span_length=span.length)
        case ShiftedMaximum() as gaussian_pair:
            masses, infinite_loss_prob = discretized_loss(
                gaussian_pair,
                spacing=grid.spacing,
                largest_multiple=grid.num_points,
                negligible_mass=negligible_delta,
            )
            return fixed_pair_step(grid, loss_masses=masses, infinite_loss_prob=infinite_loss_prob)


def fixed_pair_step(
    grid: LossGrid, loss_masses: FloatArray, infinite_loss_prob: float
) -> CompositionStep:
    """Returns the composition step of a single pair of distributions, given the distribution of its privacy loss.

    The step maps V, the delta that the later releases can reach, to the expectation of V(x - loss) at each x.

    Args:
        grid: the grid of the values V.
        loss_masses: the probabilities of the losses -n..n times the grid's spacing, `[2 n + 1]`.
        infinite_loss_prob: the probability of an infinite loss.
    """
    num_losses_per_side = len(loss_masses) // 2
    rounding = STEP_ROUNDING + len(loss_masses) * 2.0**-52

    def step(later_deltas: FloatArray) -> FloatArray:
        padded_deltas = grid.padded(deltas=later_deltas, num_padding=num_losses_per_side + 1)
        reachable_deltas = padded_deltas[1 : 1 + 2 * num_losses_per_side + grid.num_points]
        expected_deltas = (
            np.convolve(reachable_deltas, loss_masses, mode="valid") + infinite_loss_prob
        )
        return np.minimum(expected_deltas * (1 + rounding), 1.0)

    return step
