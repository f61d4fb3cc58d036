"""docs/proofs/target_charging.md: its steps, with code of their own."""

from __future__ import annotations

import math

import numpy as np
import pytest


def pair(rng: np.random.Generator, epsilon: float) -> np.ndarray:
    """Two laws `[2, Y]` at most epsilon apart."""
    first = rng.dirichlet(np.full(int(rng.integers(2, 6)), 0.4)) + 1e-6
    first /= first.sum()
    tilted = first * np.exp(rng.uniform(0, epsilon, len(first)))
    return np.stack([first, tilted / tilted.sum()])


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_the_boundary_moves_as_the_proof_says(epsilon: float) -> None:
    rng = np.random.default_rng(3)
    capped = 0
    for _ in range(500):
        laws = pair(rng, epsilon)
        rest = np.minimum(1 - laws.max(axis=1), 0.5)
        laws, rest = laws[np.argsort(rest, kind="stable")], np.sort(rest)
        chance = rest / (1 + rest)
        growth = math.exp(epsilon) * (1 + 1e-9)
        assert rest[1] <= growth * rest[0]
        assert (1 + rest[1]) / (1 + rest[0]) <= 1.5 / (1 + math.exp(-epsilon) / 2) * (1 + 1e-12)
        if rest[0] == 0.5:
            capped += 1
            continue
        likeliest = int(np.argmax(laws[0]))
        missed = 1 - laws[1, likeliest]
        assert rest[1] <= missed * (1 + 1e-9)
        assert (rest[1] + missed) / (1 + rest[1]) <= 2 * growth * chance[0]
    assert 0 < capped < 500


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 3.0])
def test_the_wrapper_adds_at_most_a_third(epsilon: float) -> None:
    assert math.log(1.5 / (1 + math.exp(-epsilon) / 2)) <= epsilon / 3


def test_no_larger_part_is_common() -> None:
    rng = np.random.default_rng(4)
    growth = math.exp(0.5)
    for _ in range(200):
        laws = pair(rng, 0.5)
        common = (growth * laws.min(axis=0) - laws.max(axis=0)) / (growth - 1)
        rest = laws - common
        np.testing.assert_array_less(rest.max(axis=0), growth * rest.min(axis=0) + 1e-12)
        more = laws - common - 1e-6
        assert (more.max(axis=0) > growth * more.min(axis=0)).all()


def test_accesses_overrun_no_more_often_than_the_binomial_tail() -> None:
    """An adversary raises q after each miss: the exact law of hits by recursion, against equal chances."""
    low, num_accesses, target_hits = 0.3, 12, 4
    steady, raised = np.eye(target_hits + 1)[0], np.eye(target_hits + 1)[0]
    for access in range(num_accesses):
        chance = np.append(low + 0.05 * np.minimum(access, 5) / np.arange(1, target_hits + 1), 0.0)
        steady = step(steady, np.append(np.full(target_hits, low), 0.0))
        raised = step(raised, chance)
    tail = sum(math.comb(num_accesses, hits) * low**hits * (1 - low) ** (num_accesses - hits) for hits in range(4))
    assert steady[:-1].sum() == pytest.approx(tail)
    assert raised[:-1].sum() < tail


def step(law: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """One access: the law of hits so far, the last entry being halted."""
    return law * (1 - chance) + np.append(0.0, (law * chance)[:-1])
