"""Where a ledger's files are and who may read them: never a link's victim, never open to others."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pate.accounting.ledger.anchor import anchor_path
from pate.accounting.ledger.lock import locked

from pate.accounting import GaussianEvent, Ledger, SharedLedger
from pate.accounting.ledger import Origin, origin
from pate.validation import InvalidValue

DELTA = 1e-6


def charge(ledger: Ledger, key: str = "a") -> Any:
    return ledger.charge(GaussianEvent(20.0), adjacency=ledger.adjacency, key=key)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277, 0o777])
def test_files_are_their_owner_s_from_the_beginning(tmp_path: Path, umask: int) -> None:
    path, before = tmp_path / "ledger.jsonl", os.umask(umask)
    try:
        charge(Ledger(path, target_delta=DELTA))
    finally:
        os.umask(before)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {"ledger.jsonl": 0o600, ".ledger.jsonl.head": 0o600, ".ledger.jsonl.lock": 0o600}


@pytest.mark.parametrize("name", [".ledger.jsonl.lock", ".ledger.jsonl.head"])
@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_link_in_place_of_a_file_beside_it_is_refused_and_its_victim_left_alone(
    tmp_path: Path, name: str, kind: str
) -> None:
    victim, path = tmp_path / "victim", tmp_path / "ledger.jsonl"
    victim.write_text("somebody's notes")
    planted = tmp_path / name
    if kind == "link":
        planted.symlink_to(victim)
    elif kind == "folder":
        planted.mkdir()
    else:
        os.mkfifo(planted)
    with pytest.raises(InvalidValue, match=rf"^ledger.*\{name}"):
        charge(Ledger(path, target_delta=DELTA))
    assert victim.read_text() == "somebody's notes"


def test_a_lock_file_that_is_another_s_hard_link_is_not_emptied(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("somebody's notes")
    (tmp_path / ".ledger.jsonl.lock").hardlink_to(victim)
    charge(Ledger(tmp_path / "ledger.jsonl", target_delta=DELTA))
    assert victim.read_text() == "somebody's notes"


def test_a_ledger_that_is_a_link_is_the_one_it_links_to(tmp_path: Path) -> None:
    """With that one's lock and anchor: both names are one ledger."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "kept").mkdir()
    real, link = tmp_path / "kept" / "ledger.jsonl", tmp_path / "runs" / "linked.jsonl"
    link.symlink_to(real)
    other, one = Ledger(real, target_delta=DELTA), Ledger(link, target_delta=DELTA)
    charge(one, "a")
    charge(other, "b")
    assert one.path == other.path == real
    assert [entry.key for entry in one.entries] == ["a", "b"]
    assert {file.name for file in link.parent.iterdir()} == {"linked.jsonl"}
    assert anchor_path(real).exists()


@pytest.mark.parametrize("target", ["gone/ledger.jsonl", "gone.jsonl", "ledger.jsonl"])
def test_a_link_to_nothing_gives_no_fresh_budget(tmp_path: Path, target: str) -> None:
    """The disk is not there, the ledger was moved, or the link is to itself."""
    path = tmp_path / "ledger.jsonl"
    path.symlink_to(tmp_path / target)
    for opened in (Ledger, SharedLedger):
        with pytest.raises(InvalidValue, match=r"^ledger=.*ledger\.jsonl: expected .*, found a link to nothing$"):
            opened(path, target_delta=DELTA, max_epsilon=1.0)
    assert [entry.name for entry in tmp_path.iterdir()] == ["ledger.jsonl"]


def test_a_ledger_that_links_to_somebody_s_notes_leaves_them_alone(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.write_text("a line\nand a piece of one")
    (tmp_path / "ledger.jsonl").symlink_to(notes)
    with pytest.raises(InvalidValue, match="expected JSON of a ledger on line 1"):
        Ledger(tmp_path / "ledger.jsonl", target_delta=DELTA)
    assert notes.read_text() == "a line\nand a piece of one"


def test_a_link_that_takes_the_ledger_s_place_later_is_refused(tmp_path: Path) -> None:
    path, victim = tmp_path / "ledger.jsonl", tmp_path / "victim"
    ledger = Ledger(path, target_delta=DELTA)
    path.rename(victim)
    path.symlink_to(victim)
    before = victim.read_bytes()
    with pytest.raises(InvalidValue, match="expected a plain file at"):
        charge(ledger)
    assert victim.read_bytes() == before


def test_a_lock_whose_file_was_removed_keeps_nobody_waiting_and_nobody_beside(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with locked(path):
        (tmp_path / ".ledger.jsonl.lock").unlink()
    charge(Ledger(path, target_delta=DELTA))
    assert (tmp_path / ".ledger.jsonl.lock").exists()


def test_the_origin_of_a_charge_is_known_where_there_is_neither_a_name_nor_a_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(number: int) -> Any:
        raise KeyError(number)

    origin._process.cache_clear()
    with monkeypatch.context() as bare:
        bare.setattr("pwd.getpwuid", unknown)
        bare.delattr(sys, "argv")
        found = Origin.now()
    origin._process.cache_clear()
    assert found.user == str(os.getuid())
    assert found.command == ""
    assert found.host == os.uname().nodename


def test_the_words_of_a_command_are_kept_as_a_shell_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they are: no text, and a great many."""
    path = tmp_path / "ledger.jsonl"
    for number, (words, expected) in enumerate(
        [
            (["pate-train", "data=a b", "note='\n"], "pate-train 'data=a b' 'note='\"'\"'\n'"),
            (["pate-train", "\udcff"], "pate-train '\udcff'"),
            (["x" * 5000], "x" * 1000),
        ]
    ):
        origin._process.cache_clear()
        monkeypatch.setattr(sys, "argv", words)
        charge(Ledger(path, target_delta=DELTA), str(number))
        assert Ledger(path, target_delta=DELTA).entries[-1].origin.command == expected
    origin._process.cache_clear()


@pytest.mark.process
def test_a_process_that_is_forked_under_the_lock_does_not_keep_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with locked(path):
        child = os.fork()
        if child == 0:
            time.sleep(20)
            os._exit(0)
    try:
        started = time.monotonic()
        charge(Ledger(path, target_delta=DELTA))
        assert time.monotonic() - started < 10
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
