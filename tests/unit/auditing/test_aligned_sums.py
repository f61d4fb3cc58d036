"""A lower bound on mu from noisy sums with canaries keeps its confidence, and is close to the mu of the drawn noise.

A canary is a vector that is added to the sums, or subtracted, by a secret coin of +1 or -1; an attack guesses the
coins.
"""

import math

import numpy as np
import pytest

from pate.auditing.attack.aligned_sums import AlignedSums, CoinEvidence, linear_estimate

NUM_CANARIES = 60
NUM_ROUNDS = 8


def draw_sums_and_coins(
    rng: np.random.Generator,
    *,
    sum_noise_std: float = 1.0,
    move_factor: float = 1.0,
    dimension: int = 300,
) -> tuple[list[CoinEvidence], np.ndarray]:
    """Returns the noisy sums of one run and the coins of its canaries; the claimed noise has standard deviation 1.

    In each round, a canary adds a vector of length 1/2 times its coin; `move_factor` multiplies this length.
    """
    coins = rng.choice([-1.0, 1.0], NUM_CANARIES)
    sums = []
    for _ in range(NUM_ROUNDS):
        moves = rng.standard_normal((NUM_CANARIES, dimension))
        moves /= 2 * np.linalg.norm(moves, axis=1, keepdims=True)
        noisy = move_factor * coins @ moves + sum_noise_std * rng.standard_normal(dimension)
        sums.append(
            CoinEvidence(canary_gram=moves @ moves.T, canary_products_with_sum=moves @ noisy)
        )
    return sums, coins


def least_mu_of_attack(
    seed: int,
    *,
    confidence: float = 0.95,
    num_runs: int = 1,
    sum_noise_std: float = 1.0,
    move_factor: float = 1.0,
) -> float:
    """Returns the lower bound on mu of an attack with `num_runs` runs of `draw_sums_and_coins`."""
    rng = np.random.default_rng(seed)
    aligned = AlignedSums()
    for _ in range(num_runs):
        sums, coins = draw_sums_and_coins(rng, sum_noise_std=sum_noise_std, move_factor=move_factor)
        aligned.add_run(sums, coins)
    return aligned.least_mu(confidence=confidence)


@pytest.mark.slow
def test_bound_keeps_its_confidence() -> None:
    """At a confidence of 80%, fewer than 20 of 100 bounds exceed mu, and their median is above 0.8 mu.

    A canary moves the sum by 1 in each of 8 rounds, so mu is sqrt(8). At a confidence of 10%, over a fifth of 20 bounds
    exceed mu.
    """
    true_mu = math.sqrt(NUM_ROUNDS)
    mu_bounds = np.array([least_mu_of_attack(seed=seed, confidence=0.8) for seed in range(100)])
    assert (mu_bounds > true_mu).mean() < 0.2
    assert np.median(mu_bounds) > 0.8 * true_mu
    mu_bounds_of_low_confidence = np.array(
        [least_mu_of_attack(seed=seed, confidence=0.1) for seed in range(20)]
    )
    assert (mu_bounds_of_low_confidence > true_mu).mean() > 0.2


@pytest.mark.parametrize(
    ("sum_noise_std", "move_factor", "mu"),
    [
        (0.1, 1.0, 10 * math.sqrt(8)),
        (1.0, 4.0, 4 * math.sqrt(8)),
        (2.0, 1.0, math.sqrt(8) / 2),
    ],
)
def test_bound_follows_noise_and_clip(sum_noise_std: float, move_factor: float, mu: float) -> None:
    """The bound lies between 0.7 mu and mu, where mu follows from the noise and moves that were drawn.

    The noise is smaller or larger than claimed, or the moves of the sum are larger.
    """
    least_mu = least_mu_of_attack(
        seed=0, num_runs=4, sum_noise_std=sum_noise_std, move_factor=move_factor
    )
    assert 0.7 * mu < least_mu < mu


def test_release_without_noise_has_no_finite_mu() -> None:
    """A release without noise hides no canary: the bound on mu is over a million."""
    assert least_mu_of_attack(seed=0, sum_noise_std=0.0) > 1e6


def test_canaries_that_take_no_part_give_no_bound() -> None:
    """If the canaries do not move the sums, the bound on mu is below 0.5."""
    assert least_mu_of_attack(seed=3, move_factor=0.0) < 0.5


def test_no_sums_give_no_bound() -> None:
    """Without any sums, as in an attack on teachers, the bound on mu is 0."""
    assert AlignedSums().least_mu(confidence=0.95) == 0.0


def test_canaries_that_move_the_same_are_one_direction() -> None:
    """If the Gram matrix of the canaries has rank 1, the bound on mu is 0, as no direction is left for the noise."""
    aligned = AlignedSums()
    gram_of_rank_1 = np.ones((3, 3))
    aligned.add_run(
        [CoinEvidence(canary_gram=gram_of_rank_1, canary_products_with_sum=np.ones(3))], np.ones(3)
    )
    assert aligned.least_mu(confidence=0.95) == 0.0


def test_linear_estimate_of_orthogonal_canaries_is_shrunk_by_its_noise() -> None:
    """If the Gram matrix of two canaries is 3 I, their coins are estimated as 3 / (3 + 1) of the true coins."""
    coins = np.array([1.0, -1.0])
    coin_estimates = linear_estimate(
        evidence_of_sums=[
            CoinEvidence(canary_gram=3 * np.eye(2), canary_products_with_sum=3 * coins)
        ]
    )
    assert coin_estimates == pytest.approx(0.75 * coins)
