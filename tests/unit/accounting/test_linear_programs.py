"""The bounds of linear programs, whatever multipliers they have, and how they are rounded."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from pate.accounting.joint_law.linear_programs import LinearPrograms, best_multipliers

Array = NDArray[np.float64]


def _programs(rng: np.random.Generator, size: float, number: int) -> LinearPrograms:
    """Their rows are shared parts, moved by constants of their own; their values are partly their own."""
    parts = np.vstack([rng.random(60), [1.0, -1.0, *rng.normal(size=58)], rng.normal(size=(3, 60)) - 0.2, np.ones(60)])
    weights = np.concatenate([np.eye(5, 6)[None]] * number)
    weights[:, 0, 0] = size
    weights[:, 2:, 5] = -0.1 * rng.random((number, 3))
    own = size * rng.random((number, 60))
    sizes = np.abs(weights) @ np.abs(parts).max(axis=1)
    sizes[:, 0] += own.max(axis=1)
    return LinearPrograms(parts, weights, sizes, own)


def _exactly_left(programs: LinearPrograms, multipliers: Array) -> Array:
    """Of each program and type, in fractions."""
    exact = np.vectorize(Fraction, otypes=[object])
    weights, parts, own = exact(programs.weights), exact(programs.parts), exact(programs.own)
    return np.stack(
        [
            own[i] + weights[i, 0] @ parts - exact(multipliers[i]) @ (weights[i, 1:] @ parts)
            for i in range(len(multipliers))
        ]
    )


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e8])
def test_bounds_are_rounded_up(size: float) -> None:
    programs = _programs(np.random.default_rng(0), size, 40)
    multipliers, attained = best_multipliers(programs)
    left = programs.left(multipliers)
    bounds = programs.bounds(multipliers, left)
    exact = _exactly_left(programs, multipliers).max(axis=1)
    for value, bound in zip(exact, bounds, strict=True):
        assert value <= Fraction(bound) <= value * Fraction(1 + 1e-9)
    assert (attained <= bounds * (1 + 1e-9)).all()
    assert (attained >= bounds * (1 - 1e-4)).all(), "the multipliers are good"
    below = [Fraction(found) < value for value, found in zip(exact, left.max(axis=1), strict=True)]
    assert any(below), "plain double precision is below for some, so that the rounding is seen"


def test_the_table_is_of_values_and_rows() -> None:
    programs = _programs(np.random.default_rng(1), 1.0, 3)
    table = programs.table
    multipliers = np.array([[0.5, 1.0, 2.0, 3.0]] * 3)
    left = table[:, 0] - (multipliers[:, :, None] * table[:, 1:]).sum(axis=1)
    np.testing.assert_allclose(programs.left(multipliers), left, rtol=1e-12)


def test_what_double_precision_cannot_say_is_infinite() -> None:
    own = np.array([[1.0, np.inf], [1.0, np.nan], [1.0, 2.0]])
    sizes = np.array([[np.inf, 1.0], [np.nan, 1.0], [2.0, 1.0]])
    programs = LinearPrograms(np.array([[1.0, -1.0]]), np.array([[[0.0], [1.0]]] * 3), sizes, own)
    multipliers, attained = best_multipliers(programs)
    assert multipliers[:2].tolist() == [[0.0], [0.0]]
    assert attained[:2].tolist() == [0.0, 0.0]
    zeros = np.zeros((3, 1))
    bounds = programs.bounds(zeros, programs.left(zeros))
    assert bounds[:2].tolist() == [np.inf, np.inf]
    assert bounds[2] == pytest.approx(2.0)
