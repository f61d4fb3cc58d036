"""The Renyi divergence of one released bit, the largest over all pairs of neighbors.

A bit is 1 with probability p(k), where k is an integer statistic of the private data. This probability never falls as k
rises, and k differs by at most `reach` between neighbors. So for the worst neighbors k differs by exactly `reach`. Such
neighbors are described by a pair of probabilities p = p(k) and p' = p(k + reach), stored as two logits (log odds). The
privacy loss of a 1 is log(p' / p), and that of a 0 is log((1 - p) / (1 - p')). A pair dominates each pair whose two
losses are both smaller. So the worst of thousands of pairs is found by branch and bound: one dominating pair represents
a run of consecutive pairs.
"""

from functools import lru_cache
from math import asinh
from typing import NamedTuple

import numpy as np

from pate.accounting import events
from pate.accounting.events import BitEvent
from pate.accounting.renyi import LOG_ROUNDING, bernoulli_rdp
from pate.accounting.special import log_expit
from pate.array_types import BoolArray, FloatArray, IntArray

# The highest level of the search has at most so many runs of pairs.
_LARGEST_TOP_LEVEL = 64
# A run consists of so many runs of the level below.
_NUM_SUBRUNS = 4
# So many candidates are computed at a time, which limits memory; their arrays fit into the cache of a core.
_CANDIDATES_AT_ONCE = 2**13
# A threshold has at most so many pairs. If its statistic has more values, each pair dominates a run of pairs.
_LARGEST_NUM_PAIRS = 2**12
# Runs are shortest where the statistic is at most this number of noise stds from the threshold.
_CENTER = 0.2
# The losses of a pair are enlarged by this relative amount, and are at least the second number.
_OUTWARD = 2.0**-40
_SMALLEST_LOSS = 1e-300


class _RunsWithOrders(NamedTuple):
    """Candidates for the largest divergence of a bit: the index of a run of pairs and the index of an order for each.

    A run is one pair of `bit_pairs`, or several consecutive pairs that one pair dominates. Both arrays are
    `[num_candidates]`.
    """

    run_indices: IntArray
    order_indices: IntArray


@lru_cache(maxsize=16)  # several bounds on one event need its pairs
def bit_pairs(bit_event: BitEvent) -> FloatArray:
    """Returns pairs of log odds (logits) that a bit is 1, `[2, num_pairs]`; one pair dominates any two neighbors.

    The first row has the smaller log odds of each pair. A pair stands for the neighbors in either order. For a
    `ThresholdEvent` there are some thousands of pairs at most, however many teachers there are. For another bit there
    is at most one pair for each value of its statistic.
    """
    if isinstance(bit_event, events.ThresholdEvent) and bit_event.num_values > _LARGEST_NUM_PAIRS:
        return _pairs_above_runs(threshold_event=bit_event)
    # The statistics of a pair are `reach` apart, or less at the end of the table.
    logits_by_statistic = bit_event.log_odds
    last_index = len(logits_by_statistic) - 1
    higher_indices = np.minimum(np.arange(len(logits_by_statistic)) + bit_event.reach, last_index)
    logits_at_reach = logits_by_statistic[higher_indices]
    logit_pairs = np.stack([logits_by_statistic, logits_at_reach])  # [2, num_values]
    logit_pairs = logit_pairs[:, logits_by_statistic < logits_at_reach]
    if logit_pairs.shape[1] == 0:
        return logit_pairs
    # Both rows rise, so equal pairs stand side by side. A pair differs where one of its two logits does.
    differs_from_previous = (logit_pairs[:, 1:] != logit_pairs[:, :-1]).any(axis=0)
    return logit_pairs[:, np.append(True, differs_from_previous)]


def _pairs_above_runs(threshold_event: events.ThresholdEvent) -> FloatArray:
    """Returns some thousands of pairs of log odds, `[2, num_runs]`, each of which dominates a run of consecutive pairs.

    The pairs of a run have the log odds that the noisy integer reaches the threshold, for an integer and for the next
    one. Runs are shorter near the threshold. Phi is log-concave, so log Phi(z + h) - log Phi(z) falls as z rises. So
    within a run the first pair has the largest privacy loss of a 1, and the last pair has that of a 0
    (docs/proofs/gaussian_votes.md).
    """
    last_step = threshold_event.num_values - 1
    unit = _CENTER * threshold_event.noise_std
    # the smallest and the largest value of the integer, minus the threshold
    lowest_excess = threshold_event.lowest
    highest_excess = lowest_excess + last_step
    asinh_of_lowest_excess = asinh(lowest_excess / unit)
    asinh_of_highest_excess = asinh(highest_excess / unit)
    excesses_at_run_ends = unit * np.sinh(
        np.linspace(asinh_of_lowest_excess, asinh_of_highest_excess, _LARGEST_NUM_PAIRS)
    )
    # A step is the number of a value of the integer: 0 for the smallest value, 1 for the next.
    inner_run_ends = np.floor(excesses_at_run_ends - lowest_excess).astype(np.int64)
    steps_at_run_ends = np.append(inner_run_ends, [0, last_step])
    steps_at_run_ends = np.unique(np.clip(steps_at_run_ends, 0, last_step))
    # the logits of the first and of the last pair of each run
    lower_logits_of_first_pairs = threshold_event.log_odds_at(steps=steps_at_run_ends[:-1])
    higher_logits_of_first_pairs = threshold_event.log_odds_at(steps=steps_at_run_ends[:-1] + 1)
    lower_logits_of_last_pairs = threshold_event.log_odds_at(steps=steps_at_run_ends[1:] - 1)
    higher_logits_of_last_pairs = threshold_event.log_odds_at(steps=steps_at_run_ends[1:])
    loss_of_one = _rounded_up_difference(
        larger_log_prob=log_expit(higher_logits_of_first_pairs),
        smaller_log_prob=log_expit(lower_logits_of_first_pairs),
    )
    loss_of_zero = _rounded_up_difference(
        larger_log_prob=log_expit(-lower_logits_of_last_pairs),
        smaller_log_prob=log_expit(-higher_logits_of_last_pairs),
    )
    return pairs_of_losses(loss_of_one=loss_of_one, loss_of_zero=loss_of_zero)


def _rounded_up_difference(larger_log_prob: FloatArray, smaller_log_prob: FloatArray) -> FloatArray:
    """Returns the larger logarithm of a probability less the smaller one, rounded up."""
    # Both logarithms are at most 0, so the largest error is at least 0.
    largest_error = -LOG_ROUNDING * (larger_log_prob + smaller_log_prob)
    return np.asarray(larger_log_prob - smaller_log_prob + largest_error)


def pairs_of_losses(loss_of_one: FloatArray, loss_of_zero: FloatArray) -> FloatArray:
    """Returns the pairs of logits that have the given privacy losses, rounded so that the losses are not smaller.

    Let p < p' be the probabilities of a 1 on two neighbors. With p' / p = e^one and (1 - p) / (1 - p') = e^zero, the
    odds of p' are (e^zero - 1) / (1 - e^-one). So the logit of p' is m + zero, and that of p is m - one, where m is
    log(1 - e^-zero) - log(1 - e^-one).

    Args:
        loss_of_one: log(p' / p) of each pair, > 0, `[num_pairs]`.
        loss_of_zero: log((1 - p) / (1 - p')) of each pair, > 0, `[num_pairs]`.

    Returns:
        The logits of p in the first row, and those of p' in the second, `[2, num_pairs]`.
    """
    raised_loss_of_one = np.maximum(loss_of_one * (1 + _OUTWARD), _SMALLEST_LOSS)
    raised_loss_of_zero = np.maximum(loss_of_zero * (1 + _OUTWARD), _SMALLEST_LOSS)
    middle_logits = np.log(-np.expm1(-raised_loss_of_zero)) - np.log(-np.expm1(-raised_loss_of_one))
    lower_logits = middle_logits - raised_loss_of_one
    higher_logits = middle_logits + raised_loss_of_zero
    rounding_of_lower = LOG_ROUNDING * (np.abs(middle_logits) + raised_loss_of_one)
    rounding_of_higher = LOG_ROUNDING * (np.abs(middle_logits) + raised_loss_of_zero)
    return np.stack([lower_logits - rounding_of_lower, higher_logits + rounding_of_higher])


def bit_rdp(bit_event: BitEvent, orders: FloatArray) -> FloatArray:
    """Returns the Renyi curve of a released bit: the largest D_a over all pairs of neighbors, `[num_orders]`.

    For a `ThresholdEvent` of many values the curve is a little larger, as each pair of `bit_pairs` dominates a run of
    neighbors. The largest divergence is found by branch and bound, for each order separately. Level 0 has the pairs of
    `bit_pairs`. On a higher level a pair represents up to four runs of the level below: it has their largest privacy
    loss of a 1 and their largest loss of a 0. So its divergence bounds the divergences of all pairs in these runs. A
    run is discarded where its bound is not above the divergence of a pair of level 0 that was found before.
    """
    logit_pairs = bit_pairs(bit_event)
    largest_divergences = np.zeros_like(orders)
    logit_pairs_of_levels = _levels_of_runs(logit_pairs)
    run_index_grid, order_index_grid = np.meshgrid(
        np.arange(logit_pairs_of_levels[-1].shape[1]), np.arange(len(orders))
    )
    runs_with_orders = _RunsWithOrders(
        run_indices=run_index_grid.ravel(), order_indices=order_index_grid.ravel()
    )
    for level in range(len(logit_pairs_of_levels) - 1, -1, -1):
        divergence_bounds = _divergences(
            logit_pairs_of_levels[level],
            pair_indices=runs_with_orders.run_indices,
            orders=orders[runs_with_orders.order_indices],
        )
        if level == 0:
            np.maximum.at(largest_divergences, runs_with_orders.order_indices, divergence_bounds)
            break
        # For each order, the middle pair of the run with the largest bound raises what pairs of level 0 attain.
        best_runs = _best_run_of_each_order(runs_with_orders, divergence_bounds)
        num_pairs_of_run = _NUM_SUBRUNS**level
        middle_pair_indices = np.minimum(
            best_runs.run_indices * num_pairs_of_run + num_pairs_of_run // 2,
            logit_pairs.shape[1] - 1,
        )
        attained_divergences = _divergences(
            logit_pairs,
            pair_indices=middle_pair_indices,
            orders=orders[best_runs.order_indices],
        )
        np.maximum.at(largest_divergences, best_runs.order_indices, attained_divergences)
        run_remains = divergence_bounds > largest_divergences[runs_with_orders.order_indices]
        runs_with_orders = _runs_below(
            runs_with_orders,
            run_remains=run_remains,
            num_runs_below=logit_pairs_of_levels[level - 1].shape[1],
        )
    return largest_divergences


def _best_run_of_each_order(
    runs_with_orders: _RunsWithOrders, divergence_bounds: FloatArray
) -> _RunsWithOrders:
    """Returns, for each order with candidates, the candidate with the largest bound.

    Args:
        runs_with_orders: the candidates: runs of one level of the search, with an order each.
        divergence_bounds: a bound on the divergence of each candidate, `[num_candidates]`.
    """
    indices_by_order_and_bound = np.lexsort((divergence_bounds, runs_with_orders.order_indices))
    is_last_of_order = np.append(
        np.diff(runs_with_orders.order_indices[indices_by_order_and_bound]) > 0, True
    )
    best_indices = indices_by_order_and_bound[is_last_of_order]
    return _RunsWithOrders(
        run_indices=runs_with_orders.run_indices[best_indices],
        order_indices=runs_with_orders.order_indices[best_indices],
    )


def _runs_below(
    runs_with_orders: _RunsWithOrders, *, run_remains: BoolArray, num_runs_below: int
) -> _RunsWithOrders:
    """Returns, as new candidates, the runs of the level below that the remaining candidates represent.

    A run is a number of consecutive pairs. Each run consists of up to four runs of the level below.

    Args:
        runs_with_orders: the candidates: runs of one level of the search, with an order each.
        run_remains: True for the candidates that remain, `[num_candidates]`.
        num_runs_below: the number of runs on the level below.
    """
    subrun_indices = (
        runs_with_orders.run_indices[run_remains, None] * _NUM_SUBRUNS + np.arange(_NUM_SUBRUNS)
    ).ravel()
    order_indices = np.repeat(runs_with_orders.order_indices[run_remains], _NUM_SUBRUNS)
    subrun_exists = subrun_indices < num_runs_below  # the last run of a level may be shorter
    return _RunsWithOrders(
        run_indices=subrun_indices[subrun_exists], order_indices=order_indices[subrun_exists]
    )


def _levels_of_runs(logit_pairs: FloatArray) -> list[FloatArray]:
    """Returns the levels of a search over pairs: all pairs, then pairs that dominate runs of 4, of 16, … of them.

    Each level is an array of logits, `[2, num_runs]`. The last level has at most 64 runs.

    Args:
        logit_pairs: the logits of all pairs, `[2, num_pairs]`.
    """
    logit_pairs_of_levels = [logit_pairs]
    num_pairs = logit_pairs.shape[1]
    if num_pairs <= _LARGEST_TOP_LEVEL:
        return logit_pairs_of_levels
    logits_of_lower_neighbors, logits_of_higher_neighbors = logit_pairs
    loss_of_one = log_expit(logits_of_higher_neighbors) - log_expit(logits_of_lower_neighbors)
    loss_of_zero = log_expit(-logits_of_lower_neighbors) - log_expit(-logits_of_higher_neighbors)
    losses_by_outcome_and_pair = np.stack([loss_of_one, loss_of_zero])
    length = _NUM_SUBRUNS
    while length * _LARGEST_TOP_LEVEL < num_pairs * _NUM_SUBRUNS:
        losses_by_outcome_and_pair = np.maximum.reduceat(
            losses_by_outcome_and_pair,
            np.arange(0, losses_by_outcome_and_pair.shape[1], _NUM_SUBRUNS),
            axis=1,
        )
        logit_pairs_of_levels.append(
            pairs_of_losses(
                loss_of_one=losses_by_outcome_and_pair[0],
                loss_of_zero=losses_by_outcome_and_pair[1],
            )
        )
        length *= _NUM_SUBRUNS
    return logit_pairs_of_levels


def _divergences(logit_pairs: FloatArray, pair_indices: IntArray, orders: FloatArray) -> FloatArray:
    """Returns the Renyi divergence of a bit on two neighbors, the larger of both directions, `[num_candidates]`.

    A candidate is a pair of logits, those of a 1 on the two neighbors, with an order. The candidates are computed in
    batches, so that the memory of intermediate results does not grow with their number.

    Args:
        logit_pairs: the logits of all pairs, `[2, num_pairs]`.
        pair_indices: the index of the pair of each candidate, `[num_candidates]`.
        orders: the order of each candidate, `[num_candidates]`.
    """
    num_candidates = len(pair_indices)
    divergences = np.empty(num_candidates)
    log_p, log_q = log_expit(logit_pairs)
    log_not_p, log_not_q = log_expit(-logit_pairs)
    for start in range(0, num_candidates, _CANDIDATES_AT_ONCE):
        batch_slice = slice(start, start + _CANDIDATES_AT_ONCE)
        batch_pair_indices = pair_indices[batch_slice]
        divergence_of_p_from_q = bernoulli_rdp(
            log_p=log_p[batch_pair_indices],
            log_not_p=log_not_p[batch_pair_indices],
            log_q=log_q[batch_pair_indices],
            log_not_q=log_not_q[batch_pair_indices],
            orders=orders[batch_slice],
        )
        divergence_of_q_from_p = bernoulli_rdp(
            log_p=log_q[batch_pair_indices],
            log_not_p=log_not_q[batch_pair_indices],
            log_q=log_p[batch_pair_indices],
            log_not_q=log_not_p[batch_pair_indices],
            orders=orders[batch_slice],
        )
        np.maximum(divergence_of_p_from_q, divergence_of_q_from_p, out=divergences[batch_slice])
    return divergences
