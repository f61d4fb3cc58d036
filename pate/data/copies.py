"""Records that occur twice: in two splits, or under the names of two people.

A private record that is also in the public pool is not protected. A private record that is also in the test set makes
scores too good. A private record under two names is protected only once for each name.

The data show only that inputs are equal. If inputs have few values, records of different people are sometimes equal by
chance. So the owner of the records gets a remark only if equal inputs are more frequent than chance explains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import Float32Array, IntArray
from pate.data.id_arrays import are_among, distinct
from pate.data.pixels import Pixels
from pate.data.split import Split
from pate.files.array_rows import row_blocks

CellNumbers = Callable[[str], NDArray[np.uint64]]
"""A function from the name of a split to numbers `[n]`, one for each record; equal cells have equal numbers."""

# A remark is made if so many equal inputs have a probability below this one by chance.
_UNLIKELY = 1e-6
# The smallest share of repeated records from which the probability of an equal input is estimated.
_MIN_CHANCE = 1e-15
# The number of axes of an array of pictures.
_PICTURE_RANK = 4
# `rounded` keeps the upper 24 bits of a float32. Half of the lowest kept bit is added first.
_KEPT_BITS = np.uint32(0xFFFFFF00)
_HALF_OF_LAST_KEPT_BIT = np.uint32(0x80)


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class Inputs:
    """The inputs of a split, each represented by a hash, so that records with equal inputs can be found.

    Attributes:
        hashes: the hash of each input, uint64 `[n]`. Floats are first `rounded` to 16 significant bits. Hashes can be
            compared within one process only.
        group_of_record: the group of each record, from 0, `[n]`.
        are_pictures: whether inputs are pictures, to which `chance_of_equal_input` adds no repeated record.
    """

    hashes: NDArray[np.uint64]
    group_of_record: IntArray
    are_pictures: bool = False

    @classmethod
    def from_split(cls, split: Split) -> Inputs:
        """Returns the hashed inputs of a split, without a copy of all inputs at once."""
        inputs_of_split = split.inputs
        blocks = (
            inputs_of_split.blocks()
            if isinstance(inputs_of_split, Pixels)
            else row_blocks(inputs_of_split)
        )
        _, group_of_record = np.unique(split.group_ids, return_inverse=True)
        return cls(
            hashes=np.concatenate([_hash_rows(block) for block in blocks]),
            group_of_record=group_of_record,
            are_pictures=inputs_of_split.ndim == _PICTURE_RANK,
        )

    def __len__(self) -> int:
        return len(self.hashes)

    @cached_property
    def num_repeated(self) -> int:
        """The number of records whose input also occurs in another group of the split."""
        _, input_of_record = np.unique(self.hashes, return_inverse=True)
        num_groups = int(self.group_of_record.max()) + 1
        # Each pair of an input and a group that has this input is one number.
        pairs = distinct(input_of_record * num_groups + self.group_of_record)
        num_groups_with_input = np.bincount(pairs // num_groups)
        return int((num_groups_with_input[input_of_record] > 1).sum())

    def count_in(self, other_inputs: Inputs) -> int:
        """Returns the number of records in this split whose input also occurs in `other_inputs`, by their hashes."""
        return int(are_among(self.hashes, other_numbers=other_inputs.hashes).sum())

    def chance_of_equal_input(self, num_compared_records: int) -> float:
        """Returns an estimate of the probability that a new record has the same input as one of some other records.

        All records are assumed to come from the same distribution. The estimate is the share of this split's n records
        whose input also occurs in another group of the split. If the other records are more than n, the share is
        multiplied by their number / n. Except for pictures, one record that counts as repeated is added to the split,
        so that the estimate is not nearly 0 in a small split. The result is at least 1e-15 and at most 1.

        Args:
            num_compared_records: the number of the other records.
        """
        num_added = 0 if self.are_pictures else 1
        share_of_repeated_records = (self.num_repeated + num_added) / (len(self) + num_added)
        size_ratio = max(1.0, num_compared_records / len(self))
        return min(1.0, max(share_of_repeated_records, _MIN_CHANCE) * size_ratio)


def remarks_on_copies(
    private_split: Split,
    public_split: Split,
    test_split: Split | None = None,
    compute_fingerprints: CellNumbers | None = None,
) -> Iterator[str]:
    """Yields remarks for the owner of the records where more records have equal inputs than chance explains.

    A split whose inputs are exactly the private ones, in whatever order, gets a remark in any case.

    Args:
        private_split: the private records.
        public_split: the public pool.
        test_split: the test set; None if there is none.
        compute_fingerprints: a function from a split's name to a number for each record, which represents the
            record's cells. Inputs may agree where cells differ, because numbers are clipped to the range of public
            cells. If equal inputs give a remark, all remarks are made from these numbers instead. None compares the
            inputs alone.
    """
    splits = {"private": private_split, "public": public_split}
    if test_split is not None:
        splits["test"] = test_split
    hashed_inputs_by_split = {
        split_name: Inputs.from_split(split) for split_name, split in splits.items()
    }
    remarks = list(_remarks_on_equal_inputs(hashed_inputs_by_split))
    if remarks and compute_fingerprints is not None:
        hashed_cells_by_split = {
            split_name: Inputs(
                hashes=compute_fingerprints(split_name),
                group_of_record=split_inputs.group_of_record,
            )
            for split_name, split_inputs in hashed_inputs_by_split.items()
        }
        remarks = list(_remarks_on_equal_inputs(inputs_of_splits=hashed_cells_by_split))
    yield from remarks


def _remarks_on_equal_inputs(inputs_of_splits: Mapping[str, Inputs]) -> Iterator[str]:
    """Yields the remarks of `remarks_on_copies`: on records that two splits share, and on repeated private records.

    `inputs_of_splits` has the hashed inputs of the private and the public split, and of the test split if there is one.
    """
    private_inputs = inputs_of_splits["private"]
    remedy = "if these are copies, leave them out of one of the two files"
    effects = {
        "public": "what is public is not protected",
        "test": "teachers learn from them, so scores are too good",
    }
    for name, effect in effects.items():
        if name not in inputs_of_splits:
            continue
        split_inputs = inputs_of_splits[name]
        num_copies = split_inputs.count_in(other_inputs=private_inputs)
        chance_within_private = private_inputs.chance_of_equal_input(
            num_compared_records=len(private_inputs)
        )
        chance_within_split = split_inputs.chance_of_equal_input(
            num_compared_records=len(private_inputs)
        )
        is_unlikely = _is_unlikely(
            num_agreeing=num_copies,
            num_records=len(split_inputs),
            agreement_prob=min(chance_within_private, chance_within_split),
        )
        is_private_split = np.array_equal(
            np.sort(split_inputs.hashes), np.sort(private_inputs.hashes)
        )
        if is_private_split or is_unlikely:
            yield (
                f"data.{name}: {num_copies} of {len(split_inputs)} records have the inputs of private ones: "
                f"{effect}; {remedy}"
            )
    if _is_unlikely(
        num_agreeing=private_inputs.num_repeated,
        num_records=len(private_inputs),
        agreement_prob=inputs_of_splits["public"].chance_of_equal_input(
            num_compared_records=len(private_inputs)
        ),
    ):
        yield (
            f"data.private: {private_inputs.num_repeated} of {len(private_inputs)} records have the inputs of another "
            "one, which is protected apart; leave copies out, and name the column that says whose records these are"
        )


def _hash_rows(input_rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Returns a hash of each input `[num_rows, ...]`, uint64 `[num_rows]`; floats are first `rounded`.

    Python's own `hash` is many times as fast here as a cryptographic digest.
    """
    rounded_rows = input_rows if input_rows.dtype == np.uint8 else rounded(numbers=input_rows)
    rows = np.ascontiguousarray(rounded_rows).reshape(len(input_rows), -1)
    bytes_per_row = rows.shape[1] * rows.itemsize
    dtype_of_a_row = np.dtype((np.void, bytes_per_row))
    bytes_of_rows = rows.view(dtype_of_a_row).ravel().tolist()
    return np.fromiter(map(hash, bytes_of_rows), np.int64, count=len(rows)).view(np.uint64)


def rounded(numbers: Float32Array) -> Float32Array:
    """Returns numbers rounded from 24 significant bits to 16.

    Copies of a number that different programs computed or saved may differ in the last bits.

    >>> rounded(np.array([70.1, 70.10001, 70.11], np.float32)).tolist()
    [70.099609375, 70.099609375, 70.109375]
    """
    bits = (numbers + np.float32(0)).view(np.uint32)  # adding 0 turns -0 into 0
    bits += _HALF_OF_LAST_KEPT_BIT
    bits &= _KEPT_BITS
    return bits.view(np.float32)


def _is_unlikely(num_agreeing: int, num_records: int, agreement_prob: float) -> bool:
    """Returns True if the probability that at least `num_agreeing` records agree by chance is below 1e-6.

    The number of agreeing records is binomial. The upper tail of a binomial distribution is the regularized incomplete
    beta function.

    Args:
        num_agreeing: the number of records that agree.
        num_records: the number of records.
        agreement_prob: the probability that one record agrees by chance.
    """
    from scipy.special import betainc  # loads slowly

    if num_agreeing == 0:
        return False
    tail_prob = betainc(num_agreeing, num_records - num_agreeing + 1, agreement_prob)
    return bool(tail_prob < _UNLIKELY)
