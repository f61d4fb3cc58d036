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
    WeightEncloser,
    exponential_encloser,
    index_of,
)

# Deficits of more scales have coins that seldom show True: one uniform number says, for a whole row, that none does.
FAR = 40.0
# Exponents in floats are raised to this, because numbers below the normal ones are slow.
_LOWEST_EXPONENT = -700.0
# In a long row, the coins whose deficits exceed the first one by j log 2 to (j + 1) log 2 scales form level j. Such a
# coin shows True with probability at most 2**-j. The last of the levels 0, 1, …, 16 reaches up to FAR scales.
_LAST_LEVEL = 16
# A bound above log(2).
_LOG_2_UP = math.log(2) * (1 + 2.0**-50)
# Random bits of so many whole rows are combined by "and". The places that remain are thinned one by one.
_MAX_HALVINGS_AT_ONCE = 6
# Rows of at most so many places are thinned one by one.
_FEW_PLACES = 512
# The excess at which a level starts is cut to this, so that the sum with a deficit fits into 64 bits.
_LARGEST_EXCESS = 2.0**61


def toss_exponential(
    deficits: IntArray, noise_scale: float, rng: np.random.Generator, *, log2_chance_factor: int = 0
) -> BoolArray:
    """Tosses a coin for each deficit, which shows True with chance 2**log2_chance_factor exp(-deficit / noise_scale).

    That chance must be at most 1, except for a deficit of 0, whose coin always shows True.

    Args:
        deficits: whole numbers >= 0, of any shape.
        noise_scale: the scale, > 0.
        rng: draws one uniform number for each coin.
        log2_chance_factor: the logarithm, to base 2, of the factor of all probabilities; a whole number >= 0.

    Returns:
        One bit for each deficit: True if its coin shows True.
    """

    def enclose_chance(exponent: Fraction, decimal_digits: int) -> Bounds:
        lower_bound, upper_bound = exp_bounds(
            exponent, decimal_digits=decimal_digits + log2_chance_factor
        )
        return lower_bound * 2**log2_chance_factor, upper_bound * 2**log2_chance_factor

    with np.errstate(over="ignore"):  # a quotient of minus infinity is raised to `_LOWEST_EXPONENT`
        exponents = np.maximum(-deficits / noise_scale, _LOWEST_EXPONENT)
        # These floats are off by at most 2**-47.
        chances = np.minimum(np.ldexp(np.exp(exponents), log2_chance_factor), 1.0)
    lazy_uniforms = LazyUniforms.draw(deficits.shape, rng)
    u = lazy_uniforms.approximate()
    coins = u < chances
    for position in np.argwhere(np.abs(u - chances) <= FEW_OPERATIONS).tolist():
        coin_index = tuple(position)
        exponent = -Fraction(int(deficits[coin_index])) / Fraction(noise_scale)
        coins[coin_index] = lazy_uniforms.entry(coin_index).below(partial(enclose_chance, exponent))
    return np.asarray(coins | (deficits == 0))


def toss_rare_exponential(
    deficits: IntArray, noise_scale: float, rng: np.random.Generator, *, base_deficit: int = 0
) -> BoolArray:
    """Tosses coins that seldom show True: with probability exp(-(deficit - base_deficit) / noise_scale) <= exp(-40).

    One uniform number for each row decides, for nearly all rows, that no coin of the row shows True.

    Args:
        deficits: whole numbers that exceed `base_deficit` by at least 40 scales, `[Q, n]`.
        noise_scale: the scale, > 0.
        rng: draws the coins.
        base_deficit: the whole number that is subtracted from all deficits.

    Returns:
        One bit for each deficit, `[Q, n]`: True if its coin shows True.
    """
    num_coins = deficits.shape[1]
    coins = np.zeros(deficits.shape, dtype=np.bool_)
    if num_coins == 0:
        return coins
    # The first coin of a row to show True is drawn as one index by weight. The coins behind it are tossed. Some coin of
    # the row shows True with a probability below `largest_chance`; the last weight is that of none.
    lazy_uniforms = LazyUniforms.draw((len(deficits),), rng)
    largest_chance = 2 * num_coins * math.exp(-FAR) + FEW_OPERATIONS
    for row in np.flatnonzero(lazy_uniforms.approximate() <= largest_chance).tolist():
        row_deficits = deficits[row] - base_deficit
        first_true_coin = index_of(
            lazy_uniforms.entry((row,)),
            enclose_weights=_first_coin_encloser(row_deficits, noise_scale),
        )
        if first_true_coin < num_coins:
            coins[row, first_true_coin] = True
            coins[row, first_true_coin + 1 :] = toss_exponential(
                row_deficits[first_true_coin + 1 :], noise_scale=noise_scale, rng=rng
            )
    return coins


def _first_coin_encloser(deficits: IntArray, noise_scale: float) -> WeightEncloser:
    """Returns the function that encloses the probability of each coin of a row to be the first that shows True.

    The last entry is the probability that no coin of the row shows True.

    Args:
        deficits: `[n]`; a coin shows True with probability exp(-deficit / noise_scale).
        noise_scale: the scale, > 0.
    """
    exponents = [Fraction(deficit) / Fraction(noise_scale) for deficit in deficits.tolist()]
    enclose_coin_weights = exponential_encloser(exponents)

    def enclose_weights(decimal_digits: int) -> list[Interval]:
        unit = 10**decimal_digits
        # Bounds, in the unit, on the probability that no coin so far shows True.
        lower_bound_of_none = unit
        upper_bound_of_none = unit
        weight_intervals = []
        for lower_coin_weight, upper_coin_weight in enclose_coin_weights(decimal_digits):
            weight_intervals.append(
                (
                    lower_bound_of_none * lower_coin_weight // unit,
                    _divide_up(numerator=upper_bound_of_none * upper_coin_weight, denominator=unit),
                )
            )
            lower_bound_of_none = lower_bound_of_none * max(unit - upper_coin_weight, 0) // unit
            upper_bound_of_none = _divide_up(
                numerator=upper_bound_of_none * (unit - lower_coin_weight), denominator=unit
            )
        return [*weight_intervals, (lower_bound_of_none, upper_bound_of_none)]

    return enclose_weights


def _divide_up(numerator: int, denominator: int) -> int:
    """Returns the quotient of two whole numbers, rounded up."""
    return -(-numerator // denominator)


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
    deficit_of_first_place = int(deficits[first_place])
    excesses_at_level_starts = [level * noise_scale * _LOG_2_UP for level in range(_LAST_LEVEL + 1)]
    smallest_deficits = [
        deficit_of_first_place + math.ceil(min(level_start_excess, _LARGEST_EXCESS))
        for level_start_excess in (*excesses_at_level_starts, FAR * noise_scale)
    ]
    # The place at which each level begins, and that at which the last level ends.
    level_boundaries = np.maximum(np.searchsorted(deficits, smallest_deficits), first_place)
    num_expected_lucky = float(
        (np.diff(level_boundaries) * 0.5 ** np.arange(_LAST_LEVEL + 1)).sum()
    )
    if num_expected_lucky * num_expected_lucky > len(deficits):
        batch_size = math.ceil(4 * len(deficits) / num_expected_lucky) + 8
        return _first_lucky_place(
            deficits,
            first_place=first_place,
            candidate_mask=candidate_mask,
            noise_scale=noise_scale,
            batch_size=batch_size,
            rng=rng,
        )
    rare_coins = toss_rare_exponential(
        deficits[None, level_boundaries[-1] :],
        noise_scale=noise_scale,
        rng=rng,
        base_deficit=deficit_of_first_place,
    )[0]
    lucky_places = []
    for level, (level_start, level_end) in enumerate(pairwise(level_boundaries.tolist())):
        # A coin of level j is the product of two: one of probability 2**-j, by which the level is thinned, and one for
        # the rest.
        thinned_places = draw_thinned_places(
            num_places=level_end - level_start, num_halvings=level, rng=rng
        )
        places = level_start + thinned_places
        is_coin_true = toss_exponential(
            deficits[places] - deficit_of_first_place,
            noise_scale=noise_scale,
            rng=rng,
            log2_chance_factor=level,
        )
        lucky_places.append(places[is_coin_true])
    places = np.concatenate([*lucky_places, level_boundaries[-1] + np.flatnonzero(rare_coins)])
    places = places[candidate_mask[places]]
    return int(places[rng.integers(0, len(places))])


def _first_lucky_place(
    deficits: IntArray,
    first_place: int,
    candidate_mask: BoolArray,
    noise_scale: float,
    batch_size: int,
    rng: np.random.Generator,
) -> int:
    """Draws one place uniformly among the places whose coin shows True, in a row in which many coins do.

    The places take turns in a random order, each once, until a coin shows True. The arguments are those of
    `draw_lucky_place`, and `batch_size`, the number of places that are drawn at a time.
    """
    deficit_of_first_place = int(deficits[first_place])
    tossed_places = np.zeros(0, dtype=np.int64)
    while True:
        places = rng.integers(first_place, len(deficits), size=batch_size)
        first_indices = np.unique(places, return_index=True)[1]
        places = places[np.sort(first_indices)]
        places = places[candidate_mask[places] & ~np.isin(places, tossed_places)]
        is_coin_true = toss_exponential(
            deficits[places] - deficit_of_first_place, noise_scale=noise_scale, rng=rng
        )
        if is_coin_true.any():
            return int(places[is_coin_true.argmax()])
        tossed_places = np.concatenate([tossed_places, places])


def draw_thinned_places(num_places: int, num_halvings: int, rng: np.random.Generator) -> IntArray:
    """Draws a random subset of the places 0..num_places - 1, and returns its places in rising order.

    Each place is in the subset independently, with probability 2**-num_halvings, exactly.
    """
    if num_halvings == 0:
        return np.arange(num_places)
    if num_places <= _FEW_PLACES:
        return np.flatnonzero(rng.integers(0, 2**num_halvings, size=num_places) == 0)
    # One random bit for each place halves the subset. The bits of 8 places are one byte.
    num_bytes = _divide_up(numerator=num_places, denominator=8)
    num_at_once = min(num_halvings, _MAX_HALVINGS_AT_ONCE)
    packed_bits = np.frombuffer(rng.bytes(num_bytes), dtype=np.uint8).copy()
    for _ in range(num_at_once - 1):
        packed_bits &= np.frombuffer(rng.bytes(num_bytes), dtype=np.uint8)
    nonzero_bytes = np.flatnonzero(packed_bits)
    byte_places, bit_numbers = np.nonzero(np.unpackbits(packed_bits[nonzero_bytes, None], axis=1))
    places = nonzero_bytes[byte_places] * 8 + bit_numbers
    places = places[places < num_places]
    num_further = num_halvings - num_at_once
    if num_further == 0:
        return np.asarray(places)
    return np.asarray(places[rng.integers(0, 2**num_further, size=len(places)) == 0])
