"""Privacy faults found in public code for multi-label PATE, each shown not to be here.

`test_faulty_variants.py` has all of them written down in `faulty.py`, and a check for each that catches it.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import ndtr

from pate.accounting import (
    Adjacency,
    Event,
    GaussianEvent,
    Ledger,
    NoisyMaxGaussianEvent,
    OneBitEvent,
    PureDpEvent,
    RdpAccountant,
    SelfComposedEvent,
)
from pate.accounting.events import count_leaves
from pate.accounting.rdp import rdp_curve
from pate.aggregators import Aggregator, GaussianVotes, StableTopK
from pate.validation import InvalidValue
from tests.contract.aggregator_cases import CASES, CLEAR, NUM_LABELS, NUM_TEACHERS, TIED, Case, rows

SHAPE = {"num_queries": 600, "num_labels": 40, "num_teachers": 800}
PLAIN = StableTopK(selection_scale=40.0, test_std=60.0)
VOTES = GaussianVotes(noise_std=50.0)

every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def epsilon_of(event: Event, target_delta: float = 1e-6) -> float:
    return RdpAccountant().compose(event).get_epsilon(target_delta)


def renyi_at_8(aggregator: Aggregator, **shape: int) -> float:
    return float(rdp_curve(count_leaves(aggregator.event_for(**(SHAPE | shape))), np.array([8.0]))[0])


def label_probabilities(aggregator: Aggregator, votes: np.ndarray, num_teachers: int) -> np.ndarray:
    """The exact probability that each label is released."""
    if isinstance(aggregator, GaussianVotes):
        return np.asarray(ndtr((votes - num_teachers / 2) / aggregator.noise_std))
    assert isinstance(aggregator, StableTopK)
    released = np.zeros(len(votes))
    for labels, probability in aggregator.distribution(votes, num_teachers=num_teachers).items():
        released[list(labels or ())] += probability
    return released


@pytest.mark.parametrize("aggregator", [PLAIN, VOTES], ids=["stable_top_k", "gaussian_votes"])
def test_1_no_threshold_comes_from_unnoised_votes(aggregator: Aggregator) -> None:
    """Moving one teacher's vote never turns a label's probability from 0 to 1: it obeys the stated price."""
    delta = 1e-6
    shape = {"num_queries": 1, "num_labels": 4, "num_teachers": 800}
    calibrated = aggregator.calibrated(target_epsilon=0.97, target_delta=delta, **shape)
    for votes in ([400, 400, 399, 0], [800, 401, 400, 0], [500, 300, 1, 0], [799, 2, 1, 1]):
        before = label_probabilities(calibrated, np.array(votes), 800)
        for label in range(4):
            for move in (-1, 1):
                moved = np.clip(np.array(votes) + move * (np.arange(4) == label), 0, 800)
                after = label_probabilities(calibrated, moved, 800)
                assert (after <= math.exp(0.97) * before + delta + 1e-12).all()
                assert (np.abs(after - before) < 0.4).all()


@every_case
def test_2_a_seed_cannot_give_every_query_the_same_noise(case: Case) -> None:
    with pytest.raises(InvalidValue, match="rng=0: expected a numpy"):
        case.aggregator.aggregate(case.given(rows(CLEAR, 5)), num_teachers=NUM_TEACHERS, rng=0)


def test_2_two_releases_from_one_seed_are_two_charges() -> None:
    ledger = Ledger(target_delta=1e-3)
    for votes in (CLEAR, TIED):
        VOTES.aggregate(rows(votes, 5), num_teachers=NUM_TEACHERS, rng=np.random.default_rng(0), ledger=ledger)
    assert len(ledger.entries) == 2


def test_5_every_label_of_a_release_is_charged() -> None:
    """40 labels cost 40 times the Renyi divergence of one; no single-label bound is used for the lot."""
    assert renyi_at_8(VOTES) == pytest.approx(40 * renyi_at_8(VOTES, num_labels=1), rel=1e-12)
    assert epsilon_of(VOTES.event_for(**SHAPE)) > 5 * epsilon_of(VOTES.event_for(**SHAPE | {"num_labels": 1}))


def test_6_no_noise_costs_infinity() -> None:
    for event in (GaussianEvent(0.0), NoisyMaxGaussianEvent(0.0, 3), PureDpEvent(math.inf)):
        assert epsilon_of(event) == math.inf
        assert epsilon_of(SelfComposedEvent(event, 0)) == 0
    assert epsilon_of(OneBitEvent((-math.inf, math.inf), reach=1)) == math.inf


@pytest.mark.parametrize("noise", [0.0, -1.0, math.nan, math.inf])
def test_6_no_aggregator_can_be_built_without_noise(noise: float) -> None:
    with pytest.raises(InvalidValue, match=f"noise_std={noise}: expected a number > 0"):
        GaussianVotes(noise_std=noise)
    with pytest.raises(InvalidValue, match=f"selection_scale={noise}: expected a number > 0"):
        dataclasses.replace(PLAIN, selection_scale=noise)
    with pytest.raises(InvalidValue, match=f"test_std={noise}: expected a number > 0"):
        dataclasses.replace(PLAIN, test_std=noise)


def test_7_a_std_is_a_std() -> None:
    """The share of ones is Phi(margin / std), and twice the std costs a quarter."""
    votes = rows(np.array([[28, 20, 12]]), 200_000)
    release = GaussianVotes(noise_std=8.0).aggregate(votes, num_teachers=40, rng=np.random.default_rng(0))
    expected = ndtr(np.array([1.0, 0.0, -1.0]))
    np.testing.assert_allclose(release.labels.mean(axis=0), expected, atol=5 * math.sqrt(0.25 / 200_000))
    assert renyi_at_8(VOTES) == pytest.approx(4 * renyi_at_8(VOTES.scaled(2.0)), rel=0.01)
    test = PLAIN.stability_test(num_teachers=800)
    gap = np.array(2 + round(60 * 5.9978))  # sens + std * Phi^-1(1 - 1e-9): passes half the time
    assert test.pass_probabilities(gap) == pytest.approx(0.5, abs=0.005)


@every_case
def test_8_refused_queries_are_charged_in_full(case: Case) -> None:
    """No price is an expectation over answers: all refused costs what all answered costs."""
    costs = []
    for votes in (CLEAR, TIED):
        ledger = Ledger(target_delta=1e-3)
        rng = np.random.default_rng(0)
        given = case.given(rows(votes, 30))
        release = case.aggregator.aggregate(given, num_teachers=NUM_TEACHERS, rng=rng, ledger=ledger)
        costs.append((release.event, ledger.epsilon))
    assert costs[0] == costs[1]
    one = case.aggregator.event_for(num_queries=1, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS)
    order = np.array([8.0])
    thirty, single = (float(rdp_curve(count_leaves(event), order)[0]) for event in (costs[0][0], one))
    assert thirty == pytest.approx(single if case.flat else 30 * single, rel=1e-12)


@every_case
def test_13_no_price_is_nan_or_negative(case: Case) -> None:
    for factor in (1e-6, 1e-3, 1.0, 1e3, 1e6):
        scaled = case.aggregator.scaled(factor)
        event = scaled.event_for(num_queries=600, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS)
        accountant = RdpAccountant().compose(event)
        assert (accountant.rdp >= 0).all()
        assert accountant.get_epsilon(1e-3) >= 0


@pytest.mark.parametrize("noise", ["gumbel", "gaussian", "laplace", "exponential"])
def test_14_replace_one_costs_more_than_add_remove(noise: str) -> None:
    replace_one = dataclasses.replace(PLAIN, selection_noise=noise)
    add_remove = dataclasses.replace(replace_one, adjacency=Adjacency.ADD_REMOVE)
    assert renyi_at_8(replace_one) > 3 * renyi_at_8(add_remove)
    assert epsilon_of(replace_one.event_for(**SHAPE)) > 1.8 * epsilon_of(add_remove.event_for(**SHAPE))


def test_14_plain_votes_cost_the_same_under_both_as_one_count_moves_by_one_either_way() -> None:
    assert renyi_at_8(VOTES) == renyi_at_8(dataclasses.replace(VOTES, adjacency=Adjacency.ADD_REMOVE))


def test_15_permute_and_flip_is_charged_as_pure_dp_not_as_the_exponential_mechanism() -> None:
    """At the same scale, about four times the Renyi divergence of Gumbel noise."""
    gumbel = PLAIN.gap_selection(num_labels=40, num_teachers=800)
    flip = dataclasses.replace(gumbel, noise="exponential")
    assert flip.event == PureDpEvent(4 / 40.0)
    prices = [float(rdp_curve(count_leaves(selection.event), np.array([2.0]))[0]) for selection in (flip, gumbel)]
    assert prices[0] / prices[1] == pytest.approx(4, rel=0.02)
