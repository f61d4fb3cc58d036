"""Steps of docs/proofs/vote_rounds.md."""

import math

import numpy as np
import pytest

from pate.array_types import Float32Array, FloatArray
from pate.votes.clipped_moments import FEATURE_STEPS, ClippedMoments
from tests.refusals import refused

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("clip", [1e-3, 0.7, 1.0, 1.999, 50.0])
def test_sums_of_whole_numbers_are_exact_in_any_order(clip: float) -> None:
    """The sum of 3000 clipped products of features and residuals is the same in another order and in parts of seven.

    It equals the sum in Python's whole numbers.
    """
    sums = ClippedMoments(clip, num_teachers=3000)
    features = np.trunc(RNG.uniform(-1, 1, size=(3000, 3)) * FEATURE_STEPS).astype(np.float32)
    residuals = RNG.normal(size=(3000, 2)) * clip
    total = sums.sum_of_single(features, residuals=residuals)
    order = RNG.permutation(3000)
    np.testing.assert_array_equal(
        sums.sum_of_single(features[order], residuals=residuals[order]), total
    )
    parts = sum(
        sums.sum_of_single(features[i : i + 7], residuals=residuals[i : i + 7])
        for i in range(0, 3000, 7)
    )
    np.testing.assert_array_equal(parts, total)
    scale = 1 / sums.step / FEATURE_STEPS
    weights = np.minimum(1, clip / np.linalg.norm(residuals, axis=1))
    cut = np.trunc(residuals * weights[:, None] * scale)
    exact = [
        [sum(int(a) * int(b) for a, b in zip(f, r, strict=True)) for r in cut.T] for f in features.T
    ]
    np.testing.assert_array_equal(total, exact)
    assert np.abs(cut).max() <= 2**16


def opposed_records(
    num: int, size: int, num_labels: int, spread: float
) -> tuple[Float32Array, FloatArray]:
    """Returns features `[num, size, 6]` and residuals `[num, size, num_labels]` of `num` teachers with `size` records
    each.

    The records of a teacher are nearly alike in features; half of them are for the labels and half against them.
    """
    vectors = RNG.normal(size=(num, 1, 6)) + spread * RNG.normal(size=(num, size, 6))
    features = np.trunc(
        vectors / np.linalg.norm(vectors, axis=2, keepdims=True) * (FEATURE_STEPS - 1)
    )
    sides = np.where(np.arange(size) % 2, 1.0, -1.0)[None, :, None] * RNG.uniform(
        0.5, 1, size=(num, 1, num_labels)
    )
    return features.astype(np.float32), sides + RNG.normal(size=(num, size, num_labels)) * spread


@pytest.mark.parametrize("size", [1, 2, 7, 32])
def test_a_teacher_of_a_few_records_counts_as_its_mean_product_does(size: int) -> None:
    """Teachers of 1 to 32 records are summed from their records or from their mean products.

    In l2 norm, both sums differ by less than two steps of rounding for each of the 50 teachers. The sum over all
    teachers is exactly that of the sums of single teachers.
    """
    for clip, spread in ((5.0, 1.0), (0.3, 1.0), (0.02, 0.1)):
        sums = ClippedMoments(clip, num_teachers=50)
        (features, residuals) = opposed_records(num=50, size=size, num_labels=3, spread=spread)
        means = features.transpose(0, 2, 1).astype(np.float64) @ residuals / (FEATURE_STEPS * size)
        step = size * math.sqrt(3) * sums.step * FEATURE_STEPS
        expected = sums.sum_of_means(means) * sums.step
        assert (
            np.linalg.norm(sums.sum_of_small(features, residuals=residuals) * sums.step - expected)
            < 50 * 2 * step
        )
        sums_by_teacher = [
            sums.sum_of_small(features[i : i + 1], residuals=residuals[i : i + 1])
            for i in range(50)
        ]
        np.testing.assert_array_equal(
            np.sum(sums_by_teacher, axis=0), sums.sum_of_small(features, residuals=residuals)
        )


@pytest.mark.parametrize("spread", [1.0, 1e-3, 0.0])
def test_cutting_records_that_cancel_each_other_stays_within_the_clip(spread: float) -> None:
    """The sum of a teacher's records that nearly cancel each other is no longer than the clip.

    Without the margin that is left for rounding, some sum would be longer, unless the records of a teacher are all
    alike.
    """
    longest = 0.0
    longest_without_margin = 0.0
    for size in (2, 3, 32):
        sums = ClippedMoments(clip=2e-3, num_teachers=200)
        (features, residuals) = opposed_records(num=200, size=size, num_labels=3, spread=spread)
        for i in range(200):
            total = sums.sum_of_small(features[i : i + 1], residuals=residuals[i : i + 1])
            longest = max(longest, float(np.linalg.norm(total * sums.step)))
        wider_clip = ClippedMoments(
            clip=2e-3 / (1 - size * math.sqrt(3) * sums.step * FEATURE_STEPS / 2e-3),
            num_teachers=200,
        )
        for i in range(200):
            total = wider_clip.sum_of_small(features[i : i + 1], residuals=residuals[i : i + 1])
            longest_without_margin = max(
                longest_without_margin, float(np.linalg.norm(total * wider_clip.step))
            )
    assert longest <= 2e-3 * (1 + 2**-20)
    assert spread == 0.0 or longest_without_margin > 2e-3


def test_more_teachers_than_an_integer_can_sum_are_refused() -> None:
    """`ClippedMoments` refuses 2^32 teachers, whose sum might not be below 2^62."""
    with refused("num_teachers", value=2**32):
        ClippedMoments(clip=1.0, num_teachers=2**32)


@pytest.mark.parametrize("clip", [1.0, np.nextafter(2.0, 0)])
def test_sums_of_blocks_are_exact_beyond_the_whole_numbers_of_doubles(clip: float) -> None:
    """A block of 2^17 longest votes is summed exactly; 2^8 such blocks exceed what a double counts by ones."""
    sums = ClippedMoments(clip=clip, num_teachers=2**25)
    num_records = 2**17
    features = np.full((num_records, 1), 2.0**14)
    block = sums.sum_of_single(features, residuals=np.full((num_records, 1), 10.0))
    vote = sums.sum_of_single(features[:1], residuals=np.full((1, 1), 10.0))
    assert block.item() == num_records * vote.item() < 2**53
    total = block * 2**8 + vote
    assert total.item() == (2**25 + 1) * vote.item() > 2**53


@pytest.mark.slow
@pytest.mark.parametrize("spread", [1.0, 1e-3])
def test_votes_on_8192_labels_are_no_longer_than_the_clip(spread: float) -> None:
    """Lengths from products of records are right for as many labels as rounds take, also where records cancel."""
    sums = ClippedMoments(clip=2e-2, num_teachers=8)
    for size in (1, 2, 32):
        features, residuals = opposed_records(num=8, size=size, num_labels=8192, spread=spread)
        for features_of_one, residuals_of_one in zip(features, residuals, strict=True):
            vote = (
                sums.sum_of_small(features_of_one[None], residuals=residuals_of_one[None])
                if size > 1
                else sums.sum_of_single(features_of_one, residuals=residuals_of_one)
            )
            length = float(np.linalg.norm(vote * sums.step))
            assert length <= 2e-2 * (1 + 2**-20)
            assert spread < 1 or length > 0.8 * 2e-2
