"""Cells of a column, read from pyarrow's arrays: numbers, dates, words, and which of them are missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue

_DAY_S = 86400.0
_SPELLINGS = (
    (r"^([+-]?\d+)\.0*$", r"\1"),
    (r"^([+-]?\d+\.\d*[1-9])0+$", r"\1"),
    (r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:)", r"\1 \2"),
    (r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.0+$", r"\1"),
    (r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d*[1-9])0+$", r"\1"),
    (r"^(\d{4}-\d\d-\d\d) 00:00:00$", r"\1"),
    ("(?i)^true$", "True"),
    ("(?i)^false$", "False"),
)
_WHOLE_BELOW = 2.0**63
_IN_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_TRUTHS = (("false", "0"), ("true", "1"))


def arrow() -> Any:
    """The module pyarrow, with its parts; raises where it is not installed."""
    try:
        import pyarrow
        import pyarrow.compute
    except ModuleNotFoundError as error:
        raise InvalidValue(f"data=table: expected {error.name}: pip install 'pate-multilabel[table]'") from error
    return pyarrow


@dataclass(frozen=True, eq=False)
class Cells:
    """A column's cells as numbers.

    Attributes:
        values: float64 `[n]`; of no meaning where missing or wrong.
        missing: bool `[n]`.
        wrong: bool `[n]`, cells that are something else.
    """

    values: NDArray[np.float64]
    missing: NDArray[np.bool_]
    wrong: NDArray[np.bool_]

    @property
    def fits(self) -> bool:
        """Whether there is a value, and nothing wrong."""
        return not self.wrong.any() and not self.missing.all()


@dataclass(frozen=True, eq=False)
class Words:
    """A column's cells as text.

    Attributes:
        array: pyarrow strings `[n]`, trimmed, null where missing.
    """

    array: Any

    def codes(self, categories: Words) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The place of each word among categories, -1 where it is none, and which are missing."""
        found = arrow().compute.index_in(self.array, value_set=categories.array, skip_nulls=True)
        codes = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return codes, self.missing

    @property
    def as_values(self) -> Words:
        """The same, each value spelled one way: 3.0 is 3, 2.50 is 2.5, true is True; 007 stays as it is."""
        coded = self._joined.dictionary_encode()
        words = coded.dictionary
        for spelled, plain in _SPELLINGS:
            words = arrow().compute.replace_substring_regex(words, spelled, plain)
        return Words(words.take(coded.indices))

    @property
    def _joined(self) -> Any:
        return self.array.combine_chunks() if isinstance(self.array, arrow().ChunkedArray) else self.array

    def counts(self) -> dict[str, int]:
        """How often each word occurs."""
        counted = arrow().compute.value_counts(self.array.drop_null())
        return {each["values"]: each["counts"] for each in counted.to_pylist()}

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which are missing, `[n]`."""
        return _missing(self.array)

    @property
    def with_comma(self) -> bool:
        """Whether all are numbers, some of them with a decimal comma."""
        compute, known = arrow().compute, self.array.drop_null()
        if not compute.any(compute.match_substring(known, ",")).as_py():
            return False
        return bool(compute.all(compute.match_substring_regex(known, r"^[+-]?\d+(,\d+)?$")).as_py())


def as_numbers(array: Any) -> Cells:
    """Cells as numbers; truth values, also as words, are 0 and 1; durations are seconds; infinities are wrong."""
    pa, array = arrow(), _decoded(array)
    if _is_text(array):
        return _parsed(as_texts(array).array, _floats, _float)
    if pa.types.is_duration(array.type):
        in_second = _IN_SECOND[array.type.unit]
        array = pa.compute.divide(array.cast(pa.int64()).cast(pa.float64(), safe=False), in_second)
    if not _is_numeric(array):
        return _all_wrong(array)
    cast = array.cast(pa.int8()) if pa.types.is_boolean(array.type) else array
    values = cast.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    missing = np.isnan(values)  # null is NaN, too
    return Cells(values, missing, np.isinf(values))


def as_dates(array: Any) -> Cells:
    """Cells as days since 1970."""
    pa, array = arrow(), _decoded(array)
    if _is_text(array):

        def days(texts: Any) -> Any:
            seconds = texts.cast(pa.timestamp("s")).cast(pa.int64())
            return pa.compute.divide(seconds.cast(pa.float64()), _DAY_S)

        return _parsed(as_texts(array).array, days, _days)
    if not pa.types.is_temporal(array.type) or pa.types.is_time(array.type) or pa.types.is_duration(array.type):
        return _all_wrong(array)
    seconds = array.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    values = seconds.cast(pa.float64()).to_numpy(zero_copy_only=False) / _DAY_S
    return Cells(values, np.isnan(values), np.zeros(len(values), np.bool_))


def as_texts(array: Any) -> Words:
    """Cells as words without blanks around them; of whole numbers the digits. An empty word is missing."""
    pa, array = arrow(), _decoded(array)
    if not _is_text(array):
        if pa.types.is_floating(array.type):
            values = array.to_numpy(zero_copy_only=False)
            known = values[~np.isnan(values)]
            if np.all(np.abs(known) < _WHOLE_BELOW) and not np.any(known % 1):
                array = pa.array(values, pa.float64(), from_pandas=True).cast(pa.int64(), safe=False)
            else:
                array = pa.array(values, pa.float64(), from_pandas=True)
        array = array.cast(pa.string())
    trimmed = pa.compute.utf8_trim_whitespace(array.cast(pa.string()))
    return Words(pa.compute.if_else(pa.compute.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed))


def _floats(texts: Any) -> Any:
    """Words as numbers, those of truth among them; raises where there are others."""
    pa = arrow()
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        lower = pa.compute.utf8_lower(texts)
        for word, number in _TRUTHS:
            lower = pa.compute.if_else(pa.compute.equal(lower, word), number, lower)
        return lower.cast(pa.float64())


def _float(text: str) -> float:
    return float(dict(_TRUTHS).get(text.lower(), text))


def _days(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() / _DAY_S


def _parsed(texts: Any, parse: Callable[[Any], Any], parse_one: Callable[[str], float]) -> Cells:
    """Numbers from text: all at once, and one by one where that fails, to say which cells are wrong."""
    missing = _missing(texts)
    try:
        values = np.array(parse(texts).to_numpy(zero_copy_only=False), np.float64)
    except arrow().ArrowInvalid:
        values = np.array([_one(text, parse_one) for text in texts.to_pylist()], np.float64)
    return Cells(values, missing, ~missing & ~np.isfinite(values))


def _one(text: str | None, parse: Callable[[str], float]) -> float:
    try:
        return np.nan if text is None else parse(text)
    except (ValueError, OverflowError):
        return np.nan


def _all_wrong(array: Any) -> Cells:
    missing = _missing(array)
    return Cells(np.full(len(array), np.nan), missing, ~missing)


def _decoded(array: Any) -> Any:
    """One array of plain values: chunks joined, dictionaries looked up."""
    pa = arrow()
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(pa.string()) if pa.types.is_null(array.type) else array


def _missing(array: Any) -> NDArray[np.bool_]:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False))


def _is_text(array: Any) -> bool:
    types = arrow().types
    return bool(types.is_string(array.type) or types.is_large_string(array.type) or types.is_string_view(array.type))


def _is_numeric(array: Any) -> bool:
    types = arrow().types
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(array.type) for test in tests)
