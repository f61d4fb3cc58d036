"""Divergences between pairs of finite distributions, row by row, and their trimmed pairs."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
SLACK = 1e-13
"""Absolute: differences of sums of probabilities below it are rounding."""


RELATIVE_SLACK = 1e-9
_LARGEST_EXPONENT = 700.0


def logs(distributions: ArrayLike) -> Array:
    """Returns logarithms of probabilities, minus infinity for 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(distributions), dtype=np.float64)


def renyi(log_first: Array, log_second: Array, orders: ArrayLike) -> Array:
    """Returns D_a(first || second) at each order > 1, `[N, len(orders)]`, from logs of distributions, `[N, n]` each."""
    with np.errstate(invalid="ignore"):
        # infinite where only first has mass
        ratio = np.where(np.isneginf(log_first), 0.0, log_first - log_second)
    array = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    divergences = np.empty((len(log_first), len(array)))
    for place, order in enumerate(array):
        terms = log_first + (order - 1) * ratio
        peak = terms.max(axis=1)
        with np.errstate(invalid="ignore"):
            total = peak + np.log(np.exp(terms - peak[:, None]).sum(axis=1))
        divergences[:, place] = np.where(np.isposinf(peak), np.inf, total) / (order - 1)
    return np.maximum(divergences, 0.0)


def hockey_stick(first: Array, second: Array, epsilons: ArrayLike) -> Array:
    """Returns the delta of each pair of distributions `[N, n]` at each epsilon: `[N, len(epsilons)]`.

    The delta is the largest P(S) - e^epsilon Q(S) over events S, P being `first`.
    """
    factors = [
        math.exp(min(epsilon, _LARGEST_EXPONENT))
        for epsilon in np.atleast_1d(np.asarray(epsilons)).tolist()
    ]
    deltas = [np.maximum(first - factor * second, 0.0).sum(axis=1) for factor in factors]
    return np.array(deltas).reshape(len(factors), len(first)).T


def trimmed(first: Array, second: Array, failure_prob: float) -> tuple[Array, Array]:
    """Returns the nearest distributions, `[N, n]` each, after each side gave up an event of probability `failure_prob`.

    Of all A <= first / (1 - failure_prob) and A' <= second / (1 - failure_prob), the returned pair is the closest in
    every hockey-stick and Renyi divergence at once, in both directions (docs/proofs/verification.md). So a price
    outside of a failure holds for a pair of distributions exactly if it holds for their trimmed pair.
    """
    if failure_prob == 0:
        return first, second
    given_up = failure_prob * (1 + RELATIVE_SLACK) + SLACK
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.nan_to_num(-(first / second), nan=-1.0, neginf=-np.inf), axis=1)
        upper = _cap(
            np.take_along_axis(first, order, 1), np.take_along_axis(second, order, 1), given_up
        )
        order = order[:, ::-1]
        lower = _cap(
            np.take_along_axis(second, order, 1), np.take_along_axis(first, order, 1), given_up
        )
        kept_first = np.where(np.isinf(upper), first, np.minimum(first, upper * second))
        kept_second = np.where(np.isinf(lower), second, np.minimum(second, lower * first))
    near = ((upper <= 1) | (lower <= 1))[:, 0]
    common = np.minimum(first, second)
    kept_first[near] = common[near]
    kept_second[near] = common[near]
    return kept_first / kept_first.sum(axis=1, keepdims=True), kept_second / kept_second.sum(
        axis=1, keepdims=True
    )


def _cap(falling: Array, other: Array, given_up: float) -> Array:
    """Returns the ratio c, `[N, 1]`, at which the hockey-stick divergence at log c is `given_up`."""
    # The columns stand in falling order of the ratio, so the hockey stick is the largest over prefixes of
    # P(prefix) - c Q(prefix), and c is the largest of their roots.
    excess = np.cumsum(falling, axis=1) - given_up
    below = np.cumsum(other, axis=1)
    roots = np.where(excess > 0, np.where(below > 0, excess / below, np.inf), 0.0)
    return np.asarray(roots.max(axis=1, keepdims=True))
