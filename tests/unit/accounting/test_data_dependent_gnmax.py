"""The cost of GNMax: its closed form, Theorem 6 beside it, realized sums, and smooth sensitivity."""

from __future__ import annotations

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from pate.accounting import SmoothSensitivityEvent
from pate.accounting.data_dependent import (
    gnmax_cost,
    gnmax_log_q,
    gnmax_rdp,
    gnmax_smooth_sensitivity,
    theorem_6_rdp,
)
from pate.accounting.rdp import curve_of
from pate.validation import InvalidValue

Counts = NDArray[np.int64]
Array = NDArray[np.float64]


def realistic_votes(num_queries: int) -> Counts:
    """250 teachers, 10 classes, agreeing on most queries."""
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.r_[20, np.full(9, 0.15)], num_queries)
    return np.array([rng.multinomial(250, row) for row in chances])


def test_log_q_sums_normal_tails_in_any_order_of_the_classes_and_is_capped_at_a_tie() -> None:
    tails = [0.5 * math.erfc((10 - other) / 2 / 1.5) for other in (2, 1)]
    log_q = gnmax_log_q(np.array([[10, 2, 1], [1, 10, 2], [2, 1, 10]]), noise_std=1.5)
    np.testing.assert_allclose(log_q, math.log(sum(tails)), rtol=1e-12)
    far, tied = gnmax_log_q(np.array([[1000, 0], [500, 500]]), noise_std=1.0)
    assert (far, tied) == (pytest.approx(-250_007.4, rel=1e-6), pytest.approx(math.log(0.5), rel=1e-12))


def test_the_cost_never_exceeds_the_price_and_is_the_price_where_votes_tie() -> None:
    orders = np.geomspace(1.01, 1000, 60)
    votes = np.array([[i, 60 - i, 0] for i in range(61)])
    for std in (0.8, 3.0, 40.0):
        curves = gnmax_rdp(gnmax_log_q(votes, noise_std=std), noise_std=std, orders=orders)
        assert (curves <= orders / std**2).all()
        assert (curves >= 0).all()
        np.testing.assert_allclose(curves[30, orders > 2], orders[orders > 2] / std**2)


def test_the_cost_never_falls_as_q_grows() -> None:
    log_q = -np.geomspace(1e5, 1e-3, 4000)
    for std in (0.8, 3.0, 40.0, 400.0):
        curves = gnmax_rdp(log_q, noise_std=std, orders=np.array([1.05, 1.5, 2, 8, 32, 300]))
        assert (np.diff(curves, axis=0) >= -1e-15).all()


def test_where_a_bound_on_q_says_nothing_or_its_conditions_fail_the_price_is_returned() -> None:
    orders = np.array([1.5, 2e4])
    curves = gnmax_rdp(np.array([0.0, -1e-13, -1e9]), noise_std=1e7, orders=orders)
    np.testing.assert_array_equal(curves[:2], [orders / 1e14] * 2)
    assert (curves[2] <= orders / 1e14).all()
    paper = theorem_6_rdp(np.log([0.6, 0.3]), noise_std=2.0, orders=[2.0, 50.0])
    np.testing.assert_array_equal(paper, [[0.5, 12.5]] * 2)


def test_the_realized_cost_is_the_sum_over_the_queries_that_drew_noise() -> None:
    votes, orders = realistic_votes(30), np.array([2.0, 8.0])
    each = gnmax_rdp(gnmax_log_q(votes, noise_std=30.0), noise_std=30.0, orders=orders)
    total = gnmax_cost(votes, noise_std=30.0, num_teachers=250, orders=orders).rdp
    np.testing.assert_allclose(total, each.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("std", [2.0, 30.0])
def test_the_bound_is_the_formula_of_the_proof_note(std: float) -> None:
    """Written a second time, in 60 digits, with the condition on dm/dq at every order."""
    rng = np.random.default_rng(1)
    log_q, orders = -rng.uniform(0.3, 60, 40), 1 + np.r_[rng.exponential(10, 12), 0.01, 150.0]
    ours = gnmax_rdp(log_q, noise_std=std, orders=orders)
    theirs = np.array([[float(formula(value, std, a)) for a in orders] for value in log_q])
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-13)


def formula(log_q: float, std: float, a: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        x, s, a = mpmath.sqrt(-mpmath.mpf(log_q)), mpmath.mpf(std), mpmath.mpf(a)
        if a >= s * x:
            return a / s**2
        q, h, g = (mpmath.exp(-(y**2)) for y in (x, x - 1 / s, x + 1 / s))
        m = mpmath.exp(-(x**2) + 2 * a * x / s - a / s**2)
        dh, dg, dm = (h / q * (1 - 1 / (s * x)), g / q * (1 + 1 / (s * x)), m / q * (1 - a / (s * x)))
        likeliest = (1 - h) ** (1 - a)
        if dh >= 1 >= dg and dm >= max((1 - q) / (1 - h), (1 - g) / (1 - q)) ** (a - 1):
            sharper = max((1 - q) ** a * (1 - h) ** (1 - a), (1 - g) ** a * (1 - q) ** (1 - a))
            likeliest = min(likeliest, sharper)
        return min(mpmath.log(likeliest + m) / (a - 1), a / s**2)


def single_queries(num_teachers: int, num_classes: int) -> tuple[Counts, list[list[int]]]:
    """Every query's votes, and the indices of the neighbors of each."""
    rows = [row for row in product(range(num_teachers + 1), repeat=num_classes) if sum(row) == num_teachers]
    index = {row: i for i, row in enumerate(rows)}
    moves = [
        move for move in product((-1, 0, 1), repeat=num_classes) if sorted(move) == [-1, *[0] * (len(move) - 2), 1]
    ]
    near = [[tuple(np.add(row, move).tolist()) for move in moves] for row in rows]
    return np.array(rows), [[index[row] for row in some if row in index] for some in near]


@pytest.mark.parametrize("beta", [0.05, 0.4])
@pytest.mark.parametrize("std", [1.2, 3.0])
@pytest.mark.parametrize(("num_teachers", "num_classes"), [(12, 2), (8, 3), (5, 4)])
def test_smooth_sensitivity_covers_the_local_one_and_is_smooth(
    num_teachers: int, num_classes: int, std: float, beta: float
) -> None:
    votes, near = single_queries(num_teachers, num_classes)
    public = {"noise_std": std, "num_teachers": num_teachers}
    cost = np.array([gnmax_cost(row[None], orders=2.0, **public).rdp[0] for row in votes])
    local = np.array([np.abs(cost[i] - cost[some]).max() for i, some in enumerate(near)])
    smooth = np.array([gnmax_smooth_sensitivity(row[None], order=2.0, beta=beta, **public) for row in votes])
    assert (local <= smooth).all()
    assert max((smooth[i] / smooth[some]).max() for i, some in enumerate(near)) <= math.exp(beta) * (1 + 1e-12)


def normal_divergences(multiplier: float, beta: float, order: float) -> Array:
    """D_a between normals whose variances differ by at most exp(2 beta), means as far apart as both allow: a grid."""
    log_ratio = np.linspace(-2 * beta, 2 * beta, 2001)  # of the second variance to the first
    second = np.exp(log_ratio)
    shift = np.minimum(1.0, np.sqrt(second)) / multiplier
    mixed = order * second + (1 - order)
    moment = 0.5 * order * np.log(second) - 0.5 * np.log(mixed)
    return np.asarray(order * shift**2 / (2 * mixed) + moment / (order - 1))


@pytest.mark.parametrize(
    ("order", "multiplier", "beta"), [(8, 5, 0.06125), (20, 10, 0.0245), (4, 2, 0.01), (1.5, 3, 0.3)]
)
def test_smooth_noise_costs_the_worst_divergence_of_normals(order: float, multiplier: float, beta: float) -> None:
    price = curve_of(SmoothSensitivityEvent(multiplier, beta))(np.array([float(order)]))[0]
    assert price == pytest.approx(normal_divergences(multiplier, beta, order).max(), rel=1e-9)
    ab = order * beta
    sufficient = order / (2 * multiplier**2 * (1 - 2 * ab)) + (ab - 0.5 * math.log(1 - 2 * ab)) / (order - 1)
    assert price <= sufficient


def test_smooth_noise_is_gaussian_noise_at_beta_0_and_infinite_at_high_orders_or_without_noise() -> None:
    orders = np.array([2.0, 8.0, 100.0])
    np.testing.assert_allclose(curve_of(SmoothSensitivityEvent(3.0, 0.0))(orders), orders / 18, rtol=1e-12)
    infinite = np.isposinf(curve_of(SmoothSensitivityEvent(3.0, 0.1))(orders))
    assert infinite.tolist() == [False, True, True]  # from order 1 / (1 - exp(-0.2)) = 5.5 on
    assert np.isposinf(curve_of(SmoothSensitivityEvent(0.0, 0.1))(orders)).all()


@pytest.mark.parametrize(
    ("name", "votes", "noise_std"),
    [
        ("votes[0].sum", [[3, 3]], 1.0),
        ("votes.shape", [[5]], 1.0),
        ("votes.shape", [5, 0], 1.0),
        ("votes[0, 0]", [[6, -1]], 1.0),
        ("noise_std", [[5, 0]], 0),
    ],
)
def test_votes_that_are_not_one_a_teacher_and_no_noise_are_refused(name: str, votes: list, noise_std: float) -> None:
    with pytest.raises(InvalidValue, match=": expected ") as refused:
        gnmax_cost(np.array(votes), noise_std=noise_std, num_teachers=5, orders=2.0)
    assert refused.value.name == name
