"""Steps of docs/proofs/trade_off.md: inequalities of Claim 4, guesses in Claim 5 and bounded ranges in Claim 6."""

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr, ndtri
from scipy.stats import norm

from pate import accounting


def test_product_exceeds_one_on_every_interval() -> None:
    """-2 log Phi(-z) (1 - z R(z)), with Mills' ratio R, is above 1.1 on each of 1000 intervals from -3 to 1.8.

    The two factors are monotone, so their values at the ends of an interval bound their product.
    """
    z = np.linspace(-3.0, 1.8, 1001)
    mills_ratio = ndtr(-z) / norm.pdf(z)
    growing_factor = -2 * log_ndtr(-z)
    falling_factor = 1 - z * mills_ratio
    assert (np.diff(growing_factor) > 0).all()
    assert (np.diff(falling_factor) < 0).all()
    assert (growing_factor[:-1] * falling_factor[1:] > 1.1).all()


def test_bounds_of_the_product_outside_of_the_intervals() -> None:
    """The bounds by which the proof of Claim 4 shows the product above 1 for z > 1.8 and for z < -3 hold.

    The product is -2 log Phi(-z) (1 - z R(z)), with Mills' ratio R. The bound of R is tested on 500 points from 1.8 to
    30, and the others are numbers.
    """
    smallest_z = 1.8
    assert np.log(2 * np.pi * smallest_z**2) > 3
    z = np.linspace(smallest_z, 30.0, 500)
    mills_ratio = np.exp(log_ndtr(-z)) / norm.pdf(z)
    assert (mills_ratio < (z**2 + 2) / (z**3 + 3 * z)).all()
    assert 2 * (9 / 10) * ndtr(3.0) > 1


def test_difference_falls_with_alpha() -> None:
    """Phi^-1(1 - alpha) - Phi^-1(1 - p(alpha)) falls as alpha falls, for three values of rho.

    p(alpha) = exp(-(sqrt(log(1 / alpha)) - sqrt(rho))^2) is the bound of Claim 4 for rho-zCDP.
    """
    for rho in (0.01, 0.5, 3.0):
        minus_log_alphas = np.linspace(rho * 1.01, 600, 4000)
        values_of_p = np.exp(-((np.sqrt(minus_log_alphas) - np.sqrt(rho)) ** 2))
        differences = ndtri(values_of_p) - ndtri(np.exp(-minus_log_alphas))
        assert (np.diff(differences) < 1e-9).all()


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 12.0])
def test_gaussian_curve_is_below_the_corners_of_bounded_ranges(epsilon: float) -> None:
    """The Gaussian curve that meets a hyperbola on the diagonal lies below the hyperbola elsewhere.

    On the hyperbola are the corners of the trade-off curves of all two-point pairs that a bounded range allows. With a
    smaller mu the Gaussian curve lies above the hyperbola on the diagonal.
    """
    t = np.linspace(0.0, epsilon, 2001)[1:-1]
    alphas = np.expm1(epsilon - t) / np.expm1(epsilon)
    betas = np.expm1(t) / np.expm1(epsilon)
    mu = 2 * ndtri(1 / (1 + np.exp(-epsilon / 2)))
    assert (norm.cdf(norm.isf(alphas) - mu) <= betas * (1 + 1e-9)).all()
    middle = len(t) // 2  # on the diagonal
    assert norm.cdf(norm.isf(alphas[middle]) - mu) == pytest.approx(betas[middle])
    smaller_mu = 0.999 * mu
    assert norm.cdf(norm.isf(alphas[middle]) - smaller_mu) > betas[middle]


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 12.0])
def test_log_slope_of_the_hyperbola_has_one_inflection(epsilon: float) -> None:
    """Half of the derivative of a hyperbola's log-slope exceeds z up to one point, and is smaller than z beyond it.

    The corners of trade-off curves that a bounded range allows are on this hyperbola. Both sides are functions of z =
    Phi^-1(1 - alpha), where alpha is the probability of a false alarm.
    """
    exp_minus_epsilon = np.exp(-epsilon)
    z = np.linspace(-8.0, 8.0, 4001)
    half_derivative = norm.pdf(z) / (exp_minus_epsilon / (1 - exp_minus_epsilon) + norm.cdf(-z))
    signs = np.sign(half_derivative - z)
    assert (np.diff(signs) != 0).sum() == 1
    assert signs[0] > 0 > signs[-1]


@pytest.mark.parametrize("num_values", [2, 5, 100])
def test_best_guess_of_a_value_succeeds_within_the_bound(num_values: int) -> None:
    """The best guess of one of n equally likely one-hot values from a noisy sum is right no more often than allowed.

    The trade-off curve f allows the probability 1 - f(1 / n). The guess is better than a blind one.
    """
    noise_std = 0.8
    rng = np.random.default_rng(3)
    outcomes = rng.normal(scale=noise_std, size=(20_000, num_values))
    outcomes[:, 0] += 1  # the value is the first one; by symmetry the success is the same for all
    success_prob = float((outcomes.argmax(axis=1) == 0).mean())
    # one value in place of another moves the sum by the root of 2
    accountant = accounting.AutoAccountant().compose(
        accounting.GaussianEvent(noise_multiplier=noise_std / np.sqrt(2))
    )
    assert success_prob <= 1 - accountant.trade_off(alpha=1 / num_values)
    assert success_prob > 1 / num_values


def test_smaller_price_is_broken_by_the_best_guess() -> None:
    """Negative control: the best guess of two values exceeds the bound for four times the noise."""
    accountant = accounting.AutoAccountant().compose(
        accounting.GaussianEvent(noise_multiplier=4 * 0.8 / np.sqrt(2))
    )
    success_prob = norm.cdf(1 / np.sqrt(2) / 0.8)
    assert success_prob > 1 - accountant.trade_off(alpha=0.5)
