"""The ledger: the charges on private data and the releases that they paid for, on disk before anybody sees a release.

A charge and its release are one transaction of the store (`pate.accounting.store`). The total of the charges is a
`RunningTotal`, and each cap on them a `Cap`, whose privacy filter decides (docs/proofs/budgets.md).
"""

from __future__ import annotations

import hashlib
import math
import os
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from pate import validation
from pate.accounting.accountant import Accountant
from pate.accounting.adjacency import Adjacency
from pate.accounting.auto import AutoAccountant
from pate.accounting.cap import BudgetExceeded, Cap
from pate.accounting.event_json import event_from_json, event_to_json
from pate.accounting.event_tree import count_leaves, failure_probability
from pate.accounting.events import Event, SampledGaussianEvent
from pate.accounting.filters import FilterMaker, PrivacyFilter, Spent
from pate.accounting.ledger_entry import (
    AccountStatement,
    ChargeNote,
    LedgerEntry,
    charging_process,
    noise_of_line,
)
from pate.accounting.ledger_file import LedgerFile
from pate.accounting.running_total import RunningTotal
from pate.accounting.store import LedgerLine, LineText
from pate.accounting.unit import PrivacyUnit
from pate.files.strict_json import plain, to_json_line
from pate.validation import InvalidValue, require

_EMPTY_NOTE = ChargeNote()
_FRESH_NOISE = "fresh noise, another release drew from this seed"
_NO_TOTAL = "a ledger without a cap: releases in it share their noise, and no epsilon covers them"


class Ledger:
    """An append-only record of charges and of the releases that they paid for, in memory or in a file.

    `commit` writes a draw and its charge in one transaction, so a crash at any moment leaves both or neither. `charge`
    serves a release whose bytes the ledger does not get. The file is SQLite with chained digests, so a file that was
    edited, shortened or exchanged raises `DamagedLedger`.

    The bounds that the figures are:
        * Where all prices were fixed before the first release, `epsilon` bounds all releases, in whatever order they
          were shown.
        * Where prices were chosen on the way, only the cap, `max_epsilon`, is a bound. A privacy filter decides for it
          (docs/proofs/filters.md).
        * Releases that share their noise have no bound: `epsilon` and `spent_epsilon` are infinite, and a cap has no
          room.

    Args:
        path: the file, which is made where it is missing; None keeps the ledger in the memory of this process. A
            `LedgerFile`, such as a `SharedLedger`, brings its own settings.
        adjacency: the adjacency of all prices.
        target_delta: the delta of every total.
        accountant: makes the accountant of all totals. None takes that of the file, and in a new file `AutoAccountant`,
            by which noise is calibrated too.
        max_epsilon: the cap, beyond which charges are refused; None is no cap but that of the file. A new file stores
            the cap. A tighter cap than that of the file is this object's alone, and a guarantee only if it was fixed
            before the first release. One release that an accountant puts under the cap fits into an empty ledger.
        filter: makes the filter that decides for later releases, from (max_epsilon, target_delta): `RenyiFilter`,
            `GaussianFilter` or a partial of one. None takes the filter of the file. A new file takes the filter that
            goes with `accountant`; without an accountant that is `RenyiFilter`, which counts every event.
        data: the digest of the private data, for a file that counts for several data sets.
        unit: the unit of privacy of all prices; None takes that of the earlier charges. Prices of two units have no
            sum, so another unit than that of the earlier charges is refused. That holds, too, where one price bounds
            the other: with the price of a visit, the account of patients would become one of visits. Charges without a
            unit, as in earlier versions, are taken to be for the unit of the account; `num_without_unit` counts them.

    Raises:
        InvalidValue: the file was written for another adjacency, delta, accountant or filter, or has a tighter cap.
        DamagedLedger: the file was changed, or is no ledger.

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
        path: str | os.PathLike[str] | LedgerFile | None = None,
        *,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        target_delta: float,
        accountant: Callable[[], Accountant] | None = None,
        max_epsilon: float | None = None,
        filter: FilterMaker | None = None,
        data: str = "",
        unit: PrivacyUnit | None = None,
    ) -> None:
        file = path
        if not isinstance(file, LedgerFile):
            file = LedgerFile(
                file,
                target_delta=target_delta,
                max_epsilon=max_epsilon,
                adjacency=adjacency,
                accountant=accountant,
                filter=filter,
            )
        is_text = isinstance(data, str)
        require(is_text, "data", type(data).__name__, "the digest of a data set, as a string")
        self.adjacency = file.adjacency
        self.target_delta = file.target_delta
        self._accountant = file.accountant
        self.data = data
        self.path = file.path
        self._store = file.store
        self._entries = list[LedgerEntry]()
        self._num_read = (0, 0)  # lines of the file, and entries of this account among them
        self._account = (
            data  # the digest that the lines name, which an unnamed account takes from them
        )
        self._index_of_charge: dict[str, int] = {}  # the index in `_entries` by key
        self._interleaved = set[
            Event
        ]()  # prices of charges with parts that were drawn after a later charge
        # the numbers of all charges of the file, whichever their data set, by the name of the seed of their noise
        self._charges_by_noise: dict[str, set[int]] = {}
        self._noises = set[str]()  # the names of the seeds of this account
        self._running_total = RunningTotal(self._accountant, self._entries, self.target_delta)
        self._stored_cap = file.stored_cap
        self._caps = [Cap(rule, self._entries) for rule in file.rules]
        self.max_epsilon = file.rules[0].max_epsilon if file.rules else None
        self._unit = unit
        self._add_read_lines()
        self._require_one_unit()

    @classmethod
    def stored(cls, path: str | os.PathLike[str], *, data: str = "") -> Ledger:
        """Opens the ledger of a file that exists, under its own settings."""
        file = LedgerFile.stored(path)
        return cls(file, target_delta=file.target_delta, data=data)

    def __repr__(self) -> str:
        """Returns the settings and the number of charges of the last reading; their total may take seconds."""
        settings = {
            "path": self.path,
            "adjacency": self.adjacency,
            "target_delta": self.target_delta,
            "max_epsilon": self.max_epsilon,
            "num_charges": len(self._entries),
        }
        return f"Ledger({', '.join(f'{name}={value}' for name, value in settings.items())})"

    @property
    def entries(self) -> list[LedgerEntry]:
        """The charges on this data set, in the order of their commits, those of other processes included."""
        return self._read().copy()

    @property
    def unit(self) -> PrivacyUnit | None:
        """The unit of privacy of the account's prices; None where neither a charge nor the caller named a unit."""
        return self._unit_of(self._read())

    @property
    def accountant_name(self) -> str:
        """The name of the accountant of all totals."""
        return self._accountant().name

    @property
    def num_without_unit(self) -> int:
        """The number of charges that name no unit, and are taken to be for that of the account."""
        return sum(entry.unit is None for entry in self._read())

    @property
    def accountant(self) -> Callable[[], Accountant]:
        """The maker of an empty accountant of the account's totals."""
        return self._accountant

    @property
    def noise_is_shared(self) -> bool:
        """True where a charge of the account drew its noise from the seed of another charge of the file.

        Such charges have no total: the difference of two sums with the same noise has no noise, also where the other
        sum is of another data set.
        """
        self._read()
        return self._shares_noise()

    @property
    def epsilon(self) -> float:
        """The accountant's total at `target_delta`, in whatever order the releases were shown.

        The total is a bound if all prices were fixed before the first release, and infinite where releases share their
        noise.
        """
        self._read()
        return self._total()

    @property
    def spent_epsilon(self) -> float:
        """The smaller of `epsilon` and the cap of the file: a bound if all prices were fixed beforehand.

        Where the next price was chosen by looking, or somebody stopped by looking, the cap is the guarantee. The figure
        is infinite where releases share their noise.
        """
        return self.statement().spent_epsilon

    @property
    def guaranteed_epsilon(self) -> float | None:
        """The cap that the file was made with, which bounds all releases however their prices were chosen.

        None where the file has no cap, or releases share their noise.
        """
        return None if self.noise_is_shared else self._stored_cap

    @property
    def filter(self) -> PrivacyFilter | None:
        """The filter that decides for the cap; None without a cap, and before the first charge."""
        return self._filter_and_spent()[0]

    @property
    def left(self) -> float | None:
        """The amount that the cap leaves, in `filter.unit`; None without a cap, and before the first charge."""
        deciding_filter, spent = self._filter_and_spent()
        if deciding_filter is None:
            return None
        return 0.0 if self._shares_noise() else deciding_filter.left(spent)

    def _filter_and_spent(self) -> tuple[PrivacyFilter | None, Spent]:
        """Returns the filter of the tightest cap and its spending."""
        self._read()
        return self._caps[0].filter_and_spent() if self._caps else (None, Spent())

    def affords(self, event: Event) -> float:
        """Returns how many times an event still fits under the cap; infinity where nothing stops the event.

        Nothing fits under a cap where releases share their noise. Raises `InvalidValue` for an event without a price.
        """
        self._read()
        if self._caps and self._shares_noise():
            return 0
        first_epsilon = self._first_epsilon(event)
        return min(
            (cap.affords(event, first_epsilon=first_epsilon) for cap in self._caps),
            default=math.inf,
        )

    def require_room(self, event: Event) -> None:
        """Raises `BudgetExceeded`, which names a sufficient cap, where an event does not fit; charges nothing."""
        self._read()
        self._require_room(event)

    def _require_room(self, event: Event) -> None:
        """Raises where no cap has room for an event, as of the last reading."""
        if self._caps and self._shares_noise():
            raise BudgetExceeded("max_epsilon", self.max_epsilon, rule=_NO_TOTAL, owner="ledger")
        first_epsilon = self._first_epsilon(event)
        for cap in self._caps:
            cap.require_room(event, first_epsilon=first_epsilon)

    @property
    def failures_left(self) -> float:
        """The failure probability that all later charges may have together: the least that delta or a cap leaves."""
        self._read()
        if not self._entries:
            return self.target_delta
        charged = math.fsum(failure_probability(entry.event) for entry in self._entries)
        left_by_caps = [cap.failures_left or 0.0 for cap in self._caps]
        return max(0.0, min([self.target_delta - charged, *left_by_caps]))

    def _first_epsilon(self, event: Event) -> float:
        """Returns the epsilon of an event that is the first charge of the account; infinity for later charges.

        Any bound of a price that was fixed before the first release will do (docs/proofs/filters.md). So the default
        accountant serves where the account's own accountant puts the price above the cap.
        """
        if self._entries or not self._caps:
            return math.inf
        cap = min(cap.rule.max_epsilon for cap in self._caps)
        epsilon = self.price(event)
        if epsilon <= cap or failure_probability(event) >= self.target_delta:
            return epsilon
        return min(epsilon, AutoAccountant().compose(event).get_epsilon(self.target_delta))

    def price(self, event: Event) -> float:
        """Returns the epsilon of an event alone, by the account's accountant.

        Infinity where the accountant does not know the event, or failures use up delta.
        """
        try:
            return self._accountant().compose(event).get_epsilon(self.target_delta)
        except InvalidValue:
            return math.inf

    def statement(self) -> AccountStatement:
        """Returns the total of the account, as of one reading of the file."""
        entries = self._read()
        epsilon = self._total()
        noise_is_shared = self._shares_noise()
        spent_epsilon = epsilon
        if self._stored_cap is not None and not noise_is_shared:
            spent_epsilon = min(epsilon, self._stored_cap)
        return AccountStatement(
            num_charges=len(entries),
            epsilon=epsilon,
            spent_epsilon=spent_epsilon,
            unit=self._unit_of(entries),
            num_without_unit=sum(entry.unit is None for entry in entries),
            noise_is_shared=noise_is_shared,
        )

    def charge(
        self, event: Event, *, adjacency: Adjacency, key: str = "", description: str = ""
    ) -> LedgerEntry:
        """Writes the charge of a release whose bytes the ledger does not get; only then may anything be drawn.

        A second charge of the same key and event costs nothing, so a key has to stand for one release. An empty key
        makes this a new release. Arguments and errors are those of `commit`.
        """
        key = key or uuid.uuid4().hex
        note = ChargeNote(description=description)
        self.commit(key, event, b"", note, adjacency=adjacency)
        return next(entry for entry in reversed(self._entries) if entry.key == key)

    def commit(
        self,
        key: str,
        event: Event,
        content: bytes,
        note: ChargeNote = _EMPTY_NOTE,
        *,
        adjacency: Adjacency,
        release: str = "",
    ) -> bytes:
        """Commits a draw, in one transaction with its charge; returns the bytes that the ledger has under the key.

        These are `content`, or the bytes that a copy of the run or another process committed under the same key before:
        a key returns the same bytes for ever. Nobody may be shown the draw before this method returns. The key names
        everything that the content is a function of.

        Parts of one release have keys that begin with `release` and a colon. The first part is charged with the price
        of all parts, `event`. The other parts are entered under that charge.

        Where another run drew from the same seed, at the same price and with the same content, both runs made the same
        release: this release is entered under the charge of the other run. Where the seed drew something else and
        `note.may_share_noise` allows it, the release is a charge of its own, and the account has no finite total from
        then on. A cap never allows it.

        Raises:
            BudgetExceeded: the cap has no room for the event. Nothing is charged.
            InvalidValue: a release of something else drew from the seed that `note.noise` names; or the key stands for
                another price; or the adjacency is not that of the ledger.
        """
        rule = f"{self.adjacency}, as this ledger counts"
        require(adjacency == self.adjacency, "adjacency", adjacency, rule)
        self._require_same_adjacency(event)
        price = event_to_json(event)
        event_from_json(price)  # a charge that cannot be read back is never written

        @cache
        def total_with_event(num_charges: int) -> float:
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
            """Returns the text of the line, given the charges of other processes up to now."""
            num_charges = len(self._add_read_lines())
            paid_by = self._charge_covering(key, event, content, note, release)
            if paid_by:
                return LineText(under=paid_by)
            shares_noise = bool(self._charges_with_noise(note.noise, except_release=""))
            total = math.inf if shares_noise else total_with_event(num_charges)
            earlier_draws = [
                entry for entry in self._entries if note.run and entry.key.startswith(note.run)
            ]
            about = {
                "description": note.description,
                "epsilon": plain(total),
                "draw": 1 + len(earlier_draws),
                "noise": note.noise,
            }
            unit = self._require_one_unit()
            if unit is not None:
                about["unit"] = unit.to_json()
            about["time"] = datetime.now(UTC).isoformat(timespec="milliseconds")
            about |= charging_process(os.getpid())
            return LineText(event=to_json_line(price), about=about)

        if not self._charge_of(release):
            self._read()  # an unnamed account may learn its name
            if self._line_of(key) is None:
                describe()  # before the lock is taken, as a total may take seconds
        known_line = self._line_of(key)
        account = self._account if known_line is None else known_line.data
        committed = self._store.commit(account, key, content, describe)
        self._add_read_lines()
        self._require_price(key, event, key)
        return committed

    def read(self, key: str) -> bytes | None:
        """Returns the bytes that were committed under a key; None where there are none."""
        self._read()
        line = self._line_of(key)
        return None if line is None else self._store.release(line)

    @property
    def keys(self) -> list[str]:
        """The keys of all that was released, charges and parts under them, in the order of their commits."""
        self._read()
        return [line.key for line in self._lines]

    def parts(self, release: str) -> dict[str, str]:
        """Returns the SHA-256 of each committed part of a release by the part's name, in the order of commits."""
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
        """Raises `InvalidValue`, with the remedy, unless a release is charged at exactly this price."""
        self._read()
        charge = self._charge_of(release)
        rule = f"the charge of this release at its price; {remedy}"
        require(charge != "" and self._price_of(charge) == event, "ledger", self.path, rule)

    def introduce(
        self, owners: Mapping[str, frozenset[bytes]], *, anyway: bool = False
    ) -> dict[str, int]:
        """Enters the owners of this data set; see `Store.introduce`."""
        return self._store.introduce(self._account, owners, anyway=anyway)

    def has_noise(self, noise: str, *, but: str = "", unlike: Event | None = None) -> bool:
        """Returns True where another release of the file, of whichever data set, drew from the seed of that name.

        Args:
            noise: the name of the seed.
            but: the beginning of the keys of the release in question, which are left out.
            unlike: the price of the release in question. A release of the same records at this price is left out, as
                both may be the same release.
        """
        return any(
            unlike is None or line.data != self._account or self._price_of(line.key) != unlike
            for line in self._charges_with_noise(noise, except_release=but)
        )

    @property
    def _lines(self) -> list[LedgerLine]:
        """The lines of this account, as of the last reading; lines that name no data count for every account."""
        return [line for line in self._store.lines if line.data in ("", self._account)]

    def _charge_of(self, release: str) -> str:
        """Returns the key of the charge that has paid for a release; empty where no charge has."""
        if not release:
            return ""
        for line in self._lines:
            if line.key.startswith(f"{release}:"):
                return line.under or line.key
        return ""

    def _price_of(self, key: str) -> Event | None:
        """Returns the price of a charge, or of the charge that a part is under; None for a key without a line."""
        line = self._line_of(key)
        if line is None:
            return None
        return self._entries[self._index_of_charge[line.under or line.key]].event

    def _charges_with_noise(self, noise: str, *, except_release: str) -> list[LedgerLine]:
        """Returns all charges of the file that drew from a seed, without the keys that begin with `except_release`."""
        if not noise:
            return []
        return [
            line
            for line in self._store.lines
            if not line.under
            and not (except_release and line.key.startswith(except_release))
            and noise_of_line(line, self.path) == noise
        ]

    def _charge_covering(
        self, key: str, event: Event, content: bytes, note: ChargeNote, release: str
    ) -> str:
        """Returns the key of the charge that has paid for a part; empty where the part is to be charged.

        The charge is that of the release, or that of the same release by a twin: another run with the same seed.
        Raises `InvalidValue` where the seed drew something else, unless the noise may be shared.
        """
        charge = self._charge_of(release)
        if charge:  # before the part is entered, or a draw at another price would be read back at this price
            self._require_price(charge, event, key)
        if charge and (note.noise == "" or self._agrees_with(charge, key, content, release)):
            return charge
        same_noise = self._charges_with_noise(note.noise, except_release=note.run or key)
        twins = [
            line.key
            for line in same_noise
            if release != ""
            and line.data == self._account
            and self._price_of(line.key) == event
            and self._part_under(line.key, key) is not None
            and self._agrees_with(line.key, key, content, release)
        ]
        if charge or len(twins) < len(same_noise):
            may_share_noise = note.may_share_noise and not self._caps
            require(may_share_noise, "noise", note.noise, _FRESH_NOISE)
        return next(iter(twins), "")

    def _part_under(self, charge: str, key: str) -> LedgerLine | None:
        """Returns the line under a charge whose part has the same name as the part of a key, or None."""
        for line in self._lines_under(charge):
            if _part_name(line.key) == _part_name(key):
                return line
        return None

    def _lines_under(self, charge: str) -> list[LedgerLine]:
        """Returns the line of a charge and the lines of all parts that it has paid for."""
        return [line for line in self._lines if charge in (line.key, line.under)]

    def _agrees_with(self, charge: str, key: str, content: bytes, release: str) -> bool:
        """Returns True where a part of a release can be that of the release under a charge.

        One seed draws one thing, so a part of the same name has the same content. A new part comes after all parts that
        another run has entered: a run that leaves a part out draws something else, from the same noise.
        """
        part = self._part_under(charge, key)
        if part is not None:
            return part.sha256 == hashlib.sha256(content).hexdigest()
        lines = self._lines_under(charge)
        names = {_part_name(line.key) for line in lines}
        names_of_release = {
            _part_name(line.key) for line in lines if line.key.startswith(f"{release}:")
        }
        return names == names_of_release

    def _shares_noise(self) -> bool:
        """Returns True where a charge of this account shares its seed with another of the file, as last read."""
        return any(len(self._charges_by_noise[noise]) > 1 for noise in self._noises)

    def _require_price(self, charge: str, event: Event, key: str) -> None:
        """Raises an error that names `key` unless the price of a charge is that of an event."""
        rule = "a new key, this one stands for another price"
        require(self._price_of(charge) == event, "key", key, rule)

    def _total(self, *following: Event) -> float:
        """Returns the total of the charges and of events that would follow, as of the last reading.

        The total is infinite where two charges share their noise: the difference of two sums with one noise has no
        noise.
        """
        if self._shares_noise():
            return math.inf
        return self._running_total.epsilon(following, interleaved=self._interleaved)

    def _unit_of(self, entries: list[LedgerEntry]) -> PrivacyUnit | None:
        """Returns the unit that the caller named, or else that of the first charge that names a unit."""
        charged_units = (entry.unit for entry in entries if entry.unit is not None)
        return self._unit or next(charged_units, None)

    def _require_one_unit(self) -> PrivacyUnit | None:
        """Returns the unit of this account and of its charges, as last read; raises where there are two."""
        units = [] if self._unit is None else [self._unit]
        units += [entry.unit for entry in self._entries if entry.unit is not None]
        for unit in units:
            if unit != units[0]:
                account = (
                    f"the account of records {self._account[:12]} in " if self._account else ""
                )
                rule = (
                    f"{unit.words}, as {account}ledger={self.path} counts; "
                    "prices of two units of privacy have no sum: take the same data.group= (and "
                    "data.budget=, holders=; of a classifier groups=), or another ledger="
                )
                raise InvalidValue("unit", units[0].words, rule=rule)
        return next(iter(units), None)

    def _require_same_adjacency(self, event: Event) -> None:
        """Raises for a sampled Gaussian, whose price depends on the adjacency, that was made for another adjacency."""
        sampled, _ = count_leaves(event).get(SampledGaussianEvent, ([], []))
        rule = f"{self.adjacency}, as this ledger counts"
        for leaf in sampled:
            adjacency = getattr(leaf, "adjacency", self.adjacency)
            require(adjacency == self.adjacency, "event.adjacency", adjacency, rule)

    def _line_of(self, key: str) -> LedgerLine | None:
        """Returns the line of a key; a charge that names no data counts for every data set."""
        line_of = self._store.line_of
        return line_of.get(("", key)) or line_of.get((self._account, key))

    def _read(self) -> list[LedgerEntry]:
        """Reads the new lines of the file, and returns the charges of this account."""
        self._store.read()
        return self._add_read_lines()

    def _add_read_lines(self) -> list[LedgerEntry]:
        """Adds the charges on this data set among the lines that the store has read, and returns all of them.

        Raises `InvalidValue` where the caller named no data set and the file counts for several.
        """
        with self._store.lock:
            num_lines, num_entries = self._num_read
            new_lines = self._store.lines[num_lines:]
            accounts = {self._account, *(line.data for line in new_lines)} - {""}
            rule = "the digest of one data set, this ledger counts for several"
            require(bool(self.data) or len(accounts) < 2, "data", "''", rule)
            self._account = self.data or next(iter(accounts), "")
            del self._entries[num_entries:]  # an interrupted call may have left entries there
            for line in new_lines:
                self._add_line(line)
            # One assignment at the end, so that an interrupt forgets no charge.
            self._num_read = num_lines + len(new_lines), len(self._entries)
            return self._entries

    def _add_line(self, line: LedgerLine) -> None:
        """Adds a line to the entries and indices of this account, or to the noises of the file alone."""
        is_charge = not line.under
        is_own = line.data in ("", self._account)
        noise = noise_of_line(line, self.path) if is_charge else ""
        if noise:
            # Sets, so that a line that an interrupted call has added counts once.
            self._charges_by_noise.setdefault(noise, set()).add(line.number)
            if is_own:
                self._noises.add(noise)
        if not is_own:
            return
        if is_charge:
            entry = LedgerEntry.from_line(line, self.path)
            self._require_same_adjacency(entry.event)
            self._index_of_charge[line.key] = len(self._entries)
            self._entries.append(entry)
            return
        index = self._index_of_charge.get(line.under)
        if index is not None and index + 1 < len(self._entries):
            self._interleaved.add(self._entries[index].event)


def require_ledger(ledger: Any) -> Ledger:
    """Returns the ledger; raises `InvalidValue` for anything else, such as a path, which names no delta."""
    if isinstance(ledger, Ledger):
        return ledger
    rule = "a pate.accounting.Ledger, such as Ledger(PATH, target_delta=…)"
    raise InvalidValue("ledger", ledger, rule=rule)


def _part_name(key: str) -> str:
    """Returns the name of a part of a release, which follows the last colon of its key."""
    return key.rpartition(":")[2]
