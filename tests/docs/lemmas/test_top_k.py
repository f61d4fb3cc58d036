"""docs/proofs/top_k.md, step by step."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pate.accounting import Adjacency
from tests.privacy.histograms import neighbours

DENSITIES = {
    "exponential": lambda x: np.where(x >= 0, np.exp(-np.abs(x)), 0.0),
    "laplace": lambda x: np.exp(-np.abs(x)) / 2,
    "gumbel": lambda x: np.exp(-x - np.exp(-x)),
}


@pytest.mark.parametrize("noise", DENSITIES)
def test_densities_fall_no_faster_than_exponentially(noise: str) -> None:
    density = DENSITIES[noise]
    x = np.linspace(-5, 20, 501)[:, None]
    shift = np.linspace(0, 4, 41)
    assert (density(x + shift) >= np.exp(-shift) * density(x) * (1 - 1e-12)).all()


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_difference_of_counts_moves_by_at_most_w_and_so_much(adjacency: Adjacency) -> None:
    first, second = neighbours(3, 3, adjacency)
    moves = second - first
    width = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    assert (moves.max(axis=1) - moves.min(axis=1)).max() == width


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
