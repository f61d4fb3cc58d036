"""Steps of docs/proofs/gap_selection.md."""

from itertools import combinations

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr, ndtri

from pate.accounting import OpposedMaximaEvent
from pate.accounting.noisy_maximum import opposite_maxima
from tests.privacy.divergences import largest_renyi, price_curve
from tests.privacy.rival_distributions import noisy_max_distribution

Array = np.ndarray


def reversed_hazard(x: Array) -> Array:
    """Returns the density of a standard normal at x, divided by its distribution function at x."""
    return np.exp(-0.5 * x * x - 0.5 * np.log(2 * np.pi) - log_ndtr(x))


def roc_up(tail_prob: Array, shift_in_stds: float, num_normals: int) -> Array:
    """Returns P[M + shift_in_stds > x] where P[M > x] = tail_prob, for M the largest of `num_normals` normals."""
    x = ndtri(np.exp(np.log1p(-tail_prob) / num_normals))
    return -np.expm1(num_normals * log_ndtr(x - shift_in_stds))


def roc_down(lower_tail_prob: Array, shift_in_stds: float, num_normals: int) -> Array:
    """Returns P[M - shift_in_stds <= x] where P[M <= x] = lower_tail_prob, for M the largest of that many normals."""
    x = ndtri(np.exp(np.log(lower_tail_prob) / num_normals))
    return np.exp(num_normals * log_ndtr(x + shift_in_stds))


def test_the_hazard_is_concave_in_the_level() -> None:
    """The normal's reversed hazard is concave as a function of the negative logarithm of the distribution function.

    Second differences on a grid show it.
    """
    x = np.linspace(-30, 8, 4001)
    hazards = reversed_hazard(x)
    assert (hazards * (x + hazards) < 1).all()
    levels = -log_ndtr(x)
    slopes = np.diff(hazards[::-1]) / np.diff(levels[::-1])
    assert (np.diff(slopes) < 1e-6 * np.abs(slopes[1:])).all()


def test_a_maximum_of_equal_normals_moves_the_fastest() -> None:
    """The maximum of normals with any means moves no faster than that of standard normals.

    Let y be such that the maximum of standard normals is below y as probably as this maximum is below t. Then y rises
    with t at a speed of at most 1, which equal means attain. There are as many standard normals, or three more.
    """
    rng = np.random.default_rng(0)
    largest_speed = 0.0
    for _ in range(200):
        num_normals = int(rng.integers(low=1, high=6))
        means = rng.normal(scale=rng.choice([0.0, 1.0, 5.0]), size=num_normals)
        t = np.linspace(means.max() - 4, means.max() + 4, 801)
        log_cdf = log_ndtr(t[:, None] - means).sum(axis=1)
        for num_standard_normals in (num_normals, num_normals + 3):
            y = ndtri(np.exp(log_cdf / num_standard_normals))
            speeds = np.diff(y) / np.diff(t)
            largest_speed = max(largest_speed, speeds.max())
    assert 0.999 < largest_speed < 1 + 1e-6


@pytest.mark.parametrize("seed", range(6))
def test_every_event_obeys_both_curves(seed: int) -> None:
    """If random utilities move, the probability that the winner is in a set stays within the curves of the proof.

    One curve moves the largest noisy utility in the set up by twice the sensitivity, the other one moves the largest
    outside down. The Renyi divergence of the winner after the move from the winner before is at most the price of an
    `OpposedMaximaEvent`.
    """
    rng = np.random.default_rng(seed)
    for _ in range(8):
        num_candidates = int(rng.integers(low=2, high=6))
        noise_std = 10 ** rng.uniform(low=0, high=1.2)
        sensitivity = int(rng.integers(low=1, high=3))
        utilities = rng.integers(low=-3, high=4, size=num_candidates).astype(float)
        utility_moves = rng.integers(low=-sensitivity, high=sensitivity + 1, size=num_candidates)
        law = noisy_max_distribution(utilities, noise_std=noise_std)
        moved_law = noisy_max_distribution(utilities + utility_moves, noise_std=noise_std)
        shift_in_stds = 2 * sensitivity / noise_std
        for size in range(1, num_candidates):
            for subset in combinations(range(num_candidates), size):
                prob = law[list(subset)].sum()
                moved_prob = moved_law[list(subset)].sum()
                tight = min(
                    roc_up(tail_prob=prob, shift_in_stds=shift_in_stds, num_normals=size),
                    roc_down(
                        lower_tail_prob=prob,
                        shift_in_stds=shift_in_stds,
                        num_normals=num_candidates - size,
                    ),
                )
                loose = min(
                    roc_up(
                        tail_prob=prob, shift_in_stds=shift_in_stds, num_normals=num_candidates - 1
                    ),
                    roc_down(
                        lower_tail_prob=prob,
                        shift_in_stds=shift_in_stds,
                        num_normals=num_candidates - 1,
                    ),
                )
                assert moved_prob <= tight * (1 + 1e-8)
                assert tight <= loose * (1 + 1e-8)
        orders = np.array([1.5, 4.0, 16.0])
        exact = largest_renyi(
            first_laws=moved_law[None], second_laws=law[None], renyi_orders=orders
        )
        event = OpposedMaximaEvent(
            noise_multiplier=noise_std / sensitivity, num_candidates=num_candidates
        )
        price = price_curve(event, renyi_orders=orders)
        assert (exact <= price + 1e-9).all()


def test_a_curve_for_half_the_shift_would_be_exceeded() -> None:
    """Negative control: if two utilities move by 1 in opposite directions, the curve for a shift of 1 is exceeded.

    The curve for a shift of 2 is not.
    """
    law, moved_law = (
        noisy_max_distribution(np.array(utilities), noise_std=1.0)
        for utilities in ([1.0, 1.0], [0.0, 2.0])
    )
    assert moved_law[1] > roc_up(tail_prob=law[1], shift_in_stds=1.0, num_normals=1) * 1.01
    assert moved_law[1] <= roc_up(tail_prob=law[1], shift_in_stds=2.0, num_normals=1)


def test_opposed_maxima_dominate_the_set_of_rising_utilities() -> None:
    """If four utilities rise and three fall, the event that a rising one wins is within the bound of `opposite_maxima`.

    The bound is the hockey stick at each epsilon of two noisy maxima that move apart, by step 6 of the proof. Negative
    control: the bound for a move of 0.3 in place of 0.4 is exceeded.
    """
    rng = np.random.default_rng(4)
    epsilons = np.linspace(-1.5, 1.5, 31)
    is_rising = np.arange(7) < 4
    utility_moves = np.where(is_rising, 0.4, -0.4)

    def rising_wins(utilities: Array) -> Array:
        """Returns the hockey stick at each epsilon for the set of all rising utilities as winners."""
        prob, moved_prob = (
            noisy_max_distribution(means, noise_std=1.0)[is_rising].sum()
            for means in (utilities, utilities + utility_moves)
        )
        return moved_prob - np.exp(epsilons) * prob

    bound, smaller_bound = (
        opposite_maxima(
            num_rising_normals=4,
            num_falling_normals=3,
            shift_of_maximum=shift_of_maximum,
            epsilons=epsilons,
        )
        for shift_of_maximum in (0.4, 0.3)
    )
    for _ in range(4):
        utility_by_candidate = rng.normal(scale=1.5, size=7)
        assert (rising_wins(utility_by_candidate) <= bound + 1e-12).all()
    tied_utilities = np.zeros(7)
    assert (rising_wins(tied_utilities) > smaller_bound).any()


def test_two_moving_normals_equal_one_that_moves_farther() -> None:
    """Two opposed normals that move by 0.5 each have the profile of one normal that moves by 0.5 * sqrt(2).

    The computed profile is at least the exact one, and at most 1e-4 above.
    """
    epsilons = np.linspace(-1.0, 2.0, 13)
    mu = 0.5 * np.sqrt(2)
    exact_deltas = ndtr(mu / 2 - epsilons / mu) - np.exp(epsilons) * ndtr(-mu / 2 - epsilons / mu)
    priced_deltas = opposite_maxima(
        num_rising_normals=1, num_falling_normals=1, shift_of_maximum=0.5, epsilons=epsilons
    )
    assert (priced_deltas >= exact_deltas).all()
    assert priced_deltas == pytest.approx(exact_deltas, abs=1e-4)
