"""Renyi curves against 50-digit arithmetic, quadrature and search."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr

from pate.accounting import (
    Event,
    NoisyMaxGaussianEvent,
    OneBitEvent,
    OpposedMaximaEvent,
    SmoothSensitivityEvent,
)
from pate.accounting.rdp import rdp_curve_of
from pate.accounting.renyi import bounded_range_rdp, pure_dp_rdp
from pate.array_types import FloatArray
from tests.memory import measure_memory

mpmath.mp.dps = 50
ORDERS = np.array([1.001, 1.5, 2.0, 8.0, 64.0, 1000.0])


def renyi_curve(event: Event, orders: FloatArray = ORDERS) -> FloatArray:
    """Returns the Renyi divergence of an event at each of the orders."""
    return rdp_curve_of(event)(orders)


def renyi_divergence(event: Event, order: float) -> float:
    """Returns the Renyi divergence of an event at one order."""
    return float(renyi_curve(event, orders=np.array([order]))[0])


def exact_bit_divergence(logit_p: float, logit_q: float, order: float) -> Any:
    """Returns the Renyi divergence at a Renyi order between two bits with given logits, in mpmath."""

    def prob_of_logit(logit: float) -> Any:
        return 1 / (1 + mpmath.exp(-mpmath.mpf(logit)))

    exact_order = mpmath.mpf(order)
    ones = (prob_of_logit(logit=logit_p), prob_of_logit(logit=logit_q))
    zeros = (prob_of_logit(logit=-logit_p), prob_of_logit(logit=-logit_q))
    return mpmath.log(sum(p**exact_order * q ** (1 - exact_order) for p, q in (ones, zeros))) / (
        exact_order - 1
    )


@pytest.mark.parametrize(
    ("logit_p", "logit_q"), [(0.0, 1.0), (-20.7, -19.0), (-45.0, -40.0), (30.0, 33.0), (0.0, 1e-3)]
)
def test_the_divergence_of_a_bit_is_the_larger_of_both_directions(
    logit_p: float, logit_q: float
) -> None:
    """The Renyi curve of a noisy bit with two logits is the larger divergence of both directions, at each Renyi order.

    The reference is computed in 50 digits.
    """
    expected = [
        max(
            float(exact_bit_divergence(logit_p=logit_p, logit_q=logit_q, order=order)),
            float(exact_bit_divergence(logit_p=logit_q, logit_q=logit_p, order=order)),
        )
        for order in ORDERS
    ]
    computed = renyi_curve(OneBitEvent(logits=(logit_p, logit_q), reach=1))
    np.testing.assert_allclose(computed, expected, rtol=1e-9, atol=1e-15 / (ORDERS[0] - 1))


@pytest.mark.parametrize("worst", [0, 255, 256, 2999])
def test_a_bit_of_many_statistics_costs_its_worst_pair(
    worst: int,
) -> None:
    """A bit has 3001 logits that are equally far apart except for one pair of neighbors, which is 3 apart.

    The bit's Renyi curve equals that of this pair alone, and less than 16 MiB are allocated.
    """
    logits = np.arange(3001) / 1e4
    orders = np.linspace(1.1, 99, 400)
    logits[worst + 1 :] += 3.0
    event = OneBitEvent(logits=tuple(logits.tolist()), reach=1)
    curve = measure_memory(lambda: renyi_curve(event, orders=orders))
    assert curve.peak_memory < 2**24  # all pairs at once take 60 MB
    worst_pair = OneBitEvent(logits=tuple(logits[worst : worst + 2].tolist()), reach=1)
    np.testing.assert_array_equal(curve.result, renyi_curve(worst_pair, orders=orders))


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 2.0, 30.0, 800.0])
def test_the_curve_of_pure_dp_is_that_of_randomized_response(epsilon: float) -> None:
    """The Renyi curve of a pure-DP event is that of randomized response, the worst release of pure DP.

    At each Renyi order it is at most epsilon, and at most order * epsilon^2 / 2.
    """
    expected = [
        float(exact_bit_divergence(logit_p=epsilon, logit_q=-epsilon, order=order))
        for order in ORDERS
    ]
    np.testing.assert_allclose(pure_dp_rdp(epsilon, orders=ORDERS), expected, rtol=1e-9, atol=1e-12)
    assert (pure_dp_rdp(epsilon, orders=ORDERS) <= min(epsilon, math.inf) * (1 + 1e-12)).all()
    assert (pure_dp_rdp(epsilon, orders=ORDERS) <= ORDERS * epsilon**2 / 2 + 1e-12).all()


@pytest.mark.parametrize("epsilon", [1e-4, 0.0513, 0.5, 2.0, 10.0])
def test_bounded_range_is_the_supremum_over_the_place_of_the_range(epsilon: float) -> None:
    """The Renyi curve of a bounded-range event is the largest over all positions of the interval of its losses.

    The losses lie in an interval of length epsilon, anywhere around 0; the worst position is found by search.
    """
    t = np.linspace(0, epsilon, 20_003)[1:-1]
    for order, computed in zip(ORDERS, bounded_range_rdp(epsilon, orders=ORDERS), strict=True):
        s = -np.expm1(t - epsilon) / (np.exp(t) - np.exp(t - epsilon))
        moments = np.logaddexp(np.log(s) + order * t, np.log1p(-s) + order * (t - epsilon))
        searched = moments.max() / (order - 1)
        assert searched * (1 - 1e-5) - 1e-11 <= computed <= order * epsilon**2 / 8 * (1 + 1e-12)
        assert computed == pytest.approx(searched, rel=1e-3, abs=1e-11)


@pytest.mark.parametrize(
    ("multiplier", "candidates"), [(50.0, 3), (25.0, 40), (2.0, 5), (0.5, 3), (4.0, 1000)]
)
@pytest.mark.parametrize("order", [1.5, 8.0, 14.0])
def test_noisy_max_is_the_smallest_divergence_between_shifted_maxima(
    multiplier: float, candidates: int, order: float
) -> None:
    """At one Renyi order, the divergences of a noisy maximum and of opposed maxima agree with an adaptive quadrature.

    Opposed maxima are noisy maxima with a second bound, between two maxima that move in opposite directions. The
    quadrature integrates the density of the maximum of `candidates - 1` normals. The reference is the smallest of the
    bounds that are proven for each kind of event.
    """
    shift = 2 / multiplier
    num_other_candidates = candidates - 1

    def log_density(x: float) -> float:
        return (
            math.log(num_other_candidates / math.sqrt(2 * math.pi))
            - x * x / 2
            + (num_other_candidates - 1) * float(log_ndtr(x))
        )

    def divergence(near: float, far: float) -> float:
        def log_integrand(x: float) -> float:
            return order * log_density(x - near) - (order - 1) * log_density(x - far)

        grid = np.linspace(-12 - order * shift, 12 + order * shift, 20_001)
        values = np.array([log_integrand(x) for x in grid[::20]])
        peak = float(values.max())
        center = float(grid[::20][values.argmax()])
        peaks = [center - 1, center, center + 1]

        def scaled_integrand(x: float) -> float:
            return math.exp(log_integrand(x) - peak)

        integral, _ = quad(scaled_integrand, a=grid[0], b=grid[-1], points=peaks, limit=400)
        return (peak + math.log(integral)) / (order - 1)

    of_opposed_maxima = divergence(near=shift / 2, far=0.0) + divergence(near=0.0, far=shift / 2)
    of_one_maximum = min(divergence(near=shift, far=0.0), divergence(near=0.0, far=shift))
    corollary_9 = order * shift**2 / 2 + math.log(candidates) / (order - 1)
    for event_class, by_integrals in (
        (NoisyMaxGaussianEvent, of_one_maximum),
        (OpposedMaximaEvent, min(of_one_maximum, of_opposed_maxima)),
    ):
        event = event_class(noise_multiplier=multiplier, num_candidates=candidates)
        computed = renyi_divergence(event, order=order)
        assert computed == pytest.approx(min(by_integrals, corollary_9), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "order"), [(2.3e-7, 2141.0), (5e-4, 3119.0), (1e-5, 2e4), (0.05, 8.0), (3.0, 1e5)]
)
def test_small_prices_are_rounded_up(epsilon: float, order: float) -> None:
    """The Renyi divergences of bounded range and of a bit, from 1e-11 to 3, are at least their values in 50 digits.

    The terms of the sums for tiny divergences cancel in double precision.
    """
    exact_order = mpmath.mpf(order)
    exact_epsilon = mpmath.mpf(epsilon)
    # The worst pair has two losses, whose difference is epsilon.
    remainder = 1 - mpmath.exp(-exact_order * exact_epsilon)
    difference = mpmath.exp(-exact_epsilon) - mpmath.exp(-exact_order * exact_epsilon)
    larger_loss = mpmath.log((exact_order - 1) * remainder / (exact_order * difference))
    smaller_loss = larger_loss - exact_epsilon
    larger_ratio = mpmath.exp(larger_loss)
    smaller_ratio = mpmath.exp(smaller_loss)
    prob_of_larger_loss = (1 - smaller_ratio) / (larger_ratio - smaller_ratio)
    exact = mpmath.log(
        prob_of_larger_loss * larger_ratio**exact_order
        + (1 - prob_of_larger_loss) * smaller_ratio**exact_order
    ) / (exact_order - 1)
    computed = bounded_range_rdp(epsilon, orders=np.array([order]))[0]
    assert exact <= mpmath.mpf(computed) * (1 + mpmath.mpf(2) ** -52)
    assert computed <= float(exact) * (1 + 1e-3)
    high = -29.0 + epsilon
    bit_divergence = max(
        exact_bit_divergence(logit_p=-29.0, logit_q=high, order=order),
        exact_bit_divergence(logit_p=high, logit_q=-29.0, order=order),
    )
    computed_bit_divergence = renyi_divergence(
        OneBitEvent(logits=(-29.0, high), reach=1), order=order
    )
    assert bit_divergence <= mpmath.mpf(computed_bit_divergence) * (1 + mpmath.mpf(2) ** -52)


def test_smooth_sensitivity_is_rounded_up_near_order_one() -> None:
    """The Renyi divergence of smooth sensitivity at Renyi order 1.005 is at least its closed form
    in mpmath, and at most 0.1% more.
    """
    exact_order = mpmath.mpf(1.005)
    exact_beta = mpmath.mpf(1.5e-6)
    exact_multiplier = mpmath.mpf(4440.0)
    remainder = 1 + exact_order * mpmath.expm1(-2 * exact_beta)
    narrower = -exact_order * exact_beta - mpmath.log(remainder) / 2
    wider = exact_order * exact_beta - mpmath.log1p(exact_order * mpmath.expm1(2 * exact_beta)) / 2
    exact = exact_order * mpmath.exp(-2 * exact_beta) / (
        2 * exact_multiplier * exact_multiplier * remainder
    ) + max(narrower, wider) / (exact_order - 1)
    event = SmoothSensitivityEvent(noise_multiplier=4440.0, beta=1.5e-6)
    computed = renyi_divergence(event, order=1.005)
    assert exact <= computed <= float(exact) * (1 + 1e-3)
