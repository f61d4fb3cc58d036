"""Arrays that work leaves behind, so that it is not done twice: a killed run reads them back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.files.atomic import write_arrays

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class KeptArrays:
    """A folder of .npz files, each whole or not there. The owner of the data keeps it.

    Attributes:
        folder: made with the first file; None keeps nothing.
    """

    folder: Path | None = None

    def read(self, name: str) -> Arrays | None:
        """The arrays kept under a name, or None."""
        path = self._path(name)
        if path is None or not path.exists():
            return None
        with np.load(path) as kept:
            return {key: kept[key] for key in kept}

    def write(self, name: str, **arrays: NDArray[Any]) -> None:
        """Keeps arrays under a name such as `summary` or `rounds/round-00000`."""
        if (path := self._path(name)) is not None:
            write_arrays(path, **arrays)

    def once(self, name: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """The one array of that name: read back, or else made and kept."""
        key = name.rpartition("/")[2]
        if (kept := self.read(name)) is not None:
            return kept[key]
        made = make()
        self.write(name, **{key: made})
        return made

    def _path(self, name: str) -> Path | None:
        return None if self.folder is None else self.folder / f"{name}.npz"


NOTHING_KEPT = KeptArrays()
"""For work that is done in memory."""
