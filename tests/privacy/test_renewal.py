"""Renewal: a release that starts from one of other people costs each person the release that holds their records.

The laws are exact. A cohort is two people, who each vote -1, 0 or 1. The first release is the sum of their votes plus
rounded Gaussian noise. What the second one asks, how far it clips and how much noise it adds are functions of the
first: as the start of rounds decides the student, the clip and the noise of the second release.
"""

from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from pate.accounting import GaussianEvent
from pate.array_types import FloatArray
from tests.privacy.divergences import assert_covered, assert_refuted, largest_renyi, price_curve

Cohort = tuple[int, int]

MULTIPLIER = 2.0
OUTCOMES = np.arange(-20, 21)
COHORTS: list[Cohort] = list(product((-1, 0, 1), repeat=2))
PRICE_OF_ONE = GaussianEvent(noise_multiplier=MULTIPLIER)
PRICE_OF_BOTH = GaussianEvent(noise_multiplier=MULTIPLIER / np.sqrt(2))


def law_of_sum(total: int, clip: int) -> FloatArray:
    """Returns the probability of each of `OUTCOMES` for `total` plus rounded Gaussian noise.

    The standard deviation of the noise is 2 `clip` times `MULTIPLIER`.
    """
    std = MULTIPLIER * 2 * clip
    edges = np.append(OUTCOMES - 0.5, np.inf)
    edges[0] = -np.inf  # what lies beyond the outcomes counts as the last one
    return np.diff(norm.cdf((edges - total) / std))


def first_law(cohort: Cohort) -> FloatArray:
    """Returns the law of the first release, `[num_outcomes]`."""
    return law_of_sum(sum(cohort), clip=1)


def second_law(cohort: Cohort, first: int) -> FloatArray:
    """Returns the law of the second release after the outcome `first` of the first one.

    The outcome decides the sign of the question, and whether votes are doubled, with twice the clip.
    """
    clip = 1 + abs(first) % 2
    sign = 1 if first >= 0 else -1
    return law_of_sum(sign * clip * sum(cohort), clip=clip)


SECOND_LAWS = {
    cohort: np.stack([second_law(cohort, int(first)) for first in OUTCOMES]) for cohort in COHORTS
}


def law_of_both(cohort: Cohort, renewed_by: Cohort) -> FloatArray:
    """Returns the law of both releases together, of a cohort and of the one that renews it."""
    return (first_law(cohort)[:, None] * SECOND_LAWS[renewed_by]).ravel()


def neighbors(cohort: Cohort) -> list[Cohort]:
    """Returns the cohorts in which the vote of the first person is another one."""
    return [(vote, cohort[1]) for vote in (-1, 0, 1) if vote != cohort[0]]


def largest_divergence(pairs: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Returns the largest Renyi divergence of all pairs of laws, for each order."""
    first_laws, second_laws = (np.stack(laws) for laws in zip(*pairs, strict=True))
    return largest_renyi(first_laws, second_laws)


@pytest.mark.slow
def test_a_person_of_the_earlier_cohort_pays_the_first_release() -> None:
    """Whoever renews the model: the second release is post-processing of the first for its people."""
    pairs = [
        (law_of_both(cohort, renewed_by), law_of_both(neighbor, renewed_by))
        for cohort in COHORTS
        for neighbor in neighbors(cohort)
        for renewed_by in COHORTS
    ]
    assert assert_covered(largest_divergence(pairs), price_curve(PRICE_OF_ONE)) > 0.9


def test_a_person_of_the_later_cohort_pays_the_second_release() -> None:
    """Whatever the earlier release is: the second one has its own price for its people."""
    pairs = [
        (law_of_both(cohort, renewed_by), law_of_both(cohort, neighbor))
        for cohort in COHORTS
        for renewed_by in COHORTS
        for neighbor in neighbors(renewed_by)
    ]
    assert assert_covered(largest_divergence(pairs), price_curve(PRICE_OF_ONE)) > 0.9


@pytest.mark.slow
def test_a_person_in_both_cohorts_pays_both_releases() -> None:
    """The sum of both prices covers a person who votes twice, and the price of one release does not."""
    pairs = [
        (law_of_both(cohort, renewed_by), law_of_both(neighbor, other_neighbor))
        for cohort in COHORTS
        for neighbor in neighbors(cohort)
        for renewed_by in COHORTS
        for other_neighbor in neighbors(renewed_by)
    ]
    divergence = largest_divergence(pairs)
    assert assert_covered(divergence, price_curve(PRICE_OF_BOTH)) > 0.9
    assert_refuted(divergence, price_curve(PRICE_OF_ONE))
