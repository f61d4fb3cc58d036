"""Directions of the public texts, and products with them that are exact.

Texts become vectors of a hundred numbers by a product with directions in which public texts vary most. A vector is to
be a function of its text and the public pool alone, bit for bit. A product of floating-point matrices is none: its sums
are rounded in an order that depends on how many rows there are. So both factors are cut to 26 bits after the point.
Rows and directions have length 1 at most. Each product and each partial sum is then a whole multiple of `2**-52` below
1 in size, which a float64 holds exactly, and the order of the sum does not matter.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.threads import one_blas_thread
from pate.validation import InvalidValue

SEVERAL_TEXTS = "several public texts, features are fitted on them"
ROUNDING = 1e-6  # of lengths that are 1 at most: what is shorter is 0 but for rounding
_FRACTION_BITS = 26


def fixed_point(values: NDArray[Any]) -> NDArray[np.float64]:
    """Returns `values * 2**26` cut to whole numbers, of any shape."""
    return np.asarray(np.trunc(np.ldexp(values.astype(np.float64), _FRACTION_BITS)))


def from_product(products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the numbers that sums of products of two `fixed_point` factors stand for."""
    return np.asarray(np.ldexp(products, -2 * _FRACTION_BITS), np.float64)


def principal_directions(
    rows: NDArray[np.float64], dimension: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the mean `[d]` of rows `[n, d]` that are not 0, and the directions `[d, k]` in which they vary most.

    `k` is `dimension`, or fewer where rows vary in fewer directions. Raises `InvalidValue` where they vary in none.
    """
    from sklearn.decomposition import PCA

    rows = rows[rows.any(axis=1)]
    if len(rows) < 2:
        raise InvalidValue("data.text", rule=SEVERAL_TEXTS)
    pca = PCA(min(dimension, *rows.shape), svd_solver="covariance_eigh")
    with (
        one_blas_thread(),
        np.errstate(invalid="ignore", divide="ignore"),
    ):  # of rows that are alike
        pca.fit(rows)
    variances = pca.explained_variance_
    varies = variances > max(ROUNDING**2 * variances[0], 1e-12)
    if not varies.any():
        raise InvalidValue("data.text", rule=SEVERAL_TEXTS)
    return pca.mean_, np.ascontiguousarray(pca.components_[varies].T)
