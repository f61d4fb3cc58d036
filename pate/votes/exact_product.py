"""Matrix products that come out alike whatever the library, the block and the order of the sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Of a row's length, and of a column's. By Cauchy and Schwarz sums of their products stay below 2**52.
_BITS = 26


def exact_product(rows: Array, matrix: Array) -> Array:
    """Returns `rows @ matrix`, both cut to 26 bits: of each row's length, and of the longest column's.

    A library's matrix product rounds in an order of its own, which may depend on how many rows stand in a block. Then
    the features of one record would depend on which records stand beside it. Here products are whole numbers, and no
    sum of some of them exceeds 2**52: doubles hold all of them exactly, in any order.

    Args:
        rows: `[n, k]`, finite.
        matrix: `[k, m]`, finite.
    """
    row_exponents = np.frexp(np.sqrt(np.einsum("ij,ij->i", rows, rows)))[1][:, None]
    column_lengths = np.sqrt(np.einsum("ij,ij->j", matrix, matrix))
    matrix_exponent = np.frexp(column_lengths.max(initial=0.0))[1]
    whole_rows = np.ldexp(rows, _BITS - row_exponents)
    whole_matrix = np.ldexp(matrix, _BITS - matrix_exponent)
    products = np.trunc(whole_rows, out=whole_rows) @ np.trunc(whole_matrix)
    return np.asarray(np.ldexp(products, row_exponents + matrix_exponent - 2 * _BITS))
