"""PowersetGNMax releases sets as if every set of labels had noise of its own."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import kstest

from pate.aggregators import PowersetGNMax
from pate.mechanisms.noise.drawn_noise import draw_largest
from tests.privacy.rival_distributions import noisy_max_distribution
from tests.statistical.chi_square import chi_square_p_value

DRAWS = 60_000
ACCEPTED = 1e-4
REJECTED = 1e-12
VOTES = np.array([[1, 1, 0], [1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=bool)


@pytest.mark.slow
@pytest.mark.parametrize("max_size", [None, 2])
def test_released_sets_follow_the_distribution_of_noise_on_every_set(max_size: int | None) -> None:
    """Sets that powerset GNMax releases follow the distribution with noise on every set, by a chi-square test.

    Three sets have votes, the others none. 10% more or less noise is rejected.
    """
    votes = np.repeat(VOTES[:, None], DRAWS, axis=1)
    aggregator = PowersetGNMax(noise_std=1.0, max_size=max_size)
    release = aggregator.aggregate(votes, num_teachers=6, rng=np.random.default_rng(0))
    codes, counts = np.unique(release.labels @ [4, 2, 1], return_counts=True)
    drawn = dict(zip(codes.tolist(), counts.tolist(), strict=True))
    sets = [bits for bits in product((0, 1), repeat=3) if sum(bits) <= (max_size or 3)]
    votes_of_teachers = [tuple(vote) for vote in VOTES.astype(int).tolist()]
    votes_for_sets = [votes_of_teachers.count(bits) for bits in sets]
    for noise_std, fits in ((1.0, True), (0.9, False), (1.1, False)):
        distribution = noisy_max_distribution(np.array(votes_for_sets), noise_std)
        prob_of_code = {
            4 * a + 2 * b + c: prob
            for (a, b, c), prob in zip(sets, distribution.tolist(), strict=True)
        }
        p = chi_square_p_value(count_by_outcome=drawn, prob_by_outcome=prob_of_code)
        assert p > ACCEPTED if fits else p < REJECTED


@pytest.mark.parametrize("num_noises", [1, 3, 2**40, 2**3000])
def test_the_largest_of_many_normals_by_its_quantile(num_noises: int) -> None:
    """The largest of n normals is drawn with its exact distribution, for n up to 2^3000.

    By a Kolmogorov-Smirnov test, -n log Phi(x) is exponential for n below 2^50, and n (1 - Phi(x)) for larger n. A
    factor of 1.2 is rejected.
    """
    log_nums_of_noises = np.full((1, 5000), math.log(num_noises))
    drawn = draw_largest(
        noise_kind="gaussian",
        log_num_noises=log_nums_of_noises,
        count_noises=lambda row, place: num_noises,
        rng=np.random.default_rng(1),
    ).values[0]
    is_small_number = num_noises < 2**50
    exponents = (
        -num_noises * log_ndtr(drawn)
        if is_small_number
        else np.exp(math.log(num_noises) + log_ndtr(-drawn))
    )
    assert kstest(exponents, "expon").pvalue > ACCEPTED
    assert kstest(1.2 * exponents, "expon").pvalue < REJECTED


def test_only_sets_with_votes_are_released_if_every_set_has_votes() -> None:
    """If each of the two sets of one label has a vote and the noise is large, both are released in 20 draws."""
    votes = np.array([[[True]], [[False]]])
    aggregator = PowersetGNMax(noise_std=50.0)
    draws = [
        aggregator.aggregate(votes, num_teachers=2, rng=np.random.default_rng(seed))
        for seed in range(20)
    ]
    released = {bool(draw.labels) for draw in draws}
    assert released == {True, False}
