"""The distributions of several releases on a pair of neighbors."""

import numpy as np

from pate.testing.divergences import Array, logs
from pate.validation import require_count

_CELLS = 1024
_NEGLIGIBLE = 1e-20


def compose(
    first: Array, second: Array, count: int, *, num_cells: int = _CELLS
) -> tuple[Array, Array]:
    """Returns the distributions `[m]` of `count` releases from those of one, `[n]`; nearly equal ratios are merged.

    Merging is a function of the outcome, so no divergence of the merged distributions exceeds that of the true ones: a
    refutation by merged distributions holds. Nothing is lost with at most `num_cells` different ratios.
    """
    require_count("count", count)

    def product(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
        return merged(
            np.outer(one[0], other[0]).ravel(), np.outer(one[1], other[1]).ravel(), num_cells
        )

    base = merged(first, second, num_cells)
    result = (np.ones(1), np.ones(1))
    while count:
        if count % 2:
            result = product(result, base)
        count //= 2
        if count:
            base = product(base, base)
    return result


def merged(first: Array, second: Array, num_cells: int) -> tuple[Array, Array]:
    """Merges outcomes with equal ratios, and then outcomes in the same one of `num_cells` cells of the log-ratio.

    Cells are equally wide and cover all ratios that have mass. Infinite ratios have cells of their own.
    """
    has_mass = (first > 0) | (second > 0)
    first = first[has_mass]
    second = second[has_mass]
    with np.errstate(invalid="ignore"):
        ratio = logs(first) - logs(second)
    cells = np.unique(np.round(ratio, 12), return_inverse=True)[1].reshape(-1)
    if cells.max() >= num_cells:
        order = np.argsort(ratio)
        mass = (first + second)[order]
        is_likely = (np.cumsum(mass) > _NEGLIGIBLE) & (np.cumsum(mass[::-1])[::-1] > _NEGLIGIBLE)
        likely_ratios = ratio[order][np.isfinite(ratio[order]) & is_likely]
        cells = 1 + np.searchsorted(
            np.linspace(likely_ratios[0], likely_ratios[-1], num_cells - 1), ratio
        )
        cells = np.where(np.isneginf(ratio), 0, np.where(np.isposinf(ratio), num_cells + 1, cells))
    first, second = (
        np.asarray(np.bincount(cells, mass), dtype=np.float64) for mass in (first, second)
    )
    return first, second
