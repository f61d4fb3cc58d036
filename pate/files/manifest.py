"""The manifest of a folder: a file with the SHA-256 digests of other files in it, which is written after them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pate.files.atomic import write_text
from pate.files.digests import file_digest
from pate.files.reading import read_value
from pate.files.strict_json import to_json

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """The SHA-256 digests of the files in a folder.

    Attributes:
        manifest: the version of the file format.
        sha256: the digest of each file in hexadecimal, by its path relative to the folder.
    """

    manifest: int
    sha256: Mapping[str, str]

    @classmethod
    def from_files(
        cls, folder: Path | str, file_names: Iterable[str], *, missing_file_remedy: str
    ) -> Self:
        """Computes the manifest of files in a folder; raises `DamagedFile` if a file is missing.

        Args:
            folder: the folder.
            file_names: the paths of the files, relative to the folder.
            missing_file_remedy: advice for the error about a missing file.
        """
        return cls(
            manifest=1,
            sha256={
                file_name: file_digest(Path(folder, file_name), remedy=missing_file_remedy)
                for file_name in sorted(file_names)
            },
        )

    def write(self, folder: Path | str) -> None:
        """Writes the manifest into its folder; the files that it lists must be there."""
        write_text(Path(folder, MANIFEST), text=to_json(self) + "\n")

    @classmethod
    def read(cls, folder: Path | str, *, rule: str, remedy: str) -> Self:
        """Reads the manifest of a folder; raises `DamagedFile` if it is missing or damaged.

        Args:
            folder: the folder.
            rule: what the error says was expected, such as "the digests of a finished run".
            remedy: the advice of the error, such as "restore it from a backup".
        """
        return read_value(cls, Path(folder, MANIFEST), name="manifest", rule=rule, remedy=remedy)
