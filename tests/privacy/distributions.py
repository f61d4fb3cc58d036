"""Exact distributions of the mechanisms, written down a second time: they share no code with the package."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

Array = NDArray[np.float64]


def selection_distribution(noise: str, utilities: NDArray[np.number], scale: float) -> Array:
    """The noisy argmax's distribution: `[N, n]`. Utilities are multiples of a half (kinks of the Laplace density)."""
    kinds, shape, rows = _kinds_of(utilities.tobytes(), utilities.dtype.str, utilities.shape)
    return _distribution_of_kinds(noise, kinds, shape, scale)[rows]


@lru_cache(maxsize=256)
def _kinds_of(utilities: bytes, dtype: str, shape: tuple[int, int]) -> tuple[bytes, tuple[int, int], NDArray[np.int64]]:
    """The different rows, their shape, and which row is of which kind; found once for all noises and scales."""
    kinds, rows = np.unique(np.frombuffer(utilities, dtype).reshape(shape), axis=0, return_inverse=True)
    return kinds.astype(np.float64).tobytes(), kinds.shape, rows.reshape(-1)


@lru_cache(maxsize=256)
def _distribution_of_kinds(noise: str, kinds: bytes, shape: tuple[int, int], scale: float) -> Array:
    return _DISTRIBUTIONS[noise](np.frombuffer(kinds).reshape(shape), scale)


def _gumbel(utilities: Array, scale: float) -> Array:
    weights = np.exp((utilities - utilities.max(axis=1, keepdims=True)) / scale)
    return weights / weights.sum(axis=1, keepdims=True)


def _exponential(utilities: Array, scale: float) -> Array:
    """Inclusion and exclusion over the product in the permute-and-flip integral."""
    weights = np.exp((utilities - utilities.max(axis=1, keepdims=True)) / scale)
    distribution = np.zeros_like(weights)
    candidates = range(weights.shape[1])
    for i in candidates:
        others = [j for j in candidates if j != i]
        for size in range(len(others) + 1):
            for subset in combinations(others, size):
                distribution[:, i] += (-1) ** size * weights[:, list(subset)].prod(axis=1) / (size + 1)
    return distribution * weights


def _gaussian(utilities: Array, scale: float) -> Array:
    """Trapezoid sum over the winning value, which converges exponentially for smooth densities."""
    values = utilities / scale
    points = np.arange(values.min() - 10, values.max() + 10, 0.05)
    shifted = points - values[:, :, None]  # [N, n, G]
    logs = log_ndtr(shifted)
    others = np.exp(logs.sum(axis=1, keepdims=True) - logs)
    distribution = (np.exp(-0.5 * shifted**2) * others).sum(axis=2)
    return distribution / distribution.sum(axis=1, keepdims=True)


def _laplace(utilities: Array, scale: float) -> Array:
    """Gauss-Legendre between the kinks of all densities."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    reach = 2 * np.ceil(40 * scale)
    edges = np.arange(2 * utilities.min() - reach, 2 * utilities.max() + reach) / 2  # [E]
    points = (edges[:, None] + 0.25 + 0.25 * nodes).ravel()
    shifted = (points - utilities[:, :, None]) / scale
    tail = 0.5 * np.exp(-np.abs(shifted))
    cdf = np.where(shifted < 0, tail, 1 - tail)
    candidates = range(utilities.shape[1])
    others = np.stack([np.delete(cdf, i, axis=1).prod(axis=1) for i in candidates], axis=1)
    distribution = (tail * others) @ np.tile(weights, len(edges))
    return distribution / distribution.sum(axis=1, keepdims=True)


_DISTRIBUTIONS = {"gumbel": _gumbel, "exponential": _exponential, "gaussian": _gaussian, "laplace": _laplace}
