"""The generator of secret noise: ChaCha20 under a key of 256 bits, behind numpy's interface."""

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

_KEY_BYTES = 32
_BEYOND = 68  # 2**68 words of 32 bits: no stream comes so far, and the children's keys lie there
_KNOWN_KEY = bytes(31) + b"\x01"
# its second, as in RFC 8439, A.1
_KNOWN_BLOCK = "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"


def secret_generator() -> np.random.Generator:
    """A generator for secret noise: ChaCha20, with a key of 256 bits from the operating system.

    Formal guarantees:
        * Whoever tells its noise from ideal noise, or takes it off, has told ChaCha20 from uniform bits.
        * Its state is known to the ledger, so that the same noise is charged once and never used twice.
        * It exists once: copies and pickles are refused, its state cannot be set back, a forked process has it under a
          new key from the operating system, and threads take turns.

    Edge cases: `copy.copy` of the generator, which numpy before 2.0 refuses, and every `Generator(rng.bit_generator)`
    go on with its one stream: what one of them has drawn no other draws again. `InvalidValue` where randomgen is not
    installed.
    Source: Bernstein 2008, RFC 8439; docs/proofs/noise_source.md.

    >>> secret_generator().bit_generator.state["bit_generator"]
    'randomgen.chacha.ChaCha'
    """
    return cipher_generator(secrets.token_bytes(_KEY_BYTES))


def cipher_generator(key: bytes) -> np.random.Generator:
    """The ChaCha20 stream of a key of 32 bytes, for one purpose alone, from its beginning.

    Rule: 20 rounds, the key as it is, nonce and counter 0. Children that `spawn` gives have keys from blocks of the
    same cipher that the stream does not reach. It exists once, as `secret_generator` says, and refuses as it does.
    """
    whole = isinstance(key, bytes) and len(key) == _KEY_BYTES
    require(whole, "key", "(not shown)", f"{_KEY_BYTES} bytes")
    return np.random.Generator(_held(_cipher())(_CipherKey(key)))


class _Held:  # what would be drawn from twice, were there two of it
    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self.__reduce__()

    def __reduce__(self) -> NoReturn:  # which a generator of numpy 1.26 asks for its bits
        rule = "one that is neither copied nor sent elsewhere, as a copy would draw the same noise again"
        raise InvalidValue("rng", "secret_generator()", rule=f"{rule}; make one in each process")


class _CipherKey(_Held, ISpawnableSeedSequence):
    """A key where numpy expects a sequence of seeds, which would mix it down to 128 bits."""

    def __init__(self, key: bytes) -> None:
        self.renew(key)

    def renew(self, key: bytes) -> None:
        # from which threads take different numbers
        self._key = key
        self._children = itertools.count()

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[Any]:
        """The key itself, for a generator that takes all of it."""
        size = np.dtype(dtype).itemsize * n_words
        require(
            size == _KEY_BYTES,
            "n_words",
            n_words,
            f"words of {_KEY_BYTES} bytes in all, a key of ChaCha20",
        )
        return np.frombuffer(self._key, dtype=np.dtype(dtype).newbyteorder("<")).astype(dtype)

    def spawn(self, n_children: int) -> list[Self]:
        """Keys from blocks beyond the stream, each given once."""
        key = int.from_bytes(self._key, "little")
        numbers = [next(self._children) for _ in range(n_children)]
        blocks = [_block(_cipher()(key=key, counter=(1 + number) << _BEYOND)) for number in numbers]
        return [type(self)(block[:_KEY_BYTES]) for block in blocks]


_ALIVE: weakref.WeakSet[Any] = weakref.WeakSet()


class HeldStream(_Held):
    """What a ChaCha must be besides, to draw no number twice; numpy's lock makes threads take turns."""

    lock: Any
    seed: Any
    seed_seq: Any

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)  # the cipher's, see `_held`
        _ALIVE.add(self)

    @property
    def state(self) -> Any:
        """Under the cipher's own name, by which ledgers have known it."""
        cipher = _cipher()
        return cipher.state.__get__(self) | {
            "bit_generator": f"{cipher.__module__}.{cipher.__name__}"
        }

    @state.setter
    def state(self, value: Any) -> None:
        """Raises `InvalidValue`: the state of a secret stream is neither shown nor set."""
        rule = "as it comes, as a stream that is set back draws the same noise again"
        raise InvalidValue("bit_generator.state", "(not shown)", rule=rule)

    def renew(self) -> None:
        """Takes a key of this process alone, from the beginning of its stream."""
        self.lock._at_fork_reinit()  # a thread of the parent may have held it
        key = secrets.token_bytes(_KEY_BYTES)
        self.seed(key=int.from_bytes(key, "little"))
        self.seed_seq.renew(key)


if hasattr(os, "register_at_fork"):  # not where there are no forks
    os.register_at_fork(after_in_child=lambda: [cipher.renew() for cipher in list(_ALIVE)])


@functools.cache
def _held(cipher: Any) -> Any:
    return type("HeldCipher", (HeldStream, cipher), {})


@functools.cache
def _cipher() -> Any:
    """The ChaCha of randomgen, once it has given a known block of ChaCha20."""
    try:
        from randomgen.chacha import ChaCha
    except ImportError as error:
        raise InvalidValue(
            "rng", "secret", rule="randomgen to be installed: pip install randomgen"
        ) from error
    source = ChaCha(_CipherKey(_KNOWN_KEY))
    _block(source)
    known = _block(source).hex().startswith(_KNOWN_BLOCK)
    require(
        known, "rng", "randomgen's ChaCha", "the key stream of ChaCha20; install randomgen anew"
    )
    return ChaCha


def _block(source: Any) -> bytes:
    return bytes(source.random_raw(8).astype("<u8").tobytes())
