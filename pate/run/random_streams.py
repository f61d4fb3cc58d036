"""The random numbers of a run, computed from a seed or from a secret of the operating system.

Each purpose, such as the partition, the noise or the student, has a stream of random numbers of its own. So a change of
one part does not change the random numbers of another. docs/proofs/noise_source.md explains why the noise of a run
without a seed is stored nowhere.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pate.files.atomic import write_text
from pate.files.secret import read_secret
from pate.mechanisms import cipher_generator
from pate.validation import InvalidValue, require_count

# The position of a purpose is the key of its stream from a seed. So a new purpose is added at the end.
_PURPOSES = ("partition", "teachers", "noise", "student", "scores", "tuning")
# The purposes whose random numbers are noise that a price relies on.
_NOISE_PURPOSES = ("noise", "scores")
# The length of a secret: 256 bits, as a key of ChaCha20 has.
_NUM_SECRET_BYTES = 32
# The content of a secret's file.
_SECRET_TEXT = re.compile(rf"[0-9a-f]{{{2 * _NUM_SECRET_BYTES}}}\n")


@dataclass(frozen=True)
class RandomStreams:
    """Independent streams of random numbers, one stream for each purpose, all computed from one seed or one secret.

    The streams of a seed are numpy's PCG64 and give no privacy: whoever knows the seed, or enough numbers of a stream,
    can compute all streams. The streams of a secret are ChaCha20. Each has its own key, which HMAC-SHA256 computes from
    the secret and the name of the purpose. Numpy's `SeedSequence` would not protect a secret. It keeps only 128 bits,
    in words that can be inverted, and the seed of the published student is the first of these words.

    Attributes:
        entropy: the seed (a whole number) or the secret (32 bytes), from which every stream can be computed again.
        noise_is_fresh: whether the operating system draws the noise instead, with new numbers at each call.
    """

    entropy: int | bytes = field(repr=False)
    noise_is_fresh: bool = False

    @classmethod
    def from_secret(cls) -> RandomStreams:
        """Returns streams from 256 random bits of the operating system, which are stored nowhere."""
        return cls(entropy=secrets.token_bytes(nbytes=_NUM_SECRET_BYTES))

    @classmethod
    def of_run(cls, secret_file: Path, seed: int | None) -> RandomStreams:
        """Returns the streams of a run. A continued run has the same streams, except for noise without a seed.

        Args:
            secret_file: the file of the secret of a run without a seed: 256 bits, which only the owner can read. The
                file is made if it does not exist. The noise is not computed from this secret, since a release is read
                back and not drawn again.
            seed: the number that all streams are computed from; the noise gives no privacy against people who know it.
                None takes the secret of the file.

        Raises:
            InvalidValue: another user can read the secret's file, or the file holds something else.
        """
        if seed is not None:
            valid_seed = require_count("seed", seed, minimum=0)
            return cls(entropy=valid_seed)
        if not os.path.lexists(secret_file):
            write_text(secret_file, text=f"{secrets.token_hex(nbytes=_NUM_SECRET_BYTES)}\n")
        remedy = "put it back as it was, or begin in a new output_dir"
        secret_text = read_secret(secret_file, remedy=remedy)
        if not _SECRET_TEXT.fullmatch(secret_text):
            rule = f"{2 * _NUM_SECRET_BYTES} digits 0-9 and a-f and a line break; {remedy}"
            raise InvalidValue("secret", secret_file, rule=rule)
        return cls(
            entropy=bytes.fromhex(secret_text.strip()),
            noise_is_fresh=True,  # drawn by the operating system, and not computed from the secret
        )

    def generator(self, purpose: str) -> np.random.Generator:
        """Returns a new generator at the beginning of the stream for a purpose; of new numbers for noise that is fresh.

        Args:
            purpose: "partition", "teachers", "noise" (of the release), "student", "scores" (their noise), or "tuning"
                (the secret choices of a tuned release).
        """
        if self.noise_is_fresh and purpose in _NOISE_PURPOSES:
            return RandomStreams.from_secret().generator(purpose)
        if isinstance(self.entropy, bytes):
            message = f"pate {purpose}".encode()
            return cipher_generator(key=hmac.digest(self.entropy, message, digest="sha256"))
        run_seed = self.entropy
        return np.random.default_rng(self._sequence(purpose, seed=run_seed))

    def seeds(self, purpose: str, num_seeds: int) -> list[int]:
        """Returns `num_seeds` seeds of 32 bits from the stream of a purpose.

        The first seeds do not depend on `num_seeds`.
        """
        if isinstance(self.entropy, bytes):
            seed_words = self.generator(purpose).integers(2**32, size=num_seeds, dtype=np.uint32)
            return [int(seed_word) for seed_word in seed_words]
        run_seed = self.entropy
        seed_sequence = self._sequence(purpose, seed=run_seed)
        return [
            int(seed_word) for seed_word in seed_sequence.generate_state(num_seeds, dtype=np.uint32)
        ]

    def seed(self, purpose: str) -> int:
        """Returns the first seed of 32 bits from the stream of a purpose."""
        return self.seeds(purpose, num_seeds=1)[0]

    @staticmethod
    def _sequence(purpose: str, seed: int) -> np.random.SeedSequence:
        """Returns numpy's `SeedSequence` from which a seed's stream for a purpose is computed.

        The streams of a secret are not computed from it.

        Args:
            purpose: the name of the stream, such as "partition".
            seed: the seed of the run.
        """
        return np.random.SeedSequence(seed, spawn_key=(_PURPOSES.index(purpose),))


def readable_seed_name(seed: int | None) -> str:
    """Returns the name of a seed, by which a ledger recognizes releases with the same seed; "" if `seed` is None."""
    return "" if seed is None else f"seed {seed}"
