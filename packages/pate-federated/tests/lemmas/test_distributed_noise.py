"""Steps of docs/proofs/distributed_noise.md."""

import math

import numpy as np
import pytest

from pate.array_types import FloatArray
from pate_federated import noise_shares
from pate_federated.noise_shares import NoiseShares

WHOLE_NUMBERS = np.arange(-400, 401)


def least_ratio_to_one_draw(variance: float, *, num_draws: int) -> float:
    """Returns the least ratio of the probability of a sum of narrow draws to that of one draw with the same variance.

    The minimum is over all values below 12 standard deviations of the sum.

    Args:
        variance: the variance of each narrow draw, a discrete Gaussian.
        num_draws: the number of draws in the sum.
    """

    def discrete_gaussian(variance: float) -> FloatArray:
        weights = np.exp(-(WHOLE_NUMBERS**2) / (2 * variance))
        return np.asarray(weights / weights.sum())

    law = share = discrete_gaussian(variance)
    for _ in range(num_draws - 1):
        law = np.convolve(law, share, mode="same")
    near = np.abs(WHOLE_NUMBERS) < 12 * math.sqrt(num_draws * variance)
    return float((law[near] / discrete_gaussian(num_draws * variance)[near]).min())


def failure_exponent(variance: float, *, num_draws: int) -> float:
    """Returns the exponent t of docs/proofs/distributed_noise.md for a sum of draws.

    Args:
        variance: the variance of each draw.
        num_draws: the number of draws in the sum.
    """
    waves = [math.exp(-2 * math.pi**2 * variance * j / (j + 1)) for j in range(1, num_draws)]
    return math.fsum(math.atanh(2 * wave / (1 - wave)) for wave in waves)


@pytest.mark.parametrize("num_draws", [2, 3, 8])
@pytest.mark.parametrize("variance", [0.15, 0.3, 0.5])
def test_a_sum_of_narrow_shares_has_the_claimed_part_of_one_draw(
    variance: float, num_draws: int
) -> None:
    """The least ratio of a sum of narrow shares to one wide draw is at least exp(-2 t), and below 1.

    The exponent t is that of `failure_exponent`, and for three shares of variance 0.3 a tenth of t is too small. The
    shares are much narrower than those of the package, so that the difference is visible.
    """
    least_ratio = least_ratio_to_one_draw(variance, num_draws=num_draws)
    exponent = failure_exponent(variance, num_draws=num_draws)
    assert math.exp(-2 * exponent) <= least_ratio * (1 + 1e-9)
    assert (
        least_ratio < 1 - 1e-9
    )  # without the probability beta of a failure, the claim of the note would be false
    if (variance, num_draws) == (0.3, 3):
        tenth_of_exponent = exponent / 10
        assert math.exp(-2 * tenth_of_exponent) > least_ratio  # which is too small


@pytest.mark.parametrize("num_holders", [1, 4, 16])
def test_the_package_computes_this_failure_probability(
    num_holders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`NoiseShares.failure_prob` of 1,000 draws is at least 1 - exp(-2000 t), and at most 0.1% larger.

    The exponent t of one draw is that of `failure_exponent`. For the usual widths of noise, the probability of 10^9
    draws is below 1e-250. With one holder the probability is 0.
    """
    shares = NoiseShares(noise_std=1.0, num_holders=num_holders)
    assert (shares.failure_prob(num_counts=10**9) < 1e-250) and (
        (shares.failure_prob(num_counts=1) > 0) == (num_holders > 1)
    )
    # narrow enough for figures that floats can hold
    monkeypatch.setattr(noise_shares, "_MIN_SHARE_STD", 1.0)
    shares = NoiseShares(noise_std=1.0, num_holders=num_holders)
    expected = -math.expm1(
        -2 * 1000 * failure_exponent(shares.share_variance, num_draws=num_holders)
    )
    assert shares.share_variance == 1
    assert expected <= shares.failure_prob(num_counts=1000) <= expected * 1.001
