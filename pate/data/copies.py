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
from pate.data.pixels import Pixels
from pate.data.split import Split, are_among, distinct
from pate.files.array_rows import row_blocks

CellNumbers = Callable[[str], NDArray[np.uint64]]
"""A function from the name of a split to numbers `[n]`, one for each record; equal cells have equal numbers."""

_UNLIKELY = 1e-6  # a line is written where agreement is less likely: once in a million data sets
_LEAST_CHANCE = 1e-15  # keeps the chance above 0, for the beta function
_PICTURE_AXES = 4
_HALF_OF_LAST_BIT = np.uint32(0x80)
_BITS_KEPT = np.uint32(0xFFFFFF00)


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of a split, each represented by a hash, so that records with equal inputs can be found."""

    # `[n]`, equal where the inputs are equal, as `rounded` rounds them; comparable within one process alone
    numbers: NDArray[np.uint64]
    groups: IntArray  # `[n]`, from 0
    are_pictures: bool = False  # equal pictures are copies: two never agree by chance

    @classmethod
    def from_split(cls, split: Split) -> Inputs:
        """Computes the hashes of a split's inputs, some thousand records at a time."""
        blocks = (
            split.inputs.blocks() if isinstance(split.inputs, Pixels) else row_blocks(split.inputs)
        )
        numbers = np.concatenate([_numbers_of_rows(block) for block in blocks])
        groups = np.unique(split.group_ids, return_inverse=True)[1]
        return cls(numbers, groups, are_pictures=split.inputs.ndim == _PICTURE_AXES)

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def num_repeated(self) -> int:
        """The number of records whose input also occurs in another group of the split."""
        _, input_of_record = np.unique(self.numbers, return_inverse=True)
        num_groups = int(self.groups.max()) + 1
        pairs = distinct(input_of_record * num_groups + self.groups)  # distinct (input, group)
        groups_with_input = np.bincount(pairs // num_groups)
        return int((groups_with_input[input_of_record] > 1).sum())

    def count_in(self, other_inputs: Inputs) -> int:
        """Returns the number of records in this split whose input also occurs in `other_inputs`."""
        return int(are_among(self.numbers, other_inputs.numbers).sum())

    def share_by_chance(self, num_records: int) -> float:
        """Returns an estimate of the probability that a new record has the same input as one of `num_records` records.

        All records are assumed to come from the same distribution. The estimate is the share of records in this split
        whose input also occurs in another of its groups. It is multiplied by `num_records` / n if that is more than the
        n records of this split. Except for pictures, one repeated record is added, so that the estimate is positive in
        a small split.
        """
        share = (self.num_repeated + 1) / (len(self) + 1)
        if self.are_pictures:
            share = self.num_repeated / len(self)
        return min(1.0, max(share, _LEAST_CHANCE) * max(1.0, num_records / len(self)))


def remarks_on_copies(
    private_split: Split,
    public_split: Split,
    test_split: Split | None = None,
    fingerprints_of_split: CellNumbers | None = None,
) -> Iterator[str]:
    """Yields remarks for the owner of the records where more records have equal inputs than chance explains.

    Args:
        private_split: the private records.
        public_split: the public pool.
        test_split: the test set; None if there is none.
        fingerprints_of_split: a function from a split's name to a number for each record, which represents the
            record's cells. Inputs may agree where cells differ, such as two numbers beyond the public range. With
            this function, records count as equal only if their numbers agree as well. None compares the inputs alone.
    """
    splits = {"private": private_split, "public": public_split}
    if test_split is not None:
        splits["test"] = test_split
    inputs = {name: Inputs.from_split(split) for name, split in splits.items()}
    lines = list(_lines(inputs))
    if lines and fingerprints_of_split is not None:
        cells = {
            name: Inputs(numbers=fingerprints_of_split(name), groups=split_inputs.groups)
            for name, split_inputs in inputs.items()
        }
        lines = list(_lines(inputs=cells))
    yield from lines


def _lines(inputs: Mapping[str, Inputs]) -> Iterator[str]:
    """Yields the remarks of `remarks_on_copies`, given the inputs of each split by its name."""
    private = inputs["private"]
    remedy = "if these are copies, leave them out of one of the two files"
    effects = {
        "public": "what is public is not protected",
        "test": "teachers learn from them, so scores are too good",
    }
    for name, effect in effects.items():
        if name not in inputs:
            continue
        split_inputs = inputs[name]
        num_copies = split_inputs.count_in(other_inputs=private)
        chance = min(
            private.share_by_chance(len(private)), split_inputs.share_by_chance(len(private))
        )
        is_private_split = np.array_equal(np.sort(split_inputs.numbers), np.sort(private.numbers))
        if is_private_split or _is_unlikely(
            num_agreeing=num_copies, num_records=len(split_inputs), agreement_prob=chance
        ):
            copies = f"{num_copies} of {len(split_inputs)} records have the inputs of private ones"
            yield f"data.{name}: {copies}: {effect}; {remedy}"
    if _is_unlikely(
        num_agreeing=private.num_repeated,
        num_records=len(private),
        agreement_prob=inputs["public"].share_by_chance(len(private)),
    ):
        copies = f"{private.num_repeated} of {len(private)} records have the inputs of another one"
        copies += ", which is protected apart"
        yield f"data.private: {copies}; leave copies out, and name the column that says whose records these are"


def _numbers_of_rows(block: NDArray[Any]) -> NDArray[np.uint64]:
    """Returns a hash of each row's bytes, uint64 `[num_rows]`.

    Python's own `hash` is many times as fast here as a cryptographic digest.
    """
    rows = np.ascontiguousarray(
        block if block.dtype == np.uint8 else rounded(numbers=block)
    ).reshape(len(block), -1)
    as_bytes = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
    return np.fromiter(map(hash, as_bytes.tolist()), np.int64, len(rows)).view(np.uint64)


def rounded(numbers: Float32Array) -> Float32Array:
    """Returns numbers rounded from 24 significant bits to 16.

    Copies of a number that different programs computed or saved may differ in the last bits.

    >>> rounded(np.array([70.1, 70.10001, 70.11], np.float32)).tolist()
    [70.099609375, 70.099609375, 70.109375]
    """
    bits = (numbers + np.float32(0)).view(np.uint32)  # adding 0 turns -0 into 0
    bits += _HALF_OF_LAST_BIT
    bits &= _BITS_KEPT
    return bits.view(np.float32)


def _is_unlikely(num_agreeing: int, num_records: int, agreement_prob: float) -> bool:
    """Returns True if at least so many records agree by chance with a probability below `_UNLIKELY`.

    The number of agreeing records is binomial. Its upper tail is the regularized incomplete beta function.

    Args:
        num_agreeing: the number of records that agree.
        num_records: the number of records.
        agreement_prob: the probability that one record agrees by chance.
    """
    from scipy.special import betainc  # loads slowly

    return num_agreeing > 0 and bool(
        betainc(num_agreeing, num_records - num_agreeing + 1, agreement_prob) < _UNLIKELY
    )
