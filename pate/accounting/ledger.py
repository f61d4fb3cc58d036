"""The ledger: a record of the charges on private data, each written to disk before its release is shown.

The ledger writes a charge and the bytes of its release in one transaction of the store (`pate.accounting.store`). A
`RunningTotal` computes the total of all charges. A `Cap` limits the charges with a privacy filter
(docs/proofs/budgets.md).
"""

from __future__ import annotations

import hashlib
import math
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
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
from pate.accounting.rounding import format_delta, format_epsilon
from pate.accounting.running_total import RunningTotal
from pate.accounting.store import LedgerLine, LineText
from pate.accounting.unit import PrivacyUnit
from pate.files.strict_json import plain, to_json_line
from pate.html_table import html_table
from pate.validation import InvalidValue, require

_EMPTY_NOTE = ChargeNote()
_FRESH_NOISE = "fresh noise, another release drew from this seed"
_NO_TOTAL = "a ledger without a cap: releases in it share their noise, and no epsilon covers them"


class Ledger:
    """An append-only record of the charges on one data set and of the releases that were charged.

    A ledger is kept in a file or in memory. `commit` writes the bytes of a release and its charge in one transaction,
    so a crash at any moment leaves both or neither. `charge` writes the charge alone. The file is an SQLite database
    whose lines are chained by digests, so a file that was edited, shortened or exchanged raises `DamagedLedger`.

    Formal guarantees:
        * If all prices were fixed before the first release, `epsilon` bounds all releases together, in whatever order
          they were shown.
        * If prices were chosen after seeing earlier releases, only the cap `max_epsilon` is a bound. A privacy filter
          enforces the cap (docs/proofs/filters.md).
        * Releases with the same noise have no bound: `epsilon` and `spent_epsilon` are infinite, and a ledger with a
          cap refuses further charges.

    Args:
        path: the file, which is created if it does not exist; None keeps the ledger in the memory of this process. A
            `LedgerFile`, such as a `SharedLedger`, brings its own settings.
        adjacency: the adjacency of all prices.
        target_delta: the delta of every total, in (0, 1).
        accountant: makes the empty accountant that computes all totals. None takes the accountant of the file, and for
            a new file `AutoAccountant`, which is also the default for the calibration of noise.
        max_epsilon: the cap: the largest total epsilon, above which charges are refused. None takes the cap of the
            file, if the file has a cap. A new file stores the cap. A smaller cap than that of the file holds for this
            object only, and is a guarantee only if it was fixed before the first release. The first release also fits
            where an accountant computes an epsilon of at most the cap.
        filter: makes the privacy filter that enforces the cap, from (max_epsilon, target_delta), such as `RenyiFilter`.
            None takes the filter of the file. For a new file, None takes the filter that suits `accountant`, or
            `RenyiFilter`, which can price every event, where `accountant` is None too.
        data: the digest of the private data, where the file holds the accounts of several data sets.
        unit: the unit of privacy of all prices; None takes the unit of the earlier charges. Prices of two units have no
            sum, so a unit that differs from that of the earlier charges is refused. Charges without a unit, written by
            earlier versions, count as charges for the unit of the account; `num_without_unit` is their number.

    Raises:
        InvalidValue: the file has another adjacency, delta, accountant, filter or unit, or a smaller cap.
        DamagedLedger: the file was changed, or is not a ledger.

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
        # the digest that the lines name, which an unnamed account takes from them
        self._account = data
        self._index_of_charge: dict[str, int] = {}  # the index in `_entries` by key
        self._interleaved = set[
            Event
        ]()  # prices of charges with parts that were drawn after a later charge
        # the numbers of all charges of the file, whichever their data set, by the name of the seed of their noise
        self._charges_by_noise: dict[str, set[int]] = {}
        self._noises = set[str]()  # the names of the seeds of this account
        self._running_total = RunningTotal(
            accountant=self._accountant, entries=self._entries, target_delta=self.target_delta
        )
        self._stored_cap = file.stored_cap
        self._caps = [Cap(rule=rule, entries=self._entries) for rule in file.rules]
        self.max_epsilon = file.rules[0].max_epsilon if file.rules else None
        self._unit = unit
        self._add_read_lines()
        self._require_one_unit()

    @classmethod
    def stored(cls, path: str | os.PathLike[str], *, data: str = "") -> Ledger:
        """Opens the ledger in an existing file, with the settings that are stored in the file.

        Args:
            path: the file.
            data: the digest of the private data, where the file holds the accounts of several data sets.
        """
        file = LedgerFile.stored(path)
        return cls(file, target_delta=file.target_delta, data=data)

    def __repr__(self) -> str:
        """Returns the settings and the number of charges when the file was last read.

        The total epsilon is left out, because it may take seconds to compute.
        """
        settings = {
            "path": self.path,
            "adjacency": self.adjacency,
            "target_delta": self.target_delta,
            "max_epsilon": self.max_epsilon,
            "num_charges": len(self._entries),
        }
        return f"Ledger({', '.join(f'{name}={value}' for name, value in settings.items())})"

    def _repr_html_(self) -> str:
        """Reads the file, and returns the total, the settings and the number of charges as a table for notebooks."""
        statement = self.statement()
        unit = "not named" if statement.unit is None else statement.unit.words
        rows = [
            (
                "spent epsilon, if all prices were fixed beforehand",
                format_epsilon(statement.spent_epsilon),
            ),
            ("delta", format_delta(self.target_delta)),
            ("adjacency", str(self.adjacency)),
            ("unit of privacy", unit),
            ("cap", "none" if self.max_epsilon is None else f"{self.max_epsilon:g}"),
            ("charges", str(statement.num_charges)),
            ("file", "in memory" if self.path is None else str(self.path)),
        ]
        return html_table("Ledger", rows)

    @property
    def entries(self) -> list[LedgerEntry]:
        """All charges on this data set, by this process and by others, in the order of their commits."""
        return self._read().copy()

    @property
    def unit(self) -> PrivacyUnit | None:
        """The unit of privacy of all prices in this ledger; None where neither a charge nor the caller named a unit."""
        return self._unit_of(self._read())

    @property
    def accountant_name(self) -> str:
        """The name of the accountant that computes all totals, such as `rdp`."""
        return self._accountant().name

    @property
    def num_without_unit(self) -> int:
        """The number of charges without a unit, which count as charges for the unit of the account."""
        return sum(entry.unit is None for entry in self._read())

    @property
    def accountant(self) -> Callable[[], Accountant]:
        """A function that makes an empty accountant of the kind that computes all totals."""
        return self._accountant

    @property
    def noise_is_shared(self) -> bool:
        """Whether two releases drew their noise from the same seed, at least one of them of this data set.

        Such releases have no finite total: the difference of two sums with the same noise has no noise. That holds also
        if the other sum is over another data set.
        """
        self._read()
        return self._shares_noise()

    @property
    def epsilon(self) -> float:
        """The total epsilon of all charges at `target_delta`, computed by the ledger's accountant.

        If all prices were fixed before the first release, the total bounds all releases, in whatever order they were
        shown. The total is infinite where releases share their noise.
        """
        self._read()
        return self._total(following=[])

    @property
    def spent_epsilon(self) -> float:
        """The smaller of `epsilon` and the cap that is stored in the file; `epsilon` where the file has no cap.

        The figure is a bound if all prices were fixed before the first release. If somebody chose the next price, or
        stopped, after seeing a release, only the cap is a bound. The figure is infinite where releases share their
        noise.
        """
        return self.statement().spent_epsilon

    @property
    def guaranteed_epsilon(self) -> float | None:
        """The cap that is stored in the file, which bounds all releases in whatever way their prices were chosen.

        None where the file has no cap, or where releases share their noise.
        """
        return None if self.noise_is_shared else self._stored_cap

    @property
    def filter(self) -> PrivacyFilter | None:
        """The privacy filter that enforces the cap; None without a cap, and before the first charge."""
        return self._filter_and_spent()[0]

    @property
    def left(self) -> float | None:
        """The amount that can still be charged under the cap, in the unit that `filter.unit` names.

        None without a cap, and before the first charge.
        """
        deciding_filter, spent = self._filter_and_spent()
        if deciding_filter is None:
            return None
        return 0.0 if self._shares_noise() else deciding_filter.left(spent)

    def _filter_and_spent(self) -> tuple[PrivacyFilter | None, Spent]:
        """Reads the file and returns the filter of the smallest cap with the sums that the filter has counted.

        The filter is None without a cap, and before the first charge.
        """
        self._read()
        return self._caps[0].filter_and_spent() if self._caps else (None, Spent())

    def affords(self, event: Event) -> float:
        """Returns the number of times that an event can still be charged; infinity where no cap limits the charges.

        Returns 0 under a cap where releases share their noise. Raises `InvalidValue` where the filter cannot price the
        event.
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
        """Raises `BudgetExceeded` where an event does not fit under the cap; charges nothing.

        The error names a cap that would be large enough.
        """
        self._read()
        self._require_room(event)

    def _require_room(self, event: Event) -> None:
        """Raises `BudgetExceeded` where a cap does not admit an event, without reading the file again."""
        if self._caps and self._shares_noise():
            raise BudgetExceeded("max_epsilon", self.max_epsilon, rule=_NO_TOTAL, owner="ledger")
        first_epsilon = self._first_epsilon(event)
        for cap in self._caps:
            cap.require_room(event, first_epsilon=first_epsilon)

    @property
    def failures_left(self) -> float:
        """The largest sum of the failure probabilities of all later charges.

        The sum is limited by the part of `target_delta` that earlier failure probabilities leave, and by each cap.
        """
        self._read()
        if not self._entries:
            return self.target_delta
        charged = math.fsum(failure_probability(entry.event) for entry in self._entries)
        left_by_caps = [cap.failures_left or 0.0 for cap in self._caps]
        return max(0.0, min([self.target_delta - charged, *left_by_caps]))

    def _first_epsilon(self, event: Event) -> float:
        """Returns the epsilon of an event as the first charge of the account; infinity if the account has a charge.

        Any valid bound on a price that was fixed before the first release may be used (docs/proofs/filters.md). So the
        default accountant is tried where the account's own accountant computes an epsilon above the cap.
        """
        if self._entries or not self._caps:
            return math.inf
        cap = min(cap.rule.max_epsilon for cap in self._caps)
        epsilon = self.price(event)
        if epsilon <= cap or failure_probability(event) >= self.target_delta:
            return epsilon
        return min(epsilon, AutoAccountant().compose(event).get_epsilon(self.target_delta))

    def price(self, event: Event) -> float:
        """Returns the epsilon of one event, without the earlier charges, computed by the ledger's accountant.

        Returns infinity where the accountant cannot price the event, or where the failure probabilities of the event
        sum to `target_delta` or more.
        """
        try:
            return self._accountant().compose(event).get_epsilon(self.target_delta)
        except InvalidValue:
            return math.inf

    def statement(self) -> AccountStatement:
        """Reads the file once and returns the total of the account, with the figures that explain the total."""
        entries = self._read()
        epsilon = self._total(following=[])
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
        """Writes a charge for a release whose bytes are not stored in the ledger, and returns the charge.

        The caller may draw the noise of the release only after this method has returned. A second charge with the same
        key and event costs nothing, so a key has to identify one release.

        Args:
            event: the price of the release.
            adjacency: the adjacency of the price, which must be that of the ledger.
            key: the identifier of the release; empty for a new release with a random key.
            description: a note for people.

        Raises:
            BudgetExceeded: the event does not fit under the cap. Nothing is charged.
            InvalidValue: the key was charged at another price, or the adjacency is not that of the ledger.
        """
        key = key or uuid.uuid4().hex
        note = ChargeNote(description=description)
        self.commit(key, event, content=b"", note=note, adjacency=adjacency)
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
        """Stores the bytes of a release with its charge in one transaction, and returns the bytes stored under the key.

        The returned bytes are `content`, unless another process has already committed bytes under the same key: a key
        returns the same bytes for ever. The release may be shown only after this method has returned.

        A release may have several parts. The first committed part is charged with the price of all parts. Later parts
        are stored under that charge, and cost nothing.

        Two runs with the same seed, the same price and the same content made the same release. So the second run is
        stored under the charge of the first run. A seed must not serve for two different releases. Only
        `note.may_share_noise`, in a ledger without a cap, allows that; the total is infinite from then on.

        Args:
            key: the identifier of the release, or of the part: a text that names everything on which the content
                depends.
            event: the price of the whole release.
            content: the bytes of the release, or of the part.
            note: the information that is stored with the charge, such as the name of the seed.
            adjacency: the adjacency of the price, which must be that of the ledger.
            release: the identifier of a release with parts, whose keys all begin with this text and a colon; empty for
                a release without parts.

        Raises:
            BudgetExceeded: the event does not fit under the cap. Nothing is charged.
            InvalidValue: a different release drew from the seed that `note.noise` names; or the key was charged at
                another price; or the adjacency is not that of the ledger.
        """
        rule = f"{self.adjacency}, as this ledger counts"
        require(adjacency == self.adjacency, "adjacency", adjacency, rule)
        self._require_same_adjacency(event)
        price = event_to_json(event)
        event_from_json(price)  # a charge that cannot be read back is never written

        @cache
        def total_with_event(num_charges: int) -> float:
            """Returns the total with this charge; the cached value holds while the number of charges is the same."""
            self._require_room(event)
            try:
                return self._total(following=[event])
            except InvalidValue as error:
                if not self._entries or error.name != "failure_prob":
                    raise
                left = validation.rounded_down(self.failures_left, digits=3)
                rule = (
                    f"{error.rule}; this ledger has at most {left} for what follows, "
                    "which calibrated(ledger=…) keeps to"
                )
                raise InvalidValue("failure_prob", error.value, rule=rule) from error

        def describe() -> LineText:
            """Reads the charges that other processes have added, and returns the text of the new line."""
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
        """Returns the bytes that were committed under a key; None for a key without a commit."""
        self._read()
        line = self._line_of(key)
        return None if line is None else self._store.release(line)

    @property
    def keys(self) -> list[str]:
        """The keys of all charges and of all parts of releases, in the order of their commits."""
        self._read()
        return [line.key for line in self._lines]

    def parts(self, release: str) -> dict[str, str]:
        """Returns the SHA-256 of each committed part of a release, by the name of the part, in the order of commits.

        Args:
            release: the identifier of the release, with which the keys of its parts begin.
        """
        self._read()
        prefix = f"{release}:"
        return {
            line.key.removeprefix(prefix): line.sha256
            for line in self._lines
            if line.key.startswith(prefix)
        }

    def charges_of(self, run: str) -> list[LedgerEntry]:
        """Returns the charges of all releases of a run, without reading the file again.

        Args:
            run: the identifier of the run, with which the keys of its releases begin.
        """
        paid_by = {line.under or line.key for line in self._lines if line.key.startswith(run)}
        return [entry for entry in self._entries if entry.key in paid_by]

    def require_charged(self, event: Event, release: str, *, remedy: str) -> None:
        """Raises `InvalidValue` unless a release is charged at exactly this price.

        Args:
            event: the price.
            release: the identifier of the release, with which the keys of its parts begin.
            remedy: the advice at the end of the error message.
        """
        self._read()
        charge = self._charge_of(release)
        rule = f"the charge of this release at its price; {remedy}"
        require(charge != "" and self._price_of(charge) == event, "ledger", self.path, rule)

    def introduce(
        self, owners: Mapping[str, frozenset[bytes]], *, anyway: bool = False
    ) -> dict[str, int]:
        """Stores keyed digests of the names of this data set's owners in the file, unless other accounts have them.

        Args:
            owners: the names of the owners as bytes, by the kind of owner.
            anyway: True stores them even if other accounts have some of the same owners.

        Returns:
            The number of these owners in each other account, by account; empty where the owners were stored.
        """
        return self._store.introduce(self._account, owners, anyway=anyway)

    def has_noise(
        self, noise: str, *, except_release: str = "", except_price: Event | None = None
    ) -> bool:
        """Returns True if the file holds another release, of any data set, whose noise was drawn from a seed.

        Args:
            noise: the name of the seed.
            except_release: the text with which the keys of the caller's own release begin; it is left out.
            except_price: the price of the caller's own release. A release of this data set at the same price is left
                out too, because both may be the same release; None leaves out no release for its price.
        """
        return any(
            except_price is None
            or line.data != self._account
            or self._price_of(line.key) != except_price
            for line in self._charges_with_noise(noise, except_release=except_release)
        )

    @property
    def _lines(self) -> list[LedgerLine]:
        """The lines of this account when the file was last read; a line without a data set belongs to every account."""
        return [line for line in self._store.lines if line.data in ("", self._account)]

    def _charge_of(self, release_name: str) -> str:
        """Returns the key of the charge for a release; an empty string for a release without a charge.

        Args:
            release_name: the identifier of the release, with which the keys of its parts begin.
        """
        if not release_name:
            return ""
        for line in self._lines:
            if line.key.startswith(f"{release_name}:"):
                return line.under or line.key
        return ""

    def _price_of(self, key: str) -> Event | None:
        """Returns the price charged for a release or for the release of a part; None for a key without a commit.

        Args:
            key: the key of a charge, or of a part.
        """
        line = self._line_of(key)
        if line is None:
            return None
        return self._entries[self._index_of_charge[line.under or line.key]].event

    def _charges_with_noise(self, noise: str, *, except_release: str) -> list[LedgerLine]:
        """Returns all charges of the file, on any data set, whose noise was drawn from a seed.

        Args:
            noise: the name of the seed; empty for noise without a seed, which no two charges share.
            except_release: keys that begin with this text are left out; empty leaves out none.
        """
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
        self, key: str, event: Event, content: bytes, note: ChargeNote, release_name: str
    ) -> str:
        """Returns the key of an earlier charge that covers this commit; an empty string where it must be charged.

        The earlier charge is that of the same release, or that of a twin: the same release, made by another run with
        the same seed. `commit` explains the arguments.

        Raises:
            InvalidValue: a different release drew from the seed, and `note.may_share_noise` is False or a cap exists.
        """
        charge_key = self._charge_of(release_name)
        if charge_key:  # before the part is entered, or a draw at another price would be read back at this price
            self._require_price(charge_key, event, key)
        if charge_key and (
            note.noise == ""
            or self._agrees_with(
                charge_key, part_key=key, content=content, release_name=release_name
            )
        ):
            return charge_key
        same_noise = self._charges_with_noise(note.noise, except_release=note.run or key)
        twins = [
            line.key
            for line in same_noise
            if release_name != ""
            and line.data == self._account
            and self._price_of(line.key) == event
            and self._part_under(line.key, key) is not None
            and self._agrees_with(
                line.key, part_key=key, content=content, release_name=release_name
            )
        ]
        if charge_key or len(twins) < len(same_noise):
            may_share_noise = note.may_share_noise and not self._caps
            require(may_share_noise, "noise", note.noise, _FRESH_NOISE)
        return next(iter(twins), "")

    def _part_under(self, charge_key: str, part_key: str) -> LedgerLine | None:
        """Returns the line of the part with the same name as the part that `part_key` names; None if no part has it.

        Args:
            charge_key: the key of the charge under which the line is searched for.
            part_key: the key of a part, of this or another release.
        """
        for line in self._lines_under(charge_key):
            if _part_name(line.key) == _part_name(part_key):
                return line
        return None

    def _lines_under(self, charge_key: str) -> list[LedgerLine]:
        """Returns the line of a charge and the lines of all parts that are stored under this charge.

        Args:
            charge_key: the key of the charge.
        """
        return [line for line in self._lines if charge_key in (line.key, line.under)]

    def _agrees_with(
        self, charge_key: str, part_key: str, content: bytes, release_name: str
    ) -> bool:
        """Returns True if a part of a release agrees with the release that was charged under the key `charge_key`.

        Two runs with the same seed make the same release only if all parts agree. A part with the same name must have
        the same content. A part with a new name must come after all parts that the other run has committed, because a
        run that skips a part draws something else from the same noise.

        Args:
            charge_key: the key of the earlier charge.
            part_key: the key of the part.
            content: the bytes of the part.
            release_name: the identifier of the release to which the part belongs.
        """
        part = self._part_under(charge_key, part_key)
        if part is not None:
            return part.sha256 == hashlib.sha256(content).hexdigest()
        lines = self._lines_under(charge_key)
        names = {_part_name(line.key) for line in lines}
        names_of_release = {
            _part_name(line.key) for line in lines if line.key.startswith(f"{release_name}:")
        }
        return names == names_of_release

    def _shares_noise(self) -> bool:
        """Returns True if a charge of this account and another charge of the file drew from the same seed.

        The file is not read again.
        """
        return any(len(self._charges_by_noise[noise]) > 1 for noise in self._noises)

    def _require_price(self, charge_key: str, event: Event, key: str) -> None:
        """Raises `InvalidValue` unless a charge has the price `event`.

        Args:
            charge_key: the key of the charge.
            event: the price that the charge must have.
            key: the key that the error message shows.
        """
        rule = "a new key, this one stands for another price"
        require(self._price_of(charge_key) == event, "key", key, rule)

    def _total(self, following: Sequence[Event]) -> float:
        """Returns the total epsilon of all charges and of further events, without reading the file again.

        The total is infinite where two charges share their noise: the difference of two sums with the same noise has no
        noise.

        Args:
            following: events that are not charged yet.
        """
        if self._shares_noise():
            return math.inf
        return self._running_total.epsilon(tuple(following), interleaved=self._interleaved)

    def _unit_of(self, entries: list[LedgerEntry]) -> PrivacyUnit | None:
        """Returns the unit that the caller named, or else the unit of the first of these charges that has a unit."""
        charged_units = (entry.unit for entry in entries if entry.unit is not None)
        return self._unit or next(charged_units, None)

    def _require_one_unit(self) -> PrivacyUnit | None:
        """Returns the unit of privacy of this account; None where neither the caller nor a charge named a unit.

        Raises `InvalidValue` where the caller and the charges name different units. The file is not read again.
        """
        units = [] if self._unit is None else [self._unit]
        units += [entry.unit for entry in self._entries if entry.unit is not None]
        for unit in units:
            if unit != units[0]:
                account = (
                    f"the account of records {self._account[:12]} in " if self._account else ""
                )
                rule = (
                    f"{unit.words}, as {account}ledger={self.path} counts; "
                    "prices of two units of privacy have no sum"
                )
                raise InvalidValue("unit", units[0].words, rule=rule, owner="ledger")
        return next(iter(units), None)

    def _require_same_adjacency(self, event: Event) -> None:
        """Raises `InvalidValue` where an event contains a sampled Gaussian with another adjacency than this ledger's.

        The price of a sampled Gaussian depends on the adjacency.
        """
        sampled, _ = count_leaves(event).get(SampledGaussianEvent, ([], []))
        rule = f"{self.adjacency}, as this ledger counts"
        for leaf in sampled:
            adjacency = getattr(leaf, "adjacency", self.adjacency)
            require(adjacency == self.adjacency, "event.adjacency", adjacency, rule)

    def _line_of(self, key: str) -> LedgerLine | None:
        """Returns the line with a key in this account, or None; a line without a data set belongs to every account."""
        line_of = self._store.line_of
        return line_of.get(("", key)) or line_of.get((self._account, key))

    def _read(self) -> list[LedgerEntry]:
        """Reads the new lines of the file, and returns the charges of this account."""
        self._store.read()
        return self._add_read_lines()

    def _add_read_lines(self) -> list[LedgerEntry]:
        """Adds the lines that the store has read since the last call, and returns all charges on this data set.

        Raises `InvalidValue` where the caller named no data set and the file holds charges on several data sets.
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
        """Adds one line of the file to the entries and indices of this object.

        Of a line of another data set only the name of its seed is kept, to find noise that is shared.
        """
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
    """Returns `ledger` if it is a `Ledger`; raises `InvalidValue` for another value, such as a path without a delta."""
    if isinstance(ledger, Ledger):
        return ledger
    rule = "a pate.accounting.Ledger, such as Ledger(PATH, target_delta=…)"
    raise InvalidValue("ledger", ledger, rule=rule)


def _part_name(key: str) -> str:
    """Returns the name of a part of a release: the text after the last colon of the part's key."""
    return key.rpartition(":")[2]
