"""The store keeps a charge and its release together or neither, also for several processes, kills and edited files."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pate.accounting.store import LARGEST_INSIDE, DamagedLedger, LineText, Store
from pate.validation import InvalidValue
from tests.refusals import ANY, refused_parameter

SETTINGS = {"delta": 1e-6}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Returns the path of a ledger file that does not yet exist."""
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Store:
    """Returns a new store at `path`."""
    return Store(path, settings_if_new=SETTINGS)


def tamper_with(path: Path, *statements: str) -> None:
    """Removes the triggers that protect the lines and executes SQL statements on the file, as a tamperer does."""
    db = sqlite3.connect(path)
    db.executescript(
        f"DROP TRIGGER charges_stay; DROP TRIGGER charges_are; {'; '.join(statements)}"
    )
    db.close()


def commit(
    store: Store,
    data_digest: str,
    key: str,
    content: bytes,
    event: str = "price",
    charge_key: str = "",
) -> bytes:
    """Commits bytes under a key and returns the bytes that are stored under this key.

    With `charge_key`, the bytes are a part of the release whose charge has that key; without it, they come with a
    charge of their own.
    """
    line_text = LineText(event_json="" if charge_key else event, charge_key=charge_key)
    return store.commit(data_digest, key=key, content=content, line_under_lock=lambda: line_text)


def test_a_key_is_committed_once_and_all_stores_read_it(store: Store, path: Path) -> None:
    """A second commit of a key returns the bytes of the first, also through another store of the same file, and adds
    no line.

    The same key of another data set is a commit of its own.
    """
    assert commit(store, data_digest="people", key="a", content=b"first") == b"first"
    (line,) = store.lines
    assert (line.number, line.event_json) == (1, "price")
    assert commit(store, data_digest="people", key="a", content=b"second") == b"first"
    assert (
        commit(
            Store(path, settings_if_new=SETTINGS), data_digest="people", key="a", content=b"third"
        )
        == b"first"
    )
    assert store.lines == [line]
    assert commit(store, data_digest="others", key="a", content=b"theirs") == b"theirs"


def test_a_part_needs_the_charge_of_its_release(store: Store) -> None:
    """A part that names the release "a" is refused until the same data set has the charge "a".

    The line of the part has no event of its own.
    """
    with refused_parameter("charge_key", value="a"):
        commit(store, data_digest="people", key="b", content=b"part", charge_key="a")
    commit(store, data_digest="people", key="a", content=b"whole")
    with refused_parameter("charge_key", value="a"):
        commit(store, data_digest="others", key="b", content=b"part", charge_key="a")
    assert commit(store, data_digest="people", key="b", content=b"part", charge_key="a") == b"part"
    assert [(line.key, line.event_json, line.charge_key) for line in store.lines] == [
        ("a", "price", ""),
        ("b", "", "a"),
    ]


def test_a_concurrent_charge_is_counted_before_the_commit(store: Store, path: Path) -> None:
    """The function that describes a new charge sees a charge that another store has committed in the meantime.

    The function refuses the new charge, and nothing is added. A commit of a key that the store has already returns the
    stored bytes, without a call of the function.
    """

    def describe() -> LineText:
        if len(store.lines) >= 1:
            raise InvalidValue(name="max_epsilon", value="1", rule="a smaller number")
        return LineText(event_json="price")

    commit(Store(path, settings_if_new=SETTINGS), data_digest="people", key="b", content=b"winner")
    with refused_parameter("max_epsilon", value="1"):
        store.commit(data_digest="people", key="a", content=b"loser", line_under_lock=describe)
    assert [line.key for line in store.lines] == ["b"]
    content = store.commit(
        data_digest="people", key="b", content=b"loser", line_under_lock=describe
    )
    assert content == b"winner"
    assert len(store.lines) == 1


def test_a_large_release_lies_in_a_file_named_by_its_digest(store: Store, path: Path) -> None:
    """A release too large for the database lies in a file of its own, which only its owner may read.

    A release is refused as damaged if its file is changed or lost. A small release is refused if its bytes are changed
    in the database.
    """
    large_release = bytes(LARGEST_INSIDE)
    commit(store, data_digest="people", key="a", content=large_release)
    (line,) = store.lines
    (release_file,) = (path.parent / "ledger.db.releases").iterdir()
    assert (release_file.name, release_file.stat().st_mode & 0o777) == (line.sha256, 0o600)
    assert path.stat().st_size < LARGEST_INSIDE
    assert Store(path, settings_if_new=None).release(line) == large_release
    release_file.write_bytes(large_release[1:])
    with refused_parameter("ledger", value=ANY, rule_words="release of line 1", kind=DamagedLedger):
        commit(store, data_digest="people", key="a", content=b"again")
    release_file.unlink()
    with refused_parameter("ledger", value=ANY, rule_words="release of line 1", kind=DamagedLedger):
        commit(store, data_digest="people", key="a", content=b"again")
    commit(store, data_digest="people", key="b", content=b"small")
    tamper_with(path, "UPDATE line SET release = x'00'")
    with refused_parameter("ledger", value=ANY, rule_words="release of line 2", kind=DamagedLedger):
        commit(
            Store(path, settings_if_new=SETTINGS), data_digest="people", key="b", content=b"other"
        )


@pytest.mark.parametrize(
    "sql_statement",
    [
        "UPDATE line SET event = 'cheap' WHERE number = 2",
        "UPDATE line SET data = 'nobody' WHERE number = 2",
        "UPDATE line SET key = 'z' WHERE number = 2",
        "UPDATE line SET about = '{\"when\": 1}' WHERE number = 2",
        "UPDATE line SET under = 'k1' WHERE number = 2",
        "DELETE FROM line WHERE number = 2",
        "DELETE FROM line WHERE number = 4",
        "DELETE FROM line",
        "UPDATE line SET number = 9 WHERE number = 4",
        "UPDATE head SET number = 3",
        'UPDATE head SET settings = \'{"delta": 0.5, "name": "x"}\'',
        "DELETE FROM head",
        "INSERT INTO head SELECT * FROM head",
        "UPDATE head SET settings = '[' ",
        "UPDATE line SET event = x'ff' WHERE number = 2",
        "DROP TABLE line",
        "DROP TABLE owner",
    ],
)
def test_an_edited_file_is_refused_in_one_line_with_the_remedy(
    store: Store, path: Path, sql_statement: str
) -> None:
    """Opening a ledger file is refused after an SQL statement has changed, removed or added a row, or removed a table.

    The error is one line that names the file and advises to restore a backup.
    """
    for number in range(1, 5):
        commit(store, data_digest="people", key=f"k{number}", content=b"release")
    tamper_with(path, sql_statement)
    with pytest.raises(DamagedLedger) as caught:
        Store(path, settings_if_new=SETTINGS)
    text = str(caught.value)
    assert text.startswith(f"ledger={path}: expected ")
    assert text.endswith(": restore the ledger from a backup; nothing is released until then")
    assert "\n" not in text


def test_an_older_or_exchanged_file_is_refused_after_a_reading(store: Store, path: Path) -> None:
    """A store refuses its file as damaged if an earlier copy or another ledger's file replaced it after a reading."""
    commit(store, data_digest="people", key="a", content=b"a")
    older_path = path.with_name("older")
    other_path = path.with_name("other.db")
    shutil.copy(path, older_path)
    commit(store, data_digest="people", key="b", content=b"b")
    for key in "abc":
        commit(
            Store(other_path, settings_if_new=SETTINGS), data_digest="people", key=key, content=b"a"
        )
    for replacing_path in (older_path, other_path):
        os.replace(replacing_path, path)
        with refused_parameter(
            "ledger", value=ANY, rule_words="charges that were", kind=DamagedLedger
        ):
            store.read()


@pytest.mark.slow
def test_a_changed_byte_never_changes_a_line_unnoticed(store: Store, path: Path) -> None:
    """If random bytes are flipped or the end is cut off, either the lines stay the same or the file is refused."""
    for number in range(6):
        commit(
            store,
            data_digest="people",
            key=f"k{number}",
            content=b"release " * 40,
            event="price " * 30,
        )
    intact_bytes = path.read_bytes()
    lines = list(store.lines)
    rng = random.Random(1)
    failures = 0
    for trial in range(400):
        broken_bytes = bytearray(intact_bytes)
        if trial % 4 == 3:
            del broken_bytes[rng.randrange(len(broken_bytes)) :]
        else:
            start = rng.randrange(len(broken_bytes))
            end = min(start + rng.choice((1, 8, 512)), len(broken_bytes))
            for position in range(start, end):
                broken_bytes[position] ^= rng.randrange(1, 256)
        path.write_bytes(broken_bytes)
        try:
            reopened = Store(path, settings_if_new=None)
            releases = [reopened.release(line) for line in reopened.lines]
        except (InvalidValue, OSError) as error:
            failures += 1
            assert "\n" not in str(error)
            continue
        assert reopened.lines == lines
        assert releases == [b"release " * 40] * 6
    assert failures > 100  # much of a small file is empty pages


def test_only_a_plain_file_that_holds_a_ledger_is_opened(path: Path, tmp_path: Path) -> None:
    """`Store` refuses an empty file, a text, a broken link, a pipe, a folder, and a missing file without settings.

    A refused broken link creates no file.
    """

    def require_refusal(kind: type[InvalidValue], rule: str, file: Path = path) -> None:
        with refused_parameter("ledger", value=file, rule_words=rule, kind=kind):
            Store(file, settings_if_new=SETTINGS if file == path else None)

    path.touch()
    require_refusal(kind=DamagedLedger, rule="a ledger, found an empty file")
    path.write_text("charges: none\n" * 400)
    require_refusal(kind=DamagedLedger, rule="file is not a database")
    path.unlink()
    path.symlink_to(tmp_path / "nowhere.db")
    require_refusal(kind=InvalidValue, rule="found a link that leads nowhere")
    assert not (tmp_path / "nowhere.db").exists()
    path.unlink()
    os.mkfifo(path)
    require_refusal(kind=InvalidValue, rule="a plain file")
    path.unlink()
    path.mkdir()
    require_refusal(kind=InvalidValue, rule="a plain file")
    require_refusal(kind=InvalidValue, rule="a ledger, found no file", file=tmp_path / "missing.db")


def test_a_commit_leaves_one_file_that_its_owner_alone_reads(path: Path, tmp_path: Path) -> None:
    """After a commit there is one file, readable by its owner alone although the umask allows everything.

    No journal remains, and SQLite writes with its safest settings.
    """
    usual_umask = os.umask(0)
    try:
        store = Store(path, settings_if_new=SETTINGS)
        commit(store, data_digest="people", key="a", content=b"a")
    finally:
        os.umask(usual_umask)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.db"]
    with store._opened() as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert db.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA


def test_a_link_to_a_ledger_and_a_backup_are_the_ledger(
    store: Store, path: Path, tmp_path: Path
) -> None:
    """A charge through a symbolic link is a charge of the ledger; a backup by SQLite has the same lines."""
    (tmp_path / "link.db").symlink_to(path)
    commit(
        Store(tmp_path / "link.db", settings_if_new=SETTINGS),
        data_digest="people",
        key="a",
        content=b"a",
    )
    store.read()
    assert len(store.lines) == 1
    with sqlite3.connect(path) as db, sqlite3.connect(tmp_path / "backup.db") as copied:
        db.backup(copied)
    assert Store(tmp_path / "backup.db", settings_if_new=SETTINGS).lines == store.lines


def test_charges_cannot_be_deleted_or_changed_by_accident(store: Store, path: Path) -> None:
    """SQL statements that delete or update lines are refused by triggers of the database."""
    commit(store, data_digest="people", key="a", content=b"a")
    db = sqlite3.connect(path)
    for statement in ("DELETE FROM line", "UPDATE line SET event = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="charges stay"):
            db.execute(statement)
    db.close()


def register_ids(
    store: Store, data_digest: str, ids: frozenset[bytes], *, allow_shared: bool = False
) -> dict[str, int]:
    """Registers the ids of a data set's owners, and returns the number of common ids by earlier data set."""
    return store.register_owners(data_digest, owners={"ids": ids}, allow_shared=allow_shared)


ADA_AND_GRACE = frozenset({b"ada lovelace", b"grace hopper"})
GRACE_AND_EMMY = frozenset({b"grace hopper", b"emmy noether"})


def test_common_owners_are_counted_and_not_registered(store: Store) -> None:
    """A second data set that shares an id with the first is not registered, at the first and at the second try.

    Each try returns the number of shared ids.
    """
    assert register_ids(store, data_digest="first", ids=ADA_AND_GRACE) == {}
    for _ in range(2):
        assert register_ids(store, data_digest="second", ids=GRACE_AND_EMMY) == {"first": 1}
    assert register_ids(store, data_digest="sixth", ids=frozenset()) == {}


def test_owners_of_different_kinds_are_never_compared(store: Store) -> None:
    """Owners of two kinds, ids and groups, are never compared, so equal names of different kinds are not shared owners.

    Each kind is counted by itself.
    """
    register_ids(store, data_digest="first", ids=ADA_AND_GRACE)
    owner_groups = {"groups": GRACE_AND_EMMY}
    assert store.register_owners(data_digest="third", owners=owner_groups, allow_shared=False) == {}
    # The third data set is registered already, so its further owners change nothing.
    assert register_ids(store, data_digest="third", ids=ADA_AND_GRACE) == {}
    owners_of_both_kinds = {"ids": GRACE_AND_EMMY, "groups": GRACE_AND_EMMY}
    num_shared = store.register_owners(
        data_digest="fourth", owners=owners_of_both_kinds, allow_shared=False
    )
    assert num_shared == {"first": 1, "third": 2}


def test_shared_owners_are_registered_where_they_are_allowed(store: Store, path: Path) -> None:
    """With `allow_shared`, both data sets have the common id. The file does not show "lovelace", a part of an id."""
    register_ids(store, data_digest="first", ids=ADA_AND_GRACE)
    assert register_ids(store, data_digest="second", ids=GRACE_AND_EMMY, allow_shared=True) == {}
    other_store = Store(path, settings_if_new=None)
    num_shared = register_ids(other_store, data_digest="fifth", ids=GRACE_AND_EMMY)
    assert num_shared == {"first": 1, "second": 2}
    assert b"lovelace" not in path.read_bytes()


def test_all_owners_of_an_account_are_stored_once(store: Store, path: Path) -> None:
    """1,000 names that are registered twice as ids and as groups are 2,000 rows of the file.

    A second data set with the same groups shares all 1,000 of them.
    """
    names = frozenset(str(number).encode() for number in range(1000))
    for _ in range(2):
        store.register_owners(
            data_digest="first", owners={"ids": names, "groups": names}, allow_shared=False
        )
    db = sqlite3.connect(path)
    rows = db.execute("SELECT kind, name FROM owner").fetchall()
    db.close()
    assert len(rows) == 2000
    assert store.register_owners(
        data_digest="second", owners={"groups": names}, allow_shared=False
    ) == {"first": 1000}


def test_threads_with_one_store_get_one_release_for_each_key(store: Store) -> None:
    """Six threads commit different bytes under the same five keys of one store: all get the same bytes for a key."""
    actual: list[tuple[str, bytes]] = []

    def commit_each_key(number: int) -> None:
        for key in "abcde":
            actual.append(
                (key, commit(store, data_digest="people", key=key, content=str(number).encode()))
            )

    threads = [threading.Thread(target=commit_each_key, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(actual) == 30
    assert len(set(actual)) == len(store.lines) == 5


WORKER = """
import os, sys
from pate.accounting.store import LineText, Store
store = Store(sys.argv[1], {})
for key in sys.argv[2:]:
    line_text = LineText(event_json="price")
    release = store.commit("people", key=key, content=os.urandom(8), line_under_lock=lambda: line_text)
    print(key, release.hex(), flush=True)
"""


def start_commits(path: Path, keys: list[str], printed_file: Path) -> subprocess.Popen[bytes]:
    """Starts a process that commits random bytes under each key, and prints keys and releases into `printed_file`."""
    with printed_file.open("wb") as out:
        return subprocess.Popen([sys.executable, "-c", WORKER, str(path), *keys], stdout=out)


def read_printed_releases(printed_file: Path) -> set[tuple[str, ...]]:
    """Returns the keys and releases that a process has printed; a last line that the kill has cut off is left out."""
    lines = printed_file.read_text().splitlines(keepends=True)
    return {tuple(line.split()) for line in lines if line.endswith("\n")}


@pytest.mark.slow
@pytest.mark.process
def test_killed_processes_charge_one_release_for_each_key(path: Path, tmp_path: Path) -> None:
    """Two processes that commit the same keys are often killed, at random times; a third one then commits all keys.

    Every release that any of them printed is the one in the store, and each key has one line.
    """
    rng = random.Random(2)
    printed_folder = tmp_path / "printed"
    printed_folder.mkdir()
    kills = 0
    for trial in range(12):
        keys = [f"{trial}-{number}" for number in range(12)]
        processes = [
            start_commits(
                path=path,
                keys=rng.sample(keys, k=12),
                printed_file=printed_folder / f"{trial}-{number}",
            )
            for number in range(2)
        ]
        time.sleep(0.1 + rng.random() * 0.5)
        for process in processes:
            if process.poll() is None and rng.random() < 0.8:
                process.send_signal(signal.SIGKILL)
                kills += 1
            process.wait()
        last_process = start_commits(path, keys, printed_file=printed_folder / f"{trial}-last")
        assert last_process.wait() == 0
    actual = set().union(*map(read_printed_releases, printed_folder.iterdir()))
    store = Store(path, settings_if_new=None)
    stored = {(line.key, store.release(line).hex()) for line in store.lines}
    assert kills > 0
    assert actual == stored
    assert len(stored) == len(store.lines) == 144
    assert not list(tmp_path.glob("*.partial"))
