"""The index of one account in a ledger's file: its charges and parts, found by key, by release and by seed.

A release may have several parts. The first part that is committed is the *charge* of the release; later parts are
stored under the key of this charge. Two runs with the same seed, the same price and the same content make the same
release. Such releases are *twins*, and the second twin is stored under the charge of the first.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from pate.accounting.adjacency import Adjacency
from pate.accounting.event_tree import count_leaves
from pate.accounting.events import Event, SampledGaussianEvent, TuningEvent
from pate.accounting.ledger_entry import ChargeNote, LedgerEntry, seed_name_of_line
from pate.accounting.store import LedgerLine, Store
from pate.accounting.unit import PrivacyUnit
from pate.validation import InvalidValue


@dataclass(frozen=True, kw_only=True)
class CommitRequest:
    """A release, or a part of a release, that is about to be committed. `Ledger.commit` explains the fields."""

    key: str
    event: Event
    content: bytes
    charge_note: ChargeNote
    release_key: str  # empty for a release without parts


# The digest in a line without a data set, which belongs to every account.
_NO_DATA_SET = ""


class LedgerIndex:
    """The charges and parts of one account of a ledger's file, as the file was last read.

    Only `refresh` reads the file. All other methods search the lines that were read.

    Args:
        ledger_store: the lines of the file.
        data_digest: the digest of the private data; empty takes the digest from the lines, which must then be of one
            data set.
        adjacency: the adjacency of all prices.
        unit: the unit of privacy that the caller named; None takes the unit of the charges.

    Attributes:
        account: `data_digest`, or else the digest of the data set that the lines name; empty where no line names one.
        entries: the charges of the account, in the order of their commits. The list grows in place.
        interleaved_events: the prices of releases with a part that was committed after the charge of a later release.
    """

    def __init__(
        self,
        ledger_store: Store,
        *,
        data_digest: str,
        adjacency: Adjacency,
        unit: PrivacyUnit | None,
    ) -> None:
        self._store = ledger_store
        self._data_digest = data_digest
        self._adjacency = adjacency
        self._unit = unit
        self.account = data_digest
        self.entries: list[LedgerEntry] = []
        self.interleaved_events: set[Event] = set()
        # The number of lines that were read, and the number of entries of this account among them. Both are one tuple,
        # so that one assignment changes both.
        self._num_read = (0, 0)
        self._entry_index: dict[str, int] = {}  # the index in `entries` by the key of the charge
        # The numbers of all charges of the file, whichever their data set, by the name of the seed of their noise.
        self._charge_numbers_by_seed: dict[str, set[int]] = {}
        self._seed_names_of_account: set[str] = set()  # of the charges of this account

    def refresh(self) -> list[LedgerEntry]:
        """Reads the new lines of the file, and returns all charges of this account, old and new."""
        self._store.read()
        return self.take_new_lines()

    def take_new_lines(self) -> list[LedgerEntry]:
        """Adds the lines that the store has read since the last call, and returns all charges of this account.

        Raises `InvalidValue` where the caller named no data set and the file holds charges on several data sets.
        """
        with self._store.lock:
            num_lines, num_entries = self._num_read
            new_lines = self._store.lines[num_lines:]
            data_digests = {
                self.account,
                *(ledger_line.data_digest for ledger_line in new_lines),
            } - {""}
            if self._data_digest == "" and len(data_digests) > 1:
                rule = "the digest of one data set, this ledger counts for several"
                raise InvalidValue("data", "''", rule=rule)
            self.account = self._data_digest or next(iter(data_digests), "")
            del self.entries[num_entries:]  # an interrupted call may have left entries there
            for ledger_line in new_lines:
                self._add_line(ledger_line)
            # This is one assignment, and the last step: an interrupted call is repeated whole, and no charge is lost.
            self._num_read = num_lines + len(new_lines), len(self.entries)
            return self.entries

    def _add_line(self, ledger_line: LedgerLine) -> None:
        """Adds one line of the file to the entries and indices of this object.

        A line of another data set adds only the name of its seed, by which shared noise is detected.
        """
        is_charge = not ledger_line.charge_key
        # A line without a data set belongs to every account.
        is_own = ledger_line.data_digest in (_NO_DATA_SET, self.account)
        seed_name = (
            seed_name_of_line(ledger_line, ledger_path=self._store.path) if is_charge else ""
        )
        if seed_name:
            # Sets, so that a line that an interrupted call has added counts once.
            self._charge_numbers_by_seed.setdefault(seed_name, set()).add(ledger_line.number)
            if is_own:
                self._seed_names_of_account.add(seed_name)
        if not is_own:
            return
        if is_charge:
            entry = LedgerEntry.from_line(ledger_line, ledger_path=self._store.path)
            require_same_adjacency(entry.event, self._adjacency)
            self._entry_index[ledger_line.key] = len(self.entries)
            self.entries.append(entry)
            return
        entry_index = self._entry_index.get(ledger_line.charge_key)
        if entry_index is not None and entry_index + 1 < len(self.entries):
            self.interleaved_events.add(self.entries[entry_index].event)

    @property
    def lines(self) -> list[LedgerLine]:
        """The lines of this account; a line without a data set belongs to every account."""
        return [
            line for line in self._store.lines if line.data_digest in (_NO_DATA_SET, self.account)
        ]

    def line_of(self, commit_key: str) -> LedgerLine | None:
        """Returns the line with a key in this account, or None; a line without a data set belongs to every account."""
        line_of_digest_and_key = self._store.line_of
        return line_of_digest_and_key.get((_NO_DATA_SET, commit_key)) or line_of_digest_and_key.get(
            (self.account, commit_key)
        )

    def account_of(self, commit_key: str) -> str:
        """Returns the name of the account in the line with a key; the name of this account where no line has the key.

        A line without a data set, in a file that counts for one data set, names its account by an empty text.
        """
        line = self.line_of(commit_key)
        return self.account if line is None else line.data_digest

    def price_of(self, commit_key: str) -> Event | None:
        """Returns the price charged for the release that a key belongs to; None for a key without a commit.

        A part has no price of its own: its key gives the price of the whole release.

        Args:
            commit_key: the key of a charge, or of a part.
        """
        line = self.line_of(commit_key)
        if line is None:
            return None
        return self.entry_of(line.charge_key or line.key).event

    def entry_of(self, charge_key: str) -> LedgerEntry:
        """Returns the charge with a key, which must be among the charges that were read."""
        return self.entries[self._entry_index[charge_key]]

    def require_charged_price(
        self, event: Event, *, key: str, charge_key: str | None = None
    ) -> None:
        """Raises `InvalidValue` unless a release was charged at the price `event`.

        Args:
            event: the price that the charge must have.
            key: the key of the release or of a part, which the error message shows.
            charge_key: the key of the charge, where it is not stored under `key` yet; None searches for `key`.
        """
        if self.price_of(key if charge_key is None else charge_key) != event:
            rule = "a new key, this one stands for another price"
            raise InvalidValue("key", key, rule=rule)

    def charge_of(self, release_key: str) -> str:
        """Returns the key of the charge for a release; an empty string for a release without a charge.

        Args:
            release_key: the identifier of the release, with which the keys of its parts begin.
        """
        if not release_key:
            return ""
        for line in self.lines:
            if line.key.startswith(f"{release_key}:"):
                return line.charge_key or line.key
        return ""

    def parts(self, release_key: str) -> dict[str, str]:
        """Returns the SHA-256 of the bytes of each part of a release, by the name of the part, in order of commits.

        The digests are hexadecimal. The ledger stores the bytes of a part under the key RELEASE_KEY:NAME. The result is
        empty for a release without parts, and for one that the ledger does not have.
        """
        release_key_prefix = f"{release_key}:"
        return {
            line.key.removeprefix(release_key_prefix): line.sha256
            for line in self.lines
            if line.key.startswith(release_key_prefix)
        }

    def charges_of(self, run_key: str) -> list[LedgerEntry]:
        """Returns the charges that paid for what was committed under keys that begin with `run_key`, those of a run.

        The key of a charge begins with another text where a twin, an equal release of another run, was charged. Every
        key begins with an empty text, which returns all charges.
        """
        charge_keys = {
            line.charge_key or line.key for line in self.lines if line.key.startswith(run_key)
        }
        return [entry for entry in self.entries if entry.key in charge_keys]

    def num_draws(self, run_key: str) -> int:
        """Returns the number of charges whose keys begin with the text `run_key`; 0 for an empty text."""
        if not run_key:
            return 0
        return sum(entry.key.startswith(run_key) for entry in self.entries)

    @property
    def unit(self) -> PrivacyUnit | None:
        """The unit that the caller named, or else that of the first charge that has a unit."""
        charged_units = (entry.unit for entry in self.entries if entry.unit is not None)
        return self._unit or next(charged_units, None)

    @property
    def num_without_unit(self) -> int:
        """The number of charges without a unit."""
        return sum(entry.unit is None for entry in self.entries)

    def require_one_unit(self) -> None:
        """Raises `InvalidValue` where the caller and the charges name different units of privacy."""
        unit = self.unit
        for entry in self.entries:
            if entry.unit is None or unit is None or entry.unit == unit:
                continue
            account = f"the account of records {self.account[:12]} in " if self.account else ""
            rule = (
                f"{entry.unit.words}, as {account}ledger={self._store.path} counts; "
                "prices of two units of privacy have no sum"
            )
            raise InvalidValue("unit", unit.words, rule=rule, owner="ledger")

    def charges_with_seed(self, seed_name: str, *, except_key_prefix: str) -> list[LedgerLine]:
        """Returns all charges of the file, on any data set, whose noise was drawn from a seed.

        Args:
            seed_name: the name of the seed. An empty name means noise without a seed, which no two charges share; the
                result is then an empty list.
            except_key_prefix: charges whose keys begin with this text are left out; an empty text leaves out none.
        """
        if not seed_name:
            return []
        return [
            line
            for line in self._store.lines
            if not line.charge_key
            and not (except_key_prefix and line.key.startswith(except_key_prefix))
            and seed_name_of_line(line, ledger_path=self._store.path) == seed_name
        ]

    def is_seed_used(
        self, seed_name: str, *, except_key_prefix: str, own_price: Event | None
    ) -> bool:
        """Returns True if a charge of the file drew its noise from a seed.

        `Ledger.is_seed_used` explains the arguments.
        """
        for line in self.charges_with_seed(seed_name, except_key_prefix=except_key_prefix):
            may_be_same_release = line.data_digest == self.account and own_price is not None
            if not (may_be_same_release and self.price_of(line.key) == own_price):
                return True
        return False

    def shares_noise(self) -> bool:
        """Returns True if a charge of this account and another charge of the file drew from the same seed."""
        return any(
            len(self._charge_numbers_by_seed[seed_name]) > 1
            for seed_name in self._seed_names_of_account
        )

    def charge_covering(self, commit_request: CommitRequest, *, has_cap: bool) -> str:
        """Returns the key of an earlier charge that covers a commit; an empty string where it must be charged.

        The earlier charge is that of the same release, or that of a twin: an equal release that another run made from
        the same seed.

        Args:
            commit_request: the release, or the part of a release.
            has_cap: True if a cap limits the charges, so that no two releases may share their noise.

        Raises:
            InvalidValue: the release was charged at another price. Or a different release, of another run, drew from
                the seed, and `charge_note.may_share_noise` is False or a cap exists.
        """
        charge_note = commit_request.charge_note
        earlier_charge_key = self.charge_of(commit_request.release_key)
        if earlier_charge_key:
            # The price is checked before the part is written, which would otherwise be read back at this price.
            self.require_charged_price(
                commit_request.event, key=commit_request.key, charge_key=earlier_charge_key
            )
            if charge_note.seed_name == "" or self._agrees_with(earlier_charge_key, commit_request):
                return earlier_charge_key
        own_key_prefix = charge_note.run_key or commit_request.key
        charges_with_same_seed = self.charges_with_seed(
            charge_note.seed_name, except_key_prefix=own_key_prefix
        )
        keys_of_equal_releases = [
            charge_line.key
            for charge_line in charges_with_same_seed
            if self._is_same_release(charge_line=charge_line, commit_request=commit_request)
        ]
        shares_noise = earlier_charge_key != "" or len(keys_of_equal_releases) < len(
            charges_with_same_seed
        )
        if shares_noise and (has_cap or not charge_note.may_share_noise):
            rule = "fresh noise, another release drew from this seed"
            raise InvalidValue("noise", charge_note.seed_name, rule=rule)
        return next(iter(keys_of_equal_releases), "")

    def _is_same_release(self, charge_line: LedgerLine, commit_request: CommitRequest) -> bool:
        """Returns True if a charge with the same seed as a commit is the charge of the same release, by another run."""
        return (
            commit_request.release_key != ""
            and charge_line.data_digest == self.account
            and self.price_of(charge_line.key) == commit_request.event
            and self._part_under(charge_line.key, commit_request.key) is not None
            and self._agrees_with(charge_line.key, commit_request)
        )

    def _agrees_with(self, earlier_charge_key: str, commit_request: CommitRequest) -> bool:
        """Returns True if a part of a release agrees with the release that an earlier charge paid for.

        Two runs with the same seed make the same release only if all parts agree. A part with the same name must have
        the same content. A part with a new name must come after all parts that the other run has committed, because a
        run that skips a part draws something else from the same noise.

        Args:
            earlier_charge_key: the key of the charge of that release.
            commit_request: the part.
        """
        part = self._part_under(earlier_charge_key, commit_request.key)
        if part is not None:
            return part.sha256 == hashlib.sha256(commit_request.content).hexdigest()
        lines_under_charge = self._lines_under(earlier_charge_key)
        part_names_under_charge = {_release_part_name(line.key) for line in lines_under_charge}
        part_names_of_release = {
            _release_part_name(line.key)
            for line in lines_under_charge
            if line.key.startswith(f"{commit_request.release_key}:")
        }
        return part_names_under_charge == part_names_of_release

    def _part_under(self, charge_key: str, part_key: str) -> LedgerLine | None:
        """Returns the line of the part with the same name as the part that `part_key` names; None if no part has it.

        Args:
            charge_key: the key of the charge under which the line is searched for.
            part_key: the key of a part, of this or another release.
        """
        for line in self._lines_under(charge_key):
            if _release_part_name(line.key) == _release_part_name(part_key):
                return line
        return None

    def _lines_under(self, charge_key: str) -> list[LedgerLine]:
        """Returns the line of a charge and the lines of all parts that are stored under this charge."""
        return [line for line in self.lines if charge_key in (line.key, line.charge_key)]


def require_same_adjacency(event: Event, adjacency: Adjacency) -> None:
    """Raises `InvalidValue` where an event contains a sampled Gaussian with another adjacency than the ledger's.

    The price of a sampled Gaussian depends on the adjacency. The runs of a tuned release are searched, too.

    Args:
        event: the price of a release.
        adjacency: the adjacency of all prices of the ledger.
    """
    leaves_by_kind = count_leaves(event).counted_leaves_by_kind
    for leaf_class in leaves_by_kind.keys() & {SampledGaussianEvent, TuningEvent}:
        for leaf in leaves_by_kind[leaf_class].leaf_events:
            if isinstance(leaf, TuningEvent):
                require_same_adjacency(leaf.candidate, adjacency)
            elif isinstance(leaf, SampledGaussianEvent) and leaf.adjacency != adjacency:
                rule = f"{adjacency}, the adjacency of all prices in this ledger"
                raise InvalidValue("event.adjacency", leaf.adjacency, rule=rule)


def _release_part_name(part_key: str) -> str:
    """Returns the name of a part of a release: the text after the last colon of the part's key."""
    return part_key.rpartition(":")[2]
