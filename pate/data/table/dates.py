"""Parsing of dates and moments as days since 1970.

A moment is a date with a time. An order says which of the three numbers of a date is the day, the month and the year.
Dates are parsed by own code, because they must not be guessed. Both `pandas.to_datetime`, for a single word or in mixed
formats, and dateutil use another order for a word that is invalid in the given order. A bare number becomes a day of
the current month in dateutil.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import numpy as np

ORDERS = ("dmy", "mdy", "ymd")
"""The orders of day, month and year where all three are numbers; a year of four digits in front needs none."""

DAY_S = 86400.0
"""The number of seconds of a day."""

# The moment that is day 0.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The first three letters of each English month, in the order of the year.
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# Regular expressions of the parts of a date: each part but the weekday is a named group. The weekday and the time may
# be absent.
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+)?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4}|\d{2})"
_TIME = (
    r"(?:(?:t|,?\s+)(?P<hour>\d{1,2})[:.](?P<minute>\d\d)"
    r"(?:[:.](?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<half>[ap]\.?m\.?)?\s*(?P<zone>z|utc|gmt|[+-]\d\d:?\d\d)?)?"
)
# A date of three numbers, with the same mark between them.
_NUMBERS = re.compile(
    r"(?P<first>\d{4}|\d{1,2})(?P<mark>[./ -])\s?(?P<middle>\d{1,2})(?P=mark)\s?"
    rf"(?P<last>\d{{4}}|\d{{1,2}})\.?{_TIME}",
    re.IGNORECASE | re.ASCII,
)
# The forms of a date with the month as a word: the day, the month or the year comes first.
_WORDS = tuple(
    re.compile(f"{_WEEKDAY}{form}{_TIME}", re.IGNORECASE | re.ASCII)
    for form in (
        rf"{_DAY}[\s./-]*{_MONTH}[\s,./-]*{_YEAR}",
        rf"{_MONTH}\s*{_DAY},?\s+{_YEAR}",
        rf"(?P<year>\d{{4}})[\s./-]+{_MONTH}[\s./-]+{_DAY}",
    )
)


class NoDate(ValueError):
    """An error: a word is not a date, or not a date in any of the given orders."""


def days_of(
    date_text: str, date_orders: Iterable[str | None] = (), first_year: int | None = None
) -> float:
    """Returns a date, with or without a time, as days since 1970. A time without a time zone is in UTC.

    Args:
        date_text: a date in ISO 8601, a date that begins with the year, a date with the month in English, or a date
            in one of the orders.
        date_orders: orders of day, month and year: dmy, mdy or ymd. The date is read in the first of them that its
            numbers of digits allow. None in the list allows nothing.
        first_year: the earliest year that two digits can mean; None if a year of two digits is an error.

    Raises:
        ValueError: the word is not a date.

    >>> days_of("January 2, 1970")
    1.0
    >>> days_of("13.01.1970", date_orders=["dmy"])
    12.0
    >>> days_of("01/02/70 6:00 PM", date_orders=["mdy"], first_year=1930)
    1.75
    """
    try:
        moment = datetime.fromisoformat(date_text)
    except ValueError:
        written_date = WrittenDate.parse(date_text)
        moment = written_date.moment(date_orders=date_orders, first_year=first_year)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    elapsed = moment - _EPOCH
    days = elapsed.total_seconds() / DAY_S
    # Rounding must not carry the last microsecond of a day into the next day.
    next_day = elapsed.days + 1
    return min(days, math.nextafter(next_day, -math.inf))


def days_as_text(days: float) -> str:
    """Returns days since 1970 as a date in ISO 8601, with a time in whole seconds unless it is midnight."""
    return str(np.datetime64(round(days * DAY_S), "s")).removesuffix("T00:00:00")


@dataclass(frozen=True)
class WrittenDate:
    """A date as text, with or without a time, split into its parts.

    Attributes:
        date_parts: the parts by name. A date of three numbers has `first`, `middle` and `last`, with the same `mark`
            between them. A date with the month as a word has `day`, `month` and `year`. The parts of the time are None
            in a date without a time.
    """

    date_parts: dict[str, str | None]

    @classmethod
    def parse(cls, word: str) -> WrittenDate:
        """Splits a word into the parts of a date; raises `NoDate` if the word has no form of a date.

        Whether the calendar has such a day is not checked.
        """
        word = " ".join(word.split())  # blanks of any kind
        for date_pattern in (_NUMBERS, *_WORDS):
            if date_match := date_pattern.fullmatch(word):
                return cls(date_parts=date_match.groupdict())
        raise NoDate(word)

    @property
    def mark(self) -> str:
        """The mark between the numbers, such as a dot or a slash; empty if the month is a word."""
        return self.date_parts.get("mark") or ""

    @property
    def has_short_year(self) -> bool:
        """Whether the year has fewer than four digits."""
        if not self.mark:
            return len(self._date_part("year")) < 4
        return len(self._date_part("first")) < 4 and len(self._date_part("last")) < 4

    @property
    def orders(self) -> tuple[str, ...]:
        """The orders of day, month and year that the numbers of digits allow, such as dmy and mdy.

        The tuple is empty for a date that is unambiguous: the month is a word, or the year of four digits comes first.
        """
        if not self.mark or len(self._date_part("first")) == 4:
            return ()
        return ("dmy", "mdy") if len(self._date_part("last")) == 4 else ORDERS

    def moment(self, date_orders: Iterable[str | None], first_year: int | None) -> datetime:
        """Returns the date and its time, read in the first of the given orders that the numbers of digits allow.

        A date that is unambiguous needs no order. A time without a time zone is in UTC; no time is midnight.

        Args:
            date_orders: orders of day, month and year: dmy, mdy or ymd. None in the list allows nothing.
            first_year: the earliest year that two digits can mean; None if a year of two digits is an error.

        Raises:
            NoDate: no given order is allowed, the numbers are no day of the calendar or no time, or the year has two
                digits and `first_year` is None.
        """
        if not self.mark:
            month_name = self._date_part("month").lower()[:3]
            return self._moment_of(
                year=self._date_part("year"),
                month=1 + _MONTHS.index(month_name),
                day=int(self._date_part("day")),
                first_year=first_year,
            )
        order = self._first_allowed_by_digits(date_orders)
        numbers = (self._date_part("first"), self._date_part("middle"), self._date_part("last"))
        number_of = dict(zip(order, numbers, strict=True))
        return self._moment_of(
            year=number_of["y"],
            month=int(number_of["m"]),
            day=int(number_of["d"]),
            first_year=first_year,
        )

    def is_date_in(self, date_order: str) -> bool:
        """Returns True if the numbers, read in an order such as dmy, are a day of the calendar in some century."""
        try:
            self.moment(date_orders=(date_order,), first_year=2000)  # a leap year
        except NoDate:
            return False
        return True

    def _first_allowed_by_digits(self, date_orders: Iterable[str | None]) -> str:
        """Returns the first of `date_orders` that the numbers of digits allow; ymd for a date with the year first.

        Raises:
            NoDate: the numbers of digits allow none of the orders.
        """
        if not self.orders:
            return "ymd"
        for order in date_orders:
            if order in self.orders:
                return str(order)
        raise NoDate("an order is needed")

    def _moment_of(self, *, year: str, month: int, day: int, first_year: int | None) -> datetime:
        """Returns a day with the time in `date_parts`; without a time zone in UTC, without a time midnight.

        Args:
            year: the digits of the year, two or four.
            month: the month, 1 to 12.
            day: the day of the month.
            first_year: the earliest year that two digits can mean; None if a year of two digits is an error.

        Raises:
            NoDate: the numbers are no day of the calendar or no time, or the year has two digits and `first_year` is
                None.
        """
        microseconds = (self.date_parts["fraction"] or "0").ljust(6, "0")[:6]
        try:
            return datetime(
                year=_full_year(digits=year, first_year=first_year),
                month=month,
                day=day,
                hour=self._hour(),
                minute=int(self.date_parts["minute"] or 0),
                second=int(self.date_parts["second"] or 0),
                microsecond=int(microseconds),
                tzinfo=_time_zone_or_utc(self.date_parts["zone"]),
            )
        except NoDate:
            raise
        except ValueError as error:
            raise NoDate("a day of the calendar is needed") from error

    def _hour(self) -> int:
        """Returns the hour of the time on a clock of 24 hours; 0 without a time.

        Raises `NoDate` if an hour before AM or PM is not 1 to 12. Any other hour is not checked.
        """
        hour = int(self.date_parts["hour"] or 0)
        half = self.date_parts["half"]
        if half is None:
            return hour
        if not 1 <= hour <= 12:
            raise NoDate("an hour from 1 to 12 is needed")
        is_afternoon = half.lower().startswith("p")
        return hour % 12 + (12 if is_afternoon else 0)

    def _date_part(self, part_name: str) -> str:
        """Returns the text of a part, such as `first` or `year`; empty if the part is None."""
        return self.date_parts[part_name] or ""


def _full_year(digits: str, first_year: int | None) -> int:
    """Returns the year that two or four digits mean.

    Args:
        digits: the digits of the year.
        first_year: the earliest year that two digits can mean; None if a year of two digits is an error.

    Raises:
        NoDate: the year has neither four digits, nor two digits while `first_year` is set.
    """
    if len(digits) == 4:
        return int(digits)
    if first_year is None or len(digits) != 2:
        raise NoDate("a year of four digits is needed")
    years_after_first = (int(digits) - first_year) % 100
    return first_year + years_after_first


def _time_zone_or_utc(zone: str | None) -> timezone:
    """Returns a time zone such as +01:00, -0130, Z or UTC; None is UTC.

    Raises:
        NoDate: the zone differs from UTC by a day or more.
    """
    if zone is None or zone[0] not in "+-":
        return UTC
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    offset = timedelta(minutes=-minutes if zone[0] == "-" else minutes)
    try:
        return timezone(offset)
    except ValueError as error:
        raise NoDate("a zone of less than a day is needed") from error
