"""The generator of secret noise: really ChaCha20, all of the key, and children and copies that are sound."""

from __future__ import annotations

import builtins
import copy
import multiprocessing
import os
import pickle
import struct
from typing import Any

import numpy as np
import pytest

from pate.mechanisms import cipher_generator, secret_generator
from pate.mechanisms.noise import secret_generator as module
from pate.validation import InvalidValue

KEY = bytes(range(32))
RFC_8439 = [  # appendix A.1, the vectors whose nonce is 0: key, block, key stream
    (bytes(32), 0, "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"),
    (bytes(32), 1, "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"),
    (bytes(31) + b"\1", 1, "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"),
    (b"\0\xff" + bytes(30), 2, "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"),
]


def stream(generator: np.random.Generator, num_bytes: int) -> bytes:
    return generator.bit_generator.random_raw(num_bytes // 8).astype("<u8").tobytes()


def chacha20_block(key: bytes, counter: int) -> bytes:
    """One block as section 2.3 of RFC 8439 says, the counter over all four last words."""
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key)]
    start += [counter >> 32 * word & 0xFFFFFFFF for word in range(4)]
    x = list(start)

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for i, j, k, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            x[i] = (x[i] + x[j]) & 0xFFFFFFFF
            word = x[k] ^ x[i]
            x[k] = (word << turn | word >> 32 - turn) & 0xFFFFFFFF

    for _ in range(10):
        for column in range(4):
            quarter(column, column + 4, column + 8, column + 12)
        for column in range(4):
            quarter(column, (column + 1) % 4 + 4, (column + 2) % 4 + 8, (column + 3) % 4 + 12)
    return struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(x, start, strict=True)))


@pytest.mark.parametrize(("key", "block", "expected"), RFC_8439)
def test_the_stream_is_that_of_the_standard(key: bytes, block: int, expected: str) -> None:
    assert stream(cipher_generator(key), 64 * 3)[64 * block :].hex().startswith(expected)
    assert chacha20_block(key, block).hex().startswith(expected)


@pytest.mark.parametrize("simd", [True, False])
def test_every_byte_of_the_key_counts_and_blocks_follow_each_other(simd: bool) -> None:
    rng = cipher_generator(KEY)
    if rng.bit_generator.use_simd or not simd:
        rng.bit_generator.use_simd = simd
    assert stream(rng, 64 * 40) == b"".join(chacha20_block(KEY, block) for block in range(40))
    others = {stream(cipher_generator(KEY[:at] + b"\x80" + KEY[at + 1 :]), 64) for at in range(32)}
    assert len(others | {stream(cipher_generator(KEY), 64)}) == 33


@pytest.mark.parametrize("simd", [True, False])
@pytest.mark.parametrize("block", [2**32 - 2, 2**64 - 2])
def test_the_counter_carries(simd: bool, block: int) -> None:
    source = module._cipher()(key=int.from_bytes(KEY, "little"), counter=block << 4)
    if source.use_simd or not simd:
        source.use_simd = simd
    expected = b"".join(chacha20_block(KEY, number) for number in range(block, block + 4))
    assert source.random_raw(32).astype("<u8").tobytes() == expected


def test_words_of_32_bits_are_used_once() -> None:
    rng = cipher_generator(KEY)
    first = rng.integers(2**32, size=5, dtype=np.uint32).astype("<u4").tobytes()
    assert first + stream(rng, 64) == stream(cipher_generator(KEY), 128)[: 20 + 64]


def test_numpy_draws_from_the_stream() -> None:
    words = np.frombuffer(stream(cipher_generator(KEY), 64), "<u8")
    np.testing.assert_array_equal(cipher_generator(KEY).integers(2**64, size=8, dtype=np.uint64), words)
    np.testing.assert_array_equal(cipher_generator(KEY).random(8), (words >> np.uint64(11)) * 2.0**-53)
    for draw in ("standard_normal", "standard_exponential", "gumbel", "laplace"):
        rng, again = cipher_generator(KEY), cipher_generator(KEY)
        before = rng.bit_generator.state["state"]["ctr"][0]
        np.testing.assert_array_equal(getattr(rng, draw)(size=9), getattr(again, draw)(size=9))
        assert rng.bit_generator.state["state"]["ctr"][0] >= before + 18


def test_a_secret_is_new_every_time_and_is_not_shown() -> None:
    one, other = secret_generator(), secret_generator()
    assert stream(one, 64) != stream(other, 64)
    rng = cipher_generator(KEY)
    for text in (repr(rng), repr(rng.bit_generator), repr(rng.bit_generator.seed_seq)):
        assert "\\x" not in text
        assert KEY.hex() not in text


def test_children_have_keys_beyond_the_stream_each_given_once() -> None:
    rng = cipher_generator(KEY)
    children = [*rng.spawn(2), *rng.spawn(1), *cipher_generator(KEY).spawn(3)]
    streams = [stream(child, 64) for child in children]
    assert streams[:3] == streams[3:]
    for index, found in enumerate(streams[:3]):
        assert found == stream(cipher_generator(chacha20_block(KEY, 1 + index << 64)[:32]), 64)
    assert len({*streams, stream(children[0].spawn(1)[0], 64), stream(rng, 64)}) == 5


@pytest.mark.parametrize("again", [copy.deepcopy, lambda rng: pickle.loads(pickle.dumps(rng))])
def test_a_copy_continues_with_the_same_numbers_and_children(again: Any) -> None:
    rng = cipher_generator(KEY)
    rng.integers(2**32, size=3, dtype=np.uint32)
    rng.spawn(1)
    other = again(rng)
    assert type(other.bit_generator) is type(rng.bit_generator)
    assert stream(other.spawn(1)[0], 64) == stream(rng.spawn(1)[0], 64)
    assert stream(other, 640) == stream(rng, 640)
    source = cipher_generator(bytes(32))
    source.bit_generator.state = rng.bit_generator.state
    assert stream(source, 64) == stream(rng, 64)


@pytest.mark.process
def test_a_forked_process_continues_with_the_same_numbers() -> None:
    rng = secret_generator()
    receiving, sending = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        sending.send_bytes(stream(rng, 64))
        os._exit(0)
    os.waitpid(child, 0)
    assert receiving.recv_bytes() == stream(rng, 64)


@pytest.mark.parametrize("key", [b"", KEY[:31], KEY + b"\0", "0" * 32, 0, np.frombuffer(KEY, np.uint8)])
def test_a_key_of_another_form_is_refused_and_not_shown(key: Any) -> None:
    with pytest.raises(InvalidValue, match=r"^key=\(not shown\): expected 32 bytes$"):
        cipher_generator(key)


def test_a_key_is_for_generators_that_take_all_of_it() -> None:
    with pytest.raises(InvalidValue, match=r"^n_words=2: expected words of 32 bytes in all"):
        np.random.Philox(cipher_generator(KEY).bit_generator.seed_seq)


def test_without_randomgen_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    importing = builtins.__import__

    def missing(name: str, *arguments: Any, **others: Any) -> Any:
        if name.startswith("randomgen"):
            raise ModuleNotFoundError(name)
        return importing(name, *arguments, **others)

    module._cipher.cache_clear()
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InvalidValue, match=r"^rng=secret: expected randomgen to be installed: pip install randomgen$"):
        secret_generator()


def test_another_cipher_by_the_same_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from randomgen import chacha

    class Weak(chacha.ChaCha):
        def __init__(self, seed: Any = None) -> None:
            super().__init__(seed, rounds=8)

    module._cipher.cache_clear()
    monkeypatch.setattr(chacha, "ChaCha", Weak)
    with pytest.raises(InvalidValue, match=r"expected the key stream of ChaCha20"):
        secret_generator()
