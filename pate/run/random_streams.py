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
class RandomStreams:
    """Independent streams of random numbers, one for each purpose, all from one seed or from one secret.

    A seed's streams are numpy's PCG64, which protect nobody: with the seed, or enough numbers, all can be computed. A
    secret's are ChaCha20, each under a key that HMAC-SHA256 makes of the secret and the purpose's name. Numpy's mixing
    of seeds keeps 128 bits, in words that can be computed back, and from the first of them a student has its seed.
    """

    # a seed, or a secret of 32 bytes: it draws every stream again
    entropy: int | bytes = field(repr=False)
    # whether the noise comes from the operating system instead, other numbers each time that it is asked for
    noise_is_fresh: bool = False

    @classmethod
    def from_secret(cls) -> RandomStreams:
        """Returns streams from 256 bits that the operating system draws and nothing keeps."""
        return cls(secrets.token_bytes(_BYTES))

    @classmethod
    def of_run(cls, secret_file: Path, seed: int | None) -> RandomStreams:
        """Returns a run's streams; but for the noise they are the same whenever it is continued.

        With a seed all streams derive from it, and the noise protects nobody who knows it. Without one, the noise is
        fresh and lies nowhere: what was released is read back, never drawn again. All else derives from 256 bits in
        `secret_file`, which is made if it is missing, and which only its owner can read. Raises `InvalidValue` for a
        file that others can read, or that holds something else.
        """
        if seed is not None:
            return cls(require_count("seed", seed, minimum=0))
        if not os.path.lexists(secret_file):
            write_text(secret_file, f"{secrets.token_hex(_BYTES)}\n")
        remedy = "put it back as it was, or begin in a new output_dir"
        text = read_secret(secret_file, remedy=remedy)
        if not _FORM.fullmatch(text):
            rule = f"{2 * _BYTES} digits 0-9 and a-f and a line break"
            raise InvalidValue("secret", secret_file, rule=f"{rule}; {remedy}")
        return cls(bytes.fromhex(text.strip()), noise_is_fresh=True)

    def generator(self, purpose: str) -> np.random.Generator:
        """Returns a generator at the start of the purpose's stream."""
        if self.noise_is_fresh and purpose == "noise":
            return RandomStreams.from_secret().generator(purpose)
        if isinstance(self.entropy, bytes):
            return cipher_generator(hmac.digest(self.entropy, f"pate {purpose}".encode(), "sha256"))
        return np.random.default_rng(self._sequence(purpose, self.entropy))

    def seeds(self, purpose: str, count: int) -> list[int]:
        """Returns so many seeds of 32 bits; the first ones do not depend on the count."""
        if isinstance(self.entropy, bytes):
            words = self.generator(purpose).integers(2**32, size=count, dtype=np.uint32)
            return [int(word) for word in words]
        sequence = self._sequence(purpose, self.entropy)
        return [int(word) for word in sequence.generate_state(count, np.uint32)]

    def seed(self, purpose: str) -> int:
        """Returns the first of the purpose's seeds."""
        return self.seeds(purpose, 1)[0]

    @staticmethod
    def _sequence(purpose: str, seed: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(seed, spawn_key=(_PURPOSES.index(purpose),))


def seed_name(seed: int | None) -> str:
    """Returns the name of a seed in a ledger, where no two releases may have the same; empty without a seed."""
    return "" if seed is None else f"seed {seed}"
