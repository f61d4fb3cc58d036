"""Several independent releases of one pair of distributions, with outcomes merged so that their number stays small."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pate.validation import require_count
from pate.verification.divergences import logs

Array = NDArray[np.float64]

_CELLS = 1024
_NEGLIGIBLE = 1e-20


def compose(first: Array, second: Array, count: int, *, num_cells: int = _CELLS) -> tuple[Array, Array]:
    """The distributions `[m]` of `count` releases from those of one, `[n]`; nearly equal ratios are merged.

    Merging is a function of the outcome, so no divergence of the merged distributions exceeds that of the true ones:
    what they refute is refuted. Nothing is lost while at most `num_cells` different ratios occur.

    Args:
        first: probabilities `[n]` of one release.
        second: the same for the neighbor, `[n]`.
        count: how many independent releases, >= 1.
        num_cells: the most outcomes that are kept.
    """
    require_count("count", count)
    base = merged(first, second, num_cells)
    result = (np.ones(1), np.ones(1))
    while count:
        if count % 2:
            result = _product(result, base, num_cells)
        count //= 2
        if count:
            base = _product(base, base, num_cells)
    return result


def merged(first: Array, second: Array, num_cells: int) -> tuple[Array, Array]:
    """Outcomes with equal ratios made one, and then those in the same of `num_cells` cells of the log-ratio."""
    seen = (first > 0) | (second > 0)
    first, second = first[seen], second[seen]
    with np.errstate(invalid="ignore"):
        ratio = logs(first) - logs(second)
    cells = np.unique(np.round(ratio, 12), return_inverse=True)[1].reshape(-1)
    if cells.max() >= num_cells:
        cells = _cells_of(ratio, first + second, num_cells)
    return _sums(cells, first), _sums(cells, second)


def _product(one: tuple[Array, Array], other: tuple[Array, Array], num_cells: int) -> tuple[Array, Array]:
    return merged(np.outer(one[0], other[0]).ravel(), np.outer(one[1], other[1]).ravel(), num_cells)


def _cells_of(ratio: Array, mass: Array, num_cells: int) -> NDArray[np.int64]:
    """Equal cells over the log-ratios that have mass; infinite ones have cells of their own."""
    order = np.argsort(ratio)
    finite = np.isfinite(ratio[order])
    below, above = np.cumsum(mass[order]), np.cumsum(mass[order][::-1])[::-1]
    likely = ratio[order][finite & (below > _NEGLIGIBLE) & (above > _NEGLIGIBLE)]
    edges = np.linspace(likely[0], likely[-1], num_cells - 1)
    cells = 1 + np.searchsorted(edges, ratio)
    return np.where(np.isneginf(ratio), 0, np.where(np.isposinf(ratio), num_cells + 1, cells))


def _sums(cells: NDArray[np.int64], mass: Array) -> Array:
    return np.asarray(np.bincount(cells, weights=mass, minlength=int(cells.max()) + 1), dtype=np.float64)
