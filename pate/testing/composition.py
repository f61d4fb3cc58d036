"""The composition of several independent releases on the same pair of neighboring data sets."""

import numpy as np

from pate.array_types import FloatArray
from pate.testing.divergences import logs
from pate.validation import require_count

# The number of intervals of the log-likelihood ratio, unless the caller passes another.
_NUM_CELLS = 1024
# Outcomes in a tail whose probabilities sum to at most this number do not widen the intervals.
_NEGLIGIBLE_PROB = 1e-20


def compose(
    first: FloatArray, second: FloatArray, count: int, *, num_cells: int = _NUM_CELLS
) -> tuple[FloatArray, FloatArray]:
    """Returns the distributions of `count` independent releases on two neighboring data sets, `[m]` each.

    Outcomes with nearly equal likelihood ratios are merged to one outcome. Merging is post-processing, so divergences
    of the merged distributions never exceed the true divergences, and a refutation by them is valid. Nothing is lost
    if no composition on the way has more than `num_cells` different ratios.

    Args:
        first: the distribution of one release on the first data set, `[n]`.
        second: the distribution of one release on the second data set, over the same outcomes, `[n]`.
        count: the number of releases, >= 1.
        num_cells: the number of intervals of the log-likelihood ratio; outcomes in the same interval are merged.
    """
    require_count("count", count)

    def product(
        one_pair_of_laws: tuple[FloatArray, FloatArray],
        other_pair_of_laws: tuple[FloatArray, FloatArray],
    ) -> tuple[FloatArray, FloatArray]:
        """Returns the pair of distributions of two independent releases together, after outcomes are merged.

        Args:
            one_pair_of_laws: the distributions of one release on the first and on the second data set.
            other_pair_of_laws: those of the other release.
        """
        one_first_law, one_second_law = one_pair_of_laws
        other_first_law, other_second_law = other_pair_of_laws
        return merge_outcomes(
            first_law=np.outer(one_first_law, other_first_law).ravel(),
            second_law=np.outer(one_second_law, other_second_law).ravel(),
            num_cells=num_cells,
        )

    # The distributions of 1, 2, 4, ... releases are multiplied as the binary digits of `count` say.
    power_pair_of_laws = merge_outcomes(first_law=first, second_law=second, num_cells=num_cells)
    composed_pair_of_laws = (np.ones(1), np.ones(1))
    remaining_count = count
    while remaining_count > 0:
        if remaining_count % 2 == 1:
            composed_pair_of_laws = product(composed_pair_of_laws, power_pair_of_laws)
        remaining_count //= 2
        if remaining_count > 0:
            power_pair_of_laws = product(power_pair_of_laws, power_pair_of_laws)
    return composed_pair_of_laws


def merge_outcomes(
    *, first_law: FloatArray, second_law: FloatArray, num_cells: int
) -> tuple[FloatArray, FloatArray]:
    """Merges outcomes with nearly equal likelihood ratios, and returns both distributions over the merged outcomes.

    Outcomes with equal ratios are merged. If more than `num_cells` ratios remain, outcomes are merged that lie in the
    same of `num_cells` intervals of the log-ratio. The intervals are equally wide, except for the first and the last,
    which have no outer end. Infinite ratios are never merged with finite ratios.

    Args:
        first_law: a distribution, `[n]`.
        second_law: a distribution over the same outcomes, `[n]`.
        num_cells: the number of intervals; up to two outcomes of infinite ratio come on top.
    """
    is_possible = (first_law > 0) | (second_law > 0)
    first_law = first_law[is_possible]
    second_law = second_law[is_possible]
    with np.errstate(invalid="ignore"):
        log_ratios = logs(first_law) - logs(second_law)
    merged_number_of_outcome = np.unique(np.round(log_ratios, 12), return_inverse=True)[1].reshape(
        -1
    )
    if merged_number_of_outcome.max() >= num_cells:
        order_by_ratio = np.argsort(log_ratios)
        sorted_log_ratios = log_ratios[order_by_ratio]
        sorted_probs = (first_law + second_law)[order_by_ratio]
        prob_up_to = np.cumsum(sorted_probs)
        prob_from = np.cumsum(sorted_probs[::-1])[::-1]
        is_likely = (prob_up_to > _NEGLIGIBLE_PROB) & (prob_from > _NEGLIGIBLE_PROB)
        likely_log_ratios = sorted_log_ratios[np.isfinite(sorted_log_ratios) & is_likely]
        interval_edges = np.linspace(likely_log_ratios[0], likely_log_ratios[-1], num_cells - 1)
        merged_number_of_outcome = 1 + np.searchsorted(interval_edges, log_ratios)
        merged_number_of_outcome[np.isneginf(log_ratios)] = 0
        merged_number_of_outcome[np.isposinf(log_ratios)] = num_cells + 1
    merged_first = np.bincount(merged_number_of_outcome, weights=first_law)
    merged_second = np.bincount(merged_number_of_outcome, weights=second_law)
    return np.asarray(merged_first, np.float64), np.asarray(merged_second, np.float64)
