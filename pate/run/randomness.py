"""Where a run's randomness comes from: a seed that anyone may repeat, or secrets from the operating system."""

from __future__ import annotations

import hmac
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pate.mechanisms import cipher_generator
from pate.run.run_secret import RunSecret
from pate.validation import require_count

_PURPOSES = ("partition", "teachers", "noise", "student")
_BYTES = 32


@dataclass(frozen=True)
class Streams:
    """Streams of random numbers for each purpose, all from one seed, or from secrets.

    A seed's streams are numpy's PCG64, which protect nobody: whoever knows the seed, or sees enough of the numbers, can
    compute all of them. A secret's are ChaCha20, each under a key of its own, which HMAC-SHA256 makes of the secret and
    the purpose's name. Numpy's mixing of seeds would not do there: it keeps 128 bits, in words each of which can be
    computed back, and from the first of them a student has its seed.

    Attributes:
        entropy: a seed, or a secret of 32 bytes; whoever knows it can draw every stream again, but that of the noise
            where it has a secret of its own.
        noise_entropy: of the noise, 32 bytes; None for the same.
    """

    entropy: int | bytes = field(repr=False)
    noise_entropy: bytes | None = field(default=None, repr=False)

    @classmethod
    def secret(cls) -> Streams:
        """From twice 256 bits that the operating system draws and nothing keeps."""
        return cls(secrets.token_bytes(_BYTES), secrets.token_bytes(_BYTES))

    def generator(self, purpose: str) -> np.random.Generator:
        """A fresh generator at the start of the purpose's stream."""
        entropy = self._entropy(purpose)
        if isinstance(entropy, bytes):
            return cipher_generator(hmac.digest(entropy, f"pate {purpose}".encode(), "sha256"))
        return np.random.default_rng(_sequence(entropy, purpose))

    def seeds(self, purpose: str, count: int) -> list[int]:
        """That many seeds of 32 bits; the first ones do not depend on the count."""
        entropy = self._entropy(purpose)
        if isinstance(entropy, bytes):
            return [int(seed) for seed in self.generator(purpose).integers(2**32, size=count, dtype=np.uint32)]
        return [int(seed) for seed in _sequence(entropy, purpose).generate_state(count, np.uint32)]

    def _entropy(self, purpose: str) -> int | bytes:
        own = self.noise_entropy if purpose == "noise" else None
        return self.entropy if own is None else own


@dataclass(frozen=True)
class Randomness:
    """Independent streams for each purpose of a run, the same whenever the run is continued.

    With a seed all streams derive from it, and the noise protects nobody who knows it. Without one, the operating
    system draws two secrets of 256 bits that only the owner can read. The one for training lies in the run's folder.
    The one for the noise lies in memory, if the machine has a file system there. `forget_noise` erases it once the
    release is complete.

    Attributes:
        folder: of the run, an existing folder.
        seed: a whole number >= 0, or None.
    """

    folder: Path
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None:
            require_count("seed", self.seed, minimum=0)

    def generator(self, purpose: str) -> np.random.Generator:
        """See `Streams.generator`."""
        return self._streams(purpose).generator(purpose)

    def seeds(self, purpose: str, count: int) -> list[int]:
        """See `Streams.seeds`."""
        return self._streams(purpose).seeds(purpose, count)

    @property
    def has_noise(self) -> bool:
        """Whether the noise can be drawn again: from the seed, or from a secret that is still there."""
        return self.seed is not None or os.path.lexists(self._secret("noise").path)

    def forget_noise(self) -> None:
        """Erases the secret that the noise came from; a seeded run has none."""
        self._secret("noise").forget()

    def _streams(self, purpose: str) -> Streams:
        return Streams(self.seed if self.seed is not None else self._secret(purpose).value())

    def _secret(self, purpose: str) -> RunSecret:
        if purpose != "noise":
            path = self.folder / "training.secret"
            return RunSecret(path, "put it back as it was, or begin in a new output_dir")
        path = self.folder / "noise.secret"
        remedy = f"put it back as it was, or remove {path} and run with redraw=true for new noise, at a second price"
        return RunSecret(path, remedy, erasable=True)


def _sequence(seed: int, purpose: str) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(_PURPOSES.index(purpose),))
