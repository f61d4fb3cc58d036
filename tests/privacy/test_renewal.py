"""If a release starts from one on other people, each person pays only for the release that holds their records.

The laws are exact. A cohort is two people, who each vote -1, 0 or 1. The first release is the sum of their votes plus
rounded Gaussian noise. Its outcome decides what the second release asks, how it clips and how much noise it adds, just
as the start of rounds decides the student, clip and noise.
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


def noisy_sum_law(vote_sum: int, clip: int) -> FloatArray:
    """Returns the probability of each of `OUTCOMES`, which are a sum of votes plus rounded Gaussian noise.

    The standard deviation of the noise is 2 `clip` times `MULTIPLIER`. Sums beyond the outcomes count as the outermost
    ones.
    """
    noise_std = MULTIPLIER * 2 * clip
    edges = np.append(OUTCOMES - 0.5, np.inf)
    edges[0] = -np.inf  # what lies beyond the outcomes counts as the outermost one
    return np.diff(norm.cdf((edges - vote_sum) / noise_std))


def first_release_law(cohort: Cohort) -> FloatArray:
    """Returns the law of the first release, `[num_outcomes]`."""
    return noisy_sum_law(vote_sum=sum(cohort), clip=1)


def second_release_law(cohort: Cohort, first_outcome: int) -> FloatArray:
    """Returns the law of the second release after an outcome of the first one, `[num_outcomes]`.

    The outcome decides the sign of the votes, and whether votes and clip are doubled.
    """
    clip = 1 + abs(first_outcome) % 2
    sign = 1 if first_outcome >= 0 else -1
    return noisy_sum_law(vote_sum=sign * clip * sum(cohort), clip=clip)


SECOND_LAWS_OF_COHORTS = {
    cohort: np.stack(
        [second_release_law(cohort, first_outcome=outcome) for outcome in OUTCOMES.tolist()]
    )
    for cohort in COHORTS
}
"""The laws of each cohort's second release, by the outcome of the first release, `[num_outcomes, num_outcomes]`."""


def law_of_both(cohort: Cohort, *, later_cohort: Cohort) -> FloatArray:
    """Returns the law of both releases together, of a first cohort and of the one that renews its student."""
    return (first_release_law(cohort)[:, None] * SECOND_LAWS_OF_COHORTS[later_cohort]).ravel()


def neighbors(cohort: Cohort) -> list[Cohort]:
    """Returns the cohorts in which the first person votes otherwise."""
    return [(vote, cohort[1]) for vote in (-1, 0, 1) if vote != cohort[0]]


def largest_divergence(pairs: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Returns the largest Renyi divergence of all pairs of laws, for each order."""
    return largest_renyi(
        first_laws=np.stack([first_law for first_law, _ in pairs]),
        second_laws=np.stack([second_law for _, second_law in pairs]),
    )


@pytest.mark.slow
def test_a_person_of_the_earlier_cohort_pays_the_first_release() -> None:
    """For a person of the first cohort, both releases together cost at most the price of the first one.

    For them the second release is post-processing. Over 90% of the price is attained.
    """
    pairs = [
        (law_of_both(cohort, later_cohort=later), law_of_both(neighbor, later_cohort=later))
        for cohort in COHORTS
        for neighbor in neighbors(cohort)
        for later in COHORTS
    ]
    renyi_divergence = largest_divergence(pairs)
    assert (
        assert_covered(renyi_divergence=renyi_divergence, renyi_price=price_curve(PRICE_OF_ONE))
        > 0.9
    )


def test_a_person_of_the_later_cohort_pays_the_second_release() -> None:
    """For a person of the second cohort, both releases together cost at most the price of the second one.

    The largest Renyi divergence of both releases exceeds 90% of this price at some Renyi order.
    """
    pairs = [
        (law_of_both(cohort, later_cohort=later), law_of_both(cohort, later_cohort=later_neighbor))
        for cohort in COHORTS
        for later in COHORTS
        for later_neighbor in neighbors(later)
    ]
    renyi_divergence = largest_divergence(pairs)
    assert (
        assert_covered(renyi_divergence=renyi_divergence, renyi_price=price_curve(PRICE_OF_ONE))
        > 0.9
    )


@pytest.mark.slow
def test_a_person_in_both_cohorts_pays_both_releases() -> None:
    """A person in both cohorts pays at most the price of both releases together, and more than that of one."""
    pairs = [
        (
            law_of_both(cohort, later_cohort=later),
            law_of_both(neighbor, later_cohort=later_neighbor),
        )
        for cohort in COHORTS
        for neighbor in neighbors(cohort)
        for later in COHORTS
        for later_neighbor in neighbors(later)
    ]
    renyi_divergence = largest_divergence(pairs)
    assert (
        assert_covered(renyi_divergence=renyi_divergence, renyi_price=price_curve(PRICE_OF_BOTH))
        > 0.9
    )
    assert_refuted(renyi_divergence=renyi_divergence, renyi_price=price_curve(PRICE_OF_ONE))
