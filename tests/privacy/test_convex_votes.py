"""Convex teachers: how far one group moves the sum of votes, independence of other teachers, whole releases."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, GaussianEvent
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.errors import NOT_SHOWN
from pate.models import ConvexTeacher
from pate.votes import convex_votes
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.convex_votes import ConvexVotes
from pate.votes.public_pca import PublicPCA
from pate.votes.round_votes import RoundQuestion
from tests.privacy.divergences import largest_move
from tests.privacy.two_rounds import ROUNDS, require_price_of_two_rounds
from tests.refusals import ANY, refused_parameter

POOL = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
LABEL_SCALE = np.array([3.0, 0.4])
STUDENT_WEIGHTS = np.random.default_rng(1).normal(size=(5, 2)) * 9


def votes_of(
    inputs: Any,
    labels: Any,
    group_of: Any,
    learner_of_group: Any,
    *,
    penalty: float = 10.0,
    num_directions: int = 3,
) -> ConvexVotes:
    """Returns the votes of convex teachers.

    Args:
        inputs: the inputs of all records, `[num_records, 3]`.
        labels: the labels of all records, `[num_records, 2]`.
        group_of: the group of each record.
        learner_of_group: the teacher of each group.
        penalty: the penalty of a teacher's weights.
        num_directions: the number of principal directions of the public pool.
    """
    learners = np.asarray(learner_of_group, dtype=np.int64)
    return ConvexVotes(
        learner_of_group=learners,
        num_learners=int(learners.max()) + 1,
        penalty=penalty,
        inputs=np.asarray(inputs, dtype=np.float32),
        labels=np.asarray(labels, dtype=np.bool_),
        teacher_of=np.asarray(group_of, dtype=np.int64),
        num_teachers=len(learners),
        public_pca=PublicPCA.fit(POOL, max_directions=num_directions),
        public_inputs=POOL,
        records_per_teacher=1.0,
    )


def sums_with_any_first_group(
    num_other_groups: int, *, penalty: float, clip: float
) -> tuple[FloatArray, ClippedMoments]:
    """Returns the sums of votes of many first groups, each beside the same `num_other_groups` other groups.

    A first group has one, two or five records. The axes of the array `[9, 2, 4, 10]` are for the numbers and sizes of
    its records, both signs of the student's weights, the labels, and the entries of a sum. The second value has the
    sensitivity.
    """
    rng = np.random.default_rng(2)
    moment_clipping = ClippedMoments(clip, num_teachers=1 + num_other_groups)
    other_inputs = rng.normal(size=(num_other_groups, 3))
    other_labels = rng.random(size=(num_other_groups, 2)) < 0.5
    vote_sums = []
    for num_records, input_scale, sign in product((1, 2, 5), (1e-6, 1.0, 1e6), (1, -1)):
        for labels in product((False, True), repeat=2):
            inputs_of_first_group = np.repeat(
                rng.normal(size=(1, 3)) * input_scale, num_records, axis=0
            )
            group_of = np.concatenate(
                [np.zeros(num_records, dtype=int), 1 + np.arange(num_other_groups)]
            )
            all_labels = np.concatenate([np.tile(labels, (num_records, 1)), other_labels])
            votes = votes_of(
                inputs=np.concatenate([inputs_of_first_group, other_inputs]),
                labels=all_labels,
                group_of=group_of,
                learner_of_group=[0] * (1 + num_other_groups),
                penalty=penalty,
            )
            question = RoundQuestion(
                student_weights=STUDENT_WEIGHTS * sign,
                label_scale=LABEL_SCALE * 40,
                moment_clipping=moment_clipping,
            )
            vote_sums.append(votes.total(question).ravel())
    return np.array(vote_sums, dtype=np.float64).reshape(-1, 2, 4, 10), moment_clipping


def largest_move_under_one_student(vote_sums: FloatArray) -> float:
    """Returns the largest distance between two sums under the same student.

    Neighbors are asked about the same student, which changes only between rounds.

    Args:
        vote_sums: the sums of `sums_with_any_first_group`, `[9, 2, 4, 10]`.
    """
    moves = []
    for student in (0, 1):
        sums_of_student = vote_sums[:, student].reshape(-1, 10)
        moves.append(largest_move(sums_of_student, adjacency=Adjacency.REPLACE_ONE))
    return max(moves)


@pytest.mark.slow
@pytest.mark.parametrize("num_other_groups", [0, 1, 40])
@pytest.mark.parametrize("penalty", [0.1, 1.0, 10.0, 1e4])
@pytest.mark.parametrize("clip", [0.05, 0.6, 40.0])
def test_no_group_moves_a_sum_further_than_claimed_and_nearly_as_far(
    num_other_groups: int, penalty: float, clip: float
) -> None:
    """If one of `num_other_groups` + 1 groups of a teacher is replaced, the sum moves by at most the sensitivity.

    For two settings some exchange moves the sum by over 80% of the sensitivity.
    """
    vote_sums, moment_clipping = sums_with_any_first_group(
        num_other_groups, penalty=penalty, clip=clip
    )
    moved = largest_move_under_one_student(vote_sums)
    assert moved <= moment_clipping.l2_sensitivity
    if (num_other_groups, penalty, clip) in ((0, 10.0, 0.05), (40, 1e4, 0.05)):
        assert moved > 0.8 * moment_clipping.l2_sensitivity


def test_plans_are_refused_for_too_many_groups_by_public_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plan beyond a limit on groups, records, weights or steps is refused before any training.

    The test lowers the limits.
    """

    def votes_with(penalty: float) -> ConvexVotes:
        return votes_of(
            inputs=np.eye(6, 3),
            labels=np.ones((6, 2)),
            group_of=np.arange(6),
            learner_of_group=[0, 0, 0, 0, 1, 1],
            penalty=penalty,
        )

    width = votes_with(penalty=1.0).num_features
    # four groups that count four times each
    smallest_penalty = 4 * 4**2 * (width + 2) * width * 2 / 6
    monkeypatch.setattr(convex_votes, "_MAX_PULL", 1.0)
    votes_with(penalty=smallest_penalty * 1.01)
    with refused_parameter("num_teachers", value=2):
        votes_with(penalty=smallest_penalty * 0.99)
    monkeypatch.undo()
    for name_of_limit, lowered_limit, refusal in (
        (
            "_MAX_LENGTHS",
            4 * (2 + 4) - 1,
            refused_parameter("num_teachers", value=2, rule_words="too many groups"),
        ),
        (
            "_MAX_RECORDS",
            3,
            refused_parameter("num_teachers", value=2, rule_words="too many groups"),
        ),
        ("_MAX_WEIGHTS", 7, refused_parameter("weights", value=10)),
        ("_MAX_STEPS", 7, refused_parameter("penalty", value=1.0)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(convex_votes, name_of_limit, lowered_limit)
            with refusal:
                votes_with(penalty=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [0.1, 10.0])
def test_one_group_of_any_number_of_records_ends_and_moves_a_sum_no_further(penalty: float) -> None:
    """Of a group of up to 270,000 records only the first 16 count: 16 times the expected number of records, here 1.

    Groups of different sizes move the sum by at most the sensitivity.
    """
    rng = np.random.default_rng(5)
    moment_clipping = ClippedMoments(clip=0.3, num_teachers=21)
    other_inputs = rng.normal(size=(20, 3))
    other_labels = rng.random(size=(20, 2)) < 0.5
    vote_sums = []
    for num_records in (1, 16, 20_000, 270_000):
        num_copies = math.ceil(num_records / 16)
        inputs_of_first_group = np.tile(rng.normal(size=(16, 3)), (num_copies, 1))[:num_records]
        group_of = np.concatenate([np.zeros(num_records, dtype=int), 1 + np.arange(20)])
        all_labels = np.concatenate([np.ones((num_records, 2), dtype=bool), other_labels])
        votes = votes_of(
            inputs=np.concatenate([inputs_of_first_group, other_inputs]),
            labels=all_labels,
            group_of=group_of,
            learner_of_group=[0] * 21,
            penalty=penalty,
        )
        rows_of_counted_records = slice(-20 - min(num_records, 16), None)
        votes_of_counted = votes_of(
            inputs=np.concatenate([inputs_of_first_group[:16], other_inputs]),
            labels=all_labels[rows_of_counted_records],
            group_of=group_of[rows_of_counted_records],
            learner_of_group=[0] * 21,
            penalty=penalty,
        )
        question = RoundQuestion(
            student_weights=STUDENT_WEIGHTS,
            label_scale=LABEL_SCALE * 40,
            moment_clipping=moment_clipping,
        )
        vote_sums.append(votes.total(question).ravel())
        np.testing.assert_array_equal(vote_sums[-1], votes_of_counted.total(question).ravel())
    moved = largest_move(np.array(vote_sums, dtype=np.float64), adjacency=Adjacency.REPLACE_ONE)
    assert 0 < moved <= moment_clipping.l2_sensitivity


def test_training_without_limits_moves_the_sum_further_than_the_sensitivity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Negative control: without the linear part of Huber's loss, the sum moves by more than twice the sensitivity."""
    convex_fit = convex_votes.convex_fit

    def fit_without_limits(
        features: FloatArray,
        targets: FloatArray,
        *,
        record_weights: FloatArray,
        residual_limits: FloatArray,
        ridge: float,
        tolerance: float,
        max_steps: int,
    ) -> FloatArray:
        return convex_fit(
            features,
            targets,
            record_weights=record_weights,
            residual_limits=np.full_like(residual_limits, 1e9),
            ridge=ridge,
            tolerance=tolerance,
            max_steps=max_steps,
        )

    monkeypatch.setattr(convex_votes, "convex_fit", fit_without_limits)
    vote_sums, moment_clipping = sums_with_any_first_group(
        num_other_groups=1, penalty=10.0, clip=0.6
    )
    assert largest_move_under_one_student(vote_sums) > 2 * moment_clipping.l2_sensitivity


def test_a_removed_group_moves_the_sum_by_half_of_a_replaced_one() -> None:
    """A removed group moves the sum by at most the sensitivity for add-remove, which is half of that for replace-one.

    One of the six groups moves the sum by over half of the sensitivity for add-remove.
    """
    rng = np.random.default_rng(3)
    moment_clipping = ClippedMoments(clip=0.3, num_teachers=6, adjacency=Adjacency.ADD_REMOVE)
    replace_one_clipping = ClippedMoments(clip=0.3, num_teachers=6)
    assert moment_clipping.l2_sensitivity == replace_one_clipping.l2_sensitivity / 2
    inputs = rng.normal(size=(6, 3))
    labels = rng.random(size=(6, 2)) < 0.5
    group_of = np.arange(6)
    question = RoundQuestion(
        student_weights=STUDENT_WEIGHTS,
        label_scale=LABEL_SCALE * 40,
        moment_clipping=moment_clipping,
    )
    whole_sum = votes_of(inputs, labels, group_of, learner_of_group=[0] * 6).total(question)
    moves = []
    for removed_group in range(6):
        is_remaining = group_of != removed_group
        remaining_votes = votes_of(
            inputs[is_remaining],
            labels=labels[is_remaining],
            group_of=group_of[is_remaining],
            learner_of_group=[0] * 6,
        )
        moves.append(float(np.linalg.norm(remaining_votes.total(question) - whole_sum)))
    assert 0.5 * moment_clipping.l2_sensitivity < max(moves) <= moment_clipping.l2_sensitivity


def test_records_of_a_teacher_move_the_sum_by_its_own_total() -> None:
    """The sum of votes equals, to the last bit, the sum of the votes of each teacher's records alone."""
    rng = np.random.default_rng(4)
    learner_of_group = np.array([0, 1, 1, 2, 0, 2, 2])
    group_of = np.repeat(np.arange(7), [1, 2, 1, 3, 1, 1, 4])
    inputs = rng.normal(size=(13, 3))
    labels = rng.random(size=(13, 2)) < 0.5
    moment_clipping = ClippedMoments(clip=0.3, num_teachers=7)

    def sum_of_votes(record_indices: IntArray) -> IntArray:
        """Returns the sum of the votes that are trained on some of the records."""
        votes = votes_of(
            inputs[record_indices],
            labels=labels[record_indices],
            group_of=group_of[record_indices],
            learner_of_group=learner_of_group,
        )
        return votes.total(
            RoundQuestion(
                student_weights=STUDENT_WEIGHTS,
                label_scale=LABEL_SCALE,
                moment_clipping=moment_clipping,
            )
        )

    sums_of_teachers = [
        sum_of_votes(record_indices=np.flatnonzero(learner_of_group[group_of] == learner))
        for learner in range(3)
    ]
    np.testing.assert_array_equal(
        sum_of_votes(record_indices=np.arange(len(inputs))), np.sum(sums_of_teachers, axis=0)
    )


@pytest.mark.slow
def test_draws_of_a_whole_release_in_two_rounds_do_not_refute_its_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sampled releases in two rounds, of one teacher with three groups, do not refute their price.

    Negative control: they refute the price of four times the noise of one round.
    """
    inputs = np.repeat(POOL[:1], 3, axis=0)

    def votes_of_labels(labels: BoolArray) -> ConvexVotes:
        return votes_of(
            inputs,
            labels=labels,
            group_of=np.arange(3),
            learner_of_group=[0, 0, 0],
            num_directions=1,
        )

    require_price_of_two_rounds(
        votes_of_labels=votes_of_labels,
        refuted_price=GaussianEvent(noise_multiplier=4 * ROUNDS.noise_multiplier * math.sqrt(2)),
        monkeypatch=monkeypatch,
    )


def test_extreme_penalties_and_clips_are_refused() -> None:
    """Penalties of 0 or nan and far too small or large ones are refused, and so is a clip whose square underflows."""
    for penalty in (0.0, 1e-4, 1e7, float("nan")):
        with refused_parameter("penalty", value=ANY):
            ConvexTeacher(penalty=penalty)
    with refused_parameter("clip", value=1e-170, rule_words="at least 1e-100"):
        ClippedMoments(clip=1e-170, num_teachers=3)


def test_weights_of_groups_are_refused() -> None:
    """Groups of convex teachers may have no weights, since a vote of small weight would move the sum as far as any."""
    votes = votes_of(
        inputs=np.eye(2, 3), labels=np.ones((2, 2)), group_of=[0, 1], learner_of_group=[0, 0]
    )
    with refused_parameter("weights", value=NOT_SHOWN):
        replace(votes, weights=np.array([0.1, 1.0]))
