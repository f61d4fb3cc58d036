"""The total of charges in their order, to which one more is added without composing the earlier ones anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from pate.accounting.accountant import Accountant
from pate.accounting.events import Event
from pate.accounting.ledger.entry import LedgerEntry

Runs = list[tuple[Event, int]]


class RunningTotal:
    """What an accountant says of a list of charges that grows.

    Equal events that follow each other are composed as one event with its count, which prices many small releases in
    time. The order of the events stays: a bound for the best play against events in their order need not hold for
    another order. Runs of equal events that have ended are composed once; a reading adds the last run to a copy.

    Args:
        entries: the list itself; charges are added to it and never taken away.
        accountant: makes an empty accountant.
        target_delta: in (0, 1).
    """

    def __init__(self, entries: list[LedgerEntry], accountant: Callable[[], Accountant], target_delta: float) -> None:
        self._entries = entries
        self._accountant, self._target_delta = accountant, target_delta
        self._state: tuple[Accountant | None, Runs, int] = None, [], 0  # ended runs; the last run; charges in both

    def __getstate__(self) -> dict[str, Any]:
        """Copies compose anew: an accountant need not be one that can be sent to another process."""
        return vars(self) | {"_state": (None, [], 0)}

    def epsilon(self, following: Event | None = None) -> float:
        """The total of the charges; with the event that would follow, if there is one.

        Raises:
            InvalidValue: an event that the accountant cannot price, or failures that use up delta.
        """
        ended, last, number = self._state
        ended = self._accountant() if ended is None else ended
        fresh = self._entries[number:]
        runs = _extended(last, [entry.event for entry in fresh])
        if len(runs) > 1:
            ended = _composed(ended, runs[:-1])
        self._state = ended, runs[-1:], number + len(fresh)  # at once: an interrupt leaves the former state or this one
        runs = _extended(runs[-1:], [] if following is None else [following])
        return _composed(ended, runs).get_epsilon(self._target_delta) if runs else 0.0


def _extended(runs: Runs, events: Iterable[Event]) -> Runs:
    """A run, or none, and the events after it as runs of equal ones."""
    made = list(runs)
    for event, same in groupby(events):
        count = len(list(same))
        if made and made[-1][0] == event:
            count += made.pop()[1]
        made.append((event, count))
    return made


def _composed(accountant: Accountant, runs: Runs) -> Accountant:
    """A copy of an accountant to which runs were added."""
    spent = accountant.copy()
    for event, count in runs:
        spent.compose(event, count)
    return spent
