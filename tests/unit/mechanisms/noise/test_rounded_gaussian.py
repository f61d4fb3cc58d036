"""Rounded Gaussian noise: every decision of the fast path against the exact one, limits, messages."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from pate.mechanisms.noise import whole_numbers
from pate.mechanisms.noise.uniforms import LazyBitsUniform, words
from pate.mechanisms.noise.whole_numbers import RoundedGaussian
from pate.validation import InvalidValue


@pytest.mark.parametrize("std", [0.01, 1.0, 3.7, 2.0**20 + 0.3, 2.0**44])
def test_fast_decisions_are_the_exact_ones(std: float) -> None:
    noise, bits = RoundedGaussian(std), words(np.random.default_rng(3), (3, 150))
    values, kept = noise._candidates(bits, np.random.default_rng(5))
    for index in range(150):
        exact = noise._exactly([int(word) for word in bits[:, index]], np.random.default_rng(5))
        assert (kept[index] == exact[1]) and (not kept[index] or values[index] == exact[0])


def test_undecided_candidates_are_drawn_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a margin that decides nothing, the same bits give the same numbers."""
    expected = RoundedGaussian(9.0).sample((40,), np.random.default_rng(0))
    monkeypatch.setattr(whole_numbers, "_ROUNDED_MARGIN", 2.0)
    calls = 0
    exactly = RoundedGaussian._exactly

    def counted(self: RoundedGaussian, first: list[int], rng: np.random.Generator) -> tuple[int, bool]:
        nonlocal calls
        calls += 1
        return exactly(self, first, rng)

    monkeypatch.setattr(RoundedGaussian, "_exactly", counted)
    np.testing.assert_array_equal(RoundedGaussian(9.0).sample((40,), np.random.default_rng(0)), expected)
    assert calls >= 40


def test_a_word_on_a_boundary_asks_for_more_bits() -> None:
    boundary = whole_numbers._EXP_TABLE[2]
    _, decided = whole_numbers._geometric_words(np.array([boundary, boundary + np.uint64(1), 0], dtype=np.uint64))
    assert decided.tolist() == [False, True, False]
    assert whole_numbers._geometric_words(np.array([2**64 - 1], dtype=np.uint64))[0].tolist() == [0.0]
    half = LazyBitsUniform(int(boundary), np.random.default_rng(0))
    target = Fraction(int(boundary), 2**64) + Fraction(1, 2**66)
    assert half.below(lambda digits: (target, target)) in (True, False)
    assert half.digits > 40


def test_the_table_holds_powers_of_e() -> None:
    values = whole_numbers._EXP_TABLE.astype(np.float64) / 2.0**64
    np.testing.assert_allclose(values[:20], np.exp(-np.arange(1.0, 21.0)), rtol=1e-9)
    assert math.floor(math.exp(-44) * 2.0**64) == int(whole_numbers._EXP_TABLE[-1]) == 1


@pytest.mark.parametrize("std", [0.0, -1.0, math.nan, math.inf, 2.0**45])
def test_impossible_widths_are_refused(std: float) -> None:
    with pytest.raises(InvalidValue, match=r"std=.*: expected (a number > 0|at most 2\*\*44)"):
        RoundedGaussian(std)


@pytest.mark.parametrize("rng", [0, None])
def test_a_seed_is_no_generator(rng: Any) -> None:
    with pytest.raises(InvalidValue, match=r"expected a numpy\.random\.Generator"):
        RoundedGaussian(1.0).sample((2,), rng)


def test_nothing_is_drawn_for_an_empty_shape() -> None:
    assert RoundedGaussian(1.0).sample((0, 3), np.random.default_rng(0)).shape == (0, 3)


def test_a_large_scale_leaves_more_to_further_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """At std 2**44 the first 64 bits leave 2**-20 of a step open: a place one word below a step is not decided."""
    asked: list[int] = []
    exactly = RoundedGaussian._exactly

    def counted(self: RoundedGaussian, first: list[int], rng: np.random.Generator) -> tuple[int, bool]:
        asked.append(first[1])
        return exactly(self, first, rng)

    monkeypatch.setattr(RoundedGaussian, "_exactly", counted)
    bits = words(np.random.default_rng(0), (3, 200))
    bits[1] = 2**19 - 1  # half a step over std, less one
    values, kept = RoundedGaussian(2.0**44)._candidates(bits, np.random.default_rng(1))
    near = kept & (values <= 1)
    assert len(asked) >= near.sum() > 50
