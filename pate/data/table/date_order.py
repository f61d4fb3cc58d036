"""Inference of the order of day, month and year in a column of public dates.

04.03.2024 may be a day in March or in April. A column determines its order if all of its dates are valid in only one
order. If they are in several, the owner has to name the order, because any guess could be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pate.data.table.dates import ORDERS, NoDate, WrittenDate, days_as_text, days_of


class UnclearDates(ValueError):
    """An error: the dates of a column have an ambiguous order or century. The message states a remedy."""


@dataclass
class _MarkedDates:
    """The dates of a column that have the same mark between numbers, such as a dot, and allow the same orders.

    The numbers of digits allow two or three orders of day, month and year: 04.03.2024 may be dmy or mdy.

    Attributes:
        possible_date_orders: the orders of day, month and year in which all of these dates are valid.
        example: the first of these dates.
        counterexamples: for each order that was excluded, the first date that is invalid in that order.
        telling_example: the first of these dates that means another day in another order; None if there is none.
    """

    possible_date_orders: set[str]
    example: str
    counterexamples: dict[str, str] = field(default_factory=dict)
    telling_example: str | None = None

    def add(self, date_text: str, written_date: WrittenDate) -> None:
        """Adds a date, and excludes the orders in which it is invalid.

        Args:
            date_text: the date as text.
            written_date: the same date, split into its parts.
        """
        for order in tuple(self.possible_date_orders):
            if not written_date.is_date_in(date_order=order):
                self.possible_date_orders.discard(order)
                self.counterexamples[order] = date_text
        if self.telling_example is None and _tells_order(date_text):
            self.telling_example = date_text

    def only_order(self, named_order: str | None, first_year: int | None) -> str:
        """Returns the order of day, month and year in which these dates are read.

        Args:
            named_order: the order that a setting names. With None, or an order that the numbers of digits do not
                allow, such as ymd for 04.03.2024, the only order that is not excluded is taken.
            first_year: the earliest year that two digits can mean, for the days that an error names; None if no setting
                names one.

        Raises:
            UnclearDates: several orders are possible and none of them is named, a date excludes the named order, or no
                order fits all of these dates.
        """
        if named_order in self.possible_date_orders:
            return named_order
        if named_order in self.counterexamples:
            other_date = self.counterexamples[named_order]
            raise UnclearDates(
                f"dates in the order {named_order} as data.date_order says, {other_date} is in another"
            )
        if not self.possible_date_orders:
            other_date = next(reversed(self.counterexamples.values()))
            raise UnclearDates(
                f"dates in one order, {self.example} and {other_date} are in two: mend them in the file"
            )
        if len(self.possible_date_orders) > 1:
            example = self.telling_example or self.example
            readings = []
            for order in sorted(self.possible_date_orders):
                day = days_as_text(
                    days_of(date_text=example, date_orders=(order,), first_year=first_year)
                )
                readings.append(f"{day} (data.date_order={order})")
            raise UnclearDates(
                f"dates whose order is plain, and {example} may be {' or '.join(readings)}"
            )
        return next(iter(self.possible_date_orders))


def infer_order(
    date_texts: Iterable[str], *, named_order: str | None, first_year: int | None
) -> str | None:
    """Returns the order of day, month and year in a column of dates; None if all dates are unambiguous.

    Rule: every word must be a date in some order. Words with the same mark between numbers, such as a dot, must all be
    valid in one order only, unless a setting names the order. Words with different marks must have the same order. If
    a year has two digits, settings must name the century, and also the order if a word needs one.

    Args:
        date_texts: the distinct words of a public column, without missing cells.
        named_order: the order that a setting names; None if no setting does. A setting is for all columns of a table,
            so it says nothing about dates whose numbers of digits do not allow its order, such as ymd for 04.03.2024.
        first_year: the earliest year that two digits can mean; None if no setting names one.

    Raises:
        NoDate: a word is not a date in any order.
        UnclearDates: the order or the century is ambiguous. The message names the settings that resolve it.
    """
    # The dates by the mark between numbers, and by the orders that the numbers of digits allow.
    dates_by_form: dict[tuple[str, tuple[str, ...]], _MarkedDates] = {}
    # The first date whose year has two digits.
    short_year: str | None = None
    for date_text in date_texts:
        if _is_iso(date_text):
            continue
        written_date = WrittenDate.parse(date_text)
        if written_date.has_short_year:
            short_year = short_year or date_text
        if not written_date.orders:
            # The call raises `NoDate` if there is no such day in the calendar.
            written_date.moment(date_orders=(), first_year=2000)
            continue
        if not any(written_date.is_date_in(date_order=order) for order in written_date.orders):
            raise NoDate(date_text)
        dates_by_form.setdefault(
            (written_date.mark, written_date.orders),
            _MarkedDates(possible_date_orders=set(written_date.orders), example=date_text),
        ).add(date_text, written_date)
    if short_year is not None and (first_year is None or (named_order is None and dates_by_form)):
        remedy = "data.first_year=1930 reads"
        if dates_by_form:
            remedy = "data.date_order=dmy (or mdy, ymd) and data.first_year=1930 read"
        raise UnclearDates(
            f"years of four digits, and there is {short_year}: "
            f"{remedy} two digits, 30 as 1930 and 29 as 2029"
        )
    example_of_date_order = {
        marked_dates.only_order(named_order, first_year): marked_dates.example
        for marked_dates in dates_by_form.values()
    }
    if len(example_of_date_order) > 1:
        examples = " and ".join(example_of_date_order.values())
        raise UnclearDates(f"dates in one order, {examples} are in two: mend them in the file")
    return next(iter(example_of_date_order), None)


def _is_iso(word: str) -> bool:
    try:
        datetime.fromisoformat(word)
    except ValueError:
        return False
    return True


def telling_date(date_texts: Sequence[str]) -> str:
    """Returns the first of some dates that means another day in another order of day, month and year.

    If there is none, the first date is returned.
    """
    return next(filter(_tells_order, date_texts), date_texts[0])


def _tells_order(date_text: str) -> bool:
    """Returns True if a date means another day in another order of day, month and year."""
    readings = set()
    for order in ORDERS:
        try:
            readings.add(days_of(date_text, date_orders=(order,), first_year=2000))
        except ValueError:
            continue
    return len(readings) > 1
