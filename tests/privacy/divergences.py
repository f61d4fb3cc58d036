"""The package's verifier in the form that these tests ask for: a figure against a price, as an assertion."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Event
from pate.accounting.rdp import count_leaves, rdp_curve
from pate.verification import Claim, verify_distributions
from pate.verification.claim import DELTAS, EPSILONS
from pate.verification.claim import ORDERS as _ORDERS
from pate.verification.divergences import RELATIVE_SLACK, SLACK, largest_delta, largest_log_ratio, largest_range
from pate.verification.divergences import largest_renyi as _largest_renyi

__all__ = [
    "DELTAS",
    "EPSILONS",
    "ORDERS",
    "assert_covered",
    "assert_delta_covered",
    "largest_delta",
    "largest_log_ratio",
    "largest_range",
    "largest_renyi",
    "price_curve",
]

Array = NDArray[np.float64]

ORDERS: Array = np.array(_ORDERS)


def largest_renyi(first: Array, second: Array, orders: Array = ORDERS) -> Array:
    """The largest D_a(first || second) over all pairs of distributions `[N, n]`: `[len(orders)]`."""
    return _largest_renyi(first, second, orders)


def price_curve(event: Event, orders: Array = ORDERS) -> Array:
    """What the package charges at each order, outside the failure."""
    return rdp_curve(count_leaves(event), orders)


def assert_covered(exact: Array, price: Array) -> float:
    """Fails if an exact divergence exceeds its price; returns the largest ratio of the two."""
    ratio = float((exact / np.maximum(price, 1e-300)).max())
    assert (exact <= price * (1 + RELATIVE_SLACK) + SLACK).all(), f"the exact figure is {ratio:.4f} of its price"
    return ratio


def assert_delta_covered(first: Array, second: Array, event: Event) -> float:
    """Fails if an exact hockey stick exceeds what the accountant prints; returns the largest ratio of the two."""
    verdict = verify_distributions(first, second, event=Claim.of(event, orders=()))
    assert verdict.sound, f"the exact figure is {verdict.ratio:.4f} of its price: {verdict.worst}"
    return verdict.ratio
