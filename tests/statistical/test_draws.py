"""Draws with a fixed seed follow exact distributions, and most tests reject the distributions for other noise."""

import dataclasses
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from pate.aggregators import GaussianVotes, StableFixedTopK, StableTopK
from pate.mechanisms import GapSelection, StabilityTest, optimal_stability_table
from pate.mechanisms.gap_selection import SELECTION_NOISES
from tests.privacy.histograms import gaps_of
from tests.privacy.rival_distributions import selection_distribution
from tests.statistical.chi_square import chi_square_p_value

DRAWS = 200_000
VOTE_COUNTS = np.array([15, 12, 12, 7, 1])
NUM_TEACHERS = 16
ACCEPTED = 1e-4
REJECTED = 1e-12


def prefer_three(k: int) -> float:
    """Returns the utility that a regularizer adds to a set of k labels, which is largest for three labels."""
    return -2.0 * abs(k - 3)


GUMBEL = StableTopK(selection_scale=3.0, test_std=1.0, failure_prob=0.01)
AGGREGATORS: dict[str, StableTopK] = {
    "gumbel": GUMBEL,
    "gaussian": dataclasses.replace(GUMBEL, selection_noise="gaussian"),
    "laplace": dataclasses.replace(
        GUMBEL, selection_noise="laplace", test="laplace", failure_prob=0.05
    ),
    "exponential": dataclasses.replace(GUMBEL, selection_noise="exponential"),
    "table": dataclasses.replace(
        GUMBEL, test="table", table_order=3.0, table_budget=2.0, failure_prob=0.05
    ),
    "padded": dataclasses.replace(GUMBEL, padded=True),
    "regularized": dataclasses.replace(GUMBEL, regularizer=prefer_three),
}


def counts_of(values: np.ndarray) -> dict[int, int]:
    """Returns the number of times that each value occurs in an array."""
    different_values, counts = np.unique(values, return_counts=True)
    return dict(zip(different_values.tolist(), counts.tolist(), strict=True))


def drawn_sets(aggregator: Any, draws: int = DRAWS) -> Counter[Any]:
    """Returns the number of times that each set of labels was released; None stands for a refusal."""
    rng = np.random.default_rng(1)
    vote_counts = np.tile(VOTE_COUNTS, (draws, 1))
    release = aggregator.aggregate(vote_counts, num_teachers=NUM_TEACHERS, rng=rng)
    count_by_code = counts_of(
        np.where(release.answered, release.labels @ (1 << np.arange(len(VOTE_COUNTS))), -1)
    )
    set_by_code = {
        code: tuple(label for label in range(len(VOTE_COUNTS)) if code >> label & 1)
        for code in count_by_code
    }
    return Counter(
        {None if code < 0 else set_by_code[code]: count for code, count in count_by_code.items()}
    )


@pytest.mark.slow
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("noise", SELECTION_NOISES)
def test_drawn_k_follows_the_exact_distribution_and_not_that_of_another_scale(
    noise: str, padded: bool
) -> None:
    """The sizes k that a gap selection draws follow its exact distribution by a chi-square test.

    Distributions with a noise scale 10% smaller or larger are rejected.
    """
    selection = GapSelection(
        noise_scale=3.0, noise=noise, num_labels=5, num_teachers=NUM_TEACHERS, padded=padded
    )
    drawn = counts_of(selection(np.tile(VOTE_COUNTS, (DRAWS, 1)), rng=np.random.default_rng(1)))
    gaps = gaps_of(VOTE_COUNTS[None], num_teachers=NUM_TEACHERS, padded=padded)
    for scale, fits in ((3.0, True), (2.7, False), (3.3, False)):
        distribution = dict(
            zip(
                selection.candidates.tolist(),
                selection_distribution(noise, utilities=gaps, noise_scale=scale)[0].tolist(),
                strict=True,
            )
        )
        p = chi_square_p_value(count_by_outcome=drawn, prob_by_outcome=distribution)
        assert p > ACCEPTED if fits else p < REJECTED


@pytest.mark.parametrize("name", AGGREGATORS)
def test_released_sets_follow_the_exact_distribution_and_not_that_of_another_scale(
    name: str,
) -> None:
    """The sets that a variant of stable top-k releases follow its exact distribution by a chi-square test.

    Distributions for another noise scale or another failure probability are rejected.
    """
    aggregator = AGGREGATORS[name]
    drawn = drawn_sets(aggregator)
    assert (
        chi_square_p_value(
            count_by_outcome=drawn,
            prob_by_outcome=aggregator.distribution(VOTE_COUNTS, num_teachers=NUM_TEACHERS),
        )
        > ACCEPTED
    )
    for wrong in (
        dataclasses.replace(aggregator, selection_scale=2.7),
        dataclasses.replace(aggregator, failure_prob=1.5 * aggregator.failure_prob),
    ):
        assert (
            chi_square_p_value(
                count_by_outcome=drawn,
                prob_by_outcome=wrong.distribution(VOTE_COUNTS, num_teachers=NUM_TEACHERS),
            )
            < REJECTED
        )


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 3])
def test_sets_of_a_fixed_size_follow_the_exact_distribution_and_not_that_of_another_scale(
    k: int,
) -> None:
    """Released sets of k labels follow their exact distribution by a chi-square test; four other settings are rejected.

    Most stable sets have four labels here, of which k are picked. Over a third of the queries have no stable set, and k
    labels are picked from all five.
    """
    aggregator = StableFixedTopK(
        k=k, selection_scale=3.0, test_std=1.5, failure_prob=0.05, peel_scale=8.0
    )
    drawn = drawn_sets(aggregator, draws=3 * DRAWS if k == 1 else DRAWS)
    assert (
        chi_square_p_value(
            count_by_outcome=drawn,
            prob_by_outcome=aggregator.distribution(VOTE_COUNTS, num_teachers=NUM_TEACHERS),
        )
        > ACCEPTED
    )
    for wrong in (
        dataclasses.replace(aggregator, selection_scale=2.4),
        dataclasses.replace(aggregator, peel_scale=7.2),
        dataclasses.replace(aggregator, test_std=1.2),
        dataclasses.replace(aggregator, penalty=1.0),
    ):
        distribution = wrong.distribution(VOTE_COUNTS, num_teachers=NUM_TEACHERS)
        assert chi_square_p_value(count_by_outcome=drawn, prob_by_outcome=distribution) < REJECTED


@pytest.mark.parametrize("make", [StabilityTest.gaussian, StabilityTest.laplace])
def test_passes_follow_the_test_s_probabilities_and_not_those_of_another_std(make: Any) -> None:
    """A stability test passes as often as its pass probability at each gap, within 4.5 standard deviations.

    For some gap this frequency is over 10 standard deviations from the probability with 10% more noise.
    """
    test = make(test_std=2.0, failure_prob=0.02, num_teachers=12)
    wrong = make(test_std=2.2, failure_prob=0.02, num_teachers=12)
    gaps = np.arange(13)
    passes = test(np.tile(gaps, (DRAWS, 1)), rng=np.random.default_rng(2)).mean(axis=0)
    expected = test.pass_probabilities(gaps)
    sigma = np.sqrt(expected * (1 - expected) / DRAWS)
    assert (np.abs(passes - expected) <= 4.5 * sigma + 1e-12).all()
    assert (np.abs(passes - wrong.pass_probabilities(gaps)) > 10 * sigma)[5:9].any()


def test_passes_of_a_table_follow_its_levels() -> None:
    """A stability test by a table passes as often as the table says for each gap, within 4.5 standard deviations.

    The standard deviation is that of a probability of 1/2.
    """
    table = optimal_stability_table(order=3.0, rdp_budget=1.0, failure_prob=0.02, num_levels=10)
    test = StabilityTest.from_table(table, num_teachers=12)
    passes = test(np.tile(np.arange(13), (DRAWS, 1)), rng=np.random.default_rng(3)).mean(axis=0)
    level_of_gap = [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    expected = 1 / (1 + np.exp(-np.array(table.logits)))[level_of_gap]
    assert (np.abs(passes - expected) <= 4.5 * np.sqrt(0.25 / DRAWS)).all()


def test_bits_follow_the_normal_distribution_and_are_independent() -> None:
    """The released bits of three labels follow the product of their probabilities by a chi-square test.

    The counts of the labels differ. The distribution for 10% less noise is rejected.
    """
    vote_counts_of_a_query = np.array([8, 10, 5])
    vote_counts = np.tile(vote_counts_of_a_query, (DRAWS, 1))
    release = GaussianVotes(noise_std=3.0).aggregate(
        vote_counts, num_teachers=16, rng=np.random.default_rng(4)
    )
    count_by_code = counts_of(release.labels @ (1 << np.arange(3)))

    def distribution(std: float) -> dict[int, float]:
        one_probs = ndtr((vote_counts_of_a_query - 8) / std)
        return {
            code: math.prod(
                p if code >> label & 1 else 1 - p for label, p in enumerate(one_probs.tolist())
            )
            for code in range(8)
        }

    assert (
        chi_square_p_value(count_by_outcome=count_by_code, prob_by_outcome=distribution(std=3.0))
        > ACCEPTED
    )
    assert (
        chi_square_p_value(count_by_outcome=count_by_code, prob_by_outcome=distribution(std=2.7))
        < REJECTED
    )


def test_outcomes_of_neighboring_queries_are_independent() -> None:
    """Whether two consecutive queries are answered follows the product of both probabilities by a chi-square test."""
    aggregator = AGGREGATORS["gumbel"]
    release = aggregator.aggregate(
        np.tile(VOTE_COUNTS, (DRAWS, 1)), num_teachers=NUM_TEACHERS, rng=np.random.default_rng(5)
    )
    first = release.answered[0::2].astype(int)
    second = release.answered[1::2].astype(int)
    refusal_prob = aggregator.distribution(VOTE_COUNTS, num_teachers=NUM_TEACHERS)[None]
    answer_prob = 1 - refusal_prob
    probs = {0: refusal_prob, 1: answer_prob}
    distribution = {2 * a + b: probs[a] * probs[b] for a in (0, 1) for b in (0, 1)}
    assert (
        chi_square_p_value(
            count_by_outcome=counts_of(2 * first + second), prob_by_outcome=distribution
        )
        > ACCEPTED
    )
