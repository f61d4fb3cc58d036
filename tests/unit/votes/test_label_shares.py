"""The shares of labels by teacher, and their sums, are the same in blocks of teachers and in one array."""

import numpy as np
import pytest

from pate.votes import label_shares
from pate.votes.clipping import ClippedSum
from pate.votes.label_shares import RecordShares, TeacherShares, shares_of_teachers

NUM_TEACHERS = 40
LABELS = np.random.default_rng(0).random((300, 5)) < 0.3
# The teacher of each record. The first 40 records are one of each teacher, and the others are in a random order.
TEACHER_OF = np.random.default_rng(1).permutation(np.arange(300) ** 2 % 37 % NUM_TEACHERS)
TEACHER_OF[:NUM_TEACHERS] = np.arange(NUM_TEACHERS)


def test_a_share_is_the_mean_of_a_teachers_labels() -> None:
    """The share of a label is the mean of that label over the records of a teacher."""
    shares = shares_of_teachers(bits=LABELS, teacher_of=TEACHER_OF, num_teachers=NUM_TEACHERS)
    expected_shares = [labels_of(teacher=teacher).mean(axis=0) for teacher in range(NUM_TEACHERS)]
    np.testing.assert_allclose(shares, expected_shares, rtol=1e-15)


def test_teachers_of_one_record_have_its_labels() -> None:
    """If each teacher has one record, the shares are the labels of the records, in the order of the teachers."""
    teacher_of = np.random.default_rng(2).permutation(300)
    shares = shares_of_teachers(bits=LABELS, teacher_of=teacher_of, num_teachers=300)
    np.testing.assert_array_equal(shares[teacher_of], LABELS)


@pytest.mark.parametrize(
    "teacher_weights",
    [None, np.linspace(start=0.1, stop=1, num=NUM_TEACHERS)],
    ids=["no weights", "weights"],
)
@pytest.mark.parametrize("block_records", [1, 40, 10_000])
def test_sums_by_blocks_are_the_sums_of_all(
    teacher_weights: np.ndarray | None, block_records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lengths and clipped sums do not depend on the size of a block, with weights or without."""
    monkeypatch.setattr(label_shares, "_BLOCK_RECORDS", block_records)
    expected_shares = [labels_of(teacher=teacher).mean(axis=0) for teacher in range(NUM_TEACHERS)]
    shares_of_all = TeacherShares(np.array(expected_shares), weights=teacher_weights)
    shares_by_block = RecordShares(
        LABELS, teacher_of=TEACHER_OF, num_teachers=NUM_TEACHERS, teacher_weights=teacher_weights
    )
    np.testing.assert_array_equal(shares_by_block.lengths(), shares_of_all.lengths())
    assert shares_by_block.lengths().sum() > 0
    clipped_sum = ClippedSum(clip=0.5, sum_shape=(1, 5))
    center = np.full(5, 0.3)
    expected_total = shares_of_all.total(clipped_sum, center=center)
    np.testing.assert_array_equal(shares_by_block.total(clipped_sum, center=center), expected_total)


def labels_of(teacher: int) -> np.ndarray:
    """Returns the labels of a teacher's records."""
    is_own = np.isin(TEACHER_OF, [teacher])
    return LABELS[is_own]
