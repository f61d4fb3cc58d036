"""Signatures of checkpoints: what this run did not write is not read. A pickle is code, and a teacher's vote counts."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from pate.files.atomic import read_secret, sync_folder, write_secret
from pate.teachers.teacher import State
from pate.validation import InvalidValue

_KEY = re.compile(r"[0-9a-f]{64}\n")


@dataclass(frozen=True)
class SigningKey:
    """HMAC-SHA256 with a key of 256 random bits in a file of a run's folder, mode 0600.

    Formal guarantees:
        * `has_signed` holds only for arrays that the holder of the key signed under the same name.
        * A key counts only if it is a plain file of 64 hexadecimal digits that belongs to this user and that nobody
          else may read or write. Others who can write to the folder can exchange the file, but cannot make this user
          its owner.

    A whole folder, key included, that somebody else made and this user copied is not told apart from one's own.

    Attributes:
        path: of the key, made by the first `sign`; it is no part of what may be published.
    """

    path: Path

    def sign(self, name: str, arrays: State) -> str:
        """The signature of arrays under a name, in hexadecimal.

        Raises:
            InvalidValue: a key that is not one.
        """
        if not os.path.lexists(self.path):
            self._make()
        return self._signature(name, arrays)

    def has_signed(self, name: str, arrays: State, signature: str | None) -> bool:
        """Whether this key gave that signature to these arrays under this name; False without a key.

        Raises:
            InvalidValue: a key that is not one.
        """
        if signature is None or not os.path.lexists(self.path):
            return False
        return hmac.compare_digest(signature.encode(), self._signature(name, arrays).encode())

    def _signature(self, name: str, arrays: State) -> str:
        signed = hmac.new(self._read(), repr(name).encode(), sha256)
        for key, array in sorted(arrays.items()):
            signed.update(repr((key, array.dtype.str, array.shape)).encode())
            signed.update(np.ascontiguousarray(array).data)
        return signed.hexdigest()

    def _make(self) -> None:
        """Makes the key; of several processes the first one does, in one step."""
        mine = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.partial")
        try:
            write_secret(mine, f"{secrets.token_hex(32)}\n")
            with suppress(FileExistsError):  # another process was first
                os.link(mine, self.path)
        finally:
            mine.unlink(missing_ok=True)
        sync_folder(self.path.parent)

    def _read(self) -> bytes:
        remedy = f"remove it and {self.path.with_suffix('')} to train again"
        text = read_secret(self.path, remedy=remedy)
        if _KEY.fullmatch(text) is None:
            raise InvalidValue(f"secret={self.path}: expected 64 hexadecimal digits; {remedy}")
        return bytes.fromhex(text.strip())
