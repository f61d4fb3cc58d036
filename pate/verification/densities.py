"""Verification of a released real number, given both densities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

from pate.accounting import Event
from pate.validation import require, require_count
from pate.verification.claim import Claim
from pate.verification.comparison import Comparison
from pate.verification.verdict import Verdict

Array = NDArray[np.float64]
LogDensity = Callable[[Array], Array]

_NODES, _WEIGHTS = leggauss(16)
_MASS_TOLERANCE = 1e-9


def verify_densities(
    first: LogDensity,
    second: LogDensity,
    *,
    low: float,
    high: float,
    event: Event | Claim,
    names: tuple[Any, Any] = ("first", "second"),
    num_panels: int = 4000,
) -> Verdict:
    """Compares two densities with a price by quadrature, in both directions.

    For mechanisms that publish a number, one pair of neighbors at a time. Sixteen nodes a panel: densities should be
    smooth but at the ends of panels. What lies outside of [low, high] is left out, so divergences can be too small, and
    by rounding and quadrature too large by about 1e-9.

    Args:
        first: logarithm of the density, elementwise.
        second: the same of the neighbor.
        low: where to begin.
        high: where to end; at high orders the tails matter far beyond where the densities have mass.
        event: the price, or a `Claim`: `Claim.of(event, orders=...)` chooses where the event is compared.
        names: what the two are called.
        num_panels: equal parts of [low, high].

    Raises:
        InvalidValue: a density whose integral is not 1 within 1e-9.
    """
    require(low < high, "low", low, f"a number below high={high}")
    edges = np.linspace(low, high, require_count("num_panels", num_panels) + 1)
    half = np.diff(edges)[:, None] / 2
    points = (edges[:-1, None] + half * (1 + _NODES)).ravel()
    log_weights = np.log(half * _WEIGHTS).ravel()
    log_distributions = np.stack([np.asarray(side(points), dtype=np.float64) + log_weights for side in (first, second)])
    distributions = np.exp(log_distributions)
    for name, total in zip(("first", "second"), distributions.sum(axis=1), strict=True):
        require(abs(total - 1) <= _MASS_TOLERANCE, f"{name} integral", total, "1 within 1e-9 on [low, high]")
    comparison = Comparison(Claim.of(event))
    comparison.add(distributions, distributions[::-1], np.arange(2), (log_distributions, log_distributions[::-1]))
    return comparison.verdict(lambda pair: names if pair == 0 else names[::-1])
