"""Charges in their order: what each was for, what all of them come to, and whether one more fits under a cap."""

from __future__ import annotations

import json
import math
import os
import pwd
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from typing import Any, Self

from pate.accounting.accountant import Accountant
from pate.accounting.events import Event
from pate.accounting.filters import FilterRule, PrivacyFilter, Spent
from pate.accounting.serialization import event_from_json
from pate.files.strict_json import number
from pate.store import Line
from pate.validation import InvalidValue, rounded_down, rounded_up

_LONGEST = 1000
_LARGEST_CAP = 1e6
_STEPS = 40


@dataclass(frozen=True)
class Origin:
    """Where a charge came from; an empty string where that is not known.

    Attributes:
        time: UTC, ISO 8601.
        user: the login name, or the number of a user who has none.
        host: the machine's name.
        command: the program and its words, as a shell would take them, cut after 1,000 characters.
    """

    time: str = ""
    user: str = ""
    host: str = ""
    command: str = ""

    @classmethod
    def now(cls) -> Self:
        """That of this process; it never raises."""
        return cls(datetime.now(UTC).isoformat(timespec="milliseconds"), *_process(os.getpid()))


@dataclass(frozen=True)
class LedgerEntry:
    """One charge.

    Attributes:
        key: names the release within its account: the same key again costs nothing and gives the same bytes.
        event: its price.
        description: for people.
        epsilon: the total up to and including this charge, of the charges on the same data.
        data: the digest of the private data; empty where the ledger counts for one data set.
        draw: which draw of its run it paid for, from 1 on; a run draws again where `redraw` asks for it.
        noise: names a seed that the noise came from; empty for noise that nothing can repeat.
        origin: who charged, and when.
    """

    key: str
    event: Event
    description: str
    epsilon: float
    data: str = ""
    draw: int = 1
    noise: str = ""
    origin: Origin = Origin()

    @classmethod
    def of(cls, line: Line) -> Self:
        """That of a line of a store.

        Raises:
            ValueError: something else; `AttributeError`, `KeyError`, `RecursionError` and `TypeError` too.
        """
        about = json.loads(line.about)
        words = {name: str(about[name]) for name in ("description", "noise")}
        origin = Origin(**{name: str(about[name]) for name in ("time", "user", "host", "command")})
        event, epsilon = event_from_json(json.loads(line.event)), number(about["epsilon"])
        return cls(line.key, event, epsilon=epsilon, data=line.data, draw=int(about["draw"]), origin=origin, **words)


class BudgetExceeded(InvalidValue):
    """A charge would take the ledger above its budget. Nothing was charged, and nothing is shown."""


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


@lru_cache(maxsize=4)
def _process(number: int) -> tuple[str, str, str]:
    """User, host and command of this process, whose number keeps a fork from answering for its parent."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except (KeyError, OSError):
        user = str(os.getuid())
    return user, os.uname().nodename, shlex.join(map(str, getattr(sys, "argv", [])))[:_LONGEST]
