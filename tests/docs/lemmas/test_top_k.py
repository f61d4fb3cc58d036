"""docs/proofs/top_k.md, step by step."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np
import pytest

from pate.accounting import Adjacency
from tests.privacy.histograms import neighbors

DENSITIES = {
    "exponential": lambda x: np.where(x >= 0, np.exp(-np.abs(x)), 0.0),
    "laplace": lambda x: np.exp(-np.abs(x)) / 2,
    "gumbel": lambda x: np.exp(-x - np.exp(-x)),
    "logistic": lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2,
    "half_logistic": lambda x: np.where(x >= 0, 2 * np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))) ** 2, 0.0),
}


@pytest.mark.parametrize("noise", DENSITIES)
def test_densities_fall_no_faster_than_exponentially(noise: str) -> None:
    density = DENSITIES[noise]
    x = np.linspace(-5, 20, 501)[:, None]
    shift = np.linspace(0, 4, 41)
    assert (density(x + shift) >= np.exp(-shift) * density(x) * (1 - 1e-12)).all()


def test_the_shift_of_one_shot_lies_between_0_and_w() -> None:
    """With `up` the largest move of a count, every index of the sequence is shifted by 0..w."""
    for values, width in (((-1, 0, 1), 2), ((0, 1), 1), ((-1, 0), 1)):
        for moves in product(values, repeat=3):
            shifts = max(moves) - np.array(moves)
            assert shifts.min() >= 0
            assert shifts.max() <= width


def test_the_next_gumbel_winner_does_not_depend_on_the_winning_value() -> None:
    """Given that all lie below x, the order of the others is that of fresh Gumbel variables."""
    rng = np.random.default_rng(0)
    values = np.array([1.0, 0.0, -1.0])
    noisy = values + rng.gumbel(size=(400_000, 3))
    expected = np.exp(values) / np.exp(values).sum()
    for top in (0.0, 1.0, 3.0):
        below = noisy[(noisy < top).all(axis=1)]
        share = np.bincount(below.argmax(axis=1), minlength=3) / len(below)
        np.testing.assert_allclose(share, expected, atol=6 / np.sqrt(len(below)))


def test_the_first_arrival_has_the_distribution_of_permute_and_flip() -> None:
    """The hazards are at most p, and winning by them is winning with exponential noise on every count."""
    p = np.exp(np.array([0.0, -0.3, -0.3, -2.0, -9.0]))[:, None]
    nodes, weights = np.polynomial.legendre.leggauss(40)
    z, weights = (nodes + 1) / 2, weights / 2  # z = 1 - exp(-t), so that dz = exp(-t) dt
    survival = 1 - p * z
    hazard = p * (1 - z) / survival
    assert (hazard <= p).all()
    arrives_first = (hazard / (1 - z) * survival.prod(axis=0)) @ weights
    assert arrives_first.sum() == pytest.approx(1, rel=1e-12)
    noisy = np.log(p.T) + np.random.default_rng(0).standard_exponential((400_000, 5))
    share = np.bincount(noisy.argmax(axis=1), minlength=5) / len(noisy)
    np.testing.assert_allclose(arrives_first, share, atol=4 / (2 * np.sqrt(len(noisy))))


def spread(moves: np.ndarray) -> float:
    """By how much two losses `[P, n]` of one pair of neighbors move against each other, at most."""
    return float((moves.max(axis=1) - moves.min(axis=1)).max())


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_losses_of_sequences_move_against_each_other_by_at_most_twice_w(adjacency: Adjacency) -> None:
    outcomes = np.array(list(permutations(range(4), 2)))

    def losses(counts: np.ndarray) -> np.ndarray:
        best = -np.sort(-counts, axis=1)[:, None, :2]
        return (best - counts[:, outcomes]).max(axis=2)

    first, second = neighbors(4, 3, adjacency)
    width = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    assert spread(losses(second) - losses(first)) == 2 * width


@pytest.mark.parametrize("gamma", [0.0, 0.25, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_losses_of_sets_move_against_each_other_by_at_most_w(adjacency: Adjacency, gamma: float) -> None:
    sets = list(combinations(range(4), 2))
    outside = [[i for i in range(4) if i not in chosen] for chosen in sets]

    def losses(counts: np.ndarray) -> np.ndarray:
        worst = counts[:, np.array(sets)].min(axis=2)
        largest = np.maximum(counts[:, np.array(outside)].max(axis=2), worst)
        return (1 - gamma) * largest - gamma * worst

    first, second = neighbors(4, 3, adjacency)
    width = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    assert spread(losses(second) - losses(first)) == pytest.approx(width)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_lost_index_has_at_most_w_more_than_the_best_count_outside(adjacency: Adjacency) -> None:
    first, second = neighbors(4, 3, adjacency)
    width = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    ranks = [np.argsort(np.argsort(-counts, axis=1, kind="stable"), axis=1) for counts in (first, second)]
    for size in (1, 2, 3):
        lost = (ranks[0] < size) & (ranks[1] >= size)
        excess = first - (-np.sort(-first, axis=1))[:, [size]]
        assert excess[lost].max() == width


def test_noise_in_a_cube_has_the_stated_density() -> None:
    """The integral over the cube's size of its uniform density, for two counts and scale 1."""
    for largest in (0.3, 1.0, 4.0):
        r = np.linspace(largest, 60, 200_001)
        mixture = np.trapezoid((2 * r) ** -2.0 * r**2 * np.exp(-r) / 2, r)
        assert mixture == pytest.approx(np.exp(-largest) / 8, rel=1e-6)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_up_to_a_shift_counts_move_by_half_of_w(adjacency: Adjacency) -> None:
    first, second = neighbors(3, 3, adjacency)
    moves = (second - first).astype(float)
    middle = (moves.max(axis=1) + moves.min(axis=1)) / 2
    width = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    assert np.abs(moves - middle[:, None]).max() == width / 2


def test_the_difference_of_two_laplace_variables_has_the_stated_tail() -> None:
    """Scales 2 and 1, by summing the density of one against the tail of the other."""
    y = np.linspace(-40, 40, 800_001)
    for x in (0.0, 1.5, 6.0):
        tail = np.where(x + y > 0, np.exp(-np.abs(x + y) / 2) / 2, 1 - np.exp(-np.abs(x + y) / 2) / 2)
        exact = np.trapezoid(np.exp(-np.abs(y)) / 2 * tail, y)
        assert exact == pytest.approx((4 * np.exp(-x / 2) - np.exp(-x)) / 6, rel=1e-8)


@pytest.mark.parametrize("epsilon", [0.2, 1e-3])
@pytest.mark.parametrize("log_ratio", [np.log(40), 10.0, 30.0])
def test_the_constants_for_sets_of_many_fit(epsilon: float, log_ratio: float) -> None:
    def h(u: np.ndarray) -> np.ndarray:
        return (1 + u) * np.log1p(u) - u

    k = log_ratio * np.geomspace(16, 1e6, 500)
    step = epsilon / (4 * np.sqrt(k * log_ratio))  # m / b
    t = 0.9785 * epsilon / (1.95 * np.sqrt(k * log_ratio))
    assert (step <= epsilon / (16 * log_ratio) * (1 + 1e-12)).all()
    assert (2 * step * np.exp(step) <= t).all()
    assert (0.9785 * epsilon + step < epsilon).all()
    most = k + 1.9 * np.sqrt(k * log_ratio)
    assert (most <= 1.4872 * k).all()
    assert (most * h(1 - k / most) >= log_ratio).all()
    assert (t**2 * most <= 0.0213 * epsilon).all()
    assert (1 / (1 - t) <= 1.0073).all()
    largest, variance = 1.0073 * t, 1.509 * t**2 * k
    fall = (0.9785 - 0.0213) * epsilon
    assert (variance / largest**2 * h(largest * fall / variance) >= 1.08 * log_ratio).all()


def test_laplace_probabilities_move_by_little_of_themselves_and_of_what_they_lack() -> None:
    z, step = np.linspace(-20, 20, 401)[:, None], np.linspace(1e-3, 0.5, 20)

    def exceeding(x: np.ndarray) -> np.ndarray:
        return np.where(x > 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)

    q, moved = exceeding(z), exceeding(z + step)
    assert (np.abs(moved - q) <= 2 * step * np.exp(step) * q * (1 - q) + 1e-15).all()
