"""Files of secrets: of their owner alone from the first moment, whole or not there, read strictly, erased."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pate.files import atomic
from pate.files.atomic import erase_secret, read_secret, write_secret
from pate.validation import InvalidValue

REMEDY = "do this"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o377])
def test_whatever_the_umask_it_is_the_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int) -> None:
    modes = []
    opening = os.open

    def watched(path: Path, flags: int, *mode: int) -> int:
        descriptor = opening(path, flags, *mode)
        if flags & os.O_CREAT:
            assert flags & os.O_EXCL
            assert flags & os.O_NOFOLLOW
            modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr(atomic.os, "open", watched)
    before = os.umask(umask)
    try:
        write_secret(tmp_path / "a.secret", "abc\n")
    finally:
        os.umask(before)
    assert modes[0] & 0o077 == 0, "open to nobody else from its first moment"
    assert stat.S_IMODE((tmp_path / "a.secret").stat().st_mode) == 0o600
    assert read_secret(tmp_path / "a.secret", remedy=REMEDY) == "abc\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.secret"]


def test_a_crash_leaves_a_whole_file_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match=r"No space left on device: .*a\.secret"):
        patch.setattr(atomic.os, "fsync", crash)
        write_secret(tmp_path / "a.secret", "abc\n")
    assert list(tmp_path.iterdir()) == []


def test_what_was_open_to_others_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.secret"
    write_secret(path, "abc\n")
    for mode in (0o644, 0o640, 0o604, 0o700, 0o4600):
        path.chmod(mode)
        with pytest.raises(
            InvalidValue, match=rf"^secret=.*a\.secret: expected mode 0600, found {mode:04o}, .*do this"
        ):
            read_secret(path, remedy=REMEDY)


def test_what_is_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.secret"
    write_secret(path, "abc\n")
    user = os.geteuid()
    monkeypatch.setattr(atomic.os, "geteuid", lambda: user + 1)
    with pytest.raises(
        InvalidValue, match=rf"expected a file of user {user + 1}, who runs this, found one of user {user};"
    ):
        read_secret(path, remedy=REMEDY)


def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "victim").chmod(0o600)
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name, found in (
        ("link", "a link"),
        ("folder", "something else"),
        ("pipe", "something else"),
        ("no", "nothing"),
    ):
        with pytest.raises(InvalidValue, match=rf"^secret=.*{name}: expected a file, found {found}; do this$"):
            read_secret(tmp_path / name, remedy=REMEDY)


def test_writing_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "a.secret").symlink_to(tmp_path / "victim")
    write_secret(tmp_path / "a.secret", "abc\n")
    assert (tmp_path / "victim").read_text() == "mine"
    assert not (tmp_path / "a.secret").is_symlink()


def test_erasing_overwrites_what_other_names_show_and_leaves_what_is_no_file(tmp_path: Path) -> None:
    path, witness = tmp_path / "a.secret", tmp_path / "witness"
    write_secret(path, "abc\n")
    os.link(path, witness)
    erase_secret(path)
    assert not path.exists()
    assert witness.read_bytes() == bytes(4)
    (tmp_path / "victim").write_text("mine")
    path.symlink_to(tmp_path / "victim")
    erase_secret(path)
    assert not path.is_symlink()
    assert (tmp_path / "victim").read_text() == "mine"
    (tmp_path / "folder").mkdir()
    erase_secret(tmp_path / "folder")
    erase_secret(tmp_path / "no")
    assert (tmp_path / "folder").is_dir()
