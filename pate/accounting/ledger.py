"""The ledger: what has been spent on private data, and what was released for it, on disk before anybody sees it."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from pate import validation
from pate.accounting.auto import AutoAccountant
from pate.accounting.events import Adjacency, Event, SampledGaussianEvent, count_leaves, event_from_json, event_to_json
from pate.accounting.exact import ExactAccountant
from pate.accounting.filters import FilterMaker, PrivacyFilter, Spent, default_filter, filter_from_json
from pate.accounting.joint_law import JointLawAccountant
from pate.accounting.pld import PldAccountant
from pate.accounting.pure_dp import PureDpAccountant
from pate.accounting.rdp import Accountant, RdpAccountant, ZCdpAccountant, require_maker
from pate.files.values import number, plain, to_json_line
from pate.store import DamagedLedger, Line, Store, damaged
from pate.validation import InvalidValue, require, require_choice, require_positive, require_probability

__all__ = ["BudgetExceeded", "DamagedLedger", "Ledger", "LedgerEntry", "SharedLedger"]

_VERSION = 3
_PUBLISHED = (RdpAccountant, ExactAccountant, PldAccountant, PureDpAccountant, ZCdpAccountant, JointLawAccountant)
_ACCOUNTANTS: dict[str, type[Accountant]] = {kind.name: kind for kind in (*_PUBLISHED, AutoAccountant)}
_LONGEST = 1000
_LARGEST_CAP = 1e6
_STEPS = 60


@dataclass(frozen=True)
class LedgerEntry:
    """One charge."""

    key: str  # names the release within its account: the same key again costs nothing and gives the same bytes
    event: Event  # its price
    description: str  # for people
    epsilon: float  # the total up to and including this charge, of the charges on the same data
    data: str = ""  # the digest of the private data; empty where the ledger counts for one data set
    draw: int = 1  # which draw of its run it paid for, from 1 on; a run draws again where `redraw` asks for it
    noise: str = ""  # names a seed that the noise came from; empty for noise that nothing can repeat
    time: str = ""  # UTC, ISO 8601
    user: str = ""  # the login name, or the number of a user who has none
    host: str = ""  # the machine's name
    command: str = ""  # the program and its words, as a shell would take them, cut after 1,000 characters


class BudgetExceeded(InvalidValue):
    """A charge would take the ledger above its budget. Nothing was charged, and nothing is shown."""


class Cap:
    """One cap on the charges of one data set, which `entries`, a list that grows, holds.

    The first charge fixes the filter, which may depend on it as nothing was released before. A first charge may also be
    one that the accountant puts under the cap: its price was fixed beforehand.
    """

    def __init__(self, rule: PrivacyFilter, entries: list[LedgerEntry]) -> None:
        self.max_epsilon, self._rule, self._entries = rule.max_epsilon, rule, entries
        self._state: tuple[PrivacyFilter | None, Spent, int] = None, Spent(), 0  # made, spent; charges in it

    def filter(self, following: Event | None = None) -> PrivacyFilter | None:
        """The filter; None while neither a charge nor one that would be the first has fixed it."""
        first = self._entries[0].event if self._entries else following
        return self._state[0] or (None if first is None else self._rule.fixed_by(first))

    def spent(self) -> Spent:
        _, spent, number = self._state
        made, fresh = self.filter(), self._entries[number:]
        if made is not None and fresh:
            for event, count in _in_rows((entry.event, 1) for entry in fresh):
                spent = spent.plus(made.price(event), count)
            self._state = made, spent, number + len(fresh)  # at once: an interrupt leaves the former state or this one
        return spent

    def affords(self, event: Event, *, total: float) -> float:
        """How many times the event still fits; `total` is the accountant's total with it."""
        made = self.filter(event)
        fits = 0 if made is None else made.affords(self.spent(), event)
        return 1 if not fits and not self._entries and total <= self.max_epsilon else fits

    def require_room(self, event: Event, *, total: float) -> None:
        made, spent = self.filter(event), self.spent()
        assert made is not None
        if made.admits(spent, event) or (not self._entries and total <= self.max_epsilon):
            return
        after = spent.plus(made.price(event))
        if made.allows_failures(after):
            rule = f"at least {self._enough(event, total)}, the total with this release"
        else:
            there = validation.rounded_up(float(after.failure_prob), 3)
            rule = f"failures of {validation.rounded_down(made.failures_allowed, 3)} at most, there would be {there}"
        raise BudgetExceeded(f"max_epsilon={self.max_epsilon}: expected {rule}, by the {made.name} filter")

    def _enough(self, event: Event, total: float) -> str:
        """A cap under which all charges and this one would be admitted, to six digits, each tried as it is named.

        The sum in the filter's unit, converted, need not be one: a filter for another cap may count at another order.
        """
        counts = Counter(entry.event for entry in self._entries)
        first = self._entries[0].event if self._entries else event

        def admits(cap: float) -> bool:
            made, spent = self._rule.for_cap(cap).fixed_by(first), Spent()
            for each, count in counts.items():
                spent = spent.plus(made.price(each), count)
            return made.admits(spent, event) or (not self._entries and total <= cap)

        low, high = self.max_epsilon, max(self.max_epsilon, _LARGEST_CAP)
        if not admits(high):
            return "inf"
        for _ in range(_STEPS):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if admits(middle) else (middle, high)
        found = float(validation.rounded_up(high))
        while not admits(found):  # an order of four digits changes in steps
            found = float(validation.rounded_up(found * (1 + 1e-5)))
        return f"{found:.6g}"


def _in_rows(counted: Iterable[tuple[Event, int]]) -> list[tuple[Event, int]]:
    """Equal events that follow each other, as one with its count."""
    return [(event, sum(count for _, count in same)) for event, same in groupby(counted, key=itemgetter(0))]


class SharedLedger:
    """A ledger file that counts for several data sets, safe for processes at once.

    The cap holds for each data set by itself. Which records two data sets share is not known here: whoever is in both
    is protected at what both cost together.

    Arguments, errors and `path` are those of `Ledger`; delta is that of every total, the cap that of each data set.

    >>> import tempfile
    >>> from pate.accounting import GaussianEvent
    >>> folder = tempfile.TemporaryDirectory()
    >>> shared = SharedLedger(f"{folder.name}/ledger.db", target_delta=1e-6, max_epsilon=4.0)
    >>> shared.account("digest of the first").affords(GaussianEvent(30.0))
    559
    >>> _ = shared.account("digest of the first").charge(GaussianEvent(2.0), adjacency="replace_one", key="a release")
    >>> [shared.account(data).affords(GaussianEvent(30.0)) for data in ("digest of the first", "of the second")]
    [334, 559]
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Store | None,
        *,
        target_delta: float,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        accountant: Callable[[], Accountant] = RdpAccountant,
        max_epsilon: float | None = None,
        filter: FilterMaker | None = None,
    ) -> None:
        self.adjacency, self.accountant = Adjacency.parse(adjacency), require_maker(accountant)
        self.target_delta = require_probability("target_delta", target_delta)
        cap = None if max_epsilon is None else require_positive("max_epsilon", max_epsilon)
        require(filter is None or cap is not None, "filter", filter, "a max_epsilon beside it")
        require(filter is None or callable(filter), "filter", filter, "a class such as RenyiFilter, uncalled")
        empty = accountant()
        rule = None if cap is None else (filter or default_filter(empty))(cap, self.target_delta)
        asked = {
            "ledger": _VERSION,
            "adjacency": str(self.adjacency),
            "target_delta": self.target_delta,
            "accountant": {"name": empty.name} | empty.parameters,
            "max_epsilon": cap,
            "filter": None if rule is None else rule.to_json(),
        }
        self.store = path if isinstance(path, Store) else Store(path, asked)
        self.path = self.store.path
        # What decides, the tightest first: a cap may be as tight as the file's, or tighter beside it.
        self.rules = [] if rule is None else [rule]
        found, asked, place = self.store.settings, json.loads(to_json_line(asked)), f"ledger={self.path}"
        require(found.get("ledger") == _VERSION, "ledger", self.path, "a ledger of this version")
        for name in ("adjacency", "target_delta", "accountant"):
            here, there = found.get(name), asked[name]
            require(here == there, name, _words(there), f"{_words(here)}, as {place} counts")
        there = found.get("max_epsilon")
        if there is None or found.get("filter") is None:
            return
        require(cap is None or cap <= there, "max_epsilon", cap, f"at most {there}, the cap of {place}")
        if cap == there and filter is not None:
            decides = f"{_words(found['filter'])}, which decides in {place}"
            require(asked["filter"] == found["filter"], "filter", _words(asked["filter"]), decides)
        stored = filter_from_json(found["filter"], max_epsilon=there, target_delta=self.target_delta)
        self.rules = [stored] if cap in (None, there) else [*self.rules, stored]

    @classmethod
    def stored(cls, path: str | os.PathLike[str]) -> SharedLedger:
        """The ledger of a file that exists, under its own settings; raises where its accountant is somebody's own."""
        store = Store(path, None)
        found = store.settings
        try:
            require(found["ledger"] == _VERSION, "ledger", store.path, "a ledger of this version")
            values = dict(found["accountant"])
            kind = _ACCOUNTANTS[require_choice("accountant", str(values.pop("name")), tuple(_ACCOUNTANTS))]
            delta, adjacency = number(found["target_delta"]), Adjacency(found["adjacency"])
        except (AttributeError, KeyError, TypeError) as error:
            raise damaged(store.path, "the settings of a ledger in its head") from error
        return cls(store, target_delta=delta, adjacency=adjacency, accountant=partial(kind, **values))

    @property
    def entries(self) -> list[LedgerEntry]:
        """All charges, of whichever data set, in the order of their commits."""
        self.store.read()
        return [_entry(line, self.path) for line in self.store.lines if not line.under]

    @property
    def data(self) -> list[str]:
        """The digests of all data sets that something was charged to, in the order of their first charges."""
        return list(dict.fromkeys(entry.data for entry in self.entries if entry.data))

    def account(self, data: str) -> Ledger:
        """The ledger of one data set, by a digest of its records, the same in every run; not of computed features."""
        require(isinstance(data, str) and data != "", "data", type(data).__name__, "a digest that is not empty")
        return Ledger.__new__(Ledger)._open(self, data)


class Ledger:
    """An append-only record of charges and of what was released for them, in memory or in a file.

    `once` draws, charges and commits in one transaction, so a crash at any moment leaves both or neither. `charge` does
    it for a release that the ledger is not given. The file is SQLite; its lines are chained by digests, and one that
    was edited, shortened or exchanged raises `DamagedLedger`.

    What the figures bound: with prices fixed before the first release, `epsilon`. With prices chosen on the way, the
    cap, `max_epsilon`, which a privacy filter decides (docs/proofs/filters.md); `epsilon` is then the accountant's
    figure for these events and no more.

    Args:
        path: the file, made if missing; None keeps the ledger in memory, and in this process. Raises for a file that
            was written for another adjacency, delta, accountant or filter, has a tighter cap, or is no ledger.
        adjacency: what all events are priced for.
        target_delta: in (0, 1).
        accountant: makes an empty accountant.
        max_epsilon: a charge that would exceed it is refused; None for no limit but the file's own. A new file stores
            it. In a file that exists it may be tighter than what is stored, for this object alone; that is a
            guarantee only where it was fixed before the first release.
        filter: makes what decides for the cap, from (max_epsilon, target_delta): `RenyiFilter`, `ZCdpFilter`,
            `GaussianFilter` or a partial of one; None for what goes with the accountant, or what the file has stored.
        data: the digest of the private data, in a file that counts for several data sets; see `SharedLedger`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        target_delta: float,
        accountant: Callable[[], Accountant] = RdpAccountant,
        max_epsilon: float | None = None,
        filter: FilterMaker | None = None,
        data: str = "",
    ) -> None:
        settings: dict[str, Any] = {"adjacency": adjacency, "accountant": accountant, "filter": filter}
        self._open(SharedLedger(path, target_delta=target_delta, max_epsilon=max_epsilon, **settings), data)

    @classmethod
    def stored(cls, path: str | os.PathLike[str], *, data: str = "") -> Ledger:
        """The ledger of a file that exists, as `SharedLedger.stored` opens it."""
        return cls.__new__(cls)._open(SharedLedger.stored(path), data)

    def _open(self, shared: SharedLedger, data: str) -> Ledger:
        require(isinstance(data, str), "data", type(data).__name__, "the digest of a data set, as a string")
        self.adjacency, self.target_delta, self._accountant = shared.adjacency, shared.target_delta, shared.accountant
        self.data, self.path, self._store = data, shared.path, shared.store
        self._entries = list[LedgerEntry]()
        self._looked = (0, 0)
        self._named = data
        # Of the total: rows of equal charges that have ended, composed; the last row; the number of charges in both.
        self._composed: tuple[Accountant | None, list[tuple[Event, int]], int] = None, [], 0
        self._caps = [Cap(rule, self._entries) for rule in shared.rules]
        self.max_epsilon = self._caps[0].max_epsilon if self._caps else None
        self._take()
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Copies compose anew: an accountant need not be one that can be sent to another process."""
        return vars(self) | {"_composed": (None, [], 0)}

    @property
    def entries(self) -> list[LedgerEntry]:
        """All charges on this data set, in the order of their commits, those of other processes included."""
        return self._read().copy()

    @property
    def epsilon(self) -> float:
        """The accountant's total at `target_delta`, a bound where prices were fixed before the first release."""
        self._read()
        return self._total()

    @property
    def spent_epsilon(self) -> float:
        """What the charges have cost: with a cap by its filter, which bounds choices on the way too; else `epsilon`."""
        self._read()
        if not self._caps:
            return self._total()
        made = self._caps[0].filter()  # it admits nothing beyond its cap
        return 0.0 if made is None else min(made.epsilon_of(self._caps[0].spent()), self._caps[0].max_epsilon)

    @property
    def filter(self) -> PrivacyFilter | None:
        """What decides for the cap; None without a cap, and before the first charge."""
        self._read()
        return self._caps[0].filter() if self._caps else None

    @property
    def left(self) -> float | None:
        """What the cap leaves, in `filter.unit`; None without a cap, and before the first charge."""
        made = self.filter
        return None if made is None else max(0.0, made.budget - self._caps[0].spent().amount)

    def affords(self, event: Event) -> float:
        """How many times an event still fits under the cap; infinity where nothing stops it; raises without a price."""
        self._read()
        total = self._total(event)
        return min((cap.affords(event, total=total) for cap in self._caps), default=math.inf)

    def price(self, event: Event) -> float:
        """What an event costs by itself, by the ledger's accountant; infinity where its failures use up delta."""
        try:
            return self._accountant().compose(event).get_epsilon(self.target_delta)
        except InvalidValue:
            return math.inf

    def charge(self, event: Event, *, adjacency: Adjacency, key: str = "", description: str = "") -> LedgerEntry:
        """Writes a charge for a release that the ledger is not given; only after this may anything be drawn.

        Charging the same key and event again costs nothing, so a key has to stand for one release; an empty one makes
        this a new release. Arguments and errors are those of `once`.
        """
        key = key or uuid.uuid4().hex
        self.once(key, event, bytes, adjacency=adjacency, description=description)
        return next(entry for entry in reversed(self._entries) if entry.key == key)

    def once(
        self,
        key: str,
        event: Event,
        draw: Callable[[], bytes],
        *,
        adjacency: Adjacency,
        description: str = "",
        run: str = "",
        noise: str = "",
    ) -> bytes:
        """The release of a key: read back; or drawn, charged and committed in one transaction.

        Args:
            key: names all that the release is a function of; the same key gives the same bytes for ever.
            event: the price.
            draw: makes the bytes, and shows them to nobody. It runs outside of the lock; of two processes that draw at
                once, one is committed and both are given its bytes.
            adjacency: what the event was made for.
            description: for people.
            run: what the keys of all draws of one run begin with; the number of this draw is decided by it, inside of
                the transaction.
            noise: names a seed; see `LedgerEntry`.

        Raises:
            BudgetExceeded: the cap does not allow it. Nothing was charged.
            InvalidValue: another release drew from that seed; the event was made for another adjacency; the key stands
                for another event.
        """
        require(adjacency == self.adjacency, "adjacency", adjacency, f"{self.adjacency}, as this ledger counts")
        self._require_same_adjacency(event)
        price = event_to_json(event)
        event_from_json(price)  # no charge is written that cannot be read back
        total, admitted = 0.0, -1

        def admit() -> None:
            """Asked beforehand, and under the lock, where what another process has charged meanwhile counts."""
            nonlocal total, admitted
            if self.has_noise(noise, but=run or key):
                raise InvalidValue(f"noise={noise}: expected fresh noise, another release drew from this seed")
            if len(self._take()) != admitted:
                total, admitted = self._total(event), len(self._entries)
                for cap in self._caps:
                    cap.require_room(event, total=total)

        def about() -> dict[str, Any]:
            number = 1 + sum(bool(run) and entry.key.startswith(run) for entry in self._entries)
            values = {"description": description, "epsilon": plain(total), "draw": number, "noise": noise}
            return values | {"time": datetime.now(UTC).isoformat(timespec="milliseconds")} | _process(os.getpid())

        self._read()  # which may find out the account's name
        account, text = self._account_of(key), to_json_line(price)
        known = self._store.find(account, key)
        if known is not None and known.event and event_from_json(json.loads(known.event)) == event:
            text = known.event  # equal events may be written otherwise, as 2 and 2.0
        _, release = self._store.once(account, key, draw, event=text, about=about, admit=admit)
        self._take()
        return release

    def add(self, key: str, under: str, draw: Callable[[], bytes]) -> bytes:
        """What is drawn later under a charge that has paid for it too, as later rounds of a release are; as `once`."""
        self._read()
        return self._store.once(self._named, key, draw, under=under)[1]

    def read(self, key: str) -> bytes | None:
        """What was released under a key, or None."""
        self._read()
        line = self._store.find(self._account_of(key), key)
        return None if line is None else self._store.release(line)

    @property
    def keys(self) -> list[str]:
        """Of all that was released, in the order of the commits: of charges, and of what was drawn under them."""
        self._read()
        return [line.key for line in self._store.lines if line.data in ("", self._named)]

    def introduce(self, owners: Mapping[str, frozenset[bytes]], *, anyway: bool = False) -> dict[str, int]:
        """Makes the owners of this data set known; see `Store.introduce`."""
        return self._store.introduce(self._named, owners, anyway=anyway)

    def has_noise(self, noise: str, *, but: str = "") -> bool:
        """Whether another release of the file, of whichever data set, drew from that seed, as `once` names it.

        Keys that begin with `but` are those of the same release. Prices add up for fresh noise only: the difference of
        two sums with the same noise has none.
        """
        lines = self._store.lines if noise else []
        others = (line for line in lines if not line.under and not (but and line.key.startswith(but)))
        return any(_entry(line, self.path).noise == noise for line in others)

    def _total(self, *following: Event) -> float:
        """The accountant's total of the charges and of an event that would follow.

        Equal events in a row are composed as one with its count, which prices many small releases in time. Their order
        stays: a bound for the best play against events in their order need not hold for another one. Rows that have
        ended are composed once; a reading adds the last one to a copy.
        """
        ended, last, number = self._composed
        fresh = self._entries[number:]
        rows = _in_rows([*last, *((entry.event, 1) for entry in fresh)])
        ended = ended or self._accountant()
        ended = ended.copy().compose_all(rows[:-1]) if len(rows) > 1 else ended
        self._composed = ended, rows[-1:], number + len(fresh)  # at once: an interrupt leaves the former state
        rows = _in_rows([*rows[-1:], *((event, 1) for event in following)])
        return ended.copy().compose_all(rows).get_epsilon(self.target_delta) if rows else 0.0

    def _require_same_adjacency(self, event: Event) -> None:
        """Of a sampled Gaussian, the one event whose price is not the same for both."""
        for sampled in count_leaves(event).get(SampledGaussianEvent, ([], []))[0]:
            made_for = getattr(sampled, "adjacency", self.adjacency)
            require(made_for == self.adjacency, "event.adjacency", made_for, f"{self.adjacency}, as this ledger counts")

    def _account_of(self, key: str) -> str:
        """Where a key is, or will be: a charge that names no data counts for every data set."""
        return "" if self._store.find("", key) is not None else self._named

    def _read(self) -> list[LedgerEntry]:
        self._store.read()
        return self._take()

    def _take(self) -> list[LedgerEntry]:
        """Takes over the charges on this data set among the lines that were read; raises if none of two was named."""
        with self._store.lock:
            (looked, count), lines, mine = self._looked, self._store.lines, []
            for line in lines[looked:]:
                if not self.data and line.data and line.data != self._named:
                    rule = "the digest of one data set, this ledger counts for several"
                    require(not self._named, "data", "''", rule)
                    self._named = line.data
                if not line.under and line.data in ("", self._named):
                    mine.append(_entry(line, self.path))
                    self._require_same_adjacency(mine[-1].event)
            del self._entries[count:]  # what an interrupted call left behind
            self._entries += mine
            self._looked = len(lines), len(self._entries)  # at once, and last: an interrupt forgets no charge
            return self._entries


@lru_cache(maxsize=4)
def _process(number: int) -> dict[str, str]:
    """User, host and command of this process, whose number keeps a fork from answering for its parent."""
    try:
        import pwd  # POSIX alone has it

        user = pwd.getpwuid(os.getuid()).pw_name
    except ImportError:
        user = os.environ.get("USERNAME", "")
    except (KeyError, OSError):
        user = str(os.getuid())
    host = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    command = shlex.join(map(str, getattr(sys, "argv", [])))[:_LONGEST]
    return {"user": user, "host": host, "command": command}


def require_ledger(ledger: Any) -> Ledger:
    """Returns the ledger, or raises: a path alone names neither adjacency nor delta."""
    if not isinstance(ledger, Ledger):
        raise InvalidValue(f"ledger={ledger}: expected a pate.accounting.Ledger, such as Ledger(PATH, target_delta=…)")
    return ledger


def _entry(line: Line, path: Path | None) -> LedgerEntry:
    try:
        about = json.loads(line.about)
        words = {name: str(about[name]) for name in ("description", "noise", "time", "user", "host", "command")}
        event, epsilon = event_from_json(json.loads(line.event)), number(about["epsilon"])
        return LedgerEntry(line.key, event, epsilon=epsilon, data=line.data, draw=int(about["draw"]), **words)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise damaged(path, f"a charge on line {line.number}") from error


def _words(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    inside = ", ".join(f"{key}={str(each)[:40]}" for key, each in value.items() if key != "name")
    return f"{value.get('name', 'none')}" + (f"({inside})" if inside else "")
