"""A folder whose files are declared as attributes of its class.

Code that writes a file asks the folder for its path, so each name stands in one place. A killed process leaves
half-written files under names that are derived from the declared ones: these can be removed, and nothing else is.
"""

from __future__ import annotations

import re
from pathlib import Path

from pate.files import disk


class OwnFile:
    """A declared file of a folder; read as an attribute of the folder, it is the file's path."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: OwnedFolder | None, owner: type[OwnedFolder]) -> Path:
        return Path(self.name) if folder is None else folder.path / self.name

    def remove_partials(self, folder: Path) -> None:
        """Removes what a killed process half-wrote of the file."""
        disk.remove_partials(folder, [re.escape(self.name)])


class OwnFiles(OwnFile):
    """A declared folder within a folder, with shell patterns for the names of all files in it."""

    def __init__(self, name: str, *patterns: str) -> None:
        super().__init__(name)
        self.patterns = patterns

    def remove_partials(self, folder: Path) -> None:
        """Removes what a killed process half-wrote of the folder's files."""
        for pattern in self.patterns:
            parent_pattern, _, name = pattern.rpartition("/")
            parents = [folder / self.name]
            if parent_pattern:
                parents = list((folder / self.name).glob(parent_pattern))
            expression = re.escape(name).replace(r"\*", r"[-\w.@+]+")
            for parent in parents:
                disk.remove_partials(parent, [expression])


class OwnedFolder:
    """A folder whose files are declared as attributes. Any other file in it is neither overwritten nor removed."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()

    def remove_partials(self) -> None:
        """Removes what a killed process half-wrote of the declared files."""
        for kind in type(self).__mro__:
            for declared in vars(kind).values():
                if isinstance(declared, OwnFile):
                    declared.remove_partials(self.path)
