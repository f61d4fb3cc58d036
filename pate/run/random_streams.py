"""The random streams of a run, from a seed that anyone may repeat, or from secrets of the operating system.

Partition, teachers, noise and student have streams of their own, so that a change of one part leaves the others as they
are. docs/proofs/noise_source.md says why the noise of a run without a seed lies nowhere.
"""

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
    """Independent streams of random numbers, a stream for each purpose, all from one seed or from one secret.

    The streams of a seed are numpy's PCG64 and protect nobody: whoever has the seed, or enough numbers of a stream, can
    compute all of them. The streams of a secret are ChaCha20, each under a key that HMAC-SHA256 makes of the secret and
    the purpose's name. Numpy's `SeedSequence` would not do for a secret: it keeps 128 bits, in words that can be
    computed back, and the seed of the published student is the first of these words.

    Attributes:
        entropy: the seed, or the secret of 32 bytes; every stream can be drawn again from it.
        noise_is_fresh: whether the noise comes from the operating system instead, with new numbers at each call.
    """

    entropy: int | bytes = field(repr=False)
    noise_is_fresh: bool = False

    @classmethod
    def from_secret(cls) -> RandomStreams:
        """Returns streams from 256 bits that the operating system draws, and that are kept nowhere."""
        return cls(secrets.token_bytes(_BYTES))

    @classmethod
    def of_run(cls, secret_file: Path, seed: int | None) -> RandomStreams:
        """Returns a run's streams. A run that is continued has the same streams, except for noise without a seed.

        Args:
            secret_file: holds the secret of a run without a seed: 256 bits, which only the owner can read. The file is
                made where it is missing. The noise does not derive from it: a release is read back, not drawn again.
            seed: all streams derive from the seed, and the noise protects nobody who knows it; None draws a secret.

        Raises:
            InvalidValue: another user can read the file, or it holds something else.
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
        """Returns a generator at the start of a stream; `purpose` is partition, teachers, noise or student."""
        if self.noise_is_fresh and purpose == "noise":
            return RandomStreams.from_secret().generator(purpose)
        if isinstance(self.entropy, bytes):
            return cipher_generator(hmac.digest(self.entropy, f"pate {purpose}".encode(), "sha256"))
        return np.random.default_rng(self._sequence(purpose, self.entropy))

    def seeds(self, purpose: str, count: int) -> list[int]:
        """Returns `count` seeds of 32 bits from the purpose's stream; a larger count begins with the same seeds."""
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
