"""Parsing of dates and moments as days since 1970.

Dates are parsed by own code, because they must not be guessed. Both `pandas.to_datetime` and dateutil use another order
for a cell that is invalid in the given order. A bare number becomes a day of the current month in dateutil.
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
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
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
_NUMBERS = re.compile(
    r"(?P<first>\d{4}|\d{1,2})(?P<mark>[./ -])\s?(?P<middle>\d{1,2})(?P=mark)\s?"
    rf"(?P<last>\d{{4}}|\d{{1,2}})\.?{_TIME}",
    re.IGNORECASE | re.ASCII,
)
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


@dataclass(frozen=True)
class WrittenDate:
    """A date or moment as text, split into its parts.

    Attributes:
        parts: the parts by name. A date of three numbers has `first`, `middle` and `last`, with the same `mark` between
            them. A date with the month as a word has `day`, `month` and `year`. The parts of the time are None in a
            date without a time.
    """

    parts: dict[str, str | None]

    @classmethod
    def parse(cls, word: str) -> WrittenDate:
        """Splits a word into the parts of a date; raises `NoDate` if the word is not a date."""
        word = " ".join(word.split())  # blanks of any kind
        for pattern in (_NUMBERS, *_WORDS):
            if match := pattern.fullmatch(word):
                return cls(match.groupdict())
        raise NoDate(word)

    @property
    def mark(self) -> str:
        """The mark between the numbers; empty if the month is a word."""
        return self.parts.get("mark") or ""

    @property
    def has_short_year(self) -> bool:
        """Whether the year has fewer than four digits."""
        if not self.mark:
            return len(self._text("year")) < 4
        return len(self._text("first")) < 4 and len(self._text("last")) < 4

    @property
    def orders(self) -> tuple[str, ...]:
        """The orders of day, month and year that the numbers of digits allow; empty if the date is unambiguous."""
        if not self.mark or len(self._text("first")) == 4:
            return ()
        return ("dmy", "mdy") if len(self._text("last")) == 4 else ORDERS

    def moment(self, date_orders: Iterable[str | None], first_year: int | None) -> datetime:
        """Returns the moment, read in the first of the given orders that the numbers of digits allow.

        Args:
            date_orders: orders of day, month and year, as in `ORDERS`, or None.
            first_year: the earliest year that two digits can mean; None if a year of two digits is an error.

        Raises:
            NoDate: no given order is allowed, the numbers are no day of the calendar, or the year has two digits and
                `first_year` is None.
        """
        if not self.mark:
            month = 1 + _MONTHS.index(self._text("month").lower()[:3])
            return self._moment_of(
                year=self._text("year"),
                month=month,
                day=self._text("day"),
                first_year=first_year,
            )
        order = "ymd"
        if self.orders:
            order = next((candidate for candidate in date_orders if candidate in self.orders), "")
        if not order:
            raise NoDate("an order is needed")
        numbers = (self._text("first"), self._text("middle"), self._text("last"))
        number_of = dict(zip(order, numbers, strict=True))
        return self._moment_of(
            year=number_of["y"],
            month=int(number_of["m"]),
            day=number_of["d"],
            first_year=first_year,
        )

    def is_date_in(self, date_order: str) -> bool:
        """Returns True if the numbers are a valid date in an order of day, month and year, in any century."""
        try:
            self.moment(date_orders=(date_order,), first_year=2000)  # a leap year
        except NoDate:
            return False
        return True

    def _moment_of(self, year: str, month: int, day: str, first_year: int | None) -> datetime:
        full_year = int(year)
        if len(year) < 4:
            if first_year is None or len(year) != 2:
                raise NoDate("a year of four digits is needed")
            full_year = first_year + (full_year - first_year) % 100
        zone = (self.parts["zone"] or "z").lower()
        try:
            return datetime(
                full_year,
                month,
                int(day),
                self._hour(),
                int(self.parts["minute"] or 0),
                int(self.parts["second"] or 0),
                int((self.parts["fraction"] or "0").ljust(6, "0")[:6]),
                tzinfo=_offset(zone) if zone[0] in "+-" else UTC,
            )
        except ValueError as error:
            raise NoDate("a day of the calendar is needed") from error

    def _hour(self) -> int:
        hour = int(self.parts["hour"] or 0)
        half = self.parts["half"]
        if half is None:
            return hour
        if not 1 <= hour <= 12:
            raise NoDate("an hour from 1 to 12 is needed")
        return hour % 12 + (12 if half.lower().startswith("p") else 0)

    def _text(self, part_name: str) -> str:
        return self.parts[part_name] or ""


def _offset(zone: str) -> timezone:
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    try:
        return timezone(timedelta(minutes=-minutes if zone[0] == "-" else minutes))
    except ValueError as error:
        raise NoDate("a zone of less than a day is needed") from error


def days_of(
    date_text: str, date_orders: Iterable[str | None] = (), first_year: int | None = None
) -> float:
    """Returns a date or moment as days since 1970. A moment without a time zone is in UTC.

    Args:
        date_text: a date in ISO 8601, a date that begins with the year, a date with the month in English, or a date
            in one of the orders.
        date_orders: orders from `ORDERS`. The date is read in the first order that the numbers of digits allow.
        first_year: the earliest year that two digits can mean; None if a year of two digits is an error.

    Raises:
        ValueError: the word is not a date.

    >>> days_of("13.01.1970", ["dmy"]), days_of("January 2, 1970"), days_of("01/02/70 6:00 PM", ["mdy"], 1930)
    (12.0, 1.0, 1.75)
    """
    try:
        moment = datetime.fromisoformat(date_text)
    except ValueError:
        moment = WrittenDate.parse(date_text).moment(date_orders, first_year)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    elapsed = moment - _EPOCH
    days = elapsed.total_seconds() / DAY_S
    # rounding must not carry the last microsecond of a day into the next day
    return min(days, math.nextafter(elapsed.days + 1, 0))


def days_as_text(days: float) -> str:
    """Returns days since 1970 as a date in ISO 8601, with a time unless it is midnight."""
    return str(np.datetime64(round(days * DAY_S), "s")).removesuffix("T00:00:00")
