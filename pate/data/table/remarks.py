"""What the owner of a table is told of its public columns: those that are read otherwise than they were meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.table.cells import GROUPING, Cells, Spelling, arrow, as_dates, as_numbers, as_texts, visible
from pate.validation import InvalidValue

UNGROUPED = (
    "data: no group is named, so each row by itself is protected; data.group=COLUMN protects a person's rows at once"
)

_FEWEST = 20  # rows, or values, that tell the numbers of people or records from other whole numbers
_MOST_REPEATS = 5.0  # rows per value of a key, on average
_FREQUENT, _SHARE = 10, 0.1  # rows of one value, of which a key has fewer
_WIDE = 200  # whole numbers of people's ages, blood pressures or shares lie closer together
_LARGEST = 2.0**62
_SAMPLE = 2000  # words that tell which spelling is likely
_SHOWN, _LONGEST = 3, 20
_BESIDE = re.compile(r"[^\w\s.,+-]*\s*([+-]?\d[\d.,]*)\s*(?:[^\w\s.,]*|(?<=\s)[^\W\d]{1,5}|[^\W\d]{2,5})")


def remarks(table: Any, spelling: Spelling, *, codes: Collection[str], group: str | None) -> Iterator[tuple[str, str]]:
    """Names of columns, and what is to be said of each; decided by the public table alone.

    Args:
        table: a pyarrow one, its columns those that become features.
        spelling: of its cells.
        codes: columns that are categories because a setting says so.
        group: the column that says whose row it is.
    """
    known = spelling.known(table)
    for name in table.column_names:
        array = known.column(name)
        said = (
            _numbers_rows(name, array, group),
            None if name in codes else _has_codes(name, array),
            None if name in codes else _nearly(array, spelling),
            None if group is not None else _names_people(name, array, spelling),
        )
        yield from ((name, f"{name}: {each}") for each in said if each is not None)


def require_no_other_spelling(name: str, array: Any, spelling: Spelling) -> None:
    """Raises where all cells of a column are numbers in another spelling, with the settings that read them."""
    distinct = _distinct(array)[0]
    first = distinct.slice(0, _SAMPLE)
    likely = [each for each in _others(spelling) if as_numbers(first, each).fits]
    fitting = [each for each in likely if as_numbers(distinct, each).fits]
    least = [
        each for each in fitting if not any(_changes(other, spelling) < _changes(each, spelling) for other in fitting)
    ]
    if not least:
        return
    if [_changes(each, spelling) for each in least] == [{"data.decimal=comma"}]:
        rule = "numbers with a decimal point, these have a comma; data.decimal=comma reads them"
        raise InvalidValue(f"data.public.{name}: expected {rule}")
    word = distinct.filter(arrow().array(as_numbers(distinct, spelling).wrong))[0].as_py()
    reads = [f"{' '.join(sorted(_changes(each, spelling)))} reads it as {_value(word, each)}" for each in least]
    mark = "comma" if spelling.with_comma else "point"
    rule = f"numbers with a decimal {mark}{_between(spelling)}, and there is {word}: {', '.join(reads)}"
    raise InvalidValue(f"data.public.{name}: expected {rule}; data.category=[{name}] where these are words")


def _value(word: str, spelling: Spelling) -> str:
    return np.format_float_positional(as_numbers(arrow().array([word]), spelling).values[0], trim="-")


def _between(spelling: Spelling) -> str:
    return f" and {spelling.thousands} between thousands" if spelling.thousands else " and nothing between thousands"


def _others(spelling: Spelling) -> Iterator[Spelling]:
    """All other ways to write numbers."""
    between = (None, *(GROUPING if spelling.thousands is None else [spelling.thousands]))
    for decimal, thousands in product(("point", "comma"), between):
        other = replace(spelling, decimal=decimal, thousands=thousands)
        if other != spelling and thousands != other.mark:
            yield other


def _changes(other: Spelling, spelling: Spelling) -> set[str]:
    """The settings that make it of the present spelling."""
    said = {f"data.decimal={other.decimal}"} if other.decimal != spelling.decimal else set()
    if other.thousands == spelling.thousands:
        return said
    quote = "'" if other.thousands == " " else ""
    return said | {f"{quote}data.thousands={other.thousands}{quote}" if other.thousands else "no data.thousands"}


def _distinct(array: Any) -> tuple[Any, NDArray[np.int64]]:
    """The words of a column, pyarrow strings, and how often each occurs."""
    counts = as_texts(array).counts()
    return arrow().array(counts, arrow().string()), np.array(list(counts.values()), np.int64)


def _nearly(array: Any, spelling: Spelling) -> str | None:
    """Of a column of words most of which are numbers or dates."""
    if as_numbers(array, spelling).fits or as_dates(array).fits:
        return None
    distinct, counts = _distinct(array)
    if not len(counts):
        return None
    first, head = distinct.slice(0, _SAMPLE), counts[:_SAMPLE]
    ways = [(each, "numbers") for each in (spelling, *_others(spelling))] + [(spelling, "dates")]
    way, kind = max(ways, key=lambda way: int(head[~_read(first, *way).wrong].sum()))
    cells = _read(distinct, way, kind)
    found = int(counts[~cells.wrong].sum())
    if 2 * found >= counts.sum():
        rest = [word for word, _ in _frequent(distinct, counts, cells.wrong)]
        settings = " ".join(sorted(_changes(way, spelling)))
        read = f" with {settings}" if settings else ""
        shown = ", ".join(map(_shown, rest[:_SHOWN])) + (", …" if len(rest) > _SHOWN else "")
        missing = ",".join(map(_shown, rest[:_SHOWN]))
        left = int(counts[cells.wrong].sum())
        others = f"{left} {'is' if left == 1 else 'are'} not ({shown})"
        told = f"{found} of {counts.sum()} cells are {kind}{read}, {others}, so all are words"
        return f"{told}; data.missing=[{missing}] if that means a missing cell, or mend it in the file"
    return _beside(distinct, counts)


def _read(words: Any, spelling: Spelling, kind: str) -> Cells:
    return as_dates(words) if kind == "dates" else as_numbers(words, spelling)


def _beside(distinct: Any, counts: NDArray[np.int64]) -> str | None:
    """Of a column most of whose words are numbers with a sign beside them."""
    found = np.array([_BESIDE.fullmatch(word) is not None for word in distinct.to_pylist()])
    if 2 * counts[found].sum() < counts.sum():
        return None
    (word, _), *_ = _frequent(distinct, counts, found)
    told = f"{counts[found].sum()} of {counts.sum()} cells are numbers with something beside them ({_shown(word)})"
    return f"{told}, so all are words; take it away in the file to make numbers of them"


def _frequent(distinct: Any, counts: NDArray[np.int64], which: NDArray[np.bool_]) -> list[tuple[str, int]]:
    pairs = zip(distinct.to_pylist(), counts.tolist(), which.tolist(), strict=True)
    return sorted(((word, count) for word, count, there in pairs if there), key=lambda pair: (-pair[1], pair[0]))


def _shown(word: str) -> str:
    plain = " ".join(visible(word).split())
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}…"


def _has_codes(name: str, column: Any) -> str | None:
    """Of numbers, some of them with a zero in front, as the codes of places have."""
    with_zero = arrow().compute.match_substring_regex(as_texts(column).array, r"^0\d")
    if not as_numbers(column).fits or not arrow().compute.any(with_zero).as_py():
        return None
    return f"numbers with a zero in front; if they are codes, data.category=[{name}] makes each a category"


def _numbers_rows(name: str, column: Any, group: str | None) -> str | None:
    """Of another whole number in each row, as the numbers of contracts and cases are."""
    cells = as_numbers(column)
    if not cells.fits or cells.missing.any() or np.any(cells.values % 1):
        return None
    if len(np.unique(cells.values)) < len(column) or len(column) < _FEWEST:
        return None
    whose = f", and data.group={name} if it is that of a person" if group is None else ""
    rule = f"if it is the number of a record, data.drop=[{name}] or data.id={name} leaves it out of the features"
    return f"another number in each row; {rule}{whose}"


def _names_people(name: str, column: Any, spelling: Spelling) -> str | None:
    """Of whole numbers or words that occur a few times each, as those of people do who have several rows."""
    numbers = as_numbers(column, spelling)
    if not numbers.fits and as_dates(column).fits:
        return None
    if numbers.fits:
        known = numbers.values[~numbers.missing]
        if np.any(known % 1):
            return None
        values, counts = np.unique(known, return_counts=True)
        step = np.gcd.reduce(np.diff(values).clip(max=_LARGEST).astype(np.int64))
        width = (values[-1] - values[0]) / max(step, 1) + 1
        if width <= _WIDE and len(values) < width:
            return None
    else:
        counts = _distinct(column)[1]
    rows, different = int(counts.sum()), len(counts)
    repeats = rows / different
    if (
        different < _FEWEST
        or repeats > _MOST_REPEATS
        or counts.max() > max(10, rows / 10)
        or repeats == 1 == numbers.fits
    ):
        return None
    told = f"{different} values in {rows} rows, which become features and are published"
    return f"{told}; data.group={name} if it says whose row it is, data.drop=[{name}] if it is only a name"
