"""Prices beside each other: a bit costs less than what it hides, and no price more than it is said to be."""

import numpy as np
import pytest

from pate.accounting import Adjacency
from pate.aggregators import GaussianVotes
from pate.mechanisms import CanonicalTopK, GapSelection, JointTopK, OneShotTopK, PeelingTopK, StabilityTest
from pate.mechanisms.gap_selection import SELECTION_NOISES
from pate.verification import verify
from tests.privacy.divergences import ORDERS, price_curve
from tests.privacy.rival_distributions import bits_distribution
from tests.privacy.shipped import TABLE, optimal_stability_table

every_adjacency = pytest.mark.parametrize("adjacency", tuple(Adjacency))


@every_adjacency
def test_a_bit_costs_less_than_the_noisy_numbers_it_hides(adjacency: Adjacency) -> None:
    """One gap, a sens**2 / (2 std**2); L counts, a vector with l2 sensitivity sqrt(L), L a / (2 std**2)."""
    for std in (0.1, 0.5, 1.0, 3.0):
        test = StabilityTest.gaussian(test_std=std, failure_prob=0.05, num_teachers=6, adjacency=adjacency)
        assert (price_curve(test.event) <= ORDERS * adjacency.gap_sensitivity**2 / (2 * std**2)).all()
        votes = GaussianVotes(noise_std=std, adjacency=adjacency)
        bits = votes.event_for(num_queries=1, num_labels=4, num_teachers=6)
        assert (price_curve(bits) <= 4 * ORDERS / (2 * std**2)).all()


@every_adjacency
def test_a_table_costs_its_budget_at_its_order_and_rho_is_the_zcdp_of_a_release(adjacency: Adjacency) -> None:
    table = optimal_stability_table(failure_prob=0.05, **TABLE)
    price = StabilityTest.from_table(table, num_teachers=20, adjacency=adjacency).event
    assert price_curve(price, np.array([4.0]))[0] == pytest.approx(0.5, rel=1e-6)
    assert price_curve(price, np.array([8.0]))[0] > 0.5
    for rho in (0.01, 0.5):
        settings = {"k": 2, "rho": rho, "adjacency": adjacency}
        gammas = (CanonicalTopK(gamma=gamma, **settings) for gamma in (0.0, 0.25, 0.5, 1.0))
        for mechanism in (PeelingTopK(**settings), OneShotTopK(**settings), JointTopK(**settings), *gammas):
            assert (price_curve(mechanism.event) <= rho * ORDERS * (1 + 1e-9)).all()


@pytest.mark.parametrize("noise", SELECTION_NOISES)
@every_adjacency
def test_a_regularizer_does_not_change_the_price(adjacency: Adjacency, noise: str) -> None:
    shape = {"noise_scale": 1.0, "num_labels": 4, "num_teachers": 6, "padded": True, "adjacency": adjacency}
    plain = GapSelection(noise=noise, **shape).event
    assert GapSelection(noise=noise, regularizer=lambda k: -1.5 * abs(k - 2), **shape).event == plain


def test_counts_that_are_not_cut_exceed_the_price_of_bits() -> None:
    shape = {"num_labels": 1, "num_teachers": 6}
    event = GaussianVotes(noise_std=0.1).event_for(num_queries=1, **shape)
    for stds, refuted in ((9.0, False), (1e9, True)):
        verdict = verify(
            lambda counts, stds=stds: bits_distribution(counts, 0.1, 6, stds=stds),
            adjacency=Adjacency.REPLACE_ONE,
            event=event,
            **shape,
        )
        assert verdict.renyi.exceeds == refuted
