"""The bound on GNMax's divergence by the probability of a dissenting outcome, over many queries and orders at once.

The bound is that of docs/proofs/data_dependent.md with q = exp(-x**2). Its logarithms of moments are taken in blocks of
rows that fit in the processor's cache, and only at the orders at which the bound can be below the independent price.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pate.validation import require_positive

Array = NDArray[np.float64]

_CELLS_AT_ONCE = 16384
_SMALLEST_X = 1e-6  # below it the independent price: 1 - q has no digits left
_TINY, _LARGE = -700.0, 40.0  # exponents: no double is denormal above the first, 1 is lost beyond the second


def consensus_blocks(log_q: Array, *, noise_std: float, orders: Array) -> Iterator[tuple[slice, Array]]:
    """Bounds on both divergences, some rows at a time: a slice of rows, and the bounds at the first orders, `[B, F]`.

    At all later orders the bound of these rows is the independent price.

    Args:
        log_q: `[Q]` below 0; fastest where neighboring rows are close to each other.
        noise_std: in votes, > 0.
        orders: `[A]`, rising.
    """
    std, x = require_positive("noise_std", noise_std), np.sqrt(-log_q)  # [Q]
    independent = orders / std**2
    num_served = np.where(x < _SMALLEST_X, 0, np.searchsorted(orders, std * x))  # [Q] orders a < s x
    x = np.maximum(x, _SMALLEST_X)
    columns = _columns(x, std)
    num_tight = np.minimum(_num_tight(x, std, orders, columns), num_served)
    most_served = int(num_served.max(initial=0))
    size = max(1, _CELLS_AT_ONCE // max(most_served, 1))
    for start in range(0, len(x), size):
        rows = slice(start, start + size)
        last = int(num_served[rows].max())
        block = _block_rdp(columns[:, rows], orders[:last], num_tight[rows], num_served[rows])
        yield rows, np.minimum(block, independent[:last], out=block)


def _columns(x: Array, std: float) -> Array:
    """What the bound needs of each query: `[6, Q]`.

    x**2; the slope of log m in the order; log(1-q); by how much a change can raise and lower log p; log(1-g).
    """
    above = np.maximum(x - 1 / std, 1e-7)
    with np.errstate(divide="ignore"):
        log_p = np.log1p(-np.exp(-x * x))
    log_p_least = np.log1p(-np.exp(-above * above))
    log_p_most = np.log1p(-np.exp(-np.square(x + 1 / std)))
    return np.stack([x * x, 2 * x / std - 1 / std**2, log_p, log_p - log_p_least, log_p_most - log_p, log_p_most])


def _num_tight(x: Array, std: float, orders: Array, columns: Array) -> NDArray[np.intp]:
    """At how many of the rising orders the sharper bound on the likeliest outcome's part never falls with q: `[Q]`.

    The proof note's condition on dm/dq is that a function of the order, concave and not below 0 at order 1, is not
    below 0: the orders are those up to some point, found by bisection.
    """
    _, slope, _, fall, rise, _ = columns
    with np.errstate(divide="ignore"):
        inverse = 1 / (std * x)
    flat = np.log1p(inverse) <= slope + 2 / std**2
    steep = slope + np.log1p(-np.minimum(inverse, 1 - 1e-12)) >= 0
    steepest = np.maximum(fall, rise)
    low, high = np.zeros(len(x), dtype=np.intp), np.where(steep & flat, len(orders), 0)
    while (low < high).any():
        middle = (low + high) // 2
        a = orders[np.minimum(middle, len(orders) - 1)]
        holds = a * slope + np.log1p(-np.minimum(a * inverse, 1 - 1e-12)) >= (a - 1) * steepest
        low, high = np.where((low < high) & holds, middle + 1, low), np.where(holds, high, middle)
    return low


def _block_rdp(columns: Array, a: Array, num_tight: NDArray[np.intp], num_served: NDArray[np.intp]) -> Array:
    """The bound on a block of rows `[B, A]`; infinite at orders that a row does not serve."""
    square, slope, log_p, fall, rise, log_p_most = columns  # [B] each
    less = a - 1
    likeliest, other = _lines(fall, log_p, less), _lines(rise, log_p_most, less)
    np.maximum(likeliest, other, out=likeliest)
    first = int(num_tight.min())
    if first < len(a):
        loose = less[first:] * (fall - log_p)[:, None]
        np.copyto(
            likeliest[:, first:], loose, where=_from_on(num_tight, first, len(a)) | (loose < likeliest[:, first:])
        )
    rest = _lines(slope, -square, a)
    rest -= likeliest
    _soften(rest)
    likeliest += rest
    likeliest *= 1 / less
    first = int(num_served.min())
    if first < len(a):
        likeliest[:, first:][_from_on(num_served, first, len(a))] = np.inf
    return likeliest


def _lines(slopes: Array, heights: Array, at: Array) -> Array:
    """Slope * point + height of each row at each point: `[B, A]`, in one pass."""
    return np.stack([slopes, heights], axis=1) @ np.stack([at, np.ones_like(at)])


def _soften(rest: Array) -> None:
    """log(1 + exp(rest)) in place, `[B, A]`, without the work where whole columns at either end are tiny or large."""
    least, most = rest.min(axis=0), rest.max(axis=0)
    tiny = int(np.argmax(np.append(most, np.inf) > _TINY))
    large = max(tiny, len(least) - int(np.argmax(np.append(least[::-1], -np.inf) < _LARGE)))
    rest[:, :tiny] = math.exp(_TINY)
    middle = rest[:, tiny:large]
    if most[tiny:large].max(initial=0.0) < -_TINY:
        np.log1p(np.exp(middle, out=middle), out=middle)
    else:
        np.logaddexp(middle, 0.0, out=middle)


def _from_on(numbers: NDArray[np.intp], first: int, size: int) -> NDArray[np.bool_]:
    """Whether each of the columns first..size-1 is at or beyond the number of its row."""
    return np.arange(first, size) >= numbers[:, None]
