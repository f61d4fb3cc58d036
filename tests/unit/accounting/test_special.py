"""Special functions that do without SciPy, compared with SciPy and mpmath."""

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

from pate.accounting import special

RNG = np.random.default_rng(0)
POINTS = np.concatenate(
    [RNG.normal(size=200), RNG.uniform(low=-37, high=37, size=200), [0.0, 1e-300, -1e-300, -35.0]]
)
DEEP = -np.exp(RNG.uniform(low=3, high=15, size=100))


def log_normal_cdf(x: float) -> mpmath.mpf:
    """Returns the logarithm of the standard normal distribution function in mpmath."""
    z = mpmath.mpf(x) / mpmath.sqrt(2)
    return mpmath.log(mpmath.erfc(-z) / 2) if x < 0 else mpmath.log1p(-mpmath.erfc(z) / 2)


def logistic(x: float) -> mpmath.mpf:
    """Returns the logistic function of x in mpmath."""
    return 1 / (1 + mpmath.exp(-mpmath.mpf(x)))


def normal_cdf(x: float) -> mpmath.mpf:
    """Returns the standard normal distribution function of x in mpmath."""
    return mpmath.exp(log_normal_cdf(x))


def log_logistic(x: float) -> mpmath.mpf:
    """Returns the logarithm of the logistic function of x in mpmath."""
    return mpmath.log(logistic(x))


CASES = [
    (special.log_ndtr_without_scipy, scipy.special.log_ndtr, log_normal_cdf, 1e-12),
    (special.ndtr_without_scipy, scipy.special.ndtr, normal_cdf, 1e-12),
    (special.log_expit, scipy.special.log_expit, log_logistic, 1e-15),
    (special.expit, scipy.special.expit, logistic, 1e-15),
]


@pytest.mark.parametrize(
    ("our_function", "scipy_function", "mpmath_function", "error"),
    CASES,
    ids=["log_ndtr", "ndtr", "log_expit", "expit"],
)
def test_special_functions_agree_with_scipy_and_mpmath(
    our_function: Callable[[Any], Any],
    scipy_function: Callable[[Any], Any],
    mpmath_function: Callable[[float], mpmath.mpf],
    error: float,
) -> None:
    """`our_function` agrees with `scipy_function` within 1e-12, and with `mpmath_function` within a relative `error`.

    An empty array gives an empty array of its shape.
    """
    with mpmath.workdps(60):
        actual = zip(POINTS.tolist(), our_function(POINTS).tolist(), strict=True)
        assert max(float(abs(value / mpmath_function(x) - 1)) for x, value in actual) < error
    np.testing.assert_allclose(our_function(POINTS), scipy_function(POINTS), rtol=1e-12)
    assert float(our_function(0.5)) == pytest.approx(float(scipy_function(0.5)), rel=1e-15)
    assert our_function(np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.filterwarnings("error")
def test_special_functions_return_limits_without_a_warning() -> None:
    """The four functions return their limits at plus and minus infinity, without a warning.

    Far out, `expit(-745)` is above 0, `log_ndtr_without_scipy(-1e200)` is minus infinity, and
    `log_ndtr_without_scipy` agrees with SciPy within 1e-14.
    """
    ends = np.array([-np.inf, np.inf])
    np.testing.assert_array_equal(special.ndtr_without_scipy(ends), [0, 1])
    np.testing.assert_array_equal(special.log_ndtr_without_scipy(ends), [-np.inf, 0])
    np.testing.assert_array_equal(special.expit(ends), [0, 1])
    np.testing.assert_array_equal(special.log_expit(ends), [-np.inf, 0])
    assert special.expit(-745.0) > 0
    assert special.log_ndtr_without_scipy(-1e200) == -np.inf
    np.testing.assert_allclose(
        special.log_ndtr_without_scipy(DEEP), scipy.special.log_ndtr(DEEP), rtol=1e-14
    )


@pytest.mark.parametrize("n", [0, 1, 2, 19, 20, 21, 600, 24_000])
def test_log_binomials_has_the_documented_error(n: int) -> None:
    """`log_binomials(n)` returns the logarithms of all binomial coefficients "n over k".

    For up to six values of k, the difference from mpmath's logarithm is at most 2^-50 log n!, the documented error.
    """
    actual = special.log_binomials(n)
    assert actual.shape == (n + 1,)
    with mpmath.workdps(40):
        for k in {0, n, n // 2, n // 3, min(n, 1), min(n, 20)}:
            error = abs(mpmath.log(mpmath.binomial(n, k)) - mpmath.mpf(float(actual[k])))
            assert error <= 2.0**-50 * math.lgamma(n + 1)


def test_erfcx_without_scipy_has_the_documented_error() -> None:
    """`erfcx_without_scipy` is 0 at infinity, and differs from mpmath by at most 2^-49 and from SciPy by at most 2^-48.

    Both differences are relative. The comparison with mpmath has only values below 10,000.
    """
    x = np.concatenate(
        [
            RNG.uniform(low=-3.6, high=6, size=400),
            np.exp(RNG.uniform(low=1, high=60, size=100)),
            [2.5, np.nextafter(2.5, 0), 0.0],
        ]
    )
    with mpmath.workdps(60):
        exact = [
            float(mpmath.exp(mpmath.mpf(single) ** 2) * mpmath.erfc(single))
            for single in x.tolist()
            if single < 1e4
        ]
    np.testing.assert_allclose(special.erfcx_without_scipy(x[x < 1e4]), exact, rtol=2.0**-49)
    np.testing.assert_allclose(
        special.erfcx_without_scipy(x), scipy.special.erfcx(x), rtol=2.0**-48
    )
    assert float(special.erfcx_without_scipy(np.inf)) == 0


def test_normal_quantile_agrees_with_scipy() -> None:
    """The quantile function of the normal distribution agrees with SciPy's within 1e-14, from 1e-300 to 1 - 1e-16.

    The quantiles at 0 and 1 are infinite.
    """
    p = np.concatenate([np.geomspace(1e-300, 0.4, 500), 1 - np.geomspace(1e-16, 0.4, 200)])
    assert special.ndtri_without_scipy(p) == pytest.approx(scipy.special.ndtri(p), rel=1e-14)
    assert special.ndtri_without_scipy([0.0, 0.5, 1.0]).tolist() == [-math.inf, 0.0, math.inf]
