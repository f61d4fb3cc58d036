"""Coins that show True with probability exp(-number / scale), and the pick of permute-and-flip by such coins."""

import math
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np

from pate.array_types import BoolArray, IntArray
from pate.mechanisms.noise.enclosures import Bounds, exp_bounds
from pate.mechanisms.noise.lazy_uniforms import LazyUniforms
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
    deficits: IntArray, noise_scale: float, rng: np.random.Generator, *, log2_factor: int = 0
) -> BoolArray:
    """Tosses one coin for each deficit, which shows True with probability 2**log2_factor exp(-deficit / noise_scale).

    That product must be at most 1, except for a deficit of 0, whose coin always shows True.

    Args:
        deficits: whole numbers >= 0, of any shape.
        noise_scale: the scale, > 0.
        rng: draws one uniform number for each coin.
        log2_factor: the logarithm, to base 2, of the factor of all probabilities; a whole number >= 0.

    Returns:
        One bit for each deficit: True if its coin shows True.
    """

    def exact(exponent: Fraction, digits: int) -> Bounds:
        low, high = exp_bounds(exponent, digits=digits + log2_factor)
        return low * 2**log2_factor, high * 2**log2_factor

    with np.errstate(over="ignore"):  # off by at most 2**-47
        chances = np.minimum(
            np.ldexp(np.exp(np.maximum(-deficits / noise_scale, _LEAST)), log2_factor), 1.0
        )
    uniforms = LazyUniforms.draw(deficits.shape, rng)
    u = uniforms.approximate()
    coins = u < chances
    for index in np.argwhere(np.abs(u - chances) <= FEW_OPERATIONS).tolist():
        exponent = -Fraction(int(deficits[tuple(index)])) / Fraction(noise_scale)
        coins[tuple(index)] = uniforms.entry(tuple(index)).below(partial(exact, exponent))
    return np.asarray(coins | (deficits == 0))


def toss_rare_exponential(
    deficits: IntArray, noise_scale: float, rng: np.random.Generator, *, base_deficit: int = 0
) -> BoolArray:
    """Tosses coins that seldom show True: with probability exp(-(deficit - base_deficit) / noise_scale) < exp(-40).

    One uniform number for each row decides, for nearly all rows, that no coin of the row shows True.

    Args:
        deficits: whole numbers that exceed `base_deficit` by more than 40 scales, `[Q, n]`.
        noise_scale: the scale, > 0.
        rng: draws the coins.
        base_deficit: the whole number that is subtracted from all deficits.

    Returns:
        One bit for each deficit, `[Q, n]`: True if its coin shows True.
    """
    # the first coin of a row to show True is one index by weight; later coins are tossed
    coins = np.zeros(deficits.shape, dtype=np.bool_)
    if deficits.shape[1] == 0:
        return coins
    # A coin of the row shows True if u is below 1 - P[none].
    uniforms = LazyUniforms.draw((len(deficits),), rng)
    most = 2 * deficits.shape[1] * math.exp(-FAR) + FEW_OPERATIONS
    for row in np.flatnonzero(uniforms.approximate() <= most).tolist():
        first = index_of(
            uniforms.entry((row,)), _first_weights(deficits[row] - base_deficit, noise_scale)
        )
        if first < deficits.shape[1]:
            coins[row, first] = True
            coins[row, first + 1 :] = toss_exponential(
                deficits[row, first + 1 :] - base_deficit, noise_scale=noise_scale, rng=rng
            )
    return coins


def _first_weights(deficits: IntArray, noise_scale: float) -> Weights:
    """Returns the exact probability, for each coin of a row, that it is the first coin to show True.

    The last entry is the probability that no coin of the row shows True.

    Args:
        deficits: `[n]`; a coin shows True with probability exp(-deficit / noise_scale).
        noise_scale: the scale, > 0.
    """
    single = exponential_weights(
        [Fraction(deficit) / Fraction(noise_scale) for deficit in deficits.tolist()]
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


def draw_lucky_place(
    deficits: IntArray,
    first_place: int,
    candidate_mask: BoolArray,
    noise_scale: float,
    rng: np.random.Generator,
) -> int:
    """Draws one place uniformly among the places whose coin shows True, of a long row of rising deficits.

    The coin of a place shows True with probability exp(-(deficit - deficits[first_place]) / noise_scale).

    Args:
        deficits: whole numbers in rising order, `[d]`.
        first_place: the first place that takes part; its coin shows True.
        candidate_mask: bits `[d]` of the places that take part. Places before `first_place` do not.
        noise_scale: the scale, > 0.
        rng: draws the coins.
    """
    base_deficit = int(deficits[first_place])
    steps = [level * noise_scale * _LOG_2_UP for level in range(_LEVELS + 1)]
    least = [base_deficit + math.ceil(min(step, _MOST)) for step in (*steps, FAR * noise_scale)]
    # where the levels begin, and where the last one ends: a coin of level j has probability at most 2**-j
    ends = np.maximum(np.searchsorted(deficits, least), first_place)
    expected = float((np.diff(ends) * 0.5 ** np.arange(_LEVELS + 1)).sum())
    # coins in a random order, each once, until one shows True
    if expected * expected > len(deficits):
        size = math.ceil(4 * len(deficits) / expected) + 8
        tossed = np.zeros(0, dtype=np.int64)
        while True:
            drawn = rng.integers(first_place, len(deficits), size=size)
            drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
            drawn = drawn[candidate_mask[drawn] & ~np.isin(drawn, tossed)]
            coins = toss_exponential(
                deficits[drawn] - base_deficit, noise_scale=noise_scale, rng=rng
            )
            if coins.any():
                return int(drawn[coins.argmax()])
            tossed = np.concatenate([tossed, drawn])
    far = toss_rare_exponential(
        deficits[None, ends[-1] :], noise_scale=noise_scale, rng=rng, base_deficit=base_deficit
    )[0]
    places_of_heads = []
    for level, (start, stop) in enumerate(pairwise(ends.tolist())):
        places = start + draw_thinned_places(num_places=stop - start, num_halvings=level, rng=rng)
        places_of_heads.append(
            places[
                toss_exponential(
                    deficits[places] - base_deficit,
                    noise_scale=noise_scale,
                    rng=rng,
                    log2_factor=level,
                )
            ]
        )
    places = np.concatenate([*places_of_heads, ends[-1] + np.flatnonzero(far)])
    places = places[candidate_mask[places]]
    return int(places[rng.integers(0, len(places))])


def draw_thinned_places(num_places: int, num_halvings: int, rng: np.random.Generator) -> IntArray:
    """Draws a random subset of the places 0..num_places - 1, and returns its places in rising order.

    Each place is in the subset independently, with probability 2**-num_halvings, exactly.
    """
    if num_halvings == 0:
        return np.arange(num_places)
    if num_places <= _FEW:
        return np.flatnonzero(rng.integers(0, 2**num_halvings, size=num_places) == 0)
    size = -(-num_places // 8)
    first = min(num_halvings, _ANDS)
    bits = np.frombuffer(rng.bytes(size), dtype=np.uint8).copy()
    for _ in range(first - 1):
        bits &= np.frombuffer(rng.bytes(size), dtype=np.uint8)
    some = np.flatnonzero(bits)
    rows, columns = np.nonzero(np.unpackbits(bits[some, None], axis=1))
    places = some[rows] * 8 + columns
    places = places[places < num_places]
    return np.asarray(
        places[rng.integers(0, 2 ** (num_halvings - first), size=len(places)) == 0]
        if num_halvings > first
        else places
    )
