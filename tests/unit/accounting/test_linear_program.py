"""The bounds of linear programs, whatever multipliers they have, and how they are rounded."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pate.accounting.joint_law.linear_program import LinearProgram, Multipliers, multipliers


def _program(rng: np.random.Generator, size: float) -> LinearProgram:
    return LinearProgram(
        size * rng.random(60), np.concatenate([[1.0, -1.0], rng.normal(size=58)]), rng.normal(size=(3, 60)) - 0.2
    )


def _exact_bound(multiplier: Multipliers, program: LinearProgram) -> Fraction:
    """The largest of all types, in fractions."""
    parts = (program.values, program.even, program.sides)
    values, even, sides = (np.vectorize(Fraction, otypes=[object])(part) for part in parts)
    of_sides = np.array([Fraction(number) for number in multiplier.of_sides.tolist()])
    return Fraction(max(values - Fraction(multiplier.of_even) * even - of_sides @ sides))


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e8])
def test_bounds_are_rounded_up(size: float) -> None:
    rng = np.random.default_rng(0)
    programs = [_program(rng, size) for _ in range(40)]
    exactly = 0
    for program, found in zip(programs, multipliers(programs), strict=True):
        exact, bound = _exact_bound(found, program), found.bound(program)
        assert exact <= Fraction(bound) <= exact * Fraction(1 + 1e-9)
        assert found.attained <= bound * (1 + 1e-9)
        exactly += Fraction(float(found.left(program).max())) < exact
    assert exactly > 0, "plain double precision is below for some, so that the rounding is seen"


def test_what_double_precision_cannot_say_is_infinite() -> None:
    program = LinearProgram(np.array([1.0, np.inf]), np.array([1.0, -1.0]), np.zeros((1, 2)))
    assert Multipliers(0.0, np.zeros(1), 0.0).bound(program) == np.inf
