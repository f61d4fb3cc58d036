"""A folder whose files are declared by name, so that nothing else in it is touched."""

from __future__ import annotations

import re
from pathlib import Path

from pate.files import disk


class OwnFile:
    """A file under a name that this program alone gives; as an attribute of a folder it is the path in it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: OwnedFolder | None, owner: type[OwnedFolder]) -> Path:
        return Path(self.name) if folder is None else folder.path / self.name

    def remove_partials(self, folder: Path) -> None:
        """Removes what a killed process half-wrote of it."""
        disk.remove_partials(folder, [re.escape(self.name)])


class OwnFiles(OwnFile):
    """A folder within a folder, with the names of all files that this program puts there, as a shell's patterns."""

    def __init__(self, name: str, *patterns: str) -> None:
        super().__init__(name)
        self.patterns = patterns

    def remove_partials(self, folder: Path) -> None:
        """Removes what a killed process half-wrote of its files."""
        for pattern in self.patterns:
            within, _, name = pattern.rpartition("/")
            places = (folder / self.name).glob(within) if within else [folder / self.name]
            expression = re.escape(name).replace(r"\*", r"[-\w.@+]+")
            for place in places:
                disk.remove_partials(place, [expression])


class OwnedFolder:
    """A folder whose files are declared as attributes: whoever writes one asks the folder for its path.

    Anything else in it is somebody else's, and is neither overwritten nor removed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()

    def remove_partials(self) -> None:
        """Removes what a killed process half-wrote of the declared files."""
        for kind in type(self).__mro__:
            for declared in vars(kind).values():
                if isinstance(declared, OwnFile):
                    declared.remove_partials(self.path)
