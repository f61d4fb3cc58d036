"""The ledger: what has been spent on private data, and what was released for it, on disk before anybody sees it."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shlex
import sys
import uuid
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from pate import validation
from pate.accounting.adjacency import Adjacency
from pate.accounting.auto import AutoAccountant
from pate.accounting.event_json import event_from_json, event_to_json
from pate.accounting.event_tree import count_leaves, failure_probability
from pate.accounting.events import Event, SampledGaussianEvent
from pate.accounting.exact import ExactAccountant
from pate.accounting.filters import (
    FilterMaker,
    PrivacyFilter,
    RenyiFilter,
    Spent,
    default_filter,
    filter_from_json,
)
from pate.accounting.joint_law import JointLawAccountant
from pate.accounting.pld import PldAccountant
from pate.accounting.pure_dp import PureDpAccountant
from pate.accounting.rdp import Accountant, RdpAccountant, ZCdpAccountant, require_maker
from pate.accounting.total import have_one_order, in_any_order, is_session
from pate.accounting.unit import PrivacyUnit
from pate.files.strict_json import number, plain, to_json_line
from pate.store import DamagedLedger, Line, LineText, Store, damaged
from pate.validation import (
    InvalidValue,
    require,
    require_choice,
    require_positive,
    require_probability,
)

__all__ = [
    "AccountStatement",
    "BudgetExceeded",
    "ChargeNote",
    "DamagedLedger",
    "Ledger",
    "LedgerEntry",
    "SharedLedger",
]

_VERSION = 3
_PUBLISHED = (
    RdpAccountant,
    ExactAccountant,
    PldAccountant,
    PureDpAccountant,
    ZCdpAccountant,
    JointLawAccountant,
)
_ACCOUNTANTS: dict[str, type[Accountant]] = {
    kind.name: kind for kind in (*_PUBLISHED, AutoAccountant)
}
_LONGEST = 1000
_OTHER_NOISE = "fresh noise, another release drew from this seed"
_NO_TOTAL = "a ledger without a cap: releases in it share their noise, and no epsilon covers them"
_CAPS = range(18 * 900_000)  # places of all numbers of six digits from 1e-12 up to 1e6


@dataclass(frozen=True)
class LedgerEntry:
    """One charge."""

    # names the release within its account: the same key again costs nothing and gives the same
    # bytes
    key: str
    event: Event  # its price
    description: str  # for people
    epsilon: float  # the total up to and including this charge, of the charges on the same data
    data: str = ""  # the digest of the private data; empty where the ledger counts for one data set
    # which draw of its run it paid for, from 1 on; a run draws again where `redraw` asks for it
    draw: int = 1
    # names a seed that the noise came from; empty for noise that nothing can repeat
    noise: str = ""
    time: str = ""  # UTC, ISO 8601
    user: str = ""  # the login name, or the number of a user who has none
    host: str = ""  # the machine's name
    # the program and its words, as a shell would take them, cut after 1,000 characters
    command: str = ""
    # what the price is for; None where nobody said, as in earlier versions
    unit: PrivacyUnit | None = None


@dataclass(frozen=True, kw_only=True)
class ChargeNote:
    """Notes of a charge beside its price."""

    description: str = ""  # for people
    run: str = ""  # keys of the same run begin with it: its draws are numbered
    # names a seed that the noise came from; empty for noise that nothing can repeat
    noise: str = ""
    # whether it is charged although another release has drawn from the seed; no epsilon covers both then
    may_share_noise: bool = False


_NO_NOTE = ChargeNote()


@dataclass(frozen=True, kw_only=True)
class AccountStatement:
    """The total of one account, all of it as of one reading of the file."""

    num_charges: int
    epsilon: float  # `Ledger.epsilon`
    spent_epsilon: float  # `Ledger.spent_epsilon`
    unit: PrivacyUnit | None  # `Ledger.unit`
    num_without_unit: int  # `Ledger.num_without_unit`
    noise_is_shared: bool  # `Ledger.noise_is_shared`


class BudgetExceeded(InvalidValue):
    """A charge would take the ledger above its budget. Nothing was charged, and nothing is shown."""


class Cap:
    """One cap on the charges of one data set, which `entries`, a list that grows, holds.

    The first charge fixes the filter, which may depend on it as nothing was released before. A first charge may also be
    one that an accountant puts under the cap: its price, `first`, was fixed beforehand. Of a later charge `first` is
    infinity.
    """

    def __init__(self, rule: PrivacyFilter, entries: list[LedgerEntry]) -> None:
        self.rule = rule
        self._entries = entries
        # and how many charges are in it
        self._state: tuple[PrivacyFilter | None, Spent, int] = None, Spent(), 0

    def state(self) -> tuple[PrivacyFilter | None, Spent]:
        """The filter, None before the first charge, and what it has counted."""
        fixed_filter, spent, number = self._state
        if fresh := self._entries[number:]:
            fixed_filter = fixed_filter or self.rule.fixed_by(fresh[0].event)
            for event, count in _in_rows((entry.event, 1) for entry in fresh):
                spent = spent.plus(fixed_filter.price(event), count)
            # at once: an interrupt leaves the former state or this one
            self._state = fixed_filter, spent, number + len(fresh)
        return fixed_filter, spent

    def affords(self, event: Event, *, first: float) -> float:
        """How many times the event still fits."""
        fixed_filter, spent = self.state()
        fits = (fixed_filter or self.rule.fixed_by(event)).affords(spent, event)
        return fits or int(first <= self.rule.max_epsilon)

    @property
    def failures_left(self) -> float | None:
        """The failure probability that later charges may have in all; None before the first charge."""
        fixed_filter, spent = self.state()
        if fixed_filter is None:
            return None
        return max(0.0, fixed_filter.failures_allowed - float(spent.failure_prob))

    def require_room(self, event: Event, *, first: float) -> None:
        """Raises `BudgetExceeded` where the event does not fit."""
        fixed_filter, spent = self.state()
        deciding_filter = fixed_filter or self.rule.fixed_by(event)
        if deciding_filter.admits(spent, event) or first <= deciding_filter.max_epsilon:
            return
        price = deciding_filter.price(event)
        if not deciding_filter.allows_failures(spent.plus(price)):
            failures_left = validation.rounded_down(
                max(deciding_filter.failures_allowed - float(spent.failure_prob), 0.0), 3
            )
            failures_of_release = validation.rounded_up(float(price.failure_prob), 3)
            rule = (
                f"a release whose failures take at most {failures_left} of "
                f"target_delta={deciding_filter.target_delta}, not {failures_of_release}"
            )
            remedy = "a smaller failure_prob fits, which calibrated(ledger=…) chooses"
            rule = f"{rule}; {remedy}"
            raise BudgetExceeded(
                "max_epsilon", deciding_filter.max_epsilon, rule=rule, owner="ledger"
            )
        rule = f"at least {self._enough(event, first)}, the total with this release"
        rule = f"{rule}, by the {deciding_filter.name} filter"
        raise BudgetExceeded("max_epsilon", deciding_filter.max_epsilon, rule=rule, owner="ledger")

    def _enough(self, event: Event, first: float) -> str:
        """A cap under which all charges and this one would be admitted, to six digits, each tried as it is named.

        The sum in the filter's unit, converted, need not be one: a filter for another cap may count at another order.
        """
        counts = Counter(entry.event for entry in self._entries)

        def admits(cap: float) -> bool:
            filter_for_cap = self.rule.for_cap(cap).fixed_by(next(iter(counts), event))
            spent = Spent()
            for charged_event, count in counts.items():
                spent = spent.plus(filter_for_cap.price(charged_event), count)
            return filter_for_cap.admits(spent, event) or first <= cap

        def cap(place: int) -> float:
            return float(f"{100_000 + place % 900_000}e{place // 900_000 - 17}")

        place = bisect_left(
            _CAPS, True, key=lambda at: cap(at) > self.rule.max_epsilon and admits(cap(at))
        )
        return f"{cap(place):g}" if place in _CAPS else "inf"


def _in_rows(counted: Iterable[tuple[Event, int]]) -> list[tuple[Event, int]]:
    """Equal events that follow each other, as one with its count."""
    return [
        (event, sum(count for _, count in same))
        for event, same in groupby(counted, key=itemgetter(0))
    ]


class SharedLedger:
    """A ledger file that counts for several data sets, safe for processes at once.

    The cap holds for each data set by itself. Whoever is in two of them is protected at what both cost together.

    Arguments, errors and `path` are those of `Ledger`; delta is that of every total, the cap that of each data set.

    >>> from pate.accounting import GaussianEvent
    >>> shared = SharedLedger(None, target_delta=1e-6, max_epsilon=4.0)  # in memory, without a file
    >>> shared.account("digest of the first").affords(GaussianEvent(30.0))
    559
    >>> _ = shared.account("digest of the first").charge(GaussianEvent(2.0), adjacency="replace_one", key="a release")
    >>> [shared.account(data).affords(GaussianEvent(30.0)) for data in ("digest of the first", "of the second")]
    [334, 559]
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Store | None,
        *,
        target_delta: float,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        accountant: Callable[[], Accountant] | None = None,
        max_epsilon: float | None = None,
        filter: FilterMaker | None = None,
    ) -> None:
        self.adjacency = Adjacency.parse(adjacency)
        usual = accountant is None
        if usual and path is not None and not isinstance(path, Store) and os.path.lexists(path):
            path = Store(path, None)  # read once, for its accountant and for all that follows
        accountant = _stored_accountant(path) if accountant is None else accountant
        self.accountant = require_maker(accountant)
        self.target_delta = require_probability("target_delta", target_delta)
        cap = None
        if max_epsilon is not None:
            cap = require_positive("max_epsilon", max_epsilon, owner="ledger")
        require(filter is None or cap is not None, "filter", filter, "a max_epsilon beside it")
        require(
            filter is None or callable(filter),
            "filter",
            filter,
            "a class such as RenyiFilter, uncalled",
        )
        empty = accountant()
        counted = filter or (RenyiFilter if usual else default_filter(empty))
        own_filter = None if cap is None else counted(cap, self.target_delta)
        requested = {
            "ledger": _VERSION,
            "adjacency": str(self.adjacency),
            "target_delta": self.target_delta,
            "accountant": plain({"name": empty.name} | empty.parameters),
            "max_epsilon": cap,
            "filter": None if own_filter is None else plain(own_filter.to_json()),
        }
        self.store = path if isinstance(path, Store) else Store(path, requested)
        self.path = self.store.path
        settings = self.store.settings
        # What decides, the tightest first: a cap may be as tight as the file's, or tighter beside it.
        self.rules: list[PrivacyFilter] = [] if own_filter is None else [own_filter]
        require(settings.get("ledger") == _VERSION, "ledger", self.path, "a ledger of this version")
        for name in ("adjacency", "target_delta", "accountant"):
            rule = f"{_words(settings.get(name))}, as ledger={self.path} counts"
            require(settings.get(name) == requested[name], name, _words(requested[name]), rule)
        stored_cap = settings.get("max_epsilon")
        self.stored_cap: float | None = stored_cap  # fixed before the first release
        if stored_cap is None or settings.get("filter") is None:
            return
        require(
            cap is None or cap <= stored_cap,
            "max_epsilon",
            cap,
            f"at most {stored_cap}, the cap of ledger={self.path}",
            owner="ledger",
        )
        stored = filter_from_json(
            settings["filter"], max_epsilon=stored_cap, target_delta=self.target_delta
        )
        if cap == stored_cap and own_filter is not None and filter is not None:
            decides = f"{_words(settings['filter'])}, which decides in ledger={self.path}"
            alike = replace(own_filter, plans_failures=stored.plans_failures) == stored
            require(alike, "filter", _words(requested["filter"]), decides)
        if cap is not None and cap < stored_cap and filter is None:
            self.rules = [stored.for_cap(cap)]
        self.rules = [stored] if cap in (None, stored_cap) else [*self.rules, stored]

    @classmethod
    def stored(cls, path: str | os.PathLike[str]) -> SharedLedger:
        """The ledger of a file that exists, under its own settings; raises where its accountant is somebody's own."""
        store = Store(path, None)
        settings = store.settings  # as they were written: the chain of digests begins with them
        require(
            settings.get("ledger") == _VERSION, "ledger", store.path, "a ledger of this version"
        )
        return cls(
            store,
            target_delta=settings["target_delta"],
            adjacency=settings["adjacency"],
            accountant=_stored_accountant(store),
        )

    @property
    def identity(self) -> str:
        """Returns what tells this file from others, wherever it is moved; a copy of it has the same."""
        return self.store.identity

    @property
    def entries(self) -> list[LedgerEntry]:
        """All charges, of whichever data set, in the order of their commits."""
        self.store.read()
        return [_entry(line, self.path) for line in self.store.lines if not line.under]

    @property
    def data(self) -> list[str]:
        """The digests of all data sets that something was charged to, in the order of their first charges."""
        return list(dict.fromkeys(entry.data for entry in self.entries if entry.data))

    def account(self, data: str, *, unit: PrivacyUnit | None = None) -> Ledger:
        """The ledger of one data set, by a digest of its records, the same in every run; not of computed features."""
        require(
            isinstance(data, str) and data != "",
            "data",
            type(data).__name__,
            "a digest that is not empty",
        )
        return Ledger(self, target_delta=self.target_delta, data=data, unit=unit)


class Ledger:
    """An append-only record of charges and of what was released for them, in memory or in a file.

    `commit` writes what was drawn and its charge in one transaction, so a crash at any moment leaves both or neither.
    `charge` does it for a release that the ledger is not given. The file is SQLite with chained digests, so an edited,
    shortened or exchanged one raises `DamagedLedger`.

    What the figures bound: with all prices fixed before the first release, `epsilon`, in whatever order the releases
    were shown. With prices chosen on the way, the cap, `max_epsilon`, which a privacy filter decides
    (docs/proofs/filters.md); `epsilon` and `spent_epsilon` are then no bounds. Of releases that share their noise no
    figure is a bound: `epsilon` and `spent_epsilon` are infinite, and a cap has no room.

    The file is made if missing; None keeps the ledger in memory, and in this process. Raises for a file that was
    written for another adjacency, delta, accountant or filter, has a tighter cap, or is no ledger.

    `accountant` makes the accountant of all totals. None is the file's own. In a new ledger it is `AutoAccountant`, by
    which noise is solved for, too.

    A charge beyond `max_epsilon` is refused; None is no limit but the file's own. A new file stores it; a tighter one
    is this object's alone, and a guarantee only if it was fixed before the first release. One release that an
    accountant puts under the cap fits into an empty ledger. Of later ones a filter decides, made from (max_epsilon,
    target_delta) by `filter`: `RenyiFilter`, `ZCdpFilter`, `GaussianFilter` or a partial of one. None is what the file
    has stored. In a new ledger it is what goes with `accountant`, or else `RenyiFilter`, which counts every event.

    `data`, the digest of the private data, is for a file of several data sets.

    `unit` is what all prices of the account are for. Prices of two units have no sum, so another unit than that of the
    earlier charges raises. So it does where one price bounds the other, as that of a patient bounds that of a visit:
    the account would then be for visits alone. None takes the unit of the earlier charges. Charges that name no unit,
    as those of earlier versions, are taken to be for the account's; `num_without_unit` says how many there are.

    >>> from pate.aggregators import GaussianVotes
    >>> shape = {"num_queries": 100, "num_labels": 5, "num_teachers": 200}
    >>> votes = GaussianVotes(noise_std=1.0).calibrated(target_epsilon=3.0, target_delta=1e-6, **shape)
    >>> ledger = Ledger(target_delta=1e-6, max_epsilon=3.0)
    >>> entry = ledger.charge(votes.event_for(**shape), adjacency="replace_one")
    >>> 2.99 < ledger.epsilon <= 3.0
    True
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | SharedLedger | None = None,
        *,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        target_delta: float,
        accountant: Callable[[], Accountant] | None = None,
        max_epsilon: float | None = None,
        filter: FilterMaker | None = None,
        data: str = "",
        unit: PrivacyUnit | None = None,
    ) -> None:
        if not isinstance(path, SharedLedger):
            path = SharedLedger(
                path,
                target_delta=target_delta,
                max_epsilon=max_epsilon,
                adjacency=adjacency,
                accountant=accountant,
                filter=filter,
            )
        require(
            isinstance(data, str),
            "data",
            type(data).__name__,
            "the digest of a data set, as a string",
        )
        self.adjacency = path.adjacency
        self.target_delta = path.target_delta
        self._accountant = path.accountant
        self.data = data
        self.path = path.path
        self._store = path.store
        self._entries = list[LedgerEntry]()
        self._looked = (0, 0)
        self._named = data
        self._positions: dict[str, int] = {}  # of charges, by their keys
        # prices of charges of which parts were drawn after a later charge
        self._interleaved: set[Event] = set()
        # numbers of all charges of the file, whichever their data set, by the seed of their noise
        self._charges_by_noise: dict[str, set[int]] = {}
        self._noises: set[str] = set()  # of this account
        self._counted: tuple[Counter[Event], int] = Counter(), 0  # and how many charges are in it
        # Of the total: rows of equal charges that have ended, composed; the last row; the number of charges in both.
        self._composed: tuple[Accountant | None, list[tuple[Event, int]], int] = None, [], 0
        self._any_order = in_any_order(self._accountant)
        self._promised = path.stored_cap
        self._caps = [Cap(rule, self._entries) for rule in path.rules]
        self.max_epsilon = path.rules[0].max_epsilon if path.rules else None
        self._unit = unit
        self._take()
        self._require_same_unit()

    @classmethod
    def stored(cls, path: str | os.PathLike[str], *, data: str = "") -> Ledger:
        """The ledger of a file that exists, as `SharedLedger.stored` opens it."""
        shared = SharedLedger.stored(path)
        return cls(shared, target_delta=shared.target_delta, data=data)

    def __repr__(self) -> str:
        """Its terms, and how many charges were there when it was last read; their sum may take seconds."""
        shown = {
            "path": self.path,
            "adjacency": self.adjacency,
            "target_delta": self.target_delta,
            "max_epsilon": self.max_epsilon,
            "num_charges": len(self._entries),
        }
        return f"Ledger({', '.join(f'{name}={value}' for name, value in shown.items())})"

    def __getstate__(self) -> dict[str, Any]:
        """Copies compose anew: an accountant need not be one that can be sent to another process."""
        return vars(self) | {"_composed": (None, [], 0)}

    @property
    def entries(self) -> list[LedgerEntry]:
        """All charges on this data set, in the order of their commits, those of other processes included."""
        return self._read().copy()

    @property
    def unit(self) -> PrivacyUnit | None:
        """What the prices of the account are for; None where neither a charge nor the caller has said it."""
        charged = (entry.unit for entry in self._read() if entry.unit is not None)
        return self._unit or next(charged, None)

    @property
    def accountant_name(self) -> str:
        """The name of the accountant of all totals."""
        return self._accountant().name

    @property
    def num_without_unit(self) -> int:
        """How many charges name no unit, and are taken to be for that of the account."""
        return sum(entry.unit is None for entry in self._read())

    @property
    def accountant(self) -> Callable[[], Accountant]:
        """What makes an empty accountant of the ledger's totals."""
        return self._accountant

    @property
    def noise_is_shared(self) -> bool:
        """Returns whether a charge drew its noise from the seed of another charge of the file: they have no total.

        The difference of two sums with one noise has none, also where the other sum is of another data set.
        """
        self._read()
        return self._shares_noise()

    @property
    def epsilon(self) -> float:
        """The accountant's total at `target_delta`, in whatever order the releases were shown.

        It is a bound if all prices were fixed before the first release, and infinite where releases share their noise.
        """
        self._read()
        return self._total()

    @property
    def spent_epsilon(self) -> float:
        """What the charges have cost if all prices were fixed beforehand: `epsilon`, or the file's cap if that is less.

        Where the next price was chosen by looking, or somebody stopped by looking, the cap is the guarantee. It is
        infinite where releases share their noise.
        """
        return self.statement().spent_epsilon

    @property
    def guaranteed_epsilon(self) -> float | None:
        """What bounds all releases however their prices were chosen: the cap that the file was made with, or None.

        It is None, too, where releases share their noise.
        """
        return None if self.noise_is_shared else self._promised

    @property
    def filter(self) -> PrivacyFilter | None:
        """What decides for the cap; None without a cap, and before the first charge."""
        return self._decided()[0]

    @property
    def left(self) -> float | None:
        """What the cap leaves, in `filter.unit`; None without a cap, and before the first charge."""
        deciding_filter, spent = self._decided()
        if deciding_filter is None:
            return None
        return 0.0 if self._shares_noise() else deciding_filter.left(spent)

    def _decided(self) -> tuple[PrivacyFilter | None, Spent]:
        self._read()
        return self._caps[0].state() if self._caps else (None, Spent())

    def affords(self, event: Event) -> float:
        """How many times an event still fits under the cap; infinity where nothing stops it; raises without a price.

        Nothing fits under a cap where releases share their noise.
        """
        self._read()
        if self._caps and self._shares_noise():
            return 0
        first = self._first_price(event)
        return min((cap.affords(event, first=first) for cap in self._caps), default=math.inf)

    def require_room(self, event: Event) -> None:
        """Raises `BudgetExceeded`, with what would do, where no cap has room for an event; charges nothing."""
        self._read()
        self._require_room(event)

    def _require_room(self, event: Event) -> None:
        """Raises where no cap has room for an event, as of the last reading."""
        if self._caps and self._shares_noise():
            raise BudgetExceeded("max_epsilon", self.max_epsilon, rule=_NO_TOTAL, owner="ledger")
        first = self._first_price(event)
        for cap in self._caps:
            cap.require_room(event, first=first)

    @property
    def failures_left(self) -> float:
        """The failure probability that later charges may have in all: what the filter of a cap, or delta, leaves."""
        self._read()
        if not self._entries:
            return self.target_delta
        left = self.target_delta - math.fsum(
            failure_probability(entry.event) for entry in self._entries
        )
        return max(0.0, min([left, *(cap.failures_left or 0.0 for cap in self._caps)]))

    def _first_price(self, event: Event) -> float:
        """What an event costs as the first one, by the ledger's accountant or a tighter one; of later ones infinity.

        Any bound of a price that was fixed before the first release will do (docs/proofs/filters.md).
        """
        if self._entries or not self._caps:
            return math.inf
        cap = min(cap.rule.max_epsilon for cap in self._caps)
        own = self.price(event)
        if own <= cap or failure_probability(event) >= self.target_delta:
            return own
        return min(own, AutoAccountant().compose(event).get_epsilon(self.target_delta))

    def price(self, event: Event) -> float:
        """What an event costs by itself, by the ledger's accountant; infinity where its failures use up delta."""
        try:
            return self._accountant().compose(event).get_epsilon(self.target_delta)
        except InvalidValue:
            return math.inf

    def statement(self) -> AccountStatement:
        """Returns the total of the account, read once."""
        entries = self._read()
        epsilon = self._total()
        noise_is_shared = self._shares_noise()
        spent = epsilon
        if self._promised is not None and not noise_is_shared:
            spent = min(epsilon, self._promised)
        units = (entry.unit for entry in entries if entry.unit is not None)
        return AccountStatement(
            num_charges=len(entries),
            epsilon=epsilon,
            spent_epsilon=spent,
            unit=self._unit or next(units, None),
            num_without_unit=sum(entry.unit is None for entry in entries),
            noise_is_shared=noise_is_shared,
        )

    def charge(
        self, event: Event, *, adjacency: Adjacency, key: str = "", description: str = ""
    ) -> LedgerEntry:
        """Writes a charge for a release that the ledger is not given; only after this may anything be drawn.

        Charging the same key and event again costs nothing, so a key has to stand for one release; an empty one makes
        this a new release. Arguments and errors are those of `commit`.
        """
        key = key or uuid.uuid4().hex
        self.commit(key, event, b"", ChargeNote(description=description), adjacency=adjacency)
        return next(entry for entry in reversed(self._entries) if entry.key == key)

    def commit(
        self,
        key: str,
        event: Event,
        content: bytes,
        note: ChargeNote = _NO_NOTE,
        *,
        adjacency: Adjacency,
        release: str = "",
    ) -> bytes:
        """Commits what was drawn, in one transaction with its charge; returns what the ledger has under the key.

        That is `content`, or what a copy of the run or another process committed under the same key before: a key gives
        the same bytes for ever. Nobody may be shown what was drawn before this returns. The key names all that the
        content is a function of.

        Parts of one release have keys that begin with `release` and a colon. The first of them is charged with the
        price of all, `event`; the others are entered under that charge. A release that another run drew from the same
        seed, at the same price and with the same content, is the same release: it is entered under the charge of that
        one. Where something else was drawn from the seed, and `note.may_share_noise` lets it, it is a charge of its
        own, and no total of the account is finite from then on. A cap never lets it.

        Raises `BudgetExceeded`, and charges nothing, where the cap does not allow it; `InvalidValue` where a release of
        something else drew from the seed that `note.noise` names, or key or event are of another price or adjacency.
        """
        require(
            adjacency == self.adjacency,
            "adjacency",
            adjacency,
            f"{self.adjacency}, as this ledger counts",
        )
        self._require_same_adjacency(event)
        price = event_to_json(event)
        event_from_json(price)  # no charge is written that cannot be read back

        @cache
        def total_with(num_charges: int) -> float:
            self._require_room(event)
            try:
                return self._total(event)
            except InvalidValue as error:
                if not self._entries or error.name != "failure_prob":
                    raise
                left = validation.rounded_down(self.failures_left, 3)
                rule = (
                    f"{error.rule}; this ledger has at most {left} for what follows, "
                    "which calibrated(ledger=…) keeps to"
                )
                raise InvalidValue("failure_prob", error.value, rule=rule) from error

        def describe() -> LineText:
            """Returns the text of the line, given what other processes have charged meanwhile."""
            num_charges = len(self._take())
            paid_by = self._charge_covering(key, event, content, note, release)
            if paid_by:
                return LineText(under=paid_by)
            is_first_of_noise = not self._charges_with_noise(note.noise, but="")
            total = plain(total_with(num_charges) if is_first_of_noise else math.inf)
            draw = 1 + sum(
                bool(note.run) and entry.key.startswith(note.run) for entry in self._entries
            )
            about = {
                "description": note.description,
                "epsilon": total,
                "draw": draw,
                "noise": note.noise,
            }
            if (unit := self._require_same_unit()) is not None:
                about["unit"] = unit.to_json()
            about["time"] = datetime.now(UTC).isoformat(timespec="milliseconds")
            return LineText(event=to_json_line(price), about=about | _process(os.getpid()))

        if not self._charge_of(release):
            self._read()  # which may find out the account's name
            if self._line(key) is None:
                describe()  # before the lock is taken, as a total may take seconds
        known = self._line(key)
        account = self._named if known is None else known.data
        committed = self._store.commit(account, key, content, describe)
        self._take()
        self._require_price(key, event, key)
        return committed

    def read(self, key: str) -> bytes | None:
        """What was released under a key, or None."""
        self._read()
        line = self._line(key)
        return None if line is None else self._store.release(line)

    @property
    def keys(self) -> list[str]:
        """Of all that was released, in the order of the commits: of charges, and of what was drawn under them."""
        self._read()
        return [line.key for line in self._lines]

    def parts(self, release: str) -> dict[str, str]:
        """Returns the SHA-256 of each part of a release that was committed, by its name, in the order of commits."""
        self._read()
        prefix = f"{release}:"
        return {
            line.key.removeprefix(prefix): line.sha256
            for line in self._lines
            if line.key.startswith(prefix)
        }

    def charges_of(self, run: str) -> list[LedgerEntry]:
        """Returns the charges, as of the last reading, of all releases whose keys begin with the name of a run."""
        paid_by = {line.under or line.key for line in self._lines if line.key.startswith(run)}
        return [entry for entry in self._entries if entry.key in paid_by]

    def require_charged(self, event: Event, release: str, *, remedy: str) -> None:
        """Raises unless a release, parts of which have keys that begin so, is charged at exactly this price."""
        self._read()
        charge = self._charge_of(release)
        rule = f"the charge of this release at its price; {remedy}"
        require(charge != "" and self._price_of(charge) == event, "ledger", self.path, rule)

    def introduce(
        self, owners: Mapping[str, frozenset[bytes]], *, anyway: bool = False
    ) -> dict[str, int]:
        """Makes the owners of this data set known; see `Store.introduce`."""
        return self._store.introduce(self._named, owners, anyway=anyway)

    def has_noise(self, noise: str, *, but: str = "", unlike: Event | None = None) -> bool:
        """Returns whether another release of the file, of whichever data set, drew from the seed of that name.

        Keys that begin with `but` are those of the same release. One of the same records at the price `unlike` does not
        count: it may be the same release. The difference of two sums with one noise has none.
        """
        return any(
            unlike is None or line.data != self._named or self._price_of(line.key) != unlike
            for line in self._charges_with_noise(noise, but=but)
        )

    @property
    def _lines(self) -> list[Line]:
        """All lines of this account, as of the last reading; those that name no data count for every account."""
        return [line for line in self._store.lines if line.data in ("", self._named)]

    def _charge_of(self, release: str) -> str:
        """Returns the key of the charge that has paid for a release; empty where none has."""
        if not release:
            return ""
        own = (line for line in self._lines if line.key.startswith(f"{release}:"))
        first = next(own, None)
        return "" if first is None else first.under or first.key

    def _price_of(self, key: str) -> Event | None:
        """Returns the price that a key was charged with, or that of the charge that it is under; None for no key."""
        line = self._line(key)
        if line is None:
            return None
        charge = line.under or line.key
        return self._entries[self._positions[charge]].event

    def _charges_with_noise(self, noise: str, *, but: str) -> list[Line]:
        """Returns all charges of the file whose noise came from a seed, but for keys that begin with `but`."""
        if not noise:
            return []
        return [
            line
            for line in self._store.lines
            if not line.under
            and not (but and line.key.startswith(but))
            and _noise_of(line, self.path) == noise
        ]

    def _charge_covering(
        self, key: str, event: Event, content: bytes, note: ChargeNote, release: str
    ) -> str:
        """Returns the key of the charge that has paid for a part: the release's, or that of the same release by a twin.

        A twin is another run with the same seed. Empty where the part is to be charged. Raises where the seed drew
        something else, unless the noise may be shared: the difference of two sums with one noise has none.
        """
        own = self._charge_of(release)
        if own:  # before it is entered: what another price drew would be read back at this one
            self._require_price(own, event, key)
        if own and (note.noise == "" or self._agrees_with(own, key, content, release)):
            return own
        others = self._charges_with_noise(note.noise, but=note.run or key)
        twins = [
            line.key
            for line in others
            if release != ""
            and line.data == self._named
            and self._price_of(line.key) == event
            and self._part_under(line.key, key) is not None
            and self._agrees_with(line.key, key, content, release)
        ]
        if own or len(twins) < len(others):
            may_share = note.may_share_noise and not self._caps
            require(may_share, "noise", note.noise, _OTHER_NOISE)
        return next(iter(twins), "")

    def _part_under(self, charge: str, key: str) -> Line | None:
        """Returns the line under a charge whose part has the name of the part of a key, or None."""
        name = key.rpartition(":")[2]
        return next(
            (
                line
                for line in self._lines
                if charge in (line.key, line.under) and line.key.rpartition(":")[2] == name
            ),
            None,
        )

    def _agrees_with(self, charge: str, key: str, content: bytes, release: str) -> bool:
        """Returns whether a part of a release can be that of the release under a charge: one seed drew one thing.

        A part of the same name has the same content. A new one comes after all parts that another run has entered: a
        run that leaves one out draws something else, from the same noise.
        """
        line = self._part_under(charge, key)
        if line is not None:
            return line.sha256 == hashlib.sha256(content).hexdigest()
        entered = [line for line in self._lines if charge in (line.key, line.under)]
        names = {line.key.rpartition(":")[2] for line in entered}
        own = [line.key for line in entered if line.key.startswith(f"{release}:")]
        return names == {key.rpartition(":")[2] for key in own}

    def _shares_noise(self) -> bool:
        """Returns whether a charge of this account shares its seed with another one of the file, as last read."""
        return any(len(self._charges_by_noise[noise]) > 1 for noise in self._noises)

    def _require_price(self, charged: str, event: Event, key: str) -> None:
        """Raises unless what is charged under one key has the price of an event; the error names another key."""
        rule = "a new key, this one stands for another price"
        require(self._price_of(charged) == event, "key", key, rule)

    def _total(self, *following: Event) -> float:
        """The total of the charges and of an event that would follow, in whatever order they were shown.

        Optimal composition is for one order; it is asked where all orders are alike. An accountant whose figures hold
        for every order is asked elsewhere: equal events in a row are composed as one with its count, in time. Rows that
        have ended are composed once, the last one in a copy.

        It is infinite where two charges share their noise: the difference of two sums with one noise has none.
        """
        if self._shares_noise():
            return math.inf
        fresh = self._entries[self._counted[1] :]
        if fresh:
            counts = self._counted[0] + Counter(entry.event for entry in fresh)
            self._counted = counts, self._counted[1] + len(fresh)
        if self._any_order is not self._accountant:
            for event in following:
                # raises for one that the ledger's accountant does not know
                self._accountant().compose(event)
            counts = self._counted[0] + Counter(following)
            interleaved = frozenset(
                event for event in counts if event in self._interleaved or is_session(event)
            )
            if have_one_order(counts, interleaved=interleaved):
                return (
                    self._accountant().compose_all(counts.items()).get_epsilon(self.target_delta)
                    if counts
                    else 0.0
                )
        ended, last, number = self._composed
        fresh = self._entries[number:]
        rows = _in_rows([*last, *((entry.event, 1) for entry in fresh)])
        ended = ended or self._any_order()
        ended = ended.copy().compose_all(rows[:-1]) if len(rows) > 1 else ended
        # at once: an interrupt leaves the former state
        self._composed = ended, rows[-1:], number + len(fresh)
        rows = _in_rows([*rows[-1:], *((event, 1) for event in following)])
        return ended.copy().compose_all(rows).get_epsilon(self.target_delta) if rows else 0.0

    def _require_same_unit(self) -> PrivacyUnit | None:
        """Returns the unit of this account and of the charges that were read; raises where there are two."""
        units = [self._unit] if self._unit is not None else []
        units += [entry.unit for entry in self._entries if entry.unit is not None]
        if other := next((unit for unit in units if unit != units[0]), None):
            account = f"the account of records {self._named[:12]} in " if self._named else ""
            rule = f"{other.words}, as {account}ledger={self.path} counts; prices of two units of privacy have no sum"
            remedy = (
                "take the same data.group= (and data.budget=, holders=; of a "
                "classifier groups=), or another ledger="
            )
            raise InvalidValue("unit", units[0].words, rule=f"{rule}: {remedy}")
        return next(iter(units), None)

    def _require_same_adjacency(self, event: Event) -> None:
        """Of a sampled Gaussian, the one event whose price is not the same for both."""
        for sampled in count_leaves(event).get(SampledGaussianEvent, ([], []))[0]:
            made_for = getattr(sampled, "adjacency", self.adjacency)
            require(
                made_for == self.adjacency,
                "event.adjacency",
                made_for,
                f"{self.adjacency}, as this ledger counts",
            )

    def _line(self, key: str) -> Line | None:
        """That of a key; a charge that names no data counts for every data set."""
        return self._store.places.get(("", key)) or self._store.places.get((self._named, key))

    def _read(self) -> list[LedgerEntry]:
        self._store.read()
        return self._take()

    def _take(self) -> list[LedgerEntry]:
        """Takes over the charges on this data set among the lines that were read; raises if none of two was named."""
        with self._store.lock:
            (looked, count) = self._looked
            fresh = self._store.lines[self._looked[0] :]
            names = {self._named, *(line.data for line in fresh)} - {""}
            rule = "the digest of one data set, this ledger counts for several"
            require(bool(self.data) or len(names) < 2, "data", "''", rule)
            self._named = self.data or next(iter(names), "")
            del self._entries[count:]  # what an interrupted call left behind
            for line in fresh:
                is_own = line.data in ("", self._named)
                noise = "" if line.under else _noise_of(line, self.path)
                if noise:  # in sets, so that what an interrupted call has entered counts once
                    self._charges_by_noise.setdefault(noise, set()).add(line.number)
                    if is_own:
                        self._noises.add(noise)
                if not is_own:
                    continue
                if not line.under:
                    entry = _entry(line, self.path)
                    self._require_same_adjacency(entry.event)
                    self._positions[line.key] = len(self._entries)
                    self._entries.append(entry)
                elif (
                    position := self._positions.get(line.under)
                ) is not None and position + 1 < len(self._entries):
                    self._interleaved.add(self._entries[position].event)
            # at once, and last: an interrupt forgets no charge
            self._looked = looked + len(fresh), len(self._entries)
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
    command = shlex.join(map(str, getattr(sys, "argv", [])))[:_LONGEST]
    return {"user": user, "host": platform.node(), "command": command}


def _stored_accountant(path: Any) -> Callable[[], Accountant]:
    """The maker of a file's own accountant; `AutoAccountant` for a ledger that is new."""
    if not isinstance(path, Store):
        if path is None or not os.path.lexists(path):
            return AutoAccountant
        path = Store(path, None)
    require(
        path.settings.get("ledger") == _VERSION, "ledger", path.path, "a ledger of this version"
    )
    values = dict(path.settings["accountant"])
    kind = _ACCOUNTANTS[require_choice("accountant", str(values.pop("name")), tuple(_ACCOUNTANTS))]
    return partial(kind, **values) if values else kind


def require_ledger(ledger: Any) -> Ledger:
    """Returns the ledger, or raises: a path alone names neither adjacency nor delta."""
    if not isinstance(ledger, Ledger):
        raise InvalidValue(
            "ledger", ledger, rule="a pate.accounting.Ledger, such as Ledger(PATH, target_delta=…)"
        )
    return ledger


def _noise_of(line: Line, path: Path | None) -> str:
    """Returns the name of the seed that a charge drew its noise from; empty for noise that nothing can repeat."""
    try:
        return str(json.loads(line.about)["noise"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise damaged(path, f"a charge on line {line.number}") from error


def _entry(line: Line, path: Path | None) -> LedgerEntry:
    try:
        about = json.loads(line.about)
        return LedgerEntry(
            line.key,
            event_from_json(json.loads(line.event)),
            description=str(about["description"]),
            epsilon=number(about["epsilon"]),
            data=line.data,
            draw=int(about["draw"]),
            noise=str(about["noise"]),
            time=str(about["time"]),
            user=str(about["user"]),
            host=str(about["host"]),
            command=str(about["command"]),
            unit=PrivacyUnit.from_json(about["unit"]) if "unit" in about else None,
        )
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise damaged(path, f"a charge on line {line.number}") from error


def _words(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    inside = ", ".join(
        f"{key}={str(setting)[:40]}" for key, setting in value.items() if key != "name"
    )
    return f"{value.get('name', 'none')}" + (f"({inside})" if inside else "")
