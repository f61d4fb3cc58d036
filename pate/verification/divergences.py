"""Divergences between pairs of finite distributions, row by row, and the distributions of several releases."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.validation import require_count

Array = NDArray[np.float64]

SLACK = 1e-13
"""Absolute: differences of sums of probabilities below it are rounding."""
RELATIVE_SLACK = 1e-9
_LARGEST_EXPONENT = 700.0
_CELLS = 1024
_NEGLIGIBLE = 1e-20


def logs(distributions: ArrayLike) -> Array:
    """Logarithms of probabilities, minus infinity for 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(distributions), dtype=np.float64)


def renyi(log_first: Array, log_second: Array, orders: ArrayLike) -> Array:
    """D_a(first || second) at every order > 1, `[N, len(orders)]`, from logarithms of distributions, `[N, n]` each."""
    with np.errstate(invalid="ignore"):
        ratio = np.where(np.isneginf(log_first), 0.0, log_first - log_second)  # infinite where only first has mass
    columns = []
    for order in np.atleast_1d(np.asarray(orders, dtype=np.float64)):
        terms = log_first + (order - 1) * ratio
        peak = terms.max(axis=1)
        with np.errstate(invalid="ignore"):
            total = peak + np.log(np.exp(terms - peak[:, None]).sum(axis=1))
        divergence = np.where(np.isposinf(peak), np.inf, total) / (order - 1)
        columns.append(np.maximum(divergence, 0.0))
    return np.stack(columns, axis=1) if columns else np.zeros((len(log_first), 0))


def hockey_stick(first: Array, second: Array, epsilons: ArrayLike) -> Array:
    """The delta of each pair of distributions `[N, n]` at every epsilon: `[N, len(epsilons)]`.

    That is the largest P(S) - e^epsilon Q(S) over events, P being `first`.
    """
    factors = [math.exp(min(epsilon, _LARGEST_EXPONENT)) for epsilon in np.atleast_1d(np.asarray(epsilons)).tolist()]
    columns = [np.maximum(first - factor * second, 0.0).sum(axis=1) for factor in factors]
    return np.stack(columns, axis=1) if columns else np.zeros((len(first), 0))


def trimmed(first: Array, second: Array, failure_prob: float) -> tuple[Array, Array]:
    """The nearest distributions that are left when each side may give up an event of probability `failure_prob`.

    Of all A <= first / (1 - failure_prob) and A' <= second / (1 - failure_prob), the pair returned is the closest in
    every hockey-stick and Renyi divergence at once, both ways round (docs/proofs/verification.md). So a price outside
    of a failure holds for a pair of distributions exactly if it holds for their trimmed pair. One per row, `[N, n]`.
    """
    if failure_prob == 0:
        return first, second
    given_up = failure_prob * (1 + RELATIVE_SLACK) + SLACK
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(np.nan_to_num(-(first / second), nan=-1.0, neginf=-np.inf), axis=1)
        upper = _cap(np.take_along_axis(first, order, 1), np.take_along_axis(second, order, 1), given_up)
        order = order[:, ::-1]
        lower = _cap(np.take_along_axis(second, order, 1), np.take_along_axis(first, order, 1), given_up)
        kept_first = np.where(np.isinf(upper), first, np.minimum(first, upper * second))
        kept_second = np.where(np.isinf(lower), second, np.minimum(second, lower * first))
    near = ((upper <= 1) | (lower <= 1))[:, 0]
    common = np.minimum(first, second)
    kept_first[near], kept_second[near] = common[near], common[near]
    return kept_first / kept_first.sum(axis=1, keepdims=True), kept_second / kept_second.sum(axis=1, keepdims=True)


def _cap(falling: Array, other: Array, given_up: float) -> Array:
    """The ratio c at which the sum of min(falling, c other) is 1 - given_up, the hockey stick given_up: `[N, 1]`."""
    # The columns stand in falling order of the ratio, so the hockey stick is the largest over prefixes of
    # P(prefix) - c Q(prefix), and c is the largest of their roots.
    excess = np.cumsum(falling, axis=1) - given_up
    below = np.cumsum(other, axis=1)
    roots = np.where(excess > 0, np.where(below > 0, excess / below, np.inf), 0.0)
    return np.asarray(roots.max(axis=1, keepdims=True))


def compose(first: Array, second: Array, count: int, *, num_cells: int = _CELLS) -> tuple[Array, Array]:
    """The distributions `[m]` of `count` releases from those of one, `[n]`; nearly equal ratios are merged.

    Merging is a function of the outcome, so no divergence of the merged distributions exceeds that of the true ones:
    what they refute is refuted. Nothing is lost while at most `num_cells` different ratios occur.
    """
    require_count("count", count)

    def product(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
        p, q = (np.outer(x, y).ravel() for x, y in zip(one, other, strict=True))
        return merged(p, q, num_cells)

    base, result = merged(first, second, num_cells), (np.ones(1), np.ones(1))
    while count:
        if count % 2:
            result = product(result, base)
        count //= 2
        if count:
            base = product(base, base)
    return result


def merged(first: Array, second: Array, num_cells: int) -> tuple[Array, Array]:
    """Outcomes with equal ratios made one, and then those in the same of `num_cells` equal cells of the log-ratio.

    The cells are those of ratios that have mass; infinite ones have cells of their own.
    """
    seen = (first > 0) | (second > 0)
    first, second = first[seen], second[seen]
    with np.errstate(invalid="ignore"):
        ratio = logs(first) - logs(second)
    cells = np.unique(np.round(ratio, 12), return_inverse=True)[1].reshape(-1)
    if cells.max() >= num_cells:
        order = np.argsort(ratio)
        mass = (first + second)[order]
        kept = (np.cumsum(mass) > _NEGLIGIBLE) & (np.cumsum(mass[::-1])[::-1] > _NEGLIGIBLE)
        likely = ratio[order][np.isfinite(ratio[order]) & kept]
        cells = 1 + np.searchsorted(np.linspace(likely[0], likely[-1], num_cells - 1), ratio)
        cells = np.where(np.isneginf(ratio), 0, np.where(np.isposinf(ratio), num_cells + 1, cells))
    sums = [np.asarray(np.bincount(cells, mass), dtype=np.float64) for mass in (first, second)]
    return sums[0], sums[1]
