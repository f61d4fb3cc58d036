"""Votes in rounds: their Euclidean lengths by a teacher's number of records, and the votes of trained teachers."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit

from pate.array_types import BoolArray, Float32Array, FloatArray
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.moment_votes import MomentVotes
from pate.votes.pool_answers import PoolAnswers, pool_excess_of_teacher
from pate.votes.public_pca import PublicPCA
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.round_votes import RoundQuestion

POOL = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
ZERO_WEIGHTS = np.zeros((6, 2))  # weights that give every label the probability 1/2


def vote_of_one(
    inputs: Float32Array,
    labels: BoolArray,
    pool: Float32Array,
    *,
    records_per_teacher: float,
    student_weights: FloatArray,
    clip: float,
    make_pool_answers: Callable[[], PoolAnswers] | None = None,
    recipe: Recipe = DEFAULT_RECIPE,
) -> FloatArray:
    """Returns the vote of one teacher with these records, `[num_features, num_labels]`.

    Args:
        inputs: the inputs of the teacher's records.
        labels: the labels of these records.
        pool: the inputs of the public pool.
        records_per_teacher: the expected number of records of a teacher.
        student_weights: the weights of the student, `[num_features, num_labels]`.
        clip: the clip of the vote.
        make_pool_answers: returns what votes need of the teacher's confidences; None for a teacher without training.
        recipe: the constants of the method.
    """
    moment_clipping = ClippedMoments(clip=clip, num_teachers=1)
    votes = MomentVotes(
        inputs=inputs,
        labels=labels,
        teacher_of=np.zeros(len(inputs), dtype=np.int64),
        num_teachers=1,
        public_pca=PublicPCA.fit(pool, max_directions=4, recipe=recipe),
        public_inputs=pool,
        records_per_teacher=records_per_teacher,
        ask_teachers=make_pool_answers,
    )
    question = RoundQuestion(
        student_weights=student_weights, label_scale=np.ones(2), moment_clipping=moment_clipping
    )
    return votes.total(question) * moment_clipping.step


def length_of_vote(
    num_records: int,
    records_per_teacher: float,
    *,
    clip: float = 5.0,
    are_copies: bool = False,
    seed: int = 0,
) -> float:
    """Returns the length of the vote of one teacher with `num_records` records.

    The records are random, or copies of one record.
    """
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(num_records, 4)).astype(np.float32)
    labels = rng.random(size=(num_records, 2)) < 0.5
    if are_copies:
        inputs[:] = inputs[0]
        labels[:] = labels[0]
    vote = vote_of_one(
        inputs=inputs,
        labels=labels,
        pool=POOL,
        records_per_teacher=records_per_teacher,
        student_weights=ZERO_WEIGHTS,
        clip=clip,
    )
    return float(np.linalg.norm(vote))


@pytest.mark.parametrize("num_records", [1, 4, 40])
def test_mean_is_multiplied_by_the_root_of_its_records(num_records: int) -> None:
    """A teacher's vote is the mean over its records, times sqrt(number of records / expected number)."""
    length_of_mean_vote = length_of_vote(
        num_records=num_records, records_per_teacher=float(num_records)
    )
    with_one_expected = length_of_vote(num_records=num_records, records_per_teacher=1.0)
    assert with_one_expected == pytest.approx(length_of_mean_vote * np.sqrt(num_records), rel=1e-2)
    with_many_expected = length_of_vote(
        num_records=num_records, records_per_teacher=9.0 * num_records
    )
    assert with_many_expected == pytest.approx(length_of_mean_vote / 3, rel=1e-2)


def test_votes_of_independent_records_have_equal_length_at_any_size() -> None:
    """Teachers of 1, 4 or 40 independent records have votes of equal mean length, within 10%.

    The mean of n independent records is shorter by the root of n. The factor of the vote makes up for this.
    """

    def mean_length(num_records: int) -> float:
        vote_lengths = [
            length_of_vote(num_records=num_records, records_per_teacher=4.0, seed=seed)
            for seed in range(40)
        ]
        return float(np.mean(vote_lengths))

    mean_lengths = [mean_length(num_records=num_records) for num_records in (1, 4, 40)]
    assert max(mean_lengths) < 1.1 * min(mean_lengths)


def test_a_vote_of_copies_is_longer_by_the_root_of_their_number() -> None:
    """The vote of a teacher with n copies of one record is longer by the root of n than that of the record alone."""
    vote_lengths = [
        length_of_vote(num_records=num_records, records_per_teacher=4.0, are_copies=True)
        for num_records in (1, 4, 40)
    ]
    np.testing.assert_allclose(
        np.divide(vote_lengths, vote_lengths[0]), np.sqrt([1, 4, 40]), rtol=1e-2
    )


@pytest.mark.parametrize("num_records", [1, 4, 40])
def test_teachers_of_any_size_are_clipped(num_records: int) -> None:
    """A vote that is too long is shortened to the clip of 0.3, for a teacher with 1, 4 or 40 records."""
    clipped_length = length_of_vote(
        num_records=num_records, records_per_teacher=1e-6, clip=0.3, are_copies=True
    )
    assert 0.29 < clipped_length <= 0.3


RNG = np.random.default_rng(0)
PUBLIC_INPUTS = RNG.normal(size=(3000, 4)).astype(np.float32)
OWN_INPUTS = RNG.normal(size=(20, 4)).astype(np.float32)
TRUE_WEIGHTS = RNG.normal(size=(6, 2))
STUDENT_WEIGHTS = RNG.normal(size=(6, 2)) / 2
DIRECTIONS = PublicPCA.fit(PUBLIC_INPUTS, max_directions=4)
PUBLIC_FEATURES = DIRECTIONS.with_constant(PUBLIC_INPUTS).astype(np.float32)
OWN_FEATURES = DIRECTIONS.with_constant(OWN_INPUTS).astype(np.float32)


def vote_of_trained_teacher(
    labels: BoolArray,
    own_confidences: FloatArray,
    pool_confidences: FloatArray,
    recipe: Recipe = DEFAULT_RECIPE,
) -> FloatArray:
    """Returns the vote of one trained teacher with 20 records, given its confidences."""
    excess_of_mean_products = pool_excess_of_teacher(
        own_features=OWN_FEATURES,
        own_confidences=own_confidences,
        own_labels=labels,
        pool_features=PUBLIC_FEATURES,
        pool_confidences=pool_confidences,
    )
    return vote_of_one(
        inputs=OWN_INPUTS,
        labels=labels,
        pool=PUBLIC_INPUTS,
        records_per_teacher=20.0,
        student_weights=STUDENT_WEIGHTS,
        clip=50.0,
        make_pool_answers=lambda: PoolAnswers(
            pool_excess=excess_of_mean_products[None], asked_features=PUBLIC_FEATURES
        ),
        recipe=recipe,
    )


@pytest.fixture(scope="module")
def labels() -> BoolArray:
    """Returns random labels of 20 records, bool `[20, 2]`."""
    return np.random.default_rng(1).random(size=(20, 2)) < 0.4


@pytest.fixture(scope="module")
def own_confidences() -> FloatArray:
    """Returns random confidences `[20, 2]` of a teacher on its own records."""
    return np.random.default_rng(2).random(size=(20, 2))


@pytest.fixture(scope="module")
def pool_confidences() -> FloatArray:
    """Returns random confidences `[3000, 2]` of a teacher on public records."""
    return np.random.default_rng(3).random(size=(3000, 2))


@pytest.mark.parametrize("own_confidence_share", [0.0, 0.5, 0.8])
def test_trained_teachers_mix_student_and_own_confidences(
    own_confidence_share: float,
    labels: BoolArray,
    own_confidences: FloatArray,
    pool_confidences: FloatArray,
) -> None:
    """A trained teacher's vote mixes gradients against the student's probabilities and against its own confidences.

    `own_confidence_share` is the weight of the second gradient.
    """
    excess = (own_confidences - labels).mean(axis=0)
    student_on_own = expit(OWN_FEATURES @ STUDENT_WEIGHTS)
    student_on_pool = expit(PUBLIC_FEATURES @ STUDENT_WEIGHTS)
    against_student = OWN_FEATURES.T @ (labels - student_on_own) / 20
    on_own = OWN_FEATURES.T @ (labels - own_confidences + excess) / 20
    on_pool = PUBLIC_FEATURES.T @ (pool_confidences - excess - student_on_pool) / 3000
    expected = (1 - own_confidence_share) * against_student + own_confidence_share * (
        on_own + on_pool
    )
    vote = vote_of_trained_teacher(
        labels=labels,
        own_confidences=own_confidences,
        pool_confidences=pool_confidences,
        recipe=Recipe(trust=own_confidence_share),
    )
    np.testing.assert_allclose(vote, expected, atol=2e-4)


def test_constant_shift_of_confidences_changes_no_vote(
    labels: BoolArray, own_confidences: FloatArray, pool_confidences: FloatArray
) -> None:
    """A vote stays the same if a constant for each label is added to all confidences of its teacher."""
    label_shifts = np.array([0.3, -0.2])
    vote_of_shifted_confidences = vote_of_trained_teacher(
        labels=labels,
        own_confidences=own_confidences + label_shifts,
        pool_confidences=pool_confidences + label_shifts,
    )
    vote = vote_of_trained_teacher(
        labels=labels, own_confidences=own_confidences, pool_confidences=pool_confidences
    )
    np.testing.assert_allclose(vote, vote_of_shifted_confidences, atol=1e-4)


@pytest.mark.slow
def test_confident_teachers_have_votes_of_lower_variance() -> None:
    """Votes by the true probabilities are over 10% nearer to the ideal vote than votes by constants.

    The distance is the root mean square over 50 draws of the labels.
    """
    true_on_own = expit(3 * OWN_FEATURES @ TRUE_WEIGHTS)
    true_on_pool = expit(3 * PUBLIC_FEATURES @ TRUE_WEIGHTS)
    student_on_pool = expit(PUBLIC_FEATURES @ STUDENT_WEIGHTS)
    ideal_vote = PUBLIC_FEATURES.T @ (true_on_pool - student_on_pool) / 3000

    def error_of_votes(own_confidences: FloatArray, pool_confidences: FloatArray) -> float:
        rng = np.random.default_rng(1)
        drawn_votes = [
            vote_of_trained_teacher(
                labels=rng.random(size=(20, 2)) < true_on_own,
                own_confidences=own_confidences,
                pool_confidences=pool_confidences,
            )
            for _ in range(50)
        ]
        squared_distances = np.square(np.array(drawn_votes) - ideal_vote).sum(axis=(1, 2))
        return float(np.sqrt(squared_distances.mean()))

    knowing = error_of_votes(own_confidences=true_on_own, pool_confidences=true_on_pool)
    constant = error_of_votes(
        own_confidences=np.full_like(true_on_own, 0.5), pool_confidences=np.full((3000, 2), 0.5)
    )
    assert knowing < 0.9 * constant
