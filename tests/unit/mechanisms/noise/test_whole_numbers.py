"""Noise in whole numbers and shares of it: masses, limits, messages, and what floats cannot decide."""

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pate.mechanisms import DiscreteLaplace
from pate.mechanisms.noise import whole_numbers
from pate.mechanisms.noise.lazy_uniforms import LazyBitsUniform, LazyUniforms, draw_words
from pate.mechanisms.noise.whole_numbers import (
    DiscreteGaussian,
    RoundedGaussian,
    exponential_coins,
)
from tests.refusals import ANY, refused
from tests.statistical.chi_square import p_value

DRAWS = 40_000


@pytest.mark.parametrize("rate", [0.05, 0.7, Fraction(3), 4.5])
def test_draws_follow_the_masses(rate: Any) -> None:
    """40,000 draws of discrete Laplace noise follow its exact distribution by a chi-square test.

    The distribution of a rate 5% larger is rejected.
    """
    noise = DiscreteLaplace.at_most(rate)
    other = DiscreteLaplace.at_most(float(rate) * 1.05)
    drawn = Counter(noise.sample(shape=(DRAWS,), rng=np.random.default_rng(11)).tolist())
    laws = (
        {value: float(each.mass(value)) for value in range(-400, 401)} for each in (noise, other)
    )
    right, wrong = (p_value(outcome_counts=drawn, distribution=law) for law in laws)
    assert right > 1e-4 > wrong


def test_coins_show_true_as_often_as_the_exponential_says() -> None:
    """The frequency of True among 40,000 coins is within 4.5 standard deviations of exp(-numerator
    / denominator).
    """
    for numerator, denominator in ((0, 7), (1, 3), (7, 7), (2**31, 2**32)):
        coins = exponential_coins(
            np.full(DRAWS, numerator), denominator, rng=np.random.default_rng(5)
        )
        expected = math.exp(-numerator / denominator)
        assert (
            abs(coins.mean() - expected)
            <= 4.5 * math.sqrt(expected * (1 - expected) / DRAWS) + 1e-12
        )


@pytest.mark.parametrize("std", [0.01, 1.0, 3.7, 2.0**20 + 0.3, 2.0**44])
def test_fast_decisions_are_the_exact_ones(std: float) -> None:
    """150 candidates for rounded Gaussian noise are kept or rejected, with the same value, as an
    exact computation decides.

    The reference decides every comparison with all digits.
    """
    noise = RoundedGaussian(std=std)
    bits = draw_words(np.random.default_rng(3), shape=(3, 150))
    values, kept = noise._candidates(uniform_words=bits, rng=np.random.default_rng(5))
    for index in range(150):
        exact = noise._exactly(
            first_words=[int(word) for word in bits[:, index]], rng=np.random.default_rng(5)
        )
        assert (kept[index] == exact[1]) and (not kept[index] or values[index] == exact[0])


def record_undecided_words(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Returns a list to which the first random words of every candidate are added that 64 bits do
    not decide.
    """
    asked = list[list[int]]()
    exactly = RoundedGaussian._exactly

    def counted(
        self: RoundedGaussian, first: list[int], rng: np.random.Generator
    ) -> tuple[int, bool]:
        asked.append(first)
        return exactly(self, first, rng)

    monkeypatch.setattr(RoundedGaussian, "_exactly", counted)
    return asked


def test_undecided_candidates_are_drawn_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The margin is widened so that all candidates are undecided in floats: the same random bits
    give the same noise.
    """
    expected = RoundedGaussian(std=9.0).sample(shape=(40,), rng=np.random.default_rng(0))
    monkeypatch.setattr(whole_numbers, "_ROUNDED_MARGIN", 2.0)
    asked = record_undecided_words(monkeypatch)
    np.testing.assert_array_equal(
        RoundedGaussian(std=9.0).sample(shape=(40,), rng=np.random.default_rng(0)), expected
    )
    assert len(asked) >= 40


def test_a_word_on_a_boundary_asks_for_more_bits() -> None:
    """64 random bits that equal a boundary between two numbers do not decide the draw; one word
    above does.

    Further bits decide it.
    """
    boundary = whole_numbers._EXP_TABLE[2]
    _, decided = whole_numbers._geometric_words(
        np.array([boundary, boundary + np.uint64(1), 0], dtype=np.uint64)
    )
    assert decided.tolist() == [False, True, False]
    assert whole_numbers._geometric_words(np.array([2**64 - 1], dtype=np.uint64))[0].tolist() == [
        0.0
    ]
    half = LazyBitsUniform(int(boundary), rng=np.random.default_rng(0))
    target = Fraction(int(boundary), 2**64) + Fraction(1, 2**66)
    assert half.below(lambda digits: (target, target)) in (True, False)
    assert half.digits > 40


def test_a_large_scale_leaves_more_to_further_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """At std 2^44 the first 64 bits fix the noise only to 2^-20 of a step.

    Of 200 candidates just below a step, over 50 are undecided and ask for further bits.
    """
    asked = record_undecided_words(monkeypatch)
    bits = draw_words(np.random.default_rng(0), shape=(3, 200))
    bits[1] = 2**19 - 1  # half a step over std, less one
    values, kept = RoundedGaussian(std=2.0**44)._candidates(
        uniform_words=bits, rng=np.random.default_rng(1)
    )
    near = kept & (values <= 1)
    assert len(asked) >= near.sum() > 50


@pytest.mark.parametrize("variance", [1, 9, 40])
def test_every_decision_in_floats_is_the_exact_one(
    variance: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The margin is widened so that floats decide nothing: the same random bits give the same
    discrete Gaussian noise.
    """
    expected = DiscreteGaussian(variance=variance).sample(shape=(60,), rng=np.random.default_rng(0))
    monkeypatch.setattr(whole_numbers, "_TABLE_MARGIN", 2.0)  # which decides nothing in floats
    np.testing.assert_array_equal(
        DiscreteGaussian(variance=variance).sample(shape=(60,), rng=np.random.default_rng(0)),
        expected,
    )


def test_noise_has_no_largest_value() -> None:
    """All bits of the first words are ones, so the noise lies beyond the end of the table, 9 or 18
    standard deviations out.
    """
    first = np.full(1, 2**64 - 1, dtype=np.uint64)
    near = LazyUniforms(
        first, rng=np.random.default_rng(0), reserved_words=np.zeros((1, 1), dtype=np.uint64)
    )
    far = LazyUniforms(
        first,
        rng=np.random.default_rng(0),
        reserved_words=np.full((1, 3), 2**64 - 1, dtype=np.uint64),
    )
    noise = DiscreteGaussian(variance=100)
    found = [abs(int(noise._drawn(uniforms)[0])) for uniforms in (near, far)]
    assert 85 < found[0] < 100  # 2**-64 beyond: 9 standard deviations
    assert 170 < found[1] < 200  # 2**-256 beyond: 18


def test_no_number_overflows_at_the_widest() -> None:
    """Discrete Gaussian noise of the largest variance, 2^24, has the standard deviation 4096 within
    2%.
    """
    drawn = DiscreteGaussian(variance=2**24).sample(shape=(20_000,), rng=np.random.default_rng(1))
    assert drawn.std() == pytest.approx(4096, rel=0.02)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        *(
            ("rate", lambda r=r: DiscreteLaplace.at_most(r))
            for r in (0.0, -1.0, math.nan, math.inf, 1e-12, 1e6)
        ),
        *(("rate", lambda r=r: DiscreteLaplace(r)) for r in (Fraction(1, 3), Fraction(-1, 2), 0.5)),
        *(
            ("std", lambda s=s: RoundedGaussian(std=s))
            for s in (0.0, -1.0, math.nan, math.inf, 2.0**45)
        ),
        *(("variance", lambda v=v: DiscreteGaussian(variance=v)) for v in (0, -1, 2**24 + 1, 2.5)),
    ],
)
def test_invalid_argument_is_refused_by_name(name: str, make: Any) -> None:
    """`make` builds noise with an invalid parameter, and the error is about this parameter, `name`."""
    with refused(name, value=ANY):
        make()
