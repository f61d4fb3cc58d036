"""Arrays that work leaves behind, so that it is not done twice: a killed run reads them back."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pate.files.arrays import ArrayForm, Arrays, read_arrays
from pate.files.atomic import make_folder, write_arrays
from pate.files.reading import FROM_BACKUP

_REMEDY = (
    f"{FROM_BACKUP}, or remove it as long as there is no release/release.npz: "
    "the same command then makes the same again, at no further price"
)


@dataclass(frozen=True)
class KeptArrays:
    """A folder of .npz files, each whole or not there. The owner of the data keeps it: files have mode 0600.

    Attributes:
        folder: an existing one, which is not made anew where it vanishes; None keeps nothing.
    """

    folder: Path | None = None

    def read(self, name: str, forms: Mapping[str, ArrayForm] | None = None) -> Arrays | None:
        """The arrays kept under a name, or None.

        Args:
            name: as in `write`.
            forms: what they have to be; None takes any numbers.

        Raises:
            DamagedFile: the file is not what was written.
        """
        path = self._path(name)
        if path is None or not os.path.lexists(path):
            return None
        return read_arrays(path, forms, remedy=_REMEDY)

    def write(self, name: str, **arrays: NDArray[Any]) -> None:
        """Keeps arrays under a name such as `summary` or `rounds/round-00000`."""
        if (path := self._path(name)) is not None:
            make_folder(path.parent, within=self.folder)
            write_arrays(path, **arrays)

    def once(
        self, name: str, make: Callable[[], NDArray[Any]], shape: tuple[int | None, ...] | None = None
    ) -> NDArray[Any]:
        """The one array of that name: read back, or else made and kept.

        Args:
            name: its last part is the array's own.
            make: makes it.
            shape: what it has to be when it is read back, see `ArrayForm`; None takes any.
        """
        key = name.rpartition("/")[2]
        if (kept := self.read(name, {key: ArrayForm("biuf", shape)})) is not None:
            return kept[key]
        made = make()
        self.write(name, **{key: made})
        return made

    def _path(self, name: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{name}.npz"


NOTHING_KEPT = KeptArrays()
"""For work that is done in memory."""
