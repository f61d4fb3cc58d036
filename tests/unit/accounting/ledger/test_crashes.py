"""Faults at every step of a charge: a line and its anchor are both there, or what is left is understood."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pate.accounting.ledger.anchor import SIZE, anchor_path, read_anchor

from pate.accounting import DamagedLedger, GaussianEvent, Ledger
from pate.accounting.ledger import Origin

DELTA = 1e-6
CALLS = ("write", "fsync", "pwrite", "fdatasync")


class Killed(BaseException):
    """Stands for a kill: nothing may be tidied up after it."""


def charge(ledger: Ledger, key: str) -> Any:
    return ledger.charge(GaussianEvent(20.0), adjacency=ledger.adjacency, key=key)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.jsonl"
    charge(Ledger(path, target_delta=DELTA), "a")
    return path


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", CALLS)
def test_a_failure_at_any_step_leaves_a_whole_ledger(
    path: Path, name: str, after: bool, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No trace, or, where the anchor may have reached the disk, the charge."""
    ledger, whole, real, calls = Ledger(path, target_delta=DELTA), path.read_bytes(), getattr(os, name), [0]

    def fail(*arguments: Any) -> Any:
        calls[0] += 1
        done = real(*arguments) if after or calls[0] > 1 else None
        if calls[0] == 1:
            raise error
        return done

    with monkeypatch.context() as faulty:
        faulty.setattr(os, name, fail)
        with pytest.raises(type(error)):
            charge(ledger, "b")
    assert path.read_bytes() == whole
    for again in (ledger, Ledger(path, target_delta=DELTA)):
        assert [entry.key for entry in again.entries] == ["a"]
    charge(ledger, "b")
    assert [entry.key for entry in Ledger(path, target_delta=DELTA).entries] == ["a", "b"]


@pytest.mark.parametrize("name", ["pwrite", "fdatasync"])
def test_an_anchor_that_cannot_be_put_back_leaves_the_charge(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it names the line is not known, so the line stays: too much is counted, never too little."""
    ledger = Ledger(path, target_delta=DELTA)

    def fail(*arguments: Any) -> Any:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as faulty:
        faulty.setattr(os, name, fail)
        with pytest.raises(OSError, match="Input/output error"):
            charge(ledger, "b")
    assert [entry.key for entry in Ledger(path, target_delta=DELTA).entries] == ["a", "b"]
    assert [entry.key for entry in ledger.entries] == ["a", "b"]


def states(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, bytes]]:
    """What is on disk before and after each system call of a charge, where nothing runs after a kill."""
    found = []
    for name in CALLS:
        for after in (False, True):
            ledger, real = Ledger(path, target_delta=DELTA), getattr(os, name)
            kept = path.read_bytes(), anchor_path(path).read_bytes()

            def kill(*arguments: Any, real: Any = real, after: bool = after) -> Any:
                if after:
                    real(*arguments)
                found.append((path.read_bytes(), anchor_path(path).read_bytes()))
                raise Killed

            with monkeypatch.context() as killed:
                killed.setattr(os, name, kill)
                with pytest.raises((Killed, OSError)):
                    charge(ledger, "b")
            path.write_bytes(kept[0])
            anchor_path(path).write_bytes(kept[1])
    return found


def test_a_kill_at_any_step_leaves_what_is_understood(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Origin, "now", lambda: Origin("now"))
    whole, anchor = path.read_bytes(), anchor_path(path).read_bytes()
    left = states(path, monkeypatch)
    assert {content == whole for content, _ in left} == {True, False}
    longest = max((content for content, _ in left), key=len)
    new = max((names for _, names in left), key=lambda names: names != anchor)
    for length in range(len(whole), len(longest), 3):  # a line of which a part reached the disk
        left.append((longest[:length], anchor))
    for length in range(0, SIZE, 3):  # an anchor of which a part reached the disk, the line being there
        start = next(place for place in (0, SIZE) if new[place : place + SIZE] != anchor[place : place + SIZE])
        torn = anchor[:start] + new[start : start + length] + anchor[start + length :]
        left.append((longest, torn))
    for content, names in left:
        path.write_bytes(content)
        anchor_path(path).write_bytes(names)
        keys = [entry.key for entry in Ledger(path, target_delta=DELTA).entries]
        is_whole = content != whole and content.endswith(b"}\n")
        assert keys == (["a", "b"] if is_whole else ["a"])
        assert path.read_bytes() == (content if is_whole else whole)
        now = read_anchor(path)
        assert now is not None
        assert (now.num_lines, now.unfinished) == (len(keys) + 1, False)


def test_a_new_ledger_is_begun_anew_whatever_a_kill_left_of_it(path: Path, tmp_path: Path) -> None:
    header = path.read_bytes().splitlines(keepends=True)[0]
    for length in [*range(0, len(header), 11), len(header)]:
        new = tmp_path / f"new-{length}.jsonl"
        new.write_bytes(header[:length])
        charge(Ledger(new, target_delta=DELTA), "first")
        assert len(Ledger(new, target_delta=DELTA).entries) == 1


def test_a_torn_line_after_a_line_that_was_acknowledged_is_cut_and_nothing_before_it(path: Path) -> None:
    whole = path.read_bytes()
    for piece in (b"{", b'{"key": "b"', b"\0" * 10):
        path.write_bytes(whole + piece)
        assert [entry.key for entry in Ledger(path, target_delta=DELTA).entries] == ["a"]
        assert path.read_bytes() == whole
    path.write_bytes(whole[:-30])
    with pytest.raises(DamagedLedger, match="expected line 2 as the first of 1 that were cut off"):
        Ledger(path, target_delta=DELTA)


CHARGES = """
import sys
from pate.accounting import GaussianEvent, Ledger
ledger = Ledger(sys.argv[1], target_delta=1e-6)
for number in range(100_000):
    ledger.charge(GaussianEvent(50.0), adjacency="replace_one", key=f"{sys.argv[2]} {number}")
    print(number, flush=True)
"""


@pytest.mark.process
@pytest.mark.slow
def test_processes_that_charge_at_once_and_are_killed_lose_no_charge(tmp_path: Path) -> None:
    path, acknowledged = tmp_path / "ledger.jsonl", set[str]()
    for turn in range(4):
        names = [f"{turn}.{process}" for process in range(2)]
        command = [sys.executable, "-c", CHARGES, str(path)]
        running = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in names]
        for process in running:
            assert process.stdout is not None
            process.stdout.readline()
        time.sleep(0.05 * turn)
        for process, name in zip(running, names, strict=True):
            process.send_signal(signal.SIGKILL)
            said, _ = process.communicate()
            acknowledged |= {f"{name} {number}" for number in ["0", *said.split()]}
        keys = [entry.key for entry in Ledger(path, target_delta=DELTA).entries]
        assert acknowledged <= set(keys)
        assert len(keys) == len(set(keys)) <= len(acknowledged) + 2 * (turn + 1)
