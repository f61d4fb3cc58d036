"""Distributions of the noisy argmax: symmetry, extremes, and many candidates."""

import mpmath
import numpy as np
import pytest

from pate.mechanisms.noise.kinds import exponential_argmax, gaussian_argmax, gumbel_argmax, laplace_argmax

DISTRIBUTIONS = {
    "gumbel": gumbel_argmax,
    "exponential": exponential_argmax,
    "gaussian": gaussian_argmax,
    "laplace": laplace_argmax,
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("size", [1, 2, 40])
def test_equal_values_are_equally_likely(name: str, size: int) -> None:
    np.testing.assert_allclose(DISTRIBUTIONS[name](np.full((1, size), 3.7)), np.full((1, size), 1 / size), rtol=1e-9)


def test_two_candidates_in_closed_form() -> None:
    """P(first wins) from the distribution of the difference of two draws, at a difference of 1.3 scales."""
    x = mpmath.mpf("1.3")
    expected = {
        "gumbel": 1 / (1 + mpmath.exp(-x)),
        "exponential": 1 - mpmath.exp(-x) / 2,
        "gaussian": mpmath.ncdf(x / mpmath.sqrt(2)),
        "laplace": 1 - mpmath.exp(-x) * (2 + x) / 4,
    }
    for name, distribution in DISTRIBUTIONS.items():
        assert distribution(np.array([[1.3, 0.0]]))[0, 0] == pytest.approx(float(expected[name]), rel=1e-10), name
