"""The order of day, month and year in a column of dates, by the public file.

04.03.2024 may be a day in March or in April. A column tells its order where some date is a date in one order alone.
Where no date tells, the owner has to name the order, as no guess is better than another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pate.data.table.dates import ORDERS, NoDate, WrittenDate, days_as_text, days_of


class UnclearDates(ValueError):
    """Dates whose order or century the column does not tell; the message is a rule with a way out."""


@dataclass
class _MarkedDates:
    """Dates of a column that have one mark between their numbers.

    Attributes:
        orders: those in which all of these dates are dates.
        example: the first of these dates.
        counterexamples: for each order that was ruled out, the first date that rules it out.
    """

    orders: set[str]
    example: str
    counterexamples: dict[str, str] = field(default_factory=dict)

    def add(self, word: str, date: WrittenDate) -> None:
        """Rules out the orders in which a date is none."""
        for order in tuple(self.orders):
            if not date.is_date_in(order):
                self.orders.discard(order)
                self.counterexamples[order] = word

    def only_order(self, named: str | None, first_year: int | None) -> str:
        """Returns the order that is named, or else the only one that is left; raises `UnclearDates`."""
        if named in self.orders:
            return str(named)
        if named in self.counterexamples:
            word = self.counterexamples[str(named)]
            raise UnclearDates(
                f"dates in the order {named} as data.date_order says, {word} is in another"
            )
        if not self.orders:
            word = next(reversed(self.counterexamples.values()))
            raise UnclearDates(
                f"dates in one order, {self.example} and {word} are in two: mend them in the file"
            )
        if len(self.orders) > 1:
            readings = []
            for order in sorted(self.orders):
                day = days_as_text(days_of(self.example, (order,), first_year))
                readings.append(f"{day} (data.date_order={order})")
            raise UnclearDates(
                f"dates whose order is plain, and {self.example} may be {' or '.join(readings)}"
            )
        return next(iter(self.orders))


def infer_order(words: Iterable[str], *, named: str | None, first_year: int | None) -> str | None:
    """Returns the order of a column's dates, None where they need none.

    Rule: every word is a date in some order. Words with one mark between numbers, such as a dot, are all dates in one
    order alone, or in the order that a setting names. Words with different marks are in the same order.

    Args:
        words: all different ones of a public column that are not missing.
        named: the order that a setting names, or None.
        first_year: of years of two digits, as a setting names it, or None.

    Raises:
        NoDate: a word is no date in any order.
        UnclearDates: the words do not tell their order or century; the message names the settings that do.
    """
    groups: dict[str, _MarkedDates] = {}  # by the mark, and the number of orders that lengths allow
    short_year: str | None = None  # the first date with one
    for word in words:
        if _is_iso(word):
            continue
        date = WrittenDate.parse(word)
        if date.has_short_year:
            short_year = short_year or word
        if not date.orders:
            date.moment((), first_year=2000)  # raises for what is no day of the calendar
            continue
        if not any(date.is_date_in(order) for order in date.orders):
            raise NoDate(word)
        key = f"{date.mark}{len(date.orders)}"
        groups.setdefault(key, _MarkedDates(set(date.orders), word)).add(word, date)
    if short_year is not None and (first_year is None or (named is None and groups)):
        setting = "data.date_order=dmy (or mdy, ymd) and " if groups else ""
        read = "read" if groups else "reads"
        rule = f"years of four digits, and there is {short_year}: {setting}data.first_year=1930"
        raise UnclearDates(f"{rule} {read} two digits, 30 as 1930 and 29 as 2029")
    example_of = {group.only_order(named, first_year): group.example for group in groups.values()}
    if len(example_of) > 1:
        examples = " and ".join(example_of.values())
        raise UnclearDates(f"dates in one order, {examples} are in two: mend them in the file")
    return next(iter(example_of), None)


def _is_iso(word: str) -> bool:
    try:
        datetime.fromisoformat(word)
    except ValueError:
        return False
    return True


def telling_date(words: Sequence[str]) -> str:
    """Returns the first date that is another day in another order; the first of all where none is."""
    for word in words:
        readings = set()
        for order in ORDERS:
            try:
                readings.add(days_of(word, (order,), first_year=2000))
            except ValueError:
                continue
        if len(readings) > 1:
            return word
    return words[0]
