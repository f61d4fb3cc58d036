"""One SQLite file of charges, each with the bytes that it paid for. A charge and its release are one transaction.

What a crash leaves is both or neither. What was drawn and not committed was never shown, so it is drawn afresh by the
next call, and no secret of the noise has to be kept (docs/proofs/store.md).

Decided here, and tested:

* Journal mode DELETE: one file at rest, one file to back up, and no shared memory, which a network file system lacks.
* `synchronous=EXTRA`: the folder is synced after the journal is gone. With FULL a power cut just after a commit could
  bring the journal back, and a charge whose release was shown would be undone.
* A new file is written whole under another name and linked into place, so a file of 0 bytes is damage, never new.
* The file is opened by SQLite alone: a second descriptor of this process would drop SQLite's locks when it is closed.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pate.files.disk import (
    OWNERS_FILE,
    PLAIN_FILE,
    make_folder,
    replacing,
    require_posix,
    sync_folder,
)
from pate.validation import InvalidValue, require

__all__ = ["DamagedLedger", "LedgerLine", "LineText", "Store"]

_IN_MEMORY = "a file, through which copies know of each other's charges"
REMEDY = "restore the ledger from a backup; nothing is released until then"
# bytes: a release from there on lies in a file of its own, so that the ledger stays small
LARGEST_INSIDE = 2**20
_WAIT_S = 600.0  # for other processes, each of which holds the lock for some milliseconds
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
_COLUMNS = "number, data, key, under, event, about, sha256, digest"
# by SQLite's result codes
_OF_SYSTEM = {13: errno.ENOSPC, 10: errno.EIO, 8: errno.EACCES, 14: errno.EACCES}
_BUSY = 5


class DamagedLedger(InvalidValue):
    """A ledger that was edited, shortened or exchanged, or that the disk damaged; nothing is released under it."""


@dataclass(frozen=True)
class LedgerLine:
    """One line of the file: a charge, or something more that was drawn under an earlier charge."""

    number: int  # 1, 2, …
    # the account, a digest of the private data; empty where the file counts for one data set
    data: str
    key: str  # names the release within its account
    under: str  # of the charge that paid for it; empty for a charge
    event: str  # the price as JSON; empty where `under` is not
    about: str  # who, when and what for, as JSON
    sha256: str  # of the release
    digest: str  # of this line and the digest of the one before


@dataclass(frozen=True)
class LineText:
    """What a line says beside its key and the digest of what was released."""

    event: str = ""  # the price as JSON; empty where `under` is not
    under: str = ""  # the key of the charge that has paid for this too
    # who, when and what for, as plain values
    about: Mapping[str, Any] = field(default_factory=dict)


class Store:
    """All lines of a file, for whichever account; safe for processes and threads at once, and for kills.

    A file that is missing is made with these settings, plain values; None opens only one that is there. Without a path
    all is in the memory of this process. Raises for a link that leads nowhere, a folder or a pipe, and `DamagedLedger`
    for a file that was changed or never was one.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, settings: Mapping[str, Any] | None
    ) -> None:
        if path is not None:
            require_posix(
                "ledger", path, "without a file, as Ledger(target_delta=…), it works here, too"
            )
        file = None if path is None else Path(path).expanduser()
        self.path = None if file is None else file.resolve()  # links followed
        astray = file is not None and file.is_symlink() and not os.path.lexists(file.resolve())
        require(not astray, "ledger", path, "a file or a new name, found a link that leads nowhere")
        self.lines: list[
            LedgerLine
        ] = []  # as of the last reading; it grows and nothing is taken away
        self.line_of: dict[tuple[str, str], LedgerLine] = {}  # by account and key
        self.settings: dict[str, Any] = {}  # those that the file was made with
        self.lock = threading.RLock()  # for threads that share this object
        self._state = 0, ""  # the number of lines that were checked, and the last one's digest
        self._memory: tuple[int, sqlite3.Connection] | None = None  # with the process that it is in
        if settings is not None:
            settings_line = json.dumps({**settings, "name": secrets.token_hex(16)})
            if self.path is None:
                self._memory = (
                    os.getpid(),
                    sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False),
                )
                _fill(self._memory[1], settings_line)
            elif not os.path.lexists(self.path):
                _make(self.path, settings_line)
        self.read()

    def __reduce__(self) -> tuple[Any, ...]:
        """What a copy in another process opens anew: the file."""
        if self.path is None:
            raise InvalidValue("ledger.path", None, rule=_IN_MEMORY)
        return type(self), (self.path, None)

    @property
    def identity(self) -> str:
        """Returns what tells this file from others, wherever it is moved; a copy of it has the same."""
        return hashlib.sha256(self.settings["name"].encode()).hexdigest()

    def read(self) -> None:
        """Takes over what the file has grown by, checked."""
        with self._transaction("BEGIN"):
            pass

    def release(self, line: LedgerLine) -> bytes:
        """The bytes that a line paid for; raises where they are not what was committed, or their file is gone."""
        with self._opened() as db:
            (content,) = db.execute(
                "SELECT release FROM line WHERE number = ?", (line.number,)
            ).fetchone() or ("",)
        if content is None and self.path is not None:
            with suppress(FileNotFoundError):
                content = self._file(line.sha256).read_bytes()
        if not isinstance(content, bytes) or hashlib.sha256(content).hexdigest() != line.sha256:
            raise damaged_ledger(
                self.path, f"the release of line {line.number} as it was committed"
            )
        return content

    def commit(
        self, data: str, key: str, content: bytes, describe: Callable[[], LineText]
    ) -> bytes:
        """Commits what was drawn under a key, with its charge; returns what the file has under it.

        That is `content`, or what another process committed under the same key before: the first to commit wins, and
        nobody may be shown what was drawn before this returns. The key, within its account `data`, covers all that the
        content is a function of.

        `describe` is asked under the lock what the line says, given the lines as they are then. It raises where the
        charge is not allowed; nothing is written then.
        """
        digest = hashlib.sha256(content).hexdigest()
        outside = self.path is not None and len(content) >= LARGEST_INSIDE
        # a large release in its file, before the line that names it; without one it was never shown
        if outside:
            path = self._file(digest)
            make_folder(path.parent, within=path.parent.parent)
            with replacing(path) as file:
                file.write(content)
        with self._transaction("BEGIN IMMEDIATE") as db:
            if (data, key) not in self.line_of:
                text = describe()
                if text.under and (data, text.under) not in self.line_of:
                    raise InvalidValue(
                        "under", text.under, rule=f"the key of a charge in ledger={self.path}"
                    )
                stated = (data, key, text.under, text.event, json.dumps(text.about))
                line = self._insert(db, stated, digest, None if outside else content)
                # The charge: what was drawn may be shown from here on, and this key reads it back. Before this line
                # it was shown to nobody, and a process that ends here has charged nothing.
                db.execute("COMMIT")
                self._add([line])
                return content
        return self.release(self.line_of[data, key])

    def introduce(
        self, data: str, owners: Mapping[str, frozenset[bytes]], *, anyway: bool
    ) -> dict[str, int]:
        """Enters the owners of a new account; of one that others know, only where that is wanted (`anyway`).

        Owners are names of people or records as bytes, by kind; two kinds are never compared. What is kept of a name is
        its HMAC under a key of the file, so the file lists no ids (docs/proofs/store.md). An account that was
        introduced before is not asked again. Returns how many each other account has; empty where they were entered.
        """
        keyed = self._keyed(owners)
        with self._transaction("BEGIN IMMEDIATE") as db:
            if not keyed or _has_owners(db, data):
                return {}
            counts = Counter[str]() if anyway else _counts_of_known(db, keyed)
            if not counts:
                db.executemany(
                    "INSERT INTO owner VALUES (?, ?, ?)", [(data, *row) for row in keyed]
                )
                db.execute("COMMIT")
        return counts

    def is_introduced(self, data: str) -> bool:
        """Returns whether the owners of an account have been entered."""
        with self._transaction("BEGIN") as db:
            return _has_owners(db, data)

    def accounts_that_know(
        self, owners: Mapping[str, frozenset[bytes]], *, but: str
    ) -> dict[str, int]:
        """Returns how many of these owners each account has, but for the one of that name; enters nobody."""
        with self._transaction("BEGIN") as db:
            counts = _counts_of_known(db, self._keyed(owners))
        return {data: count for data, count in counts.items() if data != but}

    def _keyed(self, owners: Mapping[str, frozenset[bytes]]) -> list[tuple[str, bytes]]:
        """Returns kinds and names of owners as the file keeps them."""
        secret = self.settings["name"].encode()
        return [
            (
                kind,
                hashlib.blake2b(kind.encode() + b"\0" + name, key=secret, digest_size=16).digest(),
            )
            for kind, names in owners.items()
            for name in names
        ]

    def _insert(
        self, db: sqlite3.Connection, values: tuple[str, ...], sha256: str, inside: bytes | None
    ) -> LedgerLine:
        number, previous = self._state
        line = LedgerLine(
            number + 1, *values, sha256, _chained(previous, number + 1, *values, sha256)
        )  # type: ignore[call-arg]
        db.execute(
            "INSERT INTO line VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*vars(line).values(), inside)
        )
        db.execute("UPDATE head SET number = ?, digest = ?", (line.number, line.digest))
        return line

    def _file(self, digest: str) -> Path:
        assert self.path is not None
        return self.path.with_name(f"{self.path.name}.releases") / digest

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        """A transaction with the lines read and checked; rolled back unless the block commits it."""
        with self.lock, self._opened() as db:
            db.execute(begin)
            try:
                self._read(db)
                yield db
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction, as none may be carried into a forked process."""
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
        rule = "a plain file, not a link or a folder; name the file itself"
        # SQLite would make one, or wait for a pipe
        require(stat.S_ISREG(status.st_mode), "ledger", self.path, rule)
        if status.st_size == 0:
            raise damaged_ledger(self.path, "a ledger, found an empty file")
        name = f"file:{quote(str(self.path))}?mode=rw"
        with (
            _by_its_path(self.path),
            closing(sqlite3.connect(name, _WAIT_S, isolation_level=None, uri=True)) as db,
        ):
            db.executescript("PRAGMA synchronous=EXTRA; PRAGMA fullfsync=ON")
            yield db

    def _read(self, db: sqlite3.Connection) -> None:
        names = {
            name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        if not {"head", "line", "owner"} <= names:
            raise damaged_ledger(self.path, "a ledger; its tables are gone, or it never was one")
        try:
            ((number, digest, text),) = db.execute(
                "SELECT number, digest, settings FROM head"
            ).fetchall()
            settings = json.loads(text)
            number = int(number)
            digest = str(digest)
            settings = {**settings, "name": str(settings["name"])}
        except (ValueError, TypeError, KeyError, RecursionError):
            raise damaged_ledger(self.path, "the settings of a ledger in its head") from None
        if not self.settings:
            problem = db.execute("PRAGMA integrity_check(1)").fetchone()
            if problem != ("ok",):
                answer = " ".join(str(problem[0]).split()) if problem else "no answer"
                raise damaged_ledger(self.path, f"a sound file ({answer})")
            self.settings = settings
            self._state = (0, _chained("", json.dumps(settings)))
        known, previous = self._state
        if (number, digest) == (known, previous):
            return
        if number < known or settings != self.settings:
            raise damaged_ledger(
                self.path, "a file that only grows; charges that were in it are gone"
            )
        fresh: list[LedgerLine] = []
        for row in db.execute(
            f"SELECT {_COLUMNS} FROM line WHERE number > ? ORDER BY number", (known,)
        ):
            line = LedgerLine(*row)
            if line.number != known + len(fresh) + 1 or line.digest != _chained(
                previous, *row[:-1]
            ):
                raise damaged_ledger(
                    self.path,
                    f"line {known + len(fresh) + 1} as it was written; it was changed or cut out",
                )
            previous = line.digest
            fresh.append(line)
        if (known + len(fresh), previous) != (number, digest):
            raise damaged_ledger(
                self.path, f"{number} lines, found {known + len(fresh)}; the last ones were cut off"
            )
        self._add(fresh)

    def _add(self, fresh: list[LedgerLine]) -> None:
        del self.lines[self._state[0] :]  # what an interrupted call left behind
        self.lines += fresh
        self.line_of |= {(line.data, line.key): line for line in fresh}
        if fresh:
            self._state = fresh[-1].number, fresh[-1].digest


def _has_owners(db: sqlite3.Connection, data: str) -> bool:
    found = db.execute("SELECT 1 FROM owner WHERE data = ? LIMIT 1", (data,)).fetchone()
    return found is not None


def _counts_of_known(db: sqlite3.Connection, keyed: list[tuple[str, bytes]]) -> Counter[str]:
    """Returns how many of these owners each account has."""
    query = "SELECT data FROM owner WHERE kind = ? AND name = ?"
    return Counter(account for row in keyed for (account,) in db.execute(query, row))


def damaged_ledger(path: Path | None, rule: str) -> DamagedLedger:
    """What is said of a file that is not what was written."""
    return DamagedLedger("ledger", path, rule=f"{rule}: {REMEDY}")


def _chained(previous: str, *values: Any) -> str:
    """The digest of a line, which covers the one before; of damaged columns, too, which may be of any kind."""
    return hashlib.sha256(json.dumps([previous, *values], default=repr).encode()).hexdigest()


def _fill(db: sqlite3.Connection, settings: str) -> None:
    db.executescript(f"PRAGMA journal_mode=DELETE; BEGIN; {_SCHEMA}")
    db.execute("INSERT INTO head VALUES (0, ?, ?)", (_chained("", settings), settings))
    db.execute("COMMIT")


def _make(path: Path, settings: str) -> None:
    """A new file, whole from its first moment, its owner's alone; where another process was first, that one's."""
    partial = path.with_name(f".{path.name}.{os.getpid()}{threading.get_ident()}.partial")
    try:
        partial.unlink(missing_ok=True)
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | PLAIN_FILE, OWNERS_FILE))
        partial.chmod(OWNERS_FILE)
        with _by_its_path(path), closing(sqlite3.connect(partial, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous=EXTRA")
            _fill(db, settings)
        with suppress(FileExistsError):
            os.link(partial, path)
    except OSError as error:
        if error.filename in (str(partial), partial):
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    sync_folder(path.parent)


@contextmanager
def _by_its_path(path: Path) -> Iterator[None]:
    """What SQLite says, in the words of a ledger: a full disk is one, and damage has its remedy."""
    try:
        yield
    except UnicodeDecodeError:  # SQLite quotes the damaged text
        raise damaged_ledger(
            path, "a ledger in a sound file (its text cannot be decoded)"
        ) from None
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _OF_SYSTEM:
            raise OSError(_OF_SYSTEM[code], os.strerror(_OF_SYSTEM[code]), str(path)) from error
        if code == _BUSY:
            rule = f"a lock within {_WAIT_S:.0f} s; another process holds it, or the file system has none"
            raise InvalidValue("ledger", path, rule=rule) from error
        # what comes after it is the damaged text
        reason = " ".join(str(error).partition(" with text ")[0].split())
        raise damaged_ledger(path, f"a ledger in a sound file ({reason})") from None
