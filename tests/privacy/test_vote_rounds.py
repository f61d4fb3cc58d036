"""Votes in rounds: how far one teacher moves the sum of a round, the noise of all rounds, and a whole release."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, GaussianEvent
from pate.aggregators import CenteredVotes
from pate.aggregators.centered_rounds import NoisyPrevalence
from pate.array_types import BoolArray, Float32Array, FloatArray, IntArray
from pate.device import torch
from pate.models.gpu_sums import GpuSums
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.labeled_rows import LabeledRows
from pate.votes.moment_votes import MomentVotes
from pate.votes.pool_answers import PoolAnswers
from pate.votes.public_pca import PublicPCA
from pate.votes.public_start import PublicStart
from pate.votes.round_records import RoundRecords
from pate.votes.round_sums import RoundSums, ThreadSums
from pate.votes.round_votes import RoundQuestion
from tests.privacy.divergences import assert_reached, record_constructed, verdict_on_shift
from tests.privacy.two_rounds import ROUNDS, require_price_of_two_rounds

ADJACENCIES = tuple(Adjacency)
POOL = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)


def votes_of(
    inputs: Any,
    labels: Any,
    teacher_of: Any,
    *,
    num_teachers: int,
    num_directions: int = 3,
    pool_answers: Any = None,
    expected_records: float = 1.0,
    pool_inputs: Float32Array = POOL,
    make_vote_sums: Callable[[RoundRecords], RoundSums] = ThreadSums,
) -> MomentVotes:
    """Returns the votes of kernel teachers, or of trained teachers if `pool_answers` are given.

    A kernel teacher's vote is multiplied by the root of its number of records over the expected number.

    Args:
        inputs: the inputs of all records, `[num_records, 3]`.
        labels: the labels of all records, bool `[num_records, num_labels]`.
        teacher_of: the teacher of each record, `[num_records]`.
        num_teachers: the number of teachers.
        num_directions: the number of principal directions of the pool that are features.
        pool_answers: the answers of trained teachers on the pool, beyond their own records,
            `[num_teachers, num_features, num_labels]`.
        expected_records: the expected number of records of a teacher.
        pool_inputs: the public inputs.
        make_vote_sums: makes the object that adds up the votes of a round.
    """
    public_pca = PublicPCA.fit(pool_inputs, max_directions=num_directions)

    def ask_teachers() -> PoolAnswers:
        return PoolAnswers(
            pool_excess=np.asarray(pool_answers, dtype=np.float32),
            asked_features=public_pca.with_constant(pool_inputs).astype(np.float32),
        )

    return MomentVotes(
        inputs=np.asarray(inputs, dtype=np.float32),
        labels=np.asarray(labels, dtype=np.bool_),
        teacher_of=np.asarray(teacher_of, dtype=np.int64),
        num_teachers=num_teachers,
        public_pca=public_pca,
        public_inputs=pool_inputs,
        records_per_teacher=expected_records,
        ask_teachers=None if pool_answers is None else ask_teachers,
        make_round_sums=make_vote_sums,
    )


def on_pretended_gpu(round_records: RoundRecords) -> RoundSums:
    """Returns sums by the code for a GPU, with tensors that lie on the processor."""
    return GpuSums(round_records, device=torch.device("cpu"))


@pytest.mark.parametrize(
    "make_vote_sums", [ThreadSums, pytest.param(on_pretended_gpu, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("clip", "expected_records", "weight"),
    [(0.05, 1.0, 1.0), (0.6, 1.0, 1.0), (40.0, 1.0, 1.0), (0.6, 1e-6, 1.0), (40.0, 1e3, 1.0)]
    + [(0.6, 1.0, weight) for weight in (0.5, 0.07, 0.003)],
)
def test_no_teacher_moves_a_sum_further_than_its_weight(
    make_vote_sums: Callable[[RoundRecords], RoundSums],
    adjacency: Adjacency,
    clip: float,
    expected_records: float,
    weight: float,
) -> None:
    """A kernel teacher that is replaced or removed moves the sum by at most its weight times the sensitivity.

    Its votes are multiplied by this weight. The teacher has 1 to 40 records with any labels. Some move exceeds 90% of
    the bound.
    """
    rng = np.random.default_rng(1)
    label_scale = np.array([3.0, 0.4]) * 40
    moment_clipping = ClippedMoments(clip, num_teachers=1, adjacency=adjacency)
    student_weights = rng.normal(size=(5, 2)) * 9
    question = RoundQuestion(
        student_weights=student_weights,
        label_scale=label_scale * max(expected_records, 1.0),
        moment_clipping=moment_clipping,
    )
    teacher_sums = []
    nums_of_records = (1, 2, 5, 40) * 3
    input_scales = (1e-6, 1.0, 1e6)
    pairs_of_bits = list(product((False, True), repeat=2))
    for num_records, input_scale, labels in product(nums_of_records, input_scales, pairs_of_bits):
        inputs = np.repeat(rng.normal(size=(1, 3)) * input_scale, num_records, axis=0)
        votes = votes_of(
            inputs,
            labels=[labels] * num_records,
            teacher_of=[0] * num_records,
            num_teachers=1,
            expected_records=expected_records,
            make_vote_sums=make_vote_sums,
        )
        votes.weights = None if weight == 1 else np.array([weight])
        vote_sum = votes.total(question).ravel()
        # a teacher may say the opposite under another student
        teacher_sums += [vote_sum, -vote_sum]
    assert_reached(
        teacher_sums, adjacency, claimed_l2_sensitivity=weight * moment_clipping.l2_sensitivity
    )


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_trained_teacher_moves_a_sum_further_than_its_weight(adjacency: Adjacency) -> None:
    """A trained teacher that is replaced or removed moves the sum by at most the sensitivity.

    The teacher has one or three records, and answers from 0 to huge ones. Some move exceeds 90% of the sensitivity.
    """
    rng = np.random.default_rng(4)
    moment_clipping = ClippedMoments(clip=0.6, num_teachers=1, adjacency=adjacency)
    question = RoundQuestion(
        student_weights=rng.normal(size=(5, 2)) * 9,
        label_scale=np.array([120.0, 16.0]),
        moment_clipping=moment_clipping,
    )
    teacher_sums = []
    nums_of_records = (1, 3)
    answer_scales = (0.0, 1e-3, 1.0, 1e9)
    pairs_of_bits = list(product((False, True), repeat=2))
    for num_records, answer_scale, labels in product(nums_of_records, answer_scales, pairs_of_bits):
        answers = rng.normal(size=(5, 2)) * answer_scale
        for sign in (1, -1):
            votes = votes_of(
                inputs=rng.normal(size=(num_records, 3)),
                labels=[labels] * num_records,
                teacher_of=[0] * num_records,
                num_teachers=1,
                pool_answers=[sign * answers],
            )
            teacher_sums.append(votes.total(question).ravel())
    assert_reached(teacher_sums, adjacency, claimed_l2_sensitivity=moment_clipping.l2_sensitivity)


@pytest.mark.parametrize(
    "group_weights", [None, np.array([1.0, 0.25, 0.6, 0.1, 0.9, 0.5])], ids=["alike", "by weight"]
)
@pytest.mark.parametrize(
    ("trained", "make_vote_sums"),
    [(False, ThreadSums), (False, on_pretended_gpu), (True, ThreadSums)],
)
def test_change_of_one_teacher_moves_the_sum_by_its_votes_alone(
    trained: bool,
    make_vote_sums: Callable[[RoundRecords], RoundSums],
    group_weights: FloatArray | None,
) -> None:
    """The sum equals, to the last bit, the sum of the weighted votes of each teacher alone.

    The order of the records does not matter.
    """
    rng = np.random.default_rng(2)
    teacher_of = np.array([0, 1, 2, 2, 3, 3, 3, 4, 5])
    inputs = rng.normal(size=(9, 3))
    labels = rng.random(size=(9, 2)) < 0.5
    student_weights = rng.normal(size=(5, 2))
    moment_clipping = ClippedMoments(clip=0.3, num_teachers=6)
    answers = rng.normal(size=(6, 5, 2)) if trained else None

    question = RoundQuestion(
        student_weights=student_weights, label_scale=np.ones(2), moment_clipping=moment_clipping
    )

    def sum_of_all(order_of_records: IntArray) -> IntArray:
        """Returns the sum of the votes of all six teachers, with the records in an order."""
        votes = votes_of(
            inputs[order_of_records],
            labels=labels[order_of_records],
            teacher_of=teacher_of[order_of_records],
            num_teachers=6,
            pool_answers=answers,
            make_vote_sums=make_vote_sums,
        )
        votes.weights = group_weights
        return votes.total(question)

    def sum_of_one(teacher: int) -> IntArray:
        """Returns the sum of the votes of one teacher, as if there were no other."""
        is_own = teacher_of == teacher
        votes = votes_of(
            inputs[is_own],
            labels=labels[is_own],
            teacher_of=np.zeros(int(is_own.sum())),
            num_teachers=1,
            pool_answers=None if answers is None else answers[teacher : teacher + 1],
            make_vote_sums=make_vote_sums,
        )
        votes.weights = None if group_weights is None else group_weights[teacher : teacher + 1]
        return votes.total(question)

    sum_of_single_votes = np.sum([sum_of_one(teacher) for teacher in range(6)], axis=0)
    np.testing.assert_array_equal(sum_of_all(order_of_records=np.arange(9)), sum_of_single_votes)
    np.testing.assert_array_equal(
        sum_of_all(order_of_records=rng.permutation(9)), sum_of_single_votes
    )


@pytest.mark.slow
@pytest.mark.parametrize("make_vote_sums", [ThreadSums, on_pretended_gpu])
@pytest.mark.parametrize("num_directions", [64, 65])
def test_votes_of_a_teacher_do_not_depend_on_other_teachers(
    num_directions: int, make_vote_sums: Callable[[RoundRecords], RoundSums]
) -> None:
    """The sum of 300 teachers equals, to the last bit, the sum of the votes of each teacher alone.

    At this size a plain matrix product of another shape would round differently.
    """
    rng = np.random.default_rng(8)
    num_teachers = 300
    num_labels = 40
    teacher_of = np.repeat(np.arange(num_teachers), rng.integers(low=0, high=4, size=num_teachers))
    inputs = rng.normal(size=(len(teacher_of), 100))
    labels = rng.random(size=(len(teacher_of), num_labels)) < 0.3
    pool_inputs = rng.normal(size=(400, 100)).astype(np.float32)
    weights = rng.normal(size=(num_directions + 1, num_labels)) * 0.3
    moment_clipping = ClippedMoments(clip=0.5, num_teachers=num_teachers)

    question = RoundQuestion(
        weights, label_scale=np.ones(num_labels), moment_clipping=moment_clipping
    )

    def sum_of_votes(record_indices: IntArray) -> FloatArray:
        """Returns the sum of the votes that some of the records give."""
        votes = votes_of(
            inputs[record_indices],
            labels=labels[record_indices],
            teacher_of=teacher_of[record_indices],
            num_teachers=num_teachers,
            num_directions=num_directions,
            pool_inputs=pool_inputs,
            make_vote_sums=make_vote_sums,
        )
        return votes.total(question).astype(np.float64)

    sums_of_teachers = [
        sum_of_votes(np.flatnonzero(teacher_of == teacher)) for teacher in np.unique(teacher_of)
    ]
    np.testing.assert_array_equal(
        sum_of_votes(np.arange(len(teacher_of))), np.sum(sums_of_teachers, axis=0)
    )


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("num_rounds", [1, 2, 6])
@pytest.mark.parametrize("has_start", [False, True])
def test_all_rounds_use_the_noise_that_is_charged(
    has_start: bool, num_rounds: int, adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum of 1 / (noise multiplier)^2 over all rounds is that of the charged event.

    That holds also if the first student comes from labels of public rows. The densities of the worst pair stay within
    the price, and the price for 5% more noise is refuted.
    """
    recorded_noises = record_constructed(
        monkeypatch, module_name="pate.aggregators.centered_rounds", class_name="RoundedGaussian"
    )
    recorded_moments = record_constructed(
        monkeypatch, module_name="pate.aggregators.centered_rounds", class_name="ClippedMoments"
    )
    rounds = CenteredVotes(
        noise_multiplier=1.7, prevalence_share=0.0, rounds=num_rounds, adjacency=adjacency
    )
    rng = np.random.default_rng(3)
    votes = votes_of(
        rng.normal(size=(30, 3)),
        labels=rng.random(size=(30, 2)) < 0.3,
        teacher_of=np.arange(30),
        num_teachers=30,
    )
    public_start = (
        LabeledRows(labels=rng.random((8, 2)) < 0.5).public_start(votes) if has_start else None
    )
    prevalence = NoisyPrevalence(values=np.array([0.3, 0.3]), variance=0.0)
    rounds._rounds_mechanism.student(votes, prevalence, rng=rng, public_start=public_start)
    assert [moments.adjacency for moments in recorded_moments] == [adjacency] * num_rounds
    shifts = [
        moments.l2_sensitivity / noise.std
        for moments, noise in zip(recorded_moments, recorded_noises, strict=True)
    ]
    mean_shift = float(np.linalg.norm(shifts))
    assert 1 / mean_shift == pytest.approx(1.7, rel=1e-9)
    assert verdict_on_shift(
        mean_shift, event=rounds.event_for(num_queries=9, num_labels=2, num_teachers=30)
    ).sound
    assert verdict_on_shift(mean_shift, event=GaussianEvent(noise_multiplier=1.7 * 1.05)).refuted


@pytest.mark.slow
def test_draws_of_a_whole_release_in_two_rounds_do_not_refute_its_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sampled releases in two rounds do not refute their price.

    The student of the second round depends on the first round. Negative control: they refute the price of one of the
    two rounds.
    """
    inputs = np.repeat(POOL[:1], 3, axis=0)

    def votes_of_labels(labels: BoolArray) -> MomentVotes:
        return votes_of(
            inputs, labels=labels, teacher_of=np.arange(3), num_teachers=3, num_directions=1
        )

    require_price_of_two_rounds(
        votes_of_labels=votes_of_labels,
        refuted_price=GaussianEvent(noise_multiplier=ROUNDS.noise_multiplier * math.sqrt(2)),
        monkeypatch=monkeypatch,
    )


def votes_of_three(labels: BoolArray) -> MomentVotes:
    """Returns the votes of three teachers with one record each, whose inputs are equal.

    Args:
        labels: the labels of the three records, `[3, 1]`.
    """
    inputs = np.repeat(POOL[:1], 3, axis=0)
    return votes_of(inputs, labels=labels, teacher_of=np.arange(3), num_teachers=3)


def start_with(log_odds: float) -> PublicStart:
    """Returns a start of the student that gives the records of `votes_of_three` these log-odds."""
    features = votes_of_three(labels=np.zeros((3, 1), np.bool_)).public_features[:1, :-1].T
    weights = log_odds * features / np.square(features).sum()
    return PublicStart(weights=weights, variances=np.full(weights.shape, 0.1))


def ask_first_round(labels: BoolArray, student_start: PublicStart) -> tuple[FloatArray, float]:
    """Returns the sum of the first round from a start, and the sensitivity that the noise is for."""
    votes = votes_of_three(labels)
    questions: list[RoundQuestion] = []

    def record_question(question: RoundQuestion) -> IntArray:
        questions.append(question)
        return np.zeros(question.student_weights.shape, np.int64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(votes, "total", record_question)
        rounds = CenteredVotes(
            noise_multiplier=1.0, prevalence_share=0.0, rounds=1
        )._rounds_mechanism
        rounds.student(
            votes, NoisyPrevalence(values=np.array([0.5]), variance=0.0), public_start=student_start
        )
    (question,) = questions
    moments = question.moment_clipping
    return votes.total(question).astype(np.float64), moments.l2_sensitivity


def largest_move(make_start: Callable[[BoolArray], PublicStart]) -> float:
    """Returns how far the sum of a round moves at most, in sensitivities, if one of three labels changes.

    Args:
        make_start: returns the start of the student for labels of the records, `[3, 1]`.
    """
    moves = []
    for labels_of_records, changed_record in product(product([False, True], repeat=3), range(3)):
        labels = np.array(labels_of_records)[:, None]
        neighboring_labels = labels.copy()
        neighboring_labels[changed_record] ^= True
        vote_sum, sensitivity = ask_first_round(labels, student_start=make_start(labels))
        neighboring_sum, _ = ask_first_round(
            neighboring_labels, student_start=make_start(neighboring_labels)
        )
        moves.append(float(np.linalg.norm(vote_sum - neighboring_sum)) / sensitivity)
    return max(moves)


@pytest.mark.slow
def test_one_record_moves_a_round_from_a_public_start_by_its_sensitivity() -> None:
    """From a start that does not depend on the records, one record moves the sum by at most the sensitivity.

    Negative control: from a start that depends on the private labels, it moves the sum further.
    """

    def make_fixed_start(_labels: BoolArray) -> PublicStart:
        return start_with(log_odds=4.0)

    def make_start_of_private_labels(labels: BoolArray) -> PublicStart:
        return start_with(log_odds=4.0 if labels.sum() < 2 else -4.0)

    assert largest_move(make_start=make_fixed_start) <= 1
    assert largest_move(make_start=make_start_of_private_labels) > 1.2


def test_clip_is_positive_for_a_student_with_certain_predictions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clip of a round is 1% of that for an undecided student if the student is certain of all labels.

    The clip is computed from the variance of the labels under the student, which is then 0.
    """
    recorded_moments = record_constructed(
        monkeypatch, module_name="pate.aggregators.centered_rounds", class_name="ClippedMoments"
    )
    for log_odds in (0.0, 1e6):
        ask_first_round(np.ones((3, 1), np.bool_), student_start=start_with(log_odds))
    clip_if_undecided, clip_if_certain = (moments.clip for moments in recorded_moments)
    assert clip_if_certain == pytest.approx(0.01 * clip_if_undecided, rel=1e-9)


def test_weights_are_finite_with_tiny_noise_on_separable_labels() -> None:
    """The student's weights are finite after 30 rounds with tiny noise, if the labels are linearly separable."""
    inputs = np.random.default_rng(4).normal(size=(400, 3))
    votes = votes_of(inputs, labels=inputs[:, :2] > 0, teacher_of=np.arange(400), num_teachers=400)
    certain_votes = CenteredVotes(noise_multiplier=1e-4, prevalence_share=0.0, rounds=30)
    prevalence = NoisyPrevalence(values=np.array([0.5, 0.5]), variance=0.0)
    weights = certain_votes._rounds_mechanism.student(
        votes, prevalence, rng=np.random.default_rng(5)
    ).weights
    assert np.isfinite(weights).all()
