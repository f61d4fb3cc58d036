"""Rows of a matrix behind noise, when it is known which of them say more, and columns share what they say."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def posterior_rows(noisy: Array, row_variances: Array) -> Array:
    """The matrix `[k, L]` that is expected behind independent noise of variance 1 in every entry.

    Rule: row j is a Gaussian vector with covariance row_variances[j] C. C is estimated by what the rows' products have
    beyond noise, the rows weighted by their variances, with negative eigenvalues set to 0; then each row is replaced by
    its posterior mean.

    Args:
        noisy: in units of the noise's std.
        row_variances: `[k]`, > 0, up to a common factor.

    Source: Efron & Morris 1972, "Empirical Bayes on vector observations", with rows of unequal variance.

    >>> noisy = np.array([[30.0, 30.0], [-30.0, -30.0], [1.0, -1.0]])
    >>> posterior_rows(noisy, np.array([1.0, 1.0, 0.1])).round() + 0.0
    array([[ 30.,  30.],
           [-30., -30.],
           [  0.,   0.]])
    """
    variances = row_variances / row_variances.mean()
    products = (noisy.T * variances) @ noisy - variances.sum() * np.eye(noisy.shape[1])
    shared, vectors = np.linalg.eigh(products / (variances**2).sum())
    explained = np.outer(variances, shared.clip(0))
    return np.asarray(((noisy @ vectors) * (explained / (explained + 1))) @ vectors.T)
