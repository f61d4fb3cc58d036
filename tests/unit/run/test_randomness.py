"""Streams of random numbers: one for each purpose, the same from the same number, secret without one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pate.run.randomness import Randomness, Streams


def test_streams_of_a_seed_are_those_of_a_run_with_it(tmp_path: Path) -> None:
    run = Randomness(tmp_path, seed=5)
    assert Streams(5).seeds("teachers", 3) == run.seeds("teachers", 3)
    assert Streams(5).generator("noise").random() == run.generator("noise").random()
    assert list(tmp_path.iterdir()) == []


def test_purposes_have_streams_of_their_own() -> None:
    firsts = {Streams(5).seeds(purpose, 1)[0] for purpose in ("partition", "teachers", "noise", "student")}
    assert len(firsts) == 4


def test_more_seeds_begin_with_the_same_ones() -> None:
    assert Streams(5).seeds("teachers", 9)[:3] == Streams(5).seeds("teachers", 3)


def test_a_secret_is_new_every_time_and_not_shown() -> None:
    one, other = Streams.secret(), Streams.secret()
    assert one.entropy != other.entropy
    assert one.entropy.bit_length() > 200
    assert repr(one) == "Streams()"


def test_a_students_seed_says_nothing_of_secret_noise() -> None:
    """Streams of one number lead back to each other: every step of numpy's mixing can be undone, word by word."""
    shared, secret = Streams(2**255 + 5), Streams.secret()
    assert _noise_word_behind(shared.seeds("student", 1)[0]) == _noise_word(shared)
    assert _noise_word_behind(secret.seeds("student", 1)[0]) != _noise_word(secret)
    assert secret.generator("noise").random() == secret.generator("noise").random()


def _noise_word(streams: Streams) -> int:
    """The first of the four words that the generator of the noise is made of."""
    source = streams.generator("noise").bit_generator.seed_seq
    return int(source.pool[0])


def _noise_word_behind(seed: int) -> int:
    """The same from the student's seed, for a number of 256 bits that both streams come from."""
    constants = [0x43B0D7E5]
    for _ in range(40):
        constants.append(constants[-1] * 0x931E8875 % 2**32)
    at = 4 + 12 + 16  # after eight words, which fill the pool, mix it and are mixed in

    def hashed(key: int) -> int:
        value = (key ^ constants[at]) * constants[at + 1] % 2**32
        return value ^ value >> 16

    left, right, first, factor = 0xCA01F9DD, 0x4973F715, 0x8B51F9DD, 0x58F38DED
    word = (seed ^ seed >> 16) * pow(first * factor, -1, 2**32) % 2**32 ^ first
    before = ((word ^ word >> 16) + right * hashed(3)) * pow(left, -1, 2**32) % 2**32
    mixed = (left * before - right * hashed(2)) % 2**32
    return int(np.uint32(mixed ^ mixed >> 16))
