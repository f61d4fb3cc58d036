"""docs/proofs/conversion.md, step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import logsumexp

from pate.accounting.conversion import rdp_to_deltas, rdp_to_epsilons

ORDERS = np.array([1.01, 1.5, 3.0, 10.0, 80.0])


def test_random_pairs_of_distributions_stay_below_the_claim_and_some_come_near() -> None:
    rng = np.random.default_rng(0)
    nearest = 0.0
    for _ in range(500):
        p, q = rng.dirichlet(np.full(4, 0.7), size=2) + 1e-9
        p, q = p / p.sum(), q / q.sum()
        log_p, log_q = np.log(p)[:, None], np.log(q)[:, None]
        curve = logsumexp(ORDERS * log_p + (1 - ORDERS) * log_q, axis=0) / (ORDERS - 1)
        for epsilon in (0.1, 1.0, 3.0):
            exact = float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
            claim = float(rdp_to_deltas(ORDERS, curve, target_epsilon=epsilon).min())
            assert exact <= claim * (1 + 1e-9) + 1e-15
            nearest = max(nearest, exact / claim)
    assert nearest > 0.8


def test_epsilon_and_delta_are_inverse_and_never_above_the_classic_form() -> None:
    curve = 0.05 * ORDERS
    for delta in (1e-9, 1e-5, 0.1):
        epsilons = rdp_to_epsilons(ORDERS, curve, target_delta=delta)
        assert (epsilons <= np.maximum(curve + math.log(1 / delta) / (ORDERS - 1), 0)).all()
        positive = epsilons > 0
        for order, rdp, epsilon in zip(ORDERS[positive], curve[positive], epsilons[positive], strict=True):
            back = rdp_to_deltas(np.array([order]), np.array([rdp]), target_epsilon=float(epsilon))
            assert back[0] == pytest.approx(delta, rel=1e-9)
