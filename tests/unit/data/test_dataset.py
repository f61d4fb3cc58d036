"""Splits and data sets, their digests and masks, and pictures that are kept as bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from pate.data import Dataset, Pixels, Split
from tests.refusals import Refusal, refused_parameter


def split_of_zeros(
    record_ids: Any,
    group_ids: Any = None,
    *,
    input_shape: tuple[int, ...] = (3,),
    num_labels: int = 2,
) -> Split:
    """Returns a split of zeros whose records have the ids `record_ids` and inputs of the shape `input_shape`."""
    record_ids = np.asarray(record_ids, dtype=np.int64)
    return Split(
        inputs=np.zeros((len(record_ids), *input_shape), dtype=np.float32),
        labels=np.zeros((len(record_ids), num_labels), dtype=np.bool_),
        record_ids=record_ids,
        group_ids=record_ids if group_ids is None else np.asarray(group_ids, dtype=np.int64),
    )


TOY = Dataset(
    name="toy",
    real=False,
    kind="features",
    label_names=("round", "red"),
    private=split_of_zeros(record_ids=[0, 1, 2]),
    public=split_of_zeros(record_ids=[3, 4]),
    test=split_of_zeros(record_ids=[5]),
)


def test_take_keeps_the_columns_of_a_row_together() -> None:
    """`take` selects rows of a split by indices or a slice, together with their ids and groups."""
    rows = split_of_zeros(record_ids=[10, 11, 12], group_ids=[7, 8, 9]).take(np.array([2, 0]))
    assert (rows.record_ids.tolist(), rows.group_ids.tolist()) == ([12, 10], [9, 7])
    assert len(split_of_zeros(record_ids=[10, 11, 12]).take(slice(1))) == 1


def test_a_public_pool_without_any_label_counts_as_unlabeled() -> None:
    """`public_labeled` is false if all public labels are false, as nothing can be measured by them.

    With one true label it may be true.
    """
    assert not TOY.public_labeled
    labels = np.array([[False, False], [False, True]])
    labeled = replace(split_of_zeros(record_ids=[3, 4]), labels=labels)
    assert replace(TOY, public=labeled, public_labeled=True).public_labeled


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (
            partial(replace, test=split_of_zeros(record_ids=[2], group_ids=[9])),
            refused_parameter("record_ids", rule_words="record in"),
        ),
        (
            partial(replace, test=split_of_zeros(record_ids=[5], group_ids=[4])),
            refused_parameter("group_ids", rule_words="group in one split, found 1 in public"),
        ),
        (
            partial(replace, public=split_of_zeros(record_ids=[3, 3])),
            refused_parameter("public.record_ids", rule_words="record once"),
        ),
        (partial(replace, kind="sounds"), refused_parameter("kind", value="sounds")),
        (
            partial(replace, label_names=("red", "red")),
            refused_parameter("label_names", value="red, twice"),
        ),
        (
            partial(replace, label_names=("red", "green", "red", "red")),
            refused_parameter("label_names", value="red, 3 times"),
        ),
        (
            partial(replace, label_names=("red",)),
            refused_parameter("private.labels.shape[1]", value=2),
        ),
        (
            partial(replace, test=split_of_zeros(record_ids=[])),
            refused_parameter("len(test)", value=0),
        ),
        (partial(replace, kind="images"), refused_parameter("private.inputs.ndim", value=2)),
        (
            partial(replace, test=split_of_zeros(record_ids=[5], input_shape=(4,))),
            refused_parameter("test.inputs.shape[1:]", value=(4,)),
        ),
        (
            partial(replace, public=split_of_zeros(record_ids=[3], num_labels=3)),
            refused_parameter("public.labels.shape[1]", value=3),
        ),
        (
            partial(replace, public_ids=np.arange(3)),
            refused_parameter("public_ids.shape", value=(3,), rule_words="(2,), one for each"),
        ),
        (
            partial(replace, public_ids=np.zeros(2)),
            refused_parameter("public_ids", value="float64", rule_words="whole numbers or texts"),
        ),
    ],
)
def test_shapes_that_disagree_are_refused(
    change: Callable[[Dataset], Dataset], refusal: Refusal
) -> None:
    """A data set is refused if a record or group is in two splits, an id or label name repeats, or shapes disagree.

    It is also refused if a split is empty, or the kind is unknown or does not fit the inputs.
    The error names the field, and of public ids whether their number or their type is wrong.
    """
    with refusal:
        change(TOY)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (
            partial(replace, inputs=np.zeros((3, 2))),
            refused_parameter("inputs.dtype", value="float64"),
        ),
        (partial(replace, inputs=[[0.0]]), refused_parameter("inputs", value="list")),
        (
            partial(replace, inputs=np.zeros(3, dtype=np.float32)),
            refused_parameter("inputs.ndim", value=1),
        ),
        (
            partial(replace, labels=np.zeros((3, 2))),
            refused_parameter("labels.dtype", value="float64"),
        ),
        (
            partial(replace, labels=np.zeros((2, 2), np.bool_)),
            refused_parameter("len(labels)", value=2),
        ),
        (
            partial(replace, record_ids=np.arange(3, dtype=np.int32)),
            refused_parameter("record_ids.dtype", value="int32"),
        ),
        (partial(replace, group_ids=np.arange(4)), refused_parameter("len(group_ids)", value=4)),
    ],
)
def test_arrays_of_wrong_type_or_length_are_refused(
    change: Callable[[Split], Split], refusal: Refusal
) -> None:
    """A split refuses an array whose type, length or number of axes is wrong; the refusal names the array."""
    with refusal:
        change(split_of_zeros(record_ids=[0, 1, 2]))


def random_split(record_ids: Any, seed: int = 0) -> Split:
    """Returns a split of records with the given ids and random inputs and labels; ids 2g and 2g + 1 form group g."""
    rng = np.random.default_rng(seed)
    num_records = len(record_ids)
    return Split(
        rng.standard_normal((num_records, 3)).astype(np.float32),
        rng.random((num_records, 2)) < 0.5,
        record_ids=np.asarray(record_ids, dtype=np.int64),
        group_ids=np.asarray(record_ids, dtype=np.int64) // 2,
    )


def test_private_digest_ignores_order_and_other_splits() -> None:
    """The private digest does not depend on the order of rows, the other splits, or names of data set and labels."""
    private = random_split(record_ids=[28, 20, 24])
    digest = replace(TOY, private=private).private_digest()
    assert digest == replace(TOY, private=private.take(np.array([2, 0, 1]))).private_digest()
    other = replace(
        TOY,
        private=private,
        name="other",
        label_names=("a", "b"),
        public=split_of_zeros(record_ids=[80, 90]),
        test=split_of_zeros(record_ids=[99]),
    )
    assert digest == other.private_digest()


PRIVATE = random_split(record_ids=[28, 20, 24])


def with_other_first_value(array: np.ndarray) -> np.ndarray:
    """Returns a copy of an array of bits or numbers whose first value is another one."""
    changed = array.copy()
    first_value = array.flat[0]
    changed.flat[0] = not first_value if array.dtype == np.bool_ else first_value + 1
    return changed


@pytest.mark.parametrize(
    "changed_split",
    [
        replace(PRIVATE, inputs=with_other_first_value(np.asarray(PRIVATE.inputs))),
        replace(PRIVATE, labels=with_other_first_value(PRIVATE.labels)),
        replace(PRIVATE, group_ids=with_other_first_value(PRIVATE.group_ids)),
        replace(PRIVATE, record_ids=with_other_first_value(PRIVATE.record_ids)),
        PRIVATE.take(slice(2)),
    ],
    ids=["input", "label", "group", "record id", "one row fewer"],
)
def test_private_digest_changes_with_any_private_value(changed_split: Split) -> None:
    """The digest of a split changes with one input, label, group or record id, and with the number of rows."""
    assert changed_split.digest() != PRIVATE.digest()


CHANNELS_FIRST_LEVELS = np.arange(5 * 3 * 2 * 2, dtype=np.uint8).reshape(5, 3, 2, 2)
PICTURE_NUMBERS = np.array([4, 0, 2])


def pixel_split(channels_first_levels: np.ndarray, rows: np.ndarray) -> Split:
    """Returns a split of the pictures in some rows of an array of levels."""
    return Split(
        Pixels(channels_first_levels, rows),
        np.ones((len(rows), 1), np.bool_),
        record_ids=rows,
        group_ids=rows,
    )


def pixel_dataset(channels_first_levels: np.ndarray) -> Dataset:
    """Returns a data set of five pictures: three private, one public and one of the test set."""
    return Dataset(
        name="toy",
        real=False,
        kind="images",
        label_names=("round",),
        private=pixel_split(channels_first_levels=channels_first_levels, rows=np.array([0, 1, 2])),
        public=pixel_split(channels_first_levels=channels_first_levels, rows=np.array([3])),
        test=pixel_split(channels_first_levels=channels_first_levels, rows=np.array([4])),
    )


def test_pixels_behave_like_a_float_array() -> None:
    """`Pixels` over bytes has shape, type, indexing and values of the array of bytes divided by 255."""
    pixels = Pixels(levels=CHANNELS_FIRST_LEVELS, rows=PICTURE_NUMBERS)
    expected_pixels = CHANNELS_FIRST_LEVELS[PICTURE_NUMBERS] / np.float32(255)
    assert (pixels.shape, pixels.ndim, len(pixels)) == (
        expected_pixels.shape,
        expected_pixels.ndim,
        len(expected_pixels),
    )
    assert pixels.dtype == expected_pixels.dtype == np.float32
    first_row = slice(1)
    every_second_row = slice(None, None, 2)
    row_numbers = np.array([2, 0])
    row_mask = np.array([True, False, True])
    no_row_numbers = np.array([], int)
    for rows in (first_row, every_second_row, row_numbers, row_mask, no_row_numbers):
        assert pixels[rows].tolist() == expected_pixels[rows].tolist()
        assert pixels[rows].dtype == np.float32
    assert np.asarray(pixels).tolist() == expected_pixels.tolist()
    assert Pixels(levels=np.full((1, 1, 1, 1), 255, np.uint8), rows=np.array([0]))[:].item() == 1.0
    assert np.asarray(pixels, np.float64).dtype == np.float64
    assert np.isfinite(pixels).all()
    assert (
        np.concatenate(list(pixels.blocks())).tolist()
        == CHANNELS_FIRST_LEVELS[PICTURE_NUMBERS].tolist()
    )


def test_split_of_pixels_equals_split_of_an_array() -> None:
    """A selected row of pictures is an array of floats, and one byte of a picture changes the digest of a data set.

    Levels of another type or with other axes are refused.
    """
    row = pixel_split(channels_first_levels=CHANNELS_FIRST_LEVELS, rows=PICTURE_NUMBERS).take(
        np.array([1])
    )
    assert isinstance(row.inputs, np.ndarray)
    assert row.inputs.tolist() == (CHANNELS_FIRST_LEVELS[:1] / np.float32(255)).tolist()
    first = pixel_dataset(channels_first_levels=CHANNELS_FIRST_LEVELS)
    other = CHANNELS_FIRST_LEVELS.copy()
    assert first.input_shape == (3, 2, 2)
    assert first.digest() == pixel_dataset(channels_first_levels=other).digest()
    other[3, 0, 0, 0] += 1
    assert first.digest() != pixel_dataset(channels_first_levels=other).digest()
    with refused_parameter("levels.dtype", value="float64", rule_words="uint8"):
        Pixels(levels=CHANNELS_FIRST_LEVELS / 1.0, rows=PICTURE_NUMBERS)
    with refused_parameter("levels.ndim", value=3):
        Pixels(levels=CHANNELS_FIRST_LEVELS[0], rows=PICTURE_NUMBERS)


KNOWN_LABELS_WITH_GAPS = np.array([[True, False], [False, True], [True, True]])


def test_a_mask_stays_with_its_rows_and_changes_no_digest_where_all_is_known() -> None:
    """`take` also selects the rows of the mask of known labels.

    A split whose mask has no gap has the same digest as without a mask. Masks with different gaps give different
    digests.
    """
    split_without_mask = split_of_zeros(record_ids=[0, 1, 2])
    split_with_gaps = replace(split_without_mask, known=KNOWN_LABELS_WITH_GAPS)
    mask_of_taken_rows = split_with_gaps.take(np.array([2, 0])).known
    assert (
        mask_of_taken_rows is not None
        and mask_of_taken_rows.tolist() == KNOWN_LABELS_WITH_GAPS[[2, 0]].tolist()
    )
    split_with_all_known = replace(split_without_mask, known=np.ones((3, 2), np.bool_))
    assert split_with_all_known.digest() == split_without_mask.digest() != split_with_gaps.digest()
    digests = {
        replace(TOY, private=private).digest()
        for private in (TOY.private, split_with_all_known, split_with_gaps)
    }
    assert len(digests) == 2
    split_with_other_gaps = replace(split_without_mask, known=KNOWN_LABELS_WITH_GAPS[::-1].copy())
    assert split_with_other_gaps.digest() != split_with_gaps.digest()


def test_label_shares_are_those_of_known_labels() -> None:
    """The share of a label is over the records for which it is known, and 0 if there are none."""
    rows = replace(
        split_of_zeros(record_ids=[0, 1, 2]), labels=KNOWN_LABELS_WITH_GAPS & [[True, False]]
    )
    assert rows.label_shares.tolist() == [2 / 3, 0.0]
    assert replace(rows, known=KNOWN_LABELS_WITH_GAPS).label_shares.tolist() == [1.0, 0.0]
    only_first_label_known = np.array([[True, False]] * 3)
    assert replace(rows, known=only_first_label_known).label_shares.tolist() == [2 / 3, 0.0]


@pytest.mark.parametrize(
    ("labels", "known", "refusal"),
    [
        (
            np.zeros((3, 2), np.bool_),
            KNOWN_LABELS_WITH_GAPS.astype(int),
            refused_parameter("known.dtype", value="int64"),
        ),
        (
            np.zeros((3, 2), np.bool_),
            KNOWN_LABELS_WITH_GAPS[:, :1],
            refused_parameter("known.shape", value=(3, 1)),
        ),
        (
            np.zeros((3, 2), np.bool_),
            KNOWN_LABELS_WITH_GAPS[:2],
            refused_parameter("len(known)", value=2),
        ),
        (
            np.ones((3, 2), np.bool_),
            KNOWN_LABELS_WITH_GAPS,
            refused_parameter("labels", value="2 True"),
        ),
    ],
)
def test_masks_that_do_not_fit_are_refused(labels: Any, known: Any, refusal: Refusal) -> None:
    """A mask of another type or shape, and a label that is True although unknown, are refused."""
    with refusal:
        replace(split_of_zeros(record_ids=[0, 1, 2]), labels=labels, known=known)


def test_a_test_split_without_any_known_label_is_refused() -> None:
    """A test split without any known label is refused, as nothing could be measured by it."""
    nothing = replace(split_of_zeros(record_ids=[5]), known=np.zeros((1, 2), np.bool_))
    with refused_parameter("test.known", value=0):
        replace(TOY, test=nothing)
