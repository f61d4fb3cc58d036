"""The random generator of secret noise: the stream cipher ChaCha20 with a key of 256 bits, as a numpy generator."""

import functools
import itertools
import os
import secrets
import weakref
from typing import Any, NoReturn, Self, SupportsIndex

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence
from numpy.typing import NDArray

from pate.validation import InvalidValue, require

# The number of bytes of a key of ChaCha20.
_KEY_BYTES = 32
# The keys of children come from blocks behind 2**68 words of 32 bits, which no stream reaches.
_LOG2_FIRST_CHILD_BLOCK = 68
# A key of RFC 8439, A.1, and the beginning of the second block of its stream.
_KNOWN_KEY = bytes(31) + b"\x01"
_KNOWN_BLOCK = "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"


def secret_generator() -> np.random.Generator:
    """Returns a new generator of secret noise: ChaCha20, with a key of 256 bits from the operating system.

    Formal guarantees:
        * An adversary who distinguishes the noise from ideal noise, or removes it, distinguishes ChaCha20 from uniform
          bits.
        * The ledger can identify the state of the generator, so that the same noise is charged once and is never used
          for a second release.
        * No second generator draws the same numbers. Copies and pickles raise `InvalidValue`, and so does setting
          `bit_generator.state`. In a forked process the generator gets a new key from the operating system. Threads
          take turns.

    Edge cases: `copy.copy` of the generator (which numpy before 2.0 refuses) and `Generator(rng.bit_generator)` share
    the stream of the generator, so they never draw the same numbers.

    Raises:
        InvalidValue: the package randomgen is not installed, or its cipher is not ChaCha20.

    Source: Bernstein 2008, RFC 8439; docs/proofs/noise_source.md.

    >>> secret_generator().bit_generator.state["bit_generator"]
    'randomgen.chacha.ChaCha'
    """
    return cipher_generator(secrets.token_bytes(_KEY_BYTES))


def cipher_generator(key: bytes) -> np.random.Generator:
    """Returns a generator whose random bits are the ChaCha20 key stream of a given key, from its start.

    A key must be used for one purpose only. The cipher has 20 rounds, nonce 0 and counter 0. Generators that `spawn`
    returns have keys from blocks of the same cipher that the stream never reaches. Copies are refused, as for
    `secret_generator`.

    Args:
        key: 32 secret bytes.

    Raises:
        InvalidValue: the key is not 32 bytes, or randomgen is not installed or its cipher is not ChaCha20.
    """
    is_key = isinstance(key, bytes) and len(key) == _KEY_BYTES
    require(is_key, name="key", value="(not shown)", rule=f"{_KEY_BYTES} bytes")
    return np.random.Generator(_make_held_cipher_class(_load_cipher_class())(_CipherKey(key)))


class _Held:
    """The base class of objects that refuse to be copied or pickled, because a copy would draw the same noise again."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self.__reduce__()

    def __reduce__(self) -> NoReturn:  # numpy 1.26 calls it on the bit generator of a generator
        rule = "one that is neither copied nor sent elsewhere, as a copy would draw the same noise again"
        raise InvalidValue("rng", "secret_generator()", rule=f"{rule}; make one in each process")


class _CipherKey(_Held, ISpawnableSeedSequence):
    """A key of ChaCha20 with the interface of `SeedSequence`; numpy's own class would reduce the key to 128 bits."""

    def __init__(self, cipher_key: bytes) -> None:
        self.renew(cipher_key)

    def renew(self, new_cipher_key: bytes) -> None:
        """Replaces the key, and counts spawned children from 0 again."""
        self._key = new_cipher_key
        self._children = itertools.count()  # threads take different numbers from it

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        """Returns the key as an array of `n_words` words of a data type.

        Raises `InvalidValue` unless these words have 32 bytes in total.
        """
        num_bytes = np.dtype(dtype).itemsize * n_words
        if num_bytes != _KEY_BYTES:
            raise InvalidValue(
                "n_words", n_words, rule=f"words of {_KEY_BYTES} bytes in all, a key of ChaCha20"
            )
        return np.frombuffer(self._key, dtype=np.dtype(dtype).newbyteorder("<")).astype(dtype)

    def spawn(self, n_children: int) -> list[Self]:
        """Returns `n_children` new keys, from blocks of the cipher that the stream never reaches; all keys differ."""
        key_number = int.from_bytes(self._key, "little")
        child_numbers = [next(self._children) for _ in range(n_children)]
        child_ciphers = [
            _load_cipher_class()(
                key=key_number, counter=(1 + child_number) << _LOG2_FIRST_CHILD_BLOCK
            )
            for child_number in child_numbers
        ]
        return [
            type(self)(cipher_key=_next_block(child_cipher)[:_KEY_BYTES])
            for child_cipher in child_ciphers
        ]


# All streams of this process, whose keys a fork replaces in the child.
_LIVE_STREAMS: weakref.WeakSet[Any] = weakref.WeakSet()


class HeldStream(_Held):
    """A mixin for randomgen's ChaCha class that holds a stream in one place, so that no noise is drawn twice.

    Copying, pickling and setting `state` raise `InvalidValue`. After a fork, the stream of the child process gets a new
    random key, and that of the parent keeps its key. Threads that draw from one stream take turns by numpy's lock.
    """

    lock: Any
    seed: Any
    seed_seq: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # the cipher's, see `_make_held_cipher_class`
        _LIVE_STREAMS.add(self)

    @property
    def state(self) -> Any:
        """The state of the cipher, by which ledgers identify the noise; it carries the name of randomgen's class."""
        cipher_class = _load_cipher_class()
        return cipher_class.state.__get__(self) | {
            "bit_generator": f"{cipher_class.__module__}.{cipher_class.__name__}"
        }

    @state.setter
    def state(self, value: Any) -> None:
        """Raises `InvalidValue`, because a stream that is set back would draw the same noise again."""
        rule = "a state that is only read, as a stream that is set back draws the same noise again"
        raise InvalidValue("bit_generator.state", "(not shown)", rule=rule)

    def renew(self) -> None:
        """Replaces the key by a new random key, so that a forked process does not draw the noise of its parent."""
        self.lock._at_fork_reinit()  # a thread of the parent may have held it
        new_cipher_key = secrets.token_bytes(_KEY_BYTES)
        self.seed(key=int.from_bytes(new_cipher_key, "little"))
        self.seed_seq.renew(new_cipher_key)


def _renew_live_streams() -> None:
    """Gives every live ChaCha20 stream (`HeldStream`) of a forked process a new random key."""
    for stream in list(_LIVE_STREAMS):
        stream.renew()


if hasattr(os, "register_at_fork"):  # some systems have no forks
    os.register_at_fork(after_in_child=_renew_live_streams)


@functools.cache
def _make_held_cipher_class(cipher_class: Any) -> Any:
    """Returns a subclass of randomgen's ChaCha class with the mixin `HeldStream`."""
    return type("HeldCipher", (HeldStream, cipher_class), {})


@functools.cache
def _load_cipher_class() -> Any:
    """Returns randomgen's class ChaCha, after a check that it computes a known block of ChaCha20.

    Raises `InvalidValue` if randomgen is not installed or computes another block.
    """
    try:
        from randomgen.chacha import ChaCha
    except ImportError as error:
        raise InvalidValue(
            "rng", "secret", rule="randomgen to be installed: pip install randomgen"
        ) from error
    test_cipher = ChaCha(_CipherKey(_KNOWN_KEY))
    _next_block(test_cipher)  # `_KNOWN_BLOCK` is the second block
    if not _next_block(test_cipher).hex().startswith(_KNOWN_BLOCK):
        rule = "the key stream of ChaCha20; install randomgen anew"
        raise InvalidValue("rng", "randomgen's ChaCha", rule=rule)
    return ChaCha


def _next_block(cipher_stream: Any) -> bytes:
    """Returns the next 64 bytes of a cipher's stream."""
    return bytes(cipher_stream.random_raw(8).astype("<u8").tobytes())
