"""Matrix products that are exact, so that they do not depend on the library, the block size or the order of sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pate.array_types import FloatArray

# The number of bits of the length of a row, and of a column. By Cauchy and Schwarz sums of products stay below 2**52.
_BITS = 26
# An exponent below that of every row's length. The squares of a row shorter than about 2**-537 are 0 as floats, so all
# entries of such a row are cut to 0.
_MIN_EXPONENT = -900


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class ExactMatrix:
    """A matrix whose product with any rows is exact, after both are cut to 26 bits.

    A library rounds the sums of a matrix product in an order of its own, which may depend on the number of rows. Then
    the features of one record would depend on the other records in its block. Here all products are whole numbers of a
    unit, and no sum of them exceeds 2**52 units. Doubles hold these sums exactly, in any order. The 26 bits are
    relative to the length of each row, and to the length of the matrix's longest column.

    Attributes:
        entries: `[num_columns, num_outputs]`, the matrix cut to 26 bits.
    """

    entries: FloatArray

    @classmethod
    def from_matrix(cls, matrix: FloatArray) -> ExactMatrix:
        """Returns a matrix `[num_columns, num_outputs]` of finite numbers, cut to 26 bits."""
        column_lengths = np.sqrt(np.einsum("ij,ij->j", matrix, matrix))
        shift_bits = _BITS - np.frexp(column_lengths.max(initial=0.0))[1]
        truncated_matrix = np.trunc(np.ldexp(matrix, shift_bits))
        return cls(entries=np.ldexp(truncated_matrix, -shift_bits))

    def product(self, rows: FloatArray) -> FloatArray:
        """Returns `rows @ entries`, `[num_rows, num_outputs]`, exactly, after the rows are cut to 26 bits.

        Args:
            rows: `[num_rows, num_columns]`, finite.
        """
        length_exponents = np.frexp(np.sqrt(np.einsum("ij,ij->i", rows, rows)))[1]
        shift_bits = (_BITS - np.maximum(length_exponents, _MIN_EXPONENT))[:, None]
        # A product with a power of 2 is exact, and faster than ldexp.
        whole_rows = rows * np.ldexp(1.0, shift_bits)
        product_matrix = np.trunc(whole_rows, out=whole_rows) @ self.entries
        product_matrix *= np.ldexp(1.0, -shift_bits)
        return np.asarray(product_matrix)
