"""Renyi and hockey-stick divergences between finite distributions, and the removal of a failure event from these."""

import math

import numpy as np
from numpy.typing import ArrayLike

from pate.array_types import FloatArray

SLACK = 1e-13
"""The rounding error of sums of probabilities: smaller differences count as 0."""

RELATIVE_SLACK = 1e-9
"""The relative rounding error of a divergence: a claim that is exceeded by less is not refuted."""

# A larger exponent of e is computed as this one, so that floats do not overflow.
_MAX_EXPONENT = 700.0


def logs(distributions: ArrayLike) -> FloatArray:
    """Returns the natural logarithm of each probability, which is minus infinity for 0, in the same shape."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(distributions), dtype=np.float64)


def renyi(
    log_first_laws: FloatArray, log_second_laws: FloatArray, renyi_orders: ArrayLike
) -> FloatArray:
    """Returns the Renyi divergence D_a(P || Q) of N pairs of distributions, `[N, len(renyi_orders)]`.

    It is infinity if an outcome is possible under P alone.

    Args:
        log_first_laws: logarithms of the probabilities of the first distribution P of each pair, `[N, n]`.
        log_second_laws: those of the second distribution Q, over the same n outcomes, `[N, n]`.
        renyi_orders: the Renyi orders a > 1.
    """
    with np.errstate(invalid="ignore"):
        # The ratio is infinite for an outcome that is possible under P alone.
        log_ratios = np.where(np.isneginf(log_first_laws), 0.0, log_first_laws - log_second_laws)
    order_array = np.atleast_1d(np.asarray(renyi_orders, dtype=np.float64))
    divergences = np.empty((len(log_first_laws), len(order_array)))
    log_laws = log_first_laws
    outcome_axis = 1
    if log_laws.shape[0] > log_laws.shape[1]:
        # numpy is slow on many short rows, so the longer axis, that of the pairs, becomes the last one.
        log_laws = np.ascontiguousarray(log_laws.T)
        log_ratios = np.ascontiguousarray(log_ratios.T)
        outcome_axis = 0
    for column, order in enumerate(order_array):
        log_terms = log_laws + (order - 1) * log_ratios
        log_peaks = log_terms.max(axis=outcome_axis, keepdims=True)
        with np.errstate(invalid="ignore"):
            log_totals = log_peaks + np.log(
                np.exp(log_terms - log_peaks).sum(axis=outcome_axis, keepdims=True)
            )
        log_totals[np.isposinf(log_peaks)] = np.inf
        divergences[:, column] = log_totals.ravel() / (order - 1)
    return np.maximum(divergences, 0.0)


def hockey_stick(
    first_laws: FloatArray, second_laws: FloatArray, epsilons: ArrayLike
) -> FloatArray:
    """Returns the hockey-stick divergence (delta) of N pairs of distributions, `[N, len(epsilons)]`.

    The delta at epsilon is the largest P(S) - e^epsilon Q(S) over all events S.

    Args:
        first_laws: the first distribution P of each pair, `[N, n]`.
        second_laws: the second distribution Q of each pair, over the same n outcomes, `[N, n]`.
        epsilons: the epsilons >= 0.
    """
    exp_epsilons = [
        math.exp(min(epsilon, _MAX_EXPONENT))
        for epsilon in np.atleast_1d(np.asarray(epsilons)).tolist()
    ]
    deltas = [
        np.maximum(first_laws - exp_epsilon * second_laws, 0.0).sum(axis=1)
        for exp_epsilon in exp_epsilons
    ]
    return np.array(deltas).reshape(len(exp_epsilons), len(first_laws)).T


def without_failures(
    first_laws: FloatArray, second_laws: FloatArray, failure_prob: float
) -> tuple[FloatArray, FloatArray]:
    """Returns N pairs of distributions, `[N, n]` each, in which a failure event was removed from both distributions.

    A price with a failure probability must hold only after an event of probability `failure_prob` is removed from each
    distribution. The returned pair results from the best choice of these events: among all distributions
    A <= P / (1 - failure_prob) and A' <= Q / (1 - failure_prob) it has the smallest hockey-stick and Renyi
    divergences, all at once and in both directions (docs/proofs/verification.md). So the price holds for the given pair
    exactly if it holds, without failures, for the returned pair.

    Args:
        first_laws: the first distribution P of each pair, `[N, n]`.
        second_laws: the second distribution Q of each pair, over the same n outcomes, `[N, n]`.
        failure_prob: the probability of the removed event, in [0, 1).
    """
    if failure_prob == 0:
        return first_laws, second_laws
    removed_prob = failure_prob * (1 + RELATIVE_SLACK) + SLACK
    with np.errstate(divide="ignore", invalid="ignore"):
        outcome_order = np.argsort(
            np.nan_to_num(-(first_laws / second_laws), nan=-1.0, neginf=-np.inf), axis=1
        )
        upper_cap = _cap(
            numerator_laws=np.take_along_axis(first_laws, outcome_order, axis=1),
            denominator_laws=np.take_along_axis(second_laws, outcome_order, axis=1),
            removed_prob=removed_prob,
        )
        outcome_order = outcome_order[:, ::-1]
        lower_cap = _cap(
            numerator_laws=np.take_along_axis(second_laws, outcome_order, axis=1),
            denominator_laws=np.take_along_axis(first_laws, outcome_order, axis=1),
            removed_prob=removed_prob,
        )
        kept_first = np.where(
            np.isinf(upper_cap), first_laws, np.minimum(first_laws, upper_cap * second_laws)
        )
        kept_second = np.where(
            np.isinf(lower_cap), second_laws, np.minimum(second_laws, lower_cap * first_laws)
        )
    near = ((upper_cap <= 1) | (lower_cap <= 1))[:, 0]
    common_laws = np.minimum(first_laws, second_laws)
    kept_first[near] = common_laws[near]
    kept_second[near] = common_laws[near]
    return kept_first / kept_first.sum(axis=1, keepdims=True), kept_second / kept_second.sum(
        axis=1, keepdims=True
    )


def _cap(
    numerator_laws: FloatArray, denominator_laws: FloatArray, removed_prob: float
) -> FloatArray:
    """Returns the ratio c, `[N, 1]`, at which the hockey-stick divergence at epsilon = log c is `removed_prob`.

    c is 0 if the divergence is below `removed_prob` at every c, and infinity if it is above at every c.

    Args:
        numerator_laws: the distributions in the numerator, with outcomes in falling order of the ratio, `[N, n]`.
        denominator_laws: the distributions in the denominator, in the same order, `[N, n]`.
        removed_prob: the probability of the removed event.
    """
    # The columns stand in falling order of the ratio, so the hockey stick is the largest over prefixes of
    # P(prefix) - c Q(prefix), and c is the largest of their roots.
    numerator_excess = np.cumsum(numerator_laws, axis=1) - removed_prob
    denominator_up_to = np.cumsum(denominator_laws, axis=1)
    ratio_roots = np.where(
        numerator_excess > 0,
        np.where(denominator_up_to > 0, numerator_excess / denominator_up_to, np.inf),
        0.0,
    )
    return np.asarray(ratio_roots.max(axis=1, keepdims=True))
