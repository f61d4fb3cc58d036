"""Released bits: the pairs of probabilities at neighboring statistics, and the worst Renyi divergence among them.

A bit is 1 with probability p(k), which never falls in an integer statistic k, and k moves by at most `reach` between
neighbors. So the worst neighbors are exactly `reach` apart: the pairs (p(k), p(k + reach)), either way round. A pair
has two losses, that of a 1, log(p' / p), and that of a 0, log((1 - p) / (1 - p')). A pair with larger losses of both
kinds dominates. So thousands of pairs are searched by branch and bound, and a pair above a whole run of pairs stands
for it.
"""

from functools import lru_cache
from math import asinh
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pate.accounting import events
from pate.accounting.events import BitEvent
from pate.accounting.renyi import LOG_ROUNDING, bernoulli_rdp
from pate.accounting.special import Array, log_expit

_FEW_PAIRS = 64  # pairs, or runs of them, that are searched one by one
_RUN_LENGTH = 4  # runs of the level below that one run holds
_PAIRS_AT_ONCE = 2**17
_MOST_PAIRS = 2**12  # of a threshold; runs of pairs stand for more
_CENTER = 0.2  # noise stds from the threshold, within which runs are shortest
_OUTWARD = 2.0**-40  # relative: by which losses of a run are enlarged
_LEAST_LOSS = 1e-300


class _Candidates(NamedTuple):
    """Pairs, or runs of pairs, by their indices, each with the index of an order: `[N]` each."""

    pairs: NDArray[np.int64]
    orders: NDArray[np.int64]


@lru_cache(maxsize=16)
def bit_pairs(event: BitEvent) -> Array:
    """Returns logits `[2, P]` of pairs that dominate a bit at any two neighbors, the larger logit second.

    Each pair serves both ways. The number of pairs depends neither on the number of teachers nor, beyond some
    thousands, on the noise.
    """
    if isinstance(event, events.ThresholdEvent) and event.num_values > _MOST_PAIRS:
        return _pairs_above_runs(event)
    # The different logits exactly `reach` apart, or less at the end.
    logits = event.log_odds
    last = len(logits) - 1
    farther = logits[np.minimum(np.arange(len(logits)) + event.reach, last)]
    pairs = np.stack([logits, farther])[:, logits < farther]
    # Both rows rise, so equal pairs stand side by side.
    is_new = np.append(True, (pairs[:, 1:] != pairs[:, :-1]).any(axis=0))[: pairs.shape[1]]
    return pairs[:, is_new]


def _pairs_above_runs(event: events.ThresholdEvent) -> Array:
    """Returns a pair above each of some thousands of runs of neighboring pairs, shorter near the threshold.

    Phi is log-concave: log Phi(z + h) - log Phi(z) falls in z, and the same of Phi(-z) rises. So of a run of values the
    first pair has the largest loss of a 1, and the last pair that of a 0 (docs/proofs/gaussian_votes.md).
    """
    last_value = event.num_values - 1
    unit = _CENTER * event.noise_std
    low = asinh((event.lowest + 0) / unit)
    high = asinh((event.lowest + last_value) / unit)
    ends = np.sinh(np.linspace(low, high, _MOST_PAIRS)) * unit - event.lowest
    values = np.append(np.floor(ends).astype(np.int64), [0, last_value])
    values = np.unique(np.clip(values, 0, last_value))
    first = event.log_odds_at(values[:-1])
    after_first = event.log_odds_at(values[:-1] + 1)
    last = event.log_odds_at(values[1:])
    before_last = event.log_odds_at(values[1:] - 1)
    loss_of_one = _difference(log_expit(after_first), log_expit(first))
    loss_of_zero = _difference(log_expit(-before_last), log_expit(-last))
    return pairs_of_losses(loss_of_one, loss_of_zero)


def _difference(larger: Array, smaller: Array) -> Array:
    """Returns the difference of two log probabilities <= 0, never below the true one."""
    return np.asarray(larger - smaller - LOG_ROUNDING * (larger + smaller))


def pairs_of_losses(loss_of_one: Array, loss_of_zero: Array) -> Array:
    """Returns logits `[2, P]` of the pairs with these losses > 0, rounded outward.

    With p' / p = e^one and (1 - p) / (1 - p') = e^zero the odds of p' are (e^zero - 1) / (1 - e^-one).
    """
    one = np.maximum(loss_of_one * (1 + _OUTWARD), _LEAST_LOSS)
    zero = np.maximum(loss_of_zero * (1 + _OUTWARD), _LEAST_LOSS)
    middle = np.log(-np.expm1(-zero)) - np.log(-np.expm1(-one))
    near = middle - one
    far = middle + zero
    near_rounding = LOG_ROUNDING * (np.abs(middle) + one)
    far_rounding = LOG_ROUNDING * (np.abs(middle) + zero)
    return np.stack([near - near_rounding, far + far_rounding])


def bit_rdp(event: BitEvent, orders: Array) -> Array:
    """Returns the largest D_a between the distributions of a bit at any two neighbors, `[len(orders)]`.

    It is found by branch and bound, for each order by itself. Level 0 holds the pairs. A run of a higher level is the
    pair with the largest loss of a 1 and the largest loss of a 0 among four runs below, so its divergence is a bound
    for all of its pairs. A run whose bound a single pair attains is dropped.
    """
    pairs = bit_pairs(event)
    largest = np.zeros_like(orders)
    levels = _levels_of_runs(pairs)
    run_grid, order_grid = np.meshgrid(np.arange(levels[-1].shape[1]), np.arange(len(orders)))
    candidates = _Candidates(run_grid.ravel(), order_grid.ravel())
    for depth in range(len(levels) - 1, -1, -1):
        bounds = _divergences(levels[depth], candidates.pairs, orders[candidates.orders])
        if depth == 0:
            np.maximum.at(largest, candidates.orders, bounds)
            break
        # For each order, the middle pair of the run with the largest bound raises what single pairs attain.
        best = _largest_of_each_order(candidates, bounds)
        length = _RUN_LENGTH**depth
        middle = np.minimum(best.pairs * length + length // 2, pairs.shape[1] - 1)
        attained = _divergences(pairs, middle, orders[best.orders])
        np.maximum.at(largest, best.orders, attained)
        is_alive = bounds > largest[candidates.orders]
        candidates = _parts(candidates, is_alive, num_parts=levels[depth - 1].shape[1])
    return largest


def _largest_of_each_order(candidates: _Candidates, bounds: Array) -> _Candidates:
    """Returns the candidate with the largest bound for each order that has candidates."""
    by_order_and_bound = np.lexsort((bounds, candidates.orders))
    is_last_of_order = np.append(np.diff(candidates.orders[by_order_and_bound]) > 0, True)
    best = by_order_and_bound[is_last_of_order]
    return _Candidates(candidates.pairs[best], candidates.orders[best])


def _parts(candidates: _Candidates, is_alive: NDArray[np.bool_], *, num_parts: int) -> _Candidates:
    """Returns the runs of the level below, `num_parts` in number, that the living candidates hold."""
    parts = (candidates.pairs[is_alive, None] * _RUN_LENGTH + np.arange(_RUN_LENGTH)).ravel()
    orders = np.repeat(candidates.orders[is_alive], _RUN_LENGTH)
    exists = parts < num_parts  # the last run of a level may be shorter
    return _Candidates(parts[exists], orders[exists])


def _levels_of_runs(pairs: Array) -> list[Array]:
    """Returns the pairs `[2, P]` and, while there are many, the pairs above runs of 4, 16, … of them."""
    levels = [pairs]
    num_pairs = pairs.shape[1]
    if num_pairs <= _FEW_PAIRS:
        return levels
    loss_of_one = log_expit(pairs[1]) - log_expit(pairs[0])
    loss_of_zero = log_expit(-pairs[0]) - log_expit(-pairs[1])
    losses = np.stack([loss_of_one, loss_of_zero])
    length = _RUN_LENGTH
    while length * _FEW_PAIRS < num_pairs * _RUN_LENGTH:
        losses = np.maximum.reduceat(losses, np.arange(0, losses.shape[1], _RUN_LENGTH), axis=1)
        levels.append(pairs_of_losses(losses[0], losses[1]))
        length *= _RUN_LENGTH
    return levels


def _divergences(pairs: Array, which: NDArray[np.int64], orders: Array) -> Array:
    """Returns the larger D_a of both ways of the pairs `which` `[N]`, each at its order `[N]`.

    Some are computed at a time, so that memory does not grow with N.
    """
    divergences = np.empty(len(which))
    log_p, log_q = log_expit(pairs)
    log_not_p, log_not_q = log_expit(-pairs)
    for start in range(0, len(which), _PAIRS_AT_ONCE):
        batch = slice(start, start + _PAIRS_AT_ONCE)
        chosen = which[batch]
        order = orders[batch]
        p = log_p[chosen]
        q = log_q[chosen]
        not_p = log_not_p[chosen]
        not_q = log_not_q[chosen]
        np.maximum(
            bernoulli_rdp(p, not_p, q, not_q, order),
            bernoulli_rdp(q, not_q, p, not_p, order),
            out=divergences[batch],
        )
    return divergences
