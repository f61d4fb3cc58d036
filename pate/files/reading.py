"""Files that were written before, read back: what is damaged is one line that names the file and the remedy."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pate.files.atomic import is_regular, write_text
from pate.files.strict_json import from_json, to_json
from pate.validation import InvalidValue

FROM_BACKUP = "restore it from a backup"
"""The remedy for what cannot be made again."""


MANIFEST = "manifest.json"
"""Its name in its folder."""


class DamagedFile(InvalidValue):
    """A file that is not what was written: gone, torn, altered, of another form, or something else under its name."""


def damaged(path: Path, rule: str, found: str, remedy: str) -> DamagedFile:
    """The error for a file: it says what was expected and found, never what the file holds."""
    one_line = " ".join(found.split())
    return DamagedFile(f"file={path}: expected {rule} ({one_line}); {remedy}")


def require_file(path: Path, *, rule: str, remedy: str) -> None:
    """Raises `DamagedFile` where there is no file of that name, or a folder, a pipe or a loose link in its place."""
    if not is_regular(path):
        found = "it is a folder" if path.is_dir() else "it is no regular file" if path.exists() else "it is gone"
        if not os.path.lexists(path):
            remedy = remedy.removeprefix("remove it, and ")
        raise damaged(path, rule, found, remedy)


def read_bytes(path: Path, *, rule: str, remedy: str) -> bytes:
    """The bytes of a file.

    Raises:
        DamagedFile: there is none, or the disk cannot read it.
        PermissionError: this user may not.
    """
    require_file(path, rule=rule, remedy=remedy)
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error, rule=rule, remedy=remedy) from error


def read_text(path: Path, *, remedy: str, rule: str = "a text file in UTF-8") -> str:
    """A file as text.

    Raises:
        DamagedFile: as `read_bytes`, or it is not UTF-8.
    """
    try:
        return read_bytes(path, rule=rule, remedy=remedy).decode()
    except UnicodeDecodeError as error:
        raise damaged(path, rule, f"byte {error.start} is not UTF-8", remedy) from None


def read_json(path: Path, *, remedy: str, rule: str = "JSON") -> Any:
    """A file as the JSON value in it.

    Raises:
        DamagedFile: as `read_text`, or it is no JSON.
    """
    text = read_text(path, rule=rule, remedy=remedy)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise damaged(path, rule, f"{error.msg}, line {error.lineno}", remedy) from None
    except (ValueError, RecursionError) as error:  # digits without end, brackets without end
        raise damaged(path, rule, type(error).__name__, remedy) from None


def unreadable(path: Path, error: OSError, *, rule: str, remedy: str) -> OSError | DamagedFile:
    """What to raise for a file that could not be read: the error itself where that is not the file's fault."""
    if error.errno in (errno.EIO, errno.EINVAL, errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP):
        return damaged(path, rule, error.strerror or type(error).__name__, remedy)
    return error


@dataclass(frozen=True)
class Manifest:
    """SHA-256 of files, by their paths below the folder that the manifest lies in.

    Attributes:
        manifest: the version of the form.
        sha256: hexadecimal digests.
    """

    manifest: int
    sha256: Mapping[str, str]

    @classmethod
    def of(cls, folder: Path, names: Iterable[str], *, remedy: str) -> Self:
        """That of some files as they are now."""
        return cls(1, {name: file_digest(folder / name, remedy=remedy) for name in sorted(names)})

    def write(self, folder: Path) -> None:
        """Into its folder."""
        write_text(folder / MANIFEST, to_json(self) + "\n")

    @classmethod
    def read(cls, folder: Path, *, rule: str, remedy: str) -> Self:
        """That of a folder.

        Raises:
            DamagedFile: there is no manifest, or its JSON is damaged.
        """
        path = folder / MANIFEST
        try:
            return from_json(cls, read_text(path, rule=rule, remedy=remedy), name="manifest")
        except DamagedFile:
            raise
        except ValueError:
            raise damaged(path, rule, "other JSON", remedy) from None


def file_digest(path: Path, *, remedy: str, rule: str = "a file of this run") -> str:
    """SHA-256 of a file, in hexadecimal."""
    require_file(path, rule=rule, remedy=remedy)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
