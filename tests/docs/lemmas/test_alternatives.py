"""Single steps of docs/proofs/alternatives.md."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.stats import norm

from pate.accounting import Adjacency, SampledGaussianEvent
from pate.accounting.sampled_gaussian import sampled_gaussian_profiles, sampled_gaussian_rdp
from pate.array_types import FloatArray

REPLACED = Adjacency.REPLACE_ONE


def expected_gain(gamma: float, b: float, covariance: FloatArray) -> float:
    """Returns E (e^(U - s11 / 2) - gamma e^(V - s22 / 2) - b)^+ for centered normals (U, V) with a covariance `[2, 2]`.

    Given V the expectation is exact; over V it is summed on a grid.
    """
    s11 = covariance[0, 0]
    s22 = covariance[1, 1]
    s12 = covariance[0, 1]
    slope = s12 / s22
    left = math.sqrt(s11 - slope * s12)
    v = np.linspace(-12, 12, 20_001) * math.sqrt(s22)
    strike = gamma * np.exp(v - s22 / 2) + b
    mean = np.exp(slope * v - slope * slope * s22 / 2)  # of the first, given V
    safe = np.maximum(strike, 1e-300)
    place = np.log(mean / safe) / left + left / 2
    gain = np.where(
        strike > 0, mean * norm.cdf(place) - safe * norm.cdf(place - left), mean - strike
    )
    return float(np.trapezoid(gain * norm.pdf(v, 0, math.sqrt(s22)), v))


@pytest.mark.parametrize(
    ("q", "gamma"), [(0.066, 1.4), (0.066, 0.95), (0.5, 3.0), (0.5, 0.5), (0.9, 30.0)]
)
def test_the_stick_rises_along_the_way_to_the_worst_pair(q: float, gamma: float) -> None:
    """`expected_gain`, a hockey stick of two mixtures, never falls as the covariance moves to that of the worst pair.

    The covariance moves on a line; the worst pair has two opposite moves of the largest length, 1.2. There the hockey
    stick equals the package's profile. This is step 2 of the proof.
    """
    b = (gamma - 1) * (1 - q) / q
    worst = 1.2**2 * np.array([[1, -0.999999], [-0.999999, 1]])
    for first, second, cosine in (
        (1.2, 1.2, 0.9),
        (0.3, 1.1, 0.0),
        (1.0, 0.2, -0.9),
        (0.7, 0.7, 0.99),
    ):
        mixed = first * second * cosine
        start = np.array([[first**2, mixed], [mixed, second**2]])
        gains = [expected_gain(gamma, b, (1 - t) * start + t * worst) for t in np.linspace(0, 1, 9)]
        assert all(later >= before - 1e-9 for before, later in pairwise(gains))
    event = SampledGaussianEvent(noise_multiplier=0.5 / 1.2, sampling_prob=q)
    assert q * expected_gain(gamma, b, worst) == pytest.approx(
        sampled_gaussian_profiles(event, epsilons=np.array([math.log(gamma)]))[0][0],
        rel=1e-4,
        abs=1e-7,
    )


def moment(
    renyi_order: float, sampling_prob: float, mean_shift: float, adjacency: Adjacency
) -> mpmath.mpf:
    """Returns the Renyi divergence of the pair of laws of a sampled Gaussian at a Renyi order.

    It is integrated by quadrature with 30 digits. A mean moves by `mean_shift` standard deviations with probability
    `sampling_prob`.
    """
    with mpmath.workdps(30):
        a, sampling_prob, mean_shift = (
            mpmath.mpf(number) for number in (renyi_order, sampling_prob, mean_shift)
        )

        def ratio(x: mpmath.mpf) -> mpmath.mpf:
            return (
                1
                - sampling_prob
                + sampling_prob * mpmath.exp(mean_shift * x - mean_shift * mean_shift / 2)
            )

        def excess(x: mpmath.mpf) -> mpmath.mpf:
            first = ratio(x)
            second = ratio(-x) if adjacency is REPLACED else 1
            return mpmath.npdf(x) * (first**a * second ** (1 - a) - a * first + (a - 1) * second)

        ends = np.linspace(-float(mean_shift) - 20, float(2 * a * mean_shift) + 20, 24).tolist()
        return mpmath.log1p(mpmath.quad(excess, ends)) / (a - 1)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    ("q", "shift", "orders"),
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
    q: float, shift: float, orders: tuple[float, ...], adjacency: Adjacency
) -> None:
    """The Renyi curve of a sampled Gaussian is at least the divergence by quadrature, and at most 0.01% more.

    The shifts are 0.02 to 40 standard deviations. Negative control: a curve that is 10% smaller lies below the
    divergence.
    """
    event = SampledGaussianEvent(
        noise_multiplier=(0.5 if adjacency is REPLACED else 1.0) / shift,
        sampling_prob=q,
        adjacency=adjacency,
    )
    for order, curve in zip(
        orders, sampled_gaussian_rdp(event, orders=np.array(orders)).tolist(), strict=True
    ):
        exact = float(
            moment(renyi_order=order, sampling_prob=q, mean_shift=shift, adjacency=adjacency)
        )
        assert exact * (1 - 1e-12) <= curve <= exact * (1 + 1e-4)
        assert not 0.9 * curve >= exact


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_smallest_and_largest_noises_and_samples_have_curves(adjacency: Adjacency) -> None:
    """With noise multipliers from 5e-324 to 1e308 and sampling probabilities from 5e-324 to 1, all curves are bounded.

    The Renyi curve is at least 0 and at most that of the Gaussian without sampling.
    """
    orders = np.array([1.001, 1.5, 30.0, 1e6])
    for noise in (5e-324, 1e-200, 1e-3, 1.0, 1e5, 1e308):
        for q in (5e-324, 1e-300, 1e-9, 0.5, 1 - 2**-53, 1.0):
            curve = sampled_gaussian_rdp(
                SampledGaussianEvent(noise_multiplier=noise, sampling_prob=q, adjacency=adjacency),
                orders,
            )
            with np.errstate(over="ignore"):
                assert (curve >= 0).all()
                assert (curve <= orders / 2 * np.square(1 / np.float64(noise))).all()
