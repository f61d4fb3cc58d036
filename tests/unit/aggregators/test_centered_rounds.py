"""Centered votes in rounds: comparison with a release of one matrix, stored parts, and what is charged or refused.

Centered votes are the teachers' votes minus the prevalence of each label. One noisy sum of them is released as a
matrix. In rounds, several sums are released: each round subtracts the predictions of a public student in place of the
prevalence, and the student then takes a step. A record stores the parts of a release.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from pate.accounting import Adjacency, BudgetExceeded, ExactAccountant, Ledger
from pate.aggregators import CenteredRelease, CenteredVotes
from pate.aggregators.centered_release import RoundsRelease
from pate.aggregators.record import MemoryRecord
from pate.array_types import BoolArray, IntArray
from pate.data import Split
from pate.models import LowRankStudent
from pate.models.kernel_votes import KernelVotes
from pate.votes.labeled_rows import LabeledRows
from pate.votes.recipe import Recipe
from tests.contract.case import record_that_charges
from tests.refusals import ANY, Refusal, refused_parameter

NUM_RECORDS = 4000
RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(5, 4)) * 1.5
INPUTS = RNG.normal(size=(6000, 5)).astype(np.float32)
LABELS = 1 / (1 + np.exp(1 - INPUTS @ WEIGHTS)) > RNG.random(size=(6000, 4))
PUBLIC = slice(NUM_RECORDS, 5000)
QUERIES = slice(NUM_RECORDS, 4100)
TEST = slice(5000, 6000)


def kernel_votes(
    *,
    num_teachers: int = NUM_RECORDS,
    teacher_of_record: IntArray | None = None,
    labels: BoolArray = LABELS[:NUM_RECORDS],
) -> KernelVotes:
    """Returns votes of teachers with one record each, unless `teacher_of_record` deals them otherwise.

    A kernel teacher votes with the mean of features times labels over its records, without training.
    """
    ids = np.arange(NUM_RECORDS)
    public_ids = np.arange(1000)
    return KernelVotes(
        private_split=Split(INPUTS[:NUM_RECORDS], labels, record_ids=ids, group_ids=ids),
        teacher_of=ids if teacher_of_record is None else teacher_of_record,
        num_teachers=num_teachers,
        public_split=Split(
            INPUTS[PUBLIC], LABELS[PUBLIC], record_ids=public_ids, group_ids=public_ids
        ),
        num_queries=100,
    )


def calibrated_aggregator(
    *,
    epsilon: float = 1.0,
    num_teachers: int = NUM_RECORDS,
    rounds: int | None = None,
    clip_factor: float = 1.0,
) -> CenteredVotes:
    """Returns centered votes whose noise is fitted by the exact accountant; they are in rounds unless `rounds` is 1.

    Args:
        epsilon: the epsilon of the release.
        num_teachers: the number of teachers.
        rounds: the number of rounds; None for 20.
        clip_factor: multiplies the usual length at which a vote is clipped.
    """
    aggregator = CenteredVotes(noise_multiplier=1.0, rounds=rounds, clip_factor=clip_factor)
    return aggregator.calibrated(
        target_epsilon=epsilon,
        target_delta=1e-6,
        num_teachers=num_teachers,
        accountant=ExactAccountant,
        num_queries=100,
        num_labels=4,
    )


def release_votes(
    aggregator: CenteredVotes,
    source_of_votes: KernelVotes | None = None,
    seed: int = 0,
    *,
    ledger: Ledger | None = None,
    record: MemoryRecord | None = None,
) -> Any:
    """Returns the release of an aggregator; with a ledger, the release is charged to it."""
    source_of_votes = source_of_votes or kernel_votes()
    if ledger is not None:
        record = record_that_charges(ledger, aggregator=aggregator, votes=source_of_votes)
    return aggregator.release(
        source_of_votes, rng=np.random.default_rng(seed), record=record or MemoryRecord()
    )


def student_of_release(release: Any) -> Any:
    """Returns the student that is trained on a release."""
    training_set = release.training_set(INPUTS[QUERIES])
    return LowRankStudent().learn(training_set, pool=INPUTS[4100:5000], seed=0)


def mean_average_precision(release: Any) -> float:
    """Returns the mean average precision on the test set of the student of a release."""
    scores = student_of_release(release=release).predict_proba(INPUTS[TEST])
    columns = [average_precision_score(LABELS[TEST, j], scores[:, j]) for j in range(4)]
    return float(np.mean(columns))


@dataclass(frozen=True)
class RecordedRelease:
    """A release in rounds at epsilon 1, and its record."""

    release: Any
    record: MemoryRecord


@pytest.fixture(scope="module")
def recorded() -> RecordedRelease:
    """Returns a release in rounds at epsilon 1, with its record."""
    record = MemoryRecord()
    return RecordedRelease(release_votes(calibrated_aggregator(), record=record), record)


def mean_average_precision_of_three(
    aggregator: CenteredVotes, source_of_votes: KernelVotes
) -> float:
    """Returns the mean average precision of the students of three releases with different seeds."""
    releases = [
        release_votes(aggregator, source_of_votes=source_of_votes, seed=seed) for seed in range(3)
    ]
    return float(np.mean([mean_average_precision(release) for release in releases]))


def test_rounds_cost_as_much_as_one_matrix(recorded: RecordedRelease) -> None:
    """At one calibrated noise, a release in rounds and a release of one matrix have the aggregator's event."""
    once = release_votes(calibrated_aggregator(rounds=1))
    assert isinstance(once, CenteredRelease)
    assert isinstance(recorded.release, RoundsRelease)
    expected_event = calibrated_aggregator().event_for(
        num_teachers=NUM_RECORDS, num_queries=100, num_labels=4
    )
    assert once.event == recorded.release.event == expected_event


@pytest.mark.slow
def test_rounds_give_a_better_student_than_one_matrix() -> None:
    """At epsilon 1, students of releases in rounds have a higher mean average precision than students of one matrix."""
    source_of_votes = kernel_votes()
    assert mean_average_precision_of_three(
        aggregator=calibrated_aggregator(), source_of_votes=source_of_votes
    ) > mean_average_precision_of_three(
        aggregator=calibrated_aggregator(rounds=1), source_of_votes=source_of_votes
    )


@pytest.mark.slow
def test_rounds_give_a_better_student_for_several_records_per_teacher() -> None:
    """At epsilon 3 with 8 records per teacher, students of rounds have a higher mean average precision.

    The mean of three releases in rounds is compared with that of three releases of one matrix.
    """
    source_of_votes = kernel_votes(teacher_of_record=np.arange(NUM_RECORDS) % 500, num_teachers=500)
    in_rounds = calibrated_aggregator(epsilon=3.0, num_teachers=500)
    once = calibrated_aggregator(epsilon=3.0, num_teachers=500, rounds=1)
    assert mean_average_precision_of_three(
        aggregator=in_rounds, source_of_votes=source_of_votes
    ) > mean_average_precision_of_three(aggregator=once, source_of_votes=source_of_votes)


def test_the_student_predicts_the_released_scores(recorded: RecordedRelease) -> None:
    """The student of a release in rounds predicts the released scores within 1e-5, and over 99% of the labels."""
    student = student_of_release(release=recorded.release)
    scores = student.predict_proba(INPUTS[QUERIES])
    np.testing.assert_allclose(scores, recorded.release.scores, atol=1e-5)
    assert (student.predict(INPUTS[QUERIES]) == recorded.release.labels).mean() > 0.99


def test_saved_release_is_read_back_unchanged(recorded: RecordedRelease, tmp_path: Any) -> None:
    """A release in rounds that is saved and loaded has equal labels, answered queries, scores and student weights."""
    release = recorded.release
    path = tmp_path / "release" / "release.npz"
    release.save(path)
    copy = RoundsRelease.load(path, event=release.event, adjacency=release.adjacency)
    for name in ("labels", "answered", "scores", "student"):
        np.testing.assert_array_equal(getattr(copy, name), getattr(release, name))


def test_inexact_sum_is_refused_before_the_charge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the limit of exact sums is lowered, the release of one matrix is refused and nothing is charged."""
    monkeypatch.setattr("pate.votes.clipping.LARGEST_SUM", 2.0**37)
    ledger = Ledger(target_delta=1e-6, accountant=ExactAccountant)
    with refused_parameter("num_queries", value=100):
        release_votes(calibrated_aggregator(rounds=1), ledger=ledger)
    assert ledger.entries == []


@pytest.mark.slow
def test_each_release_is_charged_once() -> None:
    """Two releases in rounds to one ledger add one charge each, with the aggregator's event."""
    aggregator = calibrated_aggregator()
    event = aggregator.event_for(num_teachers=NUM_RECORDS, num_queries=100, num_labels=4)
    ledger = Ledger(target_delta=1e-6, accountant=ExactAccountant)
    for number in (1, 2):
        release_votes(aggregator, ledger=ledger)
        assert [entry.event for entry in ledger.entries] == [event] * number
    assert ledger.entries[0].epsilon == pytest.approx(1.0, rel=1e-4)


@pytest.mark.slow
def test_the_charge_of_all_rounds_comes_before_the_first_draw() -> None:
    """If the price of a release exceeds the ledger's cap, nothing is charged and no part is drawn."""
    ledger = Ledger(target_delta=1e-6, accountant=ExactAccountant, max_epsilon=0.6)
    source_of_votes = kernel_votes()
    record = record_that_charges(ledger, aggregator=calibrated_aggregator(), votes=source_of_votes)
    with pytest.raises(BudgetExceeded):
        release_votes(calibrated_aggregator(), source_of_votes, record=record)
    assert ledger.entries == []
    assert record.parts == {}


def test_each_step_of_the_prevalence_and_each_round_is_a_part(recorded: RecordedRelease) -> None:
    """The record of a release in rounds has parts for the steps of the prevalence, 20 rounds and the release."""
    steps = [f"step-{number}" for number in range(20)]
    names = ["lengths", "mean-1", "mean-2", "prevalence", *steps, "release"]
    assert sorted(recorded.record.parts) == sorted(names)


def record_with_parts(arrays_of_parts: dict[str, Any]) -> MemoryRecord:
    """Returns a record in which some parts are already committed."""
    record = MemoryRecord()
    record.parts |= arrays_of_parts
    return record


def test_a_release_with_all_rounds_committed_is_read_back(recorded: RecordedRelease) -> None:
    """A stored release that lacks only its last part has the same labels if it is continued under another seed.

    A run that was killed before its last part leaves such a record.
    """
    parts = {name: part for name, part in recorded.record.parts.items() if name != "release"}
    continued = release_votes(
        calibrated_aggregator(), seed=1, record=record_with_parts(arrays_of_parts=parts)
    )
    np.testing.assert_array_equal(continued.labels, recorded.release.labels)


def test_weights_are_the_mean_of_both_students(recorded: RecordedRelease) -> None:
    """The published weights are the mean of the weights after the last round and those of the moment student.

    The moment student learns from the noisy covariances of features and labels of all rounds. The weights of both
    students differ. The constants of labels are not compared: they are matched to the prevalence.
    """
    weights = {}
    for share_of_moment_student in (0.0, 0.5, 1.0):
        aggregator = replace(
            calibrated_aggregator(), recipe=Recipe(moment_share=share_of_moment_student)
        )
        parts = dict(recorded.record.parts)
        del parts["release"]
        release = release_votes(aggregator, record=record_with_parts(arrays_of_parts=parts))
        weights[share_of_moment_student] = release.student[:-1]
    np.testing.assert_allclose(weights[0.5], (weights[0.0] + weights[1.0]) / 2, rtol=1e-12)
    assert np.abs(weights[0.0] - weights[1.0]).max() > 0.01
    recorded_weights = recorded.release.student[:-1]
    np.testing.assert_array_equal(weights[0.5], recorded_weights)


def test_missing_rounds_are_drawn_after_stored_parts(
    recorded: RecordedRelease,
) -> None:
    """A release that is continued after two stored parts of the prevalence keeps both, and draws other rounds.

    It is continued under another seed, and its event is the same.
    """
    parts = recorded.record.parts
    committed = {name: parts[name] for name in ("lengths", "mean-1")}
    record = record_with_parts(arrays_of_parts=committed)
    continued = release_votes(calibrated_aggregator(), seed=1, record=record)
    for name, part in committed.items():
        assert record.parts[name] is part
    assert (record.parts["step-1"]["total"] != parts["step-1"]["total"]).any()
    assert continued.event == recorded.release.event


@pytest.mark.parametrize("num_teachers", [4000, 2000])
def test_rounds_take_more_directions_than_one_matrix(num_teachers: int) -> None:
    """At the same noise, rounds use 4 public directions (principal components of public rows) where one matrix uses 3.

    The noise may be half of the labels' variance in rounds, and a quarter in one matrix. The noise grows with the
    square of the number of directions, so rounds afford sqrt(2) times as many.
    """
    source_of_votes = kernel_votes(
        teacher_of_record=np.arange(NUM_RECORDS) % num_teachers, num_teachers=num_teachers
    )
    # The share of the noise in the labels' variance grows with its square over the number of teachers, and is the same.
    noise_of_release = float(160 * np.sqrt(num_teachers / 4000))
    rounds: Any = source_of_votes.in_rounds(noise_multiplier=noise_of_release)
    assert rounds.num_features - 1 == 4
    assert source_of_votes.span(noise_multiplier=noise_of_release).shape[1] == 3


def test_labels_of_public_rows_have_their_directions_at_any_noise() -> None:
    """Votes in rounds use one public direction at a large noise, and six if they start from the labels of public rows.

    A direction is a principal component of public rows.
    """
    noisy = CenteredVotes(noise_multiplier=1e3)
    start = LabeledRows(LABELS[PUBLIC][:100])
    widths = []
    for aggregator in (noisy, replace(noisy, start=start)):
        rounds = aggregator.votes_in_rounds(kernel_votes())
        assert rounds is not None
        widths.append(rounds.num_features - 1)  # without the constant
    assert widths == [1, 6]


@pytest.mark.parametrize(
    ("aggregator", "source_of_votes", "refusal"),
    [
        (
            calibrated_aggregator(),
            kernel_votes(num_teachers=2**32),
            refused_parameter("num_teachers", value=2**32),
        ),
        (
            calibrated_aggregator(clip_factor=1e-99),
            kernel_votes(),
            refused_parameter("clip_factor", value=1e-99),
        ),
        (
            calibrated_aggregator(),
            kernel_votes(labels=np.zeros((NUM_RECORDS, 8193), bool)),
            refused_parameter("num_labels", value=8193),
        ),
        (
            CenteredVotes(noise_multiplier=1e4),
            kernel_votes(),
            refused_parameter("noise_multiplier", value=ANY, rule_words="1831 in"),
        ),
    ],
    ids=["teachers", "clip_factor", "labels", "noise"],
)
def test_sums_too_large_for_rounds_are_refused_before_the_charge(
    aggregator: CenteredVotes, source_of_votes: KernelVotes, refusal: Refusal
) -> None:
    """Too many teachers or labels, too small a clip, or too much noise is refused, and nothing is charged."""
    ledger = Ledger(target_delta=1e-6, accountant=ExactAccountant)
    with refusal:
        release_votes(aggregator, source_of_votes, ledger=ledger)
    assert not ledger.entries


def test_noise_just_below_the_limit_is_drawn() -> None:
    """Noise of multiplier 1700, just below the limit for exact sums, raises no error."""
    release_votes(CenteredVotes(noise_multiplier=1700.0))


def test_under_add_remove_a_teacher_may_be_missing() -> None:
    """If one of 4000 declared teachers has no record, a release in rounds is made under either adjacency."""
    is_present = np.arange(NUM_RECORDS) != 17
    source_of_votes = kernel_votes()
    source_of_votes.teacher_of = np.arange(NUM_RECORDS)[is_present]
    source_of_votes.private_split = source_of_votes.private_split.take(np.flatnonzero(is_present))
    for adjacency in Adjacency:
        assert isinstance(
            release_votes(votes_around_public_center(adjacency=adjacency), source_of_votes),
            RoundsRelease,
        )


@pytest.mark.slow
def test_under_add_remove_noise_is_half() -> None:
    """At one noise multiplier, the spread of students under add-remove is below 0.8 times that under replace-one."""
    spread = {}
    for adjacency in Adjacency:
        aggregator = votes_around_public_center(adjacency=adjacency)
        students = [release_votes(aggregator, seed=seed).student for seed in range(6)]
        spread[adjacency] = np.std(students, axis=0).mean()
    assert spread[Adjacency.ADD_REMOVE] < 0.8 * spread[Adjacency.REPLACE_ONE]


def votes_around_public_center(adjacency: Adjacency) -> CenteredVotes:
    """Returns centered votes with noise multiplier 4 and the public center 0.3."""
    return CenteredVotes(
        adjacency=adjacency, noise_multiplier=4.0, prevalence_share=0.0, center=0.3
    )
