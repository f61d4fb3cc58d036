"""The notation of values in a file: numbers, dates and missing cells; and a canonical form of each value.

Two files may write the same value differently: 3 and 3.0, 1,5 and 1.5, a day and the same day at midnight, an accented
letter as one character or two. Categories, groups and ids are compared in their canonical form. So a person whose
number is written in two ways counts as one person. pandas has no such form, because it reads a whole column either as
numbers or as words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from typing import Any, NamedTuple
from unicodedata import normalize

from pate.data.table.arrow import import_pyarrow, joined
from pate.data.table.column_names import without_invisible_characters
from pate.data.table.dates import ORDERS
from pate.validation import InvalidValue, as_setting, require_choice

GROUPING = {".": r"\.", ",": ",", "'": "['\u2019]", "_": "_", " ": r"[\p{Zs}\s]"}
"""The marks that may stand between thousands, each with a regular expression that matches it."""

TRUTH_WORDS = {"false": 0.0, "true": 1.0}
"""The numbers of truth values, by their words."""

# The latest value of `first_year`: the years that two digits can mean then end at 9999.
_LATEST_FIRST_YEAR = 9900
_NUMBER = re.compile(r"([+\-\u2212]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]\d{1,3}))?")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d)?(?:\.(\d+))? ?(Z|[+-]\d\d:?\d\d)?")
# An interval as pandas writes it, with bounds without blanks, such as numbers or days.
_PANDAS_INTERVAL = re.compile(r"([(\[])([^,\s]+), ([^,\s]+)([)\]])")
# A number with one or two zeros after a comma, such as 7,0. It is 7 under any setting; 7,000 may be seven thousand.
_COMMA_AND_ZEROS = re.compile(r"([+-]?\d+),0{1,2}")
# Words that are canonical as they are, except true and false.
_PLAIN = r"^(?:\d+|[A-Za-z_][!-~]*)$"


def canonical_word(word: str) -> str:
    r"""Returns the canonical form of a word, which the usual notations of one value have in common.

    3.0 and 3,0 become 3, 2.50 becomes 2.5, and 1e+16 is written as digits; 2,5 stays unchanged. A day at 00:00:00
    becomes the day, a time with a zone is converted to UTC, and true becomes True. The bounds of an interval are
    canonical. Letters and digits are composed and of normal width, any blank becomes one blank, and invisible
    characters are removed. Codes such as 007 stay unchanged, and so do dates that are not written as in ISO 8601.

    >>> [canonical_word(word) for word in ("7.0", "7,0", " 7\u200b", "007", "2025-01-31T00:00:00", "TRUE")]
    ['7', '7', '7', '007', '2025-01-31', 'True']
    """
    word = " ".join(normalize("NFKC", without_invisible_characters(word)).split())
    if word.lower() in TRUTH_WORDS:
        return word.capitalize()
    number_match = _NUMBER.fullmatch(word)
    if number_match is not None and (number_match[2] or number_match[3]):
        return _canonical_number(word, number_match=number_match)
    if moment_match := _MOMENT.fullmatch(word):
        return _canonical_moment(moment_match)
    if comma_and_zeros := _COMMA_AND_ZEROS.fullmatch(word):
        return canonical_word(comma_and_zeros[1])
    if interval := _PANDAS_INTERVAL.fullmatch(word):
        opening, left, right, closing = interval.groups()
        return f"{opening}{canonical_word(left)}, {canonical_word(right)}{closing}"
    return word


def _canonical_number(word: str, number_match: re.Match[str]) -> str:
    """Returns the canonical form of a number: all digits written out, a decimal point, no zeros that end a fraction.

    Args:
        word: the number as text.
        number_match: the match of the text with `_NUMBER`: sign, whole digits, fraction and exponent.
    """
    sign, digits, fraction, exponent = number_match.groups()
    if exponent is not None:
        digits, _, fraction = format(abs(Decimal(word)), "f").partition(".")
    fraction = (fraction or "").rstrip("0")
    plain = f"{digits or 0}.{fraction}" if fraction else digits or "0"
    is_negative = sign in ("-", "\u2212") and plain.strip("0.") != ""  # -0 is 0
    return f"-{plain}" if is_negative else plain


def _canonical_moment(moment_match: re.Match[str]) -> str:
    """Returns the canonical form of a date with a time: the date alone at midnight, and otherwise with seconds.

    A time with a zone is converted to UTC. A fraction of a second has no zeros at its end.

    Args:
        moment_match: the match of the text with `_MOMENT`: day, time, seconds, fraction and time zone.
    """
    day, time, seconds, fraction, zone = moment_match.groups()
    time += seconds or ":00"
    if zone is not None:
        try:
            local = datetime.fromisoformat(f"{day} {time}{zone}")
            day, time = str(local.astimezone(UTC).replace(tzinfo=None)).split()
        except (ValueError, OverflowError):
            # There is no such moment in the calendar, so the zone stays in the word.
            time += zone
    fraction = (fraction or "").rstrip("0")
    if fraction:
        return f"{day} {time}.{fraction}"
    return day if time == "00:00:00" else f"{day} {time}"


def with_points(words: Any) -> Any:
    """Returns pyarrow words `[num_words]` in which numbers with a decimal comma have a decimal point instead.

    All other words are unchanged.
    """
    return import_pyarrow().compute.replace_substring_regex(
        words,
        pattern=r"^(\s*[+-]?\d+),(\d+(?:[eE][+-]?\d+)?\s*)$",
        replacement=r"\1.\2",
    )


class OtherNotation(NamedTuple):
    """A notation of numbers other than that of a file, and the settings that choose it.

    Attributes:
        number_notation: the notation.
        setting_names: the settings, such as `data.decimal=comma`, which differ from those of the file.
    """

    number_notation: CellSpelling
    setting_names: frozenset[str]


@dataclass(frozen=True)
class CellSpelling:
    """The notation of numbers, dates and missing cells in a file of text, which is public and part of a schema.

    pandas can read numbers with `decimal=` and `thousands=`, but removes every mark between digits, so that 1.2.3 would
    be 123. Here the mark of thousands must stand before groups of three digits, or of two before the last group as in
    India; otherwise the cell is not a number. If only a decimal comma is set, 1.234 is not a number, because it could
    mean 1234.

    Attributes:
        decimal: `point`, or `comma` for numbers such as 3,5.
        thousands: the mark between thousands, one of . , ' _ or a blank; None for no mark.
        missing: the words that mean a missing cell. A number in the list covers all of its notations: -9 covers -9.0.
        date_order: the order of day, month and year in dates such as 04.03.2024, see `dates.ORDERS`; None for no order.
        first_year: the earliest year that two digits can mean; None if a year of two digits is an error.
    """

    decimal: str = "point"
    thousands: str | None = None
    missing: tuple[str, ...] = ()
    date_order: str | None = None
    first_year: int | None = None

    def require(self, setting_prefix: str) -> None:
        """Raises `InvalidValue` if a field has an impossible value.

        Args:
            setting_prefix: the text before a field's name in the name of its setting, such as `data.`.
        """
        require_choice(f"{setting_prefix}decimal", self.decimal, choices=("point", "comma"))
        is_mark = self.thousands in GROUPING and self.thousands != self.decimal_mark
        if self.thousands is not None and not is_mark:
            rule = f"one of . , ' _ or a blank, and not the decimal {self.decimal}"
            raise InvalidValue(f"{setting_prefix}thousands", self.thousands, rule=rule)
        are_words = isinstance(self.missing, tuple) and all(
            isinstance(word, str) and word for word in self.missing
        )
        if not are_words:
            rule = f"a list of words: '{setting_prefix}missing=[?,-]'"
            raise InvalidValue(f"{setting_prefix}missing", self.missing, rule=rule)
        if self.date_order is not None and self.date_order not in ORDERS:
            rule = f"one of {', '.join(ORDERS)}: day, month and year"
            raise InvalidValue(f"{setting_prefix}date_order", self.date_order, rule=rule)
        is_year = type(self.first_year) is int and 1 <= self.first_year <= _LATEST_FIRST_YEAR
        if self.first_year is not None and not is_year:
            rule = f"a year from 1 to {_LATEST_FIRST_YEAR}, the earliest that two digits mean"
            raise InvalidValue(f"{setting_prefix}first_year", self.first_year, rule=rule)

    @property
    def decimal_mark(self) -> str:
        """The decimal mark: `,` or `.`."""
        return "," if self.decimal == "comma" else "."

    def without_grouping(self, words: Any) -> Any:
        """Returns pyarrow words `[num_words]` in which numbers have no marks between thousands.

        Only the mark in the field `thousands` is removed, and only from a word that is a number with correct groups of
        digits.
        """
        if self.thousands is None:
            return words
        compute = import_pyarrow().compute
        mark = GROUPING[self.thousands]
        decimal_mark = re.escape(self.decimal_mark)
        # The last group has three digits, the others two or three, because 12,34,567 is usual in India.
        grouped_number = rf"^[+-]?\d{{1,3}}(?:{mark}\d{{2,3}})*{mark}\d{{3}}(?:{decimal_mark}\d*)?$"
        is_grouped = compute.match_substring_regex(words, pattern=grouped_number)
        without_marks = compute.replace_substring_regex(words, pattern=mark, replacement="")
        return compute.if_else(is_grouped, without_marks, words)

    def number_words(self, words: Any) -> Any:
        """Returns pyarrow words `[num_words]` in which numbers have a decimal point and no marks between thousands.

        With a decimal comma, 1.234 is changed to a word that is not a number, because it could mean 1234, unless
        `thousands` is a point.
        """
        compute = import_pyarrow().compute
        words = self.without_grouping(words)
        if self.decimal_mark == ".":
            return words
        point_for_thousands = r"^[+-]?[1-9]\d{0,2}(?:\.\d{3})+$|\..*,|,.*\."
        ambiguous_number = r"\." if self.thousands == "." else point_for_thousands
        is_ambiguous = compute.match_substring_regex(words, pattern=ambiguous_number)
        return compute.if_else(is_ambiguous, "no number", with_points(words))

    def others(self) -> Iterator[OtherNotation]:
        """Yields the notations of numbers that differ from this one, each with the settings that choose it.

        The decimal mark is a point or a comma. If `thousands` is set, the mark between thousands is that one or none;
        otherwise any of . , ' _ and a blank, or none.
        """
        thousands_marks = (None, *GROUPING) if self.thousands is None else (None, self.thousands)
        for other_decimal, other_thousands in product(("point", "comma"), thousands_marks):
            other_notation = replace(self, decimal=other_decimal, thousands=other_thousands)
            settings = set()
            if other_decimal != self.decimal:
                settings.add(f"data.decimal={other_decimal}")
            if other_thousands is not None and other_thousands != self.thousands:
                settings.add(as_setting(name="data.thousands", value=other_thousands))
            if other_thousands is None and self.thousands is not None:
                settings.add("no data.thousands")
            if settings and other_thousands != other_notation.decimal_mark:
                yield OtherNotation(
                    number_notation=other_notation, setting_names=frozenset(settings)
                )


USUAL = CellSpelling()
"""The notation of a file for which no setting names another: a decimal point, and no mark between thousands."""


def canonical_words(words: Any, number_notation: CellSpelling = USUAL) -> Any:
    """Returns pyarrow words `[num_words]` in canonical form, see `canonical_word`.

    A word without a visible character becomes null.

    Args:
        words: a pyarrow array of words.
        number_notation: the notation of numbers: decimal mark and mark between thousands.
    """
    compute = import_pyarrow().compute
    coded = joined(array=words).dictionary_encode()
    distinct_words = number_notation.without_grouping(coded.dictionary)
    if number_notation.decimal_mark == ",":
        distinct_words = with_points(distinct_words)
    is_plain_word = compute.match_substring_regex(distinct_words, pattern=_PLAIN)
    is_truth_word = compute.is_in(
        compute.utf8_lower(distinct_words), value_set=import_pyarrow().array([*TRUTH_WORDS])
    )
    # Only these words may have another canonical form. Python is slow, so the others are not converted.
    may_change = compute.or_(compute.invert(is_plain_word), is_truth_word)
    changeable_words = distinct_words.filter(may_change).to_pylist()
    canonical = [canonical_word(word) or None for word in changeable_words]
    replacements = import_pyarrow().array(canonical, distinct_words.type)
    all_canonical = compute.replace_with_mask(distinct_words, may_change, replacements)
    return all_canonical.take(coded.indices)
