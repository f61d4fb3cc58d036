"""Principal directions of the public texts, and an exact projection on them.

A text becomes a vector of about a hundred numbers by a projection on the directions in which the public texts vary
most. The vector must be a function of its text and the public pool alone, bit for bit. A floating-point matrix product
does not guarantee this: the rounding of its sums depends on the number of rows.

So both factors are truncated to 26 bits after the binary point. Rows and directions have length at most 1. Each product
and each partial sum is then a multiple of `2**-52` with absolute value at most 1. A float64 represents such numbers
exactly, so the order of the sum does not matter.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import FloatArray
from pate.threads import one_blas_thread
from pate.validation import InvalidValue

SEVERAL_TEXTS = "several public texts, features are fitted on them"
"""The rule that a public pool violates if its texts do not differ."""

ROUNDING = 1e-6
"""The largest length that counts as 0, among lengths up to 1."""

# The number of bits after the binary point of the numbers in exact products.
_FRACTION_BITS = 26


def fixed_point(values: NDArray[Any]) -> FloatArray:
    """Returns `values * 2**26`, truncated to whole numbers, as float64 of the same shape."""
    return np.asarray(np.trunc(np.ldexp(values.astype(np.float64), _FRACTION_BITS)))


def from_product(products: FloatArray) -> FloatArray:
    """Returns `products / 2**52`.

    A sum of products of two numbers from `fixed_point` thereby becomes the sum of products of the original numbers.
    """
    return np.asarray(np.ldexp(products, -2 * _FRACTION_BITS), np.float64)


def principal_directions(
    text_vectors: FloatArray, max_directions: int
) -> tuple[FloatArray, FloatArray]:
    """Returns the mean `[d]` and the leading principal directions `[d, k]` of the rows of a matrix that are not 0.

    Args:
        text_vectors: `[num_rows, d]`.
        max_directions: the largest number of directions. k is smaller if the rows vary in fewer directions.

    Raises:
        InvalidValue: fewer than two rows are not 0, or all of these are equal.
    """
    from sklearn.decomposition import PCA

    text_vectors = text_vectors[text_vectors.any(axis=1)]
    if len(text_vectors) < 2:
        raise InvalidValue("data.text", rule=SEVERAL_TEXTS)
    pca = PCA(min(max_directions, *text_vectors.shape), svd_solver="covariance_eigh")
    # scikit-learn divides by the total variance, which is 0 if all rows are equal.
    with (
        one_blas_thread(),
        np.errstate(invalid="ignore", divide="ignore"),
    ):
        pca.fit(text_vectors)
    variances = pca.explained_variance_
    varies = variances > max(ROUNDING**2 * variances[0], 1e-12)
    if not varies.any():
        raise InvalidValue("data.text", rule=SEVERAL_TEXTS)
    return pca.mean_, np.ascontiguousarray(pca.components_[varies].T)
