"""A lock on a file is exclusive, does not change its file, and is refused on symbolic links, folders and pipes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pate.files.lock import file_lock
from tests.refusals import ANY, refused_parameter


def test_a_lock_is_exclusive(tmp_path: Path) -> None:
    """A second lock on a locked file raises `BlockingIOError`; after the first lock ends, the file can be locked."""
    path = tmp_path / "run.lock"
    with file_lock(path), pytest.raises(BlockingIOError), file_lock(path, wait=False):
        pass
    with file_lock(path, wait=False):
        path.unlink()


def test_a_symbolic_link_is_refused_as_a_lock_file(tmp_path: Path) -> None:
    """A symbolic link is refused as a lock file, and its target keeps its content."""
    target = tmp_path / "target"
    target.write_text("mine")
    path = tmp_path / "run.lock"
    path.symlink_to(target)
    with refused_parameter("lock", value=ANY, rule_words="a lock file"), file_lock(path):
        pass
    assert target.read_text() == "mine"


def test_a_lock_does_not_change_its_file(tmp_path: Path) -> None:
    """A lock on another name of a file, a hard link, leaves the content of the file as it is."""
    target = tmp_path / "target"
    target.write_text("mine")
    path = tmp_path / "run.lock"
    os.link(target, path)
    with file_lock(path):
        assert target.read_text() == "mine"
    assert target.read_text() == "mine"


@pytest.mark.parametrize("make_folder_or_pipe", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_a_folder_or_pipe_is_refused_as_a_lock_file(
    make_folder_or_pipe: Callable[[Path], None], tmp_path: Path
) -> None:
    """A folder or a pipe in place of the lock file is refused."""
    path = tmp_path / "run.lock"
    make_folder_or_pipe(path)
    with refused_parameter("lock", value=ANY, rule_words="lock file"), file_lock(path):
        pass
