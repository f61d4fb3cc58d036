"""Rounded Gaussian noise: exact draws where 64 bits do not decide, and standard deviations that are refused."""

import math
from fractions import Fraction

import numpy as np
import pytest

from pate.mechanisms.noise import rounded_gaussian
from pate.mechanisms.noise.enclosures import Bounds
from pate.mechanisms.noise.lazy_uniforms import LazyUniform, draw_words
from pate.mechanisms.noise.rounded_gaussian import RoundedGaussian
from tests.refusals import ANY, refused_parameter


@pytest.mark.parametrize("std", [0.01, 1.0, 3.7, 2.0**20 + 0.3, 2.0**44])
def test_fast_decisions_are_the_exact_ones(std: float) -> None:
    """150 candidate draws are accepted or rejected, with the same value, as by an exact computation.

    The reference decides every comparison with all digits.
    """
    noise = RoundedGaussian(std=std)
    uniform_words = draw_words(np.random.default_rng(3), shape=(3, 150))
    values, accepted = noise._candidates(uniform_words=uniform_words, rng=np.random.default_rng(5))
    for index in range(150):
        exact_value, is_accepted = noise._exact_candidate(
            first_words=[int(word) for word in uniform_words[:, index]],
            rng=np.random.default_rng(5),
        )
        assert accepted[index] == is_accepted
        assert not is_accepted or values[index] == exact_value


def record_exact_candidates(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Returns a list that collects the first words of each candidate draw that 64 bits do not decide."""
    recorded_words = list[list[int]]()
    exact_candidate = RoundedGaussian._exact_candidate

    def record(
        self: RoundedGaussian, first_words: list[int], rng: np.random.Generator
    ) -> tuple[int, bool]:
        recorded_words.append(first_words)
        return exact_candidate(self, first_words=first_words, rng=rng)

    monkeypatch.setattr(RoundedGaussian, "_exact_candidate", record)
    return recorded_words


def test_undecided_candidates_are_drawn_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same random bits give the same noise if every draw is decided exactly instead of by 64 bits.

    The margin within which 64 bits decide nothing is widened for this.
    """
    noise = RoundedGaussian(std=9.0)
    usual_noise = noise.sample(shape=(40,), rng=np.random.default_rng(0))
    monkeypatch.setattr(rounded_gaussian, "_COIN_MARGIN", 2.0)
    recorded_words = record_exact_candidates(monkeypatch)
    noise_by_exact_decisions = noise.sample(shape=(40,), rng=np.random.default_rng(0))
    np.testing.assert_array_equal(noise_by_exact_decisions, usual_noise)
    assert len(recorded_words) >= 40


def test_a_word_on_an_edge_needs_more_bits() -> None:
    """64 random bits that equal an edge between two numbers do not decide the draw, and the next word above does.

    64 zeros do not decide it either.
    """
    edge = rounded_gaussian._EXP_TABLE[2]
    words = np.array([edge, edge + np.uint64(1), 0], dtype=np.uint64)
    _, is_decided = rounded_gaussian._geometric_numbers(words)
    assert is_decided.tolist() == [False, True, False]


def test_the_largest_word_gives_the_number_0() -> None:
    """The word whose 64 bits are all ones gives the geometric number 0."""
    largest_word = np.array([2**64 - 1], dtype=np.uint64)
    numbers, _ = rounded_gaussian._geometric_numbers(largest_word)
    assert numbers.tolist() == [0.0]


@pytest.mark.parametrize(("next_word", "is_below"), [(2**62 - 2, True), (2**62 + 2, False)])
def test_further_bits_decide_a_comparison(next_word: int, is_below: bool) -> None:
    """The next 64 bits of a random number decide its comparison with a limit that has the same first 64 bits.

    The limit is 2^-66 above these bits, a quarter of the unit of the last of them.
    """
    edge = int(rounded_gaussian._EXP_TABLE[2])
    uniform = LazyUniform(first_word=edge, rng=np.random.default_rng(0), reserved_words=[next_word])
    limit = Fraction(edge, 2**64) + Fraction(1, 2**66)

    def limit_bounds(digits: int) -> Bounds:
        return limit, limit

    assert uniform.below(enclose_number=limit_bounds) is is_below
    assert uniform.num_bits == 128


def test_a_large_std_needs_further_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """At std 2^44 the first 64 bits fix the noise, before it is rounded to a whole number, only to 2^-20.

    Of 200 candidates just below a whole number plus 1/2, where rounding jumps, over 50 are undecided and draw further
    bits.
    """
    recorded_words = record_exact_candidates(monkeypatch)
    uniform_words = draw_words(np.random.default_rng(0), shape=(3, 200))
    uniform_words[1] = 2**19 - 1  # half a step over std, minus one
    values, accepted = RoundedGaussian(std=2.0**44)._candidates(
        uniform_words=uniform_words, rng=np.random.default_rng(1)
    )
    num_near_a_step = (accepted & (values <= 1)).sum()
    assert len(recorded_words) >= num_near_a_step > 50


@pytest.mark.parametrize("std", [0.0, -1.0, math.nan, math.inf, 2.0**45])
def test_an_invalid_std_is_refused(std: float) -> None:
    """A standard deviation outside (0, 2**44] is refused."""
    with refused_parameter("std", value=ANY):
        RoundedGaussian(std=std)
