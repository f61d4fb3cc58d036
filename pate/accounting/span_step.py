"""The composition step of a bounded range, whose pairs form a span: their two losses are a fixed length apart.

The largest expectation over all these pairs is bounded piece by piece (docs/proofs/exact_composition.md).
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pate.accounting.exact_grid import STEP_ROUNDING, CompositionStep, LossGrid, Shift
from pate.accounting.exact_pairs import two_point_probabilities
from pate.array_types import FloatArray

# A span is cut at most at so many multiples of the spacing from either of its ends.
_LARGEST_NUM_PIECES = 64
# Relative to the nearest value: more than rounding can take from a bend.
_BEND_SLACK = 1e-9
# Avoids a division by zero.
_SMALLEST_BEND = 1e-300


def span_step(grid: LossGrid, span_length: float) -> CompositionStep:
    """Returns the composition step of a `Span`: a bound on the maximum over all pairs with the losses t and t - length.

    The interval of t is cut into pieces. Between the ends of a piece the expectation is at most the chord plus
    D θ (1 - θ), for a bend D and θ in [0, 1] (docs/proofs/exact_composition.md, "Pieces, for a bounded range").

    Args:
        grid: the grid of the values V.
        span_length: the length of the span.
    """
    span_length = grid.rounded_outward(span_length)
    piece_ends = _ends_of_pieces(grid, span_length=span_length)
    span_pairs = [_span_pair(grid, up_loss=t, down_loss=t - span_length) for t in piece_ends]
    num_padding = grid.padding(largest_loss=max(span_pair.distance for span_pair in span_pairs))
    piece_widths = [after - before for before, after in pairwise(piece_ends)]
    # the bend D = up_factor * (change of V(x - t)) - down_factor * (change of V(x - t + length)), both over a piece
    up_factors = [-math.expm1(width) / math.expm1(-span_length) for width in piece_widths]
    down_factors = [math.expm1(width) / math.expm1(span_length) for width in piece_widths]

    def step(later_deltas: FloatArray) -> FloatArray:
        padded_deltas = grid.padded(later_deltas, num_padding)
        largest_deltas = later_deltas
        up_deltas_before = grid.shifted(padded_deltas, num_padding, shift=span_pairs[0].up_shift)
        down_deltas_before = grid.shifted(
            padded_deltas, num_padding, shift=span_pairs[0].down_shift
        )
        expected_deltas_before = (
            span_pairs[0].p_up * up_deltas_before + span_pairs[0].p_down * down_deltas_before
        )
        # Each piece ends at a pair and begins at the pair before.
        for span_pair, up_factor, down_factor in zip(
            span_pairs[1:], up_factors, down_factors, strict=True
        ):
            up_deltas = grid.shifted(padded_deltas, num_padding, shift=span_pair.up_shift)
            down_deltas = grid.shifted(padded_deltas, num_padding, shift=span_pair.down_shift)
            expected_deltas = span_pair.p_up * up_deltas + span_pair.p_down * down_deltas
            # the bend of the piece, rounded up by more than its terms can be wrong
            up_change = up_deltas * (1 + _BEND_SLACK) - up_deltas_before
            bends = up_factor * up_change - down_factor * (down_deltas - down_deltas_before)
            largest_deltas_over_piece = _largest_over_piece(
                deltas_before=expected_deltas_before, deltas_after=expected_deltas, bends=bends
            )
            largest_deltas = np.maximum(largest_deltas, largest_deltas_over_piece)
            up_deltas_before = up_deltas
            down_deltas_before = down_deltas
            expected_deltas_before = expected_deltas
        return np.minimum(largest_deltas * (1 + STEP_ROUNDING), 1.0)

    return step


def _largest_over_piece(
    deltas_before: FloatArray, deltas_after: FloatArray, bends: FloatArray
) -> FloatArray:
    """Returns the largest value of the chord from one end to the other plus bend * θ (1 - θ), over θ in [0, 1]."""
    rise = np.abs(deltas_after - deltas_before)
    # Where the bend is below the rise, an end is the largest. The formula gives the larger end for bend = rise.
    bends = np.maximum(np.maximum(bends, rise), _SMALLEST_BEND)
    return np.asarray((deltas_before + deltas_after) / 2 + (rise * (rise / bends) + bends) / 4)


def _ends_of_pieces(grid: LossGrid, span_length: float) -> list[float]:
    """Returns the rising ends of the pieces into which the interval from 0 to `span_length` is cut, both ends included.

    The distance of an end from 0 or from `span_length` is a multiple of the grid's spacing.
    """
    num_cells_of_span = max(math.ceil(span_length / grid.spacing - 0.5), 1)
    stride = math.ceil(num_cells_of_span / _LARGEST_NUM_PIECES)
    ends_from_start = [k * grid.spacing for k in range(0, num_cells_of_span, stride)]
    is_multiple = num_cells_of_span * grid.spacing == span_length
    ends_from_end = [] if is_multiple else [span_length - t for t in ends_from_start]
    return sorted({*ends_from_start, span_length, *ends_from_end})


class _SpanPair(NamedTuple):
    """One pair of a span: the shifts of V by its two losses, and the probabilities of both under P."""

    up_shift: Shift
    down_shift: Shift
    p_up: float
    p_down: float
    distance: float  # the larger loss less the smaller


def _span_pair(grid: LossGrid, *, up_loss: float, down_loss: float) -> _SpanPair:
    """Returns the two-point pair with two given losses, each of which is rounded away from 0."""
    up_loss = grid.rounded_outward(up_loss)
    down_loss = grid.rounded_outward(down_loss)
    p_up, p_down = two_point_probabilities(up_loss=up_loss, down_loss=down_loss)
    return _SpanPair(
        up_shift=grid.shift(up_loss),
        down_shift=grid.shift(down_loss),
        p_up=p_up,
        p_down=p_down,
        distance=up_loss - down_loss,
    )
