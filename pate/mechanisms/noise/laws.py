"""The exact distributions of the largest and of the order of noisy values, by quadrature where there is no formula."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import gauss_legendre, log_ndtr, softmax
from pate.mechanisms.noise.kinds import KINDS, NoiseKind
from pate.validation import require

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]

_ARGMAX_NODES = 64
_PANELS_PER_SCALE = 2
_TAIL = 42.0
_NODES = 16
_MOST_PANELS = 10_000


def gumbel_argmax(values: Array) -> Array:
    """Gumbel noise of scale 1: the exponential mechanism, p proportional to exp(value). `[..., n]`."""
    return np.asarray(softmax(values, axis=-1))


def exponential_argmax(values: Array) -> Array:
    """Exponential noise of mean 1 (permute-and-flip): p_i = w_i times the integral of prod_{j != i} (1 - w_j z) dz."""
    weights = np.exp(values - values.max(axis=-1, keepdims=True))
    nodes, node_weights = _equal_panels(0.0, 1.0, 8)
    factors = 1 - weights[..., None] * nodes  # [..., n, G]
    others = np.stack([np.delete(factors, i, axis=-2).prod(axis=-2) for i in range(weights.shape[-1])], axis=-2)
    return np.asarray(weights * (others @ node_weights))


def gaussian_argmax(values: Array) -> Array:
    """Standard normal noise, by quadrature over the winning value."""
    return _argmax_by_quadrature(values, KINDS["gaussian"].density, log_ndtr, 9.5)


def laplace_argmax(values: Array) -> Array:
    """Laplace noise of scale 1, by quadrature over the winning value, with panels that end at the kinks."""
    return _argmax_by_quadrature(values, KINDS["laplace"].density, _log_laplace_cdf, _TAIL)


def _argmax_by_quadrature(values: Array, density: Curve, log_cdf: Curve, tail: float) -> Array:
    """p_i is the integral of density(x - v_i) prod_{j != i} cdf(x - v_j) dx."""
    flat = values.reshape(-1, values.shape[-1])
    distributions = np.stack([_one_distribution(row, density, log_cdf, tail) for row in flat])
    return np.asarray(distributions.reshape(values.shape))


def _one_distribution(row: Array, density: Curve, log_cdf: Curve, tail: float) -> Array:
    edges = np.unique(np.concatenate([row, [row.max() - tail, row.max() + tail]]))
    edges = edges[edges >= row.max() - tail]  # a winner below that has no probability worth a digit
    pieces = [_equal_panels(a, b, max(1, int(np.ceil((b - a) * _PANELS_PER_SCALE)))) for a, b in pairwise(edges)]
    nodes = np.concatenate([piece[0] for piece in pieces])
    weights = np.concatenate([piece[1] for piece in pieces])
    logs = log_cdf(nodes - row[:, None])  # [n, G]
    others = np.exp(logs.sum(axis=0) - logs)
    distribution = (density(nodes - row[:, None]) * others) @ weights
    return np.asarray(distribution / distribution.sum())


def _equal_panels(low: float, high: float, count: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on equal panels of an interval."""
    edges = np.linspace(low, high, count + 1)
    half = np.diff(edges) / 2
    nodes, weights = gauss_legendre(_ARGMAX_NODES)
    points = (edges[:-1] + half)[:, None] + half[:, None] * nodes
    return points.ravel(), (half[:, None] * weights).ravel()


def _log_laplace_cdf(x: Array) -> Array:
    tail = 0.5 * np.exp(-np.abs(x))
    return np.where(x < 0, np.log(0.5) + np.minimum(x, 0), np.log1p(-tail))


def ordered_distribution(values: Array, k: int, noise: NoiseKind) -> dict[tuple[int, ...], float]:
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


def largest_distribution(values: Array, sizes: Array, noise: NoiseKind) -> Array:
    """The distribution of the class of the largest; class c has `sizes[c]` members of value `values[c]`: `[n]`."""
    points, half = _grid(values, noise)
    shifted = points - values[:, None, None]
    density, cdf = noise.density(shifted), noise.cdf(shifted)
    powers = cdf ** sizes[:, None, None]
    winners = sizes[:, None, None] * density * cdf ** (sizes[:, None, None] - 1)
    others = np.stack([np.delete(powers, c, axis=0).prod(axis=0) for c in range(len(values))])
    return np.array([_total(integrand, half) for integrand in winners * others])


def panels(corners: Array, width: float) -> tuple[Array, Array]:
    """Points `[P, 16]` and half widths `[P, 1]` of panels, at most that wide, that end at all corners."""
    counts = [max(1, int(np.ceil((b - a) / width))) for a, b in pairwise(corners)]
    edges = [np.linspace(a, b, n + 1) for (a, b), n in zip(pairwise(corners), counts, strict=True)]
    low = np.concatenate([edge[:-1] for edge in edges])[:, None]
    half = (np.concatenate([edge[1:] for edge in edges])[:, None] - low) / 2
    return low + half * (1 + gauss_legendre(_NODES)[0]), half


def _grid(values: Array, noise: NoiseKind) -> tuple[Array, Array]:
    """Panels that end at the kinks of every value's density."""
    spread = float(values.max() - values.min())
    widest = _MOST_PANELS * noise.panel
    require(spread <= widest, "spread", spread, f"values at most {widest:g} noise scales apart, to be integrated")
    kinks = (values[:, None] + np.array(noise.kinks)).ravel()
    return panels(np.unique([*kinks, values.min() + noise.low, values.max() + noise.high]), noise.panel)


def _total(integrand: Array, half: Array) -> float:
    return float(((integrand @ gauss_legendre(_NODES)[1]) * half[:, 0]).sum())


def _integral_above(integrand: Array, half: Array) -> Array:
    """The integral from each point to the end of the grid: `[P, 16]`."""
    of_panels = np.asarray(integrand @ gauss_legendre(_NODES)[1]) * half[:, 0]
    later = np.append(np.cumsum(of_panels[::-1])[::-1][1:], 0.0)
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
