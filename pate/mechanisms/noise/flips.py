"""One of those coins that show True, each as likely, of very many rare coins: at a cost far below their number.

Two ways with the same law. Coins in a random order until one shows True is short where many do. Where few do, coins are
thinned: coins of probability at most 2**-j by j fair bits each, a machine's word of coins at a time, and those that are
left by a coin of what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.noise.coins import toss, toss_exponential, toss_rare_exponential
from pate.mechanisms.noise.enclosures import Bounds, exp_bounds
from pate.mechanisms.noise.lazy_bits_uniform import LazyUniforms

Numbers = NDArray[np.int64]
Places = NDArray[np.int64]

_LEVELS = 16
_LOG_2_UP = math.log(2) * (1 + 2.0**-50)
_ANDS = 6  # of whole arrays; what is left then is drawn one by one
_FEW = 512
_MOST, _LEAST = 2.0**61, -700.0
_FAR = 40.0  # scales; one uniform number says that no coin farther on shows True


def lucky_place(numbers: Numbers, first: int, alive: NDArray[np.bool_], scale: float, rng: np.random.Generator) -> int:
    """One of the living places whose coin shows True, each as likely.

    Args:
        numbers: `[n]` rising; a coin has probability exp(-(number - that of `first`) / scale).
        first: the first living place.
        alive: `[n]`.
        scale: > 0.
        rng: the noise.
    """
    base = int(numbers[first])
    ends = _ends(numbers, first, scale)
    expected = float((np.diff(ends) * 0.5 ** np.arange(_LEVELS + 1)).sum())
    if expected * expected > len(numbers):
        return _first_in_random_order(numbers, first, alive, scale, expected, rng)
    far = toss_rare_exponential(numbers[None, ends[-1] :], scale, math.exp(-_FAR), rng, base=base)[0]
    shown = [_shown(numbers, base, level, ends, scale, rng) for level in range(_LEVELS + 1)]
    places = np.concatenate([*shown, ends[-1] + np.flatnonzero(far)])
    places = places[alive[places]]
    return int(places[rng.integers(0, len(places))])


def _ends(numbers: Numbers, first: int, scale: float) -> Places:
    """Where the levels begin, and where the last one ends: a coin of level j has probability at most 2**-j."""
    steps = [level * scale * _LOG_2_UP for level in range(_LEVELS + 1)]
    least = [int(numbers[first]) + math.ceil(min(step, _MOST)) for step in (*steps, _FAR * scale)]
    return np.maximum(np.searchsorted(numbers, least), first)


def _first_in_random_order(
    numbers: Numbers, first: int, alive: NDArray[np.bool_], scale: float, expected: float, rng: np.random.Generator
) -> int:
    """Living coins in a random order, each once; as much of the order as is needed."""
    size, tossed = math.ceil(4 * len(numbers) / expected) + 8, np.zeros(0, dtype=np.int64)
    while True:
        drawn = rng.integers(first, len(numbers), size=size)
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
        drawn = drawn[alive[drawn] & ~np.isin(drawn, tossed)]
        shown = toss_exponential(numbers[drawn] - numbers[first], scale, rng)
        if shown.any():
            return int(drawn[shown.argmax()])
        tossed = np.concatenate([tossed, drawn])


def _shown(numbers: Numbers, base: int, level: int, ends: Places, scale: float, rng: np.random.Generator) -> Places:
    """The places of a level whose coins show True."""
    places = ends[level] + thinned(int(ends[level + 1] - ends[level]), level, rng)
    deficits, divisor = numbers[places] - base, Fraction(scale)

    def exact(place: int) -> Callable[[int], Bounds]:
        exponent = -Fraction(int(deficits[place])) / divisor

        def times_power(digits: int) -> Bounds:
            low, high = exp_bounds(exponent, digits + level)
            return low * 2**level, high * 2**level

        return times_power

    with np.errstate(over="ignore"):
        chances = np.minimum(np.ldexp(np.exp(np.maximum(-deficits / scale, _LEAST)), level), 1.0)
    return np.asarray(places[toss(chances, LazyUniforms.draw(chances.shape, rng), exact) | (deficits == 0)])


def thinned(count: int, level: int, rng: np.random.Generator) -> Places:
    """Those of `count` places that are left if each is with probability 2**-level, exactly: rising."""
    if level == 0:
        return np.arange(count)
    if count <= _FEW:
        return np.flatnonzero(rng.integers(0, 2**level, size=count) == 0)
    size, first = -(-count // 8), min(level, _ANDS)
    bits = np.frombuffer(rng.bytes(size), dtype=np.uint8).copy()
    for _ in range(first - 1):
        bits &= np.frombuffer(rng.bytes(size), dtype=np.uint8)
    some = np.flatnonzero(bits)
    rows, columns = np.nonzero(np.unpackbits(bits[some, None], axis=1))
    places = some[rows] * 8 + columns
    places = places[places < count]
    return np.asarray(places[rng.integers(0, 2 ** (level - first), size=len(places)) == 0] if level > first else places)
