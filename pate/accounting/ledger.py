"""The ledger: a record of the charges on private data, each stored before its release is shown.

The ledger writes a charge and the bytes of its release in one transaction of the store (`pate.accounting.store`). A
`RunningTotal` computes the total of all charges. `Caps` limit the charges with privacy filters
(docs/proofs/filters.md).
"""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pate.accounting.accountant import Accountant
from pate.accounting.adjacency import Adjacency
from pate.accounting.cap import BudgetExceeded, Caps, epsilon_of_one
from pate.accounting.event_json import event_from_json, event_to_json
from pate.accounting.event_tree import failure_probability
from pate.accounting.events import Event
from pate.accounting.filters import FilterMaker, PrivacyFilter
from pate.accounting.ledger_entry import (
    AccountStatement,
    ChargeNote,
    LedgerEntry,
    charging_process,
)
from pate.accounting.ledger_file import LedgerFile
from pate.accounting.ledger_index import CommitRequest, LedgerIndex, require_same_adjacency
from pate.accounting.rounding import floor_to_digits, format_delta, format_epsilon
from pate.accounting.running_total import RunningTotal
from pate.accounting.store import LineText
from pate.accounting.unit import PrivacyUnit
from pate.html_table import html_table
from pate.validation import InvalidValue

# The note of a charge of which only the price is to be stored.
_EMPTY_NOTE = ChargeNote()


@dataclass(frozen=True)
class _EarlierCharge:
    """The payment of a commit whose release is charged already: a part of that release, or an equal release."""

    charge_key: str


@dataclass(frozen=True, kw_only=True)
class _NewCharge:
    """The payment of a commit by a charge of its own."""

    total_epsilon: float  # of all charges of the account, the new one included
    num_earlier_charges: int  # the number of charges of the account when the total was computed


class Ledger:
    """An append-only record of the charges on one data set and of the releases that were charged.

    A ledger is kept in a file or in memory. `commit` writes the bytes of a release and its charge in one transaction,
    so a crash at any moment leaves both or neither. `charge` writes the charge alone. The file is an SQLite database
    whose lines are chained by digests, so a file that was edited, shortened or exchanged raises `DamagedLedger`.

    Each call that needs lines first reads those that other processes have added to the file. Only `charges_of`,
    `is_seed_used` and `repr` search the lines that were read last. The computation of a total may take seconds.

    Formal guarantees:
        * If all prices were fixed before the first release, `epsilon` bounds all releases together, in whatever order
          they were shown.
        * If prices were chosen after seeing earlier releases, only the cap `max_epsilon` is a bound. A privacy filter
          enforces the cap (docs/proofs/filters.md).
        * Releases with the same noise have no bound: `epsilon` and `spent_epsilon` are infinite, and a ledger with a
          cap refuses further charges.

    Terms:
        * An account is the ledger of one private data set; a file may hold several. Its name is the digest of the data
          set: `data`, or else the digest that the lines of the file name. Without either it has no name.
        * A charge is the price of one release. It has a key, the name of the release.
        * A release may be drawn in parts, each of which is committed under the key of its charge.
        * A line is one commit in the file: a charge, or a later part. A `LedgerEntry` is a charge that was read.

    Args:
        path: the file, which is created if it does not exist; None keeps the ledger in the memory of this process.
        adjacency: the adjacency of all prices.
        target_delta: the delta of every total, in (0, 1).
        accountant: makes the empty accountant that computes all totals. None takes the accountant of the file, and for
            a new file `AutoAccountant`, which is also the default for the calibration of noise.
        max_epsilon: the cap: the largest total epsilon, above which charges are refused. None takes the cap of the
            file, if the file has a cap. A new file stores the cap. A smaller cap than that of the file, or a cap for a
            file without one, holds for this object only. Such a cap is a guarantee only if it was fixed before the
            first release, and limited every charge. The first release also fits where the filter refuses it, if
            `accountant` or `AutoAccountant` prices it at no more than the cap.
        filter: makes the privacy filter that enforces the cap, from (max_epsilon, target_delta), such as `RenyiFilter`.
            None takes the filter of the file. For a new file, None takes the filter that suits `accountant`, or
            `RenyiFilter`, which can price every event, where `accountant` is None too.
        data: the digest of the private data, where the file holds the accounts of several data sets.
        unit: the unit of privacy of all prices; None takes the unit of the earlier charges. Prices of two units have no
            sum, so a unit that differs from that of the earlier charges is refused. Charges without a unit, written by
            earlier versions, count as charges for the unit of the account; `num_without_unit` is their number.

    Attributes:
        adjacency: the adjacency of all prices.
        target_delta: the delta of every total.
        accountant: makes an empty accountant of the kind that computes all totals.
        data: the digest of the private data; empty where the caller named none.
        path: the file; None for a ledger in memory.
        max_epsilon: the cap on charges by this object; None without a cap. It may be smaller than the cap that the file
            stores, which `guaranteed_epsilon` returns.

    Raises:
        InvalidValue: the file has another adjacency, delta, accountant or unit, a smaller cap, or the same cap with
            another filter.
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
        path: str | os.PathLike[str] | None = None,
        *,
        adjacency: Adjacency = Adjacency.REPLACE_ONE,
        target_delta: float,
        accountant: Callable[[], Accountant] | None = None,
        max_epsilon: float | None = None,
        filter: FilterMaker | None = None,
        data: str = "",
        unit: PrivacyUnit | None = None,
    ) -> None:
        ledger_file = LedgerFile(
            path,
            target_delta=target_delta,
            max_epsilon=max_epsilon,
            adjacency=adjacency,
            accountant=accountant,
            filter=filter,
        )
        self._open(ledger_file, data_digest=data, unit=unit)

    def _open(self, ledger_file: LedgerFile, *, data_digest: str, unit: PrivacyUnit | None) -> None:
        """Initializes this object from the storage of a ledger; `from_file` explains the arguments."""
        if not isinstance(data_digest, str):
            rule = "the digest of a data set, as a string"
            raise InvalidValue("data", type(data_digest).__name__, rule=rule)
        self.adjacency = ledger_file.adjacency
        self.target_delta = ledger_file.target_delta
        self.accountant = ledger_file.accountant
        self.data = data_digest
        self.path = ledger_file.path
        self._store = ledger_file.store
        self._index = LedgerIndex(
            ledger_file.store,
            data_digest=data_digest,
            adjacency=ledger_file.adjacency,
            unit=unit,
        )
        self._running_total = RunningTotal(
            make_accountant=self.accountant,
            entries=self._index.entries,
            target_delta=self.target_delta,
        )
        self._stored_cap = ledger_file.stored_cap
        self._caps = Caps(
            initial_filters=ledger_file.initial_filters,
            entries=self._index.entries,
            make_accountant=self.accountant,
            target_delta=self.target_delta,
        )
        self.max_epsilon = self._caps.max_epsilon
        self._index.take_new_lines()
        self._index.require_one_unit()

    @classmethod
    def from_file(
        cls, ledger_file: LedgerFile, *, data: str = "", unit: PrivacyUnit | None = None
    ) -> Ledger:
        """Returns the ledger of one data set in a `LedgerFile`, such as a `SharedLedger`, with the file's settings.

        Args:
            ledger_file: the open file.
            data: the digest of the private data, where the file holds the accounts of several data sets.
            unit: the unit of privacy of all prices; None takes the unit of the earlier charges.
        """
        ledger = cls.__new__(cls)  # without `__init__`, which would open the file by its path
        ledger._open(ledger_file=ledger_file, data_digest=data, unit=unit)
        return ledger

    @classmethod
    def stored(cls, path: str | os.PathLike[str], *, data: str = "") -> Ledger:
        """Opens the ledger in an existing file, with the settings that are stored in the file.

        Args:
            path: the file.
            data: the digest of the private data, where the file holds the accounts of several data sets.
        """
        return cls.from_file(LedgerFile.stored(path), data=data)

    def __repr__(self) -> str:
        """Returns the settings and the number of charges when the file was last read.

        The total epsilon is left out, because it may take seconds to compute.
        """
        settings = {
            "path": self.path,
            "adjacency": self.adjacency,
            "target_delta": self.target_delta,
            "max_epsilon": self.max_epsilon,
            "num_charges": len(self._index.entries),
        }
        arguments = ", ".join(f"{name}={value}" for name, value in settings.items())
        return f"Ledger({arguments})"

    def _repr_html_(self) -> str:
        """Reads the file, and returns the total, the settings and the number of charges as a table for notebooks."""
        statement = self.statement()
        unit = "not named" if statement.unit is None else statement.unit.words
        table_rows = [
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
        return html_table(title="Ledger", rows=table_rows)

    def charge(
        self, event: Event, *, adjacency: Adjacency, key: str = "", description: str = ""
    ) -> LedgerEntry:
        """Writes a charge for a release whose bytes are not stored in the ledger, and returns the charge.

        The caller may draw the noise of the release only after this method has returned. A second charge with the same
        key and event costs nothing, so a key has to identify one release.

        Args:
            event: the price of the release.
            adjacency: the adjacency that the event was made for, which most events do not state. Any other than that of
                the ledger is refused.
            key: the identifier of the release; empty for a new release with a random key.
            description: a note for people.

        Raises:
            BudgetExceeded: the event does not fit under the cap. Nothing is charged.
            InvalidValue: the key was charged at another price, or the adjacency is not that of the ledger.
        """
        key = key or uuid.uuid4().hex
        charge_note = ChargeNote(description=description)
        self.commit(key, event, content=b"", charge_note=charge_note, adjacency=adjacency)
        return self._index.entry_of(key)

    def commit(
        self,
        key: str,
        event: Event,
        content: bytes,
        charge_note: ChargeNote = _EMPTY_NOTE,
        *,
        adjacency: Adjacency,
        release_key: str = "",
    ) -> bytes:
        """Stores the bytes of a release with its charge in one transaction, and returns the bytes stored under the key.

        The returned bytes are `content`, unless bytes were committed earlier under the same key: a key returns the same
        bytes for ever. The release may be shown only after this method has returned.

        A release may have several parts. The first committed part is charged with the price of all parts. Later parts
        are stored under that charge, and cost nothing.

        Two runs with the same seed, the same price and the same parts made the same release. So the parts of the second
        run are stored under their own keys, and cost nothing. If two different releases have one seed, the second one
        is refused. Only in a ledger without a cap is it charged instead, if `charge_note.may_share_noise` is True or
        both are releases of one run; the total is infinite from then on.

        Args:
            key: the identifier of the release, or of the part: a text that names everything on which the content
                depends.
            event: the price of the whole release.
            content: the bytes of the release, or of the part.
            charge_note: the information that is stored with the charge, such as the name of the seed.
            adjacency: the adjacency that the event was made for, which most events do not state. Any other than that of
                the ledger is refused.
            release_key: the identifier of a release with parts, whose keys all begin with this text and a colon; empty
                for a release without parts.

        Raises:
            BudgetExceeded: the event does not fit under the cap. Nothing is charged.
            InvalidValue: a different release drew from the seed that `charge_note.seed_name` names; or the key was
                charged at another price; or the adjacency is not that of the ledger.
        """
        if adjacency != self.adjacency:
            rule = f"{self.adjacency}, the adjacency of all prices in this ledger"
            raise InvalidValue("adjacency", adjacency, rule=rule)
        require_same_adjacency(event, self.adjacency)
        # The call is made for its errors alone: a charge that cannot be read back is never written.
        event_from_json(event_to_json(event))
        commit_request = CommitRequest(
            key=key, event=event, content=content, charge_note=charge_note, release_key=release_key
        )
        # 1. A new charge needs a total, which may take seconds. So it is computed before the lock is taken.
        charge_before_lock = self._new_charge_before_lock(commit_request)
        # 2. The store takes the lock, and writes the line unless the key has one. The total is computed again if
        #    another process has charged since.
        committed_content = self._store.commit(
            data_digest=self._index.account_of(key),
            key=key,
            content=content,
            line_under_lock=partial(
                self._line_text_under_lock,
                commit_request,
                charge_before_lock=charge_before_lock,
            ),
        )
        # 3. The line may be that of an earlier commit, which must have had this price.
        self._index.take_new_lines()
        self._index.require_charged_price(event, key=key)
        return committed_content

    # The steps of `commit`.

    def _new_charge_before_lock(self, commit_request: CommitRequest) -> _NewCharge | None:
        """Returns the charge of a release, as computed before the store takes its lock.

        Returns None where no total is needed:
            * The release is charged already, by the lines that were read before this call.
            * A line of the file has the key of this commit.
            * A charge of the file covers this commit: that of the release, or of an equal release.

        The file is read again before the last two are checked. A release without parts, whose `release_key` is empty,
        can only be the second case.

        Raises:
            BudgetExceeded: the event does not fit under the cap.
            InvalidValue: the reasons that `commit` names.
        """
        if self._index.charge_of(commit_request.release_key):
            return None
        self._index.refresh()  # lines of other processes, which may also name an account that has no name yet
        if self._index.line_of(commit_request.key) is not None:
            return None
        payment = self._payment_of(commit_request)
        return payment if isinstance(payment, _NewCharge) else None

    def _line_text_under_lock(
        self, commit_request: CommitRequest, *, charge_before_lock: _NewCharge | None
    ) -> LineText:
        """Returns the text of the line for a commit, after all checks; the store calls this method under its lock.

        Args:
            commit_request: the release, or the part of a release.
            charge_before_lock: its charge as computed before the store took the lock; None where it was not
                computed.

        Raises:
            BudgetExceeded: the event does not fit under the cap.
            InvalidValue: the reasons that `commit` names.
        """
        self._index.take_new_lines()  # the store has read those of other processes
        payment = self._payment_of(commit_request, charge_before_lock=charge_before_lock)
        if isinstance(payment, _EarlierCharge):
            return LineText(charge_key=payment.charge_key)
        process = charging_process(os.getpid())
        entry = LedgerEntry(
            key=commit_request.key,
            event=commit_request.event,
            description=commit_request.charge_note.description,
            epsilon=payment.total_epsilon,
            draw=1 + self._index.num_draws(commit_request.charge_note.run_key),
            seed_name=commit_request.charge_note.seed_name,
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            user=process.user,
            host=process.host,
            command=process.command,
            unit=self._index.unit,
        )
        return entry.to_line_text()

    def _payment_of(
        self,
        commit_request: CommitRequest,
        *,
        charge_before_lock: _NewCharge | None = None,
    ) -> _EarlierCharge | _NewCharge:
        """Returns how a release, or a part of a release, is paid for; checks that it may be committed.

        Args:
            commit_request: the release, or the part.
            charge_before_lock: the charge that an earlier call, before the store took the lock, returned for
                the same commit. Its total is taken over unless another process has charged since. None computes the
                total.

        Raises:
            BudgetExceeded: the event does not fit under the cap.
            InvalidValue: the reasons that `commit` names.
        """
        num_charges = len(self._index.entries)
        charge_key = self._index.charge_covering(
            commit_request=commit_request, has_cap=self.max_epsilon is not None
        )
        if charge_key:
            return _EarlierCharge(charge_key)
        seed_name = commit_request.charge_note.seed_name
        # An earlier release of the same run counts, too, so no key is left out.
        if self._index.charges_with_seed(seed_name, except_key_prefix=""):
            # Releases with the same noise have no bound. Under a cap `charge_covering` has refused those of other runs,
            # and this check refuses a second release of the same run.
            if self.max_epsilon is not None:
                rule = "fresh noise, an earlier release of this run drew from this seed"
                raise InvalidValue("noise", seed_name, rule=rule)
            total_epsilon = math.inf
        elif (
            charge_before_lock is not None and charge_before_lock.num_earlier_charges == num_charges
        ):
            # No charge has been added since then, so the check of the cap still holds.
            total_epsilon = charge_before_lock.total_epsilon
        else:
            self._require_room(commit_request.event)
            total_epsilon = self._total_with(commit_request.event)
        self._index.require_one_unit()
        return _NewCharge(total_epsilon=total_epsilon, num_earlier_charges=num_charges)

    def _total_with(self, event: Event) -> float:
        """Returns the total epsilon of all charges and of one further event, without reading the file again.

        Raises:
            InvalidValue: the accountant cannot price the event, or its failure probability uses up delta.
        """
        try:
            return self._total(following_events=[event])
        except InvalidValue as error:
            if not self._index.entries or error.name != "failure_prob":
                raise
            available_prob = floor_to_digits(self.failures_left, num_digits=3)
            rule = (
                f"{error.rule}; this ledger has at most {available_prob} for later releases, "
                "and calibrated(ledger=…) uses no more"
            )
            raise InvalidValue("failure_prob", error.value, rule=rule) from error

    def read(self, key: str) -> bytes | None:
        """Returns the bytes that were committed under a key; None for a key without a commit."""
        self._index.refresh()
        ledger_line = self._index.line_of(key)
        return None if ledger_line is None else self._store.release(ledger_line)

    @property
    def entries(self) -> list[LedgerEntry]:
        """All charges on this data set, by this process and by others, in the order of their commits."""
        return self._index.refresh().copy()

    @property
    def keys(self) -> list[str]:
        """The keys of all charges and of all parts of releases, in the order of their commits."""
        self._index.refresh()
        return [line.key for line in self._index.lines]

    def parts(self, release_key: str) -> dict[str, str]:
        """Returns the SHA-256 of each committed part of a release, by the name of the part, in the order of commits.

        The ledger stores a part under the key RELEASE_KEY:NAME. The part committed with the charge counts, too.
        The result is empty if there is no part.

        Args:
            release_key: the identifier of the release.
        """
        self._index.refresh()
        return self._index.parts(release_key)

    def charges_of(self, run_key: str) -> list[LedgerEntry]:
        """Returns the charges that paid for all releases of a run, without reading the file again.

        The charge of an equal release by another run counts, too; its key begins with the identifier of that run.

        Args:
            run_key: the identifier of the run, with which the keys of its releases begin. An empty text returns all
                charges, as every key begins with it.
        """
        return self._index.charges_of(run_key)

    @property
    def unit(self) -> PrivacyUnit | None:
        """The unit of privacy of all prices in this ledger; None where neither a charge nor the caller named a unit."""
        self._index.refresh()
        return self._index.unit

    @property
    def accountant_name(self) -> str:
        """The name of the accountant that computes all totals, such as `rdp`."""
        return self.accountant().name

    @property
    def num_without_unit(self) -> int:
        """The number of charges without a unit, which count as charges for the unit of the account."""
        self._index.refresh()
        return self._index.num_without_unit

    @property
    def noise_is_shared(self) -> bool:
        """Whether two releases drew their noise from the same seed, at least one of them of this data set.

        Such releases have no finite total: the difference of two sums with the same noise has no noise. That holds also
        if the other sum is over another data set.
        """
        self._index.refresh()
        return self._index.shares_noise()

    @property
    def epsilon(self) -> float:
        """The total epsilon of all charges at `target_delta`, for every order of the releases.

        The ledger's accountant computes the total unless its bound depends on the order of these charges. Then an
        accountant whose bounds hold for every order does. If all prices were fixed before the first release, the total
        bounds all releases, in whatever order they were shown. The total is infinite where releases share their noise.
        """
        self._index.refresh()
        return self._total(following_events=[])

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

    def statement(self) -> AccountStatement:
        """Reads the file once and returns the total of the account, with the figures that explain the total."""
        entries = self._index.refresh()
        epsilon = self._total(following_events=[])
        noise_is_shared = self._index.shares_noise()
        spent_epsilon = epsilon
        if self._stored_cap is not None and not noise_is_shared:
            spent_epsilon = min(epsilon, self._stored_cap)
        return AccountStatement(
            num_charges=len(entries),
            epsilon=epsilon,
            spent_epsilon=spent_epsilon,
            unit=self._index.unit,
            num_without_unit=self._index.num_without_unit,
            noise_is_shared=noise_is_shared,
        )

    @property
    def filter(self) -> PrivacyFilter | None:
        """The privacy filter that enforces the cap; None without a cap, and before the first charge."""
        self._index.refresh()
        return self._caps.filter

    @property
    def left(self) -> float | None:
        """The amount that can still be charged under the cap, measured as `filter.unit` says.

        None without a cap, and before the first charge; 0 where releases share their noise.
        """
        self._index.refresh()
        amount_left = self._caps.left
        if amount_left is not None and self._index.shares_noise():
            return 0.0
        return amount_left

    @property
    def failures_left(self) -> float:
        """The limit on the sum of the failure probabilities of all later charges.

        The sum must stay below the part of `target_delta` that earlier failure probabilities leave, and within what the
        filter of each cap allows. Before the first charge the limit is `target_delta`, also under a cap, because that
        charge determines how much the filter allows.
        """
        self._index.refresh()
        if not self._index.entries:
            return self.target_delta
        charged = math.fsum(failure_probability(entry.event) for entry in self._index.entries)
        return max(0.0, min(self.target_delta - charged, self._caps.failures_left))

    def price(self, event: Event) -> float:
        """Returns the epsilon of one event, without the earlier charges, computed by the ledger's accountant.

        Returns infinity where the accountant cannot price the event, or where the failure probabilities of the event
        sum to `target_delta` or more.
        """
        return epsilon_of_one(
            event, make_accountant=self.accountant, target_delta=self.target_delta
        )

    def affords(self, event: Event) -> float:
        """Returns the number of times that an event can still be charged; infinity where no cap limits the charges.

        Returns 0 under a cap where releases share their noise. Raises `InvalidValue` where the filter cannot price the
        event.
        """
        self._index.refresh()
        if self.max_epsilon is not None and self._index.shares_noise():
            return 0
        return self._caps.affords(event)

    def has_room(self, event: Event) -> bool:
        """Returns True if an event fits under the cap, or if there is no cap; charges nothing.

        Raises `InvalidValue` where the privacy filter, which enforces the cap, cannot price the event.
        """
        return self.affords(event) >= 1

    def require_room(self, event: Event) -> None:
        """Raises `BudgetExceeded` where an event does not fit under the cap; charges nothing.

        The error names what would fit, such as a cap that is large enough.
        """
        self._index.refresh()
        self._require_room(event)

    def require_charged(self, event: Event, release_key: str, *, remedy: str) -> None:
        """Raises `InvalidValue` unless a release is charged at exactly this price.

        Args:
            event: the price.
            release_key: the identifier of the release, with which the keys of its parts begin.
            remedy: the advice at the end of the error message.
        """
        self._index.refresh()
        charge_key = self._index.charge_of(release_key)
        if not charge_key or self._index.price_of(charge_key) != event:
            rule = f"the charge of this release at its price; {remedy}"
            raise InvalidValue("ledger", self.path, rule=rule)

    def register_owners(
        self, owners: Mapping[str, Set[bytes]], *, allow_shared: bool = False
    ) -> dict[str, int]:
        """Stores keyed digests of the names of this data set's owners in the file, unless other accounts have some.

        Args:
            owners: the names of the owners (people or records) as bytes, by the kind of owner.
            allow_shared: True stores them even if other accounts have some of the same owners.

        Returns:
            The number of these owners in each other account, by account; empty where the owners were stored.
        """
        return self._store.register_owners(
            data_digest=self._index.account, owners=owners, allow_shared=allow_shared
        )

    def is_seed_used(
        self, seed_name: str, *, except_release: str = "", own_price: Event | None = None
    ) -> bool:
        """Returns True if the file holds another release, of any data set, whose noise was drawn from a seed.

        The file is not read again.

        Args:
            seed_name: the name of the seed.
            except_release: the text with which the keys of the caller's own release begin. That release is left out; an
                empty text leaves out none.
            own_price: the price of the caller's own release. A release of this data set at the same price is left
                out too, because both may be the same release; None leaves out no release for its price.
        """
        return self._index.is_seed_used(
            seed_name, except_key_prefix=except_release, own_price=own_price
        )

    def _require_room(self, event: Event) -> None:
        """Raises `BudgetExceeded` where a cap does not admit an event, without reading the file again."""
        if self.max_epsilon is not None and self._index.shares_noise():
            rule = "a ledger without a cap: releases in it share their noise, and no epsilon covers them"
            raise BudgetExceeded("max_epsilon", self.max_epsilon, rule=rule, owner="ledger")
        self._caps.require_room(event)

    def _total(self, following_events: Sequence[Event]) -> float:
        """Returns the total epsilon of all charges and of further events, without reading the file again.

        The total is infinite where two charges share their noise: the difference of two sums with the same noise has no
        noise.

        Args:
            following_events: events that are not charged yet.
        """
        if self._index.shares_noise():
            return math.inf
        return self._running_total.epsilon(
            following_events=tuple(following_events),
            interleaved_charge_events=self._index.interleaved_events,
        )


def require_ledger(value: Any) -> Ledger:
    """Returns `value` if it is a `Ledger`; raises `InvalidValue` for another value, such as a path without a delta."""
    if isinstance(value, Ledger):
        return value
    rule = "a pate.accounting.Ledger, such as Ledger(PATH, target_delta=…)"
    raise InvalidValue("ledger", value, rule=rule)
