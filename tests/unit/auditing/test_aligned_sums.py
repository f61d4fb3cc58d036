"""The law of sums with canaries: its bound on mu keeps its confidence, and is close to the mu of what was drawn."""

import math

import numpy as np
import pytest

from pate.auditing.attack.aligned_sums import AlignedSums, CanarySum, linear_estimate

NUM_CANARIES = 60
NUM_ROUNDS = 8


def drawn_run(
    rng: np.random.Generator, *, noise_std: float = 1.0, factor: float = 1.0, dimension: int = 300
) -> tuple[list[CanarySum], np.ndarray]:
    """Draws rounds whose canaries move vectors of length 1/2 by their coins; the claimed noise has std 1."""
    coins = rng.choice([-1.0, 1.0], NUM_CANARIES)
    sums = []
    for _ in range(NUM_ROUNDS):
        moves = rng.standard_normal((NUM_CANARIES, dimension))
        moves /= 2 * np.linalg.norm(moves, axis=1, keepdims=True)
        noisy = factor * coins @ moves + noise_std * rng.standard_normal(dimension)
        sums.append(CanarySum(gram=moves @ moves.T, matched=moves @ noisy))
    return sums, coins


def least_mu(seed: int, *, confidence: float = 0.95, num_runs: int = 1, **changes: float) -> float:
    """Returns the bound of an attack of some runs."""
    rng = np.random.default_rng(seed)
    aligned = AlignedSums()
    for _ in range(num_runs):
        sums, coins = drawn_run(rng, **changes)
        aligned.add_run(sums, coins)
    return aligned.least_mu(confidence=confidence)


@pytest.mark.slow
def test_bound_keeps_its_confidence() -> None:
    """A canary moves 1 in each of 8 rounds: mu is the root of 8. At 80%, some 20 of 100 bounds are above it at most."""
    bounds = np.array([least_mu(seed, confidence=0.8) for seed in range(100)])
    assert (bounds > math.sqrt(NUM_ROUNDS)).mean() < 0.2
    assert np.median(bounds) > 0.8 * math.sqrt(NUM_ROUNDS)
    careless = np.array([least_mu(seed, confidence=0.1) for seed in range(20)])
    assert (careless > math.sqrt(NUM_ROUNDS)).mean() > 0.2


@pytest.mark.parametrize(
    ("changes", "mu"),
    [
        ({"noise_std": 0.1}, 10 * math.sqrt(8)),
        ({"factor": 4.0}, 4 * math.sqrt(8)),
        ({"noise_std": 2.0}, math.sqrt(8) / 2),
    ],
)
def test_bound_follows_noise_and_clip(changes: dict[str, float], mu: float) -> None:
    """Less noise than claimed, or larger moves, give a larger mu; more noise a smaller one."""
    assert 0.7 * mu < least_mu(0, num_runs=4, **changes) < mu


def test_release_without_noise_has_no_finite_mu() -> None:
    """Nothing hides a canary."""
    assert least_mu(0, noise_std=0.0) > 1e6


def test_canaries_that_take_no_part_give_no_bound() -> None:
    """Without a signal the bound is 0 or nearly so."""
    assert least_mu(3, factor=0.0) < 0.5


def test_no_sums_give_no_bound() -> None:
    """An attack by teachers has no sums."""
    assert AlignedSums().least_mu(confidence=0.95) == 0.0


def test_canaries_that_move_the_same_are_one_direction() -> None:
    """A Gram matrix of rank 1 leaves no degree of freedom for the noise, so there is no bound."""
    aligned = AlignedSums()
    ones = np.ones((3, 3))
    aligned.add_run([CanarySum(gram=ones, matched=np.ones(3))], np.ones(3))
    assert aligned.least_mu(confidence=0.95) == 0.0


def test_linear_estimate_of_orthogonal_canaries_is_shrunk_by_its_noise() -> None:
    """With a Gram matrix 3 I, coins are estimated as 3 / (3 + 1) of themselves."""
    coins = np.array([1.0, -1.0])
    estimate = linear_estimate(canary_sums=[CanarySum(gram=3 * np.eye(2), matched=3 * coins)])
    assert estimate == pytest.approx(0.75 * coins)
