"""Permute-and-flip peeling: k rounds of the noisy maximum with exponential noise, drawn by coins."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np

from pate.accounting import Event, PureDpEvent, SelfComposedEvent
from pate.mechanisms.noise import uniforms
from pate.mechanisms.noise.kinds import exponential_argmax
from pate.mechanisms.noise.uniforms import Bits, Bounds, Interval, LazyUniforms, Weights, index_of
from pate.mechanisms.top_k import Counts, Distribution, PureTopK, falling_order, peel_distribution, utilities_of

_FEW_OPERATIONS = 2.0**-46  # far above the rounding error of a quotient, an exp, and of u itself
_LEAST = -700.0  # numbers below the normal ones are slow
_LONG = 2**15  # counts; below it all rows are drawn at once
_FAR = 40.0  # noise scales; one uniform number says that no coin farther on shows True
_LEVELS = 16
_LOG_2_UP = math.log(2) * (1 + 2.0**-50)
_ANDS = 6  # of whole arrays; what is left then is drawn one by one
_FEW = 512
_MOST = 2.0**61


def toss_exponential(numbers: Counts, scale: float, rng: np.random.Generator, *, level: int = 0) -> Bits:
    """Coins of probability 2**level exp(-number / scale) <= 1, elementwise, for whole numbers >= 0; True for 0."""

    def exact(exponent: Fraction, digits: int) -> Bounds:
        low, high = uniforms.exp_bounds(exponent, digits + level)
        return low * 2**level, high * 2**level

    with np.errstate(over="ignore"):  # off by at most 2**-47
        chances = np.minimum(np.ldexp(np.exp(np.maximum(-numbers / scale, _LEAST)), level), 1.0)
    drawn = LazyUniforms.draw(numbers.shape, rng)
    u = drawn.approximate()
    shown = u < chances
    for place in np.argwhere(np.abs(u - chances) <= _FEW_OPERATIONS).tolist():
        exponent = -Fraction(int(numbers[tuple(place)])) / Fraction(scale)
        shown[tuple(place)] = drawn.at(*place).below(partial(exact, exponent))
    return np.asarray(shown | (numbers == 0))


def toss_rare_exponential(
    numbers: Counts, scale: float, most: float, rng: np.random.Generator, *, base: int = 0
) -> Bits:
    """The same for rows `[Q, n]`, of numbers less `base`, of which no coin is above `most`: one uniform number a row.

    Which coin of a row is the first to show True is one index by weight; those after it are tossed.
    """
    shown = np.zeros(numbers.shape, dtype=np.bool_)
    if numbers.shape[1] == 0:
        return shown
    drawn = LazyUniforms.draw((len(numbers),), rng)  # u below 1 - P[none] says that one shows True
    for row in np.flatnonzero(drawn.approximate() <= 2 * numbers.shape[1] * most + _FEW_OPERATIONS).tolist():
        first = index_of(drawn.at(row), _first_weights(numbers[row] - base, scale))
        if first < numbers.shape[1]:
            shown[row, first] = True
            shown[row, first + 1 :] = toss_exponential(numbers[row, first + 1 :] - base, scale, rng)
    return shown


def _first_weights(numbers: Counts, scale: float) -> Weights:
    """The probabilities that each coin is the first to show True, then that none does."""
    single = uniforms.exponential_weights([Fraction(number) / Fraction(scale) for number in numbers.tolist()])

    def weights(digits: int) -> list[Interval]:
        unit = 10**digits
        least = most = unit  # that none has shown True so far
        intervals = []
        for low, high in single(digits):
            intervals.append((least * low // unit, -(-most * high // unit)))
            least, most = least * max(unit - high, 0) // unit, -(-most * (unit - low) // unit)
        return [*intervals, (least, most)]

    return weights


def lucky_place(numbers: Counts, first: int, alive: Bits, scale: float, rng: np.random.Generator) -> int:
    """One of the living places whose coin shows True, each as likely; `first` is the first living one.

    A coin has probability exp(-(number - that of `first`) / scale), for rising numbers.
    """
    base = int(numbers[first])
    steps = [level * scale * _LOG_2_UP for level in range(_LEVELS + 1)]
    least = [base + math.ceil(min(step, _MOST)) for step in (*steps, _FAR * scale)]
    # where the levels begin, and where the last one ends: a coin of level j has probability at most 2**-j
    ends = np.maximum(np.searchsorted(numbers, least), first)
    expected = float((np.diff(ends) * 0.5 ** np.arange(_LEVELS + 1)).sum())
    if expected * expected > len(numbers):
        return _first_in_random_order(numbers, first, alive, scale, expected, rng)
    far = toss_rare_exponential(numbers[None, ends[-1] :], scale, math.exp(-_FAR), rng, base=base)[0]
    shown = []
    for level, (start, stop) in enumerate(pairwise(ends.tolist())):
        places = start + thinned(stop - start, level, rng)
        shown.append(places[toss_exponential(numbers[places] - base, scale, rng, level=level)])
    places = np.concatenate([*shown, ends[-1] + np.flatnonzero(far)])
    places = places[alive[places]]
    return int(places[rng.integers(0, len(places))])


def _first_in_random_order(
    numbers: Counts, first: int, alive: Bits, scale: float, expected: float, rng: np.random.Generator
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


def thinned(count: int, level: int, rng: np.random.Generator) -> Counts:
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


@dataclass(frozen=True, kw_only=True)
class PermuteAndFlipTopK(PureTopK):
    """Picks an index by permute-and-flip on the counts, removes it, and repeats k times; released in this order.

    It is drawn by coins: noise of any kind on the counts is not needed, and no digits of a float decide.

    Formal guarantee: each pick is (epsilon / k)-DP, with exponential noise of mean k w / epsilon, where w is 2
    (replace-one) or 1 (add/remove). The price epsilon**2 / 8 of a bounded range is false for it.

    Source: McKenna & Sheldon 2020, Ding et al. 2021; docs/proofs/top_k.md.

    >>> distribution = PermuteAndFlipTopK(k=1, epsilon=2.0).distribution(np.array([3, 2, 0]))
    >>> {index: round(p, 3) for (index,), p in distribution.items()}
    {0: 0.797, 1: 0.181, 2: 0.022}
    """

    @property
    def event(self) -> Event:
        return SelfComposedEvent(PureDpEvent(self.epsilon / self.k), self.k)

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        # An index whose count is c below the best that is left can win if its noise exceeds c: a coin of probability
        # exp(-c / scale). By how much it exceeds c has one distribution for all, so each of those is as likely to win.
        order, falling = falling_order(counts)
        if counts.shape[1] >= _LONG:
            ranks = np.stack([self._picked(row[0] - row, rng) for row in falling])
            return np.take_along_axis(order, ranks, axis=1)
        left, rows = np.ones(counts.shape, dtype=np.bool_), np.arange(len(counts))
        ranks = np.empty((len(counts), self.k), dtype=np.int64)
        for place in range(self.k):
            deficits = falling[rows, left.argmax(axis=1)][:, None] - falling  # below 0 where picked before
            near = int((deficits <= _FAR * self.noise_scale).sum(axis=1).max())
            able = left.copy()
            able[:, :near] &= toss_exponential(np.maximum(deficits[:, :near], 0), self.noise_scale, rng)
            able[:, near:] &= toss_rare_exponential(deficits[:, near:], self.noise_scale, math.exp(-_FAR), rng)
            numbers = np.cumsum(able, axis=1)
            lucky = rng.integers(0, numbers[:, -1])
            ranks[:, place] = (numbers <= lucky[:, None]).sum(axis=1)
            left[rows, ranks[:, place]] = False
        return np.take_along_axis(order, ranks, axis=1)

    def _picked(self, deficits: Counts, rng: np.random.Generator) -> Counts:
        """The places `[k]` picked from one long row of rising deficits `[d]`: the same law, without a coin for each."""
        alive, picks, first = np.ones(len(deficits), dtype=np.bool_), np.empty(self.k, dtype=np.int64), 0
        for number in range(self.k):
            while not alive[first]:
                first += 1
            picks[number] = lucky_place(deficits, first, alive, self.noise_scale, rng)
            alive[picks[number]] = False
        return picks

    def distribution_of(self, counts: Counts) -> Distribution:
        return peel_distribution(utilities_of(counts, self.noise_scale), self.k, exponential_argmax)
