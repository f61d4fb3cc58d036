"""The manifest of a folder: the SHA-256 of each of its files, written last."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pate.files.disk import file_digest, read_value, write_text
from pate.files.strict_json import to_json

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """The SHA-256 of files, by their paths below the folder that the manifest lies in."""

    manifest: int  # the version of the file format
    sha256: Mapping[str, str]  # in hexadecimal

    @classmethod
    def from_files(cls, folder: Path | str, names: Iterable[str], *, remedy: str) -> Self:
        """Returns the manifest of a folder from the digests of these files; raises `DamagedFile` where one is gone."""
        return cls(
            1, {name: file_digest(Path(folder, name), remedy=remedy) for name in sorted(names)}
        )

    def write(self, folder: Path | str) -> None:
        """Writes the manifest into its folder, as the last of its files."""
        write_text(Path(folder, MANIFEST), to_json(self) + "\n")

    @classmethod
    def read(cls, folder: Path | str, *, rule: str, remedy: str) -> Self:
        """Reads the manifest of a folder; raises `DamagedFile` with the rule and the remedy that are given."""
        return read_value(cls, Path(folder, MANIFEST), name="manifest", rule=rule, remedy=remedy)
