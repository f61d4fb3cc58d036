"""Where a secret lies that is to be erased for good: a folder of the user's in memory, where the machine has one."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from pate.validation import InvalidValue, require

SECRET_DIR = "PATE_SECRET_DIR"
"""Variable that names another folder; `output_dir` for the run's own, where a secret outlives a restart."""

_BESIDE = "output_dir"
_PREFIX = "pate-"
_FORM = re.compile(rf"(/[^\n]*/{_PREFIX}[^/\n]+/[a-z]+\.secret)\n")
_IN_MEMORY = ("tmpfs", "ramfs")
_MOUNTS = Path("/proc/self/mountinfo")


def new_secret_folder() -> Path | None:
    """A new folder of mode 0700 for one secret; None where it is to be kept beside the run.

    Raises:
        InvalidValue: the folder that was asked for cannot be used.
    """
    asked = os.environ.get(SECRET_DIR, "")
    if asked == _BESIDE:
        return None
    if asked:
        require("\n" not in asked, SECRET_DIR, repr(asked), "a path without line breaks")
        try:
            return _new_in(Path(asked).absolute())
        except OSError as error:
            rule = f"expected {_BESIDE}, or a folder that can be written to ({error.strerror})"
            raise InvalidValue(f"{SECRET_DIR}={asked}: {rule}") from error
    for name in (os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm"):
        if os.path.isabs(name) and "\n" not in name and _is_in_memory(name):
            try:
                return _new_in(Path(name))
            except OSError:  # full, or not ours to write to
                continue
    return None


def secret_folder_of(text: str) -> Path | None:
    """The file that a line names, if it has the form of one in such a folder."""
    found = _FORM.fullmatch(text)
    return Path(found[1]) if found else None


def _new_in(base: Path) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    folder.chmod(0o700)
    return folder


def _is_in_memory(folder: str) -> bool:
    """Whether Linux keeps it in memory; elsewhere nothing is known to be."""
    try:
        device = os.stat(folder).st_dev
        mounts = _MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    kinds = [line.partition(" - ")[2].split(" ")[0] for line in mounts if line.split(" ")[2:3] == [number]]
    return any(kind in _IN_MEMORY for kind in kinds)
