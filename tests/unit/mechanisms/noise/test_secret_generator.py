"""The generator of secret noise: it is ChaCha20 with its whole key, and children and copies never repeat its stream."""

import copy
import functools
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed
from numpy.typing import NDArray

from pate.mechanisms import cipher_generator, secret_generator
from pate.mechanisms.noise import secret_generator as module
from tests.refusals import refused_parameter

UInt32Array = NDArray[np.uint32]
KEY = bytes(range(32))
RFC_8439 = [  # appendix A.1, the vectors whose nonce is 0: key, block, key stream
    (bytes(32), 0, "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"),
    (bytes(32), 1, "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"),
    (bytes(31) + b"\1", 1, "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"),
    (b"\0\xff" + bytes(30), 2, "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"),
]


def stream_bytes(generator: np.random.Generator, num_bytes: int) -> bytes:
    """Returns the next `num_bytes` bytes of a generator's stream."""
    return generator.bit_generator.random_raw(num_bytes // 8).astype("<u8").tobytes()


def chacha20_block(key: bytes, counter: int) -> bytes:
    """Returns one block of ChaCha20 as in section 2.3 of RFC 8439, but with a counter of 128 bits and no nonce."""
    constants = np.frombuffer(b"expand 32-byte k", dtype="<u4")
    key_words = np.frombuffer(key, dtype="<u4")
    counter_words = np.frombuffer(counter.to_bytes(16, "little"), dtype="<u4")
    start = np.concatenate([constants, key_words, counter_words]).astype(np.uint32)
    state = start.reshape(4, 4)
    for _ in range(10):
        state = quarter_rounds_of_columns(state)
        # A diagonal is a column after row i is turned to the left by i words.
        diagonals = np.stack([np.roll(state[row], -row) for row in range(4)])
        diagonals = quarter_rounds_of_columns(diagonals)
        state = np.stack([np.roll(diagonals[row], row) for row in range(4)])
    return (state.ravel() + start).astype("<u4").tobytes()


def quarter_rounds_of_columns(state: UInt32Array) -> UInt32Array:
    """Returns a state, uint32 `[4, 4]`, after a quarter round (section 2.1 of RFC 8439) of each column."""
    a, b, c, d = state  # the names of the standard
    a = a + b
    d = rotate_left(d ^ a, num_bits=16)
    c = c + d
    b = rotate_left(b ^ c, num_bits=12)
    a = a + b
    d = rotate_left(d ^ a, num_bits=8)
    c = c + d
    b = rotate_left(b ^ c, num_bits=7)
    return np.stack([a, b, c, d])


def rotate_left(words: UInt32Array, num_bits: int) -> UInt32Array:
    """Returns words of 32 bits, each rotated to the left."""
    return (words << np.uint32(num_bits)) | (words >> np.uint32(32 - num_bits))


@pytest.mark.parametrize(("key", "block", "expected"), RFC_8439)
def test_the_stream_is_that_of_the_standard(key: bytes, block: int, expected: str) -> None:
    """From a key, the stream's block of a given number begins with the 32 bytes that RFC 8439 lists for ChaCha20.

    The block of the function `chacha20_block` in this file begins with the same bytes.
    """
    stream = stream_bytes(generator=cipher_generator(key), num_bytes=64 * 3)
    assert stream[64 * block :].hex().startswith(expected)
    assert chacha20_block(key=key, counter=block).hex().startswith(expected)


@pytest.mark.parametrize("simd", [True, False])
def test_every_byte_of_the_key_counts_and_blocks_follow_each_other(simd: bool) -> None:
    """The first 40 blocks of a stream are those of ChaCha20 with the counters 0 to 39.

    That holds with and without vector instructions (`simd`). A key and 32 keys that differ from it in one byte each
    give different streams.
    """
    rng = cipher_generator(KEY)
    if rng.bit_generator.use_simd or not simd:
        rng.bit_generator.use_simd = simd
    assert stream_bytes(generator=rng, num_bytes=64 * 40) == b"".join(
        chacha20_block(key=KEY, counter=block) for block in range(40)
    )
    keys_one_byte_apart = [KEY] + [KEY[:index] + b"\x80" + KEY[index + 1 :] for index in range(32)]
    streams = {
        stream_bytes(generator=cipher_generator(key), num_bytes=64) for key in keys_one_byte_apart
    }
    assert len(streams) == 33


def test_a_secret_is_new_every_time_and_is_not_shown() -> None:
    """Two secret generators have different streams, and no repr of a generator shows its key."""
    first_stream = stream_bytes(generator=secret_generator(), num_bytes=64)
    second_stream = stream_bytes(generator=secret_generator(), num_bytes=64)
    assert first_stream != second_stream
    rng = cipher_generator(KEY)
    shown = f"{rng!r} {rng.bit_generator!r} {rng.bit_generator.seed_seq!r}"
    assert "\\x" not in shown and KEY.hex() not in shown


def test_children_have_keys_beyond_the_stream_each_given_once() -> None:
    """Children take their keys from blocks that the parent's stream never reaches, and from a new block each.

    Two children and then one child, which are spawned by two calls, equal three that are spawned by one call.
    """
    rng = cipher_generator(KEY)
    children = [*rng.spawn(2), *rng.spawn(1), *cipher_generator(KEY).spawn(3)]
    streams = [stream_bytes(generator=child, num_bytes=64) for child in children]
    assert streams[:3] == streams[3:]
    for index, child_stream in enumerate(streams[:3]):
        child_key = chacha20_block(key=KEY, counter=(1 + index) << 64)[:32]
        expected_child = cipher_generator(child_key)
        assert child_stream == stream_bytes(generator=expected_child, num_bytes=64)
    (grandchild,) = children[0].spawn(1)
    grandchild_stream = stream_bytes(generator=grandchild, num_bytes=64)
    parent_stream = stream_bytes(generator=rng, num_bytes=64)
    assert len({*streams, grandchild_stream, parent_stream}) == 5


# Functions that return an object with a generator's stream, by the name of the object.
OBJECT_OF = {
    "generator": lambda rng: rng,
    "bit generator": lambda rng: rng.bit_generator,
    "key": lambda rng: rng.bit_generator.seed_seq,
    "child": lambda rng: rng.spawn(1)[0],
    "container": lambda rng: {"noise": [rng]},
    "method": lambda rng: rng.normal,
}
# Functions that copy or pickle an object, by their name.
COPY_BY = {"copy.deepcopy": copy.deepcopy} | {
    f"pickle protocol {protocol}": functools.partial(pickle.dumps, protocol=protocol)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
}
# The deep copy of a method is left out: it stays a method of the same generator.
OBJECTS_AND_COPIES = [
    (object_name, copy_name)
    for copy_name, object_name in product(COPY_BY, OBJECT_OF)
    if (copy_name, object_name) != ("copy.deepcopy", "method")
]


def cipher_of_key() -> np.random.Generator:
    """Returns the generator whose key is `KEY`."""
    return cipher_generator(KEY)


BOTH_GENERATORS = [
    pytest.param(secret_generator, id="secret"),
    pytest.param(cipher_of_key, id="cipher"),
]


@pytest.mark.parametrize("make_generator", BOTH_GENERATORS)
@pytest.mark.parametrize(("object_name", "copy_name"), OBJECTS_AND_COPIES)
def test_an_object_with_a_stream_is_neither_copied_nor_pickled(
    object_name: str, copy_name: str, make_generator: Callable[[], np.random.Generator]
) -> None:
    """A generator, its key, a child, or an object that holds a generator refuses to be deep-copied or pickled.

    Two copies of a stream would draw the same noise.
    """
    object_with_stream = OBJECT_OF[object_name](make_generator())
    with refused_parameter("rng", value="secret_generator()", rule_words="neither copied nor sent"):
        COPY_BY[copy_name](object_with_stream)


def test_generators_of_one_bit_generator_share_its_stream() -> None:
    """A shallow copy and a second generator of one bit generator go on with its stream and never repeat it.

    The bit generator and its key refuse to be copied. The state of a bit generator cannot be set, and the error does
    not show this state.
    """
    rng = cipher_generator(KEY)
    shallow_copy = (
        copy.copy(rng)
        if np.lib.NumpyVersion(np.__version__) >= "2.0.0"
        else np.random.Generator(rng.bit_generator)
    )
    second_generator = np.random.Generator(rng.bit_generator)
    expected_stream = stream_bytes(generator=cipher_generator(KEY), num_bytes=64 * 3)
    stream = b"".join(
        stream_bytes(generator=generator, num_bytes=64)
        for generator in (rng, shallow_copy, second_generator)
    )
    assert stream == expected_stream
    for bit_generator_or_key in (rng.bit_generator, rng.bit_generator.seed_seq):
        with refused_parameter(
            "rng", value="secret_generator()", rule_words="neither copied nor sent"
        ):
            copy.copy(bit_generator_or_key)
        with refused_parameter(
            "rng", value="secret_generator()", rule_words="neither copied nor sent"
        ):
            # numpy 1.26 calls this method to copy a generator.
            bit_generator_or_key.__reduce__()
    with refused_parameter("bit_generator.state", value="(not shown)"):
        rng.bit_generator.state = rng.bit_generator.state


def _drawn_bytes(rng: np.random.Generator) -> tuple[bytes, ...]:
    """Returns four byte strings that are drawn from a generator and two of its children.

    They are nine normal numbers, 64 bytes of the generator's stream, and 64 bytes of each child.
    """
    return (
        rng.normal(size=9).tobytes(),
        stream_bytes(generator=rng, num_bytes=64),
        *(stream_bytes(generator=child, num_bytes=64) for child in rng.spawn(2)),
    )


def _in_a_fork(draw: Callable[[], tuple[bytes, ...]]) -> tuple[bytes, ...]:
    """Returns what `draw` returns in a forked process."""
    receiving_end, sending_end = multiprocessing.Pipe(duplex=False)
    child_pid = os.fork()
    if child_pid == 0:
        signal.alarm(60)
        sending_end.send(draw())
        os._exit(0)
    _, exit_status = os.waitpid(child_pid, 0)
    assert exit_status == 0
    drawn: tuple[bytes, ...] = receiving_end.recv()
    return drawn


@pytest.mark.process
@pytest.mark.parametrize("make_generator", BOTH_GENERATORS)
def test_forked_processes_draw_other_numbers_each(
    make_generator: Callable[[], np.random.Generator],
) -> None:
    """A generator draws different numbers in two forks, in a fork of a fork, and in the parent.

    A child of the generator draws other numbers, in a fork and in the parent. So do the children that are spawned
    in these processes.
    """
    rng = make_generator()
    rng.integers(2**32, size=3, dtype=np.uint32)
    (child,) = rng.spawn(1)
    all_drawn = [_in_a_fork(draw=lambda: _drawn_bytes(rng=rng)) for _ in range(2)]
    all_drawn += [
        _in_a_fork(draw=lambda: _in_a_fork(draw=lambda: _drawn_bytes(rng=rng))),
        _in_a_fork(draw=lambda: _drawn_bytes(rng=child)),
    ]
    all_drawn += [_drawn_bytes(rng=rng), _drawn_bytes(rng=child)]
    assert len({part for drawn in all_drawn for part in drawn}) == 4 * len(all_drawn)


@pytest.mark.process
def test_a_fork_during_a_draw_of_a_thread_can_draw() -> None:
    """A process that is forked while a thread holds the generator's lock can draw, and the parent's stream goes on."""
    rng = cipher_generator(KEY)
    first_bytes = stream_bytes(generator=rng, num_bytes=8)
    is_locked = threading.Event()
    has_forked = threading.Event()

    def hold_lock() -> None:
        with rng.bit_generator.lock:
            is_locked.set()
            has_forked.wait()

    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(hold_lock)
        is_locked.wait()
        try:
            assert len(_in_a_fork(draw=lambda: _drawn_bytes(rng=rng))) == 4
        finally:
            has_forked.set()
    stream = first_bytes + stream_bytes(generator=rng, num_bytes=64)
    assert stream == stream_bytes(generator=cipher_generator(KEY), num_bytes=72)


def _next_stream(_ignored: int) -> bytes:
    """Returns the next 64 bytes of the generator that this module holds; the argument is only for `Pool.map`."""
    return stream_bytes(generator=_SHARED, num_bytes=64)


_SHARED = secret_generator()


@pytest.mark.process
@pytest.mark.parametrize("start", multiprocessing.get_all_start_methods())
def test_workers_that_find_the_generator_in_a_module_draw_other_numbers(start: str) -> None:
    """The parent and the workers of two pools draw different numbers from one generator of this module.

    A pool has one worker, which draws twice. The processes are started by each method that the system has.
    """
    streams = [_next_stream(_ignored=0)]
    for _ in range(2):
        with multiprocessing.get_context(start).Pool(1) as pool:
            streams += pool.map(_next_stream, range(2))
    assert len(set(streams)) == 5


@pytest.mark.process
def test_workers_are_not_sent_a_generator() -> None:
    """A generator cannot be an argument of joblib's worker processes, as it cannot be pickled."""
    with pytest.raises(Exception, match=r"neither copied nor sent elsewhere|[Pp]ickl"):
        Parallel(2, backend="multiprocessing")(
            delayed(stream_bytes)(secret_generator(), 64) for _ in range(2)
        )


@pytest.mark.slow
def test_threads_take_turns() -> None:
    """Eight threads draw from one generator: together they draw its stream, each word once.

    No two threads get the same spawned child.
    """
    rng = cipher_generator(KEY)
    with ThreadPoolExecutor(max_workers=8) as pool:
        drawn = list(pool.map(lambda _: rng.integers(2**64, size=8, dtype=np.uint64), range(2000)))
        children = list(
            pool.map(lambda _: stream_bytes(generator=rng.spawn(1)[0], num_bytes=64), range(400))
        )
    words = np.frombuffer(stream_bytes(generator=cipher_generator(KEY), num_bytes=64 * 2000), "<u8")
    np.testing.assert_array_equal(np.sort(np.concatenate(drawn)), np.sort(words))
    assert len(set(children)) == 400


def test_a_key_of_another_form_is_refused_and_not_shown_or_cut() -> None:
    """A key that is not 32 bytes is refused, and the error does not show it.

    A bit generator that needs a shorter key is refused too, so that the key is never cut.
    """
    for key in (b"", KEY[:31], KEY + b"\0", "0" * 32, 0, np.frombuffer(KEY, np.uint8)):
        with refused_parameter("key", value="(not shown)", rule_words="32"):
            cipher_generator(key)
    with refused_parameter("n_words", value=2, rule_words="words of 32"):
        np.random.Philox(cipher_generator(KEY).bit_generator.seed_seq)


def test_another_cipher_by_the_same_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """`secret_generator` refuses randomgen's class if it computes ChaCha with 8 rounds instead of 20."""
    from randomgen import chacha

    class Weak(chacha.ChaCha):
        def __init__(self, cipher_key: Any = None) -> None:
            super().__init__(cipher_key, rounds=8)

    module._load_cipher_class.cache_clear()
    monkeypatch.setattr(chacha, "ChaCha", Weak)
    with refused_parameter("rng", value="randomgen's ChaCha"):
        secret_generator()
