import errno
import os
from pathlib import Path

import pytest

from pate.files.atomic import replacing, write_text


def test_a_full_disk_names_the_file_and_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '/\S+/file\.txt'$"):
        write_text(path, "new")
    assert [(entry.name, entry.read_text()) for entry in path.parent.iterdir()] == [("file.txt", "old")]


def test_an_error_of_another_kind_or_file_is_left_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="/nowhere'"), replacing(tmp_path / "file.txt"):
        (tmp_path / "nowhere").read_text()
    with pytest.raises(ChildProcessError, match=r"^a worker died$"), replacing(tmp_path / "file.txt"):
        raise ChildProcessError("a worker died")
    assert not list(tmp_path.iterdir())
