"""Steps of docs/proofs/winner.md."""

import math
from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from pate.accounting import WinnerEvent
from pate.accounting.exact_grid import LossGrid, rounded_spacing
from pate.accounting.exact_steps import composition_step, dominating_pairs
from pate.accounting.winner import winner_rdp
from pate.accounting.winner_law import bend_of_change, bend_of_mass, bend_of_rest

Array = np.ndarray
PLACES = (-7.0, -2.2, -1.0, -0.3, 0.2, 0.75, 1.4, 2.0, 3.1, 8.0)
ORDERS = np.array([1.01, 1.5, 2.0, 4.0, 8.0, 20.0, 100.0])


def density(x: float) -> float:
    """Returns the density of the standard normal at x."""
    return math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


@cache
def law(first_mean: float, second_mean: float) -> Array:
    """Returns the probabilities `[3]` that the first count wins, that the second wins, and that another wins.

    The first count has mean `first_mean`, the second mean `second_mean`, both with unit normal noise; the others stand
    at 0. The probabilities are computed by adaptive quadrature.
    """

    def wins(mean: float, rival_mean: float) -> float:
        def integrand(x: float) -> float:
            return density(x - mean) * float(ndtr(x - rival_mean))

        low = max(0.0, mean - 12)
        high = max(12.0, mean + 12)
        peaks = [point for point in (mean, rival_mean) if low < point < high]
        return float(quad(integrand, low, high, points=peaks, epsabs=0, epsrel=1e-12, limit=300)[0])

    return np.array(
        [
            wins(first_mean, rival_mean=second_mean),
            wins(second_mean, rival_mean=first_mean),
            float(ndtr(-first_mean) * ndtr(-second_mean)),
        ]
    )


def laws(mean_shift: float, num_moving: int) -> list[tuple[Array, Array]]:
    """Returns pairs of laws of the winner before and after a move of `mean_shift`, for counts in `PLACES`, in both
    directions.

    With `num_moving` 1, one count falls, and a law has two outcomes; with 2, a second count rises, and it has three.
    """
    if num_moving == 1:
        bits = [
            (np.array([ndtr(a), ndtr(-a)]), np.array([ndtr(a - mean_shift), ndtr(mean_shift - a)]))
            for a in PLACES
        ]
        return [*bits, *((q, p) for p, q in bits)]
    pairs = [
        (
            law(first_mean=a, second_mean=b),
            law(first_mean=a - mean_shift, second_mean=b + mean_shift),
        )
        for a in PLACES
        for b in PLACES
    ]
    return [*pairs, *((q, p) for p, q in pairs)]


def divergence(first_law: Array, second_law: Array) -> Array:
    """Returns the Renyi divergence of two laws at each Renyi order of `ORDERS`."""
    support = (first_law > 1e-250) & (second_law > 1e-250)
    log_terms = ORDERS[:, None] * np.log(first_law[support]) - (ORDERS[:, None] - 1) * np.log(
        second_law[support]
    )
    return np.logaddexp.reduce(log_terms, axis=1) / (ORDERS - 1)


@pytest.mark.slow
@pytest.mark.parametrize("num_moving", [1, 2])
@pytest.mark.parametrize("shift", [0.02, 0.3, 1.0])
def test_no_law_costs_more_and_a_price_3_percent_smaller_fails(
    shift: float, num_moving: int
) -> None:
    """The Renyi divergence of each pair of laws of the winner is at most the price, which is at most that of the noisy
    counts.

    For the smallest shift, some pair exceeds 97% of the price at one of the five smallest Renyi orders.
    """
    price = winner_rdp(noise_multiplier=1 / shift, num_moving=num_moving, orders=ORDERS)
    worst = np.max(
        [divergence(first_law=p, second_law=q) for p, q in laws(shift, num_moving)], axis=0
    )
    assert (worst <= price * (1 + 1e-9) + 1e-12).all()
    assert (price <= ORDERS * (num_moving * shift * shift / 2) * (1 + 1e-12)).all()
    if shift == 0.02:
        assert (worst[:5] > 0.97 * price[:5]).any()
        assert (worst[:4] > 0.97 * 0.6475 * ORDERS[:4] * shift**2 * num_moving / 2).all()


@pytest.mark.slow
@pytest.mark.parametrize("num_moving", [1, 2])
@pytest.mark.parametrize("shift", [0.02, 0.3])
def test_one_step_is_above_every_law_for_convex_functions(shift: float, num_moving: int) -> None:
    """The composition step of a winner maps a mean V of hockey sticks to at least the value that each pair of laws
    gives.

    For the smallest shift and the last V, an increase of V by only 97% of the step's would be below some pair.
    """
    spacing = rounded_spacing(shift / 14)
    grid = LossGrid(first_index=-400, num_points=900, spacing=spacing)
    step = composition_step(
        dominating_pairs(WinnerEvent(noise_multiplier=1 / shift, num_moving=num_moving)),
        grid,
        negligible=1e-18,
    )
    rng = np.random.default_rng(3)
    pairs = laws(shift, num_moving)
    ends = 150, 700  # where nothing beyond the grid is reached
    for kinks in (
        np.zeros(1),
        rng.normal(0, shift, 3),
        rng.normal(0, 8 * shift, 40),
        np.linspace(-9, 9, 200) * shift,
    ):

        def v(x: Array, kinks: Array = kinks) -> Array:
            return np.clip(1 - np.exp(x[..., None] - kinks), 0, None).mean(axis=-1)

        stepped = step(v(grid.points))[ends[0] : ends[1]]
        x = grid.points[ends[0] : ends[1]]
        truth = np.max(
            [
                sum(
                    mass * v(x - math.log(mass / second_mass))
                    for mass, second_mass in zip(p, q, strict=True)
                    if mass > 1e-18
                )
                for p, q in pairs
            ],
            axis=0,
        )
        assert (stepped >= truth * (1 - 1e-12) - 1e-15).all()
        if len(kinks) == 200 and shift == 0.02:
            assert (v(x) + 0.97 * (stepped - v(x)) < truth).any()


@pytest.mark.slow
def test_bends_are_bounded() -> None:
    """Second differences of winning probabilities and of their derivatives, at random places in
    random ranges, are at most the proven bounds.
    """
    rng = np.random.default_rng(0)
    step = 1e-3

    def change_of_first(a: float, b: float) -> float:
        return density(a) * ndtr(-b) + math.sqrt(2) * density((a - b) / math.sqrt(2)) * ndtr(
            (a + b) / math.sqrt(2)
        )

    def change_of_rest(a: float, b: float) -> float:
        return -density(a) * ndtr(-b) + ndtr(-a) * density(b)

    for trial in range(400):
        low = rng.uniform(-3, 4, 2)
        width = rng.uniform(0.05, 0.7)
        a, b = low + width * rng.uniform(0, 1, 2)
        ranges = [(np.array([x]), np.array([x + width])) for x in low]
        difference = tuple((ranges[0][i] - ranges[1][1 - i]) / math.sqrt(2) for i in (0, 1))
        total = tuple((ranges[0][i] + ranges[1][i]) / math.sqrt(2) for i in (0, 1))

        def bend(f, a: float = a, b: float = b) -> tuple[float, float]:  # type: ignore[no-untyped-def]
            along = (
                f(a + step, b) - 2 * f(a, b) + f(a - step, b),
                f(a, b + step) - 2 * f(a, b) + f(a, b - step),
            )
            return along[0] / step**2, along[1] / step**2

        downwards = sum(max(-x, 0) for x in bend(change_of_first))
        assert downwards <= bend_of_change(*ranges, difference, total)[0] + 1e-5
        assert sum(max(-x, 0) for x in bend(change_of_rest)) <= bend_of_rest(*ranges)[0] + 1e-5
        assert sum(max(x, 0) for x in bend(change_of_rest)) <= bend_of_rest(*ranges[::-1])[0] + 1e-5
        if trial % 20 == 0:
            wide = 0.05
            first = [
                [law(first_mean=a + i * wide, second_mean=b + j * wide)[0] for i, j in places]
                for places in (((1, 0), (0, 0), (-1, 0)), ((0, 1), (0, 0), (0, -1)))
            ]
            size = sum(abs(x - 2 * y + z) for x, y, z in first) / wide**2
            wider = [(r[0] - wide, r[1] + wide) for r in ranges]
            difference = tuple((wider[0][i] - wider[1][1 - i]) / math.sqrt(2) for i in (0, 1))
            total = tuple((wider[0][i] + wider[1][i]) / math.sqrt(2) for i in (0, 1))
            assert size <= bend_of_mass(*wider, difference, total)[0] + 1e-6
