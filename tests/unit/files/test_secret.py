"""A secret is read only from a file that no other user can read."""

import os
from pathlib import Path

import pytest

from pate.files.atomic import write_text
from pate.files.secret import read_secret
from pate.validation import InvalidValue

REMEDY = "do this"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o700, 0o4600], ids=oct)
def test_a_secret_of_another_mode_is_refused(mode: int, tmp_path: Path) -> None:
    """A file whose mode is not 0600 is refused as a secret, and the error shows its mode."""
    path = tmp_path / "a.secret"
    write_text(path, text="abc\n")
    path.chmod(mode)
    with pytest.raises(
        InvalidValue,
        match=rf"^secret=.*a\.secret: expected .* mode 0600, .*, found mode 10{mode:04o}",
    ):
        read_secret(path, remedy=REMEDY)


def test_a_secret_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of mode 0600 that belongs to another user is refused as a secret, and the error shows both users."""
    path = tmp_path / "a.secret"
    owner = os.geteuid()
    write_text(path, text="abc\n")
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(
        InvalidValue,
        match=rf"of user {owner + 1}, who runs this.*, found .* of user {owner}; do this",
    ):
        read_secret(path, remedy=REMEDY)


@pytest.mark.parametrize("name", ["link", "folder", "pipe", "missing"])
def test_what_is_no_regular_file_is_refused_as_a_secret(name: str, tmp_path: Path) -> None:
    """A link, folder, pipe or missing file is refused at once, and no reader waits for the pipe."""
    (tmp_path / "target").write_text("mine")
    (tmp_path / "target").chmod(0o600)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe", mode=0o600)
    with pytest.raises(InvalidValue, match=rf"^secret=.*{name}: expected a file .*; do this"):
        read_secret(tmp_path / name, remedy=REMEDY)
