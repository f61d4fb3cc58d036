"""What is written is its owner's alone, whatever the umask; locks and partial files touch nothing of others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pate.files.atomic import locked, make_folder, remove_partials, replacing, write_arrays, write_text
from pate.report.tensorboard import RunWriter
from pate.teachers import CheckpointStore
from pate.validation import InvalidValue
from pate.votes import VoteStore


@pytest.fixture(params=[0o000, 0o077, 0o277], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("umask")
def test_files_and_folders_are_the_owners_alone(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "outputs" / "run")
    write_text(folder / "run.json", "{}")
    write_arrays(folder / "summary.npz", summary=np.zeros(3))
    CheckpointStore(folder / "teachers").save(0, {"loss_curve": np.zeros(1, np.float32)})
    CheckpointStore(folder / "teachers").save_chunk({n: {"loss_curve": np.zeros(1, np.float32)} for n in (1, 2)})
    votes = np.zeros((1, 2, 3), np.bool_)
    VoteStore.write(folder / "votes.npz", [votes], num_teachers=1, num_queries=2, num_labels=3)
    with locked(folder / "run.lock"):
        pass
    found = {path.relative_to(tmp_path).as_posix(): mode(path) for path in tmp_path.rglob("*")}
    assert {name for name, bits in found.items() if bits == 0o700} == {"outputs", "outputs/run", "outputs/run/teachers"}
    assert {bits for name, bits in found.items() if (tmp_path / name).is_file()} == {0o600}
    assert len(found) == 11


def test_a_file_is_private_from_its_first_moment(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with replacing(tmp_path / "votes.npz") as file:
            file.write(b"secret")
            assert [mode(path) for path in tmp_path.iterdir()] == [0o600]
    finally:
        os.umask(before)


def test_events_are_private_without_a_commands_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with RunWriter(tmp_path / "tensorboard") as events:
            events.teacher(0, 0.5)
    finally:
        os.umask(before)
    assert mode(tmp_path / "tensorboard") == 0o700
    assert {mode(path) for path in (tmp_path / "tensorboard").iterdir()} == {0o600}


def test_a_planted_link_gets_nothing(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / f".run.json.{os.getpid()}.partial").symlink_to(tmp_path / "victim")
    write_text(tmp_path / "run.json", "{}")
    assert (tmp_path / "victim").read_text() == "mine"
    assert (tmp_path / "run.json").read_text() == "{}"


def test_a_lock_empties_nothing_and_follows_no_link(tmp_path: Path) -> None:
    victim, lock = tmp_path / "victim", tmp_path / "run.lock"
    victim.write_text("mine")
    lock.symlink_to(victim)
    with pytest.raises(InvalidValue, match=r"^lock=\S+run\.lock: expected a lock file or none"), locked(lock):
        pass
    lock.unlink()
    os.link(victim, lock)
    with locked(lock):
        assert victim.read_text() == "mine"
    for strange in (os.mkdir, os.mkfifo):
        lock.unlink()
        strange(lock)
        with pytest.raises(InvalidValue, match="expected a lock file or none"), locked(lock):
            pass
        if lock.is_dir():
            lock.rmdir()
            lock.touch()


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    with locked(tmp_path / "run.lock"), pytest.raises(BlockingIOError), locked(tmp_path / "run.lock", wait=False):
        pass
    with locked(tmp_path / "run.lock", wait=False):
        pass


def test_only_partial_files_of_known_names_are_removed(tmp_path: Path) -> None:
    others = {".notes.txt.12.partial", "film.mp4.partial", ".votes.npz.partial", ".votes.npz.x.partial", "votes.npz"}
    for name in (*others, ".votes.npz.12.partial"):
        (tmp_path / name).touch()
    (tmp_path / ".votes.npz.13.partial").mkdir()
    (tmp_path / ".votes.npz.14.partial").symlink_to(tmp_path / "votes.npz")
    remove_partials(tmp_path, (r"votes\.npz",))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == others | {".votes.npz.13.partial", ".votes.npz.14.partial"}


def test_a_folder_that_vanished_is_not_made_anew(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(FileNotFoundError, match=r"run/report\.json'$"):
        write_text(run / "report.json", "{}")
    with pytest.raises(FileNotFoundError, match="run"):
        make_folder(run / "teachers", within=run)
    with pytest.raises(FileNotFoundError, match="run"):
        CheckpointStore(run / "teachers").save(0, {})
    assert not run.exists()
