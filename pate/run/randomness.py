"""Where a run's randomness comes from: a seed that anyone may repeat, or the operating system."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pate.files.atomic import sync_folder, write_text
from pate.validation import InvalidValue, require_count

_PURPOSES = ("partition", "teachers", "noise", "student")
_BITS = 256


@dataclass(frozen=True)
class Streams:
    """Streams of random numbers for each purpose, all from one number, or those of the noise from another.

    One number does for a seed, which protects nobody who knows it. It does not for a secret: numpy mixes it into four
    words of 32 bits, each for itself and so that every step can be undone, and from the first of them a student has its
    seed. Whoever reads that seed in the student would know a quarter of what the noise is made of.

    Attributes:
        entropy: whoever knows it can draw every stream again, but that of the noise where it has a number of its own.
        noise_entropy: of the noise; None for the same number.
    """

    entropy: int = field(repr=False)
    noise_entropy: int | None = field(default=None, repr=False)

    @classmethod
    def secret(cls) -> Streams:
        """From twice 256 bits that the operating system draws and nothing keeps."""
        return cls(secrets.randbits(_BITS), secrets.randbits(_BITS))

    def generator(self, purpose: str) -> np.random.Generator:
        """A fresh generator at the start of the purpose's stream."""
        return np.random.default_rng(self._sequence(purpose))

    def seeds(self, purpose: str, count: int) -> list[int]:
        """That many seeds of 32 bits; the first ones do not depend on the count."""
        return [int(seed) for seed in self._sequence(purpose).generate_state(count, np.uint32)]

    def _sequence(self, purpose: str) -> np.random.SeedSequence:
        own = purpose == "noise" and self.noise_entropy is not None
        entropy = self.noise_entropy if own else self.entropy
        return np.random.SeedSequence(entropy, spawn_key=(_PURPOSES.index(purpose),))


@dataclass(frozen=True)
class Randomness:
    """Independent streams for each purpose of a run, the same whenever the run is continued.

    With a seed all streams derive from it, and the noise protects nobody who knows it. Without one, two secrets of 256
    bits are drawn from the operating system and kept beside the run, readable by the owner only: one for training,
    and one for the noise, which is destroyed by `forget_noise` once the release is complete.

    Attributes:
        folder: where secrets are kept, an existing folder.
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
        return self.seed is not None or self._path("noise").exists()

    def forget_noise(self) -> None:
        """Destroys the secret that the noise came from; a seeded run has none."""
        path = self._path("noise")
        if path.exists():
            path.unlink()
            sync_folder(path.parent)

    def _streams(self, purpose: str) -> Streams:
        return Streams(self._entropy(purpose))

    def _entropy(self, purpose: str) -> int:
        if self.seed is not None:
            return self.seed
        path = self._path(purpose)
        if not path.exists():
            write_text(path, f"{secrets.randbits(_BITS):064x}\n", mode=0o600)
        try:
            return int(path.read_text(), 16)
        except ValueError as error:
            raise InvalidValue(f"secret={path}: expected {_BITS // 4} hexadecimal digits") from error

    def _path(self, purpose: str) -> Path:
        return self.folder / ("noise.secret" if purpose == "noise" else "training.secret")
