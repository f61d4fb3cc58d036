"""The Renyi curve of a winner: the worst of a cover's pairs, order by order."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pate.accounting.special import log_ndtr
from pate.accounting.winner.cover import (
    FAR_BIT,
    HIGHEST_SUM,
    LARGEST_MULTIPLIER,
    LOWEST,
    SMALLEST_MULTIPLIER,
    bits,
    squares,
)
from pate.accounting.winner.pairs import FARTHEST, Pair

Array = NDArray[np.float64]

_ROUNDING = 2.0**-50
_UP = 1 + 1e-12


def winner_rdp(noise_multiplier: float, num_moving: int, orders: Array) -> Array:
    """An upper bound for the Renyi curve of a winner, never above that of all counts: `[A]`.

    Args:
        noise_multiplier: noise std / the most by which a count moves.
        num_moving: 1 where one count moves, 2 where one falls and another rises.
        orders: `[A]` > 1.
    """
    if noise_multiplier == 0:
        return np.full_like(orders, np.inf)
    shift = 1 / noise_multiplier
    counts = orders * (num_moving * shift * shift / 2)
    if not SMALLEST_MULTIPLIER < noise_multiplier < LARGEST_MULTIPLIER:
        return counts
    with np.errstate(over="ignore", invalid="ignore"):
        excess = _bit_excess(shift, orders) if num_moving == 1 else _two_moving(shift, orders)
        curve = np.log1p(excess) * _UP / (orders - 1)
    return np.where(np.isfinite(curve), np.minimum(curve, counts), counts)


def _two_moving(shift: float, orders: Array) -> Array:
    wide = math.sqrt(2) * shift
    rare = math.exp(log_ndtr(-HIGHEST_SUM / math.sqrt(2))) * _UP
    high = (1 - rare) * _bit_excess(wide, orders) + rare * np.expm1(_log_moment(orders, wide))
    low = np.expm1(_log_censored(orders, shift, -LOWEST) + _log_moment(orders, shift))
    return np.maximum(np.maximum(high, low), _excess(squares(shift), orders, wide))


def _bit_excess(shift: float, orders: Array) -> Array:
    """E[(P/Q)^a] - 1 of the worst bit of N(shift, 1) and N(0, 1), `[A]`."""
    far = np.expm1(_log_censored(orders, shift, FAR_BIT))
    return np.maximum(far, _excess(bits(shift), orders, shift))


def _excess(pairs: Iterable[Pair], orders: Array, shift: float) -> Array:
    """The largest E[(P/Q)^a] - 1 among pairs, and what their missing mass may add: `[A]`."""
    worst = np.zeros_like(orders)
    far = np.exp(orders * (orders - 1) * (shift * shift / 2) + log_ndtr(orders * shift - FARTHEST))
    for pair in pairs:
        losses = pair.losses
        grown = orders[:, None] * losses
        terms = np.expm1(grown) - orders[:, None] * pair.excess
        rounding = _ROUNDING * (np.abs(np.expm1(grown)) + np.abs(grown))
        total = (terms + rounding) @ pair.masses + orders * max(float(pair.masses @ pair.excess) + pair.missing, 0.0)
        np.maximum(worst, total + far if pair.missing > 0 else total, out=worst)
    return worst


def _log_moment(orders: Array, shift: float) -> Array:
    """Log E[(P/Q)^a] of N(shift, 1) and N(0, 1), `[A]`."""
    return orders * (orders - 1) * (shift * shift / 2) * _UP


def _log_censored(orders: Array, shift: float, threshold: float) -> Array:
    """The same of max(Z, threshold), Z ~ N(0, 1) against N(-shift, 1) or N(shift, 1), the larger of both: `[A]`."""
    moved = (orders - 1) * shift
    sides = [
        np.logaddexp(
            orders * log_ndtr(threshold) - (orders - 1) * log_ndtr(threshold + sign * shift),
            _log_moment(orders, shift) + log_ndtr(sign * moved - threshold),
        )
        for sign in (1, -1)
    ]
    rounding = _ROUNDING * (1 + orders * -log_ndtr(threshold - shift))
    return np.asarray(np.maximum(np.maximum(*sides), 0.0) + rounding)
