"""Centered votes and the prevalence: values by hand, both stages, what is charged and refused."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

import pate.accounting as pa
from pate.accounting import Adjacency, BudgetExceeded, ExactAccountant, Ledger
from pate.aggregators import CenteredRelease, CenteredVotes, Prevalence
from pate.aggregators.centered_release import RoundsRelease
from pate.aggregators.record import MemoryRecord
from pate.data import Split
from pate.models import LowRankStudent
from pate.models.kernel_votes import KernelVotes
from pate.votes.arrays import VoteBlocks
from tests.contract.case import charging
from tests.refusals import ANY, Refusal, refused

SHARES = np.array([0.5, 0.3, 0.05])


def records(count: int) -> Any:
    return np.random.default_rng(0).random((count, 3)) < SHARES


def prevalence_of(
    shares: Any, noise_multiplier: float = 1.0, num_teachers: int | None = None, **options: Any
) -> Any:
    given = {"num_teachers": num_teachers or len(shares), "rng": np.random.default_rng(0)} | options
    adjacency = given.pop("adjacency", pa.Adjacency.REPLACE_ONE)
    return Prevalence(noise_multiplier=noise_multiplier, adjacency=adjacency).release(
        shares, **given
    )


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
    ("shares", "options", "refusal"),
    [
        (np.full((2, 3), 1.5), {}, refused("label_shares[0, 0]", rule="[0, 1]")),
        (np.full((2, 3), np.nan), {}, refused("label_shares[0, 0]", rule="[0, 1]")),
        (
            np.zeros(3),
            {},
            refused("label_shares.shape", "float64 (3,)"),
        ),
        (np.zeros((3, 2)), {"num_teachers": 2}, refused("num_teachers", 2, "3, the shares'")),
        (
            records(5),
            {"records_per_teacher": 0.5},
            refused("records_per_teacher", 0.5),
        ),
        (
            records(5),
            {"noise_multiplier": 1e10},
            refused("noise_multiplier", 10000000000.0),
        ),
    ],
)
def test_what_is_impossible_is_refused_before_anything_is_spent(
    shares: Any, options: Any, refusal: Refusal
) -> None:
    ledger = pa.Ledger(target_delta=1e-5)
    with refusal:
        prevalence_of(shares, ledger=ledger, **options)
    assert ledger.entries == []


def test_a_refused_charge_of_the_prevalence_draws_nothing() -> None:
    rng = np.random.default_rng(0)
    ledger = pa.Ledger(target_delta=1e-5, max_epsilon=0.01)
    before = rng.bit_generator.state
    with refused("max_epsilon", 0.01, kind=pa.BudgetExceeded):
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
    summary = aggregator.summarize(VoteBlocks(long, num_teachers=4))
    explicit = dataclasses.replace(aggregator, clip=0.5 * np.sqrt(15.0))
    np.testing.assert_array_equal(summary, explicit.summarize(VoteBlocks(long, num_teachers=4)))


def test_one_charge_pays_for_both_stages() -> None:
    _, votes = teachers(50)
    ledger = pa.Ledger(target_delta=1e-5, accountant=pa.ExactAccountant)
    aggregator = CenteredVotes(noise_multiplier=2.0).calibrated(
        target_epsilon=1.0,
        target_delta=1e-5,
        accountant=pa.ExactAccountant,
        num_queries=20,
        num_labels=3,
        num_teachers=50,
    )
    aggregator.aggregate(votes, num_teachers=50, rng=np.random.default_rng(0), ledger=ledger)
    both = [aggregator.prevalence.event.noise_multiplier, aggregator.votes_multiplier]
    assert [entry.event for entry in ledger.entries] == [pa.GaussianEvent.composed(both)]
    assert 0.99 < ledger.epsilon <= 1.0


def test_a_center_must_fit_and_a_stream_is_read_once() -> None:
    _, votes = teachers(5)
    aggregator = CenteredVotes(noise_multiplier=1.0, prevalence_share=0.0, center=np.zeros((7, 3)))
    with refused("center.shape", (7, 3), "(20"):
        aggregator.summarize(VoteBlocks(votes, num_teachers=5))
    rng = np.random.default_rng(0)
    with refused("votes", ANY, "an array"):
        CenteredVotes(noise_multiplier=1.0).aggregate(iter([votes]), num_teachers=5, rng=rng)
    with refused("prevalence_share", 0.1, "0"):
        CenteredVotes(noise_multiplier=1.0).summarize(VoteBlocks(votes, num_teachers=5))
    with refused("num_teachers", 5, "0"):
        VoteBlocks(iter([]), num_teachers=5)


@pytest.mark.parametrize(
    ("votes", "refusal"),
    [
        (
            np.ones((5, 20, 3), dtype=np.int64),
            refused("votes.dtype", "int64", "bool votes or confidences"),
        ),
        (np.full((5, 20, 3), np.nan), refused("votes[0, 0, 0]", rule="confidences in")),
        (np.full((5, 20, 3), 1.5), refused("votes[0, 0, 0]", rule="confidences in")),
        (
            np.ones((20, 3)),
            refused("votes.shape", (20, 3)),
        ),
        ([[[1.0], [1.0, 1.0]]], refused("votes", rule="rows of")),
    ],
)
def test_impossible_votes_are_refused_before_the_prevalence_is_charged(
    votes: Any, refusal: Refusal
) -> None:
    ledger = pa.Ledger(target_delta=1e-6)
    rng = np.random.default_rng(0)
    with refusal:
        CenteredVotes(noise_multiplier=1.0).aggregate(votes, num_teachers=5, rng=rng, ledger=ledger)
    assert not ledger.entries


RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(5, 4)) * 1.5
INPUTS = RNG.normal(size=(6000, 5)).astype(np.float32)
LABELS = 1 / (1 + np.exp(1 - INPUTS @ WEIGHTS)) > RNG.random((6000, 4))
SHAPE = {"num_queries": 100, "num_labels": 4}


def source(
    teacher_of: Any = None, num_teachers: int = 4000, labels: Any = LABELS[:4000]
) -> KernelVotes:
    each = np.arange(4000)
    pool = np.arange(1000)
    return KernelVotes(
        private=Split(INPUTS[:4000], labels, each, each),
        teacher_of=each if teacher_of is None else teacher_of,
        num_teachers=num_teachers,
        public=Split(INPUTS[4000:5000], LABELS[4000:5000], pool, pool),
        num_queries=100,
    )


def aggregator(epsilon: float = 1.0, num_teachers: int = 4000, **changes: Any) -> CenteredVotes:
    return CenteredVotes(noise_multiplier=1.0, **changes).calibrated(
        target_epsilon=epsilon,
        target_delta=1e-6,
        num_teachers=num_teachers,
        accountant=ExactAccountant,
        **SHAPE,
    )


def released(
    asked: CenteredVotes,
    votes: KernelVotes | None = None,
    seed: int = 0,
    *,
    ledger: Ledger | None = None,
    record: MemoryRecord | None = None,
) -> Any:
    votes = votes or source()
    if ledger is not None:
        record = charging(ledger, asked, votes)
    return asked.release(votes, np.random.default_rng(seed), record or MemoryRecord())


def precision(release: Any) -> float:
    training = release.training_set(INPUTS[4000:4100])
    student = LowRankStudent().learn(training, pool=INPUTS[4100:5000], seed=0)
    said = student.predict_proba(INPUTS[5000:])
    return float(np.mean([average_precision_score(LABELS[5000:, j], said[:, j]) for j in range(4)]))


def test_rounds_know_no_less_than_one_at_the_same_price() -> None:
    known = {}
    for rounds in (1, None):
        asked = aggregator(rounds=rounds)
        releases = [released(asked, seed=seed) for seed in range(3)]
        assert isinstance(releases[0], CenteredRelease if rounds == 1 else RoundsRelease)
        assert releases[0].event == asked.event_for(num_teachers=4000, **SHAPE)
        known[rounds] = np.mean([precision(release) for release in releases])
    assert known[None] > known[1]


def test_the_student_says_what_was_released(tmp_path: Any) -> None:
    release = released(aggregator())
    student: Any = LowRankStudent().learn(
        release.training_set(INPUTS[4000:4100]), pool=INPUTS[4100:5000], seed=0
    )
    np.testing.assert_allclose(student.predict_proba(INPUTS[4000:4100]), release.scores, atol=1e-5)
    assert (student.predict(INPUTS[4000:4100]) == release.labels).mean() > 0.99
    release.save(tmp_path / "release" / "release.npz")
    path = tmp_path / "release" / "release.npz"
    read = RoundsRelease.load(path, event=release.event, adjacency=release.adjacency)
    for name in ("labels", "answered", "scores", "student"):
        np.testing.assert_array_equal(getattr(read, name), getattr(release, name))


def test_a_sum_that_is_not_exact_is_refused_before_anything_is_paid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pate.votes.clipping.LARGEST_SUM", 2.0**37)
    ledger = Ledger(target_delta=1e-6, accountant=ExactAccountant)
    with refused("num_queries", 100):
        released(aggregator(rounds=1), ledger=ledger)
    assert ledger.entries == []


def test_one_charge_of_all_rounds_comes_before_the_first_draw() -> None:
    asked = aggregator()
    event = asked.event_for(num_teachers=4000, **SHAPE)
    ledger = Ledger(target_delta=1e-6, accountant=ExactAccountant)
    for number in (1, 2):
        released(asked, ledger=ledger)
        assert [entry.event for entry in ledger.entries] == [event] * number
    assert ledger.entries[0].epsilon == pytest.approx(1.0, rel=1e-4)
    short = Ledger(target_delta=1e-6, accountant=ExactAccountant, max_epsilon=0.6)
    with pytest.raises(BudgetExceeded):
        released(asked, ledger=short)
    assert short.entries == []


def test_rounds_that_were_drawn_are_read_back_and_the_others_drawn_around_them() -> None:
    """With other noise, as of an unseeded run that was killed; what was committed stays what it was."""
    kept = MemoryRecord()
    whole = released(aggregator(), record=kept)
    parts = {name: arrays for name, arrays in kept.parts.items() if name != "release"}
    before = ["lengths", "mean-1", "mean-2", "prevalence"]
    assert list(parts) == [
        *before,
        *(f"step-{number}" for number in range(len(parts) - len(before))),
    ]
    again = MemoryRecord()
    again.parts |= parts
    same = released(aggregator(), seed=1, record=again)
    np.testing.assert_array_equal(same.labels, whole.labels)
    begun = MemoryRecord()
    begun.parts |= {name: parts[name] for name in list(parts)[:2]}
    other = released(aggregator(), seed=1, record=begun)
    for name in list(parts)[:2]:
        assert begun.parts[name] is parts[name]
    assert (begun.parts["step-1"]["total"] != parts["step-1"]["total"]).any()
    assert other.event == whole.event


def test_teachers_of_several_records_are_the_units() -> None:
    """Mean of three draws: with all five directions in both, rounds gain a thousandth."""
    votes = source(np.arange(4000) % 500, 500)
    known = {}
    for rounds in (1, None):
        asked = aggregator(3.0, 500, rounds=rounds)
        drawn = [released(asked, votes, seed) for seed in range(3)]
        known[rounds] = np.mean([precision(release) for release in drawn])
    assert known[None] > known[1]


@pytest.mark.parametrize("num_teachers", [4000, 2000])
def test_rounds_take_more_directions_than_one_matrix(num_teachers: int) -> None:
    """Half in place of a quarter of the labels' variance is noise: more directions by the root of 2."""
    votes = source(np.arange(4000) % num_teachers, num_teachers)
    noise = float(160 * np.sqrt(num_teachers / 4000))  # the same 4 k**2 L z**2 / (n N)
    assert votes.in_rounds(noise_multiplier=noise).width - 1 == 4
    assert votes.span(noise_multiplier=noise).shape[1] == 3


def test_what_rounds_cannot_add_up_is_refused_before_anything_is_charged() -> None:
    ledger = Ledger(target_delta=1e-6, accountant=ExactAccountant)
    noisy = CenteredVotes(noise_multiplier=1e4)
    for asked, votes, refusal in (
        (
            aggregator(),
            source(num_teachers=2**22),
            refused("num_teachers", 4194304),
        ),
        (
            aggregator(clip_factor=1e-99),
            source(),
            refused("clip_factor", 1e-99),
        ),
        (
            aggregator(),
            source(labels=np.zeros((4000, 1025), bool)),
            refused("num_labels", 1025),
        ),
        (
            noisy,
            source(),
            refused("noise_multiplier", ANY, "1831 in"),
        ),
    ):
        with refusal:
            released(asked, votes, ledger=ledger)
    assert not ledger.entries
    released(CenteredVotes(noise_multiplier=1700.0), ledger=ledger)


def test_under_add_remove_a_teacher_may_be_missing_and_noise_is_half() -> None:
    kept = np.arange(4000) != 17
    absent = source()
    absent.inputs = INPUTS[:4000][kept]
    absent.labels = LABELS[:4000][kept]
    absent.teacher_of = np.arange(4000)[kept]
    apart = {}
    for adjacency in Adjacency:
        asked = CenteredVotes(
            adjacency=adjacency, noise_multiplier=4.0, prevalence_share=0.0, center=0.3
        )
        apart[adjacency] = np.std(
            [released(asked, seed=seed).student for seed in range(6)], axis=0
        ).mean()
        assert isinstance(released(asked, absent), RoundsRelease)
    assert apart[Adjacency.ADD_REMOVE] < 0.8 * apart[Adjacency.REPLACE_ONE]
