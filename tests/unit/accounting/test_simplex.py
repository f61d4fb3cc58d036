"""Many small linear programs at once, beside a library that solves one by one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from pate.accounting.joint_law.simplex import row_prices

Array = NDArray[np.float64]
PENALTY = 20.0


def largest_mean(values: Array, rows: Array) -> float:
    """By SciPy: the rows may be missed at the penalty, the first one on both sides."""
    missed = np.hstack([-np.eye(len(rows)), np.eye(len(rows))[:, :1]])
    costs = np.concatenate([-values, np.full(missed.shape[1], PENALTY)])
    held = np.hstack([rows, missed])
    ones = np.concatenate([np.ones(len(values)), np.zeros(missed.shape[1])])
    solved = linprog(
        costs, A_ub=held[1:], b_ub=np.zeros(len(rows) - 1), A_eq=np.stack([held[0], ones]), b_eq=[0.0, 1.0]
    )
    assert solved.status == 0
    return -float(solved.fun)


def bound(values: Array, rows: Array, prices: Array) -> float:
    """No distribution that meets the rows has a larger mean."""
    return float((values - prices[:-1] @ rows).max())


@pytest.mark.parametrize("num_rows", [1, 2, 6])
@pytest.mark.parametrize("num_types", [1, 2, 30, 300])
def test_the_mean_is_that_of_a_library(num_rows: int, num_types: int) -> None:
    rng = np.random.default_rng(num_rows)
    values = rng.uniform(-1, 1, (40, num_types))
    rows = rng.uniform(-1, 1, (40, num_rows, num_types)) * (rng.random((40, num_rows, 1)) < 0.9)  # some are all zeros
    for value, row, prices in zip(values, rows, row_prices(values, rows), strict=True):
        expected = largest_mean(value, row)
        assert prices[-1] == pytest.approx(expected, abs=1e-5)
        assert bound(value, row, prices) == pytest.approx(expected, abs=1e-5)
        assert (prices[1:-1] >= -1e-9).all()
        assert np.abs(prices[:-1]).max() <= PENALTY * (1 + 1e-9)


def test_programs_do_not_disturb_each_other() -> None:
    rng = np.random.default_rng(0)
    values, rows = rng.random((20, 50)), rng.uniform(-1, 1, (20, 3, 50))
    together = row_prices(values, rows)
    alone = np.concatenate([row_prices(values[i : i + 1], rows[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(together, alone, atol=1e-12)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_of_prices_that_are_as_good_the_smallest_is_found(side: float) -> None:
    """Only the first type meets the row: any price of that sign, if large enough, says so."""
    rows = side * np.array([[[0.0, 0.5, 1.0]]])
    [prices] = row_prices(np.array([[0.2, 0.3, 0.9]]), rows)
    np.testing.assert_allclose(prices, [side * 0.7, 0.2], atol=1e-6)


def test_what_no_distribution_meets_costs_the_penalty() -> None:
    [prices] = row_prices(np.array([[1.0, 0.5]]), np.array([[[0.5, 0.2]]]))
    np.testing.assert_allclose(prices, [PENALTY, 0.5 - 0.2 * PENALTY], atol=1e-5)
