"""Centered votes and the prevalence: values by hand, both stages, what is charged and refused."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import pate.accounting as pa
from pate.aggregators import CenteredVotes, Prevalence
from pate.validation import InvalidValue

SHARES = np.array([0.5, 0.3, 0.05])


def records(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).random((count, 3)) < SHARES


def teachers(count: int) -> Any:
    """Confidences near a truth: 20 queries, half of them with the first label, a third with the second."""
    truth = np.stack([np.arange(20) % 2 == 0, np.arange(20) % 3 == 0, np.arange(20) < 1], axis=1)
    noise = np.random.default_rng(1).normal(0, 0.2, size=(count, 20, 3))
    return truth, np.clip(0.8 * truth + 0.1 + noise, 0, 1)


@pytest.mark.parametrize("num_labels", [1, 3, 40])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("adjacency", pa.Adjacency)
def test_the_prevalence_is_found_whatever_the_number_of_labels(
    num_labels: int, share: float, adjacency: pa.Adjacency
) -> None:
    """One record per teacher; of one label at 0.05, most teachers have none."""
    shares = (np.random.default_rng(1).random((1000, num_labels)) < share).astype(float)
    prevalence = Prevalence(noise_multiplier=2.6, adjacency=adjacency)
    found = prevalence.release(shares, num_teachers=1000, rng=np.random.default_rng(0))
    assert np.sqrt(((found - shares.mean(axis=0)) ** 2).mean()) < 0.02


def test_more_noise_than_can_be_drawn_is_refused_before_anything_is_charged() -> None:
    ledger = pa.Ledger(target_delta=1e-6)
    with pytest.raises(InvalidValue, match=r"noise_multiplier=10000000000.0: expected at most \d"):
        Prevalence(noise_multiplier=1e10).release(
            records(5), num_teachers=5, rng=np.random.default_rng(0), ledger=ledger
        )
    assert not ledger.entries
    Prevalence(noise_multiplier=1e6).release(records(5), num_teachers=5, rng=np.random.default_rng(0), ledger=ledger)


def test_the_prevalence_stays_within_bounds_whatever_the_noise() -> None:
    found = Prevalence(noise_multiplier=1e4).release(records(5), num_teachers=5, rng=np.random.default_rng(0))
    assert ((found >= 0.005) & (found <= 0.995)).all()
    nothing = Prevalence(noise_multiplier=1.0).release(np.zeros((50, 3)), num_teachers=50, rng=np.random.default_rng(0))
    assert (nothing < 0.2).all()


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        (np.full((2, 3), 1.5), r"label_shares\[0, 0\]: expected numbers in \[0, 1\]"),
        (np.full((2, 3), np.nan), r"label_shares\[0, 0\]: expected numbers in \[0, 1\]"),
        (np.zeros(3), r"label_shares\.shape=float64 \(3,\): expected numbers \[num_teachers, num_labels\]"),
        (np.zeros((3, 2)), r"num_teachers=2: expected 3, the shares' rows"),
    ],
)
def test_impossible_shares_are_refused_before_anything_is_spent(shares: Any, message: str) -> None:
    ledger = pa.Ledger(target_delta=1e-5)
    with pytest.raises(InvalidValue, match=message):
        Prevalence(noise_multiplier=1.0).release(shares, num_teachers=2, rng=np.random.default_rng(0), ledger=ledger)
    assert ledger.entries == []


def test_fewer_than_one_record_per_teacher_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"^records_per_teacher=0\.5: expected a number >= 1$"):
        Prevalence(noise_multiplier=1.0).release(
            records(5), num_teachers=5, rng=np.random.default_rng(0), records_per_teacher=0.5
        )


def test_a_refused_charge_of_the_prevalence_draws_nothing() -> None:
    rng, ledger = np.random.default_rng(0), pa.Ledger(target_delta=1e-5, max_epsilon=0.01)
    before = rng.bit_generator.state
    with pytest.raises(pa.BudgetExceeded, match=r"max_epsilon=0\.01: expected at least"):
        Prevalence(noise_multiplier=1.0).release(records(50), num_teachers=50, rng=rng, ledger=ledger)
    assert rng.bit_generator.state == before


def test_noise_std_is_that_of_the_scores() -> None:
    votes = np.zeros((10, 40, 30))
    aggregator = CenteredVotes(noise_multiplier=3.0, prevalence_share=0.0, center=0.0, clip=2.0)
    release: Any = aggregator.aggregate(votes, num_teachers=10, rng=np.random.default_rng(0))
    assert release.noise_std == pytest.approx(3.0 * 2 * 2.0 / 10, rel=1e-3)
    assert release.scores.std() == pytest.approx(release.noise_std, rel=0.05)
    grid = release.scores / np.gcd.reduce(np.rint(release.scores * 2**40).astype(np.int64)) * 2**40
    np.testing.assert_allclose(grid, np.rint(grid), atol=1e-6)


def test_the_clip_is_a_function_of_the_center() -> None:
    """clip_factor sqrt(sum c (1 - c)): 20 queries, labels at 1/2, give sqrt(20 x 3 / 4)."""
    _, votes = teachers(4)
    long = 1e6 * votes
    aggregator = CenteredVotes(noise_multiplier=1.0, prevalence_share=0.0, clip_factor=0.5)
    summary = aggregator.gather(long, num_teachers=4)
    explicit = dataclasses.replace(aggregator, clip=0.5 * np.sqrt(15.0))
    np.testing.assert_array_equal(summary, explicit.gather(long, num_teachers=4))


def test_both_stages_are_charged_each_before_its_draw() -> None:
    _, votes = teachers(50)
    ledger = pa.Ledger(target_delta=1e-5, accountant=pa.ExactAccountant)
    aggregator = CenteredVotes(noise_multiplier=2.0).calibrated(
        target_epsilon=1.0,
        target_delta=1e-5,
        num_queries=20,
        num_labels=3,
        num_teachers=50,
        accountant=pa.ExactAccountant,
    )
    aggregator.aggregate(votes, num_teachers=50, rng=np.random.default_rng(0), ledger=ledger)
    assert [entry.event for entry in ledger.entries] == [
        aggregator.prevalence.event,
        pa.GaussianEvent(aggregator.votes_multiplier),
    ]
    assert 0.99 < ledger.epsilon <= 1.0


def test_a_center_must_fit_and_a_stream_is_read_once() -> None:
    _, votes = teachers(5)
    aggregator = CenteredVotes(noise_multiplier=1.0, prevalence_share=0.0, center=np.zeros((7, 3)))
    with pytest.raises(InvalidValue, match=r"center\.shape=\(7, 3\): expected \(20, 3\), its last axis, or a number"):
        aggregator.gather(votes, num_teachers=5)
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidValue, match=r"votes=.*: expected an array .*, read twice; or prevalence_share=0"):
        CenteredVotes(noise_multiplier=1.0).aggregate(iter([votes]), num_teachers=5, rng=rng)
    with pytest.raises(InvalidValue, match=r"prevalence_share=0\.1: expected 0 once the center is known"):
        CenteredVotes(noise_multiplier=1.0).gather(votes, num_teachers=5)
    with pytest.raises(InvalidValue, match="num_teachers=5: expected 0, the teachers in votes"):
        CenteredVotes(noise_multiplier=1.0, prevalence_share=0.0).gather(iter([]), num_teachers=5)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (np.ones((5, 20, 3), dtype=np.int64), r"votes\.dtype=int64: expected bool votes or confidences"),
        (np.full((5, 20, 3), np.nan), r"votes\[0, 0, 0\]: expected confidences in \[0, 1\]"),
        (np.full((5, 20, 3), 1.5), r"votes\[0, 0, 0\]: expected confidences in \[0, 1\]"),
        (np.ones((20, 3)), r"votes\.shape=\(20, 3\): expected \[num_teachers, num_queries, num_labels\]"),
        ([[[1.0], [1.0, 1.0]]], r"votes: expected rows of equal length"),
    ],
)
def test_impossible_votes_are_refused_before_the_prevalence_is_charged(votes: Any, message: str) -> None:
    ledger = pa.Ledger(target_delta=1e-6)
    with pytest.raises(InvalidValue, match=message):
        CenteredVotes(noise_multiplier=1.0).aggregate(
            votes, num_teachers=5, rng=np.random.default_rng(0), ledger=ledger
        )
    assert not ledger.entries
