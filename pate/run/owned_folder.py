"""A base class for folders whose files are declared as attributes of a class.

Code that writes a file takes the path from the folder's attribute, so each file name stands in one place. The names of
half-written files derive from the declared names. So a later process can remove exactly these files after a kill.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pate.files.atomic import remove_partials

# The regular expression that a `*` in a pattern for names stands for: letters, digits and -_.@+, at least one.
_STAR = r"[-\w.@+]+"


class OwnFile:
    """A file of a folder, declared as an attribute of the folder's class.

    The attribute of an instance is the path of the file in that folder.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: OwnedFolder | None, owner: type[OwnedFolder]) -> Path:
        return Path(self.name) if folder is None else folder.path / self.name

    def remove_partials(self, folder: Path) -> None:
        """Removes the half-written copies of this file that a killed process has left in the folder `folder`."""
        remove_partials(folder, name_patterns=[re.escape(self.name)])


class OwnSubfolder(OwnFile):
    """A subfolder of a folder, declared as an attribute of the folder's class.

    Args:
        name: the name of the subfolder; empty for the folder itself.
        patterns: patterns for the names of the files in the subfolder whose half-written copies are removed; empty for
            none. A `*` stands for letters, digits and -_.@+. In the names of further subfolders, `*` stands for any
            name.
    """

    def __init__(self, name: str, *, patterns: Sequence[str] = ()) -> None:
        super().__init__(name)
        self.patterns = tuple(patterns)

    def remove_partials(self, folder: Path) -> None:
        """Removes the half-written files that a killed process has left in the subfolder of `folder`."""
        subfolder = folder / self.name
        for pattern in self.patterns:
            parent_pattern, _, name_pattern = pattern.rpartition("/")
            parent_folders = list(subfolder.glob(parent_pattern)) if parent_pattern else [subfolder]
            name_expression = re.escape(name_pattern).replace(re.escape("*"), _STAR)
            for parent_folder in parent_folders:
                remove_partials(parent_folder, name_patterns=[name_expression])


class OwnedFolder:
    """A folder whose files are declared as attributes; `remove_partials` leaves files that are not declared alone.

    >>> class NotesFolder(OwnedFolder):
    ...     report = OwnFile("report.json")
    ...     pages = OwnSubfolder("pages", patterns=("page-*.html",))
    >>> NotesFolder(Path("notes")).report.as_posix()
    'notes/report.json'

    Args:
        path: the folder; a `~` at its beginning is the user's home.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()

    def remove_partials(self) -> None:
        """Removes the half-written copies of the declared files that a killed process has left."""
        # `vars` of a class lacks the files that its base classes declare, so all classes are looked at.
        for folder_class in type(self).__mro__:
            for declared in vars(folder_class).values():
                if isinstance(declared, OwnFile):
                    declared.remove_partials(self.path)
