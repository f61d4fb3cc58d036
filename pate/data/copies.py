"""Records that occur twice: public or test ones that are private, and private ones that are somebody else's, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.pixels import Pixels
from pate.data.split import Split
from pate.files.arrays import row_blocks

CellNumbers = Callable[[str], NDArray[np.uint64]]
"""Says of a split by its name a number for each record, which equal cells share."""

_UNLIKELY = 1e-6  # a chance that so many records agree, below which a line says so
_LEAST_CHANCE = 1e-15
_PICTURE_AXES = 4
_HALF_OF_LAST_BIT = np.uint32(0x80)
_BITS_KEPT = np.uint32(0xFFFFFF00)


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of a split, each as a number that equal ones share."""

    # `[n]`, equal where inputs are, see `rounded`; others in each process
    numbers: NDArray[np.uint64]
    groups: NDArray[np.int64]  # `[n]`, from 0
    are_pictures: bool = False  # two of which agree for another reason than chance

    @classmethod
    def of(cls, split: Split) -> Inputs:
        """Reads some thousand inputs at a time."""
        blocks = (
            split.inputs.blocks() if isinstance(split.inputs, Pixels) else row_blocks(split.inputs)
        )
        numbers = np.concatenate([_numbers_of_rows(block) for block in blocks])
        groups = np.unique(split.group_ids, return_inverse=True)[1]
        return cls(numbers, groups, split.inputs.ndim == _PICTURE_AXES)

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def num_repeated(self) -> int:
        """The number of records whose inputs a record of another group has."""
        _, place = np.unique(self.numbers, return_inverse=True)
        num_groups = int(self.groups.max()) + 1
        pairs = np.unique(place * num_groups + self.groups)  # of inputs and groups that have them
        groups_of_input = np.bincount(pairs // num_groups)
        return int((groups_of_input[place] > 1).sum())

    def num_in(self, others: Inputs) -> int:
        """Returns how many of these records have inputs that one of the others has."""
        return int(np.isin(self.numbers, others.numbers).sum())

    def share_by_chance(self, size: int) -> float:
        """Returns about how likely a new record has inputs that one of `size` records like these has."""
        share = (
            self.num_repeated / len(self)
            if self.are_pictures
            else (self.num_repeated + 1) / (len(self) + 1)
        )
        return min(1.0, max(share, _LEAST_CHANCE) * max(1.0, size / len(self)))


def remarks_on_copies(
    private: Split, public: Split, test: Split | None = None, cells_of: CellNumbers | None = None
) -> Iterator[str]:
    """Yields lines, for the owner of the records alone, where more records agree in all inputs than do by chance.

    Where inputs have few values, records of different people agree. How often is seen within each split; a line is
    for what would be as frequent once in a million data sets, or where two splits are the same as a whole. Inputs may
    agree where cells do not, as those beyond the public range: `cells_of` a split then says in its place what agrees.
    """
    splits = {"private": private, "public": public}
    if test is not None:
        splits["test"] = test
    inputs = {name: Inputs.of(split) for name, split in splits.items()}
    lines = list(_lines(inputs))
    if lines and cells_of is not None:
        lines = list(
            _lines({name: Inputs(cells_of(name), each.groups) for name, each in inputs.items()})
        )
    yield from lines


def _lines(inputs: Mapping[str, Inputs]) -> Iterator[str]:
    private = inputs["private"]
    remedy = "if these are copies, leave them out of one of the two files"
    effects = {
        "public": "what is public is not protected",
        "test": "teachers learn from them, so scores are too good",
    }
    for name, effect in effects.items():
        if name not in inputs:
            continue
        rows = inputs[name]
        count = rows.num_in(private)
        chance = min(private.share_by_chance(len(private)), rows.share_by_chance(len(private)))
        is_private_split = len(rows) == len(private) and np.array_equal(
            np.sort(rows.numbers), np.sort(private.numbers)
        )
        if is_private_split or _is_unlikely(count, len(rows), chance):
            copies = f"{count} of {len(rows)} records have the inputs of private ones"
            yield f"data.{name}: {copies}: {effect}; {remedy}"
    if _is_unlikely(
        private.num_repeated, len(private), inputs["public"].share_by_chance(len(private))
    ):
        copies = f"{private.num_repeated} of {len(private)} records have the inputs of another one"
        copies += ", which is protected apart"
        yield f"data.private: {copies}; leave copies out, and name the column that says whose records these are"


def _numbers_of_rows(block: NDArray[Any]) -> NDArray[np.uint64]:
    """Returns the hash of each row's bytes, `[n]`; Python's, which is many times as fast here as a digest."""
    rows = np.ascontiguousarray(block if block.dtype == np.uint8 else rounded(block)).reshape(
        len(block), -1
    )
    as_bytes = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
    return np.fromiter(map(hash, as_bytes.tolist()), np.int64, len(rows)).view(np.uint64)


def rounded(numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns numbers to 16 bits: a copy that was computed or saved otherwise differs in the last of 24 alone.

    >>> rounded(np.array([70.1, 70.10001, 70.11], np.float32)).tolist()
    [70.099609375, 70.099609375, 70.109375]
    """
    bits = (numbers + np.float32(0)).view(np.uint32)  # 0 is added, as there is a negative one
    bits += _HALF_OF_LAST_BIT
    bits &= _BITS_KEPT
    return bits.view(np.float32)


def _is_unlikely(count: int, total: int, chance: float) -> bool:
    """Says if `count` or more of `total` records agree by chance less often than a line is for."""
    from scipy.special import betainc  # loads slowly

    return count > 0 and bool(betainc(count, total - count + 1, chance) < _UNLIKELY)
