"""docs/proofs/gaussian_votes.md: what is not on all small instances in tests/privacy/test_gaussian_votes.py."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import ndtr

from pate.accounting.events import count_leaves
from pate.accounting.rdp import rdp_curve
from pate.aggregators import GaussianVotes

ORDERS = np.array([1.5, 3.0, 12.0])


def distribution(counts: tuple[int, ...], std: float, num_teachers: int) -> np.ndarray:
    """The probability of each vector of bits."""
    ones = ndtr((np.array(counts) - num_teachers / 2) / std)
    return np.array([np.prod(np.where(bits, ones, 1 - ones)) for bits in product((0, 1), repeat=len(counts))])


def divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.log((p[:, None] ** ORDERS * q[:, None] ** (1 - ORDERS)).sum(axis=0)) / (ORDERS - 1)


@pytest.mark.parametrize(("std", "ratio"), [(200.0, 2 / np.pi), (0.5, None)])
def test_a_bit_never_costs_more_than_its_noisy_count(std: float, ratio: float | None) -> None:
    event = GaussianVotes(noise_std=std).event_for(num_queries=1, num_labels=1, num_teachers=100)
    share = rdp_curve(count_leaves(event), ORDERS) / (ORDERS / (2 * std**2))
    assert (share < 1).all()
    if ratio is not None:
        np.testing.assert_allclose(share, ratio, rtol=1e-3)


def test_a_price_that_ignores_the_number_of_labels_is_exceeded() -> None:
    exact = divergence(distribution((2,) * 8, 3.0, 4), distribution((3,) * 8, 3.0, 4))
    assert (exact > ORDERS / 3.0**2).all()
