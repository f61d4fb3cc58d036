"""docs/proofs/zcdp.md: convex moments, and the chord bound at all orders, on random pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from pate.accounting.rdp import DEFAULT_ORDERS
from pate.accounting.zcdp import largest_ratio

SPARSE = np.array([1.2, 2.0, 5.0, 40.0])


def pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    q = rng.dirichlet(np.full(4, 0.5)) + 1e-4
    p = q * np.exp(rng.normal(0, rng.uniform(0.01, 2), 4))
    return np.log(p / p.sum()), np.log(q / q.sum())


def divergence(log_p: np.ndarray, log_q: np.ndarray, orders: np.ndarray) -> np.ndarray:
    moments = logsumexp(orders[:, None] * log_p + (1 - orders[:, None]) * log_q, axis=1)
    return np.asarray(moments / (orders - 1))


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_is_above_the_ratio_at_every_order(seed: int) -> None:
    log_p, log_q = pair(np.random.default_rng(seed))
    largest_loss = float((log_p - log_q).max())
    orders = 1 + np.geomspace(1e-3, 1e5, 3001)  # the ratio at lower ones is lost in rounding
    largest = float((divergence(log_p, log_q, orders) / orders).max())
    for grid, slack in ((DEFAULT_ORDERS, 1.003), (SPARSE, 2.5)):
        beyond = largest_loss / float(grid[-1])
        bound = largest_ratio(grid, divergence(log_p, log_q, grid), beyond=beyond)
        assert largest <= bound * (1 + 1e-9)
        assert bound <= max(slack * largest, beyond) + 1e-12


def test_a_rho_10_percent_too_small_fails() -> None:
    log_p, log_q = pair(np.random.default_rng(0))
    rho = largest_ratio(DEFAULT_ORDERS, divergence(log_p, log_q, DEFAULT_ORDERS), beyond=1e-9)
    orders = 1 + np.geomspace(1e-3, 1e3, 2001)
    assert (divergence(log_p, log_q, orders) > 0.9 * rho * orders).any()


def test_the_smaller_of_two_curves_is_covered_by_chords_of_the_minimum() -> None:
    """A divergence below two others, known only through the smaller value at each order."""
    rng = np.random.default_rng(3)
    low = pair(rng)
    curve = divergence(*low, SPARSE)
    other = [curve * factors for factors in (np.array([1.0, 1.5, 1.0, 1.5]), np.array([1.5, 1.0, 1.5, 1.0]))]
    bound = largest_ratio(SPARSE, np.minimum(*other), beyond=float((low[0] - low[1]).max()) / 40.0)
    orders = 1 + np.geomspace(1e-3, 1e4, 2001)
    assert (divergence(*low, orders) / orders).max() <= bound * (1 + 1e-9)
