"""Centered votes and the prevalence: values by hand, both stages, what is charged and refused."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import pate.accounting as pa
from pate.aggregators import CenteredVotes, Prevalence
from pate.validation import InvalidValue

SHARES = np.array([0.5, 0.3, 0.05])


def records(count: int) -> Any:
    return np.random.default_rng(0).random((count, 3)) < SHARES


def prevalence_of(shares: Any, noise_multiplier: float = 1.0, num_teachers: int | None = None, **options: Any) -> Any:
    given = {"num_teachers": num_teachers or len(shares), "rng": np.random.default_rng(0)} | options
    adjacency = given.pop("adjacency", pa.Adjacency.REPLACE_ONE)
    return Prevalence(noise_multiplier=noise_multiplier, adjacency=adjacency).release(shares, **given)


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
    found = prevalence_of(shares, 2.6, adjacency=adjacency)
    assert np.sqrt(((found - shares.mean(axis=0)) ** 2).mean()) < 0.02


def test_the_prevalence_stays_within_bounds_whatever_the_noise() -> None:
    found = prevalence_of(records(5), 1e4)
    assert ((found >= 0.005) & (found <= 0.995)).all()
    assert (prevalence_of(np.zeros((50, 3))) < 0.2).all()
    prevalence_of(records(5), 1e6)


@pytest.mark.parametrize(
    ("shares", "options", "message"),
    [
        (np.full((2, 3), 1.5), {}, r"label_shares\[0, 0\]: expected numbers in \[0, 1\]"),
        (np.full((2, 3), np.nan), {}, r"label_shares\[0, 0\]: expected numbers in \[0, 1\]"),
        (np.zeros(3), {}, r"label_shares\.shape=float64 \(3,\): expected numbers \[num_teachers, num_labels\]"),
        (np.zeros((3, 2)), {"num_teachers": 2}, r"num_teachers=2: expected 3, the shares' rows"),
        (records(5), {"records_per_teacher": 0.5}, r"^records_per_teacher=0\.5: expected a number >= 1$"),
        (records(5), {"noise_multiplier": 1e10}, r"noise_multiplier=10000000000.0: expected at most \d"),
    ],
)
def test_what_is_impossible_is_refused_before_anything_is_spent(shares: Any, options: Any, message: str) -> None:
    ledger = pa.Ledger(target_delta=1e-5)
    with pytest.raises(InvalidValue, match=message):
        prevalence_of(shares, ledger=ledger, **options)
    assert ledger.entries == []


def test_a_refused_charge_of_the_prevalence_draws_nothing() -> None:
    rng, ledger = np.random.default_rng(0), pa.Ledger(target_delta=1e-5, max_epsilon=0.01)
    before = rng.bit_generator.state
    with pytest.raises(pa.BudgetExceeded, match=r"max_epsilon=0\.01: expected at least"):
        prevalence_of(records(50), rng=rng, ledger=ledger)
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
    target = {"target_epsilon": 1.0, "target_delta": 1e-5, "accountant": pa.ExactAccountant}
    shape = {"num_queries": 20, "num_labels": 3, "num_teachers": 50}
    aggregator = CenteredVotes(noise_multiplier=2.0).calibrated(**target, **shape)
    aggregator.aggregate(votes, num_teachers=50, rng=np.random.default_rng(0), ledger=ledger)
    both = [aggregator.prevalence.event, pa.GaussianEvent(aggregator.votes_multiplier)]
    assert [entry.event for entry in ledger.entries] == both
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
    ledger, rng = pa.Ledger(target_delta=1e-6), np.random.default_rng(0)
    with pytest.raises(InvalidValue, match=message):
        CenteredVotes(noise_multiplier=1.0).aggregate(votes, num_teachers=5, rng=rng, ledger=ledger)
    assert not ledger.entries
