"""The schema of a table: what its public file says of each column. Nothing private has a part in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import yaml
from numpy.typing import NDArray

from pate.data.preprocessing import Preprocessing
from pate.data.table.cells import USUAL, Spelling, arrow, as_dates, as_numbers, as_texts, column_name
from pate.data.table.columns import KINDS, CategoryColumn, Column, DateColumn, EmptyColumn, NumberColumn, TextColumn
from pate.data.table.remarks import require_no_other_spelling
from pate.files.atomic import write_text
from pate.files.plain_yaml import read_yaml
from pate.validation import InvalidValue, nearest, require

_MOST_CATEGORIES = 50
_SHOWN = 5
_LONGEST = 40
_HEAD = """# What the public file says of each column. Change what you know better: a kind (number, date, category), the
# categories, a range. Never copy anything from the private file into this one: it is published with the model.
"""


@dataclass(frozen=True)
class TableSchema(Preprocessing):
    """The columns that become features, in order. It makes inputs of any table that has them.

    Attributes:
        columns: one for each column that is used.
        spelling: how the public file writes numbers and missing cells, and so do other files unless a setting says
            otherwise.
    """

    columns: tuple[Column, ...]
    spelling: Spelling = field(default=USUAL, compare=False)  # how cells are written makes no other feature

    kind: ClassVar[str] = "table"

    @classmethod
    def of(cls, table: Any, *, codes: Collection[str] = (), spelling: Spelling = USUAL) -> Self:
        """What a public table says, a pyarrow one: of each column its kind, range or categories.

        Args:
            table: the public one.
            codes: columns whose numbers or dates are categories.
            spelling: how it writes numbers and missing cells.

        A column is of numbers, or else of dates, where all its cells are. Words are categories; the rarest are "other"
        where there are more than 50 of them; where these 50 are fewer than half of all, the column is text, which is
        not used.
        """
        known = spelling.known(table)
        names = table.column_names
        return cls(tuple(_column_of(name, known.column(name), name in codes, spelling) for name in names), spelling)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """See `Preprocessing.feature_names`."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """See `Preprocessing.input_shape`."""
        return (len(self.feature_names),)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def without(self, names: Iterable[str]) -> TableSchema:
        """That of the other columns."""
        left = set(names)
        return replace(self, columns=tuple(column for column in self.columns if column.name not in left))

    def require_usable(self, name: str, remarks: Mapping[str, str] | None = None) -> None:
        """Raises where a column can be no feature, or there is none; with what is to be said of the first."""
        useless = [column for column in self.columns if not column.feature_names]
        if useless:
            first, names = useless[0], ",".join(column.name for column in useless)
            remedy = f"data.drop=[{names}] leaves {'it' if len(useless) == 1 else 'all such columns'} out"
            if first.kind == TextColumn.kind:
                remedy += f"; data.group={first.name} where it says whose row it is"
            if remarks and first.name in remarks:
                remedy += f"; {remarks[first.name]}"
            raise InvalidValue(f"{name}.{first.name}: expected {first.expects}; {remedy}")
        require(len(self.columns) > 0, f"{name}.columns", 0, "a column that is no label, group or id")

    def encode(self, batch: Any, spelling: Spelling | None = None) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Features float32 `[n, d]` of a pyarrow table that has the columns, and what is wrong `[n, columns]`.

        Args:
            batch: the table.
            spelling: of its numbers and missing cells; None for that of the public file.
        """
        said = self.spelling if spelling is None else spelling
        batch = said.known(batch.select(list(self.names)))
        pairs = [column.encode(batch.column(column.name), said) for column in self.columns]
        wrong = np.stack([pair[1] for pair in pairs], axis=1)
        return np.concatenate([pair[0] for pair in pairs], axis=1), wrong

    def frame(self, inputs: NDArray[np.float32]) -> Any:
        """A DataFrame of inputs `[n, d]`: the columns by name, numbers as they are, categories, missing cells.

        What was cut to the public range, or is no public category, stays so; dates are days since 1970.
        """
        from pandas import DataFrame

        pairs = zip(self.columns, self._blocks(inputs), strict=True)
        return DataFrame({column.name: column.cells(block) for column, block in pairs})

    def tells(self, inputs: NDArray[np.float32]) -> Mapping[str, bool]:
        """See `Preprocessing.tells`."""
        pairs = zip(self.columns, self._blocks(inputs), strict=True)
        return {column.name: column.tells(block) for column, block in pairs}

    def inputs(self, given: Any, *, first_row: int = 0, spelling: Spelling | None = None) -> NDArray[np.float32]:
        """See `Preprocessing.inputs`: of a DataFrame, a pyarrow table or a mapping of columns; others are not read.

        Args:
            given: the table.
            first_row: the number of its first row, for messages.
            spelling: see `encode`.
        """
        table = as_table(given)
        require_columns("data", table.column_names, self.names)
        if not table.num_rows:
            return np.zeros((0, *self.input_shape), np.float32)
        inputs, wrong = self.encode(table, spelling)
        first = wrong.argmax(axis=0) + first_row
        self.require_right("data", wrong.sum(axis=0), first, table.num_rows, spelling or self.spelling)
        return inputs

    def _blocks(self, inputs: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """The features of each column."""
        ends = np.cumsum([len(column.feature_names) for column in self.columns])
        return np.split(inputs, ends[:-1], axis=1)

    def require_right(
        self, name: str, counts: NDArray[np.int64], first: NDArray[np.int64], num_rows: int, spelling: Spelling
    ) -> None:
        """Raises, with column and count, where cells are not what the schema says; their values stay unsaid.

        Args:
            name: of the table.
            counts: `[columns]`, wrong cells.
            first: `[columns]`, the first row with one.
            num_rows: of the table.
            spelling: of its cells.
        """
        for column, count, row in zip(self.columns, counts.tolist(), first.tolist(), strict=True):
            if count:
                found = f"{count} of {num_rows} rows hold something else, row {row + 1} is the first"
                own = "data." if "." in name else ""
                hint = f"; {_remedy(own, spelling)}" if column.kind == NumberColumn.kind else ""
                rule = f"{column.expects} as in the public file, {found}{hint}"
                raise InvalidValue(f"{name}.{column.name}: expected {rule}")

    def plain(self) -> dict[str, Any]:
        """See `Preprocessing.plain`."""
        said = {key: value for key, value in asdict(self.spelling).items() if value != getattr(USUAL, key)}
        return {"kind": self.kind, **said, "columns": {column.name: column.plain() for column in self.columns}}

    @classmethod
    def read(cls, said: Mapping[str, Any], *, name: str) -> Self:
        """From what `plain` gave.

        Args:
            said: with `columns`.
            name: of where it was said, for messages.
        """
        columns = said.get("columns") if isinstance(said, Mapping) else None
        if not isinstance(columns, Mapping) or not columns:
            raise InvalidValue(f"{name}: expected `columns`, what is known of each, as pate-schema writes it")
        read = tuple(_read_column(column_name(str(key)), value, name) for key, value in columns.items())
        missing = said.get("missing", ())
        spelling = Spelling(
            said.get("decimal", Spelling.decimal),
            said.get("thousands"),
            tuple(missing) if isinstance(missing, (list, tuple)) else missing,
        )
        spelling.require(lambda setting: f"{name}.{setting}")
        return cls(read, spelling)

    def write(self, path: Path) -> None:
        """As YAML, for people."""
        plain = self.plain()
        plain |= {"missing": list(plain["missing"])} if "missing" in plain else {}
        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110)
        write_text(path, _HEAD + text)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what `write` wrote, or somebody changed."""
        name = f"data.schema={path}"
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise InvalidValue(f"{name}: expected a file that pate-schema wrote ({error.strerror})") from error
        except UnicodeDecodeError as error:
            raise InvalidValue(f"{name}: expected YAML as pate-schema writes it, in UTF-8") from error
        return cls.read(read_yaml(text, name, "YAML as pate-schema writes it"), name=name)


def as_table(given: Any) -> Any:
    """A pyarrow table of a DataFrame, a pyarrow table or a mapping of columns.

    Raises:
        InvalidValue: something else, or a column name twice.
    """
    pa = arrow()
    if hasattr(given, "to_frame") and not hasattr(given, "columns"):
        raise InvalidValue(f"data={type(given).__name__}: expected a DataFrame: frame.loc[[row]] is one of one row")
    try:
        if isinstance(given, pa.RecordBatch):
            given = pa.Table.from_batches([given])
        elif isinstance(given, Mapping):
            names = [column_name(str(name)) for name in given]
            require_once("data", names)
            arrays = [pa.array(values, from_pandas=True) for values in given.values()]
            given = pa.table(dict(zip(names, arrays, strict=True)))
        elif hasattr(given, "columns") and hasattr(given, "iloc"):
            names = [column_name(str(name)) for name in given.columns]
            require_once("data", names)
            given = pa.table({name: _array(given[key]) for name, key in zip(names, given.columns, strict=True)})
    except (pa.ArrowException, TypeError) as error:
        raise InvalidValue("data: expected columns of numbers, words or dates, of equal length") from error
    if not isinstance(given, pa.Table):
        raise InvalidValue(f"data={type(given).__name__}: expected a DataFrame, or the name of a file")
    return given.rename_columns(list(map(column_name, given.column_names)))


def require_once(name: str, names: list[str]) -> None:
    """Raises where a column's name occurs twice, or is empty."""
    for each in names:
        require(names.count(each) == 1, f"{name}.columns", each, "each name once")
        rule = "a name for each column; an index that pandas wrote is left out by to_csv(FILE, index=False)"
        require(bool(each.strip()), f"{name}.columns", repr(each), rule)


def require_columns(name: str, found: list[str], wanted: Iterable[str]) -> None:
    """Raises unless the columns are there; others may be, too."""
    require_once(name, found)
    lacking = [each for each in wanted if each not in found]
    if lacking:
        more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
        hint = nearest(lacking[0], tuple(found))
        raise InvalidValue(f"{name}: expected also the column {', '.join(lacking[:_SHOWN])}{more}{hint}")


def _array(series: Any) -> Any:
    """A column of a DataFrame; one of several types as words."""
    pa = arrow()
    try:
        return pa.array(series, from_pandas=True)
    except pa.ArrowException:
        return pa.array([None if each is None or each != each else str(each) for each in series], pa.string())


def _remedy(own: str, spelling: Spelling) -> str:
    """The settings that read numbers which are none as they are spelled."""
    words = f"words for a missing cell need {own}missing=[WORD]"
    if spelling.with_comma:
        grouped = "" if spelling.thousands else f"numbers such as 1.234 need {own}thousands=. or {own}decimal=point, "
        return f"{grouped}{words}"
    return f"{words}; numbers such as 3,5 need {own}decimal=comma"


def _column_of(name: str, array: Any, is_code: bool, spelling: Spelling) -> Column:
    """What a public column is."""
    numbers = as_numbers(array, spelling)
    if numbers.missing.all():
        return EmptyColumn(name, missing=True)
    if numbers.fits and not is_code:
        return NumberColumn.of(name, numbers)
    if not is_code and (dates := as_dates(array)).fits:
        return DateColumn.of(name, dates)
    words = as_texts(array).as_values(spelling) if is_code else as_texts(array)
    if not is_code:
        require_no_other_spelling(name, array, spelling)
    counts = words.counts()
    kept = sorted(counts, key=lambda word: (-counts[word], word))[:_MOST_CATEGORIES]
    if 2 * sum(counts[word] for word in kept) < sum(counts.values()):
        return TextColumn(name, missing=False)
    return CategoryColumn(name, bool(words.missing.any()), tuple(sorted(kept)))


def _read_column(name: str, said: Any, where: str) -> Column:
    kind = said.get("kind") if isinstance(said, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidValue(f"{where}.columns.{name}.kind={str(kind)[:_LONGEST]}: expected one of {', '.join(KINDS)}")
    lacking = [key for key in KINDS[kind].keys if key not in said]
    if lacking:
        hint = f"; pate-schema category=[{name}] finds them" if kind == CategoryColumn.kind else ""
        rule = f"also {', '.join(lacking)}, which kind: {kind} needs{hint}"
        raise InvalidValue(f"{where}.columns.{name}: expected {rule}")
    try:
        return KINDS[kind].read(name, said)
    except InvalidValue as error:
        raise InvalidValue(f"{where}.columns.{error}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidValue(f"{where}.columns.{name}: expected values as pate-schema writes them") from error
