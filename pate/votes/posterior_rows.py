"""Rows of a matrix behind noise, when it is known which of them say more, and columns share what they say."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_ROUNDS = 3  # in which weights of rows and the typical variance of a column settle
_LEAST = 1e-9


def posterior_rows(noisy: Array, row_variances: Array) -> Array:
    """The matrix `[k, L]` that is expected behind independent noise of variance 1 in every entry.

    Rule: row j is a Gaussian vector with covariance row_variances[j] C. C is estimated by what the rows' products have
    beyond noise. A row v counts for it by v / (1 + v c)**2, c being the typical variance of a column: as much as its
    own product is certain. What columns share is shrunk by the variance that its estimate has, so that columns whose
    rows are few share little. Negative eigenvalues are set to 0; then each row is replaced by its posterior mean.

    Args:
        noisy: in units of the noise's std.
        row_variances: `[k]`, > 0, up to a common factor.

    Source: Efron & Morris 1972, "Empirical Bayes on vector observations", with rows of unequal variance; Schäfer &
    Strimmer 2005 for the shrinkage.

    >>> noisy = np.array([[30.0, 0.5], [-30.0, -0.5], [1.0, 1.0]])
    >>> posterior_rows(noisy, np.array([1.0, 1.0, 0.1])).round() + 0.0
    array([[ 30.,   0.],
           [-30.,   0.],
           [  1.,   0.]])
    """
    variances = row_variances / row_variances.mean()
    shared, vectors = np.linalg.eigh(_covariance(noisy, variances))
    explained = np.outer(variances, shared.clip(0))
    return np.asarray(((noisy @ vectors) * (explained / (explained + 1))) @ vectors.T)


def _covariance(noisy: Array, variances: Array) -> Array:
    """C `[L, L]`, its diagonal as it is found and the rest shrunk."""
    weights = variances
    beyond = (noisy**2).mean(axis=1) - 1
    for _ in range(_ROUNDS):
        typical = max(float((weights * beyond).sum() / (weights * variances).sum()), 0.0)
        weights = variances / (1 + typical * variances) ** 2
    total = (weights * variances).sum()
    found = ((noisy.T * weights) @ noisy - weights.sum() * np.eye(noisy.shape[1])) / total
    own = np.diag(np.diag(found))
    rows = 1 + np.outer(variances, np.diag(found).clip(0))  # each entry's variance, `[k, L]`
    chance = (rows.T * weights**2) @ rows / total**2  # of an entry of what was found
    apart = ~np.eye(len(found), dtype=np.bool_)
    shrunk = min(1.0, float(chance[apart].sum() / max((found[apart] ** 2).sum(), _LEAST)))
    return np.asarray((1 - shrunk) * found + shrunk * own)
