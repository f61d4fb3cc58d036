"""The schema of a table: what its public file says of each column, how cells become numbers, what to tell its owner."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy
import yaml
from numpy.typing import NDArray

from pate.data.dataset import Preprocessing, Stage, unwatched
from pate.data.table import cells, dates
from pate.data.table.cells import (
    USUAL,
    Spelling,
    arrow,
    as_dates,
    as_numbers,
    as_texts,
    fits,
    missing_in,
)
from pate.data.table.dates import ORDERS, absent_dates, days_as_text, days_of
from pate.data.table.encoding import UTF_8
from pate.data.texts.reading import MOST_FITTED_TEXTS, as_strings, evenly_spaced
from pate.data.texts.vectors import TextFit, TextVectors
from pate.files.disk import DamagedFile, write_text
from pate.files.plain_yaml import read_yaml
from pate.validation import InvalidValue, as_setting, require

OTHER = "other"
MISSING = "missing"
OTHERS = "{} of {} rows hold something else, row {} is the first"
_FEWEST = 20  # rows, or values, that tell the numbers of people or records from other whole numbers
_MOST_REPEATS = 5.0  # rows per value of a key, on average
_FREQUENT = 10  # rows of one value, or a tenth of all: a key has fewer
_WIDE = 200  # whole numbers of people's ages, blood pressures or shares lie closer together
_LARGEST = 2.0**62
_SAMPLE = 2000  # words that tell which spelling is likely
_SHOWN = 3
_LONGEST_SHOWN = 20
_BESIDE = re.compile(
    r"[^\w\s.,+-]*\s*([+-]?\d[\d.,]*)\s*(?:[^\w\s.,]*|(?<=\s)[^\W\d]{1,5}|[^\W\d]{2,5})"
)
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_LONGEST_DATE = 40  # characters
_FEWEST_DATES = 3  # words
# as whole numbers
_FIRST_DAY = 19000101
_LAST_DAY = 21001231
_COLUMNS_SHOWN = 5
_DAYS = 3e6  # of dates that have four digits for the year
_LONG_TAIL = 3.0  # excess kurtosis, as of two exponential tails
_FREQUENT_ABSENT = 0.02  # of all cells: the share of a date that may stand for none
_SCALE = ("power", "center", "unit")  # which a schema's file need not say
_MOST_CATEGORIES = 50
_HEAD = """# What the public file says of each column. Change what you know better: a kind (number, date, category), the
# categories, a range. Never copy anything from the private file into this one: it is published with the model.
# `settings` are those of pate-schema, which a run takes where its command names none; they are not published.
"""

Block = NDArray[np.float32]


class Encoded(NamedTuple):
    """Features, and what is to be said of the cells that they were made of."""

    features: Block  # [n, k]
    # [n] of a column, [n, columns] of a table: cells that are not of the column's kind
    wrong: NDArray[np.bool_]
    # [2], or [columns, 2]: cells that the public file does not know, and missing ones
    strange: NDArray[np.int64]


@dataclass(frozen=True)
class Column:
    """What the public file says of a column, and how its cells become features."""

    name: str
    # Whether cells are missing in the public file; they have a feature of their own then. Else a cell that is missing
    # takes the place of the mean, or of a category that the public file does not have.
    missing: bool

    kind: ClassVar[str] = ""  # of a schema's file
    expects: ClassVar[Any]  # of a cell, or of the public file where it can be no feature
    keys: ClassVar[tuple[str, ...]] = ()  # of a schema's file, beside its kind
    feature_names: ClassVar[Any] = ()  # texts; none where it can be no feature

    def encode(self, array: Any, spelling: Spelling = USUAL) -> Encoded:
        """Of a pyarrow array `[n]`."""
        missing = missing_in(as_texts(array))
        return Encoded(
            np.zeros((len(array), 0), np.float32),
            np.zeros_like(missing),
            np.array([0, missing.sum()]),
        )

    def framed(self, block: Block) -> dict[str, Any]:
        """Columns of a DataFrame for features `[n, k]`: what `encode` made them of, as far as they tell it."""
        return dict(zip(self.feature_names, block.T, strict=True))

    def plain(self) -> dict[str, Any]:
        """Returns the column as JSON can hold it, for the file of a schema."""
        return {"kind": self.kind}

    @classmethod
    def read(cls, name: str, said: Mapping[str, Any], folder: Path | None) -> Self:
        """From what a schema's file in a folder says; raises what Python does where that is nothing."""
        return cls(name, missing=False)


@dataclass(frozen=True)
class TextColumn(Column):
    """Words that are nearly all different, such as names or remarks: they can be no feature before `vectors` are there.

    Then a text is a vector of length `weight`, or 0 where nothing is known of it. A missing one is an empty one.
    """

    vectors: TextVectors | None = None
    weight: float = 1.0

    kind = "text"
    expects = "numbers, dates such as 2025-01-31, or words that occur again"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name for each component of a text's vector."""
        return (
            ()
            if self.vectors is None
            else tuple(f"{self.name}[{i}]" for i in range(self.vectors.dimension))
        )

    def encode(self, array: Any, spelling: Spelling = USUAL) -> Encoded:
        """Encodes texts as weighted vectors `[n, dimension]`; a missing text is a vector of zeros."""
        values = super().encode(array, spelling)
        if self.vectors is None:
            return values
        block = self.vectors.vectors(as_strings(as_texts(array))) * np.float32(self.weight)
        # a missing one says nothing, either
        unknown = int((~block.any(axis=1)).sum()) - int(values.strange[1])
        return Encoded(block, values.wrong, values.strange + np.array([unknown, 0]))

    def plain(self) -> dict[str, Any]:
        """Returns the column as JSON can hold it; the vectors lie in a file beside the schema."""
        if (made := self.vectors) is None:
            return super().plain()
        extractor = {"vectors": made.kind, "dimension": made.dimension, **made.origin}
        return {
            "kind": self.kind,
            "weight": self.weight,
            **extractor,
            "file": made.file,
            "sha256": made.digest,
        }

    @classmethod
    def read(cls, name: str, said: Mapping[str, Any], folder: Path | None) -> Self:
        """Reads a column that `plain` described, with the file of vectors beside it."""
        if "file" not in said or folder is None:
            return cls(name, missing=False)
        path = folder / Path(str(said["file"])).name
        weight = float(said["weight"])
        require(0 < weight < np.inf, f"{name}.weight", weight, "a number > 0")
        remedy = "copy it from where the schema comes from; it stands beside it"
        return cls(
            name, False, TextVectors.load(path, sha256=str(said["sha256"]), remedy=remedy), weight
        )


class EmptyColumn(Column):
    """A column whose cells are all missing in the public file."""

    kind = "empty"
    expects = "a value in some row of the public file"


@dataclass(frozen=True)
class NumberColumn(Column):
    """Numbers: cut to the public range, less the public mean, in units of the public spread.

    The unit of two numbers, such as 0 and 1, is what lies between them, as that of a category is: in units of its
    spread, a rare flag would be longer than all other features of its record. Numbers with a long tail get a power
    (Yeo & Johnson 2000) that makes the public ones most like a normal distribution, and their mean and spread then.
    """

    mean: float  # of the public cells that are not missing
    std: float  # of them; 1 where they are all alike
    min: float
    max: float
    power: float = 1.0  # of cells less the mean in units of the spread; 1 leaves them as they are
    center: float = 0.0  # of these powers: the 0 of the feature
    unit: float = 1.0  # of these powers: the 1 of the feature

    kind = "number"
    keys = ("mean", "std", "min", "max", "missing")

    def __post_init__(self) -> None:
        numbers = (self.mean, self.std, self.min, self.max)
        require(
            all(map(np.isfinite, numbers)) and self.std > 0,
            self.name,
            numbers,
            "finite numbers, and std > 0",
        )
        require(self.min <= self.max, self.name, (self.min, self.max), "min <= max")
        scale = (self.power, self.center, self.unit)
        good = 0 <= self.power <= 2 and np.isfinite(self.center) and 0 < self.unit < np.inf
        require(good, self.name, scale, "a power from 0 to 2, a finite center, and unit > 0")

    @classmethod
    def of(cls, name: str, numbers: NDArray[np.float64]) -> Self:
        """Fits a column to public numbers `[n]`: their mean, spread and range."""
        finite = numbers[~np.isnan(numbers)]
        mean, std, low, high = (
            float(number) for number in (finite.mean(), finite.std(), finite.min(), finite.max())
        )
        flat = not std > 1e-12 * max(abs(mean), 1e-300)
        column = cls(name, len(finite) < len(numbers), mean, 1.0 if flat else std, low, high)
        if flat:
            return column
        if ((finite == low) | (finite == high)).all():
            return replace(column, unit=(high - low) / std)
        scaled = (finite - mean) / std
        if not scipy.stats.kurtosis(scaled) > _LONG_TAIL:
            return column
        sample = scaled[:: max(1, len(scaled) // MOST_FITTED_TEXTS)]
        power = round(min(max(float(scipy.stats.yeojohnson_normmax(sample)), 0.0), 2.0), 2)
        bent = _powers(scaled, power)
        return replace(column, power=power, center=float(bent.mean()), unit=float(bent.std()))

    @property
    def expects(self) -> str:
        """The rule for a cell, in words for an error."""
        return "numbers as in the public file"

    def numbers(self, array: Any, spelling: Spelling = USUAL) -> NDArray[np.float64]:
        """Cells as numbers `[n]`, NaN for none and infinite for something else."""
        return as_numbers(array, spelling)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The column's name, and one more feature where public cells are missing."""
        return (self.name, *((f"{self.name}={MISSING}",) if self.missing else ()))

    def encode(self, array: Any, spelling: Spelling = USUAL) -> Encoded:
        """Encodes numbers as features `[n, 1]` or `[n, 2]`: the scaled number, and whether it is missing."""
        numbers = self.numbers(array, spelling)
        missing = np.isnan(numbers)
        is_known = np.isfinite(numbers)
        block = np.zeros((len(numbers), len(self.feature_names)), np.float32)
        powers = _powers(
            (numbers[is_known].clip(self.min, self.max) - self.mean) / self.std, self.power
        )
        block[is_known, 0] = (powers - self.center) / self.unit
        block[:, 1:] = missing[:, None]
        outside = (numbers < self.min) | (numbers > self.max)
        return Encoded(block, np.isinf(numbers), np.array([outside.sum(), missing.sum()]))

    def framed(self, block: Block) -> dict[str, Any]:
        """Turns features back into numbers, for estimators that take data frames."""
        powers = block[:, 0].astype(np.float64) * self.unit + self.center
        numbers = _powers(powers, self.power, "inv_boxcox1p") * self.std + self.mean
        # to a millionth of the public range
        numbers = numbers.round(6 - int(np.ceil(np.log10(max(self.max - self.min, 1e-300)))))
        return {self.name: np.where(block[:, 1] > 0, np.nan, numbers) if self.missing else numbers}

    def plain(self) -> dict[str, Any]:
        """Returns the column as JSON can hold it."""
        scale = {
            key: getattr(self, key)
            for key in _SCALE
            if getattr(self, key) != getattr(NumberColumn, key)
        }
        numbers = {key: getattr(self, key) for key in self.keys[:-1]}
        return {"kind": self.kind, **numbers, **scale, "missing": self.missing}

    @classmethod
    def read(cls, name: str, said: Mapping[str, Any], folder: Path | None) -> Self:
        """Reads a column that `plain` described; raises for impossible numbers."""
        scale = {key: float(said[key]) for key in _SCALE if key in said}
        return cls(name, said["missing"], *(float(said[key]) for key in cls.keys[:-1]), **scale)


def _powers(
    numbers: NDArray[np.float64], power: float, way: str = "boxcox1p"
) -> NDArray[np.float64]:
    """Yeo and Johnson's power of numbers, or the `way` back."""
    if power == 1:
        return numbers
    function = getattr(scipy.special, way)  # loads slowly, so not as a default argument
    return np.asarray(
        np.sign(numbers) * function(np.abs(numbers), np.where(numbers >= 0, power, 2 - power))
    )


@dataclass(frozen=True)
class DateColumn(NumberColumn):
    """Dates or moments as days since 1970: then as numbers are. In ISO 8601, or in the order of the public file.

    Dates that stand for none, see `absent_dates`, are missing cells, in all files.
    """

    order: str | None = None  # see `dates.ORDERS`; None where the dates need none
    absent: tuple[str, ...] = ()  # days in ISO 8601

    kind = "date"

    @classmethod
    def of_dates(cls, name: str, dates: NDArray[np.float64], order: str | None = None) -> Self:
        """From days since 1970 `[n]` of the public file, NaN for none."""
        absent = sorted(absent_dates(dates))
        column = cls.of(name, np.where(np.isin(np.floor(dates), absent), np.nan, dates))
        return replace(column, order=order, absent=tuple(map(days_as_text, absent)))

    @property
    def expects(self) -> str:
        """The rule for a cell, in words for an error."""
        example = {None: "2025-01-31", "dmy": "31.01.2025", "mdy": "01/31/2025", "ymd": "25-01-31"}[
            self.order
        ]
        return f"dates such as {example} as in the public file"

    def numbers(self, array: Any, spelling: Spelling = USUAL) -> NDArray[np.float64]:
        """Reads dates as days `[n]`; NaN for a missing one and infinite for what is no date."""
        days = as_dates(array, (spelling.date_order, self.order), spelling.first_year)
        absent = np.isin(np.floor(days), [days_of(day) for day in self.absent])
        return np.where(absent, np.nan, days)

    def plain(self) -> dict[str, Any]:
        """Returns the column as JSON can hold it."""
        description = super().plain()
        if self.order is not None:
            description["order"] = self.order
        if self.absent:
            description["absent"] = list(self.absent)
        return description

    @classmethod
    def read(cls, name: str, said: Mapping[str, Any], folder: Path | None) -> Self:
        """Reads a column that `plain` described."""
        column = super().read(name, said, folder)
        order = said.get("order")
        require(
            order is None or order in ORDERS, f"{name}.order", order, f"one of {', '.join(ORDERS)}"
        )
        absent = said.get("absent", [])
        require(
            isinstance(absent, list), f"{name}.absent", absent, "a list of dates such as 2025-01-31"
        )
        words = tuple(map(str, absent))
        for word in words:
            days_of(word)
        return replace(column, order=order, absent=words)


@dataclass(frozen=True)
class CategoryColumn(Column):
    """Words: a feature of 0 and 1 for each category of the public file, one for all others, one for missing ones.

    A word that is no category, but the same number, date or truth as one, is that one: 3.0 where the public file has 3.
    """

    categories: tuple[str, ...]  # those that have a feature, in its order

    kind = "category"
    keys = ("categories", "missing")

    def __post_init__(self) -> None:
        require(
            len(set(self.categories)) == len(self.categories),
            self.name,
            "a category twice",
            "each once",
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name for each category, one for others, and one for missing cells."""
        values = (*self.categories, OTHER, *((MISSING,) if self.missing else ()))
        return tuple(f"{self.name}={value}" for value in values)

    def encode(self, array: Any, spelling: Spelling = USUAL) -> Encoded:
        """Encodes words as one feature for each category, `[n, d]`; an unknown word is strange."""
        words = as_texts(array)
        categories = arrow().array(self.categories, arrow().string())
        codes = cells.codes_of(words, categories)
        missing = missing_in(words)
        if ((codes < 0) & ~missing).any():  # written otherwise, perhaps
            otherwise = cells.codes_of(
                cells.as_values(words, spelling), cells.as_values(categories, spelling)
            )
            codes = np.where(codes < 0, otherwise, codes)
        unknown = (codes < 0) & ~missing
        codes[codes < 0] = len(self.categories)
        if self.missing:
            codes[missing] = len(self.categories) + 1
        block = np.eye(len(self.feature_names), dtype=np.float32)[codes]
        # no word is wrong
        return Encoded(block, np.zeros_like(missing), np.array([unknown.sum(), missing.sum()]))

    def framed(self, block: Block) -> dict[str, Any]:
        """Turns features back into words, for estimators that take data frames."""
        from pandas import Categorical

        codes = block.argmax(axis=1)
        other = OTHER if OTHER not in self.categories else f"{OTHER} than {self.name}"
        codes[codes > len(self.categories)] = -1  # missing
        return {self.name: Categorical.from_codes(codes, categories=[*self.categories, other])}

    def plain(self) -> dict[str, Any]:
        """Returns the column as JSON can hold it."""
        return {"kind": self.kind, "categories": list(self.categories), "missing": self.missing}

    @classmethod
    def read(cls, name: str, said: Mapping[str, Any], folder: Path | None) -> Self:
        """Reads a column that `plain` described; raises for what is no list of words."""
        categories = said["categories"]
        good = isinstance(categories, list) and all(
            isinstance(category, str) for category in categories
        )
        require(
            good, f"{name}.categories", categories, "a list of words, numbers among them in quotes"
        )
        return cls(name, said["missing"], tuple(categories))


_COLUMNS: tuple[type[Column], ...] = (
    NumberColumn,
    DateColumn,
    CategoryColumn,
    TextColumn,
    EmptyColumn,
)
KINDS = {column.kind: column for column in _COLUMNS}


@dataclass(frozen=True)
class TableSettings:
    """Settings of a table that a schema's file holds beside the columns: those that `pate-schema` was given.

    They are those of `Table` by the same names, and hold where nobody says otherwise. They are public, as the names of
    columns are, and no part of what is published with a model.
    """

    labels: tuple[str, ...] = ()
    group: str | tuple[str, ...] | None = None
    id: str | None = None
    drop: tuple[str, ...] = ()
    label_separator: str | None = None
    encoding: str = UTF_8

    def plain(self) -> dict[str, Any]:
        """Returns what is not as it is by default, tuples as lists."""
        settings = {}
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value != setting.default:
                settings[setting.name] = list(value) if isinstance(value, tuple) else value
        return settings

    @classmethod
    def read(cls, said: Mapping[str, Any], *, name: str) -> Self:
        """Returns the settings of what `plain` gave; `name` is of where it was said, for messages."""
        settings = said.get("settings") if isinstance(said, Mapping) else None
        if settings is None:
            return cls()
        names = tuple(setting.name for setting in fields(cls))
        rule = f"settings of pate-schema, some of {', '.join(names)}"
        require(isinstance(settings, Mapping), f"{name}.settings", settings, rule)
        for key in settings:
            require(key in names, f"{name}.settings.{key}", settings[key], rule)

        def listed(key: str) -> Any:
            value = settings.get(key, ())
            return tuple(map(str, value)) if isinstance(value, list) else value

        drop = listed("drop")
        require(isinstance(drop, tuple), f"{name}.settings.drop", drop, "a list of columns")

        return cls(
            labels=listed("labels"),
            group=listed("group") or None,
            id=settings.get("id"),
            drop=drop,
            label_separator=settings.get("label_separator"),
            encoding=settings.get("encoding", UTF_8),
        )

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Reads those of a file that `pate-schema` wrote; none of a file of an earlier version."""
        name = f"data.schema={path}"
        return cls.read(_read_schema_file(Path(path), name), name=name)


@dataclass(frozen=True)
class TableSchema(Preprocessing):
    """The columns that become features, in order. It makes inputs of any table that has them."""

    columns: tuple[Column, ...]
    # How the public file writes numbers and missing cells, as others do unless a setting says so; no other feature.
    spelling: Spelling = field(default=USUAL, compare=False)

    kind: ClassVar[str] = "table"

    @classmethod
    def of(
        cls,
        table: Any,
        *,
        codes: Collection[str] = (),
        texts: Collection[str] = (),
        spelling: Spelling = USUAL,
    ) -> Self:
        """What a public table says of each column: its kind, range or 50 most frequent words."""
        known_cells = spelling.known(
            table.select([name for name in table.column_names if name not in texts])
        )
        kinds = {
            name: _column_of(name, known_cells.column(name), name in codes, spelling)
            for name in known_cells.column_names
        }
        columns = (
            kinds.get(name) or TextColumn(name, missing=False) for name in table.column_names
        )
        return cls(tuple(columns), spelling)

    def fitted(
        self, table: Any, names: Collection[str], fit: TextFit, stage: Stage = unwatched
    ) -> TableSchema:
        """The same, with vectors for columns of text, fitted on a public pyarrow table that has all columns.

        Rule: in the public pool the variance of all texts together is that of all other columns together, and texts
        share it equally. Where there are no others, vectors have length 1.
        """
        other_columns = self.without(names)
        budget = 0.0
        table = table.take(evenly_spaced(range(table.num_rows)))
        if other_columns.columns:
            budget = float(
                other_columns.encode(table).features.var(axis=0, dtype=np.float64).sum()
            ) / len(names)
        made: dict[str, Column] = {}
        for name in [column.name for column in self.columns if column.name in names]:
            texts = as_strings(as_texts(table.column(name)))
            vectors = fit(texts, stage)
            spread_of = float(vectors.vectors(texts).var(axis=0, dtype=np.float64).sum())
            weight = (
                float(np.float32(np.sqrt(budget / spread_of)))
                if budget > 0 and spread_of > 0
                else 1.0
            )
            made[name] = TextColumn(name, False, vectors, weight)
        return replace(
            self, columns=tuple(made.get(column.name, column) for column in self.columns)
        )

    @property
    def texts(self) -> dict[str, TextVectors]:
        """The vectors of each column of texts, by the column's name."""
        places = (
            (column.name, column.vectors)
            for column in self.columns
            if isinstance(column, TextColumn)
        )
        return {name: vectors for name, vectors in places if vectors is not None}

    @property
    def origin(self) -> Mapping[str, str | int | float | bool | None]:
        """Of texts: what they were fitted on; of several the digests of all, one after the other."""
        texts = self.texts
        if not texts:
            return {}
        joined = {
            key: " ".join(
                dict.fromkeys(str(column.origin.get(key, "")) for column in texts.values())
            ).strip()
            for key in dict.fromkeys(key for column in texts.values() for key in column.origin)
        }
        kinds = ", ".join(dict.fromkeys(column.kind for column in texts.values()))
        return {
            "features": f"{kinds} of the texts {', '.join(texts)}",
            "dimension": sum(column.dimension for column in texts.values()),
            **joined,
            "extractor_sha256": " ".join(column.digest for column in texts.values()),
        }

    def save(self, folder: Path | str) -> None:
        """Writes the vectors of texts into a folder, beside the schema's file."""
        for vectors in self.texts.values():
            vectors.save(Path(folder, vectors.file))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of all features, in the order of the columns."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input: `(num_features,)`."""
        return (len(self.feature_names),)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def without(self, names: Collection[str]) -> TableSchema:
        """Returns the schema without some columns."""
        return replace(
            self, columns=tuple(column for column in self.columns if column.name not in names)
        )

    def require_usable(
        self,
        name: str,
        remarks: Mapping[str, str] | None = None,
        texts: Collection[str] = (),
        *,
        group: str | None = None,
    ) -> None:
        """Raises where a column can be no feature, but for `texts`, which get vectors later, or there is none.

        `group` is the column, or the columns, that settings name as whose a row is; it decides what is offered.
        """
        if useless := [
            column
            for column in self.columns
            if not column.feature_names and column.name not in texts
        ]:
            first = useless[0]
            remedy = ways_out([column.name for column in useless], group)
            if first.kind == TextColumn.kind:
                remedy += f"; {as_setting('data.text', [first.name])} makes features of its words"
            hints = "".join(
                f"; {line}" for name, line in (remarks or {}).items() if name == first.name
            )
            raise InvalidValue(f"{name}.{first.name}", rule=f"{first.expects}; {remedy}{hints}")
        require(
            len(self.columns) > 0, f"{name}.columns", 0, "a column that is no label, group or id"
        )

    def encode(self, table: Any) -> Encoded:
        """Of a pyarrow table that has the columns, and cells spelled as the schema says."""
        known = self.spelling.known(
            table.select([column.name for column in self.columns if column.kind != TextColumn.kind])
        )
        made = (
            each.encode(
                (table if each.kind == TextColumn.kind else known).column(each.name), self.spelling
            )
            for each in self.columns
        )
        blocks, wrong, strange = zip(*made, strict=True)
        return Encoded(np.concatenate(blocks, axis=1), np.stack(wrong, axis=1), np.stack(strange))

    def frame(self, inputs: NDArray[np.float32]) -> Any:
        """A DataFrame of inputs `[n, d]`, as far as they tell: what was cut stays so, dates are days since 1970."""
        from pandas import DataFrame

        ends = np.cumsum([len(column.feature_names) for column in self.columns])
        pairs = zip(self.columns, np.split(inputs, ends[:-1], axis=1), strict=True)
        return DataFrame(
            {name: cells for column, block in pairs for name, cells in column.framed(block).items()}
        )

    def inputs(self, given: Any, *, name: str = "data") -> Block:
        """Returns the features of a DataFrame, a pyarrow table or a mapping of columns, which errors call `name`."""
        return self.read_table(as_table(given), name=name).features

    def read_table(self, table: Any, *, first_row: int = 0, name: str = "data") -> Encoded:
        """Returns what `encode` does, or raises where a cell is wrong.

        Messages call the first row by that number, and the table by that name.
        """
        cells.require_columns(name, table.column_names, self.names)
        encoded = self.encode(table)
        if table.num_rows:
            wrong_counts = np.stack(
                [encoded.wrong.sum(axis=0), encoded.wrong.argmax(axis=0) + first_row]
            )
            self.require_right(name, wrong_counts, table.num_rows)
        return encoded

    def require_right(self, name: str, wrong: NDArray[np.int64], num_rows: int) -> None:
        """Raises, by counts and first rows `[2, columns]`, where cells are wrong; their values stay unsaid."""
        for column, count, row in zip(self.columns, *wrong.tolist(), strict=True):
            if count:
                # settings that read numbers which are none as they are spelled
                prefix = "data." if "." in name else ""
                other = (
                    "point or " + prefix + "thousands=." if self.spelling.mark == "," else "comma"
                )
                hint = f"other numbers need {prefix}decimal={other}, words for a missing cell {prefix}missing=[WORD]"
                rule = f"{column.expects}, {OTHERS.format(count, num_rows, row + 1)}"
                if isinstance(column, DateColumn):
                    hint = (
                        f"dates in other orders need {prefix}date_order=dmy, say"
                        if column.order is None
                        else ""
                    )
                elif not isinstance(column, NumberColumn):
                    hint = ""
                raise InvalidValue(f"{name}.{column.name}", rule=rule, hint=hint)

    def strange_lines(
        self, name: str, counts: NDArray[np.int64], num_records: int
    ) -> Iterator[str]:
        """A line for each column with cells that the public file does not know, a handful, those with most first.

        Missing cells are told of where the public file has none, or where there are no others.
        """
        lines = {}
        for column, (unknown, missing) in zip(self.columns, counts.tolist(), strict=True):
            untold = missing if missing == num_records or not column.missing else 0
            losses = [f"{untold:,} missing"] * (untold > 0)
            if unknown and isinstance(column, NumberColumn):
                day = (
                    isinstance(column, DateColumn) and max(abs(column.min), abs(column.max)) < _DAYS
                )
                ends = (
                    np.datetime64(int(end // 1), "D") if day else f"{end:.6g}"
                    for end in (column.min, column.max)
                )
                losses.insert(
                    0, f"{unknown:,} outside the public range {' to '.join(map(str, ends))}"
                )
            elif unknown:
                losses.insert(0, f"{unknown:,} with a word that the public file does not have")
            if losses:
                lines[f"{name}.{column.name}: {num_records:,} cells, {', '.join(losses)}"] = (
                    unknown + untold
                )
        ordered = sorted(lines, key=lambda line: -lines[line])
        yield from ordered[:_COLUMNS_SHOWN]
        if len(ordered) > _COLUMNS_SHOWN:
            yield f"{name}: {len(ordered) - _COLUMNS_SHOWN} more columns have such cells"

    def plain(self) -> dict[str, Any]:
        """Returns the schema as JSON can hold it."""
        description = {
            key: value
            for key, value in asdict(self.spelling).items()
            if value != getattr(USUAL, key)
        }
        return {
            "kind": self.kind,
            **description,
            "columns": {column.name: column.plain() for column in self.columns},
        }

    @classmethod
    def read(cls, said: Mapping[str, Any], *, name: str, folder: Path | str | None = None) -> Self:
        """From what `plain` gave, and files that `save` wrote; `name` is of where it was said, for messages."""
        columns = said.get("columns") if isinstance(said, Mapping) else None
        if not isinstance(columns, Mapping) or not columns:
            raise InvalidValue(
                name, rule="`columns`, what is known of each, as pate-schema writes it"
            )
        place = None if folder is None else Path(folder)
        read = tuple(
            _read_column(cells.column_name(str(key)), value, name, place)
            for key, value in columns.items()
        )
        missing = said.get("missing", ())
        missing = tuple(missing) if isinstance(missing, list) else missing
        spelling = Spelling(
            said.get("decimal", Spelling.decimal),
            said.get("thousands"),
            missing,
            said.get("date_order"),
            said.get("first_year"),
        )
        spelling.require(lambda setting: f"{name}.{setting}")
        return cls(read, spelling)

    def write(self, path: Path | str, settings: TableSettings | None = None) -> None:
        """Writes YAML for people, with the settings of its table; what makes numbers of texts in files beside it."""
        content = self.plain()
        columns = content.pop("columns")
        if settings is not None and (said := settings.plain()):
            content["settings"] = said
        text = yaml.safe_dump(
            {**content, "columns": columns}, sort_keys=False, allow_unicode=True, width=110
        )
        self.save(Path(path).parent)
        write_text(path, _HEAD + text)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Reads a schema that was written as YAML, with the files of vectors beside it."""
        path = Path(path)
        name = f"data.schema={path}"
        return cls.read(_read_schema_file(path, name), name=name, folder=path.parent)


def _read_schema_file(path: Path, name: str) -> Any:
    """Returns what a file of `pate-schema` says; `name` is of the setting that names it, for messages."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(
            name, rule=f"a file that pate-schema wrote ({type(error).__name__})"
        ) from error
    return read_yaml(text, name, "YAML as pate-schema writes it")


def ways_out(columns: Sequence[str], group: str | None) -> str:
    """Returns what to set where columns are to be no features: what says whose a row is comes before leaving it out.

    A person's number that is left out, and not named as the group, leaves each row protected by itself.
    """
    drop = as_setting("data.drop", columns)
    them = "it" if len(columns) == 1 else "all such columns"
    if group is not None:
        return f"{drop} leaves {them} out, where data.group={group} says whose a row is"
    whose = as_setting("data.group", columns[0])
    return f"{whose} if it says whose a row is, else {drop} leaves {them} out, and each row by itself is protected"


def as_table(given: Any) -> Any:
    """A pyarrow table of a DataFrame, a pyarrow table or a mapping of columns; raises where a name occurs twice."""
    pa = arrow()

    def array(series: Any) -> Any:
        try:
            return pa.array(series, from_pandas=True)
        except pa.ArrowException:
            if not hasattr(series, "iloc"):
                raise  # else it is a column of several types, which are words
            words = [
                None if gone else str(cell)
                for cell, gone in zip(series, series.isna(), strict=True)
            ]
            return pa.array(words, pa.string())

    try:
        if isinstance(given, Mapping) or (hasattr(given, "columns") and hasattr(given, "iloc")):
            names = [cells.column_name(str(key)) for key in given]
            cells.require_columns("data", names)
            given = pa.table(
                {name: array(given[key]) for name, key in zip(names, given, strict=True)}
            )
    except (pa.ArrowException, TypeError) as error:
        raise InvalidValue(
            "data", rule="columns of numbers, words or dates, of equal length"
        ) from error
    if not isinstance(given, pa.Table):
        raise InvalidValue("data", type(given).__name__, rule="a DataFrame, or the name of a file")
    return given.rename_columns(list(map(cells.column_name, given.column_names)))


def _column_of(name: str, array: Any, is_code: bool, spelling: Spelling) -> Column:
    numbers = as_numbers(array, spelling)
    if np.isnan(numbers).all():
        return EmptyColumn(name, missing=True)
    if fits(numbers) and not is_code:
        return NumberColumn.of(name, numbers)
    if not is_code and (column := _dates_of(name, array, spelling)) is not None:
        return column
    words = as_texts(array)
    if is_code:
        words = cells.as_values(words, spelling)
    else:
        cells.require_no_other_spelling(name, array, spelling)
    counts = cells.counts_of(words)
    categories = sorted(counts, key=lambda word: (-counts[word], word))[:_MOST_CATEGORIES]
    if 2 * sum(counts[word] for word in categories) < sum(counts.values()):
        return TextColumn(name, missing=False)
    return CategoryColumn(name, bool(missing_in(words).any()), tuple(sorted(categories)))


def _dates_of(name: str, array: Any, spelling: Spelling) -> DateColumn | None:
    """Returns a column of dates, None where a cell is none; raises where the cells do not say their order."""
    days = as_dates(array)
    if fits(days):
        return DateColumn.of_dates(name, days)
    distinct = as_texts(array).drop_null().unique().to_pylist()
    try:
        order = dates.order_of(distinct, order=spelling.date_order, first_year=spelling.first_year)
    except dates.NoDate:
        return None
    except dates.UnclearDates as error:
        remedy = f"{as_setting('data.category', [name])} where these are words"
        raise InvalidValue(f"data.public.{name}", rule=f"{error}; {remedy}") from error
    return DateColumn.of_dates(name, as_dates(array, (order,), spelling.first_year), order)


def _read_column(name: str, said: Any, where: str, folder: Path | None) -> Column:
    kind = said.get("kind") if isinstance(said, Mapping) else None
    column = KINDS.get(str(kind))
    if column is None:
        raise InvalidValue(
            f"{where}.columns.{name}.kind", str(kind)[:40], rule=f"one of {', '.join(KINDS)}"
        )
    try:
        if not isinstance(said.get("missing", False), bool):
            raise TypeError("missing: expected true or false")
        return column.read(name, said, folder)
    except DamagedFile:
        raise
    except InvalidValue as error:
        name_within = f"{where}.columns.{error.name}"
        raise InvalidValue(name_within, error.value, rule=error.rule) from error
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        rule = f"{', '.join(column.keys) or 'values'} as pate-schema writes them for kind: {kind}"
        raise InvalidValue(f"{where}.columns.{name}", rule=rule) from error


def remarks(
    table: Any, schema: TableSchema, *, codes: Collection[str], group: str | None
) -> Iterator[tuple[str, str]]:
    """Names of columns that become features, and what is to be said of each, by the public table and settings alone."""
    cells = schema.spelling.known(table)
    columns = {column.name: column for column in schema.columns}
    for name in table.column_names:
        array = cells.column(name)
        column = columns[name]
        remarks = list(
            _remarks_on(
                name, array, schema.spelling, name in codes, group is None, column.kind == "date"
            )
        )
        if isinstance(column, DateColumn):
            remarks += remarks_on_dates(column, array, schema.spelling)
        yield from ((name, f"{name}: {remark}") for remark in remarks)


def remarks_on_dates(column: DateColumn, array: Any, spelling: Spelling) -> Iterator[str]:
    """The order that the dates are read in, and those that stand for none or may do."""
    words = as_texts(array)
    if column.order is not None:
        example = dates.telling(words.drop_null().unique().slice(0, _SAMPLE).to_pylist())
        day = days_as_text(days_of(example, (column.order,), spelling.first_year))
        yield f"dates in the order {column.order}, {example} is {day}"
    days = as_dates(array, (column.order,), spelling.first_year)
    counts = Counter(days[np.isfinite(days)].tolist())
    for absent in column.absent:
        count = int((np.floor(days) == days_of(absent)).sum())
        yield f"{absent}, in {count} of {len(days)} cells, is far from all other dates and read as a missing cell"
    for end in (column.min, column.max):
        often = (
            counts[end] >= max(_FREQUENT, _FREQUENT_ABSENT * len(days))
            and counts[end] > len(days) / len(counts) * 5
        )
        if often and dates.is_at_years_end(end):
            word = words.filter(arrow().array(days == end))[0].as_py()
            setting = as_setting("data.missing", [word])
            yield f"{counts[end]} of {len(days)} cells are {word}; {setting} if that means a missing cell"


def _remarks_on(
    name: str, array: Any, spelling: Spelling, is_code: bool, ungrouped: bool, is_date: bool
) -> Iterator[str]:
    words = as_texts(array)
    numbers = as_numbers(array, spelling)
    drop = as_setting("data.drop", [name])
    group = as_setting("data.group", name)
    is_number = fits(numbers)
    known = numbers[np.isfinite(numbers)]
    values, counts = np.unique(known, return_counts=True)
    are_whole = not np.any(known % 1)
    # as the numbers of contracts and cases are
    if are_whole and _FEWEST <= len(values) == len(numbers):
        finding = "another number in each row"
        if ungrouped:
            finding += f"; {group} if it is that of a person"
        away = f"{as_setting('data.id', name)} or {drop}"
        yield f"{finding}; if it is the number of a record, {away} takes it from the features"
    with_zero = arrow().compute.match_substring_regex(words, r"^0\d")
    if is_number and not is_code and arrow().compute.any(with_zero).as_py():
        setting = as_setting("data.category", [name])
        yield f"numbers with a zero in front; if they are codes, {setting} makes each a category"
    if not (is_number or is_date):
        counted = cells.counts_of(words)
        counts = np.array([*counted.values()], np.int64)
        if not is_code and counted:
            yield from _nearly(counted, counts, spelling)
    if is_number and not is_code and are_whole and _are_days(values):
        yield f"whole numbers that may be dates, such as {words.drop_null()[0]}; written as 2025-01-31 they are dates"
    # Whole numbers or words that occur a few times each are those of people who have several rows.
    people = ungrouped and not is_date
    if is_number:
        step = np.gcd.reduce(np.diff(values).clip(max=_LARGEST).astype(np.int64))
        width = (values[-1] - values[0]) / max(step, 1) + 1
        people &= (
            are_whole and not (width <= _WIDE and len(values) < width) and len(values) < len(known)
        )
    rows = int(counts.sum())
    different = len(counts)
    several = different >= _FEWEST and rows <= _MOST_REPEATS * different
    if people and several and counts.max() <= max(_FREQUENT, rows / 10):
        finding = f"{different} values in {rows} rows, which become features and are published"
        yield f"{finding}; {group} if it says whose row it is, {drop} if it is only a name"


def _are_days(values: NDArray[np.float64]) -> bool:
    """Says whether different whole numbers, some at least, are all a day, such as 20250131."""
    if len(values) < _FEWEST_DATES or values[0] < _FIRST_DAY or values[-1] > _LAST_DAY:
        return False
    try:
        return all(days_of(f"{value:.0f}") is not None for value in values)
    except ValueError:
        return False


def _nearly(
    counted: Mapping[str, int], counts: NDArray[np.int64], spelling: Spelling
) -> Iterator[str]:
    """Of words most of which are numbers or dates, or have a number in them."""
    distinct = arrow().array(counted, arrow().string())
    total = int(counts.sum())
    # of numbers, and of dates by the name of their order
    ways: list[tuple[Spelling | str, frozenset[str]]] = [
        (spelling, frozenset()),
        *spelling.others(),
    ]
    ways += [(order, frozenset()) for order in ORDERS]

    def wrong_in(words: Any, way: Spelling | str) -> NDArray[np.bool_]:
        return np.isinf(
            as_dates(words, (way,), 2000) if isinstance(way, str) else as_numbers(words, way)
        )

    def shown(which: NDArray[np.bool_]) -> list[str]:
        rows = sorted(
            (-count, word)
            for word, count, is_seen in zip(words, counts, which, strict=True)
            if is_seen
        )
        return [
            word if len(word) <= _LONGEST_SHOWN else f"{word[:_LONGEST_SHOWN]}…" for _, word in rows
        ]

    words = [" ".join(cells.visible(word).split()) for word in counted]
    first = distinct.slice(0, _SAMPLE)
    head = counts[:_SAMPLE]
    way, settings = max(ways, key=lambda way: int(head[~wrong_in(first, way[0])].sum()))
    wrong = wrong_in(distinct, way)
    if 2 * (left := int(counts[wrong].sum())) <= total:
        remaining = shown(wrong)
        kind = "dates" if isinstance(way, str) else " with ".join(["numbers", *sorted(settings)])
        examples = ", ".join(remaining[:_SHOWN]) + ", …" * (len(remaining) > _SHOWN)
        remainder = f"{left} {'is' if left == 1 else 'are'} not ({examples})"
        short_words = [word for word in remaining[:_SHOWN] if len(word) <= _LONGEST_SHOWN]
        mend = (
            f"{as_setting('data.missing', short_words)} if that means a missing cell, or "
            if short_words
            else ""
        )
        yield f"{total - left} of {total} cells are {kind}, {remainder}, so all are words; {mend}mend it in the file"
        return
    is_dash = np.array([_BESIDE.fullmatch(word) is not None for word in words])
    if 2 * (found := int(counts[is_dash].sum())) >= total:
        finding = (
            f"{found} of {total} cells are numbers with something beside them ({shown(is_dash)[0]})"
        )
        yield f"{finding}, so all are words; take it away in the file to make numbers of them"
        return
    dated = np.array(
        [len(word) <= _LONGEST_DATE and _YEAR.search(word) is not None for word in words]
    )
    if dated.sum() >= _FEWEST_DATES and 2 * (found := int(counts[dated].sum())) >= total:
        finding = f"{found} of {total} cells are words with a year in them ({shown(dated)[0]})"
        yield f"{finding}; if they are dates, write them as 2025-01-31 in all files, or else they stay categories"


class UnlikePublic(UserWarning):
    """A warning: cells of these records are not what the public file has, or a column tells a model nothing."""
