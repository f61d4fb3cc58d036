"""The generator of secret noise: ChaCha20 under a key of 256 bits, behind numpy's interface."""

from __future__ import annotations

import functools
import secrets
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence
from numpy.typing import NDArray

from pate.validation import InvalidValue, require

_KEY_BYTES = 32
_BEYOND = 68  # 2**68 words of 32 bits: no stream comes so far, and the children's keys lie there
_KNOWN_KEY = bytes(31) + b"\x01"
_KNOWN_BLOCK = "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"  # its second, as in RFC 8439, A.1


def secret_generator() -> np.random.Generator:
    """A generator for secret noise: ChaCha20, with a key of 256 bits from the operating system.

    Formal guarantees:
        * Whoever tells its noise from ideal noise, or takes it off, has told ChaCha20 from uniform bits.
        * Its state is known to the ledger, so that the same noise is charged once and never used twice.

    Edge cases: a copy, a pickle and a forked process continue with the same numbers, as with every generator of numpy.

    Raises:
        InvalidValue: randomgen is not installed.

    Source: Bernstein 2008, RFC 8439; docs/proofs/noise_source.md.

    >>> secret_generator().bit_generator.state["bit_generator"]
    'randomgen.chacha.ChaCha'
    """
    return cipher_generator(secrets.token_bytes(_KEY_BYTES))


def cipher_generator(key: bytes) -> np.random.Generator:
    """The ChaCha20 stream of a key, from its beginning: the same key gives the same noise.

    Rule: 20 rounds, the key as it is, nonce and counter 0. Children that `spawn` gives have keys from blocks of the
    same cipher that the stream does not reach.

    Args:
        key: 32 bytes, secret, for one purpose alone.

    Raises:
        InvalidValue: another key, or randomgen is not installed.
    """
    whole = isinstance(key, bytes) and len(key) == _KEY_BYTES
    require(whole, "key", "(not shown)", f"{_KEY_BYTES} bytes")
    return np.random.Generator(_cipher()(_CipherKey(key)))


class _CipherKey(ISpawnableSeedSequence):
    """A key where numpy expects a sequence of seeds, which would mix it down to 128 bits."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._num_children = 0

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        """The key itself, for a generator that takes all of it."""
        size = np.dtype(dtype).itemsize * n_words
        require(size == _KEY_BYTES, "n_words", n_words, f"words of {_KEY_BYTES} bytes in all, a key of ChaCha20")
        return np.frombuffer(self._key, dtype=np.dtype(dtype).newbyteorder("<")).astype(dtype)

    def spawn(self, n_children: int) -> list[_CipherKey]:
        """Keys from blocks beyond the stream, each given once."""
        first = self._num_children
        self._num_children += n_children
        return [_CipherKey(self._beyond_stream(index)) for index in range(first, first + n_children)]

    def _beyond_stream(self, index: int) -> bytes:
        source = _cipher()(key=int.from_bytes(self._key, "little"), counter=(1 + index) << _BEYOND)
        return _block(source)[:_KEY_BYTES]


@functools.cache
def _cipher() -> Any:
    """The ChaCha of randomgen, once it has given a known block of ChaCha20."""
    try:
        from randomgen.chacha import ChaCha
    except ImportError as error:
        raise InvalidValue("rng=secret: expected randomgen to be installed: pip install randomgen") from error
    source = ChaCha(_CipherKey(_KNOWN_KEY))
    _block(source)
    known = _block(source).hex().startswith(_KNOWN_BLOCK)
    require(known, "rng", "randomgen's ChaCha", "the key stream of ChaCha20; install randomgen anew")
    return ChaCha


def _block(source: Any) -> bytes:
    """The next 64 bytes of a stream."""
    return bytes(source.random_raw(8).astype("<u8").tobytes())
