"""Conversions of divergences, and prices of Gaussian releases that are at least those in 50 or 100 digits."""

import itertools
import math
import operator
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.special import logsumexp

from pate import accounting
from pate.accounting.conversion import (
    conversion_penalty,
    rdp_to_deltas,
    rdp_to_epsilons,
    zcdp_to_delta,
)

mpmath.mp.dps = 50


def test_the_penalty_of_a_conversion_falls_in_the_order() -> None:
    """The term that a conversion adds to the Renyi divergence falls as the Renyi order grows.

    A divergence of 0 converts to epsilon 0 at delta 0.9. A divergence of 50 or of infinity converts to delta 1 at
    epsilon 1.
    """
    penalty = conversion_penalty(orders=1 + np.geomspace(1e-3, 1e6, 200), target_delta=1e-6)
    assert (np.diff(penalty) < 0).all()
    orders = np.array([1.5, 100.0])
    assert (rdp_to_epsilons(orders, rdp=np.zeros(2), target_delta=0.9) == 0).all()
    assert (rdp_to_deltas(orders, rdp=np.array([50.0, np.inf]), target_epsilon=1.0) == 1).all()


FEW_ORDERS = np.array([1.01, 1.5, 3.0, 10.0, 80.0])


def test_converted_deltas_bound_random_pairs_closely() -> None:
    """The delta from the Renyi curve of two random distributions is at least their exact hockey-stick divergence.

    This holds for 500 pairs at three epsilons each. In at least one case the exact value is more than 80% of the
    converted delta.
    """
    rng = np.random.default_rng(0)
    largest_ratio = 0.0
    for _ in range(500):
        first_law, second_law = rng.dirichlet(np.full(4, 0.7), size=2) + 1e-9
        first_law = first_law / first_law.sum()
        second_law = second_law / second_law.sum()
        log_first_law = np.log(first_law)[:, None]
        log_second_law = np.log(second_law)[:, None]
        curve = logsumexp(
            FEW_ORDERS * log_first_law + (1 - FEW_ORDERS) * log_second_law, axis=0
        ) / (FEW_ORDERS - 1)
        for epsilon in (0.1, 1.0, 3.0):
            exact = float(np.maximum(first_law - math.exp(epsilon) * second_law, 0).sum())
            bound = float(rdp_to_deltas(FEW_ORDERS, rdp=curve, target_epsilon=epsilon).min())
            assert exact <= bound * (1 + 1e-9) + 1e-15
            largest_ratio = max(largest_ratio, exact / bound)
    assert largest_ratio > 0.8


def test_epsilon_and_delta_are_inverse_and_never_above_the_classic_form() -> None:
    """For each Renyi order, the converted epsilon is at most rdp + log(1 / delta) / (order - 1), the classic form.

    Where the epsilon is positive, `rdp_to_deltas` converts it back to the original delta.
    """
    curve = 0.05 * FEW_ORDERS
    for delta in (1e-9, 1e-5, 0.1):
        epsilons = rdp_to_epsilons(FEW_ORDERS, rdp=curve, target_delta=delta)
        assert (epsilons <= np.maximum(curve + math.log(1 / delta) / (FEW_ORDERS - 1), 0)).all()
        positive = epsilons > 0
        for order, rdp, epsilon in zip(
            FEW_ORDERS[positive], curve[positive], epsilons[positive], strict=True
        ):
            converted_deltas = rdp_to_deltas(
                orders=np.array([order]), rdp=np.array([rdp]), target_epsilon=float(epsilon)
            )
            assert converted_deltas[0] == pytest.approx(delta, rel=1e-9)


MULTIPLIERS = (1e-3, 0.03, 0.7, 1.9, 2.1, 50.0, 1e4, 1e7, 1e10, 1e13)
COUNTS = (1, 600, 10**9)
DELTAS = (5e-324, 1e-300, 1e-120, 1e-30, 1e-9, 1e-3, 0.6)
# The error of an epsilon, relative to the sum of epsilon and mu.
TOLERANCE = 1e-12


def gaussian_pair_delta(mu: Any, epsilon: Any, earlier_loss: Any = 0) -> Any:
    """Returns the delta of a Gaussian pair with mean shift `mu` by the formula of Balle and Wang, in 100 digits.

    `earlier_loss` is a loss of earlier events, which is subtracted from epsilon.
    """
    with mpmath.workdps(100):
        mu = mpmath.mpf(mu)
        epsilon = mpmath.mpf(epsilon) - earlier_loss
        first_prob = mpmath.erfc((epsilon / mu - mu / 2) / mpmath.sqrt(2)) / 2
        second_prob = mpmath.erfc((epsilon / mu + mu / 2) / mpmath.sqrt(2)) / 2
        return first_prob - mpmath.exp(epsilon) * second_prob


def composed_mean_shift(multiplier: float, count: int = 1) -> Any:
    """Returns the mean shift `mu` of `count` composed Gaussians with one noise multiplier, in 100 digits."""
    with mpmath.workdps(100):
        return mpmath.sqrt(count) / mpmath.mpf(multiplier)


@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_gaussian_epsilon_and_delta_are_close_upper_bounds(multiplier: float) -> None:
    """The epsilon and delta of a Gaussian are at least the exact values in 100 digits and exceed them only slightly.

    The terms of the textbook formula cancel in double precision. At a multiplier of 1e13, this formula gives a negative
    delta already at 45% of the epsilon that is exact for a delta of 1e-120.
    """
    mu = 1 / multiplier
    for delta in DELTAS:
        epsilon = accounting.gaussian_epsilon(mu=mu, target_delta=delta)
        assert gaussian_pair_delta(mu=mu, epsilon=epsilon) <= delta
        if epsilon > 0:
            assert (
                gaussian_pair_delta(
                    mu=mu, epsilon=max(epsilon * (1 - TOLERANCE) - TOLERANCE * mu, 0)
                )
                > delta
            )
    for standardized_epsilon in (0.0, 0.1, 1.0, 8.0, 37.0, 39.0):
        epsilon = mu * (standardized_epsilon + mu / 2)
        truth = gaussian_pair_delta(mu=mu, epsilon=epsilon)
        # A large epsilon is known to fewer digits.
        tolerance = 1e-10 * (1 + epsilon * mpmath.mpf(2) ** -20)
        delta = accounting.gaussian_delta(mu=mu, epsilon=epsilon)
        assert truth <= delta <= truth * (1 + tolerance) + 1e-323


@pytest.mark.parametrize("mu", [1e-13, 1e-6, 0.3, 2.0])
def test_epsilon_is_positive_for_a_delta_just_below_that_of_zero(mu: float) -> None:
    """For a delta slightly below the Gaussian's delta at epsilon 0, the returned epsilon is positive.

    The true delta at this epsilon is at most the given delta. For a delta slightly above the Gaussian's delta at
    epsilon 0, the returned epsilon is 0.
    """
    at_zero = gaussian_pair_delta(mu=mu, epsilon=0)
    for share in (1e-15, 1e-9, 1e-3):
        delta = float(at_zero * (1 - share))
        epsilon = accounting.gaussian_epsilon(mu=mu, target_delta=delta)
        assert epsilon > 0 or delta >= at_zero
        assert gaussian_pair_delta(mu=mu, epsilon=epsilon) <= delta
    assert accounting.gaussian_epsilon(mu=mu, target_delta=float(at_zero) * (1 + 1e-9)) == 0


@pytest.mark.parametrize(("multiplier", "count"), list(itertools.product(MULTIPLIERS[1:], COUNTS)))
def test_the_exact_accountant_bounds_the_true_delta_of_gaussians(
    multiplier: float, count: int
) -> None:
    """At the exact accountant's epsilon for `count` Gaussians, the true delta is at most the target delta.

    At an epsilon smaller by 1e-8, the true delta exceeds the target. Also, `get_delta` is at least
    the true delta.
    """
    spent = accounting.ExactAccountant().compose(
        accounting.GaussianEvent(noise_multiplier=multiplier), count=count
    )
    mu = composed_mean_shift(multiplier=multiplier, count=count)
    for delta in DELTAS:
        epsilon = spent.get_epsilon(delta)
        assert gaussian_pair_delta(mu=mu, epsilon=epsilon) <= delta
        if epsilon > 0:
            assert gaussian_pair_delta(mu=mu, epsilon=max(epsilon * (1 - 1e-8), 0)) > delta
        assert spent.get_delta(epsilon) >= gaussian_pair_delta(mu=mu, epsilon=epsilon)


@pytest.mark.parametrize("accountant", [accounting.RdpAccountant, accounting.PldAccountant])
def test_other_accountants_bound_the_true_delta_of_gaussians(accountant: Any) -> None:
    """At the epsilon of the Renyi or PLD accountant, the true delta (Balle and Wang) is at most the target delta."""
    noise_multipliers = (0.03, 1.9, 1e4, 1e13)
    counts = (1, 10**9)
    for multiplier, count in itertools.product(noise_multipliers, counts):
        spent = accountant().compose(
            accounting.GaussianEvent(noise_multiplier=multiplier), count=count
        )
        mu = composed_mean_shift(multiplier=multiplier, count=count)
        for delta in (1e-300, 1e-9, 1e-3):
            assert gaussian_pair_delta(mu=mu, epsilon=spent.get_epsilon(delta)) <= delta


def test_the_sum_of_many_different_gaussians_is_rounded_up() -> None:
    """The exact accountant composes 2,000 Gaussians with different noise multipliers.

    At its epsilon, the true delta is at most the target delta. The reference sums the squared
    inverse multipliers with 100 digits.
    """
    multipliers = np.random.default_rng(0).uniform(low=100, high=1e4, size=2000)
    spent = accounting.ExactAccountant().compose(
        accounting.ComposedEvent(
            tuple(accounting.GaussianEvent(noise_multiplier=m) for m in multipliers.tolist())
        )
    )
    with mpmath.workdps(100):
        mu = mpmath.sqrt(mpmath.fsum(1 / mpmath.mpf(m) ** 2 for m in multipliers.tolist()))
    for delta in (1e-200, 1e-6):
        assert gaussian_pair_delta(mu=mu, epsilon=spent.get_epsilon(delta)) <= delta


@pytest.mark.slow
@pytest.mark.parametrize("pure", [1e-12, 1e-3, 4.0])
def test_gaussians_with_pure_releases_are_bounded_from_above(pure: float) -> None:
    """A Gaussian and three pure-DP releases are composed by the exact and the Renyi accountant.

    At their epsilon, the true delta is at most the target delta. Randomized response is the worst
    pure release; the reference sums its losses and those of the Gaussian in 100 digits.
    """
    count = 3
    for multiplier in (0.4, 30.0, 1e6, 1e13):
        event = accounting.ComposedEvent(
            (
                accounting.GaussianEvent(noise_multiplier=multiplier),
                accounting.SelfComposedEvent(
                    event=accounting.PureDpEvent(epsilon=pure), count=count
                ),
            )
        )
        with mpmath.workdps(100):
            p = 1 / (1 + mpmath.exp(-mpmath.mpf(pure)))
            probs = [math.comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(count + 1)]
        for accountant in (accounting.ExactAccountant, accounting.RdpAccountant):
            spent = accountant().compose(event)
            for delta in (1e-300, 1e-180, 1e-30, 1e-6):
                epsilon = spent.get_epsilon(delta)
                with mpmath.workdps(100):
                    losses = [(2 * k - count) * mpmath.mpf(pure) for k in range(count + 1)]
                    deltas = [
                        gaussian_pair_delta(
                            mu=1 / mpmath.mpf(multiplier), epsilon=epsilon, earlier_loss=loss
                        )
                        for loss in losses
                    ]
                    truth = mpmath.fsum(map(operator.mul, probs, deltas))
                assert truth <= delta


@pytest.mark.parametrize(("mu", "epsilon"), [(1.0, 1e17), (1e-3, 1e300), (1e-300, 1.0), (1.0, 1e3)])
def test_a_delta_below_any_float_is_rounded_up_to_the_smallest(mu: float, epsilon: float) -> None:
    """The true delta is below 5e-324, the smallest positive float, and is never returned as 0."""
    assert accounting.gaussian_delta(mu=mu, epsilon=epsilon) == 5e-324


@pytest.mark.parametrize("rho", [1e-9, 1e-3, 0.1, 1.0, 1e2, 1e6])
def test_zcdp_to_delta_inverts_zcdp_to_epsilon(rho: float) -> None:
    """`zcdp_to_delta` converts the epsilon of `zcdp_to_epsilon` back to the original delta, within a millionth.

    The delta that comes back is at most the smallest delta over a dense grid of Renyi orders.
    """
    orders = 1 + np.geomspace(1e-6, 1e9, 30001)
    for delta in (1e-12, 1e-6, 1e-2):
        epsilon = accounting.zcdp_to_epsilon(rho, target_delta=delta)
        if epsilon > 0:
            assert zcdp_to_delta(rho, target_epsilon=epsilon) == pytest.approx(delta, rel=1e-6)
            logs = (orders - 1) * (rho * orders - epsilon + np.log1p(-1 / orders)) - np.log(orders)
            assert zcdp_to_delta(rho, target_epsilon=epsilon) <= math.exp(logs.min()) * (1 + 1e-9)
