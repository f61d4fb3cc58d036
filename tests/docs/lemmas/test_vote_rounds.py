"""Steps of docs/proofs/vote_rounds.md."""

import math

import numpy as np
import pytest

from pate.array_types import Float32Array, FloatArray, IntArray
from pate.votes.clipped_moments import FEATURE_STEPS, ClippedMoments
from tests.refusals import refused_parameter

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("clip", [1e-3, 0.7, 1.0, 1.999, 50.0])
def test_sums_of_whole_numbers_are_exact_in_any_order(clip: float) -> None:
    """The sum of 3000 clipped products of features and residuals is that of Python integers.

    The sum is the same in another order and in parts of seven teachers.
    """
    moment_clipping = ClippedMoments(clip=clip, num_teachers=3000)
    features = RNG.uniform(low=-1, high=1, size=(3000, 3))
    features = np.trunc(features * FEATURE_STEPS).astype(np.float32)
    residuals = RNG.normal(size=(3000, 2)) * clip
    moment_sum = moment_clipping.sum_of_single(features, residuals=residuals)
    order = RNG.permutation(3000)
    in_another_order = moment_clipping.sum_of_single(features[order], residuals=residuals[order])
    np.testing.assert_array_equal(in_another_order, moment_sum)
    moment_sums_of_seven_teachers = [
        moment_clipping.sum_of_single(
            features[start : start + 7], residuals=residuals[start : start + 7]
        )
        for start in range(0, 3000, 7)
    ]
    np.testing.assert_array_equal(np.sum(moment_sums_of_seven_teachers, axis=0), moment_sum)
    scale = 1 / moment_clipping.step / FEATURE_STEPS
    shrinking = np.minimum(1, clip / np.linalg.norm(residuals, axis=1))
    clipped_residuals = np.trunc(residuals * shrinking[:, None] * scale)
    exact = [
        [
            sum(int(a) * int(b) for a, b in zip(feature, residual, strict=True))
            for residual in clipped_residuals.T
        ]
        for feature in features.T
    ]
    np.testing.assert_array_equal(moment_sum, exact)
    assert np.abs(clipped_residuals).max() <= 2**16


def draw_opposed_records(
    num_teachers: int, *, num_records: int, num_labels: int, spread: float
) -> tuple[Float32Array, FloatArray]:
    """Returns features `[num_teachers, num_records, 6]` and residuals `[num_teachers, num_records, num_labels]`.

    The records of a teacher have nearly the same features, and residuals that nearly cancel in pairs.

    Args:
        num_teachers: the number of teachers.
        num_records: the number of records of each teacher.
        num_labels: the number of labels.
        spread: the standard deviation of what distinguishes the records of one teacher.
    """
    centers = RNG.normal(size=(num_teachers, 1, 6))
    vectors = centers + spread * RNG.normal(size=(num_teachers, num_records, 6))
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    features = np.trunc(vectors * (FEATURE_STEPS - 1))
    signs = np.where(np.arange(num_records) % 2, 1.0, -1.0)[None, :, None]
    residuals = signs * RNG.uniform(low=0.5, high=1, size=(num_teachers, 1, num_labels))
    residuals = residuals + spread * RNG.normal(size=(num_teachers, num_records, num_labels))
    return features.astype(np.float32), residuals


def sums_of_single_teachers(
    moment_clipping: ClippedMoments,
    features_of_teachers: Float32Array,
    residuals_of_teachers: FloatArray,
) -> list[IntArray]:
    """Returns the sum of votes of each teacher, as if there were no other teacher."""
    return [
        moment_clipping.sum_of_small(
            features_of_teachers[teacher : teacher + 1],
            residuals=residuals_of_teachers[teacher : teacher + 1],
        )
        for teacher in range(len(features_of_teachers))
    ]


@pytest.mark.parametrize("num_records", [1, 2, 7, 32])
def test_a_teacher_of_a_few_records_counts_as_its_mean_product_does(num_records: int) -> None:
    """The sum of teachers with up to 32 records is nearly the same from records as from mean products.

    A teacher's mean product is that of the features and residuals of its records. For 50 teachers, both sums differ in
    l2 norm by less than 50 times two steps of rounding. The sum of all teachers is exactly that of the sums of single
    ones.
    """
    for clip, spread in ((5.0, 1.0), (0.3, 1.0), (0.02, 0.1)):
        moment_clipping = ClippedMoments(clip=clip, num_teachers=50)
        features_of_teachers, residuals_of_teachers = draw_opposed_records(
            num_teachers=50, num_records=num_records, num_labels=3, spread=spread
        )
        products = (
            np.swapaxes(features_of_teachers, 1, 2).astype(np.float64) @ residuals_of_teachers
        )
        mean_products = products / (FEATURE_STEPS * num_records)
        sum_of_means = moment_clipping.sum_of_means(mean_products)
        sum_of_records = moment_clipping.sum_of_small(
            features_of_teachers, residuals=residuals_of_teachers
        )
        rounding_step = num_records * math.sqrt(3) * moment_clipping.step * FEATURE_STEPS
        difference = np.linalg.norm((sum_of_records - sum_of_means) * moment_clipping.step)
        assert difference < 50 * 2 * rounding_step
        sums_of_teachers = sums_of_single_teachers(
            moment_clipping,
            features_of_teachers=features_of_teachers,
            residuals_of_teachers=residuals_of_teachers,
        )
        np.testing.assert_array_equal(np.sum(sums_of_teachers, axis=0), sum_of_records)


@pytest.mark.parametrize("spread", [1.0, 1e-3, 0.0])
def test_cutting_records_that_cancel_each_other_stays_within_the_clip(spread: float) -> None:
    """The sum of a teacher's records is no longer than the clip, even where they nearly cancel.

    Negative control: without a margin for rounding some sum would be longer, unless all records of a teacher are alike.
    """
    clip = 2e-3
    lengths = []
    lengths_without_margin = []
    for num_records in (2, 3, 32):
        moment_clipping = ClippedMoments(clip=clip, num_teachers=200)
        margin = num_records * math.sqrt(3) * moment_clipping.step * FEATURE_STEPS / clip
        moment_clipping_without_margin = ClippedMoments(clip=clip / (1 - margin), num_teachers=200)
        features_of_teachers, residuals_of_teachers = draw_opposed_records(
            num_teachers=200, num_records=num_records, num_labels=3, spread=spread
        )
        lengths += [
            np.linalg.norm(vote_sum * moment_clipping.step)
            for vote_sum in sums_of_single_teachers(
                moment_clipping,
                features_of_teachers=features_of_teachers,
                residuals_of_teachers=residuals_of_teachers,
            )
        ]
        lengths_without_margin += [
            np.linalg.norm(vote_sum * moment_clipping_without_margin.step)
            for vote_sum in sums_of_single_teachers(
                moment_clipping_without_margin,
                features_of_teachers=features_of_teachers,
                residuals_of_teachers=residuals_of_teachers,
            )
        ]
    assert max(lengths) <= clip * (1 + 2**-20)
    assert spread == 0.0 or max(lengths_without_margin) > clip


def test_more_teachers_than_an_integer_can_sum_are_refused() -> None:
    """`ClippedMoments` refuses 2^32 teachers, whose sum might not be below 2^62."""
    with refused_parameter("num_teachers", value=2**32):
        ClippedMoments(clip=1.0, num_teachers=2**32)


@pytest.mark.parametrize("clip", [1.0, np.nextafter(2.0, 0)])
def test_sums_of_blocks_are_exact_beyond_the_whole_numbers_of_doubles(clip: float) -> None:
    """A block of 2^17 votes of the largest length is summed exactly, and so are 2^8 such blocks and one more vote.

    The latter sum is beyond 2^53, up to which doubles hold each whole number.
    """
    moment_clipping = ClippedMoments(clip=clip, num_teachers=2**25)
    num_records = 2**17
    features = np.full((num_records, 1), 2.0**14)
    residuals = np.full((num_records, 1), 10.0)
    sum_of_block = moment_clipping.sum_of_single(features, residuals=residuals)
    single_vote = moment_clipping.sum_of_single(features[:1], residuals=residuals[:1])
    assert sum_of_block.item() == num_records * single_vote.item() < 2**53
    moment_sum = sum_of_block * 2**8 + single_vote
    assert moment_sum.item() == (2**25 + 1) * single_vote.item() > 2**53


@pytest.mark.slow
@pytest.mark.parametrize("spread", [1.0, 1e-3])
def test_votes_on_8192_labels_are_no_longer_than_the_clip(spread: float) -> None:
    """Votes on 8192 labels, the most that rounds take, are no longer than the clip, even where records cancel."""
    clip = 2e-2
    moment_clipping = ClippedMoments(clip=clip, num_teachers=8)
    for num_records in (1, 2, 32):
        features_of_teachers, residuals_of_teachers = draw_opposed_records(
            num_teachers=8, num_records=num_records, num_labels=8192, spread=spread
        )
        vote_sums = (
            sums_of_single_teachers(
                moment_clipping,
                features_of_teachers=features_of_teachers,
                residuals_of_teachers=residuals_of_teachers,
            )
            if num_records > 1
            else [
                moment_clipping.sum_of_single(
                    features_of_teachers[teacher], residuals=residuals_of_teachers[teacher]
                )
                for teacher in range(8)
            ]
        )
        for vote_sum in vote_sums:
            length = float(np.linalg.norm(vote_sum * moment_clipping.step))
            assert length <= clip * (1 + 2**-20)
            assert spread < 1 or length > 0.8 * clip
