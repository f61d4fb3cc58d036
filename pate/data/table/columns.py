"""Columns of a table: what a public file says of each, and how its cells become numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pate.data.table.cells import USUAL, Cells, Spelling, Words, arrow, as_dates, as_numbers, as_texts
from pate.validation import InvalidValue, require

OTHER, MISSING = "other", "missing"
_RARE_END = 0.5  # standard deviations: at most 4 of 5 public cells are there, so 100 by chance once in 5 billion tables
_ROUNDING = 1e-6  # of single precision


@dataclass(frozen=True)
class Column(ABC):
    """A column that becomes features.

    Attributes:
        name: of the column.
        missing: whether cells are missing in the public file; they have a feature of their own then. A cell that is
            missing all the same takes the place of the mean, or of a category that the public file does not have.
    """

    name: str
    missing: bool

    kind: ClassVar[str]
    expects: ClassVar[str]
    keys: ClassVar[tuple[str, ...]] = ()  # of a schema's file, beside its kind

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """The names of its features."""

    @abstractmethod
    def encode(self, array: Any, spelling: Spelling = USUAL) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Features float32 `[n, k]` of a pyarrow array `[n]`, and which cells are not of this kind `[n]`."""

    @abstractmethod
    def tells(self, block: NDArray[np.float32]) -> bool:
        """Whether features `[n, k]` hold any cell that is a value, and of a kind that the public file knows."""

    @abstractmethod
    def cells(self, block: NDArray[np.float32]) -> Any:
        """A column of a DataFrame for features `[n, k]`: what `encode` made them of, as far as they tell it."""

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """What a schema's file says of it."""

    @classmethod
    @abstractmethod
    def read(cls, name: str, said: Mapping[str, Any]) -> Self:
        """From what a schema's file says; raises `KeyError`, `TypeError` or `ValueError` where that is nothing."""


@dataclass(frozen=True)
class NumberColumn(Column):
    """Numbers: cut to the public range, less the public mean, in units of the public spread.

    Attributes:
        mean: of the public cells that are not missing.
        std: their standard deviation; 1 where they are all alike.
        low: the least of them.
        high: the largest.
    """

    mean: float
    std: float
    low: float
    high: float

    kind: ClassVar[str] = "number"
    expects: ClassVar[str] = "numbers"
    keys: ClassVar[tuple[str, ...]] = ("mean", "std", "min", "max", "missing")

    def __post_init__(self) -> None:
        numbers = (self.mean, self.std, self.low, self.high)
        require(all(map(np.isfinite, numbers)) and self.std > 0, self.name, numbers, "finite numbers, and std > 0")
        require(self.low <= self.high, self.name, (self.low, self.high), "min <= max")

    @classmethod
    def of(cls, name: str, cells: Cells) -> Self:
        """What public cells say."""
        known = cells.values[~cells.missing]
        std = float(known.std())
        flat = not std > 1e-12 * max(abs(float(known.mean())), 1e-300)
        bounds = float(known.min()), float(known.max())
        return cls(name, bool(cells.missing.any()), float(known.mean()), 1.0 if flat else std, *bounds)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """See `Column.feature_names`."""
        return (self.name, *((f"{self.name}={MISSING}",) if self.missing else ()))

    def encode(self, array: Any, spelling: Spelling = USUAL) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """See `Column.encode`."""
        cells = self._cells(array, spelling)
        block = np.zeros((len(cells.values), len(self.feature_names)), np.float32)
        known = ~cells.missing & ~cells.wrong
        block[known, 0] = (cells.values[known].clip(self.low, self.high) - self.mean) / self.std
        if self.missing:
            block[:, 1] = cells.missing
        return block, cells.wrong

    def tells(self, block: NDArray[np.float32]) -> bool:
        """See `Column.tells`. A missing cell without a feature of its own is at the mean.

        Cells that are all at one end, such as grams for kilograms, are no values if few public cells can be there. By
        Cantelli's inequality, at most `1 / (1 + k^2)` of them are `k` standard deviations or more from the mean.
        """
        known = block[:, 1] == 0 if self.missing else (block[:, 0] != 0) | (self.low == self.high)
        numbers = block[known, 0]
        if self.low == self.high or not len(numbers):
            return bool(len(numbers))
        low, high = ((end - self.mean) / self.std for end in (self.low, self.high))
        all_low = low < -_RARE_END and numbers.max() <= low * (1 - _ROUNDING)
        all_high = high > _RARE_END and numbers.min() >= high * (1 - _ROUNDING)
        return not (all_low or all_high)

    def cells(self, block: NDArray[np.float32]) -> NDArray[np.float64]:
        """See `Column.cells`: numbers to a millionth of the public range, NaN where they are missing."""
        numbers = block[:, 0].astype(np.float64) * self.std + self.mean
        numbers = numbers.round(6 - int(np.ceil(np.log10(max(self.high - self.low, 1e-300)))))
        return np.where(block[:, 1] > 0, np.nan, numbers) if self.missing else numbers

    def plain(self) -> dict[str, Any]:
        """See `Column.plain`."""
        numbers = {"mean": self.mean, "std": self.std, "min": self.low, "max": self.high}
        return {"kind": self.kind, **numbers, "missing": self.missing}

    @classmethod
    def read(cls, name: str, said: Mapping[str, Any]) -> Self:
        """See `Column.read`."""
        numbers = (float(said[key]) for key in ("mean", "std", "min", "max"))
        return cls(name, _truth(said["missing"]), *numbers)

    @staticmethod
    def _cells(array: Any, spelling: Spelling) -> Cells:
        return as_numbers(array, spelling)


@dataclass(frozen=True)
class DateColumn(NumberColumn):
    """Dates or moments in ISO 8601, as days since 1970: then as numbers are."""

    kind: ClassVar[str] = "date"
    expects: ClassVar[str] = "dates such as 2025-01-31"

    @staticmethod
    def _cells(array: Any, spelling: Spelling) -> Cells:
        return as_dates(array)


@dataclass(frozen=True)
class CategoryColumn(Column):
    """Words: a feature of 0 and 1 for each category of the public file, one for all others, one for missing ones.

    A word that is no category, but the same number, date or truth as one, is that one: 3.0 where the public file has 3.

    Attributes:
        categories: those that have a feature, in its order.
    """

    categories: tuple[str, ...]

    kind: ClassVar[str] = "category"
    expects: ClassVar[str] = "words"
    keys: ClassVar[tuple[str, ...]] = ("categories", "missing")

    def __post_init__(self) -> None:
        require(len(set(self.categories)) == len(self.categories), self.name, "a category twice", "each once")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """See `Column.feature_names`."""
        said = (*self.categories, OTHER, *((MISSING,) if self.missing else ()))
        return tuple(f"{self.name}={each}" for each in said)

    def encode(self, array: Any, spelling: Spelling = USUAL) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """See `Column.encode`. Every word is a category; none is wrong."""
        words, known = as_texts(array), Words(arrow().array(self.categories, arrow().string()))
        codes, missing = words.codes(known)
        if ((codes < 0) & ~missing).any():  # written otherwise, perhaps
            codes = np.where(codes < 0, words.as_values(spelling).codes(known.as_values(spelling))[0], codes)
        block = np.zeros((len(codes), len(self.feature_names)), np.float32)
        codes[codes < 0] = len(self.categories)
        if self.missing:
            codes[missing] = len(self.categories) + 1
        block[np.arange(len(codes)), codes] = 1
        return block, np.zeros(len(codes), np.bool_)

    def tells(self, block: NDArray[np.float32]) -> bool:
        """See `Column.tells`."""
        return bool(block[:, : len(self.categories)].any())

    def cells(self, block: NDArray[np.float32]) -> Any:
        """See `Column.cells`: a categorical, whose last category is that of all other words."""
        from pandas import Categorical

        codes = block.argmax(axis=1)
        other = OTHER if OTHER not in self.categories else f"{OTHER} than {self.name}"
        codes[codes > len(self.categories)] = -1  # missing
        return Categorical.from_codes(codes, categories=[*self.categories, other])

    def plain(self) -> dict[str, Any]:
        """See `Column.plain`."""
        return {"kind": self.kind, "categories": list(self.categories), "missing": self.missing}

    @classmethod
    def read(cls, name: str, said: Mapping[str, Any]) -> Self:
        """See `Column.read`."""
        categories = said["categories"]
        if not isinstance(categories, list) or not all(isinstance(each, str) for each in categories):
            raise InvalidValue(f"{name}.categories: expected a list of words, numbers among them in quotes")
        return cls(name, _truth(said["missing"]), tuple(categories))


@dataclass(frozen=True)
class TextColumn(Column):
    """Words that are nearly all different, such as names or remarks: they can be no feature."""

    kind: ClassVar[str] = "text"
    expects: ClassVar[str] = "numbers, dates such as 2025-01-31, or words that occur again"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """None."""
        return ()

    def encode(self, array: Any, spelling: Spelling = USUAL) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Nothing."""
        return np.zeros((len(array), 0), np.float32), np.zeros(len(array), np.bool_)

    def tells(self, block: NDArray[np.float32]) -> bool:
        """It is not used."""
        return True

    def cells(self, block: NDArray[np.float32]) -> Any:
        """All missing."""
        return np.full(len(block), np.nan)

    def plain(self) -> dict[str, Any]:
        """See `Column.plain`."""
        return {"kind": self.kind}

    @classmethod
    def read(cls, name: str, said: Mapping[str, Any]) -> Self:
        """See `Column.read`."""
        return cls(name, missing=False)


class EmptyColumn(TextColumn):
    """A column whose cells are all missing in the public file."""

    kind: ClassVar[str] = "empty"
    expects: ClassVar[str] = "a value in some row of the public file"


KINDS: dict[str, type[Column]] = {
    each.kind: each for each in (NumberColumn, DateColumn, CategoryColumn, TextColumn, EmptyColumn)
}


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("missing: expected true or false")
    return value
