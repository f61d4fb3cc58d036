"""Remarks for the owner on public columns that are probably misinterpreted.

All remarks depend only on the public table and the settings, so they may be printed and published.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pate.array_types import BoolArray, FloatArray, IntArray
from pate.data.table.arrow import count_values, import_pyarrow
from pate.data.table.cells import are_all_readable, as_dates, as_numbers, as_texts, with_missing
from pate.data.table.column_names import without_invisible_characters
from pate.data.table.date_column import DateColumn
from pate.data.table.date_order import telling_date
from pate.data.table.dates import ORDERS, days_as_text, days_of
from pate.data.table.placeholder_dates import is_at_years_end
from pate.data.table.schema import TableSchema
from pate.data.table.spelling import CellSpelling
from pate.validation import as_setting

# The smallest number of rows, or of distinct values, with which a column may hold the keys of people or records.
_MIN_ROWS = 20
# The largest mean number of rows with the same key.
_MAX_ROWS_PER_KEY = 5.0
# The number of rows up to which a key may occur; a key may also have up to a tenth of all rows.
_FREQUENT_ROWS = 10
# The range up to which whole numbers may be ages, blood pressures or shares, and are no keys.
_SMALL_RANGE = 200
# Larger differences of two numbers are cut to this one, so that they fit into an int64.
_MAX_STEP = 2.0**62
# The number of words by which the likeliest notation of a column is chosen.
_SAMPLE_WORDS = 2000
# The largest number of words in a remark, and of characters of a word.
_MAX_WORDS_SHOWN = 3
_MAX_SHOWN = 20
# A number with a sign or a short word beside it, such as $ 3.50, 12 % or 80kg.
_NUMBER_WITH_UNIT = re.compile(
    r"[^\w\s.,+-]*\s*([+-]?\d[\d.,]*)\s*(?:[^\w\s.,]*|(?<=\s)[^\W\d]{1,5}|[^\W\d]{2,5})"
)
# A year of four digits from 1900 to 2099, without further digits beside it.
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
# The largest number of characters of a date, and the smallest number of different dates in a column of dates.
_MAX_DATE = 40
_MIN_DATES = 3
# The first and the last day that a whole number such as 20250131 may mean.
_FIRST_DAY = 19000101
_LAST_DAY = 21001231
# A date may stand for a missing one if it has at least this share of all cells, and more than so many times the number
# of all cells divided by that of the column's different dates.
_MIN_PLACEHOLDER_SHARE = 0.02
_MIN_PLACEHOLDER_RATIO = 5


def remarks_on_columns(
    table: Any,
    schema: TableSchema,
    *,
    code_columns: Collection[str],
    owner_columns_in_words: str | None,
) -> Iterator[tuple[str, str]]:
    """Yields pairs of a column's name and a remark on this column, for the owner of the table.

    Args:
        table: the public pyarrow table, without columns of free text.
        schema: the schema, which contains all columns of the table.
        code_columns: the columns whose numbers or dates are treated as words.
        owner_columns_in_words: the columns that name the owner of a row, as text; None if settings name none.
    """
    values = with_missing(table, cell_notation=schema.spelling)
    columns = {column.name: column for column in schema.columns}
    for name in table.column_names:
        column = columns[name]
        cells = values.column(name)
        is_date = isinstance(column, DateColumn)
        column_cells = _ColumnCells(
            name=name,
            cells=cells,
            cell_notation=schema.spelling,
            is_code=name in code_columns,
            is_date=is_date,
            is_ungrouped=owner_columns_in_words is None,
        )
        lines = list(column_cells.remarks())
        if isinstance(column, DateColumn):
            lines += remarks_on_dates(column, cells=cells, cell_notation=schema.spelling)
        for line in lines:
            yield name, f"{name}: {line}"


def remarks_on_dates(column: DateColumn, cells: Any, cell_notation: CellSpelling) -> Iterator[str]:
    """Yields remarks on a column of public dates: the order of day and month, and likely placeholder dates.

    Args:
        column: the column, as fitted to the public cells.
        cells: a pyarrow array of the public cells.
        cell_notation: the notation of the public file.
    """
    date_texts = as_texts(cells)
    if column.order is not None:
        yield _remark_on_order(
            date_texts, date_order=column.order, first_year=cell_notation.first_year
        )
    days = as_dates(cells, date_orders=(column.order,), first_year=cell_notation.first_year)
    for placeholder in column.absent:
        num_cells = int((np.floor(days) == days_of(placeholder)).sum())
        yield (
            f"{placeholder}, in {num_cells} of {len(days)} cells, is far from all other dates and read as a "
            "missing cell"
        )
    count_of_day = Counter(days[np.isfinite(days)].tolist())
    for day in (column.min, column.max):
        if _may_be_placeholder(day, count_of_day=count_of_day, num_cells=len(days)):
            word = date_texts.filter(import_pyarrow().array(days == day))[0].as_py()
            setting = as_setting(name="data.missing", value=[word])
            yield (
                f"{count_of_day[day]} of {len(days)} cells are {word}; {setting} if that means a missing cell"
            )


def _remark_on_order(date_texts: Any, date_order: str, first_year: int | None) -> str:
    """Returns the remark that names the order of a column's dates, with an example of a date and how it is read.

    Args:
        date_texts: a pyarrow array of the public cells as texts.
        date_order: the order of day, month and year in which the column is read.
        first_year: the earliest year that two digits can mean; None if no setting names one.
    """
    sample = date_texts.drop_null().unique().slice(0, _SAMPLE_WORDS).to_pylist()
    example = telling_date(date_texts=sample)
    days = days_of(date_text=example, date_orders=(date_order,), first_year=first_year)
    return f"dates in the order {date_order}, {example} is {days_as_text(days)}"


def _may_be_placeholder(day: float, count_of_day: Counter[float], num_cells: int) -> bool:
    """Returns True if a day is at the beginning or end of a year, and far more frequent than others in its column.

    Far more frequent means in at least 10 cells, in at least 2% of all cells, and in more cells than 5 * `num_cells`
    divided by the number of different days.

    Args:
        day: the day, as days since 1970.
        count_of_day: the number of cells with each day.
        num_cells: the number of all cells, with missing ones.
    """
    mean_count = num_cells / len(count_of_day)
    is_frequent = count_of_day[day] >= max(_FREQUENT_ROWS, _MIN_PLACEHOLDER_SHARE * num_cells)
    is_above_mean = count_of_day[day] > mean_count * _MIN_PLACEHOLDER_RATIO
    return is_frequent and is_above_mean and is_at_years_end(day=day)


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class _ColumnCells:
    """The public cells of a column, from which remarks on the column are made.

    Attributes:
        name: the name of the column.
        cells: a pyarrow array of the cells, where missing cells are null.
        cell_notation: the notation of the public file.
        is_code: whether settings declare the column as codes.
        is_date: whether the column is fitted as a column of dates.
        is_ungrouped: whether no setting names the owner of a row.
    """

    name: str
    cells: Any
    cell_notation: CellSpelling
    is_code: bool
    is_date: bool
    is_ungrouped: bool

    def remarks(self) -> Iterator[str]:
        """Yields the remarks on the column, as texts for the owner of the table; most columns have none.

        The order of dates and placeholder dates are remarked on by `remarks_on_dates`.
        """
        if self._may_be_record_numbers():
            yield self._remark_on_record_numbers()
        has_plain_numbers = self._is_number and not self.is_code
        if has_plain_numbers and self._has_leading_zeros():
            setting = as_setting(name="data.category", value=[self.name])
            yield f"numbers with a zero in front; if they are codes, {setting} makes each a category"
        has_words = not (self._is_number or self.is_date or self.is_code)
        count_per_word = count_values(self._words) if has_words else {}
        if count_per_word:
            yield from _remarks_on_words(
                count_per_word=count_per_word, cell_notation=self.cell_notation
            )
        if has_plain_numbers and self._are_whole and _are_dates_in_digits(self._distinct_numbers):
            word = self._words.drop_null()[0]
            yield (
                f"whole numbers that may be dates, such as {word}; written as 2025-01-31 they are dates"
            )
        if self._may_be_people():
            yield self._remark_on_people()

    def _may_be_record_numbers(self) -> bool:
        """Returns True if there are 20 or more rows, and each has another whole number, as numbers of cases are."""
        is_unique = len(self._distinct_numbers) == len(self._numbers)
        return self._are_whole and is_unique and len(self._distinct_numbers) >= _MIN_ROWS

    def _has_leading_zeros(self) -> bool:
        """Returns True if some cell begins with a zero and another digit."""
        has_leading_zero = import_pyarrow().compute.match_substring_regex(self._words, r"^0\d")
        return bool(import_pyarrow().compute.any(has_leading_zero).as_py())

    def _remark_on_record_numbers(self) -> str:
        """Returns the remark that the column may hold the numbers of records or persons, with the settings for both."""
        remark = "another number in each row"
        if self.is_ungrouped:
            remark += f"; {self._group_setting} if it is that of a person"
        settings = f"{as_setting(name='data.id', value=self.name)} or {self._drop_setting}"
        return f"{remark}; if it is the number of a record, {settings} takes it from the features"

    def _remark_on_people(self) -> str:
        """Returns the remark that the column may hold the names of people, with the settings for such a column."""
        rows_per_value = self._counts_of_values
        return (
            f"{len(rows_per_value)} values in {rows_per_value.sum()} rows, which become features and are published; "
            f"{self._group_setting} if it says whose row it is, {self._drop_setting} if it is only a name"
        )

    def _may_be_people(self) -> bool:
        """Returns True if values repeat a few times each, as the names of people with several rows do.

        There must be 20 or more values with at most 5 rows each on average, and no value may have both more than 10
        rows and more than a tenth of all rows. The result is False for dates, for numbers that are hardly those of
        persons, and if a setting names the owner of a row.
        """
        if not self.is_ungrouped or self.is_date:
            return False
        if self._is_number and not self._may_be_person_numbers():
            return False
        rows_per_value = self._counts_of_values
        if len(rows_per_value) < _MIN_ROWS or rows_per_value.sum() > _MAX_ROWS_PER_KEY * len(
            rows_per_value
        ):
            return False
        max_rows_of_key = max(_FREQUENT_ROWS, rows_per_value.sum() / 10)
        return bool(rows_per_value.max() <= max_rows_of_key)

    def _may_be_person_numbers(self) -> bool:
        """Returns True if the column's numbers may identify persons: they are whole, and some stand in several rows.

        Numbers are taken for measurements, as ages are, and the result is False, if their range has at most 200 steps
        and some numbers in the range are missing.
        """
        num_numbers = int(np.isfinite(self._numbers).sum())
        if not self._are_whole or len(self._distinct_numbers) == num_numbers:
            return False
        steps = np.diff(self._distinct_numbers).clip(max=_MAX_STEP).astype(np.int64)
        common_step = max(np.gcd.reduce(steps), 1)
        range_in_steps = (self._distinct_numbers[-1] - self._distinct_numbers[0]) / common_step + 1
        has_gaps = len(self._distinct_numbers) < range_in_steps
        return not (has_gaps and range_in_steps <= _SMALL_RANGE)

    @property
    def _group_setting(self) -> str:
        """The setting by which the column names the owner of a row, as it is typed: `data.group=NAME`."""
        return as_setting(name="data.group", value=self.name)

    @property
    def _drop_setting(self) -> str:
        """The setting that leaves the column out, as it is typed: `data.drop=[NAME]`."""
        return as_setting(name="data.drop", value=[self.name])

    @cached_property
    def _words(self) -> Any:
        """The cells as texts, a pyarrow array."""
        return as_texts(self.cells)

    @cached_property
    def _numbers(self) -> FloatArray:
        """The cells as numbers, `[num_cells]`: NaN for a missing cell, +inf for a cell that is not a number."""
        return as_numbers(self.cells, cell_notation=self.cell_notation)

    @cached_property
    def _distinct_numbers(self) -> FloatArray:
        """The distinct numbers in the column, in ascending order."""
        return np.unique(self._numbers[np.isfinite(self._numbers)])

    @property
    def _is_number(self) -> bool:
        """Whether the column holds at least one number, and no cell that is neither a number nor missing."""
        return are_all_readable(self._numbers)

    @property
    def _are_whole(self) -> bool:
        """Whether all numbers in the column are whole; also true without any number."""
        return not np.any(self._distinct_numbers % 1)

    @cached_property
    def _counts_of_values(self) -> IntArray:
        """The number of cells with each distinct value, `[num_values]`; missing cells are left out.

        Values are numbers if the column holds numbers alone, and otherwise words. Columns of dates are not counted.
        """
        if self._is_number:
            finite = self._numbers[np.isfinite(self._numbers)]
            return np.unique(finite, return_counts=True)[1]
        return np.array([*count_values(self._words).values()], np.int64)


def _are_dates_in_digits(numbers: FloatArray) -> bool:
    """Returns True if there are at least three numbers, and all are days from 1900 to 2100 in the form 20250131.

    Args:
        numbers: distinct numbers in ascending order, `[num_values]`.
    """
    if len(numbers) < _MIN_DATES or numbers[0] < _FIRST_DAY or numbers[-1] > _LAST_DAY:
        return False
    try:
        for value in numbers:
            days_of(date_text=f"{value:.0f}")  # only to see whether it fails
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class _Reading:
    """A way to read words, either as numbers in a notation or as dates in an order of day, month and year.

    Attributes:
        number_notation: the notation of the numbers; None for dates.
        date_order: the order of the dates; None for numbers.
        setting_names: the settings that choose this way, such as `data.decimal=comma`; empty if none is needed.
    """

    number_notation: CellSpelling | None
    date_order: str | None = None
    setting_names: frozenset[str] = frozenset()

    def fails_on(self, words: Any) -> BoolArray:
        """Returns True for each word of a pyarrow array that cannot be read in this way, bool `[num_words]`."""
        if self.number_notation is None:
            return np.isinf(as_dates(cells=words, date_orders=(self.date_order,), first_year=2000))
        return np.isinf(as_numbers(cells=words, cell_notation=self.number_notation))

    @property
    def kind(self) -> str:
        """The words of a remark for this way of reading: "dates", "numbers", or "numbers with data.decimal=comma".

        Behind "with" stand the settings that choose the notation of the numbers, if any is needed.
        """
        if self.number_notation is None:
            return "dates"
        return " with ".join(["numbers", *sorted(self.setting_names)])


def _remarks_on_words(
    count_per_word: Mapping[str, int], cell_notation: CellSpelling
) -> Iterator[str]:
    """Yields at most one remark on a column of words.

    A remark is made if at least half of the cells are numbers or dates, or numbers with a unit. It is also made if at
    least half are words with a year, and at least three of these words differ.

    Args:
        count_per_word: the number of cells with each word.
        cell_notation: the notation of the public file.
    """
    counts_per_word = np.array([*count_per_word.values()], np.int64)
    num_cells = int(counts_per_word.sum())
    words = [" ".join(without_invisible_characters(word).split()) for word in count_per_word]
    distinct_words = import_pyarrow().array(list(count_per_word), import_pyarrow().string())
    likeliest = _likeliest_reading(
        words=distinct_words, counts_per_word=counts_per_word, cell_notation=cell_notation
    )
    is_failing = likeliest.fails_on(words=distinct_words)
    num_failing = int(counts_per_word[is_failing].sum())
    if 2 * num_failing <= num_cells:
        yield _remark_on_failing_cells(
            reading=likeliest,
            failing_words=_by_frequency(
                words, counts_per_word=counts_per_word, is_shown=is_failing
            ),
            num_failing=num_failing,
            num_cells=num_cells,
        )
        return
    has_unit = np.array([_NUMBER_WITH_UNIT.fullmatch(word) is not None for word in words])
    num_with_unit = int(counts_per_word[has_unit].sum())
    if 2 * num_with_unit >= num_cells:
        example = _by_frequency(words, counts_per_word=counts_per_word, is_shown=has_unit)[0]
        yield (
            f"{num_with_unit} of {num_cells} cells are numbers with something beside them ({example}), "
            "so all are words; take it away in the file to make numbers of them"
        )
        return
    has_year = np.array(
        [len(word) <= _MAX_DATE and _YEAR.search(word) is not None for word in words]
    )
    num_with_year = int(counts_per_word[has_year].sum())
    if has_year.sum() >= _MIN_DATES and 2 * num_with_year >= num_cells:
        example = _by_frequency(words, counts_per_word=counts_per_word, is_shown=has_year)[0]
        yield (
            f"{num_with_year} of {num_cells} cells are words with a year in them ({example}); if they "
            "are dates, write them as 2025-01-31 in all files, or else they stay categories"
        )


def _likeliest_reading(
    words: Any, counts_per_word: IntArray, cell_notation: CellSpelling
) -> _Reading:
    """Returns the way to read words, as numbers or as dates, that fails on the fewest cells.

    The first 2,000 words decide.

    Args:
        words: a pyarrow array of distinct words.
        counts_per_word: the number of cells with each word, `[num_words]`.
        cell_notation: the notation of the public file.
    """
    readings = [_Reading(number_notation=cell_notation)]
    readings += [
        _Reading(number_notation=other.number_notation, setting_names=other.setting_names)
        for other in cell_notation.others()
    ]
    readings += [_Reading(number_notation=None, date_order=date_order) for date_order in ORDERS]
    first_words = words.slice(0, _SAMPLE_WORDS)
    counts_of_first_words = counts_per_word[:_SAMPLE_WORDS]

    def count_cells_read(reading: _Reading) -> int:
        return int(counts_of_first_words[~reading.fails_on(words=first_words)].sum())

    return max(readings, key=count_cells_read)


def _by_frequency(
    words: Sequence[str], counts_per_word: IntArray, is_shown: BoolArray
) -> list[str]:
    """Returns those of some words that `is_shown` marks, the most frequent word first, each cut to 20 characters.

    Args:
        words: distinct words.
        counts_per_word: the number of cells with each word, `[num_words]`.
        is_shown: whether each word is returned, bool `[num_words]`.
    """
    negative_counts_and_words = [
        (-count, word)
        for word, count, may_be_shown in zip(words, counts_per_word, is_shown, strict=True)
        if may_be_shown
    ]
    return [
        word if len(word) <= _MAX_SHOWN else f"{word[:_MAX_SHOWN]}…"
        for _, word in sorted(negative_counts_and_words)
    ]


def _remark_on_failing_cells(
    reading: _Reading, failing_words: Sequence[str], num_failing: int, num_cells: int
) -> str:
    """Returns the remark that some cells, at most half, prevent a column from being read as numbers or dates.

    The remark has counts, up to three of the words in these cells, and advice.

    Args:
        reading: the way to read the other cells.
        failing_words: the words that cannot be read in this way, the most frequent word first.
        num_failing: the number of cells with such a word.
        num_cells: the number of all cells that are not missing.
    """
    examples = ", ".join(failing_words[:_MAX_WORDS_SHOWN])
    if len(failing_words) > _MAX_WORDS_SHOWN:
        examples += ", …"
    verb = "is" if num_failing == 1 else "are"
    short_words = [word for word in failing_words[:_MAX_WORDS_SHOWN] if len(word) <= _MAX_SHOWN]
    remedy = "mend it in the file"
    if short_words:
        setting = as_setting(name="data.missing", value=short_words)
        remedy = f"{setting} if that means a missing cell, or {remedy}"
    return (
        f"{num_cells - num_failing} of {num_cells} cells are {reading.kind}, {num_failing} {verb} not "
        f"({examples}), so all are words; {remedy}"
    )
