"""What a session of calls gives away at least: the same pair of neighbors in every call, up to the last hit."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from pate.validation import require_count, require_probability

Array = NDArray[np.float64]

_WIDTH, _BEYOND = 9.0, 40  # standard deviations of a count that are looked at, and more of it
_BISECTIONS = 40
_HIGHEST = 200.0


def session_epsilon(
    first: ArrayLike, second: ArrayLike, *, num_calls: int, target_hits: int, target_delta: float
) -> float:
    """An epsilon that the session needs, from below, where every call has these distributions on two neighbors.

    Calls are exchangeable up to the last one: the law of a session is that of how often each outcome occurred. Rare
    counts are left out, which only lowers what is found.

    Args:
        first: `[3]` positive probabilities of two outcomes that cost nothing, and of a hit.
        second: `[3]` the same on the neighbor.
        num_calls: at most so many, >= 1.
        target_hits: the hit of that number ends the session, >= 1.
        target_delta: in (0, 1).

    >>> first, second = [0.5, 0.3, 0.2], [0.6, 0.24, 0.16]
    >>> [round(session_epsilon(first, second, num_calls=n, target_hits=3, target_delta=1e-3), 2) for n in (1, 9, 99)]
    [0.22, 1.51, 2.15]
    """
    calls, hits = require_count("num_calls", num_calls), require_count("target_hits", target_hits)
    require_probability("target_delta", target_delta)
    logs = np.log(np.array([first, second], dtype=np.float64))
    chances, losses = [], []
    for counts, last in _transcripts(np.exp(logs).max(axis=0), calls, hits):
        ways = scipy.special.gammaln(counts.sum(axis=0) + 1 - last) - scipy.special.gammaln(counts[:2] + 1).sum(axis=0)
        ways -= scipy.special.gammaln(counts[2] + 1 - last)
        chances.append(np.exp(ways + np.tensordot(logs[0], counts, 1)).ravel())
        losses.append(np.tensordot(logs[0] - logs[1], counts, 1).ravel())
    probability, loss = np.concatenate(chances), np.concatenate(losses)
    low, high = 0.0, _HIGHEST
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        above = float((probability * -np.expm1(np.minimum(middle - loss, 0))).sum()) > target_delta
        low, high = (middle, high) if above else (low, middle)
    return low


def _transcripts(likeliest: Array, calls: int, hits: int) -> list[tuple[Array, int]]:
    """Counts of the three outcomes, `[3, ...]`: of sessions that a hit ended, and 1; of those that ran out, and 0."""
    mean = calls * float(likeliest[1])
    most = min(calls, math.ceil(mean + _WIDTH * math.sqrt(mean)) + _BEYOND)
    others = np.arange(most + 1, dtype=np.float64)
    found = []
    if calls >= hits:
        length, other = np.meshgrid(np.arange(hits, calls + 1, dtype=np.float64), others, indexing="ij")
        found.append((_counts(length, other, np.full_like(length, hits)), 1))
    hit, other = np.meshgrid(np.arange(min(hits, calls + 1), dtype=np.float64), others, indexing="ij")
    found.append((_counts(np.full_like(hit, calls), other, hit), 0))
    return found


def _counts(length: Array, other: Array, hit: Array) -> Array:
    """`[3, n]`, of those that are possible."""
    counts = np.stack([length - other - hit, other, hit])
    return np.asarray(counts[:, counts[0] >= 0])
