"""A matrix product whose sums are exact: a row's result does not depend on where it stands, nor on the library."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_BITS = 26  # of a row's length, and of a column's: their products and sums stay below 2**53


def exact_product(rows: Array, matrix: Array) -> Array:
    """`rows @ matrix`, both cut to 26 bits: of each row's length, and of the longest column's.

    Matrix products round in an order of their own, which differs between rows. Here products are whole numbers, and
    by Cauchy and Schwarz no sum of some of them exceeds 2**52: doubles hold them all.

    Args:
        rows: finite `[n, d]`.
        matrix: finite `[d, k]`.
    """
    of_rows = np.frexp(np.sqrt(np.einsum("ij,ij->i", rows, rows)))[1][:, None]
    of_matrix = np.frexp(np.sqrt(np.einsum("ij,ij->j", matrix, matrix)).max(initial=0.0))[1]
    left, right = np.ldexp(rows, _BITS - of_rows), np.ldexp(matrix, _BITS - of_matrix)
    whole = np.trunc(left, out=left) @ np.trunc(right)
    return np.asarray(np.ldexp(whole, of_rows + of_matrix - 2 * _BITS))
