"""Coins that show True with probability exp(-number / scale), and the pick of permute-and-flip by such coins."""

import math
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np

from pate.mechanisms.noise.enclosures import Bounds, exp_bounds
from pate.mechanisms.noise.lazy_uniforms import Bits, Integers, LazyUniforms
from pate.mechanisms.noise.weighted_index import (
    FEW_OPERATIONS,
    Interval,
    Weights,
    exponential_weights,
    index_of,
)

_LEAST = -700.0  # numbers below the normal ones are slow
FAR = 40.0  # scales; one uniform number says that no coin farther on shows True
_LEVELS = 16
_LOG_2_UP = math.log(2) * (1 + 2.0**-50)
_ANDS = 6  # of whole arrays; what is left then is drawn one by one
_FEW = 512
_MOST = 2.0**61


def toss_exponential(
    numbers: Integers, scale: float, rng: np.random.Generator, *, level: int = 0
) -> Bits:
    """Tosses one coin for each number, which shows True with probability 2**level exp(-number / scale) <= 1.

    Args:
        numbers: whole numbers >= 0, of any shape. A coin for the number 0 shows True.
        scale: the scale, > 0.
        rng: draws one uniform number for each coin.
        level: the exponent of the factor 2**level.

    Returns:
        One bit for each number: True if its coin shows True.
    """

    def exact(exponent: Fraction, digits: int) -> Bounds:
        low, high = exp_bounds(exponent, digits=digits + level)
        return low * 2**level, high * 2**level

    with np.errstate(over="ignore"):  # off by at most 2**-47
        chances = np.minimum(np.ldexp(np.exp(np.maximum(-numbers / scale, _LEAST)), level), 1.0)
    uniforms = LazyUniforms.draw(numbers.shape, rng)
    u = uniforms.approximate()
    coins = u < chances
    for place in np.argwhere(np.abs(u - chances) <= FEW_OPERATIONS).tolist():
        exponent = -Fraction(int(numbers[tuple(place)])) / Fraction(scale)
        coins[tuple(place)] = uniforms.at(*place).below(partial(exact, exponent))
    return np.asarray(coins | (numbers == 0))


def toss_rare_exponential(
    numbers: Integers, scale: float, rng: np.random.Generator, *, base: int = 0
) -> Bits:
    """Tosses coins that seldom show True: each with probability exp(-(number - base) / scale) < exp(-40).

    One uniform number for each row decides, for nearly all rows, that no coin of the row shows True.

    Args:
        numbers: whole numbers that exceed `base` by more than 40 scales, `[Q, n]`.
        scale: the scale, > 0.
        rng: draws the coins.
        base: the number that is subtracted from all numbers.

    Returns:
        One bit for each number, `[Q, n]`.
    """
    # the first coin of a row to show True is one index by weight; later coins are tossed
    coins = np.zeros(numbers.shape, dtype=np.bool_)
    if numbers.shape[1] == 0:
        return coins
    uniforms = LazyUniforms.draw(
        (len(numbers),), rng
    )  # u below 1 - P[none] says that one shows True
    most = 2 * numbers.shape[1] * math.exp(-FAR) + FEW_OPERATIONS
    for row in np.flatnonzero(uniforms.approximate() <= most).tolist():
        first = index_of(uniforms.at(row), _first_weights(numbers[row] - base, scale))
        if first < numbers.shape[1]:
            coins[row, first] = True
            coins[row, first + 1 :] = toss_exponential(numbers[row, first + 1 :] - base, scale, rng)
    return coins


def _first_weights(numbers: Integers, scale: float) -> Weights:
    """Returns the exact probability, for each coin of a row, that it is the first coin to show True.

    The last entry is the probability that no coin of the row shows True.

    Args:
        numbers: `[n]`; a coin shows True with probability exp(-number / scale).
        scale: the scale, > 0.
    """
    single = exponential_weights(
        [Fraction(number) / Fraction(scale) for number in numbers.tolist()]
    )

    def weights(digits: int) -> list[Interval]:
        unit = 10**digits
        # bounds on the probability that no coin has shown True so far
        least = unit
        most = unit
        intervals = []
        for low, high in single(digits):
            intervals.append((least * low // unit, -(-most * high // unit)))
            least = least * max(unit - high, 0) // unit
            most = -(-most * (unit - low) // unit)
        return [*intervals, (least, most)]

    return weights


def lucky_place(
    numbers: Integers, first: int, alive: Bits, scale: float, rng: np.random.Generator
) -> int:
    """Draws one place uniformly among the places whose coin shows True, of a long row of rising numbers.

    The coin of a place shows True with probability exp((numbers[first] - number) / scale).

    Args:
        numbers: whole numbers in rising order, `[d]`.
        first: the first place that takes part; its coin shows True.
        alive: bits `[d]` of the places that take part. Places before `first` do not.
        scale: the scale, > 0.
        rng: draws the coins.
    """
    base = int(numbers[first])
    steps = [level * scale * _LOG_2_UP for level in range(_LEVELS + 1)]
    least = [base + math.ceil(min(step, _MOST)) for step in (*steps, FAR * scale)]
    # where the levels begin, and where the last one ends: a coin of level j has probability at most 2**-j
    ends = np.maximum(np.searchsorted(numbers, least), first)
    expected = float((np.diff(ends) * 0.5 ** np.arange(_LEVELS + 1)).sum())
    # coins in a random order, each once, until one shows True
    if expected * expected > len(numbers):
        size = math.ceil(4 * len(numbers) / expected) + 8
        tossed = np.zeros(0, dtype=np.int64)
        while True:
            drawn = rng.integers(first, len(numbers), size=size)
            drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
            drawn = drawn[alive[drawn] & ~np.isin(drawn, tossed)]
            coins = toss_exponential(numbers[drawn] - base, scale, rng)
            if coins.any():
                return int(drawn[coins.argmax()])
            tossed = np.concatenate([tossed, drawn])
    far = toss_rare_exponential(numbers[None, ends[-1] :], scale, rng, base=base)[0]
    places_of_heads = []
    for level, (start, stop) in enumerate(pairwise(ends.tolist())):
        places = start + thinned(stop - start, level, rng)
        places_of_heads.append(
            places[toss_exponential(numbers[places] - base, scale, rng, level=level)]
        )
    places = np.concatenate([*places_of_heads, ends[-1] + np.flatnonzero(far)])
    places = places[alive[places]]
    return int(places[rng.integers(0, len(places))])


def thinned(count: int, level: int, rng: np.random.Generator) -> Integers:
    """Draws a random subset of the places 0..count - 1, which contains each place with probability 2**-level, exactly.

    Returns the places of the subset in rising order.
    """
    if level == 0:
        return np.arange(count)
    if count <= _FEW:
        return np.flatnonzero(rng.integers(0, 2**level, size=count) == 0)
    size = -(-count // 8)
    first = min(level, _ANDS)
    bits = np.frombuffer(rng.bytes(size), dtype=np.uint8).copy()
    for _ in range(first - 1):
        bits &= np.frombuffer(rng.bytes(size), dtype=np.uint8)
    some = np.flatnonzero(bits)
    rows, columns = np.nonzero(np.unpackbits(bits[some, None], axis=1))
    places = some[rows] * 8 + columns
    places = places[places < count]
    return np.asarray(
        places[rng.integers(0, 2 ** (level - first), size=len(places)) == 0]
        if level > first
        else places
    )
