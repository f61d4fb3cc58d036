"""The law of a winner given the best of the counts that do not move, and how far one change moves it.

Noise has std 1. `a` and `b` are the places of the two counts that move, above the best noisy count of the rest, which
has the same distribution on both sides. Under the first distribution of a pair they stand at (a, b), under the second
one at (a - shift, b + shift). With X ~ N(a, 1) and Y ~ N(b, 1) the first count wins where X > max(0, Y), the rest where
X and Y are below 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import gauss_legendre, ndtr

Array = NDArray[np.float64]

_MANY, _FEW = 64, 16  # nodes
_FARTHEST = 9.0


def density(z: Array) -> Array:
    """Of a standard normal."""
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))


def first_wins(a: Array, b: Array) -> Array:
    """P(X > max(0, Y)), `[N]`, by quadrature; wrong by about 1e-15."""
    low, high = np.maximum(0.0, a - _FARTHEST), np.maximum(a + _FARTHEST, _FARTHEST)
    half = (high - low) / 2
    nodes, weights = gauss_legendre(_MANY)
    x = half[:, None] * nodes + (high + low)[:, None] / 2
    return np.asarray(half * ((density(x - a[:, None]) * ndtr(x - b[:, None])) @ weights))


def moved_mass(z: Array, shift: float) -> Array:
    """Φ(z) - Φ(z - shift), to its last digits however small the shift: `[N]`."""
    nodes, weights = gauss_legendre(_FEW)
    steps = shift * (1 + nodes) / 2
    return np.asarray(shift / 2 * (density(z[:, None] - steps) @ weights))


def vertices(a: Array, b: Array, shift: float) -> tuple[Array, Array]:
    """The points of the pair's test curve that can matter: for four sets S of outcomes, Q(S) and P(S) - Q(S), `[4, N]`.

    The sets are: the first count; the first count or the rest; the rest; either count.
    """
    nodes, weights = gauss_legendre(_FEW)
    steps = shift * (1 + nodes) / 2
    falls = density(a[:, None] - steps) * ndtr(-b[:, None] - steps)
    rises = ndtr(-a[:, None] + steps) * density(b[:, None] + steps)
    either = ndtr((a + b) / math.sqrt(2)) * moved_mass((a - b) / math.sqrt(2), math.sqrt(2) * shift)
    first = shift / 2 * (falls @ weights) + either
    rest = shift / 2 * ((rises - falls) @ weights)
    q_first, q_rest = first_wins(a - shift, b + shift), ndtr(-a + shift) * ndtr(-b - shift)
    masses = np.stack([q_first, q_first + q_rest, q_rest, 1 - q_rest])
    return masses, np.stack([first, first + rest, rest, -rest])
