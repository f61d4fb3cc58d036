"""Divergences between exact laws, and the comparison with a price."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event, RdpAccountant
from pate.accounting.events import failure_probability
from pate.accounting.rdp import count_leaves, rdp_curve

Array = NDArray[np.float64]

ORDERS: Array = np.array([1.05, 1.25, 1.5, 2, 3, 4, 8, 16, 64, 1024])
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)
DELTAS = (1e-6, 1e-3, 0.05)
_TOLERANCE = 1e-9


def largest_renyi(first: Array, second: Array, orders: Array = ORDERS) -> Array:
    """The largest D_a(first || second) over all pairs of laws `[N, n]`: `[len(orders)]`."""
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(first), np.log(second)
    divergences = []
    for order in orders:
        with np.errstate(invalid="ignore"):
            terms = np.where(first == 0, -np.inf, order * log_p - (order - 1) * log_q)
        peak = np.maximum(terms.max(axis=1), -1e300)
        with np.errstate(invalid="ignore", over="ignore"):
            total = peak + np.log(np.exp(terms - peak[:, None]).sum(axis=1))
        divergences.append(np.where(np.isposinf(peak), np.inf, total).max() / (order - 1))
    return np.array(divergences)


def largest_delta(first: Array, second: Array, epsilon: float) -> float:
    """The largest hockey-stick divergence over all pairs of laws."""
    return float(np.maximum(first - np.exp(epsilon) * second, 0.0).sum(axis=1).max())


def largest_log_ratio(first: Array, second: Array) -> float:
    """The largest log-likelihood ratio over all pairs of laws and all outcomes."""
    return float(np.log(first / second).max())


def largest_range(first: Array, second: Array) -> float:
    """The largest spread of log-likelihood ratios within one pair of laws."""
    ratios = np.log(first / second)
    return float((ratios.max(axis=1) - ratios.min(axis=1)).max())


def price_curve(event: Event, orders: Array = ORDERS) -> Array:
    """What the package charges at each order, outside the failure."""
    return rdp_curve(count_leaves(event), orders)


def assert_covered(exact: Array, price: Array) -> float:
    """Fails if an exact divergence exceeds its price; returns the largest ratio of the two."""
    ratio = float((exact / np.maximum(price, 1e-300)).max())
    assert (exact <= price * (1 + _TOLERANCE) + 1e-13).all(), f"the exact figure is {ratio:.4f} of its price"
    return ratio


def assert_delta_covered(first: Array, second: Array, event: Event) -> float:
    """Fails if an exact hockey stick exceeds what the accountant prints; returns the largest ratio of the two."""
    accountant, failure = RdpAccountant().compose(event), failure_probability(event)
    printed = [(epsilon, accountant.get_delta(epsilon)) for epsilon in EPSILONS]
    printed += [(accountant.get_epsilon(failure + delta), failure + delta) for delta in DELTAS]
    exact = np.array([largest_delta(first, second, epsilon) for epsilon, _ in printed])
    return assert_covered(exact, np.array([delta for _, delta in printed]))
