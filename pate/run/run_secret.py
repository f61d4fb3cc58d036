"""A secret of a run: 256 bits, drawn once, found again when the run is continued, and erased where it can be."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from pate.files.atomic import erase_secret, read_secret, write_secret
from pate.run.secret_folder import new_secret_folder, secret_folder_of
from pate.validation import InvalidValue

_BYTES = 32
_FORM = re.compile(r"[0-9a-f]{64}\n")


@dataclass(frozen=True)
class RunSecret:
    """256 bits in a file of the run's folder, or in memory, where that file says.

    Attributes:
        path: the file, which holds either the secret, or the path of a file that does.
        remedy: what to do where the secret is gone or damaged.
        erasable: whether it is kept in memory, where the machine has a file system there: erased there, it is gone.
    """

    path: Path
    remedy: str
    erasable: bool = False

    def value(self) -> bytes:
        """The secret; drawn from the operating system, and on disk or in memory, before the first call returns.

        Raises:
            InvalidValue: it is gone, damaged, or was open to others.
        """
        if not os.path.lexists(self.path):
            self._draw()
        text = read_secret(self.path, remedy=self.remedy)
        place = secret_folder_of(text)
        if place is not None:
            if not os.path.lexists(place):
                rule = (
                    f"expected what {self.path} names, but a restart, a log-out or another machine has an empty memory"
                )
                raise InvalidValue(f"secret={place}: {rule}; {self.remedy}")
            text = read_secret(place, remedy=self.remedy)
        if not _FORM.fullmatch(text):
            rule = f"expected {2 * _BYTES} digits 0-9 and a-f and a line break"
            raise InvalidValue(f"secret={place or self.path}: {rule}; {self.remedy}")
        return bytes.fromhex(text.strip())

    def forget(self) -> None:
        """Erases it, wherever it is, also where `value` would refuse it."""
        if self.path.is_file() and not self.path.is_symlink():
            place = secret_folder_of(os.fsdecode(self.path.read_bytes()))
            if place is not None:
                _erase_with_folder(place)
        erase_secret(self.path)

    def _draw(self) -> None:
        """The file in memory first: one that nothing names is never used."""
        text = f"{secrets.token_hex(_BYTES)}\n"
        folder = new_secret_folder() if self.erasable else None
        if folder is None:
            write_secret(self.path, text)
            return
        place = folder / self.path.name
        try:
            write_secret(place, text)
            write_secret(self.path, f"{place}\n")
        except OSError:
            _erase_with_folder(place)
            raise


def _erase_with_folder(place: Path) -> None:
    erase_secret(place)
    with contextlib.suppress(OSError):
        place.parent.rmdir()
