"""Epsilons as papers print them, for comparison with sound ones: never a guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pate.accounting.conversion import rdp_to_epsilons, rdp_to_epsilons_classic
from pate.accounting.events import ComposedEvent, Event, GaussianEvent, count_leaves
from pate.accounting.rdp import rdp_curve
from pate.validation import require_choice, require_count, require_positive

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]

_ORDERS: Array = 1 + np.geomspace(1e-3, 1e4, 4001)  # 0.4% apart
_CONVERSIONS = {"classic": rdp_to_epsilons_classic, "tight": rdp_to_epsilons}


def corollary_9_rdp(orders: Array, *, noise_multiplier: float, num_labels: int) -> Array:
    """The curve of Corollary 9 of Zhu & Wang (2022) for the Gaussian noisy maximum: 2 a / z**2 + log(m) / (a - 1)."""
    require_positive("noise_multiplier", noise_multiplier)
    require_count("num_labels", num_labels)
    return np.asarray(2 * orders / noise_multiplier**2 + math.log(num_labels) / (orders - 1))


def gaussian_stand_in(*, selection_multiplier: float, test_multiplier: float) -> Event:
    """Selection and test as if both were Gaussian releases. For the selection that is false, for any adjacency."""
    return ComposedEvent((GaussianEvent(selection_multiplier), GaussianEvent(test_multiplier)))


def curve_of(event: Event) -> Curve:
    """The Renyi curve of an event, as a function of the orders."""
    leaf_counts = count_leaves(event)
    return lambda orders: rdp_curve(leaf_counts, orders)


def converted(curve: Curve, *, count: int, target_delta: float, conversion: str) -> float:
    """The smallest epsilon of `count` releases with that curve."""
    require_choice("conversion", conversion, tuple(_CONVERSIONS))
    return float(_CONVERSIONS[conversion](_ORDERS, count * curve(_ORDERS), target_delta=target_delta).min())
