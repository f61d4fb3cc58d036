"""Streams of random numbers: one for each purpose, the same from the same number, secret without one."""

from __future__ import annotations

from pathlib import Path

from pate.randomness import Randomness, Streams


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
