"""Cells of a column, read from pyarrow's arrays: numbers, dates, words, and which of them are missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from typing import Any
from unicodedata import category, normalize

import numpy as np
from numpy.typing import NDArray

from pate.data.table.dates import DAY_S, ORDERS, days_of
from pate.extras import require_extra
from pate.validation import (
    InvalidValue,
    as_setting,
    nearest,
    nearest_column,
    require,
    require_choice,
)

# by name: pyarrow.types knows views from version 16 on
_OTHER_TEXTS = ("null", "large_string", "string_view")
_IN_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
# what stands between thousands
GROUPING = {".": r"\.", ",": ",", "'": "['\u2019]", "_": "_", " ": r"[\p{Zs}\s]"}
_NUMBER = re.compile(r"([+\-\u2212]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]\d{1,3}))?")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d)?(?:\.(\d+))? ?(Z|[+-]\d\d:?\d\d)?")
# 7,0 is 7 under any setting; 7,000 may be seven thousand
_COMMA_ZERO = re.compile(r"([+-]?\d+),0{1,2}")
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# words that `one_spelling` leaves as they are, but for true and false
_PLAIN = r"^(?:\d+|[A-Za-z_][!-~]*)$"
_SAMPLE = 2000  # words that tell which spelling is likely
_WHOLE_BELOW = 2.0**63
_TRUTHS = {"false": "0", "true": "1"}


def visible(text: str) -> str:
    """A text without characters that nobody sees: zero-width blanks, marks of direction, soft hyphens, controls."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        for character in _UNSEEN.sub("", text)
        if character.isspace() or category(character) not in ("Cf", "Cc")
    )


def column_name(text: str) -> str:
    r"""The name of a column: on one line, its letters composed.

    >>> column_name("age\n(years)")
    'age (years)'
    """
    text = visible(text)
    return normalize("NFC", " ".join(text.split()) if re.search(r"[^\S ]", text) else text)


def require_columns(name: str, found: Sequence[str], wanted: Iterable[str] = ()) -> None:
    """Raises unless each column has a name of its own, and some are there; others may be, too."""
    rule = "a name for each column, once; an index that pandas wrote is left out by to_csv(FILE, index=False)"
    occurrences = Counter(found)
    for each in found:
        require(
            bool(each.strip()) and occurrences[each] == 1, f"{name}.columns", each or "''", rule
        )
    if lacking := [word for word in wanted if word not in occurrences]:
        raise InvalidValue(
            name, rule=f"also the column {lacking[0]}{nearest(lacking[0], tuple(found))}"
        )


def require_column(
    role: str, column: str, names: Sequence[str], where: str, *, remedy: str = ""
) -> None:
    """Raises, with a `remedy` at the end, unless the column that the setting `role` names is one of `where`'s."""
    if column not in names:
        raise InvalidValue(
            role, column, rule=f"a column of {where}{nearest_column(column, names)}{remedy}"
        )


def one_spelling(word: str) -> str:
    r"""A word as every spelling of its value is compared: of categories, groups and ids alike.

    3.0 is 3, 2.50 is 2.5, 1e+16 its digits, a day at 00:00:00 the day, a moment that of UTC, true is True. Letters and
    digits are compared composed and of one width, blanks of any kind are one blank, what nobody sees is left out. 007
    stays what it is, as codes do.

    >>> [one_spelling(word) for word in ("7.0", "7,0", " 7\u200b", "007", "2025-01-31T00:00:00", "TRUE")]
    ['7', '7', '7', '007', '2025-01-31', 'True']
    """
    word = " ".join(normalize("NFKC", visible(word)).split())
    if word.lower() in _TRUTHS:
        return word.capitalize()
    if (number := _NUMBER.fullmatch(word)) and (number[2] or number[3]):
        sign, digits, fraction, exponent = number.groups()
        if exponent is not None:
            digits, _, fraction = format(abs(Decimal(word)), "f").partition(".")
        fraction = (fraction or "").rstrip("0")
        plain = f"{digits or 0}.{fraction}" if fraction else digits or "0"
        return f"-{plain}" if sign in ("-", "\u2212") and plain.strip("0.") else plain
    if moment := _MOMENT.fullmatch(word):
        day, time, seconds, fraction, zone = moment.groups()
        time += seconds or ":00"
        if zone is not None:
            try:
                there = datetime.fromisoformat(f"{day} {time}{zone}")
                day, time = str(there.astimezone(UTC).replace(tzinfo=None)).split()
            except (ValueError, OverflowError):
                time += zone
        fraction = (fraction or "").rstrip("0")
        return (
            day
            if time == "00:00:00" and not fraction
            else f"{day} {time}{'.' * bool(fraction)}{fraction}"
        )
    return one_spelling(comma_zero[1]) if (comma_zero := _COMMA_ZERO.fullmatch(word)) else word


@dataclass(frozen=True)
class Spelling:
    """How a file of text writes numbers, and which words are missing cells. Public; a schema carries it."""

    decimal: str = "point"  # or comma, where numbers read 3,5
    # what stands between thousands, one of . , ' _ or a blank; None for nothing
    thousands: str | None = None
    missing: tuple[str, ...] = ()  # words that are missing cells, and numbers too: -9 is -9.0
    # of dates in numbers with the year not in front, see `dates.ORDERS`
    date_order: str | None = None
    # the earliest year that two digits mean; None where they mean none
    first_year: int | None = None

    def require(self, setting: Callable[[str], str]) -> None:
        """Raises `InvalidValue` unless this can be; `setting` says what a field is called."""
        require_choice(setting("decimal"), self.decimal, ("point", "comma"))
        rule = f"one of . , ' _ or a blank, and not the decimal {self.decimal}"
        good = self.thousands is None or (
            self.thousands in GROUPING and self.thousands != self.mark
        )
        require(good, setting("thousands"), self.thousands, rule)
        rule = f"a list of words: '{setting('missing')}=[?,-]'"
        good = isinstance(self.missing, tuple) and all(
            isinstance(word, str) and word for word in self.missing
        )
        require(good, setting("missing"), self.missing, rule)
        good = self.date_order is None or self.date_order in ORDERS
        require(
            good,
            setting("date_order"),
            self.date_order,
            f"one of {', '.join(ORDERS)}: day, month and year",
        )
        good = self.first_year is None or (
            type(self.first_year) is int and 1 <= self.first_year <= 9900
        )
        rule = "a year from 1 to 9900, the earliest that two digits mean"
        require(good, setting("first_year"), self.first_year, rule)

    @property
    def mark(self) -> str:
        """The decimal mark, a comma or a point."""
        return "," if self.decimal == "comma" else "."

    def known(self, table: Any) -> Any:
        """A pyarrow table whose missing cells are null, those that a word says among them."""
        if not self.missing:
            return table
        pa = arrow()
        columns = []
        words = pa.array(self.missing, pa.string())
        numbers = as_numbers(words, self)
        for array in map(_decoded, table.columns):
            if array.type == pa.string():
                gone = pa.compute.is_in(
                    as_values(as_texts(array), self), as_values(words, self), skip_nulls=True
                )
            else:  # truth values are no numbers here
                is_missing = np.isin(as_numbers(array), numbers[np.isfinite(numbers)])
                gone = pa.array(is_missing & (not pa.types.is_boolean(array.type)))
            columns.append(pa.compute.if_else(gone, pa.scalar(None, array.type), array))
        return pa.table(columns, names=table.column_names)

    def ungrouped(self, texts: Any) -> Any:
        """Words `[n]`, numbers among them without what stands between thousands."""
        if self.thousands is None:
            return texts
        compute = arrow().compute
        between = GROUPING[self.thousands]
        grouped = rf"^[+-]?\d{{1,3}}(?:{between}\d{{2,3}})*{between}\d{{3}}(?:{re.escape(self.mark)}\d*)?$"
        is_grouped = compute.match_substring_regex(texts, grouped)
        return compute.if_else(
            is_grouped, compute.replace_substring_regex(texts, between, ""), texts
        )

    def numbers(self, texts: Any) -> Any:
        """Words that are to be numbers, with a decimal point; with a decimal comma 1.234 is none, as it may be 1234."""
        compute = arrow().compute
        texts = self.ungrouped(texts)
        if self.mark == ".":
            return texts
        doubtful = (
            r"\." if self.thousands == "." else r"^[+-]?[1-9]\d{0,2}(?:\.\d{3})+$|\..*,|,.*\."
        )
        return compute.if_else(
            compute.match_substring_regex(texts, doubtful), "no number", with_points(texts)
        )

    def others(self) -> Iterator[tuple[Spelling, frozenset[str]]]:
        """All other ways to write numbers, and the settings that make each of this one."""
        between = (None, *(GROUPING if self.thousands is None else [self.thousands]))
        for decimal, thousands in product(("point", "comma"), between):
            other = replace(self, decimal=decimal, thousands=thousands)
            settings = {f"data.decimal={decimal}"} if decimal != self.decimal else set()
            if thousands != self.thousands:
                settings.add(
                    as_setting("data.thousands", thousands) if thousands else "no data.thousands"
                )
            if settings and thousands != other.mark:
                yield other, frozenset(settings)


USUAL = Spelling()


def with_points(texts: Any) -> Any:
    """Words `[n]`, those with a decimal comma with a point."""
    return arrow().compute.replace_substring_regex(
        texts, r"^(\s*[+-]?\d+),(\d+(?:[eE][+-]?\d+)?\s*)$", r"\1.\2"
    )


def arrow() -> Any:
    """The module pyarrow, with its parts; raises where it is not installed."""
    require_extra("data", "table", "table")
    import pyarrow  # loads slowly, and is optional
    import pyarrow.compute

    return pyarrow


def fits(values: NDArray[np.float64]) -> bool:
    """Whether there is a value, and nothing wrong: see `as_numbers`."""
    return not np.isinf(values).any() and not np.isnan(values).all()


def codes_of(words: Any, categories: Any) -> NDArray[np.int64]:
    """The place of each word `[n]` among categories, -1 where it is none."""
    places = arrow().compute.index_in(words, value_set=categories, skip_nulls=True)
    return np.asarray(places.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def as_values(words: Any, spelling: Spelling = USUAL) -> Any:
    """Words, each value spelled one way: see `one_spelling`. A word of which nothing is seen is missing."""
    pa = arrow()
    coded = (
        words.combine_chunks() if isinstance(words, pa.ChunkedArray) else words
    ).dictionary_encode()
    words = spelling.ungrouped(coded.dictionary)
    words = with_points(words) if spelling.mark == "," else words
    plain = pa.compute.match_substring_regex(words, _PLAIN)
    truth = pa.compute.is_in(pa.compute.utf8_lower(words), pa.array([*_TRUTHS]))
    odd = pa.compute.or_(pa.compute.invert(plain), truth)
    mended = pa.array(
        [one_spelling(word) or None for word in words.filter(odd).to_pylist()], words.type
    )
    return pa.compute.replace_with_mask(words, odd, mended).take(coded.indices)


def counts_of(words: Any) -> dict[str, int]:
    """How often each word occurs."""
    counted = words.drop_null().value_counts()
    return dict(
        zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True)
    )


def missing_in(words: Any) -> NDArray[np.bool_]:
    """Which are missing, `[n]`."""
    return np.asarray(words.is_null().to_numpy(zero_copy_only=False))


def as_numbers(array: Any, spelling: Spelling = USUAL) -> NDArray[np.float64]:
    """Cells as numbers `[n]`, NaN for none and infinite for something else; truths are 0 and 1, durations seconds."""
    pa = arrow()
    array = _decoded(array)
    if array.type == pa.string():
        texts = spelling.numbers(as_texts(array))
        return _parsed(
            texts,
            lambda each: each.cast(pa.float64()),
            lambda word: float(_TRUTHS.get(word.lower(), word)),
        )
    if pa.types.is_duration(array.type):
        in_second = _IN_SECOND[array.type.unit]
        array = pa.compute.divide(array.cast(pa.int64()).cast(pa.float64(), safe=False), in_second)
    types = pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal
    if not any(is_one(array.type) for is_one in types):
        return np.where(missing_in(array), np.nan, np.inf)
    # null is NaN, too
    return np.asarray(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def as_dates(
    array: Any, orders: Iterable[str | None] = (), first_year: int | None = None
) -> NDArray[np.float64]:
    """Cells as days since 1970, otherwise as `as_numbers`; `orders` and `first_year` are those of `days_of`."""
    pa = arrow()
    array = _decoded(array)
    is_text = array.type == pa.string()
    orders = tuple(orders)

    def days(cells: Any) -> Any:
        seconds = cells.cast(pa.timestamp("s"), safe=is_text).cast(pa.int64())
        return pa.compute.divide(seconds.cast(pa.float64()), DAY_S)

    def one(word: str) -> float:
        return days_of(word, orders, first_year)

    if is_text:
        return _parsed(as_texts(array), days, one)
    if not (pa.types.is_date(array.type) or pa.types.is_timestamp(array.type)):
        return np.where(missing_in(array), np.nan, np.inf)
    return np.asarray(days(array).to_numpy(zero_copy_only=False))


def _parsed(
    texts: Any, parse: Callable[[Any], Any], parse_one: Callable[[str], float]
) -> NDArray[np.float64]:
    """Numbers from words: all at once, or word by word where that fails, to say which cells are wrong."""
    pa = arrow()
    try:
        parsed = parse(texts)
    except pa.ArrowInvalid:
        coded = texts.dictionary_encode()
        numbers = np.full(len(coded.dictionary), np.inf)
        for place, word in enumerate(coded.dictionary.to_pylist()):
            with suppress(ValueError, OverflowError):
                numbers[place] = parse_one(word)
        parsed = pa.array(numbers).take(coded.indices)
    values = parsed.to_numpy(zero_copy_only=False)
    return np.where(missing_in(texts) | np.isfinite(values), values, np.inf)


def as_texts(array: Any) -> Any:
    """Cells as words, pyarrow strings `[n]` without blanks around them; of whole numbers digits, null for none."""
    pa = arrow()
    array = _decoded(array)
    if pa.types.is_floating(array.type):
        values = array.to_numpy(zero_copy_only=False)
        finite = values[~np.isnan(values)]
        array = pa.array(values, pa.float64(), from_pandas=True)
        if np.all(np.abs(finite) < _WHOLE_BELOW) and not np.any(finite % 1):
            array = array.cast(pa.int64(), safe=False)
    try:
        array = array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # lists, bytes that are no text
        array = pa.array(
            [None if value is None else str(value) for value in array.to_pylist()], pa.string()
        )
    trimmed = pa.compute.utf8_trim_whitespace(array)
    return pa.compute.if_else(pa.compute.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def _decoded(array: Any) -> Any:
    """One array of plain values: chunks joined, dictionaries looked up, text of one type."""
    pa = arrow()
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(pa.string()) if str(array.type) in _OTHER_TEXTS else array


def require_no_other_spelling(name: str, array: Any, spelling: Spelling) -> None:
    """Raises where all cells of a column are numbers in another spelling, with the fewest settings that read them."""
    distinct = as_texts(array).drop_null().unique()
    ways = {
        said: each
        for each, said in spelling.others()
        if fits(as_numbers(distinct.slice(0, _SAMPLE), each)) and fits(as_numbers(distinct, each))
    }
    if not ways:
        return
    word = distinct.filter(arrow().array(np.isinf(as_numbers(distinct, spelling))))[0].as_py()
    reads = [
        f"{' '.join(sorted(said))} reads it as "
        + np.format_float_positional(as_numbers(arrow().array([word]), each)[0], trim="-")
        for said, each in ways.items()
        if not any(other < said for other in ways)
    ]
    between = spelling.thousands or "nothing"
    rule = f"numbers with a decimal {spelling.decimal} and {between} between thousands, and there is {word}"
    remedy = f"{as_setting('data.category', [name])} where these are words"
    raise InvalidValue(f"data.public.{name}", rule=f"{rule}: {', '.join(reads)}; {remedy}")
