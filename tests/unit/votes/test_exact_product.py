"""Products that do not depend on where a row stands."""

from __future__ import annotations

import numpy as np
import pytest

from pate.votes.public_pca import exact_product

RNG = np.random.default_rng(0)
ROWS, MATRIX = RNG.normal(size=(50, 30)) * 10.0 ** RNG.integers(-9, 9, size=(50, 1)), RNG.normal(size=(30, 7))


def test_it_is_the_product_to_26_bits_of_each_rows_length() -> None:
    off = np.abs(exact_product(ROWS, MATRIX) - ROWS @ MATRIX)
    length = np.linalg.norm(ROWS, axis=1, keepdims=True) * np.linalg.norm(MATRIX, axis=0).max()
    assert (off <= length * 30 * 2.0**-25).all()
    assert off.max() > 0


@pytest.mark.parametrize("shape", [(1, 30), (7, 30), (513, 30)])
def test_a_row_gives_the_same_bits_wherever_it_stands(shape: tuple[int, int]) -> None:
    """Beside other rows, in another order of the sum, and in other shapes; the control: a plain product does not."""
    alone = exact_product(ROWS[:1], MATRIX)[0]
    for place in range(0, shape[0], 3):
        rows = RNG.normal(size=shape)
        rows[place] = ROWS[0]
        np.testing.assert_array_equal(exact_product(rows, MATRIX)[place], alone)
    shuffled = RNG.permutation(30)
    np.testing.assert_array_equal(exact_product(ROWS[:, shuffled], MATRIX[shuffled]), exact_product(ROWS, MATRIX))
    assert (ROWS[:, shuffled] @ MATRIX[shuffled] != ROWS @ MATRIX).any()


def test_zeros_and_numbers_of_any_size_are_products_too() -> None:
    np.testing.assert_array_equal(exact_product(np.zeros((2, 3)), np.ones((3, 2))), np.zeros((2, 2)))
    np.testing.assert_array_equal(exact_product(np.ones((2, 3)), np.zeros((3, 2))), np.zeros((2, 2)))
    np.testing.assert_allclose(exact_product(np.full((1, 2), 1e150), np.full((2, 1), 1e-150)), [[2.0]], rtol=1e-7)
