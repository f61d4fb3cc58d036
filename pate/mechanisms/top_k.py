"""Top-k mechanisms: their base, and those with noise on counts: on all of them, or on the best above a threshold."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pate import accounting
from pate.accounting import Adjacency, ApproximateEvent, Event, PureDpEvent
from pate.accounting.special import gammainccinv, gammaincinv, gammaln, gauss_legendre
from pate.mechanisms.noise import real_numbers, uniforms
from pate.mechanisms.noise.real_numbers import (
    UNIT_NOISES,
    Values,
    draw_noise,
    largest_noisy,
    ordered_distribution,
)
from pate.mechanisms.noise.uniforms import Array, Bits
from pate.mechanisms.parameters import COUNT, POSITIVE, PROBABILITY, Parameters, one_of
from pate.validation import (
    require,
    require_count,
    require_generator,
    require_histogram,
    require_positive,
)

Counts = NDArray[np.int64]
Distribution = dict[tuple[int, ...], float]

LARGEST_COUNT = 2**40  # above it, noise beside a count has few digits left in floating point
_MOST_OUTCOMES = 100_000
_FEW_CLASSES = 16_384
_CLASSES_AT_ONCE = 1 << 20
_LARGEST_KEY = 62  # bits
_LARGEST_EPSILON = 0.2
_LARGEST_FAILURE = 0.05
_MANY = 16  # times log(d / failure_prob): from there on the indices' moves cancel
# of the integral over the cube's size
_NODES = 10
_PANELS = 6
_TAIL = 1e-16
_UP = 1 + 2.0**-50  # rounding must not bring a bottom closer than the proof has it
# of the integral over a threshold's noise
_PANEL = 0.5
_FAR_OUT = 42.0
_LONG = 2**15  # counts; below it all rows are drawn at once


@dataclass(frozen=True)
class TopK:
    """The outcome of a top-k mechanism."""

    indices: Counts  # [k], or [Q, k] for a batch; places that were not filled hold -1
    answered: NDArray[np.bool_]  # [] or [Q]: whether at least one index was released


@dataclass(frozen=True, kw_only=True)
class TopKMechanism(Parameters, ABC):
    """Releases k indices of a histogram whose counts each move by at most 1 between neighbors.

    A subclass states its price in `event` and must not look at counts to do so.
    """

    k: int = field(metadata=COUNT)  # how many indices, >= 1
    # counts move by -1, 0 or 1 (replace-one), or all by 0 or 1 in one direction
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    @abstractmethod
    def event(self) -> Event:
        """The price of one histogram."""

    @abstractmethod
    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws for checked counts `[Q, d]`: `[Q, k]`."""

    @abstractmethod
    def distribution_of(self, counts: Counts) -> Distribution:
        """The exact distribution for checked counts `[d]`."""

    def __call__(self, counts: NDArray[np.integer], *, rng: np.random.Generator) -> TopK:
        """Draws k indices of one histogram `[d]` or each of a batch `[Q, d]`, of k or more whole counts in 0..2**40."""
        require_generator(rng)
        checked = self._checked(counts)
        indices = self.draw(np.atleast_2d(checked), rng)
        answered = np.asarray((indices >= 0).any(axis=1))
        return (
            TopK(indices, answered)
            if checked.ndim == 2
            else TopK(indices[0], np.asarray(answered[0]))
        )

    def distribution(self, counts: NDArray[np.integer]) -> Distribution:
        """The exact distribution of the outcome for one small histogram `[d]`: tuples of indices.

        `InvalidValue` for more than 100,000 sequences of k indices, or where the distribution is an integral and counts
        are more than 5,000 noise scales apart.
        """
        checked = self._checked(counts, rank=1)
        outcomes = math.perm(len(checked), self.k)
        require(
            outcomes <= _MOST_OUTCOMES,
            "counts",
            f"{outcomes} sequences",
            f"at most {_MOST_OUTCOMES}",
        )
        return self.distribution_of(checked)

    def _checked(self, counts: NDArray[np.integer], rank: int | None = None) -> Counts:
        return checked_counts(counts, self.k, rank)


@dataclass(frozen=True, kw_only=True)
class PureTopK(TopKMechanism):
    """A top-k mechanism of pure DP, whose noise has the scale k w / epsilon: w = 2 (replace-one) or 1 (add/remove)."""

    epsilon: float = field(metadata=POSITIVE)  # pure DP of the whole release, > 0

    @property
    def noise_scale(self) -> float:
        """The noise's scale in counts."""
        return self.k * self.adjacency.gap_sensitivity / self.epsilon

    @property
    def event(self) -> Event:
        """The price of one query."""
        return PureDpEvent(self.epsilon)


@dataclass(frozen=True, kw_only=True)
class BoundedRangeTopK(TopKMechanism):
    """A top-k mechanism whose price is stated as pure DP or as zCDP."""

    epsilon: float | None = None  # pure DP of the whole release, > 0; or
    rho: float | None = None  # its zCDP, > 0; exactly one of the two

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.range_of()

    def range_of(self, *, rounds: int = 1) -> float:
        """The bounded range of each of so many rounds that together have the price."""
        if self.rho is None:
            require(self.epsilon is not None, "epsilon", self.epsilon, "epsilon or rho")
            return require_positive("epsilon", self.epsilon or 0.0) / rounds
        require(self.epsilon is None, "rho", self.rho, "epsilon or rho, not both")
        # ranges of e add up to rounds * e pure DP and to rounds * e**2 / 8 zCDP
        return math.sqrt(8 * require_positive("rho", self.rho) / rounds)


def checked_counts(counts: NDArray[np.integer], k: int, rank: int | None = None) -> Counts:
    """Returns whole numbers in 0..2**40, at least k of them, `[d]` or `[Q, d]` (of the given rank), or raises."""
    checked = require_histogram("counts", counts, num_teachers=LARGEST_COUNT, rank=rank)
    require(k <= checked.shape[-1], "k", k, f"at most the number of counts, {checked.shape[-1]}")
    return checked.astype(np.int64, copy=False)


def draw_in_blocks(
    counts: Counts, num_classes: int, draw_block: Callable[[Counts, bool], Counts]
) -> Counts:
    """Draws for `[Q, d]` with so many classes each: many rows at a time if these are few, as it is told, else one."""
    few = num_classes <= _FEW_CLASSES
    rows = max(1, _CLASSES_AT_ONCE // num_classes) if few else 1
    return np.concatenate(
        [draw_block(counts[start : start + rows], few) for start in range(0, len(counts), rows)]
    )


def utilities_of(counts: Counts, noise_scale: float) -> Array:
    """Counts in units of the noise, the largest at 0: `[..., d]`."""
    return np.asarray((counts - counts.max(axis=-1, keepdims=True)) / noise_scale)


def peel_distribution(
    utilities: Array, k: int, argmax_distribution: Callable[[Array], Array]
) -> Distribution:
    """The distribution of k rounds of the noisy maximum for utilities `[d]`, from the distribution of one pick."""
    distribution: Distribution = {(): 1.0}
    for _ in range(k):
        rests = {
            prefix: [i for i in range(len(utilities)) if i not in prefix] for prefix in distribution
        }
        distribution = {
            (*prefix, i): distribution[prefix] * float(p)
            for prefix, rest in rests.items()
            for i, p in zip(rest, argmax_distribution(utilities[rest]), strict=True)
        }
    return distribution


def renamed(
    distribution: Distribution, name: Callable[[tuple[int, ...]], Iterable[int]]
) -> Distribution:
    """The distribution of a function of the outcome."""
    renamed_distribution: Distribution = {}
    for outcome, probability in distribution.items():
        new_name = tuple(name(outcome))
        renamed_distribution[new_name] = renamed_distribution.get(new_name, 0.0) + probability
    return renamed_distribution


def stable_sort(values: Counts) -> tuple[Counts, Counts]:
    """The stable rising order of each row, and the rows in this order: `[Q, n]` each, from numbers >= 0."""
    # value and place share one integer where they fit: a sort is many times as fast as an argsort
    bits = values.shape[1].bit_length()
    if int(values.max()).bit_length() + bits <= _LARGEST_KEY:
        keys = np.sort((values << bits) | np.arange(values.shape[1]), axis=1)
        return keys & ((1 << bits) - 1), keys >> bits
    order = np.argsort(values, axis=1, kind="stable")
    return order, np.take_along_axis(values, order, axis=1)


def falling_order(counts: Counts) -> tuple[Counts, Counts]:
    """The indices of each row in falling order of their counts, ties to the lowest, and the counts in this order."""
    largest = counts.max(axis=1, keepdims=True)
    order, deficits = stable_sort(largest - counts)
    return order, largest - deficits


@dataclass(frozen=True, kw_only=True)
class PeelingTopK(BoundedRangeTopK):
    """Picks an index with Gumbel noise on the counts, removes it, and repeats k times; released in this order.

    Formal guarantee: each pick has a bounded range e, because the difference of two counts moves by at most 2
    (replace-one) or 1 (add/remove). All picks together are k e pure DP and k e**2 / 8 zCDP, the order included.
    Source: Durfee & Rogers 2019; docs/proofs/top_k.md.

    >>> distribution = PeelingTopK(k=1, epsilon=2.0).distribution(np.array([3, 2, 0]))
    >>> {index: round(p, 3) for (index,), p in distribution.items()}
    {0: 0.705, 1: 0.259, 2: 0.035}
    """

    @property
    def noise_scale(self) -> float:
        """The scale of the Gumbel noise, in votes."""
        return self.adjacency.gap_sensitivity / self.range_of(rounds=self.k)

    @property
    def event(self) -> Event:
        """The price of one query: k rounds."""
        return accounting.SelfComposedEvent(
            accounting.BoundedRangeEvent(self.range_of(rounds=self.k)), self.k
        )

    # one variable per count has the law of peeling
    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws the k largest of noisy counts, in order, `[Q, k]`."""
        return _noisiest(counts, self.noise_scale, "gumbel", self.k, rng)

    def distribution_of(self, counts: Counts) -> Distribution:
        """Returns the probability of each ordered outcome for one histogram."""
        return peel_distribution(
            utilities_of(counts, self.noise_scale), self.k, real_numbers.gumbel_argmax
        )


def _noisiest(
    counts: Counts, noise_scale: float, kind: str, k: int, rng: np.random.Generator
) -> Counts:
    return largest_noisy(Values.scaled(counts, noise_scale), draw_noise(kind, counts.shape, rng), k)


@dataclass(frozen=True, kw_only=True)
class OneShotTopK(PeelingTopK):
    """Adds Gumbel noise to every count once and releases the k largest, in their noisy order.

    Formal guarantee: the distribution of `PeelingTopK`, hence its price. Other kinds of noise: `LipschitzTopK`.
    Source: Durfee & Rogers 2019; docs/proofs/top_k.md.

    >>> outcome = OneShotTopK(k=2, epsilon=50.0)(np.array([90, 10, 50]), rng=np.random.default_rng(0))
    >>> outcome.indices
    array([0, 2])
    """


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
        """The price of one query: k rounds."""
        return accounting.SelfComposedEvent(PureDpEvent(self.epsilon / self.k), self.k)

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws k labels, one after another, `[Q, k]`."""
        # An index whose count is c below the best that is left can win if its noise exceeds c: a coin of probability
        # exp(-c / scale). By how much it exceeds c has one distribution for all, so each of those is as likely to win.
        order, falling = falling_order(counts)
        if counts.shape[1] >= _LONG:
            ranks = np.stack([self._picked(row[0] - row, rng) for row in falling])
            return np.take_along_axis(order, ranks, axis=1)
        left = np.ones(counts.shape, dtype=np.bool_)
        rows = np.arange(len(counts))
        ranks = np.empty((len(counts), self.k), dtype=np.int64)
        for place in range(self.k):
            # below 0 where picked before
            deficits = falling[rows, left.argmax(axis=1)][:, None] - falling
            near = int((deficits <= uniforms.FAR * self.noise_scale).sum(axis=1).max())
            able = left.copy()
            able[:, :near] &= uniforms.toss_exponential(
                np.maximum(deficits[:, :near], 0), self.noise_scale, rng
            )
            able[:, near:] &= uniforms.toss_rare_exponential(
                deficits[:, near:], self.noise_scale, rng
            )
            numbers = np.cumsum(able, axis=1)
            lucky = rng.integers(0, numbers[:, -1])
            ranks[:, place] = (numbers <= lucky[:, None]).sum(axis=1)
            left[rows, ranks[:, place]] = False
        return np.take_along_axis(order, ranks, axis=1)

    def _picked(self, deficits: Counts, rng: np.random.Generator) -> Counts:
        """The places `[k]` picked from one long row of rising deficits `[d]`: the same law, without a coin for each."""
        alive = np.ones(len(deficits), dtype=np.bool_)
        picks = np.empty(self.k, dtype=np.int64)
        first = 0
        for number in range(self.k):
            while not alive[first]:
                first += 1
            picks[number] = uniforms.lucky_place(deficits, first, alive, self.noise_scale, rng)
            alive[picks[number]] = False
        return picks

    def distribution_of(self, counts: Counts) -> Distribution:
        """Returns the probability of each ordered outcome for one histogram."""
        return peel_distribution(
            utilities_of(counts, self.noise_scale), self.k, real_numbers.exponential_argmax
        )


@dataclass(frozen=True, kw_only=True)
class SubsetPeeling(Parameters):
    """Picks j indices of a part of the histogram one after the other, each with Gumbel noise on the counts left.

    The noise has the scale `noise_scale` * sqrt(j), in votes: few picks are sharper. Part and j may have been released
    before.

    Formal guarantee: each pick has a bounded range e / sqrt(j) with e = w / noise_scale, as the difference of two
    counts moves by at most w = 2 (replace-one) or 1 (add/remove). So j picks are e**2 / 8 zCDP whatever j, their order
    included, and none at all cost nothing.
    Source: Zhu & Wang 2022, Algorithm 3; docs/proofs/stable_fixed_top_k.md.

    >>> peeling = SubsetPeeling(noise_scale=0.1)
    >>> peeling([9, 7, 8, 2], part=[False, True, True, True], size=2, rng=np.random.default_rng(0))
    array([False,  True,  True, False])
    """

    noise_scale: float = field(metadata=POSITIVE)
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    def event(self) -> Event:
        """The price of one histogram, whatever the number of picks."""
        moved = self.adjacency.gap_sensitivity / self.noise_scale
        return accounting.ZCdpEvent(moved * moved / 8)

    def __call__(self, counts: Any, *, part: Any, size: Any, rng: np.random.Generator) -> Bits:
        """The `size`, `[]` or `[Q]`, that are picked of those in `part`, as bits; counts are `[d]` or `[Q, d]`."""
        require_generator(rng)
        checked = checked_counts(counts, 1)
        rows = np.atleast_2d(checked)
        parts = np.broadcast_to(np.asarray(part, dtype=np.bool_), rows.shape)
        sizes = np.broadcast_to(np.asarray(size, dtype=np.int64), rows.shape[:1])
        fits = (sizes >= 0) & (sizes <= parts.sum(axis=1))
        require(bool(fits.all()), "size", sizes[~fits][:1], "0..the number of indices that compete")
        return self.draw(rows, parts, sizes, rng).reshape(checked.shape)

    def draw(self, counts: Counts, part: Bits, size: Counts, rng: np.random.Generator) -> Bits:
        """Draws for checked arguments `[Q, d]`, `[Q, d]` and `[Q]`: all picks from one Gumbel variable per index."""
        scale = self.noise_scale * np.sqrt(np.maximum(size, 1))
        noise = draw_noise("gumbel", counts.shape, rng)
        most = max(1, int(size.max()))
        order = largest_noisy(Values.scaled(counts, scale[:, None]), noise, most, part)
        picked = np.zeros(counts.shape, dtype=np.bool_)
        np.put_along_axis(picked, order, np.arange(most) < size[:, None], axis=1)
        return picked

    def distribution_of(self, counts: Counts, part: Bits, size: int) -> Distribution:
        """The exact distribution for one checked histogram: each set of picked indices, in rising order."""
        places = np.flatnonzero(part)
        sequences = math.perm(len(places), size)
        require(
            sequences <= _MOST_OUTCOMES,
            "counts",
            f"{sequences} sequences",
            f"at most {_MOST_OUTCOMES}",
        )
        competing = counts[places]
        utilities = (competing - competing.max(initial=0)) / (
            self.noise_scale * np.sqrt(max(size, 1))
        )
        ordered = peel_distribution(utilities, size, real_numbers.gumbel_argmax)
        return renamed(ordered, lambda picks: sorted(places[list(picks)].tolist()))


@dataclass(frozen=True, kw_only=True)
class LipschitzTopK(PureTopK):
    """Adds noise to every count once and releases the k largest, in their noisy order.

    Formal guarantee: epsilon-DP with noise of scale k w / epsilon, w = 2 (replace-one) or 1 (add/remove), whatever
    `noise`: "gumbel", "exponential", "laplace", "logistic" or "half_logistic". Its zCDP price is that of epsilon-DP.
    Gumbel noise has a better one: `OneShotTopK`.
    Source: Shekelyan & Loukides 2022; docs/proofs/top_k.md.

    >>> mechanism = LipschitzTopK(k=2, noise="half_logistic", epsilon=50.0)
    >>> mechanism(np.array([90, 10, 50]), rng=np.random.default_rng(0)).indices
    array([0, 2])
    """

    noise: str = field(default="exponential", metadata=one_of(UNIT_NOISES))

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws the k largest of noisy counts, in order, `[Q, k]`."""
        return _noisiest(counts, self.noise_scale, self.noise, self.k, rng)

    def distribution_of(self, counts: Counts) -> Distribution:
        """Returns the probability of each ordered outcome for one histogram."""
        return ordered_distribution(
            utilities_of(counts, self.noise_scale), self.k, UNIT_NOISES[self.noise]
        )


@dataclass(frozen=True, kw_only=True)
class LaplaceTopK(TopKMechanism):
    """Adds Laplace noise to every count once and releases the k largest, in their noisy order or as a set.

    Formal guarantees, with w = 2 (replace-one) or 1 (add/remove):
        * epsilon-DP with noise of scale w min(k, max_labels) / epsilon: k moves decide an outcome, and no change moves
          the counts by more than w max_labels in total.
        * With `failure_prob`: epsilon-DP except with this probability, and a set is released. The scale is
          2 w sqrt(k L) / epsilon where k > 16 L, L = log(d / failure_prob) for d counts, and w k / epsilon below. It is
          never the best choice: for the same price `OneShotTopK` releases the order too, with a fifth of the noise.

    Attributes:
        epsilon: pure DP, outside the failure where there is one, > 0; at most 0.2 with a failure_prob.
        max_labels: the most counts to which one voter adds, >= 1; None where any number may be.
        failure_prob: None, or in (0, 0.05].

    Source: Dwork & Roth 2014, chapter 3; Qiao, Su & Zhang 2021 for the second, here with a half or a quarter of their
    noise; docs/proofs/top_k.md.

    >>> mechanism = LaplaceTopK(k=5, epsilon=1.0, max_labels=2)
    >>> mechanism.noise_scale(num_counts=100)
    4.0
    """

    epsilon: float = field(metadata=POSITIVE)
    max_labels: int | None = field(default=None, metadata=COUNT)
    failure_prob: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.failure_prob is not None:
            allowed = f"at most {_LARGEST_EPSILON} with a failure_prob"
            require(self.epsilon <= _LARGEST_EPSILON, "epsilon", self.epsilon, allowed)
            valid = 0 < self.failure_prob <= _LARGEST_FAILURE
            require(
                valid, "failure_prob", self.failure_prob, f"a number in (0, {_LARGEST_FAILURE}]"
            )
            require(
                self.max_labels is None, "max_labels", self.max_labels, "None with a failure_prob"
            )

    def noise_scale(self, *, num_counts: int) -> float:
        """The noise's scale for d = `num_counts` counts."""
        moves = float(self.k if self.max_labels is None else min(self.k, self.max_labels))
        if self.failure_prob is not None:
            log_ratio = math.log(num_counts / self.failure_prob)
            moves = 2 * math.sqrt(self.k * log_ratio) if self.k > _MANY * log_ratio else moves
        return self.adjacency.gap_sensitivity * moves / self.epsilon

    @property
    def event(self) -> Event:
        """The price of one query."""
        pure = PureDpEvent(self.epsilon)
        return pure if self.failure_prob is None else ApproximateEvent(pure, self.failure_prob)

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws the k largest of noisy counts, in order, `[Q, k]`."""
        indices = _noisiest(
            counts, self.noise_scale(num_counts=counts.shape[1]), "laplace", self.k, rng
        )
        return indices if self.failure_prob is None else np.sort(indices, axis=1)

    def distribution_of(self, counts: Counts) -> Distribution:
        """Returns the probability of each ordered outcome for one histogram."""
        utilities = utilities_of(counts, self.noise_scale(num_counts=len(counts)))
        distribution = ordered_distribution(utilities, self.k, UNIT_NOISES["laplace"])
        return (
            distribution
            if self.failure_prob is None
            else renamed(distribution, lambda picks: sorted(picks))
        )


@dataclass(frozen=True, kw_only=True)
class GammaTopK(PureTopK):
    """Adds a uniform point of a cube [-R, R]^d to the d counts, R a Gamma variable; releases the k largest in order.

    Formal guarantee: epsilon-DP, whatever k is. The noise has a density proportional to exp(-epsilon |x| 2 / w), with
    |x| the largest entry and w = 2 (replace-one) or 1 (add/remove). A shift of all counts does not change the order of
    noisy counts, and up to such a shift every count moves by at most w / 2.
    Source: Steinke & Ullman 2017, Section 4.1; docs/proofs/top_k.md.

    >>> mechanism = GammaTopK(k=2, epsilon=50.0)
    >>> mechanism(np.array([90, 10, 50]), rng=np.random.default_rng(0)).indices
    array([0, 2])
    """

    @property
    def noise_scale(self) -> float:
        """The scale of the Gamma distribution in counts; its shape is the number of counts plus 1."""
        return self.adjacency.gap_sensitivity / (2 * self.epsilon)

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws the k largest of noisy counts, in order, `[Q, k]`."""
        radius = draw_noise("exponential", (len(counts), counts.shape[1] + 1), rng).summed()
        noise = draw_noise("uniform", counts.shape, rng).times(radius)
        return largest_noisy(Values.scaled(counts, self.noise_scale), noise, self.k)

    def distribution_of(self, counts: Counts) -> Distribution:
        """Returns the probability of each ordered outcome for one histogram."""
        values = utilities_of(counts, self.noise_scale)
        shape = len(counts) + 1.0
        ends = float(gammaincinv(shape, _TAIL)), float(gammainccinv(shape, _TAIL))
        # where two intervals begin to overlap
        halves = np.abs(values[:, None] - values).ravel() / 2
        inside = halves[(halves > ends[0]) & (halves < ends[1])]
        corners = np.unique([*np.linspace(*ends, _PANELS + 1), *inside])
        nodes, weights = gauss_legendre(_NODES)
        distribution: Distribution = {}
        for low, high in pairwise(corners.tolist()):
            half = (high - low) / 2
            for r, weight in zip(low + half * (1 + nodes), half * weights, strict=True):
                density = math.exp((shape - 1) * math.log(r) - r - gammaln(shape))  # of R at r
                for outcome, p in ordered_distribution(
                    values / r, self.k, real_numbers.KINDS["uniform"]
                ).items():
                    distribution[outcome] = (
                        distribution.get(outcome, 0.0) + float(weight * density) * p
                    )
        total = sum(distribution.values())
        return {outcome: p / total for outcome, p in distribution.items()}


@dataclass(frozen=True, kw_only=True)
class DomainTopK(TopKMechanism):
    """A top-k mechanism that looks at the best counts alone."""

    domain_size: int  # how many of them, >= k
    # pure DP outside the failure, of the whole release, > 0
    epsilon: float = field(metadata=POSITIVE)
    failure_prob: float = field(metadata=PROBABILITY)  # in (0, 1)
    _outside: ClassVar[int] = 0  # the fewest counts beside the domain

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("domain_size", self.domain_size, minimum=self.k)

    @property
    def event(self) -> Event:
        """The price of one query."""
        return ApproximateEvent(PureDpEvent(self.epsilon), self.failure_prob)

    def _checked(self, counts: NDArray[np.integer], rank: int | None = None) -> Counts:
        checked = super()._checked(counts, rank)
        rule = (
            f"at most {(most := checked.shape[-1] - self._outside)} of {checked.shape[-1]} counts"
        )
        require(self.domain_size <= most, "domain_size", self.domain_size, rule)
        return checked


@dataclass(frozen=True, kw_only=True)
class LimitedDomainTopK(DomainTopK, PureTopK):
    """Releases up to k of the `domain_size` best indices in their noisy order, until a noisy bottom is reached.

    The rest of the histogram need not be known, apart from its largest count. Places below the bottom hold -1, and a
    histogram is answered if at least one index was released.

    Formal guarantee: epsilon-DP except with probability `failure_prob`, under the adjacency given: the bottom lies
    w + log(domain_size / failure_prob) * scale above the best count outside, with w = 2 (replace-one) or 1 (add/remove)
    and scale k w / epsilon.
    Source: Durfee & Rogers 2019, whose w = 1 is for add/remove; docs/proofs/top_k.md.

    >>> mechanism = LimitedDomainTopK(k=3, domain_size=5, epsilon=30.0, failure_prob=1e-6)
    >>> mechanism(np.array([90, 2, 50, 0, 1, 1]), rng=np.random.default_rng(0)).indices
    array([ 0,  2, -1])
    """

    @property
    def margin(self) -> float:
        """How far the bottom lies above the best count outside the domain, in counts."""
        # An index enters or leaves the domain only within w of the best count outside; there one Gumbel value against
        # the bottom's wins with less than exp(-(margin - w) / scale), and domain_size of them with failure_prob.
        return self.adjacency.gap_sensitivity + self.noise_scale * math.log(
            self.domain_size / self.failure_prob
        )

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws up to k labels of the limited domain, in order, `[Q, k]`."""
        indices, numbers = self._domain(counts)
        scale = Fraction(self.noise_scale)
        values = Values(
            numbers / self.noise_scale,
            lambda row, place: Fraction(numbers[row, place].item()) / scale,
        )
        places = largest_noisy(values, draw_noise("gumbel", numbers.shape, rng), self.k)
        picked = np.take_along_axis(indices, places, axis=1)
        return np.where(np.cumsum(picked < 0, axis=1) > 0, -1, picked)

    def distribution_of(self, counts: Counts) -> Distribution:
        """Returns the probability of each ordered outcome for one histogram."""
        indices, numbers = self._domain(counts[None])
        ordered = peel_distribution(
            numbers[0] / self.noise_scale, self.k, real_numbers.gumbel_argmax
        )
        picks = {places: indices[0, list(places)] for places in ordered}
        return renamed(
            ordered, lambda at: np.where(np.cumsum(picks[at] < 0) > 0, -1, picks[at]).tolist()
        )

    def _domain(self, counts: Counts) -> tuple[Counts, Array]:
        """The indices that may be released, the bottom as -1, and how far above the rest: `[Q, domain_size + 1]`."""
        order = np.argsort(-counts, axis=1, kind="stable")[:, : self.domain_size + 1]
        falling = np.take_along_axis(counts, order, axis=1)
        if falling.shape[1] == self.domain_size:  # nothing is outside
            falling = np.pad(falling, ((0, 0), (0, 1)))
        outside = falling[:, [-1]]
        numbers = np.concatenate(
            [falling[:, :-1] - outside, np.full(outside.shape, self.margin * _UP)], axis=1
        )
        return np.concatenate(
            [order[:, : self.domain_size], np.full(outside.shape, -1)], axis=1
        ), numbers


@dataclass(frozen=True, kw_only=True)
class TopStableTopK(DomainTopK):
    """Releases the set of the j best for the first j in k..domain_size whose gap exceeds a noisy threshold, or nothing.

    A reconstruction from the description in Carvalho et al., whose own algorithm differs. The outcome has
    `domain_size` places, j of them filled, in the order of the indices; the rest hold -1. There are more counts.

    Formal guarantee: (epsilon, failure_prob)-DP under the adjacency given. The gap after rank j, less w = 2
    (replace-one) or 1 (add/remove) but not below 0, with Laplace noise of scale 4 w / epsilon, is compared with a
    threshold with Laplace noise of scale 2 w / epsilon. A gap of at most w passes with at most failure_prob / ranks.
    Source: after Carvalho et al. 2020; docs/proofs/top_k.md.

    >>> mechanism = TopStableTopK(k=1, domain_size=3, epsilon=30.0, failure_prob=1e-6)
    >>> mechanism(np.array([90, 2, 89, 0, 1, 1]), rng=np.random.default_rng(0)).indices
    array([ 0,  2, -1])
    """

    _outside: ClassVar[int] = 1

    @property
    def gap_scale(self) -> float:
        """The scale of the noise of gaps, in votes."""
        return 2 * self.threshold_scale

    @property
    def threshold_scale(self) -> float:
        """The scale of the noise of the threshold, in votes."""
        return 2 * self.adjacency.gap_sensitivity / self.epsilon

    @property
    def threshold(self) -> float:
        """What a gap beyond w is compared with, in counts: the difference of the two noises seldom exceeds it."""
        share = self.failure_prob / (self.domain_size - self.k + 1)
        if share >= 0.5:
            return 0.0
        # P[noise of a gap - noise of the threshold > x threshold_scale] = (4 u - u**2) / 6 with u = exp(-x / 2)
        # is the share: u is the smaller root of u**2 - 4 u + 6 share = 0, written without cancellation
        u = 6 * share / (2 + math.sqrt(4 - 6 * share))
        return -2 * self.threshold_scale * math.log(u)

    def draw(self, counts: Counts, rng: np.random.Generator) -> Counts:
        """Draws the longest stable list of labels, in order, `[Q, k]`."""
        order, excess = self._excess(counts)
        threshold = draw_noise("laplace", (len(counts), 1), rng), -self.threshold_scale
        gaps = draw_noise("laplace", excess.shape, rng), self.gap_scale
        passed = real_numbers.are_above(excess, self.threshold, (threshold, gaps))
        length = np.where(passed.any(axis=1), self.k + passed.argmax(axis=1), 0)
        unfilled = counts.shape[1]
        released = np.where(
            np.arange(self.domain_size) < length[:, None], order[:, : self.domain_size], unfilled
        )
        released = np.sort(released, axis=1)
        return np.where(released < unfilled, released, -1)

    def distribution_of(self, counts: Counts) -> Distribution:
        """Returns the probability of each ordered outcome for one histogram."""
        order, excess = self._excess(counts[None])
        kinks = excess[0] - self.threshold
        reach = _FAR_OUT * self.threshold_scale
        corners = np.unique([-reach, reach, 0.0, *kinks[np.abs(kinks) < reach]])
        # over the threshold's noise
        grid, half = real_numbers.panels(
            corners, _PANEL * min(self.threshold_scale, self.gap_scale)
        )
        points = grid.ravel()
        weights = (half * gauss_legendre(grid.shape[1])[1]).ravel()
        laplace = UNIT_NOISES["laplace"]
        # [ranks, G]
        fails = laplace.cdf((self.threshold + points - excess[0][:, None]) / self.gap_scale)
        weights = weights * laplace.density(points / self.threshold_scale) / self.threshold_scale
        reached = np.cumprod(np.vstack([np.ones_like(points), fails]), axis=0)
        distribution: Distribution = {(-1,) * self.domain_size: float(reached[-1] @ weights)}
        for rank, (before, fail) in enumerate(zip(reached, fails, strict=False), start=self.k):
            best = tuple(sorted(order[0, :rank].tolist())) + (-1,) * (self.domain_size - rank)
            distribution[best] = float((before * (1 - fail)) @ weights)
        return distribution

    def _excess(self, counts: Counts) -> tuple[Counts, Counts]:
        """The ranking, and by how much the gap after each rank k..domain_size exceeds w: `[Q, ranks]`."""
        order, falling = falling_order(counts)
        gaps = -np.diff(falling, axis=1)[:, self.k - 1 : self.domain_size]
        return order, np.maximum(gaps - self.adjacency.gap_sensitivity, 0)
