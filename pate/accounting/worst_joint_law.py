"""The largest divergence of a gap selection and its test between neighbors, bounded by linear programs.

A query selects one of n candidates, which are the gaps between its sorted vote counts, and then tests the selected gap.
The exponential mechanism selects: the probability of a candidate is proportional to its *selection weight*, which grows
with its gap. The test passes or *refuses*. A candidate is described by its *type*: its gap, in 0..T for T teachers, and
the difference of its gap between neighbors, called its move. A *law* of the query is the joint distribution of the
selected type and the test's result. With P and Q the laws on two neighbors, the divergence is the sum of P f(Q / P)
over all outcomes, for a convex f >= 0 with f(1) = 0. The divergence is linear in the law, except for two numbers:

    growth      The factor by which the sum of all selection weights grows from the first neighbor to the second.
    refusals    The factor by which the probability of a refusal grows.

If both numbers are given, the largest divergence is a linear program over laws. Its constraints are that the gaps sum
to at most T, and that the moves are limited. The plane of the two numbers is covered by rectangles, with such
programs at two corners, its smallest and its largest growth. The bound for a rectangle is at most the larger bound of
both corners, plus a bound on the error of linear interpolation between them (docs/proofs/joint_law.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from pate.accounting.events import SelectThenTestEvent
from pate.accounting.linear_programs import LinearPrograms, best_multipliers
from pate.accounting.special import expit
from pate.array_types import FloatArray, IntArray

Divergence = Callable[[FloatArray], FloatArray]
"""A convex function f >= 0 of Q / P, 0 at 1: the amount that an outcome adds per mass under P."""

# The rounding error of a logarithm, and of each of about eight steps to a ratio.
_LOG_ROUNDING = 2.0**-50
# The indices of the terms that the values and rows of all programs are sums of (`LinearPrograms.shared_terms`).
_REFUSALS = 0  # the probability of a refusal before the move
_MOVED_WEIGHTS = 1  # the factor by which the move changes the selection weight
_MOVED_REFUSALS = 2  # this factor times the probability of a refusal after the move
_ONE = 3
_LIMIT_TERMS = slice(4, 7)
_NUM_TERMS = 7
# The indices of the values and of the six rows of each program (`LinearPrograms.term_weights`): the moved weights sum
# to 1 again; the three limits of the types hold; the growth of refusals is at least the smallest one of the corner, and
# at most its largest one.
_VALUES = 0
_SUM = 1
_LIMIT_ROWS = slice(2, 5)
_SMALLEST_REFUSALS = 5
_LARGEST_REFUSALS = 6
_NUM_ROWS = 6
# The corners of the first cover, in the units of `_GrowthCorner`.
_LOG_WEIGHT_GROWTHS = (-1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0)
_LOG_REFUSAL_GROWTHS = (-math.inf, -1.25, -0.75, -0.3, 0.0, 0.3, 0.75, 1.25, math.inf)
# A rectangle with unbounded refusals is divided by refusals where its growths differ by at most this.
_WIDEST_LOG_WEIGHT_GROWTHS = 0.3
# Such a rectangle is divided at so many times its finite end.
_LOG_REFUSAL_GROWTH_RATIO = 1.6
# Such a rectangle is no longer divided by refusals where its finite end is farther from 0 than this.
_FAR_OUT = 8.0
# A cover is divided at most so often.
_NUM_HALVINGS = 10
# A cover with more rectangles is not divided.
_LARGEST_NUM_RECTANGLES = 300
# A bound is close enough where it exceeds the largest optimum of a program by at most this factor.
_CLOSE_BOUND = 1.01
# The programs start with about so many types.
_NUM_TYPES_AT_FIRST = 80
# Further types are added to the programs at most so often.
_LARGEST_NUM_ROUNDS = 8
# So many types, of all programs together, are computed at a time: products so small need one thread.
_TYPES_AT_ONCE = 36_000
# Added to the divergence: more than the rounding error of f near 1.
_DIVERGENCE_ROUNDING = 1e-12


class _GrowthCorner(NamedTuple):
    """A corner of the cover of all joint laws of a gap selection and its test: one growth, and an interval of refusals.

    From one neighbor to the other, the sum of all selection weights grows by the factor "growth", and the probability
    that the test refuses grows by the factor "refusals". A move is the difference of one gap between neighbors. Let F
    be the largest factor by which a move changes a selection weight. The number x in a field stands for the factor F^x.
    """

    smallest_log_refusal_growth: float
    largest_log_refusal_growth: float
    log_weight_growth: float


class _GrowthRectangle(NamedTuple):
    """A part of the cover of all joint laws that has one bound: an interval of refusals and one of growths.

    `_GrowthCorner` explains both numbers and their unit.
    """

    smallest_log_refusal_growth: float
    largest_log_refusal_growth: float
    smallest_log_weight_growth: float
    largest_log_weight_growth: float


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class GapTypes:
    """All K types of a candidate, with the selection weight and the test's probabilities of each type.

    A candidate is one of the n gaps that a query may select and then test. Its type is its gap, in 0..T, and its move:
    the difference of the gap between neighbors. A law is the joint distribution of the selected type and the test's
    result. Laws are constrained: the n gaps sum to at most T, and their moves sum to at most the largest move of one
    gap. Where both the gap and the moved gap are at most the largest move, the set that the gap separates may differ
    between the neighbors. For that case there is a second type with the same gap and move, whose test always refuses.

    Attributes:
        largest_log_factor: the logarithm of the largest factor by which a move changes the selection weight of a
            candidate.
        rounding: a bound on the error of the logarithm of a ratio of masses before and after a move.
        moved_factors: the factor by which the move changes the selection weight, `[K]`.
        pass_probs: the probability that the test passes before the move, `[K]`.
        moved_pass_probs: the probability that the test passes after the move, `[K]`.
        refusal_probs: the probability of a refusal before the move, 1 - `pass_probs` with all its digits, `[K]`.
        moved_refusal_probs: the probability of a refusal after the move, `[K]`.
        constraint_rows: the constraints on laws: the mean of each row is at most 0 in every law, `[3, K]`.
    """

    largest_log_factor: float
    rounding: float
    moved_factors: FloatArray
    pass_probs: FloatArray
    moved_pass_probs: FloatArray
    refusal_probs: FloatArray
    moved_refusal_probs: FloatArray
    constraint_rows: FloatArray

    @classmethod
    @lru_cache(maxsize=32)  # needed again at each order
    def from_event(cls, event: SelectThenTestEvent) -> Self:
        """Returns the types of the gaps that a query may select and test, from a cache.

        Args:
            event: the price of the query.
        """
        pass_logits_by_gap = np.array(event.bit.logits)
        reach = event.bit.reach
        num_teachers = event.num_teachers
        largest_log_factor = event.selection.epsilon / 2
        gap_grid, move_grid = np.meshgrid(np.arange(num_teachers + 1), np.arange(-reach, reach + 1))
        moved_grid = gap_grid + move_grid
        is_possible = (moved_grid >= 0) & (moved_grid <= num_teachers)
        gaps_of_types = gap_grid[is_possible]
        gap_moves_of_types = move_grid[is_possible]
        # Gaps beyond the table of log odds pass like its last gap.
        last_gap_of_table = len(pass_logits_by_gap) - 1
        pass_logits_before_move = pass_logits_by_gap[np.minimum(gaps_of_types, last_gap_of_table)]
        pass_logits_after_move = pass_logits_by_gap[
            np.minimum(gaps_of_types + gap_moves_of_types, last_gap_of_table)
        ]
        is_finite = np.isfinite(pass_logits_before_move) & np.isfinite(pass_logits_after_move)
        largest_logit_change = float(
            np.abs(pass_logits_after_move[is_finite] - pass_logits_before_move[is_finite]).max(
                initial=0.0
            )
        )
        # Where a small gap changes the chosen set itself, the test refuses but for its failure probability.
        type_has_other_set = (gaps_of_types <= reach) & (
            gaps_of_types + gap_moves_of_types <= reach
        )
        pass_logits_of_refusing_types = np.full(type_has_other_set.sum(), -np.inf)
        pass_logits_before_move = np.append(pass_logits_before_move, pass_logits_of_refusing_types)
        pass_logits_after_move = np.append(pass_logits_after_move, pass_logits_of_refusing_types)
        gaps_of_types = np.append(gaps_of_types, gaps_of_types[type_has_other_set])
        gap_moves_of_types = np.append(gap_moves_of_types, gap_moves_of_types[type_has_other_set])
        # The mean gap is at most T / n, and the mean move at most reach / n either way, before the weights.
        mean_move = reach / event.num_candidates
        constraint_rows = np.stack(
            [
                gaps_of_types * event.num_candidates / num_teachers - 1,
                gap_moves_of_types - mean_move,
                -gap_moves_of_types - mean_move,
            ]
        )
        weighted_constraints_of_types = (
            np.exp(-largest_log_factor / reach * gaps_of_types) * constraint_rows
        )
        return cls(
            largest_log_factor=largest_log_factor,
            rounding=_LOG_ROUNDING * (8 + 2 * largest_log_factor + largest_logit_change),
            moved_factors=np.exp(largest_log_factor / reach * gap_moves_of_types),
            pass_probs=expit(pass_logits_before_move),
            moved_pass_probs=expit(pass_logits_after_move),
            refusal_probs=expit(-pass_logits_before_move),
            moved_refusal_probs=expit(-pass_logits_after_move),
            constraint_rows=weighted_constraints_of_types
            / np.abs(weighted_constraints_of_types).max(axis=1, keepdims=True),
        )


def largest_divergence(gap_types: GapTypes, divergence_function: Divergence) -> float:
    """Returns an upper bound on the divergence of one query between any two neighbors.

    With P and Q the joint laws of the selected gap and the test's result on both neighbors, the divergence is the sum
    of P f(Q / P) over all outcomes. All laws are covered by rectangles (`_GrowthRectangle`). A rectangle is divided
    while its bound is more than 1% above the largest optimum of a program (`_CornerPrograms`), at most ten times, and
    not once there are more than 300 rectangles.

    Args:
        gap_types: the types of the gaps that may be selected.
        divergence_function: a convex function f >= 0 with f(1) = 0.
    """
    with np.errstate(all="ignore"):  # what double precision cannot hold becomes infinite
        programs = _CornerPrograms(gap_types=gap_types, divergence_function=divergence_function)
        first_growth_rectangles = [
            _GrowthRectangle(
                smallest_log_refusal_growth=smallest_log_refusal_growth,
                largest_log_refusal_growth=largest_log_refusal_growth,
                smallest_log_weight_growth=smallest_log_weight_growth,
                largest_log_weight_growth=largest_log_weight_growth,
            )
            for smallest_log_refusal_growth, largest_log_refusal_growth in pairwise(
                _LOG_REFUSAL_GROWTHS
            )
            for smallest_log_weight_growth, largest_log_weight_growth in pairwise(
                _LOG_WEIGHT_GROWTHS
            )
        ]
        bound_of_rectangle = programs.bounds(rectangles=first_growth_rectangles)
        for _ in range(_NUM_HALVINGS):
            close_bound = _CLOSE_BOUND * programs.attained_divergence
            loose_rectangles = [
                rectangle for rectangle, bound in bound_of_rectangle.items() if bound > close_bound
            ]
            halves_of_rectangles = [
                half for rectangle in loose_rectangles for half in _halves(rectangle)
            ]
            if not halves_of_rectangles or len(bound_of_rectangle) > _LARGEST_NUM_RECTANGLES:
                break
            bound_of_close_rectangle = {
                rectangle: bound
                for rectangle, bound in bound_of_rectangle.items()
                if bound <= close_bound
            }
            bound_of_rectangle = bound_of_close_rectangle | programs.bounds(
                rectangles=halves_of_rectangles
            )
        return max(bound_of_rectangle.values()) + _DIVERGENCE_ROUNDING


def _halves(rectangle: _GrowthRectangle) -> tuple[_GrowthRectangle, _GrowthRectangle]:
    """Divides a rectangle of growths and refusals (`_GrowthCorner`) into two parts, and returns both.

    The interval of growths is cut in its middle, with one exception. Suppose that one end of the interval of refusals
    is infinite, the other end is at most 8 from 0, and the interval of growths is at most 0.3 wide. Then the interval
    of refusals is cut at 1.6 times its finite end.
    """
    smallest_log_refusal_growth = rectangle.smallest_log_refusal_growth
    largest_log_refusal_growth = rectangle.largest_log_refusal_growth
    smallest_log_weight_growth = rectangle.smallest_log_weight_growth
    largest_log_weight_growth = rectangle.largest_log_weight_growth
    finite_end = (
        smallest_log_refusal_growth
        if math.isinf(largest_log_refusal_growth)
        else largest_log_refusal_growth
    )
    if (
        largest_log_weight_growth - smallest_log_weight_growth > _WIDEST_LOG_WEIGHT_GROWTHS
        or math.isfinite(largest_log_refusal_growth - smallest_log_refusal_growth)
        or abs(finite_end) > _FAR_OUT
    ):
        middle_log_weight_growth = (smallest_log_weight_growth + largest_log_weight_growth) / 2
        return (
            rectangle._replace(largest_log_weight_growth=middle_log_weight_growth),
            rectangle._replace(smallest_log_weight_growth=middle_log_weight_growth),
        )
    middle_log_refusal_growth = _LOG_REFUSAL_GROWTH_RATIO * finite_end
    return (
        rectangle._replace(largest_log_refusal_growth=middle_log_refusal_growth),
        rectangle._replace(smallest_log_refusal_growth=middle_log_refusal_growth),
    )


class _CornerPrograms:
    """The linear programs at all corners (`_GrowthCorner`) that were needed so far, with their solutions.

    The program at a corner bounds the divergence of all laws with the growth and the refusals of this corner. It has
    one variable for each type (`GapTypes`). The programs are solved over a subset of the types. A type is added
    to the subset where a solution over the subset does not give a close bound over all types (column generation).

    Args:
        gap_types: the types of the gaps that a query may select.
        divergence_function: the convex function f of `largest_divergence`.
    """

    def __init__(self, gap_types: GapTypes, divergence_function: Divergence) -> None:
        self._gap_types = gap_types
        self._divergence_function = divergence_function
        # the factors by which the move changes a type's weight, and its refusals, `[2, K]`
        self._moved_factors_of_types = np.stack(
            [
                gap_types.moved_factors,
                gap_types.moved_factors * gap_types.moved_refusal_probs,
            ]
        )
        self._shared_terms_of_types = np.stack(
            [
                gap_types.refusal_probs,
                *self._moved_factors_of_types,
                np.ones_like(gap_types.refusal_probs),
                *gap_types.constraint_rows,
            ]
        )
        self._values_at_growth = cache(self._compute_values_at_growth)
        # the indices of the types with each kind of move
        self._type_indices_of_moves = [
            np.flatnonzero(gap_types.moved_factors == factor)
            for factor in sorted(set(gap_types.moved_factors.tolist()))
        ]
        stride = max(1, len(gap_types.moved_factors) // _NUM_TYPES_AT_FIRST)
        # the types over which the programs are solved, `[K]`
        self._is_included = np.arange(len(gap_types.moved_factors)) % stride == 0
        # the largest value where refusals are limited: no finer growths bring a bound below it
        self.attained_divergence = 0.0
        # All arrays below have one entry for each of the C corners, at this index.
        self._index_of_corner: dict[_GrowthCorner, int] = {}
        # the factor on the moved weights that makes their sum 1 again, `[C]`
        self._rescalings_of_moved_weights = np.zeros(0)
        # whether refusals are limited from below and from above, `[C, 2]`
        self._is_corner_limited_below_and_above = np.zeros((0, 2), dtype=bool)
        # the fields of `LinearPrograms` with the same names
        self._term_weights = np.zeros((0, 1 + _NUM_ROWS, _NUM_TERMS))
        self._magnitude_bounds = np.zeros((0, 1 + _NUM_ROWS))
        self._added_values: list[FloatArray] = []
        # the best multipliers so far, `[C, R]`, and the upper bounds that they give, `[C]`
        self._row_multipliers = np.zeros((0, _NUM_ROWS))
        self._divergence_bounds = np.zeros(0)

    def bounds(self, rectangles: list[_GrowthRectangle]) -> dict[_GrowthRectangle, float]:
        """Returns, by rectangle, an upper bound on the divergence of all laws whose growth and refusals lie in it."""
        corners_of_rectangles = [
            (
                _GrowthCorner(
                    smallest_log_refusal_growth=rectangle.smallest_log_refusal_growth,
                    largest_log_refusal_growth=rectangle.largest_log_refusal_growth,
                    log_weight_growth=rectangle.smallest_log_weight_growth,
                ),
                _GrowthCorner(
                    smallest_log_refusal_growth=rectangle.smallest_log_refusal_growth,
                    largest_log_refusal_growth=rectangle.largest_log_refusal_growth,
                    log_weight_growth=rectangle.largest_log_weight_growth,
                ),
            )
            for rectangle in rectangles
        ]
        self._solve_new(corner for corners in corners_of_rectangles for corner in corners)
        corner_indices_of_rectangles = np.array(
            [
                [self._index_of_corner[corner] for corner in corners]
                for corners in corners_of_rectangles
            ]
        )
        first_corner_indices, second_corner_indices = corner_indices_of_rectangles.T
        # The multipliers may change linearly from one corner to the other. Between the corners the bound then exceeds
        # the larger bound of both by at most a quarter of the bend.
        multiplier_change = (
            self._row_multipliers[second_corner_indices]
            - self._row_multipliers[first_corner_indices]
        )
        # The values come before the rows and have no multiplier, so that of a row is one place further to the left.
        change_of_sum_multipliers = multiplier_change[:, _SUM - 1]
        change_of_refusal_multipliers = (
            multiplier_change[:, _LARGEST_REFUSALS - 1]
            - multiplier_change[:, _SMALLEST_REFUSALS - 1]
        )
        change_of_rescalings = (
            self._rescalings_of_moved_weights[second_corner_indices]
            - self._rescalings_of_moved_weights[first_corner_indices]
        )
        bend_weights_of_rectangles = (
            np.column_stack([change_of_sum_multipliers, change_of_refusal_multipliers])
            * change_of_rescalings[:, None]
        )
        bends = np.concatenate(
            [
                (bend_weights_of_rectangles[batch] @ self._moved_factors_of_types).max(axis=1)
                for batch in self._batches(len(bend_weights_of_rectangles))
            ]
        )
        rectangle_bounds = (
            np.maximum(
                self._divergence_bounds[first_corner_indices],
                self._divergence_bounds[second_corner_indices],
            )
            + np.maximum(bends, 0.0) / 4
        )
        # Or both corners have the multipliers of one of them. Then the larger bound of both holds between them, too.
        loose_rectangle_indices = np.flatnonzero(
            ~(rectangle_bounds <= _CLOSE_BOUND * self.attained_divergence)
        )
        for chosen_corner_indices, other_corner_indices in (
            (
                first_corner_indices[loose_rectangle_indices],
                second_corner_indices[loose_rectangle_indices],
            ),
            (
                second_corner_indices[loose_rectangle_indices],
                first_corner_indices[loose_rectangle_indices],
            ),
        ):
            for batch, bounds_at_other_corners, _ in self._evaluated(
                program_indices=other_corner_indices,
                row_multipliers=self._row_multipliers[chosen_corner_indices],
            ):
                bounds_with_chosen_multipliers = np.maximum(
                    self._divergence_bounds[chosen_corner_indices[batch]], bounds_at_other_corners
                )
                rectangle_bounds[loose_rectangle_indices[batch]] = np.fmin(
                    rectangle_bounds[loose_rectangle_indices[batch]], bounds_with_chosen_multipliers
                )
        return dict(zip(rectangles, rectangle_bounds.tolist(), strict=True))

    def _solve_new(self, corners: Iterable[_GrowthCorner]) -> None:
        """Creates and solves the linear programs at those of the given corners that have no program yet."""
        num_known = len(self._index_of_corner)
        new_corners = [
            corner for corner in dict.fromkeys(corners) if corner not in self._index_of_corner
        ]
        if new_corners:
            self._index_of_corner |= {
                corner: num_known + number for number, corner in enumerate(new_corners)
            }
            self._append_programs(new_corners=new_corners)
        unsolved_program_indices = np.arange(num_known, len(self._index_of_corner))
        for _ in range(_LARGEST_NUM_ROUNDS):
            if unsolved_program_indices.size == 0:
                break
            unsolved_program_indices = self._solve(program_indices=unsolved_program_indices)

    def _solve(self, program_indices: IntArray) -> IntArray:
        """Solves the programs at some corners over a subset of the types, and stores multipliers that improve a bound.

        The bounds hold over all types. Types that a close bound needs are added to the subset.

        Args:
            program_indices: the indices of the programs, which are those of their corners, `[num_corners]`.

        Returns:
            The indices of the programs for which types were added, and which have to be solved again.
        """
        is_corner_limited_below_and_above = self._is_corner_limited_below_and_above[program_indices]
        linear_programs = self._programs(
            program_indices, type_indices=np.flatnonzero(self._is_included)
        )
        row_multipliers, attained_divergences = best_multipliers(linear_programs)
        # The last two multipliers are those of the rows on refusals; a row without a limit has none.
        row_multipliers[:, -2:] *= is_corner_limited_below_and_above
        attained_divergences_in_limits = attained_divergences[
            is_corner_limited_below_and_above.all(axis=1)
        ]
        self.attained_divergence = max(
            self.attained_divergence, float(attained_divergences_in_limits.max(initial=0.0))
        )
        close_bounds = _CLOSE_BOUND * np.maximum(attained_divergences, self.attained_divergence)
        is_included_now = self._is_included.copy()
        program_indices_with_new_types = []
        for batch, divergence_bounds, remainders_by_corner_and_type in self._evaluated(
            program_indices, row_multipliers
        ):
            batch_program_indices = program_indices[batch]
            is_better = divergence_bounds < self._divergence_bounds[batch_program_indices]
            self._row_multipliers[batch_program_indices[is_better]] = row_multipliers[batch][
                is_better
            ]
            self._divergence_bounds[batch_program_indices[is_better]] = divergence_bounds[is_better]
            loose_positions_in_batch = np.flatnonzero(~(divergence_bounds <= close_bounds[batch]))
            # for each kind of move, the type with the largest remainder
            peak_type_indices = np.column_stack(
                [
                    indices_of_types[
                        remainders_by_corner_and_type[
                            loose_positions_in_batch[:, None], indices_of_types
                        ].argmax(axis=1)
                    ]
                    for indices_of_types in self._type_indices_of_moves
                ]
            )
            peak_exceeds = (
                remainders_by_corner_and_type[loose_positions_in_batch[:, None], peak_type_indices]
                > attained_divergences[batch][loose_positions_in_batch, None]
            )
            is_new = peak_exceeds & ~self._is_included[peak_type_indices]
            is_included_now[peak_type_indices[is_new]] = True
            program_indices_with_new_types.append(
                batch_program_indices[loose_positions_in_batch[is_new.any(axis=1)]]
            )
        self._is_included = is_included_now
        return np.concatenate(program_indices_with_new_types)

    def _evaluated(
        self, program_indices: IntArray, row_multipliers: FloatArray
    ) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Yields, for each batch of corners, its slice, the bounds, `[b]`, and the remainders, `[b, K]`.

        The methods `bounds` and `remainders` of `LinearPrograms` return both, over all K types. The batch has b
        corners.

        Args:
            program_indices: the indices of the programs, which are those of their corners, `[num_corners]`.
            row_multipliers: the multipliers of the rows at each corner, `[num_corners, R]`.
        """
        for batch in self._batches(len(program_indices)):
            linear_programs = self._programs(program_indices[batch])
            remainders_by_corner_and_type = linear_programs.remainders(row_multipliers[batch])
            yield (
                batch,
                linear_programs.bounds(row_multipliers[batch], remainders_by_corner_and_type),
                remainders_by_corner_and_type,
            )

    def _batches(self, num_items: int) -> list[slice]:
        """Returns slices that divide `num_items` corners into batches, so that arrays over all types stay small."""
        num_types = self._moved_factors_of_types.shape[1]
        batch_size = max(1, _TYPES_AT_ONCE // num_types)
        return [slice(start, start + batch_size) for start in range(0, num_items, batch_size)]

    def _programs(
        self, program_indices: IntArray, type_indices: IntArray | slice = slice(None)
    ) -> LinearPrograms:
        """Returns the linear programs at corners, over some of the types.

        Args:
            program_indices: the indices of the programs, which are those of their corners, `[num_corners]`.
            type_indices: the indices of the types; by default all types.
        """
        added_values = np.stack(
            [self._added_values[index][type_indices] for index in program_indices.tolist()]
        )
        return LinearPrograms(
            shared_terms=self._shared_terms_of_types[:, type_indices],
            term_weights=self._term_weights[program_indices],
            magnitude_bounds=self._magnitude_bounds[program_indices],
            added_values=added_values,
        )

    def _append_programs(self, new_corners: list[_GrowthCorner]) -> None:
        """Creates the linear programs at new corners, and appends them, without solutions, to this object's arrays."""
        smallest_log_refusal_growths, largest_log_refusal_growths, log_weight_growths = np.array(
            new_corners
        ).T
        smallest_refusal_growths = np.exp(
            self._gap_types.largest_log_factor * smallest_log_refusal_growths
        )
        largest_refusal_growths = np.exp(
            self._gap_types.largest_log_factor * largest_log_refusal_growths
        )
        rescalings_of_moved_weights = np.exp(
            self._gap_types.largest_log_factor * -log_weight_growths
        )
        is_corner_limited_below_and_above = np.column_stack(
            [smallest_refusal_growths > 0, largest_refusal_growths < np.inf]
        )
        # Refusals add at most the chord of f between both ratios, where both ends are finite.
        divergences_at_smallest_growth, divergences_at_largest_growth = self._divergence_function(
            np.stack([smallest_refusal_growths, largest_refusal_growths])
        )
        corner_has_refusal_chord = (
            is_corner_limited_below_and_above.all(axis=1)
            & np.isfinite(divergences_at_smallest_growth)
            & np.isfinite(divergences_at_largest_growth)
        )
        chord_slopes = np.where(
            corner_has_refusal_chord,
            (divergences_at_largest_growth - divergences_at_smallest_growth)
            / (largest_refusal_growths - smallest_refusal_growths),
            0.0,
        )
        added_values = [
            self._values_at_growth(log_weight_growth, has_refusal_chord=has_refusal_chord)
            for log_weight_growth, has_refusal_chord in zip(
                log_weight_growths.tolist(), corner_has_refusal_chord.tolist(), strict=True
            )
        ]
        term_weights = np.zeros((len(new_corners), 1 + _NUM_ROWS, _NUM_TERMS))
        term_weights[:, _VALUES, _REFUSALS] = np.where(
            corner_has_refusal_chord,
            divergences_at_smallest_growth - chord_slopes * smallest_refusal_growths,
            0.0,
        )
        term_weights[:, _VALUES, _MOVED_REFUSALS] = chord_slopes * rescalings_of_moved_weights
        # The moved weights, rescaled, sum to 1, and the limits of the types hold.
        term_weights[:, _SUM, _MOVED_WEIGHTS] = rescalings_of_moved_weights
        term_weights[:, _SUM, _ONE] = -1
        term_weights[:, _LIMIT_ROWS, _LIMIT_TERMS] = np.eye(3)
        # The moved refusals, rescaled, are at least smallest_refusal_growths * refusals, and at most
        # largest_refusal_growths * refusals.
        is_corner_limited_below, is_corner_limited_above = is_corner_limited_below_and_above.T
        term_weights[:, _SMALLEST_REFUSALS, _REFUSALS] = np.where(
            is_corner_limited_below, smallest_refusal_growths, 0.0
        )
        term_weights[:, _SMALLEST_REFUSALS, _MOVED_REFUSALS] = np.where(
            is_corner_limited_below, -rescalings_of_moved_weights, 0.0
        )
        term_weights[:, _LARGEST_REFUSALS, _REFUSALS] = np.where(
            is_corner_limited_above, -largest_refusal_growths, 0.0
        )
        term_weights[:, _LARGEST_REFUSALS, _MOVED_REFUSALS] = np.where(
            is_corner_limited_above, rescalings_of_moved_weights, 0.0
        )
        magnitude_bounds = np.abs(term_weights) @ np.abs(self._shared_terms_of_types).max(axis=1)
        largest_added_values = [np.abs(type_values).max() for type_values in added_values]
        magnitude_bounds[:, _VALUES] += (
            np.where(
                corner_has_refusal_chord, 2 * np.abs(chord_slopes * smallest_refusal_growths), 0.0
            )
            + largest_added_values
        )
        self._rescalings_of_moved_weights = np.append(
            self._rescalings_of_moved_weights, rescalings_of_moved_weights
        )
        self._is_corner_limited_below_and_above = np.append(
            self._is_corner_limited_below_and_above, is_corner_limited_below_and_above, axis=0
        )
        self._term_weights = np.append(self._term_weights, term_weights, axis=0)
        self._magnitude_bounds = np.append(self._magnitude_bounds, magnitude_bounds, axis=0)
        self._added_values += added_values
        self._row_multipliers = np.append(
            self._row_multipliers, np.zeros((len(new_corners), _NUM_ROWS)), axis=0
        )
        self._divergence_bounds = np.append(
            self._divergence_bounds, np.full(len(new_corners), np.inf)
        )

    def _compute_values_at_growth(
        self, log_weight_growth: float, has_refusal_chord: bool
    ) -> FloatArray:
        """Returns the contribution of each type to the divergence at one growth, `[K]`.

        The contribution is divided by the type's probability before the move.

        Args:
            log_weight_growth: the growth of a corner, in the unit of `_GrowthCorner`.
            has_refusal_chord: True for the contribution of passing tests only, because the program bounds that of
                refusals by a chord of f; False for the contribution of both.
        """
        gap_types = self._gap_types
        # the factor that makes the sum of the moved weights 1 again
        rescaling_of_moved_weights = math.exp(
            -self._gap_types.largest_log_factor * log_weight_growth
        )
        if has_refusal_chord:
            likelihood_ratios_of_passes = np.where(
                gap_types.pass_probs > 0,
                gap_types.moved_factors
                * gap_types.moved_pass_probs
                * rescaling_of_moved_weights
                / gap_types.pass_probs,
                1.0,
            )
            return np.where(
                gap_types.pass_probs > 0,
                gap_types.pass_probs * self._divergence_function(likelihood_ratios_of_passes),
                0.0,
            )
        likelihood_ratios_of_refusals = (
            gap_types.moved_factors
            * gap_types.moved_refusal_probs
            * rescaling_of_moved_weights
            / gap_types.refusal_probs
        )
        values_of_refusals = gap_types.refusal_probs * self._divergence_function(
            likelihood_ratios_of_refusals
        )
        return np.asarray(
            self._values_at_growth(log_weight_growth, has_refusal_chord=True) + values_of_refusals
        )
