"""A cap on what a data set may cost, decided by a privacy filter."""

from __future__ import annotations

import math
from collections import Counter
from itertools import groupby

from pate.accounting.events import Event
from pate.accounting.filters import FilterRule, PrivacyFilter, Spent
from pate.accounting.ledger.entry import LedgerEntry
from pate.validation import InvalidValue, rounded_down, rounded_up

_LARGEST_CAP = 1e6
_STEPS = 40


class BudgetExceeded(InvalidValue):
    """A charge would take the ledger above its budget. Nothing was charged."""


class Cap:
    """One cap on the charges of one data set.

    Args:
        rule: what decides; fixed by the first charge, of which it may depend as nothing was released before it.
        entries: the charges, the list itself; it grows and nothing is taken away.
    """

    def __init__(self, rule: FilterRule, entries: list[LedgerEntry]) -> None:
        self.max_epsilon = rule.max_epsilon
        self._rule, self._entries = rule, entries
        self._state: tuple[PrivacyFilter | None, Spent, int] = None, Spent(), 0

    def filter(self, following: Event | None = None) -> PrivacyFilter | None:
        """The filter; None while neither a charge nor one that would be the first has fixed it."""
        made, _, _ = self._state
        first = self._entries[0].event if self._entries else following
        return made if made is not None or first is None else self._rule.fixed_by(first)

    def spent(self) -> Spent:
        """What the filter has counted."""
        _, spent, number = self._state
        made = self.filter()
        if made is not None and number < len(self._entries):
            fresh = self._entries[number:]
            for event, same in groupby(entry.event for entry in fresh):
                spent = spent.plus(made.price(event), len(list(same)))
            self._state = made, spent, number + len(fresh)  # at once: an interrupt leaves the former state or this one
        return spent

    def require_room(self, event: Event, *, total: float) -> None:
        """Raises unless the event may be charged.

        A first charge may also be one that the accountant puts under the cap: its price was fixed beforehand.

        Args:
            event: what would be charged.
            total: the accountant's total with it.

        Raises:
            BudgetExceeded: it does not fit.
        """
        made, spent = self.filter(event), self.spent()
        assert made is not None
        if made.admits(spent, event) or (not self._entries and total <= self.max_epsilon):
            return
        after = spent.plus(made.price(event))
        if not made.allows_failures(after):
            there = rounded_up(float(after.failure_prob), 3)
            rule = f"failures of {rounded_down(made.failures_allowed, 3)} at most, there would be {there}"
        else:
            rule = f"at least {self._enough(event, total)}, the total with this release"
        raise BudgetExceeded(f"max_epsilon={self.max_epsilon}: expected {rule}, by the {made.name} filter")

    def _enough(self, event: Event, total: float) -> str:
        """A cap under which all charges and this one would be admitted, to six digits, each tried as it is named.

        The sum in the filter's unit, converted, need not be one: a filter for another cap may count at another order.
        """
        counts = Counter(entry.event for entry in self._entries)
        first = self._entries[0].event if self._entries else event

        def admits(cap: float) -> bool:
            if not self._entries and total <= cap:
                return True
            made, spent = self._rule.for_cap(cap).fixed_by(first), Spent()
            for each, count in counts.items():
                spent = spent.plus(made.price(each), count)
            return made.admits(spent, event)

        low = high = self.max_epsilon
        while not admits(high):
            low, high = high, 2 * high
            if high > _LARGEST_CAP:
                return "inf"
        for _ in range(_STEPS):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if admits(middle) else (middle, high)
        found = float(rounded_up(high))
        while not admits(found):  # an order of four digits changes in steps
            found = float(rounded_up(found * (1 + 1e-5)))
        return f"{found:.6g}"

    def epsilon(self) -> float:
        """What the charges have cost, by the filter; at most the cap, as nothing else was admitted."""
        made = self.filter()
        return 0.0 if made is None else min(made.epsilon_of(self.spent()), self.max_epsilon)

    def affords(self, event: Event, *, total: float) -> float:
        """How many times the event still fits."""
        made = self.filter(event)
        assert made is not None
        fits = made.affords(self.spent(), event)
        return 1 if not fits and not self._entries and total <= self.max_epsilon else fits

    def left(self) -> float | None:
        """What is left in the filter's unit; None before the first charge has fixed it."""
        made = self.filter()
        return None if made is None else max(0.0, made.budget - self.spent().amount)
