"""Exact distributions of the order of noisy values, by quadrature between the kinks of their densities."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import gauss_legendre
from pate.mechanisms.noise.unit_noise import UnitNoise
from pate.validation import require

Array = NDArray[np.float64]

_NODES = 16
_MOST_PANELS = 10_000


def ordered_distribution(values: Array, k: int, noise: UnitNoise) -> dict[tuple[int, ...], float]:
    """The distribution of the k largest of `values + noise`, in falling order: for values `[d]`."""
    points, half = _grid(values, noise)
    density, cdf = noise.density(points - values[:, None, None]), noise.cdf(points - values[:, None, None])
    above: dict[tuple[int, ...], Array] = {(): np.ones_like(points)}  # P[the prefix is in order, above a point]
    for _ in range(k - 1):
        above = {
            (*prefix, i): _integral_above(density[i] * tail, half)
            for prefix, tail in above.items()
            for i in range(len(values))
            if i not in prefix
        }
    distribution = {}
    for prefix, tail in above.items():
        for i in set(range(len(values))) - set(prefix):
            rest = [j for j in range(len(values)) if j not in prefix and j != i]
            distribution[*prefix, i] = float(_total(density[i] * tail * cdf[rest].prod(axis=0), half))
    return distribution


def largest_distribution(values: Array, sizes: Array, noise: UnitNoise) -> Array:
    """The distribution of the class of the largest; class c has `sizes[c]` members of value `values[c]`: `[n]`."""
    points, half = _grid(values, noise)
    shifted = points - values[:, None, None]
    density, cdf = noise.density(shifted), noise.cdf(shifted)
    powers = cdf ** sizes[:, None, None]
    winners = sizes[:, None, None] * density * cdf ** (sizes[:, None, None] - 1)
    others = np.stack([np.delete(powers, c, axis=0).prod(axis=0) for c in range(len(values))])
    return np.array([_total(integrand, half) for integrand in winners * others])


def _grid(values: Array, noise: UnitNoise) -> tuple[Array, Array]:
    """Points `[P, 16]` and half widths `[P, 1]` of panels that end at every value."""
    spread = float(values.max() - values.min())
    widest = _MOST_PANELS * noise.panel
    require(spread <= widest, "spread", spread, f"values at most {widest:g} noise scales apart, to be integrated")
    kinks = (values[:, None] + np.array(noise.kinks)).ravel()
    corners = np.unique([*kinks, values.min() + noise.low, values.max() + noise.high])
    counts = [max(1, int(np.ceil((b - a) / noise.panel))) for a, b in pairwise(corners)]
    edges = [np.linspace(a, b, n + 1) for (a, b), n in zip(pairwise(corners), counts, strict=True)]
    low = np.concatenate([edge[:-1] for edge in edges])[:, None]
    high = np.concatenate([edge[1:] for edge in edges])[:, None]
    half = (high - low) / 2
    nodes, _ = gauss_legendre(_NODES)
    return low + half * (1 + nodes), half


def _total(integrand: Array, half: Array) -> float:
    _, weights = gauss_legendre(_NODES)
    return float(((integrand @ weights) * half[:, 0]).sum())


def _integral_above(integrand: Array, half: Array) -> Array:
    """The integral from each point to the end of the grid: `[P, 16]`."""
    _, weights = gauss_legendre(_NODES)
    panels = np.asarray(integrand @ weights) * half[:, 0]
    later = np.append(np.cumsum(panels[::-1])[::-1][1:], 0.0)
    return np.asarray(half * (integrand @ _weights_to_the_end().T) + later[:, None])


@lru_cache
def _weights_to_the_end() -> Array:
    """`[a, b]` weight of node b in the integral from node a to 1 of the interpolating polynomial."""
    from numpy.polynomial import legendre  # loads slowly

    nodes, _ = gauss_legendre(_NODES)
    coefficients = np.linalg.inv(legendre.legvander(nodes, _NODES - 1))
    primitive = legendre.legint(coefficients)
    end, before = np.asarray(legendre.legval([1.0], primitive)), np.asarray(legendre.legval(nodes, primitive))
    return np.asarray((end - before).T)
