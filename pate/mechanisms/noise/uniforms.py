"""Uniform numbers whose bits are drawn when a comparison needs them, and enclosures of what they are compared with."""

import math
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.mechanisms.noise.secret_generator import HeldStream

Bounds = tuple[Fraction, Fraction]
Limits = tuple[Fraction | float, Fraction | float]

_WORD = 64
_WORDS_OF_64_BITS = (
    np.random.PCG64,
    np.random.PCG64DXSM,
    np.random.Philox,
    np.random.SFC64,
    HeldStream,
)
_DIGITS_PER_BIT = 0.30103
_SPARE = 12  # digits beyond those asked for; they cover the rounding of up to 10**5 operations
_LOG_10 = Fraction(23026, 10_000)
_HALF = Fraction(1, 2)
Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Bits = NDArray[np.bool_]
Words = NDArray[np.uint64]


def exp_bounds(exponent: Fraction, digits: int) -> Bounds:
    """exp(exponent) for exponent <= 0, within 10**-digits."""
    context = _context(digits)
    value = Fraction(context.exp(_decimal(exponent, context)))
    slack = Fraction(1, 10**digits)
    return max(value - slack, Fraction(0)), value + slack


def log_bounds(number: Fraction, digits: int) -> Bounds:
    """log(number) for number > 0, within 10**-digits."""
    before_the_point = len(str(max(number.numerator.bit_length(), number.denominator.bit_length())))
    context = _context(digits + before_the_point)
    value = Fraction(context.ln(_decimal(number, context)))
    slack = Fraction(1, 10**digits)
    return value - slack, value + slack


def normal_bounds(x: Fraction, digits: int) -> Bounds:
    """P[N(0, 1) <= x], within 10**-digits."""
    # P = 1/2 + phi(x) times the sum of x**(2 n + 1) / (1 3 5 … (2 n + 1)), whose terms have one sign
    if x > 0:
        low, high = normal_bounds(-x, digits)
        return 1 - high, 1 - low
    slack = Fraction(1, 10**digits)
    if x * x > 2 * _LOG_10 * digits + 2:  # P <= exp(-x**2 / 2) / 2
        return Fraction(0), slack
    context = _context(digits)
    t = _decimal(-x, context)
    square = context.multiply(t, t)
    term = t
    total = t
    odd = 1
    while 2 * square > odd or total < context.multiply(term, Decimal(10) ** (digits + 3)):
        odd += 2
        term = context.divide(context.multiply(term, square), Decimal(odd))
        total = context.add(total, term)
    exponent = context.divide(square, Decimal(-2))
    circle = context.multiply(Decimal(2), _pi(context.prec))
    density = context.divide(context.exp(exponent), context.sqrt(circle))
    value = _HALF - Fraction(context.multiply(density, total))
    return max(value - slack, Fraction(0)), value + slack


def _context(digits: int) -> Context:
    return Context(prec=digits + _SPARE, Emin=-(10**9), Emax=10**9)


def _decimal(number: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(number.numerator), Decimal(number.denominator))


@lru_cache(maxsize=16)
def _pi(digits: int) -> Decimal:
    """Machin's formula, in whole numbers: 4 (4 arctan 1/5 - arctan 1/239)."""
    scaled = 0
    for factor, x in ((16, 5), (-4, 239)):
        power = 10 ** (digits + 10) // x
        odd = 1
        while power:
            scaled += factor * (power // odd)
            power = power // (x * x)
            odd = odd + 2
            factor = -factor
    return Decimal(scaled).scaleb(-digits - 10, Context(prec=digits + 12))


def is_below(
    first: Callable[[], Limits], second: Callable[[], Limits], *more: Callable[[], None]
) -> bool:
    """Whether a number between the first bounds is below one between the second, with as many more bits as it takes."""
    while True:
        (low, high) = first()
        (least, most) = second()
        if high <= least:
            return True
        if low >= most:
            return False
        for extend in more:
            extend()


class LazyBitsUniform:
    """A uniform number between `numerator` and the next multiple of 2**-bits; its next words may be `ready`."""

    def __init__(self, word: int, rng: np.random.Generator, ready: Sequence[int] = ()) -> None:
        self.numerator = word
        self.bits = _WORD
        self._rng = rng
        self._ready = list(ready)[::-1]

    @property
    def digits(self) -> int:
        """Decimal digits at which the other side of a comparison is worth computing."""
        return int(self.bits * _DIGITS_PER_BIT) + 4

    def bounds(self) -> Bounds:
        """The interval that the bits so far leave open."""
        unit = 1 << self.bits
        return Fraction(self.numerator, unit), Fraction(self.numerator + 1, unit)

    def extend(self) -> None:
        """Draws 64 more bits."""
        word = self._ready.pop() if self._ready else int(words(self._rng, (1,))[0])
        self.numerator = (self.numerator << _WORD) | word
        self.bits += _WORD

    def below(self, enclosure: Callable[[int], Bounds]) -> bool:
        """Whether it is below a number that `enclosure(digits)` bounds ever more closely."""
        return is_below(self.bounds, lambda: enclosure(self.digits), self.extend)


class LazyUniforms:
    """Many of them: the first word of each, the next ones that are `ready`, `[*shape, w]`, and more from `rng`."""

    def __init__(self, first: Words, rng: np.random.Generator, ready: Words | None = None) -> None:
        self.first = first
        self._rng = rng
        self._ready = np.empty((*first.shape, 0), dtype=np.uint64) if ready is None else ready
        self._opened: dict[tuple[int, ...], LazyBitsUniform] = {}

    @classmethod
    def draw(cls, shape: tuple[int, ...], rng: np.random.Generator, *, ahead: int = 0) -> Self:
        """Fresh ones, the next `ahead` words of each included: then a part of them can be drawn from again."""
        drawn = words(rng, (1 + ahead, *shape))
        return cls(drawn[0], rng, np.moveaxis(drawn[1:], 0, -1))

    def __getitem__(self, index: Any) -> Self:
        return type(self)(self.first[index], self._rng, self._ready[index])

    def approximate(self) -> Array:
        """Each as a float in [2**-53, 1 - 2**-53], off by at most 2**-52."""
        # signed numbers become floats much faster
        centered = (self.first ^ np.uint64(1 << 63)).view(np.int64) >> 11
        floats = centered * 2.0**-53
        floats += 0.5 + 2.0**-54
        return np.asarray(
            np.minimum(np.maximum(floats, 2.0**-53, out=floats), 1 - 2.0**-53, out=floats)
        )

    def grid(self) -> Integers:
        """Each times 2**53, rounded down."""
        return (self.first >> np.uint64(11)).view(np.int64)

    def on_grid(self) -> Array:
        """The multiple of 2**-53 at or below each, which is below another multiple with exactly that probability."""
        return np.asarray(self.grid() * 2.0**-53)

    def at(self, *index: int) -> LazyBitsUniform:
        """One of them; the same object whenever it is asked for."""
        if index not in self._opened:
            self._opened[index] = LazyBitsUniform(
                int(self.first[index]), self._rng, self._ready[index].tolist()
            )
        return self._opened[index]


def words(rng: np.random.Generator, shape: tuple[int, ...]) -> Words:
    """Uniform words of 64 bits."""
    # in half the time
    if type(rng) is np.random.Generator and isinstance(rng.bit_generator, _WORDS_OF_64_BITS):
        return np.asarray(rng.bit_generator.random_raw(shape))
    return rng.integers(0, 2**64, size=shape, dtype=np.uint64)


Interval = tuple[int, int]
# from a number of digits, an interval of whole numbers around each weight, all in one unit; narrower for more
Weights = Callable[[int], Sequence[Interval]]

# far above the rounding error of a quotient, an exp, a product, and of u itself
_FEW_OPERATIONS = 2.0**-46
_EACH_SUMMAND = 2.0**-49


def draw_index(
    weights: Array, uniforms: LazyUniforms, exact: Callable[[int], Weights], error: float = 0.0
) -> Integers:
    """An index of each row with probability proportional to its exact weight: `[Q]`.

    Of `weights` `[Q, n]` the largest of a row is at least about 1, and the errors of a row add up to at most 2**-47 +
    n 2**-50 + `error` of its total.
    """
    # The first index whose running sum of weights exceeds u times the total. A float decides where it is further from
    # every running sum than both can be off; else more bits of u are drawn and the weights computed more closely,
    # until one index is left.
    rows, n = weights.shape
    cumulated = weights.cumsum(axis=1)
    total = cumulated[:, -1]
    target = uniforms.approximate() * total
    margin = total * (_FEW_OPERATIONS + n * _EACH_SUMMAND + 2 * error)
    # 0 where none is: not sure then
    indices: Integers = (cumulated > (target - margin)[:, None]).argmax(axis=1)
    sure = cumulated[np.arange(rows), indices] > target + margin
    for row in np.flatnonzero(~sure).tolist():
        indices[row] = index_of(uniforms.at(row), exact(row))
    return indices


def index_of(uniform: LazyBitsUniform, weights: Weights) -> int:
    """The same for one row, exactly."""
    while True:
        intervals = weights(uniform.digits)
        least, most = (sum(interval[side] for interval in intervals) for side in (0, 1))
        start = uniform.numerator * least
        stop = (uniform.numerator + 1) * most
        low = high = 0
        for index, interval in enumerate(intervals):
            low = low + interval[0]
            high = high + interval[1]
            if stop <= low << uniform.bits:
                return index
            if start < high << uniform.bits:
                break
        uniform.extend()


def exponential_weights(
    exponents: Sequence[Fraction], sizes: Sequence[int] | None = None
) -> Weights:
    """The weights size * exp(-exponent), exponents >= 0."""

    def weights(digits: int) -> list[Interval]:
        length = digits + (0 if sizes is None else len(str(max(sizes))))
        bounds = {exponent: exp_bounds(-exponent, length) for exponent in set(exponents)}
        unit = 10**length
        known = {
            exponent: (math.floor(low * unit), math.ceil(high * unit))
            for exponent, (low, high) in bounds.items()
        }
        ones = [known[exponent] for exponent in exponents]
        return (
            ones
            if sizes is None
            else [(n * low, n * high) for n, (low, high) in zip(sizes, ones, strict=True)]
        )

    return weights


def with_rest(window: Weights, share: Fraction, everything: Callable[[], Weights]) -> Weights:
    """The weights in `window`, and where it takes those `everything` else, whose share of the total is at most that."""

    def weights(digits: int) -> Sequence[Interval]:
        if share * 10**digits > 1:
            return everything()(digits)
        intervals = window(digits)
        return [*intervals, (0, math.ceil(share * 2 * sum(high for _, high in intervals)))]

    return weights


def boundary_weights(weights: Weights) -> Weights:
    """The weights of a call in the boundary wrapper: those given, and last all but the largest, or half where less."""

    # all but the largest is the least of the sums of all but one, so it rises with every weight, like half of all
    def wrapped(digits: int) -> list[Interval]:
        intervals = [(2 * low, 2 * high) for low, high in weights(digits)]
        least, most = (
            min(sum(side) - max(side), sum(side) // 2) for side in zip(*intervals, strict=True)
        )
        return [*intervals, (least, most)]

    return wrapped


def softmax_weights(deficits: Array, scale: float) -> Weights:
    """The weights exp(-deficit / scale) of one row `[n]`, from deficits that are exact floats >= 0."""
    return exponential_weights(
        [Fraction(deficit) / Fraction(scale) for deficit in deficits.tolist()]
    )


def permute_and_flip_weights(deficits: Array, scale: float) -> Weights:
    """The chances of the largest with exponential noise: w_i times the integral of prod_{j != i} (1 - w_j z) dz."""

    def integral(w: list[int], unit: int) -> Fraction:  # of prod (1 - w z / unit) dz over [0, 1]
        polynomial = [1]  # the coefficient of z**n times unit**n
        for each in w:
            lifted = [0, *(-each * coefficient for coefficient in polynomial)]
            polynomial = [a + b for a, b in zip([*polynomial, 0], lifted, strict=True)]
        return sum((Fraction(a, (n + 1) * unit**n) for n, a in enumerate(polynomial)), Fraction(0))

    # each w = exp(-deficit / scale) is taken as a fraction within 10**-digits, which moves the integral by at most
    # 1 + n / 2 times as much; the integral of the fractions is exact
    def weights(digits: int) -> list[Interval]:
        unit = 10**digits
        slack = len(deficits) + 2
        w = [low for low, _ in softmax_weights(deficits, scale)(digits)]
        chances = [each * integral([*w[:i], *w[i + 1 :]], unit) for i, each in enumerate(w)]
        return [
            (max(math.floor(chance) - slack, 0), math.ceil(chance) + slack) for chance in chances
        ]

    return weights


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
    """Coins of probability 2**level exp(-number / scale) <= 1, elementwise, for whole numbers >= 0; True for 0."""

    def exact(exponent: Fraction, digits: int) -> Bounds:
        low, high = exp_bounds(exponent, digits + level)
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
    numbers: Integers, scale: float, rng: np.random.Generator, *, base: int = 0
) -> Bits:
    """The same for rows `[Q, n]`, of numbers less `base` beyond 40 scales: one uniform number a row."""
    # which coin of a row is the first to show True is one index by weight; those after it are tossed
    shown = np.zeros(numbers.shape, dtype=np.bool_)
    if numbers.shape[1] == 0:
        return shown
    drawn = LazyUniforms.draw((len(numbers),), rng)  # u below 1 - P[none] says that one shows True
    most = 2 * numbers.shape[1] * math.exp(-FAR) + _FEW_OPERATIONS
    for row in np.flatnonzero(drawn.approximate() <= most).tolist():
        first = index_of(drawn.at(row), _first_weights(numbers[row] - base, scale))
        if first < numbers.shape[1]:
            shown[row, first] = True
            shown[row, first + 1 :] = toss_exponential(numbers[row, first + 1 :] - base, scale, rng)
    return shown


def _first_weights(numbers: Integers, scale: float) -> Weights:
    """The probabilities that each coin is the first to show True, then that none does."""
    single = exponential_weights(
        [Fraction(number) / Fraction(scale) for number in numbers.tolist()]
    )

    def weights(digits: int) -> list[Interval]:
        unit = 10**digits
        least = most = unit  # that none has shown True so far
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
    """One of the living places, `first` on, whose coins exp((number of `first` - number) / scale) show True."""
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
            shown = toss_exponential(numbers[drawn] - base, scale, rng)
            if shown.any():
                return int(drawn[shown.argmax()])
            tossed = np.concatenate([tossed, drawn])
    far = toss_rare_exponential(numbers[None, ends[-1] :], scale, rng, base=base)[0]
    found = []
    for level, (start, stop) in enumerate(pairwise(ends.tolist())):
        places = start + thinned(stop - start, level, rng)
        found.append(places[toss_exponential(numbers[places] - base, scale, rng, level=level)])
    places = np.concatenate([*found, ends[-1] + np.flatnonzero(far)])
    places = places[alive[places]]
    return int(places[rng.integers(0, len(places))])


def thinned(count: int, level: int, rng: np.random.Generator) -> Integers:
    """Those of `count` places that are left if each is with probability 2**-level, exactly: rising."""
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
