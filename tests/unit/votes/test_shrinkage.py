"""Shrinkage of noisy matrices, by singular values and by the covariance of columns."""

import numpy as np
import pytest

from pate.array_types import FloatArray
from pate.votes.shrinkage import posterior_rows, shrink_singular_values

COVARIANCE = np.array([[4.0, 3.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 0.3]])


@pytest.fixture(scope="module")
def signal() -> FloatArray:
    """Returns a matrix of rank 1 and of norm about 40."""
    rng = np.random.default_rng(2)
    return 40.0 * np.outer(rng.normal(size=60), rng.normal(size=20)) / np.sqrt(1200)


@pytest.fixture(scope="module")
def noisy_matrix(signal: FloatArray) -> FloatArray:
    """Returns the signal plus noise.

    The largest singular value of the noise, 11.7, is below 12.2, the threshold for noise.
    """
    return signal + np.random.default_rng(5).normal(size=signal.shape)


def test_pure_noise_is_shrunk_to_zero() -> None:
    """A matrix of noise alone, whose singular values all lie below the threshold, is shrunk to zero."""
    noise_matrix = np.random.default_rng(2).normal(size=(60, 20)) * 0.9
    assert not shrink_singular_values(noise_matrix, noise_std=1.0).any()


def test_a_signal_loses_most_of_its_noise(signal: FloatArray, noisy_matrix: FloatArray) -> None:
    """The shrunk noisy matrix has rank 1, as the signal has, and less than 0.4 of the noisy matrix's error."""
    shrunk = shrink_singular_values(noisy_matrix, noise_std=1.0)
    assert np.linalg.matrix_rank(shrunk) == 1
    assert np.linalg.norm(shrunk - signal) < 0.4 * np.linalg.norm(noisy_matrix - signal)


def test_rows_and_columns_are_treated_alike(noisy_matrix: FloatArray) -> None:
    """Shrinking the transpose of a matrix gives the transpose of the shrunk matrix."""
    shrunk = shrink_singular_values(noisy_matrix, noise_std=1.0)
    np.testing.assert_allclose(shrink_singular_values(noisy_matrix.T, noise_std=1.0), shrunk.T)


def test_without_noise_nothing_is_shrunk(noisy_matrix: FloatArray) -> None:
    """With a noise std of 0, the matrix is returned unchanged."""
    np.testing.assert_array_equal(shrink_singular_values(noisy_matrix, noise_std=0.0), noisy_matrix)


def draw_matrix(num_rows: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Returns rows of a known prior, the same rows with noise, and the factor of `COVARIANCE` for each row."""
    rng = np.random.default_rng(seed)
    prior_variances = np.geomspace(3.0, 0.05, num_rows)
    unscaled_rows = rng.multivariate_normal(np.zeros(3), COVARIANCE, size=num_rows)
    rows = np.sqrt(prior_variances)[:, None] * unscaled_rows
    return rows, rows + rng.standard_normal(rows.shape), prior_variances


@pytest.mark.slow
def test_many_rows_give_the_posterior_mean_of_their_prior() -> None:
    """For 20,000 noisy rows, `posterior_rows` is close to the exact posterior mean of the rows' prior.

    The function learns the covariance of the prior from the rows.
    """
    _, noisy_rows, prior_variances = draw_matrix(num_rows=20_000, seed=0)
    exact_posterior_mean = np.stack(
        [
            variance * COVARIANCE @ np.linalg.solve(variance * COVARIANCE + np.eye(3), row)
            for variance, row in zip(prior_variances, noisy_rows, strict=True)
        ]
    )
    posterior_mean = posterior_rows(noisy_rows, prior_row_variances=prior_variances)
    assert np.abs(posterior_mean - exact_posterior_mean).max() < 0.15
    assert float(((posterior_mean - exact_posterior_mean) ** 2).mean()) < 2e-4


@pytest.mark.parametrize("seed", range(5))
def test_the_posterior_mean_is_nearer_than_one_factor_for_all(seed: int) -> None:
    """The posterior mean of 60 noisy rows is nearer to the true rows than a multiple of the noisy rows.

    The multiple is by the best single factor.
    """
    rows, noisy_rows, prior_variances = draw_matrix(num_rows=60, seed=seed)

    def squared_error(estimate: FloatArray) -> float:
        return float(((estimate - rows) ** 2).sum())

    # The best factor is computed with the true rows.
    best_factor = float((noisy_rows * rows).sum() / (noisy_rows**2).sum())
    posterior_mean = posterior_rows(noisy_rows, prior_row_variances=prior_variances)
    assert (
        squared_error(estimate=posterior_mean)
        < squared_error(estimate=best_factor * noisy_rows)
        < squared_error(estimate=noisy_rows)
    )


def test_little_is_left_of_rows_of_noise() -> None:
    """Rows of noise alone are shrunk to less than 1% of their variance."""
    noise_rows = np.random.default_rng(1).standard_normal(size=(2000, 5))
    prior_variances = np.ones(2000)
    posterior_mean = posterior_rows(noise_rows, prior_row_variances=prior_variances)
    assert float((posterior_mean**2).mean()) < 0.01


def test_rows_far_above_the_noise_stay() -> None:
    """Rows 10,000 times larger than the noise are changed by less than 0.01."""
    large_rows = np.random.default_rng(1).standard_normal(size=(50, 5)) * 1e4
    prior_variances = np.ones(50)
    posterior_mean = posterior_rows(large_rows, prior_row_variances=prior_variances)
    np.testing.assert_allclose(posterior_mean, large_rows, atol=0.01)
