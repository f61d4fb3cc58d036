"""Dates as people write them: the order of day, month and year in a column, and days since 1970."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
from numpy.typing import NDArray

ORDERS = ("dmy", "mdy", "ymd")
"""The orders of day, month and year where all three are numbers; a year of four digits in front needs none."""

DAY_S = 86400.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
_MONTH += r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+)?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4}|\d{2})"
_TIME = r"(?:(?:t|,?\s+)(?P<hour>\d{1,2})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?"
_TIME += r"\s*(?P<half>[ap]\.?m\.?)?\s*(?P<zone>z|utc|gmt|[+-]\d\d:?\d\d)?)?"
_NUMBERS = re.compile(
    r"(?P<first>\d{4}|\d{1,2})(?P<mark>[./ -])\s?(?P<middle>\d{1,2})(?P=mark)\s?(?P<last>\d{4}|\d{1,2})\.?"
    f"{_TIME}",
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
# ten years: nearer dates squeeze the others by less than a column of ten years does
_FAR_DAYS = 3652.0
_FAR_WIDTHS = 10.0  # of all other dates together
# of a first or last day of a year, as programs put in place of no date
_FAR_WIDTHS_OF_YEARS_END = 1.5
_FEWEST_OTHERS = 3  # different dates


class NoDate(ValueError):
    """A word that is no date, or none in the orders that were given."""


class UnclearDates(ValueError):
    """Dates whose order or century the column does not say; the message is a rule with a way out."""


@dataclass(frozen=True)
class WrittenDate:
    """A date as it is written: its parts, and the orders in which these are a day, a month and a year."""

    parts: dict[str, str | None]

    @classmethod
    def of(cls, word: str) -> WrittenDate:
        """Returns the parts of a word, or raises `NoDate`."""
        word = " ".join(word.split())  # blanks of any kind
        matched = _NUMBERS.fullmatch(word)
        for form in _WORDS:
            matched = matched or form.fullmatch(word)
        if matched is None:
            raise NoDate(word)
        return cls(matched.groupdict())

    @property
    def mark(self) -> str:
        """What stands between the numbers; empty where the month is a word."""
        return self.parts.get("mark") or ""

    @property
    def has_short_year(self) -> bool:
        """True where each place where the year may stand has fewer than four digits."""
        if not self.mark:
            return len(self._text("year")) < 4
        return len(self._text("first")) < 4 and len(self._text("last")) < 4

    @property
    def orders(self) -> tuple[str, ...]:
        """The orders that the lengths of its numbers allow; none where it needs no order."""
        if not self.mark or len(self._text("first")) == 4:
            return ()
        return ("dmy", "mdy") if len(self._text("last")) == 4 else ORDERS

    def moment(self, orders: Iterable[str | None], first_year: int | None) -> datetime:
        """Returns the moment in the first of the orders that applies, or raises `NoDate`."""
        if not self.mark:
            month = 1 + _MONTHS.index(self._text("month").lower()[:3])
            return self._moment(self._text("year"), month, self._text("day"), first_year)
        numbers = [self._text("first"), self._text("middle"), self._text("last")]
        order = "ymd"
        if self.orders:
            order = next((candidate for candidate in orders if candidate in self.orders), "")
        if not order:
            raise NoDate("an order is needed")
        value_of = dict(zip(order, numbers, strict=True))
        return self._moment(value_of["y"], int(value_of["m"]), value_of["d"], first_year)

    def _moment(self, year: str, month: int, day: str, first_year: int | None) -> datetime:
        years = int(year)
        if len(year) < 4:
            if first_year is None or len(year) != 2:
                raise NoDate("a year of four digits is needed")
            years = first_year + (years - first_year) % 100
        hour = int(self.parts["hour"] or 0)
        if half := self.parts["half"]:
            if not 1 <= hour <= 12:
                raise NoDate("an hour from 1 to 12 is needed")
            hour = hour % 12 + 12 * half.lower().startswith("p")
        microsecond = int((self.parts["fraction"] or "0").ljust(6, "0")[:6])
        zone = (self.parts["zone"] or "z").lower()
        offset = UTC if zone[0] not in "+-" else _offset(zone)
        minute = int(self.parts["minute"] or 0)
        second = int(self.parts["second"] or 0)
        try:
            return datetime(years, month, int(day), hour, minute, second, microsecond, offset)
        except ValueError as error:
            raise NoDate("a day of the calendar is needed") from error

    def _text(self, part: str) -> str:
        return self.parts[part] or ""


def _offset(zone: str) -> timezone:
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    try:
        return timezone(timedelta(minutes=-minutes if zone[0] == "-" else minutes))
    except ValueError as error:
        raise NoDate("a zone of less than a day is needed") from error


def days_of(word: str, orders: Iterable[str | None] = (), first_year: int | None = None) -> float:
    """Returns a date or moment as days since 1970, in UTC where it names no zone.

    Args:
        word: in ISO 8601, with the year in front, with the month in English, or in one of the orders.
        orders: of `ORDERS`; the first that the word's numbers allow is the one.
        first_year: the earliest year that two digits mean; None where they mean none.

    Raises:
        ValueError: no date.

    >>> days_of("13.01.1970", ["dmy"]), days_of("January 2, 1970"), days_of("01/02/70 6:00 PM", ["mdy"], 1930)
    (12.0, 1.0, 1.75)
    """
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        moment = WrittenDate.of(word).moment(orders, first_year)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = moment - _EPOCH
    days = since.total_seconds() / DAY_S
    # a last microsecond is none of the next day
    return min(days, math.nextafter(since.days + 1, 0))


@dataclass
class _MarkedDates:
    """Dates of a column that have one mark between their numbers: the orders in which all of them are dates."""

    orders: set[str]
    example: str
    # of each order that is none, the first date that says so
    first_of: dict[str, str] = field(default_factory=dict)

    def add(self, word: str, date: WrittenDate) -> None:
        for order in tuple(self.orders):
            if not _is_date(date, order):
                self.orders.discard(order)
                self.first_of[order] = word


def _is_date(date: WrittenDate, order: str) -> bool:
    try:
        date.moment((order,), 2000)  # a leap year, and of any century
    except NoDate:
        return False
    return True


def order_of(words: Sequence[str], *, order: str | None, first_year: int | None) -> str | None:
    """Returns the order of a column's dates, None where they need none.

    Rule: every word is a date in some order. Those with one mark, such as a dot, are all dates in one order and in no
    other, or in the order that is named. Those with several marks are in the same order.

    Args:
        words: all different ones of a public column that are not missing.
        order: that a setting names, or None.
        first_year: of years of two digits, as a setting names it, or None.

    Raises:
        NoDate: a word is no date in any order.
        UnclearDates: the words do not say which order or century they are in; the message says what to set.
    """
    groups: dict[str, _MarkedDates] = {}
    short: str | None = None
    for word in words:
        try:
            datetime.fromisoformat(word)
            continue
        except ValueError:
            date = WrittenDate.of(word)
        if date.has_short_year:
            short = short or word
        if not date.orders:
            date.moment((), 2000)
            continue
        if not any(_is_date(date, order) for order in date.orders):
            raise NoDate(word)
        group = groups.setdefault(
            f"{date.mark}{len(date.orders)}", _MarkedDates(set(date.orders), word)
        )
        group.add(word, date)
    if short is not None and (first_year is None or (order is None and groups)):
        setting = "data.date_order=dmy (or mdy, ymd) and " if groups else ""
        read = "read" if groups else "reads"
        rule = f"years of four digits, and there is {short}: {setting}data.first_year=1930 {read} two digits"
        raise UnclearDates(f"{rule}, 30 as 1930 and 29 as 2029")
    orders: dict[str, str] = {}  # by the order an example
    for group in groups.values():
        if order in group.orders:
            orders[str(order)] = group.example
            continue
        if order in group.first_of:
            other = group.first_of[str(order)]
            raise UnclearDates(
                f"dates in the order {order} as data.date_order says, {other} is in another"
            )
        if not group.orders:
            other = next(reversed(group.first_of.values()))
            raise UnclearDates(
                f"dates in one order, {group.example} and {other} are in two: mend them in the file"
            )
        if len(group.orders) > 1:
            readings = " or ".join(
                f"{days_as_text(days_of(group.example, (order,), first_year))} (data.date_order={order})"
                for order in sorted(group.orders)
            )
            raise UnclearDates(f"dates whose order is plain, and {group.example} may be {readings}")
        orders[next(iter(group.orders))] = group.example
    if len(orders) > 1:
        raise UnclearDates(
            f"dates in one order, {' and '.join(orders.values())} are in two: mend them in the file"
        )
    return next(iter(orders), None)


def telling(words: Sequence[str]) -> str:
    """Returns the first date that is another one, or none, in another order; or else the first."""
    for word in words:
        readings = set()
        for order in ORDERS:
            try:
                readings.add(days_of(word, (order,), 2000))
            except ValueError:
                continue
        if len(readings) > 1:
            return word
    return words[0]


def days_as_text(days: float) -> str:
    """Returns days since 1970 in ISO 8601, without a time that is midnight."""
    return str(np.datetime64(round(days * DAY_S), "s")).removesuffix("T00:00:00")


def absent_dates(days: NDArray[np.float64]) -> list[float]:
    """Returns days since 1970 that stand for no date, as 9999-12-31 does among dates of one summer.

    Rule, of the public file alone. The first or the last of all days is none where it is ten years or more from the
    next one, and that is more than 10 times what lies between all others. For a first or last day of a year, which
    programs put there, 1.5 times is enough. Then the next one is looked at, as long as three different days stay.

    >>> absent_dates(np.array([19000.0, 19010.0, 19020.0, 2932896.0]))
    [2932896.0]
    """
    days_seen = np.unique(np.floor(days[np.isfinite(days)]))
    absent: list[float] = []
    while len(days_seen) > _FEWEST_OTHERS:
        last_is_far = _is_far(days_seen[-1], days_seen[:-1])
        if not last_is_far and not _is_far(days_seen[0], days_seen[1:]):
            break
        absent.append(float(days_seen[-1] if last_is_far else days_seen[0]))
        days_seen = days_seen[:-1] if last_is_far else days_seen[1:]
    return absent


def is_at_years_end(day: float) -> bool:
    """Says whether a date is one of the first or the last two days of a year."""
    date = np.datetime64(int(day // 1), "D")
    in_year = (date - date.astype("datetime64[Y]").astype("datetime64[D]")).astype(int)
    return bool(in_year in (0, 363, 364, 365))


def _is_far(day: float, others: NDArray[np.float64]) -> bool:
    gap = float(np.abs(others - day).min())
    width = float(others[-1] - others[0])
    widths = _FAR_WIDTHS_OF_YEARS_END if is_at_years_end(day) else _FAR_WIDTHS
    return gap >= _FAR_DAYS and gap > widths * width
