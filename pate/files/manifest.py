"""Digests of files in a folder, by which is seen that they are what was written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pate.files.atomic import write_text
from pate.files.reading import DamagedFile, damaged, read_text, require_file
from pate.files.strict_json import from_json, to_json

MANIFEST = "manifest.json"
"""Its name in its folder."""


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
