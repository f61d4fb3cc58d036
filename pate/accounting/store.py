"""The store of a ledger: an SQLite file of charges, each with the bytes of the charged release.

The bytes of a large release lie in a separate file, which is written before the charge.

A charge and its release are written in one transaction, so a crash leaves both or neither. A release that was not
committed was never shown. The next attempt draws fresh noise, so the seed of the noise need not be stored
(docs/proofs/store.md).

Each line of the file has a digest of its columns and of the digest of the line before. The table `head` has the number
of lines and the last digest. So a line that was edited, cut out or added is detected when the file is read next, unless
somebody computed the digests anew. A `Store` that is open also detects that its file was exchanged.

The store relies on four choices, each of which is tested:

* Journal mode DELETE: one file at rest, one file to back up, and no shared memory, which a network file system lacks.
* `synchronous=EXTRA`: the folder is synced after the journal is gone. With FULL a power cut just after a commit could
  bring the journal back, and a charge whose release was shown would be undone.
* A new file is written whole under another name and linked into place, so a file of 0 bytes is damage, never new.
* Only SQLite opens the file: a second descriptor of this process would drop SQLite's locks when it is closed.
"""

import errno
import hashlib
import json
import os
import secrets
import sqlite3
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from pate.files.atomic import atomic_write, sync_folder
from pate.files.paths import make_folder
from pate.files.posix import NO_LINK_NO_WAIT_FLAGS, OWNER_FILE_MODE, require_posix
from pate.validation import InvalidValue

__all__ = ["DamagedLedger", "LedgerLine", "LineText", "Store"]

# The rule of the error for a ledger in memory that is used in another process.
_IN_MEMORY = "a file, through which copies know of each other's charges"
REMEDY = "restore the ledger from a backup; nothing is released until then"
"""The advice at the end of each error about a damaged ledger."""
LARGEST_INSIDE = 2**20
"""A release of so many bytes or more lies in a file of its own, so that the ledger stays small."""
# A process waits so many seconds for others, each of which holds the lock for some milliseconds.
_WAIT_S = 600.0
_SCHEMA = """
CREATE TABLE head (number INTEGER NOT NULL, digest TEXT NOT NULL, settings TEXT NOT NULL);
CREATE TABLE line (number INTEGER PRIMARY KEY, data TEXT NOT NULL, key TEXT NOT NULL, under TEXT NOT NULL,
    event TEXT NOT NULL, about TEXT NOT NULL, sha256 TEXT NOT NULL, digest TEXT NOT NULL, release BLOB,
    UNIQUE (data, key));
CREATE TABLE owner (data TEXT NOT NULL, kind TEXT NOT NULL, name BLOB NOT NULL,
    PRIMARY KEY (kind, name, data)) WITHOUT ROWID;
CREATE INDEX account ON owner (data);
CREATE TRIGGER charges_stay BEFORE DELETE ON line BEGIN SELECT RAISE(ABORT, 'charges stay'); END;
CREATE TRIGGER charges_are BEFORE UPDATE ON line BEGIN SELECT RAISE(ABORT, 'charges stay as they are'); END;
"""
# The columns of the table `line` in the order of the fields of `LedgerLine`.
_COLUMNS = "number, data, key, under, event, about, sha256, digest"
# The error numbers of the operating system by the result codes of SQLite: FULL, IOERR, READONLY and CANTOPEN.
_ERRNO_OF_CODE = {13: errno.ENOSPC, 10: errno.EIO, 8: errno.EACCES, 14: errno.EACCES}
# The result code of SQLite for a lock that another process holds.
_BUSY = 5
# The number of bytes of the digest of an owner's name.
_DIGEST_BYTES = 16
# So many owners are Python objects at a time; all others are bytes of one array.
_OWNERS_AT_ONCE = 2**14


class DamagedLedger(InvalidValue):
    """The error for a ledger whose file was edited, shortened, exchanged or damaged; nothing is released."""


@dataclass(frozen=True)
class LedgerLine:
    """One line of the file: a charge, or a later part of a release that is already charged.

    Attributes:
        number: the number of the line, from 1 on.
        data_digest: the digest of the private data, which is the name of the account; empty where the file counts for
            one data set.
        key: the name of the release, or of the part, within its account.
        charge_key: the key of the charge that paid for the part; empty for a charge. The file calls this column
            `under`.
        event_json: the price as JSON; empty for a part.
        charge_details_json: the user, time, purpose and so on of the charge, as JSON.
        sha256: the SHA-256 of the bytes of the release, or of the part.
        digest: the digest of this line together with the digest of the line before.
    """

    number: int
    data_digest: str
    key: str
    charge_key: str
    event_json: str
    charge_details_json: str
    sha256: str
    digest: str


@dataclass(frozen=True)
class LineText:
    """The part of a new `LedgerLine` that says how it is paid; the store adds its key, account, number and digests."""

    event_json: str = ""  # the price of a charge as JSON; empty for a part
    charge_key: str = ""  # the key of the charge that paid for a part; empty for a charge
    # the user, time, purpose and so on of the charge, as plain values
    charge_details: Mapping[str, Any] = field(default_factory=dict)


class Store:
    """The lines of a ledger's file, which may hold several accounts, one for each data set.

    Several processes and threads may use one file at the same time, and a process may be killed at any moment.

    Args:
        path: the file; None keeps all lines in the memory of this process.
        settings_if_new: the settings that are stored in a new file, in types that JSON has, if the file does not exist.
            None opens an existing file only.

    Raises:
        InvalidValue: the path is a symbolic link to a missing file, a folder or a pipe; or `settings_if_new` is None,
            and the file does not exist.
        DamagedLedger: the file was changed, or is not a ledger.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, settings_if_new: Mapping[str, Any] | None
    ) -> None:
        if path is not None:
            remedy = "without a file, as Ledger(target_delta=…), it works here, too"
            require_posix("ledger", path, remedy)
        path_with_links = None if path is None else Path(path).expanduser()
        self.path = None if path_with_links is None else path_with_links.resolve()  # links followed
        if (
            path_with_links is not None
            and path_with_links.is_symlink()
            and not os.path.lexists(path_with_links.resolve())
        ):
            rule = "a file or a new name, found a link that leads nowhere"
            raise InvalidValue("ledger", path, rule=rule)
        self.lines: list[LedgerLine] = []  # as of the last reading; the list only grows
        self.line_of: dict[tuple[str, str], LedgerLine] = {}  # by account and key
        self.settings: dict[str, Any] = {}  # the settings that the file was made with
        self.lock = threading.RLock()  # for threads that share this object
        self._state = 0, ""  # the number of lines that were checked, and the digest of the last
        # the process id and the connection of a store in memory
        self._memory: tuple[int, sqlite3.Connection] | None = None
        if settings_if_new is not None:
            settings_json = json.dumps({**settings_if_new, "name": secrets.token_hex(16)})
            if self.path is None:
                memory_db = sqlite3.connect(
                    ":memory:", isolation_level=None, check_same_thread=False
                )
                self._memory = (os.getpid(), memory_db)
                _create_tables(memory_db, settings_json=settings_json)
            elif not os.path.lexists(self.path):
                _create_file(self.path, settings_json=settings_json)
        self.read()

    def __reduce__(self) -> tuple[Any, ...]:
        """Returns the class and its arguments for pickling: a copy in another process opens the same file."""
        if self.path is None:
            raise InvalidValue("ledger.path", None, rule=_IN_MEMORY)
        return type(self), (self.path, None)

    @property
    def identity(self) -> str:
        """The identifier of this ledger; a moved or copied file keeps its identifier."""
        random_name = self.settings["name"]
        return hashlib.sha256(random_name.encode()).hexdigest()

    def read(self) -> None:
        """Reads the lines that were added to the file since the last reading, checks them and adds them to `lines`."""
        with self._transaction("BEGIN"):
            pass

    def release(self, ledger_line: LedgerLine) -> bytes:
        """Returns the bytes of the release that was committed with a line.

        Raises `DamagedLedger` where the stored bytes were changed, or the separate file of a large release is missing.
        """
        with self._opened() as db:
            (content,) = db.execute(
                "SELECT release FROM line WHERE number = ?", (ledger_line.number,)
            ).fetchone() or ("",)
        if content is None and self.path is not None:
            with suppress(FileNotFoundError):
                content = self._release_path(content_digest=ledger_line.sha256).read_bytes()
        if (
            not isinstance(content, bytes)
            or hashlib.sha256(content).hexdigest() != ledger_line.sha256
        ):
            raise damaged_ledger(
                self.path, rule=f"the release of line {ledger_line.number} as it was committed"
            )
        return content

    def commit(
        self, data_digest: str, *, key: str, content: bytes, line_under_lock: Callable[[], LineText]
    ) -> bytes:
        """Stores the bytes of a release with its charge in one transaction, and returns the bytes stored under the key.

        The returned bytes are `content`, unless bytes were committed earlier under the same key. The release may be
        shown only after this method has returned.

        Args:
            data_digest: the digest of the data set, which is the name of the account.
            key: the identifier of the release, or of a part, within the account; it names everything on which the
                content depends.
            content: the bytes of the release, or of the part.
            line_under_lock: returns the text of the new line. The function is called while the file is locked and all
                lines are read. If it raises an error, because the charge is not allowed, no line is written.
        """
        content_digest = hashlib.sha256(content).hexdigest()
        lies_outside = self.path is not None and len(content) >= LARGEST_INSIDE
        if lies_outside:
            # The file of a large release comes before the line that names it. Without a line it was never shown.
            release_path = self._release_path(content_digest=content_digest)
            make_folder(release_path.parent, existing_parent=release_path.parent.parent)
            with atomic_write(release_path) as separate_release_file:
                separate_release_file.write(content)
        with self._transaction("BEGIN IMMEDIATE") as db:
            if (data_digest, key) not in self.line_of:
                texts_of_line = line_under_lock()
                if (
                    texts_of_line.charge_key
                    and (data_digest, texts_of_line.charge_key) not in self.line_of
                ):
                    rule = f"the key of a charge in ledger={self.path}"
                    raise InvalidValue("charge_key", texts_of_line.charge_key, rule=rule)
                new_line = self._insert(
                    db,
                    data_digest=data_digest,
                    key=key,
                    texts_of_line=texts_of_line,
                    sha256=content_digest,
                    stored_content=None if lies_outside else content,
                )
                # The charge: what was drawn may be shown from here on, and this key reads it back. Before this line
                # it was shown to nobody, and a process that ends here has charged nothing.
                db.execute("COMMIT")
                self._remember_lines([new_line])
                return content
        return self.release(self.line_of[data_digest, key])

    def register_owners(
        self, data_digest: str, owners: Mapping[str, Set[bytes]], *, allow_shared: bool
    ) -> dict[str, int]:
        """Stores the owners of a new account, unless another account has some of the same owners.

        The owners of an account are stored once; a later call changes nothing. The file does not contain names, but
        keyed digests of the names (docs/proofs/store.md).

        Args:
            data_digest: the digest of the data set, which is the name of the account.
            owners: the names of people or records as bytes, by the kind of owner. Names of different kinds are never
                compared.
            allow_shared: True stores the owners even if other accounts have some of the same owners.

        Returns:
            The number of these owners in each other account, by account; empty where the owners were stored now or by
            an earlier call, or where there are none.
        """
        with self._transaction("BEGIN IMMEDIATE") as db:
            has_new_owners = any(owner_names for owner_names in owners.values())
            if not has_new_owners or _has_owners(db, data_digest=data_digest):
                return {}
            num_shared: Counter[str] = Counter()
            if not allow_shared:
                num_shared = _num_shared_owners(
                    db, owner_digests=self._keyed_digests(names_by_owner_kind=owners)
                )
            if not num_shared:
                owner_rows = (
                    (data_digest, owner_kind, owner_digest)
                    for owner_kind, owner_digest in self._keyed_digests(names_by_owner_kind=owners)
                )
                db.executemany("INSERT INTO owner (data, kind, name) VALUES (?, ?, ?)", owner_rows)
                db.execute("COMMIT")
        return num_shared

    def has_owners_of(self, data_digest: str) -> bool:
        """Returns True if the file lists the owners of an account: the people and records in its private data.

        The result is False until `register_owners` has stored at least one owner of the account.

        Args:
            data_digest: the digest of the private data, which is the name of the account.
        """
        with self._transaction("BEGIN") as db:
            return _has_owners(db, data_digest=data_digest)

    def num_shared_owners(
        self, owners: Mapping[str, Set[bytes]], *, except_account: str
    ) -> dict[str, int]:
        """Returns the number of these owners in each account that has some of them, by account; stores nothing.

        Args:
            owners: the names of people or records as bytes, by the kind of owner.
            except_account: an account that is left out.
        """
        with self._transaction("BEGIN") as db:
            num_shared = _num_shared_owners(
                db, owner_digests=self._keyed_digests(names_by_owner_kind=owners)
            )
        return {
            account: count for account, count in num_shared.items() if account != except_account
        }

    def _keyed_digests(
        self, names_by_owner_kind: Mapping[str, Set[bytes]]
    ) -> Iterator[tuple[str, bytes]]:
        """Yields owners as the file stores them: pairs of a kind and the keyed digest of a name, in rising order.

        Rows in the order of a table's key are written and looked up several times as fast as rows in a random order.
        """
        secret = self.settings["name"].encode()
        for owner_kind in sorted(names_by_owner_kind):
            concatenated_owner_digests = bytearray()
            for owner_name in names_by_owner_kind[owner_kind]:
                owner_kind_and_name = owner_kind.encode() + b"\0" + owner_name
                concatenated_owner_digests += hashlib.blake2b(
                    owner_kind_and_name, key=secret, digest_size=_DIGEST_BYTES
                ).digest()
            # Each digest is two numbers of 64 bits, by which the digests are sorted.
            digest_halves = np.frombuffer(concatenated_owner_digests, dtype=">u8").reshape(-1, 2)
            indices_by_digest = np.lexsort((digest_halves[:, 1], digest_halves[:, 0]))
            for first in range(0, len(indices_by_digest), _OWNERS_AT_ONCE):
                indices = indices_by_digest[first : first + _OWNERS_AT_ONCE]
                for start in (indices * _DIGEST_BYTES).tolist():
                    yield (
                        owner_kind,
                        bytes(concatenated_owner_digests[start : start + _DIGEST_BYTES]),
                    )

    def _insert(
        self,
        db: sqlite3.Connection,
        *,
        data_digest: str,
        key: str,
        texts_of_line: LineText,
        sha256: str,
        stored_content: bytes | None,
    ) -> LedgerLine:
        """Writes a new line with its digests to the database and returns the line; does not commit the transaction.

        Args:
            db: the connection, in a transaction.
            data_digest: the digest of the data set, which is the name of the account.
            key: the name of the release within its account.
            texts_of_line: the other texts of the line.
            sha256: the digest of the release.
            stored_content: the bytes of the release; None where the release is stored in a separate file.
        """
        last_number, last_digest = self._state
        line_number = last_number + 1
        charge_details_json = json.dumps(texts_of_line.charge_details)
        line_cells = [
            line_number,
            data_digest,
            key,
            texts_of_line.charge_key,
            texts_of_line.event_json,
            charge_details_json,
            sha256,
        ]
        new_line = LedgerLine(
            number=line_number,
            data_digest=data_digest,
            key=key,
            charge_key=texts_of_line.charge_key,
            event_json=texts_of_line.event_json,
            charge_details_json=charge_details_json,
            sha256=sha256,
            digest=_chained_digest(previous_digest=last_digest, line_cells=line_cells),
        )
        db.execute(
            "INSERT INTO line VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*vars(new_line).values(), stored_content),
        )
        db.execute("UPDATE head SET number = ?, digest = ?", (new_line.number, new_line.digest))
        return new_line

    def _release_path(self, content_digest: str) -> Path:
        """Returns the path of the separate file in which a large release is stored, given its SHA-256."""
        assert self.path is not None
        return self.path.with_name(f"{self.path.name}.releases") / content_digest

    @contextmanager
    def _transaction(self, begin_statement: str) -> Iterator[sqlite3.Connection]:
        """Opens a transaction, reads and checks all new lines, and yields the connection.

        The transaction is rolled back at the end of the block, unless the block has committed it.

        Args:
            begin_statement: the SQL statement that begins the transaction; `BEGIN IMMEDIATE` also locks the file for
                writing.
        """
        with self.lock, self._opened() as db:
            db.execute(begin_statement)
            try:
                self._read(db)
                yield db
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Opens a connection to the database, and closes it after the block.

        Each transaction has its own connection, because a forked process must not use a connection of its parent. A
        store in memory has one connection, which stays open; a forked process cannot use it.
        """
        if self.path is None:
            if self._memory is None or os.getpid() != self._memory[0]:
                raise InvalidValue("ledger.path", None, rule=_IN_MEMORY)
            yield self._memory[1]
            return
        try:
            status = os.lstat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            raise InvalidValue(
                "ledger", self.path, rule=f"a ledger, found no file; {REMEDY}"
            ) from None
        # SQLite would create a file behind a link, and wait for a pipe.
        if not stat.S_ISREG(status.st_mode):
            rule = "a plain file, not a link or a folder; name the file itself"
            raise InvalidValue("ledger", self.path, rule=rule)
        if status.st_size == 0:
            raise damaged_ledger(self.path, rule="a ledger, found an empty file")
        database_uri = f"file:{quote(str(self.path))}?mode=rw"
        with (
            _errors_naming_ledger(self.path),
            closing(sqlite3.connect(database_uri, _WAIT_S, isolation_level=None, uri=True)) as db,
        ):
            db.executescript("PRAGMA synchronous=EXTRA; PRAGMA fullfsync=ON")
            yield db

    def _read(self, db: sqlite3.Connection) -> None:
        """Reads the settings and all new lines from the database, checks their digests, and adds the lines.

        Raises `DamagedLedger` where a digest differs or earlier lines are missing.
        """
        table_names = {
            name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        if not {"head", "line", "owner"} <= table_names:
            raise damaged_ledger(
                self.path, rule="a ledger; its tables are gone, or it never was one"
            )
        try:
            ((num_stored_lines, last_stored_digest, settings_json),) = db.execute(
                "SELECT number, digest, settings FROM head"
            ).fetchall()
            settings = json.loads(settings_json)
            num_stored_lines = int(num_stored_lines)
            last_stored_digest = str(last_stored_digest)
            settings = {**settings, "name": str(settings["name"])}
        except (ValueError, TypeError, KeyError, RecursionError):
            raise damaged_ledger(self.path, rule="the settings of a ledger in its head") from None
        if not self.settings:
            integrity_answer = db.execute("PRAGMA integrity_check(1)").fetchone()
            if integrity_answer != ("ok",):
                answer_in_words = (
                    " ".join(str(integrity_answer[0]).split()) if integrity_answer else "no answer"
                )
                raise damaged_ledger(self.path, rule=f"a sound file ({answer_in_words})")
            self.settings = settings
            self._state = (
                0,
                _chained_digest(previous_digest="", line_cells=[json.dumps(settings)]),
            )
        num_known_lines, previous_digest = self._state
        if (num_stored_lines, last_stored_digest) == (num_known_lines, previous_digest):
            return
        if num_stored_lines < num_known_lines or settings != self.settings:
            raise damaged_ledger(
                self.path, rule="a file that only grows; charges that were in it are gone"
            )
        new_lines: list[LedgerLine] = []
        for line_row in db.execute(
            f"SELECT {_COLUMNS} FROM line WHERE number > ? ORDER BY number", (num_known_lines,)
        ):
            ledger_line = LedgerLine(*line_row)
            expected_digest = _chained_digest(
                previous_digest=previous_digest, line_cells=line_row[:-1]
            )
            if (
                ledger_line.number != num_known_lines + len(new_lines) + 1
                or ledger_line.digest != expected_digest
            ):
                raise damaged_ledger(
                    self.path,
                    rule=f"line {num_known_lines + len(new_lines) + 1} as it was written; it was changed or cut out",
                )
            previous_digest = ledger_line.digest
            new_lines.append(ledger_line)
        if (num_known_lines + len(new_lines), previous_digest) != (
            num_stored_lines,
            last_stored_digest,
        ):
            raise damaged_ledger(
                self.path,
                rule=f"{num_stored_lines} lines, found {num_known_lines + len(new_lines)}; the last ones were cut off",
            )
        self._remember_lines(new_lines)

    def _remember_lines(self, new_lines: list[LedgerLine]) -> None:
        """Adds lines that were just read or committed to the attributes of this object."""
        del self.lines[self._state[0] :]  # an interrupted call may have left lines there
        self.lines += new_lines
        self.line_of |= {(line.data_digest, line.key): line for line in new_lines}
        if new_lines:
            self._state = new_lines[-1].number, new_lines[-1].digest


def _has_owners(db: sqlite3.Connection, data_digest: str) -> bool:
    """Returns True if the owners of the data set with this digest are stored."""
    owner_row = db.execute("SELECT 1 FROM owner WHERE data = ? LIMIT 1", (data_digest,)).fetchone()
    return owner_row is not None


def _num_shared_owners(
    db: sqlite3.Connection, owner_digests: Iterable[tuple[str, bytes]]
) -> Counter[str]:
    """Returns the number of these owners in each account that has some of them, by account.

    Args:
        db: the connection.
        owner_digests: pairs of a kind of owner and the keyed digest of a name.
    """
    if db.execute("SELECT 1 FROM owner LIMIT 1").fetchone() is None:
        return Counter()
    query = "SELECT data FROM owner WHERE kind = ? AND name = ?"
    account_of_each_shared_owner = (
        account
        for kind_and_digest in owner_digests
        for (account,) in db.execute(query, kind_and_digest)
    )
    return Counter(account_of_each_shared_owner)


def damaged_ledger(path: Path | None, rule: str) -> DamagedLedger:
    """Returns the error for a damaged ledger.

    Args:
        path: the ledger's file; None for a ledger in memory.
        rule: a noun phrase for what was expected at the damaged place.
    """
    return DamagedLedger(name="ledger", value=path, rule=f"{rule}: {REMEDY}")


def _chained_digest(previous_digest: str, line_cells: Sequence[Any]) -> str:
    """Returns the digest of a line, which chains the line to the line before.

    Args:
        previous_digest: the digest of the line before.
        line_cells: the columns of the line; in a damaged file they may be of any type.
    """
    return hashlib.sha256(
        json.dumps([previous_digest, *line_cells], default=repr).encode()
    ).hexdigest()


def _create_tables(db: sqlite3.Connection, settings_json: str) -> None:
    """Creates the tables of a new store, and writes its settings, a JSON text, into the table `head`."""
    db.executescript(f"PRAGMA journal_mode=DELETE; BEGIN; {_SCHEMA}")
    db.execute(
        "INSERT INTO head VALUES (0, ?, ?)",
        (_chained_digest(previous_digest="", line_cells=[settings_json]), settings_json),
    )
    db.execute("COMMIT")


def _create_file(path: Path, settings_json: str) -> None:
    """Creates the file of a new store, which only its owner may read.

    The file is written under a temporary name and then linked to `path`, so other processes never see half a file. If
    another process has created the file first, that file stays.
    """
    partial_path = path.with_name(f".{path.name}.{os.getpid()}{threading.get_ident()}.partial")
    try:
        partial_path.unlink(missing_ok=True)
        os.close(
            os.open(
                partial_path,
                os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK_NO_WAIT_FLAGS,
                OWNER_FILE_MODE,
            )
        )
        partial_path.chmod(OWNER_FILE_MODE)
        with (
            _errors_naming_ledger(path),
            closing(sqlite3.connect(partial_path, isolation_level=None)) as db,
        ):
            db.execute("PRAGMA synchronous=EXTRA")
            _create_tables(db, settings_json)
        with suppress(FileExistsError):
            os.link(partial_path, path)
    except OSError as error:
        if error.filename in (str(partial_path), partial_path):
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            partial_path.unlink(missing_ok=True)
    sync_folder(path.parent)


@contextmanager
def _errors_naming_ledger(path: Path) -> Iterator[None]:
    """Replaces errors of SQLite in the block by errors that name the ledger's file.

    A full or unreadable disk becomes an `OSError`, a lock that was not obtained in time an `InvalidValue`, and damage a
    `DamagedLedger`.
    """
    try:
        yield
    except UnicodeDecodeError:  # SQLite quotes the damaged text
        raise damaged_ledger(
            path, rule="a ledger in a sound file (its text cannot be decoded)"
        ) from None
    except sqlite3.Error as error:
        sqlite_error_code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if sqlite_error_code in _ERRNO_OF_CODE:
            error_number = _ERRNO_OF_CODE[sqlite_error_code]
            raise OSError(error_number, os.strerror(error_number), str(path)) from error
        if sqlite_error_code == _BUSY:
            rule = f"a lock within {_WAIT_S:.0f} s; another process holds it, or the file system has none"
            raise InvalidValue("ledger", path, rule=rule) from error
        # SQLite quotes the damaged text after these words.
        reason = " ".join(str(error).partition(" with text ")[0].split())
        raise damaged_ledger(path, rule=f"a ledger in a sound file ({reason})") from None
