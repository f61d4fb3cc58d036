"""What the owner is told: of public columns that may be meant otherwise, of records that are unlike the public ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.table import cells
from pate.data.table.cells import Spelling, as_dates, as_numbers, distinct_words, fits
from pate.data.table.schema import DateColumn, NumberColumn, TableSchema
from pate.validation import as_setting

_FEWEST = 20  # rows, or values, that tell the numbers of people or records from other whole numbers
_MOST_REPEATS = 5.0  # rows per value of a key, on average
_FREQUENT = 10  # rows of one value, or a tenth of all: a key has fewer
_WIDE = 200  # whole numbers of people's ages, blood pressures or shares lie closer together
_LARGEST = 2.0**62
_SAMPLE = 2000  # words that tell which spelling is likely
_SHOWN, _LONGEST = 3, 20
_BESIDE = re.compile(r"[^\w\s.,+-]*\s*([+-]?\d[\d.,]*)\s*(?:[^\w\s.,]*|(?<=\s)[^\W\d]{1,5}|[^\W\d]{2,5})")

_COLUMNS_SHOWN = 5
_DAYS = 3e6  # of dates that have four digits for the year


def remarks(table: Any, spelling: Spelling, *, codes: Collection[str], group: str | None) -> Iterator[tuple[str, str]]:
    """Names of columns that become features, and what is to be said of each, by the public table and settings alone."""
    known = spelling.known(table)
    for name in table.column_names:
        array = known.column(name)
        numbers = as_numbers(array, spelling)
        said = (
            _numbers_rows(name, numbers, group),
            None if name in codes else _has_codes(name, array, numbers),
            None if name in codes or fits(numbers) or fits(as_dates(array)) else _nearly(array, spelling),
            None if group is not None else _names_people(name, array, numbers),
        )
        yield from ((name, f"{name}: {each}") for each in said if each is not None)


def _nearly(array: Any, spelling: Spelling) -> str | None:
    """Of a column of words most of which are numbers or dates, or have a number in them."""
    distinct, counts = distinct_words(array)
    if not len(counts):
        return None
    ways = [(spelling, frozenset[str]()), *spelling.others(), (None, frozenset[str]())]  # of numbers; None for dates

    def wrong_in(words: Any, way: Spelling | None) -> NDArray[np.bool_]:
        return np.isinf(as_dates(words) if way is None else as_numbers(words, way))

    def shown(which: NDArray[np.bool_]) -> list[str]:
        """The most frequent of some words, as they are and cut."""
        rows = sorted((-count, word) for count, word, there in zip(counts, words, which, strict=True) if there)
        return [word if len(word) <= _LONGEST else f"{word[:_LONGEST]}…" for _, word in rows]

    words = [" ".join(cells.visible(word).split()) for word in distinct.to_pylist()]
    first, head, total = distinct.slice(0, _SAMPLE), counts[:_SAMPLE], int(counts.sum())
    way, settings = max(ways, key=lambda way: int(head[~wrong_in(first, way[0])].sum()))
    wrong = wrong_in(distinct, way)
    if 2 * (left := int(counts[wrong].sum())) <= total:
        rest, kind = shown(wrong), "dates" if way is None else " with ".join(["numbers", *sorted(settings)])
        others = f"{left} {'is' if left == 1 else 'are'} not ({', '.join(rest[:_SHOWN])}{', …' * (len(rest) > _SHOWN)})"
        mend = f"{as_setting('data.missing', rest[:_SHOWN])} if that means a missing cell, or mend it in the file"
        return f"{total - left} of {total} cells are {kind}, {others}, so all are words; {mend}"
    beside = np.array([_BESIDE.fullmatch(word) is not None for word in words])
    if 2 * (found := int(counts[beside].sum())) < total:
        return None
    told = f"{found} of {total} cells are numbers with something beside them ({shown(beside)[0]})"
    return f"{told}, so all are words; take it away in the file to make numbers of them"


def _has_codes(name: str, column: Any, numbers: NDArray[np.float64]) -> str | None:
    """Of numbers, some of them with a zero in front, as the codes of places have."""
    compute = cells.arrow().compute
    with_zero = compute.match_substring_regex(cells.as_texts(column), r"^0\d")
    if not fits(numbers) or not compute.any(with_zero).as_py():
        return None
    setting = as_setting("data.category", [name])
    return f"numbers with a zero in front; if they are codes, {setting} makes each a category"


def _numbers_rows(name: str, numbers: NDArray[np.float64], group: str | None) -> str | None:
    """Of another whole number in each row, as the numbers of contracts and cases are."""
    whole = np.isfinite(numbers).all() and not np.any(numbers % 1)
    if len(numbers) < _FEWEST or not whole or len(np.unique(numbers)) < len(numbers):
        return None
    whose = f", and {as_setting('data.group', name)} if it is that of a person" if group is None else ""
    away = f"{as_setting('data.drop', [name])} or {as_setting('data.id', name)}"
    return f"another number in each row; if it is the number of a record, {away} leaves it out of the features{whose}"


def _names_people(name: str, column: Any, numbers: NDArray[np.float64]) -> str | None:
    """Of whole numbers or words that occur a few times each, as those of people do who have several rows."""
    if fits(numbers):
        known = numbers[~np.isnan(numbers)]
        values, counts = np.unique(known, return_counts=True)
        step = np.gcd.reduce(np.diff(values).clip(max=_LARGEST).astype(np.int64))
        width = (values[-1] - values[0]) / max(step, 1) + 1
        if np.any(known % 1) or (width <= _WIDE and len(values) < width):
            return None
    elif fits(as_dates(column)):
        return None
    else:
        counts = distinct_words(column)[1]
    rows, different = int(counts.sum()), len(counts)
    if different < _FEWEST or rows > _MOST_REPEATS * different or (rows == different and fits(numbers)):
        return None
    if counts.max() > max(_FREQUENT, rows / 10):
        return None
    told = f"{different} values in {rows} rows, which become features and are published"
    drop = as_setting("data.drop", [name])
    return f"{told}; {as_setting('data.group', name)} if it says whose row it is, {drop} if it is only a name"


class UnlikePublic(UserWarning):
    """A warning: cells of these records are not what the public file has, or a column tells a model nothing."""


def strange_lines(name: str, schema: TableSchema, counts: NDArray[np.int64], num_records: int) -> Iterator[str]:
    """A line for each column with cells that the public file does not know, a handful, those with most first."""
    lines = {}
    for column, (unknown, missing) in zip(schema.columns, counts.tolist(), strict=True):
        untold = missing if missing == num_records or not column.missing else 0
        found = [f"{untold:,} missing"] * (untold > 0)
        if unknown and isinstance(column, NumberColumn):
            day = isinstance(column, DateColumn) and max(abs(column.low), abs(column.high)) < _DAYS
            ends = (np.datetime64(int(end // 1), "D") if day else f"{end:.6g}" for end in (column.low, column.high))
            found.insert(0, f"{unknown:,} outside the public range {' to '.join(map(str, ends))}")
        elif unknown:
            found.insert(0, f"{unknown:,} with a word that the public file does not have")
        if found:
            lines[f"{name}.{column.name}: {num_records:,} cells, {', '.join(found)}"] = unknown + untold
    ordered = sorted(lines, key=lambda line: -lines[line])
    yield from ordered[:_COLUMNS_SHOWN]
    if len(ordered) > _COLUMNS_SHOWN:
        yield f"{name}: {len(ordered) - _COLUMNS_SHOWN} more columns have such cells"
