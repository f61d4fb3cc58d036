"""Chi-square comparison of drawn outcomes with an exact distribution."""

from collections.abc import Hashable, Mapping

from scipy.stats import chi2

_SMALLEST_EXPECTED = 10.0


def chi_square_p_value(
    count_by_outcome: Mapping[Hashable, int], prob_by_outcome: Mapping[Hashable, float]
) -> float:
    """Returns the p-value of a chi-square test of counted outcomes against an exact distribution.

    Rare outcomes are pooled; an impossible outcome gives 0.
    """
    total = sum(count_by_outcome.values())
    if any(prob_by_outcome.get(outcome, 0.0) == 0 for outcome in count_by_outcome):
        return 0.0
    pooled_count = 0.0
    pooled_expected = 0.0
    statistic = 0.0
    cells = 0
    for outcome, probability in prob_by_outcome.items():
        expected = total * probability
        count = count_by_outcome.get(outcome, 0)
        if expected < _SMALLEST_EXPECTED:
            pooled_count = pooled_count + count
            pooled_expected = pooled_expected + expected
        else:
            statistic = statistic + (count - expected) ** 2 / expected
            cells = cells + 1
    if pooled_expected > 0:
        statistic = statistic + (pooled_count - pooled_expected) ** 2 / max(pooled_expected, 1.0)
        cells = cells + 1
    return float(chi2.sf(statistic, max(cells - 1, 1)))
