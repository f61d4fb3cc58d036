"""A lock on a file is exclusive between processes, and is refused on links, folders and pipes."""

import os
from pathlib import Path

import pytest

from pate.files.lock import file_lock
from tests.refusals import ANY, refused


def test_a_lock_is_exclusive_and_does_not_change_its_file(tmp_path: Path) -> None:
    """A second lock on a file raises `BlockingIOError`.

    Symbolic links, folders and pipes are refused as lock files. A file that is linked, by either kind of link, keeps
    its content.
    """
    victim = tmp_path / "victim"
    lock = tmp_path / "run.lock"
    with file_lock(lock), pytest.raises(BlockingIOError), file_lock(lock, wait=False):
        pass
    with file_lock(lock, wait=False):
        lock.unlink()
    victim.write_text("mine")
    lock.symlink_to(victim)
    with (
        refused("lock", value=ANY, rule="a lock file"),
        file_lock(lock),
    ):
        pass
    lock.unlink()
    os.link(victim, lock)
    with file_lock(lock):
        assert victim.read_text() == "mine"
    for strange in (os.mkdir, os.mkfifo):
        lock.unlink()
        strange(lock)
        with refused("lock", value=ANY, rule="lock file"), file_lock(lock):
            pass
        if lock.is_dir():
            lock.rmdir()
            lock.touch()
