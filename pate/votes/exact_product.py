"""Matrix products that are exact, so that they do not depend on the library, the block size or the order of sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Of a row's length, and of a column's. By Cauchy and Schwarz sums of their products stay below 2**52.
_BITS = 26


def exact_product(rows: Array, matrix: Array) -> Array:
    """Returns `rows @ matrix`, exactly, after both are cut to 26 bits.

    A library rounds the sums of a matrix product in an order of its own, which may depend on the number of rows. Then
    the features of one record would depend on the other records in its block. Here all products are whole numbers, and
    no sum of them exceeds 2**52. Doubles hold these sums exactly, in any order. The 26 bits are relative to the length
    of each row, and to the length of the longest column.

    Args:
        rows: `[num_rows, num_columns]`, finite.
        matrix: `[num_columns, num_outputs]`, finite.
    """
    row_exponents = np.frexp(np.sqrt(np.einsum("ij,ij->i", rows, rows)))[1][:, None]
    column_lengths = np.sqrt(np.einsum("ij,ij->j", matrix, matrix))
    matrix_exponent = np.frexp(column_lengths.max(initial=0.0))[1]
    whole_rows = np.ldexp(rows, _BITS - row_exponents)
    whole_matrix = np.ldexp(matrix, _BITS - matrix_exponent)
    products = np.trunc(whole_rows, out=whole_rows) @ np.trunc(whole_matrix)
    return np.asarray(np.ldexp(products, row_exponents + matrix_exponent - 2 * _BITS))
