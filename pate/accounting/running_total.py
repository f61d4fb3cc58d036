"""The running total of an account's charges: an epsilon that holds in whatever order the releases were shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from pate.accounting.accountant import Accountant
from pate.accounting.events import Event
from pate.accounting.ledger_entry import LedgerEntry
from pate.accounting.total import have_one_order, in_any_order, is_session


class _CountedEvents(NamedTuple):
    """The distinct prices of the first `num_charges` charges, with the number of charges at each price."""

    count_of_event: Counter[Event]
    num_charges: int


class _ComposedCharges(NamedTuple):
    """The first `num_charges` charges, grouped into rows of consecutive equal prices.

    All rows but the last are composed in one accountant.
    """

    accountant_of_ended_rows: Accountant | None  # None before the first charge
    # at most one row, which the next charge may lengthen
    last_counted_events: list[tuple[Event, int]]
    num_charges: int


class RunningTotal:
    """The total epsilon of the charges in a growing list; a later total does not go through all charges again.

    Optimal composition gives a bound for one order of the releases. An account does not know the order in which its
    releases were shown. So the account's accountant is used only where the order of the charges does not change the
    bound. Otherwise an accountant is used whose bounds hold for every order (docs/proofs/composition.md, "Any order").

    Args:
        make_accountant: makes the empty accountant of the account.
        entries: the charges, in the order of their commits. The caller appends later charges to this list.
        target_delta: the delta of the total.
    """

    def __init__(
        self,
        make_accountant: Callable[[], Accountant],
        entries: list[LedgerEntry],
        target_delta: float,
    ) -> None:
        self._make_accountant = make_accountant
        self._make_any_order_accountant = in_any_order(make_accountant)
        self._entries = entries
        self._target_delta = target_delta
        self._counted = _CountedEvents(count_of_event=Counter(), num_charges=0)
        self._composed = _ComposedCharges(
            accountant_of_ended_rows=None, last_counted_events=[], num_charges=0
        )

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state for pickling, without the composed rows, because some accountants cannot be pickled."""
        no_rows = _ComposedCharges(
            accountant_of_ended_rows=None, last_counted_events=[], num_charges=0
        )
        return vars(self) | {"_composed": no_rows}

    def epsilon(
        self, following_events: tuple[Event, ...], *, interleaved_charge_events: set[Event]
    ) -> float:
        """Returns the total epsilon of all charges and of further events that are not charged yet.

        Args:
            following_events: the further events.
            interleaved_charge_events: the prices of releases that were drawn in parts, with another release charged
                between two of their parts.

        Raises:
            InvalidValue: an accountant cannot price an event, or the failure probabilities sum to delta or more.
        """
        uncounted_entries = self._entries[self._counted.num_charges :]
        if uncounted_entries:
            count_of_event = self._counted.count_of_event + Counter(
                entry.event for entry in uncounted_entries
            )
            num_charges = self._counted.num_charges + len(uncounted_entries)
            self._counted = _CountedEvents(count_of_event=count_of_event, num_charges=num_charges)
        if self._make_any_order_accountant is not self._make_accountant:
            for event in following_events:
                # raises for an event that the ledger's accountant does not know
                self._make_accountant().compose(event)
            count_of_event = self._counted.count_of_event + Counter(following_events)
            if not count_of_event:
                return 0.0
            interleaved_events = frozenset(
                event
                for event in count_of_event
                if event in interleaved_charge_events or is_session(event)
            )
            if have_one_order(count_of_event, interleaved_events=interleaved_events):
                accountant = self._make_accountant().compose_all(count_of_event.items())
                return accountant.get_epsilon(self._target_delta)
        return self._epsilon_in_any_order(following_events)

    def _epsilon_in_any_order(self, following_events: tuple[Event, ...]) -> float:
        """Returns a total epsilon of all charges and further events that holds for every order of the releases.

        Consecutive equal events form a row, which is composed as one event with a count. All rows but the last are
        composed once, and the accountant is kept. The last row may still grow, so it is composed in a copy of that
        accountant.

        Args:
            following_events: the further events, which are not charged yet.
        """
        accountant_of_ended_rows, last_counted_events, num_composed = self._composed
        uncomposed_entries = self._entries[num_composed:]
        counted_event_rows = event_rows(
            [*last_counted_events, *((entry.event, 1) for entry in uncomposed_entries)]
        )
        accountant_of_ended_rows = accountant_of_ended_rows or self._make_any_order_accountant()
        if len(counted_event_rows) > 1:
            accountant_of_ended_rows = accountant_of_ended_rows.copy().compose_all(
                counted_event_rows[:-1]
            )
        # One assignment, so that an interrupt leaves either the former state or the new state.
        self._composed = _ComposedCharges(
            accountant_of_ended_rows=accountant_of_ended_rows,
            last_counted_events=counted_event_rows[-1:],
            num_charges=num_composed + len(uncomposed_entries),
        )
        open_event_rows = event_rows(
            [*counted_event_rows[-1:], *((event, 1) for event in following_events)]
        )
        if not open_event_rows:
            return 0.0
        return (
            accountant_of_ended_rows.copy()
            .compose_all(open_event_rows)
            .get_epsilon(self._target_delta)
        )


def event_rows(counted_events: Iterable[tuple[Event, int]]) -> list[tuple[Event, int]]:
    """Returns the events with consecutive equal events merged into one pair of an event and the sum of their counts.

    Args:
        counted_events: pairs of an event and its count, in order.
    """
    # The events are in the order of their charges, and not sorted, so equal events may form several rows.
    return [
        (event, sum(count for _, count in row))
        for event, row in groupby(counted_events, key=itemgetter(0))
    ]
