"""The composition step of an event that has many pairs of distributions: the maximum over all pairs, or a little more.

The pairs are covered by a few dominating ones. A pair with a larger loss `up` and a smaller loss `down` dominates, so
no pair of a box costs more than the corner of the box (max up, min down). A box is divided only where its corner
exceeds what single pairs attain (docs/proofs/exact_composition.md).
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from pate.accounting.discrete_pairs import Pair
from pate.accounting.exact_grid import STEP_ROUNDING, CompositionStep, LossGrid, Shift, Shifts
from pate.accounting.exact_pairs import Box, two_point_probabilities
from pate.accounting.winner import WinnerPairs
from pate.array_types import FloatArray, IntArray

# One matrix product computes the expectations of so many pairs at so many points of the grid, so that its windows stay
# in the processor's cache.
_PAIRS_AT_ONCE = 16
_POINTS_AT_ONCE = 4096
# The relative slack of the search in boxes, and of that in a winner's trees.
_BOX_SEARCH_SLACK = 3e-5
_WINNER_SEARCH_SLACK = 1e-4
# At most so many further steps use the cover that a search has found.
_LARGEST_STEPS_PER_COVER = 12

_Node = Box | Pair


def box_step(grid: LossGrid, box: Box, *, negligible_delta: float) -> CompositionStep:
    """Returns the composition step of the two-point pairs in a box; see `exact_steps.composition_step`."""
    return _CoveredStep(
        grid,
        roots=(box,),
        largest_loss=box.largest_loss,
        compute_shifts=_shifts_of_box,
        negligible_delta=negligible_delta,
        relative_search_slack=_BOX_SEARCH_SLACK,
        relative_rounding=STEP_ROUNDING,
        defers_leaves=False,
    )


def winner_step(
    grid: LossGrid, winner_pairs: WinnerPairs, *, negligible_delta: float
) -> CompositionStep:
    """Returns the composition step of a winner, whose pairs are the leaves of a few trees.

    `exact_steps.composition_step` explains the arguments.
    """
    # A pair has many outcomes, whose sum has a rounding error of its own.
    rounding_of_sum = 2 * grid.padding(winner_pairs.largest_loss) * 2.0**-52
    return _CoveredStep(
        grid,
        roots=winner_pairs.roots,
        largest_loss=winner_pairs.largest_loss,
        compute_shifts=_shifts_of_discrete_pair,
        negligible_delta=negligible_delta,
        relative_search_slack=_WINNER_SEARCH_SLACK,
        relative_rounding=STEP_ROUNDING + rounding_of_sum,
        defers_leaves=True,
    )


class _WeightedSums(NamedTuple):
    """The expectations of V(x - loss) under several pairs of distributions, written as one matrix product.

    V(x) is the delta at epsilon = x that the later releases can reach. The number of pairs is S. The product sums W
    windows of the padded values, each of which is V shifted by a number of grid points.
    """

    # The index in the padded values at which each window starts, `[W]`.
    window_starts: IntArray
    # The weight of each window in the expectation of each pair, `[S, W]`.
    weights: FloatArray
    # The probability that leads left of all points, where 1 replaces V as an upper bound, `[S, 1]`.
    prob_beyond_points: FloatArray


class _CoveredStep:
    """A composition step that takes the maximum over all pairs of some trees, or a little more.

    The step maps values V, the deltas that the later releases can reach, to those that include one more release. Leaves
    are pairs of the event. An inner node is a pair that dominates its children (`dominated_pairs`). The search replaces
    a node by its children only where the expectation of the node is above those of the leaves seen so far. The nodes at
    which the search stops cover all trees. Successive steps have similar values V, so several steps use the same cover.
    The first steps differ most, so few of them share a cover.

    Args:
        grid: the grid of the values V.
        roots: the roots of the trees that hold all pairs.
        largest_loss: the largest absolute value of a loss of any pair.
        compute_shifts: returns the shifts of V by all losses of a node's pair.
        negligible_delta: an amount by which the step may raise each value for speed, besides relative amounts.
        relative_search_slack: a node is not divided where its expectation exceeds that of leaves by at most this
            relative amount and `negligible_delta`.
        relative_rounding: the relative amount by which the step raises its values, to cover rounding errors.
        defers_leaves: True computes all leaves that a search reaches together, at its end; suits trees of many leaves.
    """

    def __init__(
        self,
        grid: LossGrid,
        roots: Sequence[_Node],
        *,
        largest_loss: float,
        compute_shifts: Callable[[Any, LossGrid], Shifts],
        negligible_delta: float,
        relative_search_slack: float,
        relative_rounding: float,
        defers_leaves: bool,
    ) -> None:
        self._grid = grid
        self._roots = roots
        self._compute_shifts = compute_shifts
        self._negligible_delta = negligible_delta
        self._relative_search_slack = relative_search_slack
        self._defers_leaves = defers_leaves
        self._num_padding = grid.padding(largest_loss)
        self._rounding_factor = 1 + relative_rounding
        self._cached_shifts: dict[_Node, Shifts] = {}
        # the leaves that the last search reached
        self._leaf_sums: list[_WeightedSums] = []
        # the nodes at which the last search stopped, with these leaves
        self._cover_sums: list[_WeightedSums] = []
        self._num_searches = 0
        self._num_remaining_steps = 0  # of the cover

    def __call__(self, later_deltas: FloatArray) -> FloatArray:
        padded_deltas = self._grid.padded(later_deltas, self._num_padding)
        if self._num_remaining_steps > 0:
            self._num_remaining_steps -= 1
            best = self._largest_expectations(
                weighted_sums=self._cover_sums, padded_deltas=padded_deltas
            )
        else:
            best = self._search(padded_deltas)
            self._num_searches += 1
            # The values V change less from step to step, so a cover lasts longer: for 1, 2, 2, 4, 4, 8, 8, 12, … steps.
            num_steps_of_cover = 2 ** (self._num_searches // 2)
            self._num_remaining_steps = min(num_steps_of_cover, _LARGEST_STEPS_PER_COVER)
        return np.minimum(best * self._rounding_factor, 1.0)

    def _search(self, padded_deltas: FloatArray) -> FloatArray:
        """Searches the trees from their roots, stores the nodes where it stops, and returns the new values V.

        The new values are `[num_points]`. The value at a point is the largest expectation of V(x - loss) of all pairs,
        or a little more.

        Args:
            padded_deltas: the values V on the padded grid.
        """
        # what the leaves seen so far attain, a lower bound on the maximum
        attained = self._largest_expectations(
            weighted_sums=self._leaf_sums, padded_deltas=padded_deltas
        )
        largest_undivided = self._largest_undivided(attained)
        best = attained.copy()
        open_nodes: list[_Node] = [*self._roots]
        shifts_of_inner_nodes: list[Shifts] = []
        shifts_of_leaves: list[Shifts] = []
        while open_nodes:
            node = open_nodes.pop()
            shifts = self._shifts_of(node)
            is_leaf = not node.dominated_pairs
            if is_leaf and self._defers_leaves:
                shifts_of_leaves.append(shifts)
                continue
            # The sum of P(loss) V(x - loss).
            expectations = reduce(
                np.add,
                (
                    self._grid.shifted(padded_deltas, self._num_padding, shift=shift)
                    for shift in shifts
                ),
            )
            if not is_leaf and (expectations > largest_undivided).any():
                open_nodes += node.dominated_pairs
                continue
            np.maximum(best, expectations, out=best)
            if is_leaf:
                shifts_of_leaves.append(shifts)
                np.maximum(attained, expectations, out=attained)
                largest_undivided = self._largest_undivided(attained)
            else:
                shifts_of_inner_nodes.append(shifts)
        self._leaf_sums = self._weighted_sums(shifts_of_leaves)
        self._cover_sums = [*self._weighted_sums(shifts_of_inner_nodes), *self._leaf_sums]
        if self._defers_leaves:
            best = np.maximum(
                best,
                self._largest_expectations(
                    weighted_sums=self._leaf_sums, padded_deltas=padded_deltas
                ),
            )
        return best

    def _largest_undivided(self, attained: FloatArray) -> FloatArray:
        """Returns the largest expectations with which a node is not divided, `[num_points]`.

        Args:
            attained: what the leaves seen so far attain, `[num_points]`.
        """
        return attained * (1 + self._relative_search_slack) + self._negligible_delta

    def _shifts_of(self, node: _Node) -> Shifts:
        """Returns the shifts of V by all privacy losses of a node's pair, from a cache.

        An infinite loss shifts left of all points, where V tends to 1.
        """
        if node not in self._cached_shifts:
            self._cached_shifts[node] = self._compute_shifts(node, self._grid)
        return self._cached_shifts[node]

    def _largest_expectations(
        self, weighted_sums: list[_WeightedSums], padded_deltas: FloatArray
    ) -> FloatArray:
        """Returns the largest expectation of V(x - loss) of all given pairs at each point x, `[num_points]`.

        Args:
            weighted_sums: the expectations as matrix products, for a batch of pairs each.
            padded_deltas: the values V on the padded grid.
        """
        num_points = self._grid.num_points
        # Window i holds the values moved by i - num_padding points.
        windows = sliding_window_view(padded_deltas, num_points)
        largest_expectations = np.zeros(num_points)
        for sums_of_batch in weighted_sums:
            for start in range(0, num_points, _POINTS_AT_ONCE):
                chunk = slice(start, start + _POINTS_AT_ONCE)
                # Of each pair at each point of the chunk.
                expectations = (
                    sums_of_batch.weights @ windows[sums_of_batch.window_starts, chunk]
                    + sums_of_batch.prob_beyond_points
                )
                np.maximum(
                    largest_expectations[chunk],
                    expectations.max(axis=0),
                    out=largest_expectations[chunk],
                )
        return largest_expectations

    def _weighted_sums(self, shifts_of_pairs: Sequence[Shifts]) -> list[_WeightedSums]:
        """Returns the expectations of V(x - loss) under several pairs as matrix products, a batch of pairs in each.

        Pairs that follow each other share most shifts, so a batch needs few windows.

        Args:
            shifts_of_pairs: the shifts by all losses of each pair.
        """
        return [
            self._weighted_sums_of_batch(shifts_of_pairs[start : start + _PAIRS_AT_ONCE])
            for start in range(0, len(shifts_of_pairs), _PAIRS_AT_ONCE)
        ]

    def _weighted_sums_of_batch(self, shifts_of_pairs: Sequence[Shifts]) -> _WeightedSums:
        """Returns the expectations of V(x - loss) under some pairs as one matrix product.

        Args:
            shifts_of_pairs: the shifts of V by all losses of each pair.
        """
        distinct_whole_steps = {
            shift.whole_steps
            for shifts in shifts_of_pairs
            for shift in shifts
            if shift.whole_steps > -self._grid.num_points
        }
        whole_steps_of_windows = sorted(
            distinct_whole_steps | {whole_steps + 1 for whole_steps in distinct_whole_steps}
        )
        window_of_whole_steps = {
            whole_steps: window for window, whole_steps in enumerate(whole_steps_of_windows)
        }
        weights = np.zeros((len(shifts_of_pairs), len(whole_steps_of_windows)))
        prob_beyond_points = np.zeros((len(shifts_of_pairs), 1))
        for index, shifts in enumerate(shifts_of_pairs):
            for shift in shifts:
                if shift.whole_steps <= -self._grid.num_points:  # left of all points V is at most 1
                    prob_beyond_points[index] += shift.lower_point_weight
                else:
                    weights[index, window_of_whole_steps[shift.whole_steps]] += (
                        shift.lower_point_weight
                    )
                    weights[index, window_of_whole_steps[shift.whole_steps + 1]] += (
                        shift.upper_point_weight
                    )
        window_starts = np.array(whole_steps_of_windows, dtype=np.int64) + self._num_padding
        return _WeightedSums(
            window_starts=window_starts,
            weights=weights,
            prob_beyond_points=prob_beyond_points,
        )


def _shifts_of_box(box: Box, grid: LossGrid) -> Shifts:
    """Returns the shifts of a privacy profile by both losses of the pair that dominates a box."""
    up_loss = grid.rounded_outward(box.largest_up_loss)
    down_loss = grid.rounded_outward(box.smallest_down_loss)
    p_up, p_down = two_point_probabilities(up_loss=up_loss, down_loss=down_loss)
    return (
        grid.shift(up_loss, loss_probability=p_up),
        grid.shift(down_loss, loss_probability=p_down),
    )


def _shifts_of_discrete_pair(discrete_pair: Pair, grid: LossGrid) -> Shifts:
    """Returns the shifts of a privacy profile by all losses of a discrete pair; the last is by an infinite loss."""
    p_masses = discrete_pair.q_masses * (1 + discrete_pair.ratios_less_one)
    # A loss keeps its probability. So a loss below 0 is not moved as far as a multiple, which would make V smaller.
    shifts = [
        grid.shift(grid.rounded_outward(loss, to_multiple=loss > 0), loss_probability=p_mass)
        for loss, p_mass in zip(discrete_pair.losses.tolist(), p_masses.tolist(), strict=True)
        if p_mass > 0  # so the loss is above minus infinity
    ]
    by_infinite_loss = Shift(
        whole_steps=-grid.num_points,
        lower_point_weight=discrete_pair.infinite_loss_prob,
        upper_point_weight=0.0,
    )
    shifts.append(by_infinite_loss)
    return tuple(shifts)
