"""The matrix behind noise: against the posterior of a known prior, and what is left of noise alone."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pate.votes.descent import posterior_rows

Array = NDArray[np.float64]
SHARED = np.array([[4.0, 3.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 0.3]])


def matrix(count: int, seed: int) -> tuple[Array, Array, Array]:
    """Rows of a known prior, the same with noise, and the rows' variances."""
    rng = np.random.default_rng(seed)
    variances = np.geomspace(3.0, 0.05, count)
    rows = np.sqrt(variances)[:, None] * rng.multivariate_normal(np.zeros(3), SHARED, size=count)
    return rows, rows + rng.standard_normal(rows.shape), variances


def test_many_rows_give_the_posterior_mean_of_the_prior_they_came_from() -> None:
    _, noisy, variances = matrix(20_000, 0)
    exact = np.stack(
        [v * SHARED @ np.linalg.solve(v * SHARED + np.eye(3), row) for v, row in zip(variances, noisy, strict=True)]
    )
    found = posterior_rows(noisy, variances)
    assert np.abs(found - exact).max() < 0.15
    assert float(((found - exact) ** 2).mean()) < 2e-4


@pytest.mark.parametrize("seed", range(5))
def test_it_is_nearer_than_the_noisy_matrix_and_than_one_factor_for_all(seed: int) -> None:
    rows, noisy, variances = matrix(60, seed)
    best_factor = float((noisy * rows).sum() / (noisy**2).sum())  # chosen with the answer at hand
    error = float(((posterior_rows(noisy, variances) - rows) ** 2).sum())
    assert error < ((best_factor * noisy - rows) ** 2).sum() < ((noisy - rows) ** 2).sum()


def test_little_is_left_of_noise_alone_and_nothing_is_lost_of_what_is_far_above_it() -> None:
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((2000, 5))
    assert float((posterior_rows(noise, np.ones(2000)) ** 2).mean()) < 0.01
    clear = rng.standard_normal((50, 5)) * 1e4
    np.testing.assert_allclose(posterior_rows(clear, np.ones(50)), clear, atol=0.01)
