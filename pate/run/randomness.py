"""Where a run's randomness comes from: a seed that anyone may repeat, or secrets from the operating system."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pate.files.disk import read_secret, write_text
from pate.mechanisms import cipher_generator
from pate.validation import InvalidValue, require_count

_PURPOSES = ("partition", "teachers", "noise", "student")
_BYTES = 32
_FORM = re.compile(rf"[0-9a-f]{{{2 * _BYTES}}}\n")


@dataclass(frozen=True)
class Streams:
    """Streams of random numbers for each purpose, all from one seed, or from secrets.

    A seed's streams are numpy's PCG64, which protect nobody: with the seed, or enough numbers, all can be computed. A
    secret's are ChaCha20, each under a key that HMAC-SHA256 makes of the secret and the purpose's name. Numpy's mixing
    of seeds keeps 128 bits, in words that can be computed back, and from the first of them a student has its seed.
    """

    # a seed, or a secret of 32 bytes: it draws every stream again
    entropy: int | bytes = field(repr=False)

    @classmethod
    def secret(cls) -> Streams:
        """From 256 bits that the operating system draws and nothing keeps."""
        return cls(secrets.token_bytes(_BYTES))

    def generator(self, purpose: str) -> np.random.Generator:
        """A fresh generator at the start of the purpose's stream."""
        entropy = self.entropy
        if isinstance(entropy, bytes):
            return cipher_generator(hmac.digest(entropy, f"pate {purpose}".encode(), "sha256"))
        return np.random.default_rng(
            np.random.SeedSequence(entropy, spawn_key=(_PURPOSES.index(purpose),))
        )

    def seeds(self, purpose: str, count: int) -> list[int]:
        """That many seeds of 32 bits; the first ones do not depend on the count."""
        if isinstance(self.entropy, bytes):
            return list(
                map(int, self.generator(purpose).integers(2**32, size=count, dtype=np.uint32))
            )
        sequence = np.random.SeedSequence(self.entropy, spawn_key=(_PURPOSES.index(purpose),))
        return list(map(int, sequence.generate_state(count, np.uint32)))


@dataclass(frozen=True)
class Randomness:
    """Independent streams (`Streams`) for each purpose of a run; but for the noise the same whenever it is continued.

    With a seed all streams derive from it, and the noise protects nobody who knows it. Without one, the noise comes
    from the operating system afresh each time and lies nowhere: what was released is read back, never drawn again. All
    else derives from 256 bits in the run's folder that only its owner can read.
    """

    folder: Path  # of the run, an existing folder
    seed: int | None = None  # a whole number >= 0, or None
    first: int = 0  # teacher of an ensemble that some of the teachers have the streams of

    def __post_init__(self) -> None:
        if self.seed is not None:
            require_count("seed", self.seed, minimum=0)

    def generator(self, purpose: str) -> np.random.Generator:
        return self._streams(purpose).generator(purpose)

    def seeds(self, purpose: str, count: int) -> list[int]:
        """See `Streams.seeds`; those of teachers begin with the first one's."""
        skipped = self.first if purpose == "teachers" else 0
        return self._streams(purpose).seeds(purpose, skipped + count)[skipped:]

    def _streams(self, purpose: str) -> Streams:
        if self.seed is not None:
            return Streams(self.seed)
        if purpose == "noise":
            return Streams.secret()
        path = self.folder / "training.secret"
        remedy = "put it back as it was, or begin in a new output_dir"
        if not os.path.lexists(path):
            write_text(path, f"{secrets.token_hex(_BYTES)}\n")
        text = read_secret(path, remedy=remedy)
        rule = f"{2 * _BYTES} digits 0-9 and a-f and a line break"
        if not _FORM.fullmatch(text):
            raise InvalidValue(f"secret={path}: expected {rule}; {remedy}")
        return Streams(bytes.fromhex(text.strip()))
