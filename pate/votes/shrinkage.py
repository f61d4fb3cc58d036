"""Estimates of a matrix from the matrix plus noise: by its singular values, or by the covariance of its columns."""

from __future__ import annotations

import math

import numpy as np

from pate.array_types import FloatArray

# The number of iterations that improve the weights of rows and the typical variance of a column.
_NUM_ITERATIONS = 3
# The least variance by which another one is divided.
_MIN_VARIANCE = 1e-9


def shrink_singular_values(noisy_matrix: FloatArray, *, noise_std: float) -> FloatArray:
    """Returns an estimate of a low-rank matrix from the matrix plus independent noise in every entry.

    Let y be a singular value of the noisy matrix, divided by noise_std times the root of the number of rows or columns,
    whichever is larger. Let b <= 1 be the ratio of these numbers. If y is above 1 + sqrt(b), it is replaced by
    sqrt((y**2 - b - 1)**2 - 4 b) / y. Otherwise it is replaced by 0, since noise alone explains it. In mean square no
    other function of singular values is better asymptotically. Without noise the matrix is returned unchanged.

    Args:
        noisy_matrix: `[num_rows, num_columns]`, the matrix plus noise.
        noise_std: standard deviation of the noise in each entry.

    Source: Gavish & Donoho 2017, "Optimal shrinkage of singular values", Frobenius loss.

    >>> shrink_singular_values(np.diag([100.0, 0.1]), noise_std=1.0).round(1).tolist()
    [[100.0, 0.0], [0.0, 0.0]]
    """
    if noise_std == 0:
        return noisy_matrix
    left_vectors, singular_values, right_vectors = np.linalg.svd(noisy_matrix, full_matrices=False)
    ratio = min(noisy_matrix.shape) / max(noisy_matrix.shape)
    noise_unit = noise_std * math.sqrt(max(noisy_matrix.shape))
    relative_singular_values = singular_values / noise_unit
    under_root = np.maximum((relative_singular_values**2 - ratio - 1) ** 2 - 4 * ratio, 0)
    is_signal = relative_singular_values > 1 + math.sqrt(ratio)
    shrunk_values = np.where(
        is_signal, np.sqrt(under_root) / np.maximum(relative_singular_values, 1), 0
    )
    return np.asarray((left_vectors * (shrunk_values * noise_unit)) @ right_vectors)


def posterior_rows(noisy_matrix: FloatArray, *, prior_row_variances: FloatArray) -> FloatArray:
    """Returns the posterior mean of a matrix, given the matrix plus independent noise of variance 1 in every entry.

    Rule: row j of the matrix is modeled as a Gaussian vector with covariance prior_row_variances[j] C. The matrix C is
    estimated from the products of the noisy rows, minus those of noise alone. In this estimate a row of variance v has
    the weight v / (1 + v c)**2, where c is the typical variance of a column. The diagonal of C is shrunk toward its
    mean and the other entries toward 0, each by the variance of its estimate. Negative eigenvalues are set to 0. Then
    each row is replaced by its posterior mean.

    Args:
        noisy_matrix: `[num_rows, num_columns]`, divided by the standard deviation of the noise.
        prior_row_variances: `[num_rows]`, > 0, the variance of each row up to a common factor.

    Source: Efron & Morris 1972, "Empirical Bayes on vector observations", with rows of unequal variance;
    Schäfer & Strimmer 2005 for the shrinkage.

    >>> noisy = np.array([[30.0, 0.5], [-30.0, -0.5]] * 8)
    >>> posterior_rows(noisy, prior_row_variances=np.ones(16))[:2].round() + 0.0
    array([[ 30.,   0.],
           [-30.,   0.]])
    """
    relative_row_variances = prior_row_variances / prior_row_variances.mean()
    column_covariance = _shared_covariance(noisy_matrix, prior_row_variances=relative_row_variances)
    column_eigenvalues, column_eigenvectors = np.linalg.eigh(column_covariance)
    signal_variances = np.outer(relative_row_variances, column_eigenvalues.clip(0))
    # The posterior mean of a Gaussian with noise of variance 1 has the factor signal / (signal + 1) along each
    # eigenvector.
    row_coordinates = noisy_matrix @ column_eigenvectors
    return np.asarray(
        (row_coordinates * (signal_variances / (signal_variances + 1))) @ column_eigenvectors.T
    )


def _shared_covariance(noisy_matrix: FloatArray, *, prior_row_variances: FloatArray) -> FloatArray:
    """Returns a shrunk estimate of a covariance C that all rows share up to a factor, `[num_columns, num_columns]`.

    Row j without noise is modeled as Gaussian with covariance prior_row_variances[j] C. The diagonal is shrunk toward
    its mean, by the share of its variance that errors of the estimate explain. The other entries are shrunk toward 0,
    by the share of their mean square that errors explain.

    Args:
        noisy_matrix: `[num_rows, num_columns]`, with noise of variance 1 in every entry.
        prior_row_variances: `[num_rows]`, the variance of each row up to a common factor.
    """
    row_weights = prior_row_variances
    beyond_noise = (noisy_matrix**2).mean(axis=1) - 1
    for _ in range(_NUM_ITERATIONS):
        typical_variance = float(
            (row_weights * beyond_noise).sum() / (row_weights * prior_row_variances).sum()
        )
        row_weights = (
            prior_row_variances / (1 + max(typical_variance, 0.0) * prior_row_variances) ** 2
        )
    total_weight = (row_weights * prior_row_variances).sum()
    num_columns = noisy_matrix.shape[1]
    noise_part = row_weights.sum() * np.eye(num_columns)
    covariance_estimate = (
        (noisy_matrix.T * row_weights) @ noisy_matrix - noise_part
    ) / total_weight
    diagonal = np.diag(covariance_estimate)
    mean_variance = max(float(diagonal.mean()), 0.0)
    # The square of a Gaussian has twice its squared variance as variance.
    variance_by_chance = (
        2
        * float(np.square((1 + prior_row_variances * mean_variance) * row_weights).sum())
        / total_weight**2
    )
    trusted_share = 1 - min(1.0, variance_by_chance / max(float(diagonal.var()), _MIN_VARIANCE))
    shrunk_diagonal = mean_variance + trusted_share * (diagonal - mean_variance)
    # [num_rows, num_columns]
    entry_variances = 1 + np.outer(prior_row_variances, shrunk_diagonal.clip(0))
    # The variance by chance of each entry of the estimate.
    variances_by_chance = (entry_variances.T * row_weights**2) @ entry_variances / total_weight**2
    is_off_diagonal = ~np.eye(len(covariance_estimate), dtype=np.bool_)
    total_square = (covariance_estimate[is_off_diagonal] ** 2).sum()
    shrinkage = min(
        1.0, float(variances_by_chance[is_off_diagonal].sum() / max(total_square, _MIN_VARIANCE))
    )
    return np.asarray(
        (1 - shrinkage) * covariance_estimate * is_off_diagonal + np.diag(shrunk_diagonal)
    )
