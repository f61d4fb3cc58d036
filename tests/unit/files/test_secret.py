"""A secret is read only from a file that no other user could read."""

import os
from pathlib import Path

import pytest

from pate.files.atomic import write_text
from pate.files.secret import read_secret
from pate.validation import InvalidValue

REMEDY = "do this"


def test_a_secret_that_another_user_could_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret with another mode, or of another user, is refused with the mode or user."""
    path = tmp_path / "a.secret"
    user = os.geteuid()
    write_text(path, text="abc\n")
    for bits in (0o644, 0o640, 0o604, 0o700, 0o4600):
        path.chmod(bits)
        with pytest.raises(
            InvalidValue,
            match=rf"^secret=.*a\.secret: expected .* mode 0600, .*, found mode 10{bits:04o}",
        ):
            read_secret(path, remedy=REMEDY)
    path.chmod(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(
        InvalidValue,
        match=rf"of user {user + 1}, who runs this.*, found .* of user {user}; do this",
    ):
        read_secret(path, remedy=REMEDY)


def test_a_pipe_or_folder_in_place_of_a_file_is_refused_at_once(tmp_path: Path) -> None:
    """A link, folder, pipe or missing file is refused as a secret."""
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "victim").chmod(0o600)
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "folder", "pipe", "no"):
        with pytest.raises(InvalidValue, match=rf"^secret=.*{name}: expected a file .*; do this"):
            read_secret(tmp_path / name, remedy=REMEDY)
