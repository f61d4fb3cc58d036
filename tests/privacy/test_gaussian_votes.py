"""The price of GaussianVotes against its exact distribution on all neighboring histograms; it is attained."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from pate.accounting import Adjacency, Event
from pate.aggregators import GaussianVotes
from tests.privacy.divergences import (
    ORDERS,
    assert_covered,
    assert_delta_covered,
    assert_refuted,
    largest_renyi,
    price_curve,
)
from tests.privacy.histograms import Counts, neighbors

ADJACENCIES = tuple(Adjacency)
STDS = (0.1, 0.5, 1.0, 3.0)  # with the first counts far from the threshold are drawn like nearer ones
Array = NDArray[np.float64]


def price_of(noise_std: float, num_labels: int, num_teachers: int, adjacency: Adjacency) -> Event:
    aggregator = GaussianVotes(noise_std=noise_std, adjacency=adjacency)
    return aggregator.event_for(num_queries=1, num_labels=num_labels, num_teachers=num_teachers)


def margins(counts: Counts, noise_std: float, num_teachers: int) -> Array:
    """How many stds a count lies above the threshold as it is drawn: 9 at most, and up to a whole number of votes."""
    low, high = np.floor(num_teachers / 2 - 9 * noise_std), np.ceil(num_teachers / 2 + 9 * noise_std)
    return (np.clip(counts, low, high) - num_teachers / 2) / noise_std


def joint_distribution(counts: Counts, noise_std: float, num_teachers: int) -> Array:
    """The probability of every pattern of bits: `[P, 2**L]`."""
    distribution = np.ones((len(counts), 1))
    for z in margins(counts, noise_std, num_teachers).T:
        distribution = np.concatenate([distribution * ndtr(-z)[:, None], distribution * ndtr(z)[:, None]], axis=1)
    return distribution


def largest_sum_of_bits(first: Counts, second: Counts, noise_std: float, num_teachers: int) -> Array:
    """The largest divergence over all pairs, adding up the labels' independent bits: `[len(ORDERS)]`."""
    values = margins(np.arange(num_teachers + 1), noise_std, num_teachers)
    logs = np.stack([log_ndtr(-values), log_ndtr(values)])  # [2, T + 1]
    largest = []
    for order in ORDERS:
        terms = order * logs[:, :, None] - (order - 1) * logs[:, None, :]
        table = np.logaddexp(*terms) / (order - 1)  # [T + 1, T + 1] divergence of one label's bit
        largest.append(table[first, second].sum(axis=1).max())
    return np.array(largest)


@pytest.mark.parametrize("noise_std", STDS)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_price_covers_all_neighbors_and_is_attained(adjacency: Adjacency, noise_std: float) -> None:
    for num_labels, num_teachers in product((1, 2, 3, 4), (1, 2, 3, 4, 5, 6)):
        first, second = neighbors(num_labels, num_teachers, adjacency)
        price = price_curve(price_of(noise_std, num_labels, num_teachers, adjacency))
        exact = largest_sum_of_bits(first, second, noise_std, num_teachers)
        assert assert_covered(exact, price) == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("noise_std", STDS)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_delta_covers_all_neighbors(adjacency: Adjacency, noise_std: float) -> None:
    for num_labels, num_teachers in ((1, 6), (2, 6), (3, 6), (4, 3)):
        both = neighbors(num_labels, num_teachers, adjacency)
        distributions = [joint_distribution(counts, noise_std, num_teachers) for counts in both]
        assert_delta_covered(*distributions, price_of(noise_std, num_labels, num_teachers, adjacency))


def test_bits_are_independent_so_their_divergences_add() -> None:
    first, second = neighbors(2, 4, Adjacency.REPLACE_ONE)
    joint = largest_renyi(joint_distribution(first, 1.0, 4), joint_distribution(second, 1.0, 4))
    np.testing.assert_allclose(joint, largest_sum_of_bits(first, second, 1.0, 4), rtol=1e-9)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_price_10_percent_too_small_fails(adjacency: Adjacency) -> None:
    first, second = neighbors(4, 6, adjacency)
    exact = largest_sum_of_bits(first, second, 1.0, 6)
    assert_refuted(exact, 0.9 * price_curve(price_of(1.0, 4, 6, adjacency)))


def test_counts_that_are_not_cut_exceed_the_price(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = neighbors(1, 6, Adjacency.REPLACE_ONE)
    price = price_curve(price_of(0.1, 1, 6, Adjacency.REPLACE_ONE))
    monkeypatch.setattr(np, "clip", lambda counts, low, high: counts)
    assert_refuted(largest_sum_of_bits(first, second, 0.1, 6), price)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_bits_cost_less_than_the_noisy_counts_they_hide(adjacency: Adjacency) -> None:
    """L bits against the vector release with l2 sensitivity sqrt(L): L a / (2 noise_std**2)."""
    for noise_std in STDS:
        vector = 4 * ORDERS / (2 * noise_std**2)
        assert (price_curve(price_of(noise_std, 4, 6, adjacency)) <= vector).all()
