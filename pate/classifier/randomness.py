"""The classifier's `random_state` as streams of random numbers."""

from __future__ import annotations

import warnings
from typing import Any

from pate.run.randomness import Streams
from pate.validation import InvalidValue, require_count


class SeededNoise(UserWarning):
    """Noise came from a seed: it protects nobody who knows the seed."""


def streams_of(random_state: Any) -> Streams:
    """The streams of a seed, which are those of a run with it; without one, of a secret that nothing keeps.

    Raises:
        InvalidValue: neither None nor a whole number >= 0: a shared generator would hide where the noise came from.
    """
    if random_state is None:
        return Streams.secret()
    try:
        seed = require_count("random_state", random_state, minimum=0)
    except InvalidValue as error:
        raise InvalidValue(f"{error}, or None for noise from the operating system") from None
    warnings.warn(
        f"random_state={seed}: the noise comes from this seed and protects nobody who knows it",
        SeededNoise,
        stacklevel=3,
    )
    return Streams(seed)
