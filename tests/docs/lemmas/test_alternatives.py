"""Steps of docs/proofs/alternatives.md hold for sampled Gaussians: the worst pair, the Renyi curve, extreme noises."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from pate.accounting import Adjacency, SampledGaussianEvent
from pate.accounting.sampled_gaussian import sampled_gaussian_profiles, sampled_gaussian_rdp
from pate.array_types import FloatArray


def hockey_stick(ratio: float, sampling_prob: float, covariance: FloatArray) -> float:
    """Returns the hockey stick at gamma = e^epsilon of two mixtures of a standard normal and a shifted one.

    That is q E (e^(U - s11 / 2) - gamma e^(V - s22 / 2) - b)^+ for centered normals (U, V), with b = (gamma - 1) (1 -
    q) / q. Given V the expectation is exact; over V it is summed on a grid.

    Args:
        ratio: gamma, the ratio of probabilities above which the difference counts.
        sampling_prob: q, the probability of the shifted normal.
        covariance: the scalar products of the two shifts, `[[s11, s12], [s12, s22]]`.
    """
    s11 = covariance[0, 0]
    s22 = covariance[1, 1]
    s12 = covariance[0, 1]
    slope = s12 / s22
    std_given_v = math.sqrt(s11 - slope * s12)
    v = np.linspace(-12, 12, 20_001) * math.sqrt(s22)
    strike = ratio * np.exp(v - s22 / 2) + (ratio - 1) * (1 - sampling_prob) / sampling_prob
    mean_given_v = np.exp(slope * v - slope * slope * s22 / 2)
    # the formula of Black and Scholes for the mean of (lognormal - strike)^+
    positive_strike = np.maximum(strike, 1e-300)
    d1 = np.log(mean_given_v / positive_strike) / std_given_v + std_given_v / 2
    d2 = d1 - std_given_v
    gain = np.where(
        strike > 0,
        mean_given_v * norm.cdf(d1) - positive_strike * norm.cdf(d2),
        mean_given_v - strike,
    )
    density = norm.pdf(v, scale=math.sqrt(s22))
    return sampling_prob * float(np.trapezoid(gain * density, v))


@pytest.mark.parametrize(
    ("sampling_prob", "ratio"), [(0.066, 1.4), (0.066, 0.95), (0.5, 3.0), (0.5, 0.5), (0.9, 30.0)]
)
def test_the_stick_rises_along_the_way_to_the_worst_pair(
    sampling_prob: float, ratio: float
) -> None:
    """The hockey stick of two mixtures never falls as the covariance moves to that of the worst pair.

    The covariance moves on a line; the worst pair has two opposite moves of the largest length, 1.2. The hockey stick
    of the worst pair equals the package's profile. The test is of step 2 of the proof.
    """
    worst_covariance = 1.2**2 * np.array([[1, -0.999999], [-0.999999, 1]])
    for first_length, second_length, cosine in (
        (1.2, 1.2, 0.9),
        (0.3, 1.1, 0.0),
        (1.0, 0.2, -0.9),
        (0.7, 0.7, 0.99),
    ):
        product = first_length * second_length * cosine
        start_covariance = np.array([[first_length**2, product], [product, second_length**2]])
        hockey_sticks = [
            hockey_stick(
                ratio,
                sampling_prob=sampling_prob,
                covariance=(1 - share) * start_covariance + share * worst_covariance,
            )
            for share in np.linspace(0, 1, 9)
        ]
        assert all(later >= before - 1e-9 for before, later in pairwise(hockey_sticks))
    event = SampledGaussianEvent(noise_multiplier=0.5 / 1.2, sampling_prob=sampling_prob)
    profiles = sampled_gaussian_profiles(event, epsilons=np.array([math.log(ratio)]))
    worst_hockey_stick = hockey_stick(
        ratio, sampling_prob=sampling_prob, covariance=worst_covariance
    )
    assert worst_hockey_stick == pytest.approx(profiles[0][0], rel=1e-4, abs=1e-7)


def renyi_by_quadrature(
    renyi_order: float, sampling_prob: float, mean_shift: float, adjacency: Adjacency
) -> mpmath.mpf:
    """Returns the Renyi divergence of the pair of laws of a sampled Gaussian, by quadrature with 30 digits.

    With probability `sampling_prob`, the mean of a standard normal moves by `mean_shift`. Under replace-one the other
    law of the pair moves the other way, and under add-remove it is the standard normal.
    """
    with mpmath.workdps(30):
        a = mpmath.mpf(renyi_order)
        q = mpmath.mpf(sampling_prob)
        shift = mpmath.mpf(mean_shift)

        def ratio_to_normal(outcome: mpmath.mpf) -> mpmath.mpf:
            """Returns the density of the mixture over that of the standard normal."""
            return 1 - q + q * mpmath.exp(shift * outcome - shift * shift / 2)

        def integrand(outcome: mpmath.mpf) -> mpmath.mpf:
            """Returns the term of the moment minus its tangent at equal laws; the integral of the tangent is 1."""
            first = ratio_to_normal(outcome)
            second = ratio_to_normal(-outcome) if adjacency is Adjacency.REPLACE_ONE else 1
            term = first**a * second ** (1 - a) - a * first + (a - 1) * second
            return mpmath.npdf(outcome) * term

        interval_ends = np.linspace(
            -mean_shift - 20, 2 * renyi_order * mean_shift + 20, 24
        ).tolist()
        # Gauss-Legendre takes half of the time of the default, and agrees with it in 18 digits.
        moment_less_1 = mpmath.quad(integrand, interval_ends, method="gauss-legendre")
        return mpmath.log1p(moment_less_1) / (a - 1)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    ("sampling_prob", "mean_shift", "orders"),
    [
        (0.066, 0.5, (1.001, 2.0, 27.0)),
        (0.3, 2.0, (1.05, 3.5, 8.0)),
        (0.999, 1.0, (1.5, 20.0)),
        (1e-6, 1.0, (1.001, 27.0)),
        (0.1, 13.0, (1.001, 1.2, 3.0)),
        (0.3, 40.0, (1.001, 1.5)),
        (0.5, 0.02, (2.0, 400.0)),
    ],
)
def test_curves_are_those_of_the_pair_from_above(
    sampling_prob: float, mean_shift: float, orders: tuple[float, ...], adjacency: Adjacency
) -> None:
    """The Renyi curve of a sampled Gaussian is at least the divergence by quadrature, and at most 0.01% more.

    The shifts are 0.02 to 40 standard deviations. Negative control: a curve that is 10% smaller lies below the
    divergence.
    """
    event = SampledGaussianEvent(
        noise_multiplier=(0.5 if adjacency is Adjacency.REPLACE_ONE else 1.0) / mean_shift,
        sampling_prob=sampling_prob,
        adjacency=adjacency,
    )
    curve = sampled_gaussian_rdp(event, orders=np.array(orders)).tolist()
    for order, price in zip(orders, curve, strict=True):
        exact = float(
            renyi_by_quadrature(
                renyi_order=order,
                sampling_prob=sampling_prob,
                mean_shift=mean_shift,
                adjacency=adjacency,
            )
        )
        assert exact * (1 - 1e-12) <= price <= exact * (1 + 1e-4)
        assert not 0.9 * price >= exact


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_smallest_and_largest_noises_and_samples_have_curves(adjacency: Adjacency) -> None:
    """A sampled Gaussian has a Renyi curve for noise multipliers from 5e-324 to 1e308.

    Sampling probabilities go from 5e-324 to 1. The curve is at least 0 and at most that of the Gaussian without
    sampling.
    """
    orders = np.array([1.001, 1.5, 30.0, 1e6])
    for noise_multiplier in (5e-324, 1e-200, 1e-3, 1.0, 1e5, 1e308):
        for sampling_prob in (5e-324, 1e-300, 1e-9, 0.5, 1 - 2**-53, 1.0):
            event = SampledGaussianEvent(
                noise_multiplier=noise_multiplier, sampling_prob=sampling_prob, adjacency=adjacency
            )
            curve = sampled_gaussian_rdp(event, orders=orders)
            with np.errstate(over="ignore"):
                unsampled_curve = orders / 2 * np.square(1 / np.float64(noise_multiplier))
            assert (curve >= 0).all()
            assert (curve <= unsampled_curve).all()
