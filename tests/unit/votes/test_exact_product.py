"""Exact products have a small error, and their bits do not depend on other rows or on the order of sums."""

import numpy as np
import pytest

from pate.votes.exact_product import ExactMatrix

RNG = np.random.default_rng(0)
ROW_VECTORS = RNG.normal(size=(50, 30)) * 10.0 ** RNG.integers(low=-9, high=9, size=(50, 1))
MATRIX = RNG.normal(size=(30, 7))


def test_product_is_accurate_to_26_bits_of_each_rows_length() -> None:
    """The exact product of rows of very different lengths with a matrix is close to the plain product.

    The difference is at most 30 * 2^-25 times the row's length and the longest column's length, for sums of 30 terms.
    """
    errors = np.abs(ExactMatrix.from_matrix(MATRIX).product(ROW_VECTORS) - ROW_VECTORS @ MATRIX)
    lengths = (
        np.linalg.norm(ROW_VECTORS, axis=1, keepdims=True) * np.linalg.norm(MATRIX, axis=0).max()
    )
    assert (errors <= lengths * 30 * 2.0**-25).all()
    assert errors.max() > 0


@pytest.mark.parametrize("num_rows", [1, 7, 513])
def test_product_of_a_row_does_not_depend_on_other_rows(num_rows: int) -> None:
    """The product of a row is the same to the last bit at several positions among other rows."""
    matrix = ExactMatrix.from_matrix(MATRIX)
    first_row_vector = ROW_VECTORS[:1]
    product = matrix.product(first_row_vector)[0]
    for position in range(0, num_rows, 3):
        row_vectors = RNG.normal(size=(num_rows, 30))
        row_vectors[position] = ROW_VECTORS[0]
        np.testing.assert_array_equal(matrix.product(row_vectors)[position], product)


def test_the_order_of_the_sum_makes_no_difference() -> None:
    """If the terms of each sum are permuted, an exact product keeps its bits, and a plain product does not."""
    term_order = RNG.permutation(len(MATRIX))
    product_of_permuted_terms = ExactMatrix.from_matrix(MATRIX[term_order]).product(
        ROW_VECTORS[:, term_order]
    )
    np.testing.assert_array_equal(
        product_of_permuted_terms, ExactMatrix.from_matrix(MATRIX).product(ROW_VECTORS)
    )
    assert (ROW_VECTORS[:, term_order] @ MATRIX[term_order] != ROW_VECTORS @ MATRIX).any()
