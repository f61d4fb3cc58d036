"""A matrix of low rank behind noise of known size."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def shrink_singular_values(noisy: Array, *, noise_std: float) -> Array:
    """The matrix `[m, n]` that is expected behind independent noise in every entry.

    Let y be a singular value in units of noise_std times the root of the longer side, and b the ratio of the sides.
    Above 1 + sqrt(b) it becomes sqrt((y**2 - b - 1)**2 - 4 b) / y, below that 0, because noise alone explains it. In
    mean square no other function of singular values does better asymptotically.

    Source: Gavish & Donoho 2017, "Optimal shrinkage of singular values", Frobenius loss.

    >>> shrink_singular_values(np.diag([100.0, 0.1]), noise_std=1.0).round(1).tolist()
    [[100.0, 0.0], [0.0, 0.0]]
    """
    if noise_std == 0:
        return noisy
    left, singular, right = np.linalg.svd(noisy, full_matrices=False)
    ratio = min(noisy.shape) / max(noisy.shape)
    unit = noise_std * math.sqrt(max(noisy.shape))
    value = singular / unit
    edge = np.maximum((value**2 - ratio - 1) ** 2 - 4 * ratio, 0)
    kept = np.where(value > 1 + math.sqrt(ratio), np.sqrt(edge) / np.maximum(value, 1), 0)
    return np.asarray((left * (kept * unit)) @ right)


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
