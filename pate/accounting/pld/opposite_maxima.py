"""Hockey sticks of maxima of standard normals that move: one of them, or two in opposite ways."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import log_ndtr

Array = NDArray[np.float64]

_BISECTIONS = 70
_FARTHEST = 40.0  # standard deviations: beyond it a normal has no mass in double precision
_FARTHEST_OF_ALL = 1e100  # its square is a number; for shifts so small that no place has a loss
_LOWEST, _HIGHEST, _CELLS = -12.0, 9.5, 600  # of the maximum that is cut into cells
_POINTS = 6000
_LARGEST_LOSS = 300.0  # beyond it a loss counts as infinite


def opposite_maxima(rising: int, falling: int, shift: float, epsilons: Array) -> Array:
    """An upper bound for the hockey stick of (M + shift, M' - shift) against (M, M'), independent: `[E]`.

    M' is cut into cells whose masses go to both ends so that both distributions keep theirs, and the hockey stick of M
    is read off chords: both are upper bounds.

    Args:
        rising: how many standard normals M is the largest of.
        falling: the same of M'.
        shift: > 0.
        epsilons: `[E]` rising, of either sign.
    """
    losses, masses, missing = _lowered_losses(falling, shift)
    if len(losses) == 0:
        return np.ones_like(epsilons)
    low, high = epsilons[0] - losses[-1], epsilons[-1] - losses[0]
    points = np.linspace(low, high, _POINTS)
    alone, factors = raised_maximum(rising, shift, points), np.exp(points)
    total = np.full_like(epsilons, missing)
    for loss, mass in zip(losses.tolist(), masses.tolist(), strict=True):
        total += mass * np.interp(np.exp(epsilons - loss), factors, alone)
    return total


def _lowered_losses(count: int, shift: float) -> tuple[Array, Array, float]:
    """The losses, rising, of M' - shift against M', their masses under the first, and what is missing."""
    x = np.linspace(_HIGHEST, _LOWEST - shift, _CELLS + 1)  # the loss rises as x falls
    losses = -shift * x - shift * shift / 2 + (count - 1) * (log_ndtr(x + shift) - log_ndtr(x))
    kept = losses <= _LARGEST_LOSS
    x, losses = x[kept], losses[kept]
    if len(x) < 2:
        return x[:0], x[:0], 1.0
    moved, still = np.exp(count * log_ndtr(x + shift)), np.exp(count * log_ndtr(x))
    mass, other = moved[:-1] - moved[1:], still[:-1] - still[1:]
    ratio = np.exp(losses)
    width = ratio[1:] - ratio[:-1]
    upper = np.clip((mass - ratio[:-1] * other) / np.where(width > 0, width, 1.0), 0.0, other)
    masses = np.zeros(len(x))
    masses[1:] += upper * ratio[1:]
    masses[:-1] += np.maximum(mass - upper * ratio[1:], 0.0)
    masses[0] += 1 - moved[0]  # farther up the loss is smaller
    return losses, masses, float(moved[-1])


def raised_maximum(count: int, shift: float, epsilons: Array) -> Array:
    """The hockey stick of M + shift against M, M the largest of `count` standard normals."""

    def loss(t: Array) -> Array:
        return np.asarray(t * shift - shift * shift / 2 + (count - 1) * (log_ndtr(t - shift) - log_ndtr(t)))

    t = _root(loss, epsilons, shift)
    return np.asarray(np.exp(epsilons) * np.expm1(count * log_ndtr(t)) - np.expm1(count * log_ndtr(t - shift)))


def lowered_maximum(count: int, shift: float, epsilons: Array) -> Array:
    """The hockey stick of M - shift against M."""

    def loss(t: Array) -> Array:
        return np.asarray(t * shift - shift * shift / 2 + (count - 1) * (log_ndtr(shift - t) - log_ndtr(-t)))

    t = -_root(loss, epsilons, shift)
    return np.asarray(np.exp(count * log_ndtr(t + shift)) - np.exp(epsilons + count * log_ndtr(t)))


def _root(rising: Callable[[Array], Array], targets: Array, shift: float) -> Array:
    """Where a rising function of the noise meets its targets, by bisection; an error there costs its square."""
    farthest = min((float(np.abs(targets).max()) + shift * shift) / shift + shift + _FARTHEST, _FARTHEST_OF_ALL)
    low, high = np.full_like(targets, -farthest), np.full_like(targets, farthest)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        before = rising(middle) < targets
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    return (low + high) / 2
