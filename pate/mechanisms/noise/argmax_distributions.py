"""The exact distribution of the argmax of values with independent noise, for one row of values or a batch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import gauss_legendre, log_ndtr, softmax

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]

_NODES = 64
_PANELS_PER_SCALE = 2
_TAIL = 42.0


def gumbel_argmax(values: Array) -> Array:
    """Gumbel noise of scale 1: the exponential mechanism, p proportional to exp(value). `[..., n]`."""
    return np.asarray(softmax(values, axis=-1))


def exponential_argmax(values: Array) -> Array:
    """Exponential noise of mean 1 (permute-and-flip): p_i = w_i times the integral of prod_{j != i} (1 - w_j z) dz."""
    weights = np.exp(values - values.max(axis=-1, keepdims=True))
    nodes, node_weights = _panels(0.0, 1.0, 8)
    factors = 1 - weights[..., None] * nodes  # [..., n, G]
    others = np.stack([np.delete(factors, i, axis=-2).prod(axis=-2) for i in range(weights.shape[-1])], axis=-2)
    return np.asarray(weights * (others @ node_weights))


def gaussian_argmax(values: Array) -> Array:
    """Standard normal noise, by quadrature over the winning value."""
    return _argmax_by_quadrature(values, lambda x: np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi), log_ndtr, 9.5)


def laplace_argmax(values: Array) -> Array:
    """Laplace noise of scale 1, by quadrature over the winning value, with panels that end at the kinks."""
    return _argmax_by_quadrature(values, lambda x: 0.5 * np.exp(-np.abs(x)), _log_laplace_cdf, _TAIL)


def _argmax_by_quadrature(values: Array, density: Curve, log_cdf: Curve, tail: float) -> Array:
    flat = values.reshape(-1, values.shape[-1])
    distributions = np.stack([_one_distribution(row, density, log_cdf, tail) for row in flat])
    return np.asarray(distributions.reshape(values.shape))


def _one_distribution(row: Array, density: Curve, log_cdf: Curve, tail: float) -> Array:
    edges = np.unique(np.concatenate([row, [row.max() - tail, row.max() + tail]]))
    edges = edges[edges >= row.max() - tail]  # a winner below that has no probability worth a digit
    pieces = [_panels(a, b, max(1, int(np.ceil((b - a) * _PANELS_PER_SCALE)))) for a, b in pairwise(edges)]
    nodes = np.concatenate([piece[0] for piece in pieces])
    weights = np.concatenate([piece[1] for piece in pieces])
    logs = log_cdf(nodes - row[:, None])  # [n, G]
    others = np.exp(logs.sum(axis=0) - logs)
    distribution = (density(nodes - row[:, None]) * others) @ weights
    return np.asarray(distribution / distribution.sum())


def _panels(low: float, high: float, count: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on equal panels of an interval."""
    edges = np.linspace(low, high, count + 1)
    half = np.diff(edges) / 2
    nodes, weights = gauss_legendre(_NODES)
    points = (edges[:-1] + half)[:, None] + half[:, None] * nodes
    return points.ravel(), (half[:, None] * weights).ravel()


def _log_laplace_cdf(x: Array) -> Array:
    tail = 0.5 * np.exp(-np.abs(x))
    return np.where(x < 0, np.log(0.5) + np.minimum(x, 0), np.log1p(-tail))
