"""docs/proofs/target_charging.md: its steps, with code of their own."""

from __future__ import annotations

import math

import numpy as np
import pytest


def pair(rng: np.random.Generator, epsilon: float) -> np.ndarray:
    """Two distributions `[2, Y]` at most epsilon apart."""
    first = rng.dirichlet(np.full(int(rng.integers(2, 6)), 0.4)) + 1e-6
    first /= first.sum()
    tilted = first * np.exp(rng.uniform(0, epsilon, len(first)))
    return np.stack([first, tilted / tilted.sum()])


def wrapped(distribution: np.ndarray) -> tuple[np.ndarray, float]:
    """The outcomes' probabilities in the boundary wrapper, and the boundary's."""
    rest = min(1 - distribution.max(), 0.5)
    return distribution / (1 + rest), rest / (1 + rest)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_the_boundary_moves_as_the_proof_says(epsilon: float) -> None:
    rng, growth = np.random.default_rng(3), math.exp(epsilon)
    wide = 3 * growth**2 / (2 * growth + 1)
    capped = 0
    for _ in range(500):
        distributions = sorted(pair(rng, epsilon), key=lambda distribution: wrapped(distribution)[1])
        (first, rare), (second, often) = (wrapped(distribution) for distribution in distributions)
        rest = rare / (1 - rare)
        assert rare <= often <= growth * rare * (1 + 1e-9)
        assert max((first / second).max(), (second / first).max()) <= wide * (1 + 1e-9)
        rises = np.maximum(second - first, 0).sum()
        distance = np.maximum(distributions[1] - distributions[0], 0).sum()
        assert np.maximum(first - second, 0).sum() == pytest.approx(often - rare + rises, abs=1e-12)
        assert rises <= distance / (1 + rest) + 1e-12
        assert rises <= (growth - 1) * rare * (1 + 1e-9)
        common = (wide * np.minimum(first, second) - np.maximum(first, second)).sum()
        assert wide - 1 - common == pytest.approx(wide * often - rare + (wide + 1) * rises, rel=1e-9)
        if rest == pytest.approx(0.5, abs=1e-12):
            capped += 1
            assert distance <= (growth - 1) / (growth + 1) * (1 + 1e-9)
        else:
            assert distance <= (growth - 1) * rest * (1 + 1e-9)
    assert 0 < capped < 500


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 3.0])
def test_the_wrapper_adds_at_most_a_third_and_a_rare_outcome_attains_its_epsilon(epsilon: float) -> None:
    growth = math.exp(epsilon)
    added = math.log(1.5 / (1 + 1 / (2 * growth)))
    assert added == pytest.approx(math.log(3 * growth / (2 * growth + 1)))
    assert added <= epsilon / 3
    share, rare = 1 / (2 * growth), 1e-8
    first = np.array([1 - share, share - growth * rare, growth * rare])
    second = np.array([0.5, 0.5 - rare, rare])
    assert np.abs(np.log(first / second)).max() <= epsilon + 1e-4
    assert math.log((wrapped(first)[0] / wrapped(second)[0])[2]) == pytest.approx(epsilon + added, abs=1e-4)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_the_published_boundary_is_below_the_tight_one(epsilon: float) -> None:
    growth, wide = math.exp(epsilon), math.exp(4 * epsilon / 3)
    assert growth * (2 * wide + 1) - wide - 2 <= 2 * (growth * wide - 1)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_running_twice_step_by_step(epsilon: float) -> None:
    rng, growth = np.random.default_rng(5), math.exp(epsilon)
    claimed = min((growth + 1) / (growth**2 + growth + 1), 2 * growth / (growth + 1) ** 2)
    cases = [0, 0, 0]
    for _ in range(1000):
        distributions = pair(rng, epsilon)
        likeliest = int(np.argmax(distributions.max(axis=0)))
        large, small = distributions[:, likeliest].max(), distributions[:, likeliest].min()
        rest = 1 - large
        differ = 1 - (distributions**2).sum(axis=1)
        common = (growth**2 * small**2 - large**2) / (growth**2 - 1)
        assert small >= max(1 - growth * rest, large / growth) - 1e-9
        if rest > 0.5:
            cases[2] += 1
            assert differ.min() >= rest
            lowest = rest
        else:
            lowest = 2 * rest * (1 - rest)
            assert differ.min() >= lowest - 1e-12
        if rest <= 1 / (growth + 1):
            cases[0] += 1
            bound = rest * (2 * (growth**3 - 1) - rest * (growth**4 - 1)) / (growth**2 - 1)
            assert 1 - common <= bound * (1 + 1e-9) + 1e-12
            assert lowest / bound >= claimed * (1 - 1e-9)
        else:
            cases[1] += 1
            assert lowest >= claimed * (1 - 1e-9)
    assert min(cases[:2]) > 50


def test_no_larger_part_is_common() -> None:
    rng = np.random.default_rng(4)
    growth = math.exp(0.5)
    for _ in range(200):
        distributions = pair(rng, 0.5)
        common = (growth * distributions.min(axis=0) - distributions.max(axis=0)) / (growth - 1)
        rest = distributions - common
        np.testing.assert_array_less(rest.max(axis=0), growth * rest.min(axis=0) + 1e-12)
        more = distributions - common - 1e-6
        assert (more.max(axis=0) > growth * more.min(axis=0)).all()


def test_accesses_overrun_no_more_often_than_the_binomial_tail() -> None:
    """An adversary raises q after each miss: the exact distribution of hits by recursion, against equal chances."""
    low, num_accesses, target_hits = 0.3, 12, 4
    steady, raised = np.eye(target_hits + 1)[0], np.eye(target_hits + 1)[0]
    for access in range(num_accesses):
        chance = np.append(low + 0.05 * np.minimum(access, 5) / np.arange(1, target_hits + 1), 0.0)
        steady = step(steady, np.append(np.full(target_hits, low), 0.0))
        raised = step(raised, chance)
    tail = sum(math.comb(num_accesses, hits) * low**hits * (1 - low) ** (num_accesses - hits) for hits in range(4))
    assert steady[:-1].sum() == pytest.approx(tail)
    assert raised[:-1].sum() < tail


def step(distribution: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """One access: the distribution of hits so far, the last entry being halted."""
    return distribution * (1 - chance) + np.append(0.0, (distribution * chance)[:-1])
