"""The manifest of a folder: the SHA-256 of each of its files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pate.files.disk import file_digest, read_value, write_text
from pate.files.strict_json import to_json

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """SHA-256 of files, by their paths below the folder that the manifest lies in."""

    manifest: int  # the version of the form
    sha256: Mapping[str, str]  # in hexadecimal

    @classmethod
    def of(cls, folder: Path | str, names: Iterable[str], *, remedy: str) -> Self:
        """Makes the manifest of a folder from the digests of its files."""
        return cls(
            1, {name: file_digest(Path(folder, name), remedy=remedy) for name in sorted(names)}
        )

    def write(self, folder: Path | str) -> None:
        """Writes the manifest into its folder, as the last of its files."""
        write_text(Path(folder, MANIFEST), to_json(self) + "\n")

    @classmethod
    def read(cls, folder: Path | str, *, rule: str, remedy: str) -> Self:
        """That of a folder; raises `DamagedFile`."""
        return read_value(cls, Path(folder, MANIFEST), name="manifest", rule=rule, remedy=remedy)
