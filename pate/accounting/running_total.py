"""The total of an account's charges, kept while charges are added, for whatever order the releases were shown in."""

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
    """The different prices of the first charges, with how often each was charged."""

    counts: Counter[Event]
    num_charges: int


class _ComposedRows(NamedTuple):
    """The first charges as rows of equal prices: all rows but the last are composed."""

    ended_rows: Accountant | None  # None before the first charge
    last_row: list[tuple[Event, int]]  # at most one row, which the next charge may lengthen
    num_charges: int


class RunningTotal:
    """The total of the charges in a list of entries that grows, without composing all of them at each reading.

    Optimal composition holds for one order of its steps. An account does not know in which order its releases were
    shown, so the account's accountant serves where all orders are alike. Elsewhere an accountant serves whose figures
    hold for every order (docs/proofs/composition.md, "Any order").
    """

    def __init__(
        self, accountant: Callable[[], Accountant], entries: list[LedgerEntry], target_delta: float
    ) -> None:
        self._accountant = accountant
        self._any_order_accountant = in_any_order(accountant)
        self._entries = entries
        self._target_delta = target_delta
        self._counted = _CountedEvents(Counter(), 0)
        self._composed = _ComposedRows(None, [], 0)

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state without the composed rows: an accountant need not be one that can be pickled."""
        return vars(self) | {"_composed": _ComposedRows(None, [], 0)}

    def epsilon(self, following: tuple[Event, ...], *, interleaved: set[Event]) -> float:
        """Returns the epsilon of all charges and of the events that would follow.

        Args:
            following: events that are not charged yet.
            interleaved: prices of charges of which parts were drawn after a later charge.

        Raises:
            InvalidValue: an accountant does not know an event, or failures use up delta.
        """
        uncounted = self._entries[self._counted.num_charges :]
        if uncounted:
            counts = self._counted.counts + Counter(entry.event for entry in uncounted)
            num_charges = self._counted.num_charges + len(uncounted)
            self._counted = _CountedEvents(counts, num_charges)
        if self._any_order_accountant is not self._accountant:
            for event in following:
                # raises for an event that the ledger's accountant does not know
                self._accountant().compose(event)
            counts = self._counted.counts + Counter(following)
            if not counts:
                return 0.0
            interleaved_events = frozenset(
                event for event in counts if event in interleaved or is_session(event)
            )
            if have_one_order(counts, interleaved=interleaved_events):
                accountant = self._accountant().compose_all(counts.items())
                return accountant.get_epsilon(self._target_delta)
        return self._epsilon_in_any_order(following)

    def _epsilon_in_any_order(self, following: tuple[Event, ...]) -> float:
        """Returns an epsilon that holds for every order, from rows of equal events.

        Equal events in a row are composed as one event with its count. A row that has ended is composed once. The last
        row may still grow, so it is composed in a copy.
        """
        ended_rows, last_row, num_composed = self._composed
        uncomposed = self._entries[num_composed:]
        rows = event_rows([*last_row, *((entry.event, 1) for entry in uncomposed)])
        ended_rows = ended_rows or self._any_order_accountant()
        if len(rows) > 1:
            ended_rows = ended_rows.copy().compose_all(rows[:-1])
        # One assignment, so that an interrupt leaves either the former state or the new state.
        self._composed = _ComposedRows(ended_rows, rows[-1:], num_composed + len(uncomposed))
        open_rows = event_rows([*rows[-1:], *((event, 1) for event in following)])
        if not open_rows:
            return 0.0
        return ended_rows.copy().compose_all(open_rows).get_epsilon(self._target_delta)


def event_rows(counted: Iterable[tuple[Event, int]]) -> list[tuple[Event, int]]:
    """Returns events that are equal and follow each other as one event, with the sum of their counts."""
    return [
        (event, sum(count for _, count in row))
        for event, row in groupby(counted, key=itemgetter(0))
    ]
