"""The data-dependent cost of GNMax, the noisy plurality of one vote per teacher, and its smooth sensitivity.

The bound on its divergence by the probability q = exp(-x**2) of a dissenting outcome is that of
docs/proofs/data_dependent.md, over many queries and orders at once. Its logarithms of moments are taken in blocks of
rows that fit in the processor's cache, and only at the orders at which the bound can be below the independent price.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pate.accounting.data_dependent.cost import DataDependentCost, order_array, rank_of
from pate.accounting.special import log_ndtr, ndtri_exp
from pate.validation import (
    InvalidValue,
    require,
    require_count,
    require_histogram,
    require_positive,
)

Array = NDArray[np.float64]


def gnmax_cost(votes: NDArray[np.integer], *, noise_std: float, num_teachers: int, orders: object) -> DataDependentCost:
    """The realized cost of GNMax on the queries that drew its noise.

    Where a noisy threshold decides which queries are answered, `votes` holds the queries that passed, and the cost of
    the threshold on every query, passed or not, is added to this one.

    Args:
        votes: `[Q, L]` votes for each of L >= 2 classes, each teacher casting one.
        noise_std: of the noise on every count, in votes, > 0.
        num_teachers: the number of votes of each query.
        orders: `[A]` orders > 1.
    """
    array = order_array(orders)
    counts = one_vote_each(votes, num_teachers)
    log_q, times = np.unique(gnmax_log_q(counts, noise_std=noise_std), return_counts=True)
    rising, weights = np.sort(array), times.astype(np.float64)
    total, price = np.zeros_like(array), rising / noise_std**2
    for rows, block in consensus_blocks(log_q, noise_std=noise_std, orders=rising):
        served = block.shape[1]
        total[:served] += weights[rows] @ block
        total[served:] += weights[rows].sum() * price[served:]
    return DataDependentCost(array, total[rank_of(array)])


def gnmax_log_q(votes: NDArray[np.integer], *, noise_std: float) -> Array:
    """Log of a bound on the probability that another class than the plurality's wins: `[Q]` from votes `[Q, L]`.

    The sum over the other classes of Phi(-(difference of votes) / (sqrt 2 noise_std)), at most 1 - 1 / L.

    Args:
        votes: one vote per teacher: counts `[Q, L]`.
        noise_std: standard deviation of the noise on each count, in votes.
    """
    return log_q_of_deficits(vote_deficits(votes), noise_std=noise_std)


def vote_deficits(votes: NDArray[np.integer]) -> NDArray[np.int64]:
    """By how much every other class trails the plurality's: `[Q, L - 1]`, rising, from votes `[Q, L]`."""
    falling = -np.sort(-np.asarray(votes, dtype=np.int64), axis=1)
    return falling[:, :1] - falling[:, 1:]


def log_q_of_deficits(deficits: NDArray[np.int64], *, noise_std: float) -> Array:
    """`gnmax_log_q` from the deficits `[Q, L - 1]`, rising: `[Q]`; looks normal tails up by whole votes."""
    scale, num_classes = math.sqrt(2) * require_positive("noise_std", noise_std), deficits.shape[1] + 1
    largest_deficit = int(deficits.max())
    if largest_deficit < deficits.size:
        tails = log_ndtr(-np.arange(largest_deficit + 1) / scale)[deficits]
    else:
        tails = log_ndtr(-deficits / scale)
    largest = tails[:, 0]
    others = np.exp(tails - largest[:, None]).sum(axis=1)
    return np.asarray(np.minimum(largest + np.log(others), math.log1p(-1 / num_classes)))


def gnmax_rdp(log_q: Array, *, noise_std: float, orders: object) -> Array:
    """Bounds both D_a(M(D) || M(D')) and D_a(M(D') || M(D)) by q alone: `[Q, A]`.

    At most the data-independent a / std**2, and never decreasing in q, so an upper bound on the probability will do.

    Args:
        log_q: `[Q]` logs of an upper bound on the probability of another outcome than the likeliest, < 0.
        noise_std: in votes, > 0.
        orders: `[A]` orders > 1.
    """
    array = order_array(orders)
    rising = np.sort(array)
    bound = np.tile(rising / require_positive("noise_std", noise_std) ** 2, (len(log_q), 1))
    for rows, block in consensus_blocks(np.asarray(log_q, np.float64), noise_std=noise_std, orders=rising):
        bound[rows, : block.shape[1]] = block
    return np.asarray(bound[:, rank_of(array)])


def theorem_6_rdp(log_q: Array, *, noise_std: float, orders: object) -> Array:
    """Theorem 6 of Papernot et al. 2018 at the orders of its Proposition 10: `[Q, A]`, for comparison with papers.

    Bounds D_a(M(D) || M(D')) for the D at hand, and only that direction: D_a(M(D') || M(D)) can be a thousand times
    as large. `gnmax_rdp` covers both and is what costs are made of.

    Args:
        log_q: `[Q]` as for `gnmax_rdp`.
        noise_std: in votes, > 0.
        orders: `[A]` orders > 1.
    """
    a, std = order_array(orders), require_positive("noise_std", noise_std)
    bound = np.tile(a / std**2, (len(log_q), 1))
    for row, value in enumerate(np.asarray(log_q, dtype=np.float64)):
        mu_2 = std * math.sqrt(-value)
        mu_1, rho_2 = mu_2 + 1, mu_2 / std**2
        if mu_2 <= 1 or -value <= rho_2 or value > _largest_log_q(mu_1, mu_2, std):
            continue
        log_not_q = math.log1p(-math.exp(value))
        log_a = log_not_q - math.log1p(-math.exp((value + rho_2) * (mu_2 - 1) / mu_2))
        log_b = mu_1 / std**2 - value / (mu_1 - 1)
        small = np.logaddexp(log_not_q + (a - 1) * log_a, value + (a - 1) * log_b) / (a - 1)
        bound[row] = np.where(a < mu_1, np.minimum(bound[row], small), bound[row])
    return bound


def _largest_log_q(mu_1: float, mu_2: float, std: float) -> float:
    """The theorem's condition on q, without which its bound may fall as q grows."""
    return (mu_2 - 1) * mu_2 / std**2 - mu_2 * math.log(mu_1 / (mu_1 - 1) * mu_2 / (mu_2 - 1))


def one_vote_each(votes: NDArray[np.integer], num_teachers: int) -> NDArray[np.integer]:
    """Returns votes `[Q, L]`, L >= 2, in which every query has `num_teachers` votes, or raises."""
    counts = require_histogram("votes", votes, num_teachers=require_count("num_teachers", num_teachers), rank=2)
    require(counts.shape[1] >= 2, "votes.shape", counts.shape, "at least two classes")
    totals = counts.sum(axis=1)
    if (wrong := np.flatnonzero(totals != num_teachers)).size:
        raise InvalidValue(f"votes[{wrong[0]}].sum: expected {num_teachers}, one vote per teacher")
    return counts


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


_NUM_CELLS = 4096


def gnmax_smooth_sensitivity(
    votes: NDArray[np.integer], *, noise_std: float, num_teachers: int, order: float, beta: float
) -> float:
    """A beta-smooth upper bound on the local sensitivity of `gnmax_cost` at one order; private like the votes.

    One teacher's votes change, on all queries at once. A bound on the local sensitivity at distance d is summed over
    the queries, and the largest exp(-beta d) times the sum is returned.

    Args:
        votes: `[Q, L]` as for `gnmax_cost`.
        noise_std: as for `gnmax_cost`.
        num_teachers: as for `gnmax_cost`.
        order: > 1.
        beta: > 0; a larger one gives a smaller sensitivity and a dearer release.
    """
    require_positive("beta", beta)
    deficits = vote_deficits(one_vote_each(votes, num_teachers))
    edges, drops = _drop_table(noise_std, order, num_classes=deficits.shape[1] + 1)
    up_to, from_on = np.maximum.accumulate(drops), np.maximum.accumulate(drops[::-1])[::-1]
    at_most, best, farthest = len(deficits) * float(up_to[-1]), 0.0, int(deficits.max()) // 2 + 1
    for distance in range(farthest):
        if math.exp(-beta * distance) * at_most <= best:
            return best
        moved = 2 * (distance + 1)
        likely, unlikely = (
            np.searchsorted(edges, log_q_of_deficits(np.maximum(moved_by, 0), noise_std=noise_std), side="right")
            for moved_by in (deficits - moved, deficits + moved)
        )
        total = float(np.minimum(up_to[likely], from_on[np.maximum(unlikely - 1, 0)]).sum())
        best = max(best, math.exp(-beta * distance) * total)
    return max(best, math.exp(-beta * farthest) * at_most)


def _drop_table(noise_std: float, order: float, *, num_classes: int) -> tuple[Array, Array]:
    """Cells of log q and, in each, a bound on how far one change of a teacher can lower the cost of one query.

    Returns:
        The cells' edges, rising, `[E]`, and the bounds `[E + 1]`: below the first edge, between edges, and above.
    """
    largest = 2 * order / noise_std + 30.0
    edges = -np.square(np.linspace(largest, 1e-6, _NUM_CELLS))
    cost = gnmax_rdp(edges, noise_std=noise_std, orders=order)[:, 0]
    after = gnmax_rdp(_least_log_q_after(edges, noise_std, num_classes), noise_std=noise_std, orders=order)[:, 0]
    price = order / noise_std**2
    return edges, np.concatenate([cost[:1], cost[1:] - after[:-1], [price - after[-1]]])


def _least_log_q_after(log_q: Array, noise_std: float, num_classes: int) -> Array:
    """The least log q among the neighbors of votes with this log q: all deficits equal, and each two votes larger."""
    each = np.minimum(log_q - math.log(num_classes - 1), -1e-12)
    return np.asarray(math.log(num_classes - 1) + log_ndtr(ndtri_exp(each) - math.sqrt(2) / noise_std))
