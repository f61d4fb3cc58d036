"""Signatures of checkpoints that hold a pickle: reading one runs code, so what this run did not write is not read."""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pate.files.atomic import sync_folder
from pate.teachers.teacher import PICKLE, State
from pate.validation import InvalidValue

_SIGNATURE = "signature"
_KEY = re.compile(rb"[0-9a-f]{64}\n")
_PRIVATE = 0o600


@dataclass(frozen=True)
class SigningKey:
    """HMAC-SHA256 with a key of 256 random bits in a file of a run's folder, mode 0600.

    Formal guarantees:
        * A state with a pickle passes `verified` only where the holder of the key signed it for the same teacher.
        * A key counts only as a plain file of 64 hexadecimal digits that belongs to this user and that nobody else may
          read or write: whoever else can write to the folder can exchange the file, but not own the new one.

    A whole folder, key included, that somebody else made and this user copied is not told apart from one's own.

    Attributes:
        path: of the key, made by the first `signed`; it is no part of what may be published.
    """

    path: Path

    def signed(self, teacher: int, state: State) -> State:
        """The state as it may go to the disk: with a signature, where there is a pickle in it."""
        if PICKLE not in state:
            return state
        return {**state, _SIGNATURE: np.frombuffer(_digest(self._read_or_make(), teacher, state), np.uint8)}

    def verified(self, teacher: int, state: State, where: Path) -> State:
        """The state without its signature.

        Raises:
            InvalidValue: there is a pickle in it that this key did not sign for this teacher, or no key.
        """
        if PICKLE not in state:
            return state
        found = state.pop(_SIGNATURE, np.zeros(0, np.uint8)).tobytes()
        if not (self.path.exists() and hmac.compare_digest(found, _digest(self._read(), teacher, state))):
            rule = f"a checkpoint that this run's key signed, found another in {where}: it may be code, and is not read"
            raise InvalidValue(f"teacher={teacher}: expected {rule}; delete {where.parent} to train again")
        return state

    def _read_or_make(self) -> bytes:
        """The key; whoever is first makes it, in one step, also where several processes are."""
        if not os.path.lexists(self.path):
            partial = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.partial")
            try:
                with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
                    file.write(secrets.token_hex(32).encode() + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                with suppress(FileExistsError):  # another process was first
                    os.link(partial, self.path)
            finally:
                partial.unlink(missing_ok=True)
            sync_folder(self.path.parent)
        return self._read()

    def _read(self) -> bytes:
        try:
            with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                status, text = os.fstat(file.fileno()), file.read(66)
        except OSError:
            good = False
        else:
            ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
            good = ours and _KEY.fullmatch(text) is not None
        if not good:
            rule = "this run's key: a file of your own, mode 0600, with 64 hexadecimal digits"
            remedy = f"delete it and {self.path.with_suffix('')} to train again"
            raise InvalidValue(f"{self.path}: expected {rule}; {remedy}")
        return bytes.fromhex(text.decode().strip())


def _digest(key: bytes, teacher: int, state: State) -> bytes:
    """What is signed: which teacher it is, and all that is unpickled."""
    return hmac.digest(key, f"pate teacher {teacher}\n".encode() + state[PICKLE].tobytes(), "sha256")
