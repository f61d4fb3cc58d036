"""The composition of several independent releases on the same pair of neighboring data sets."""

import numpy as np

from pate.array_types import FloatArray
from pate.testing.divergences import logs
from pate.validation import require_count

_CELLS = 1024
_NEGLIGIBLE = 1e-20


def compose(
    first: FloatArray, second: FloatArray, count: int, *, num_cells: int = _CELLS
) -> tuple[FloatArray, FloatArray]:
    """Returns the distributions of `count` independent releases on two neighboring data sets, `[m]` each.

    Outcomes with nearly equal likelihood ratios are merged to one outcome. Merging is post-processing, so divergences
    of the merged distributions never exceed the true divergences, and a refutation by them is valid. Nothing is lost
    if there are at most `num_cells` different ratios.

    Args:
        first: the distribution of one release on the first data set, `[n]`.
        second: the distribution of one release on the second data set, over the same outcomes, `[n]`.
        count: the number of releases, >= 1.
        num_cells: the number of intervals of the log-likelihood ratio; outcomes in the same interval are merged.
    """
    require_count("count", count)

    def product(
        one_pair: tuple[FloatArray, FloatArray], other_pair: tuple[FloatArray, FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        return merged(
            first_law=np.outer(one_pair[0], other_pair[0]).ravel(),
            second_law=np.outer(one_pair[1], other_pair[1]).ravel(),
            num_cells=num_cells,
        )

    # the distributions of 1, 2, 4, ... releases
    power_pair = merged(first_law=first, second_law=second, num_cells=num_cells)
    composed_pair = (np.ones(1), np.ones(1))
    while count:
        if count % 2:
            composed_pair = product(composed_pair, power_pair)
        count //= 2
        if count:
            power_pair = product(power_pair, power_pair)
    return composed_pair


def merged(
    first_law: FloatArray, second_law: FloatArray, num_cells: int
) -> tuple[FloatArray, FloatArray]:
    """Merges outcomes with nearly equal likelihood ratios, and returns both distributions over the merged outcomes.

    Outcomes with equal ratios are merged. If more than `num_cells` ratios remain, outcomes are merged that lie in the
    same of `num_cells` equally wide intervals of the log-ratio. Infinite ratios are never merged with finite ratios.

    Args:
        first_law: a distribution, `[n]`.
        second_law: a distribution over the same outcomes, `[n]`.
        num_cells: the number of intervals.
    """
    has_mass = (first_law > 0) | (second_law > 0)
    first_law = first_law[has_mass]
    second_law = second_law[has_mass]
    with np.errstate(invalid="ignore"):
        ratio = logs(first_law) - logs(second_law)
    cells = np.unique(np.round(ratio, 12), return_inverse=True)[1].reshape(-1)
    if cells.max() >= num_cells:
        order = np.argsort(ratio)
        mass = (first_law + second_law)[order]
        is_likely = (np.cumsum(mass) > _NEGLIGIBLE) & (np.cumsum(mass[::-1])[::-1] > _NEGLIGIBLE)
        likely_ratios = ratio[order][np.isfinite(ratio[order]) & is_likely]
        cells = 1 + np.searchsorted(
            np.linspace(likely_ratios[0], likely_ratios[-1], num_cells - 1), ratio
        )
        cells = np.where(np.isneginf(ratio), 0, np.where(np.isposinf(ratio), num_cells + 1, cells))
    first_law, second_law = (
        np.asarray(np.bincount(cells, mass), dtype=np.float64) for mass in (first_law, second_law)
    )
    return first_law, second_law
