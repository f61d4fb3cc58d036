"""All neighboring histograms of a small instance, and a price against exact distributions, densities or draws there."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from pate.accounting import Accountant, Adjacency, Event, RdpAccountant, SelfComposedEvent
from pate.accounting.event_tree import count_leaves, failure_probability
from pate.accounting.rdp import rdp_curve
from pate.accounting.special import gauss_legendre
from pate.testing.divergences import (
    RELATIVE_SLACK,
    SLACK,
    Array,
    compose,
    hockey_stick,
    logs,
    renyi,
    trimmed,
)
from pate.validation import (
    require,
    require_count,
    require_generator,
    require_kind,
    require_probability,
)

Counts = NDArray[np.int64]
Indices = NDArray[np.int64]
Points = tuple[tuple[float, float], ...]
Names = Callable[[int], tuple[Any, Any]]
ExactDistribution = Callable[[Counts], Mapping[Any, float]]
LogDensity = Callable[[Array], Array]
Sampler = Callable[[Counts, int, np.random.Generator], Sequence[Any]]

_MOST_PAIRS = 5_000_000
_CELLS_AT_ONCE = 2**18
_TOLERANCE = 1e-9  # of a total of probabilities
_NUM_CANDIDATES = 8
_LARGEST_EXPONENT = 300.0
_SHARES_AT_ONCE = 2**20

RENYI = "Renyi divergence"
DELTA = "delta"
ORDERS: tuple[float, ...] = (1.05, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 64.0, 1024.0)
EPSILONS: tuple[float, ...] = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)
DELTAS: tuple[float, ...] = (1e-6, 1e-3, 0.05)


@dataclass(frozen=True)
class Claim:
    """Points on the curves of a price, of an event or of any other claim.

    >>> Claim(deltas=((1.617, 1e-5),)).scaled(0.9).deltas
    ((1.617, 9e-06),)
    """

    # (order, divergence) pairs: what is said to bound the Renyi divergence outside of the failure
    renyi: Points = ()
    # (epsilon, delta) pairs: what is said to be (epsilon, delta)-DP, failures included
    deltas: Points = ()
    failure_prob: float = 0.0  # in [0, 1): what the Renyi divergences leave out

    def __post_init__(self) -> None:
        require(bool(self.renyi or self.deltas), "renyi, deltas", "(), ()", "at least one point")
        for order, bound in self.renyi:
            require(
                1 < order < math.inf and bound >= 0,
                "renyi",
                (order, bound),
                "finite orders > 1, divergences >= 0",
            )
        for epsilon, bound in self.deltas:
            require(
                0 <= epsilon < math.inf and bound >= 0,
                "deltas",
                (epsilon, bound),
                "finite epsilons, deltas, >= 0",
            )
        require(0 <= self.failure_prob < 1, "failure_prob", self.failure_prob, "a number in [0, 1)")

    @classmethod
    def of(
        cls,
        event: Event | Self,
        *,
        accountant: Callable[[], Accountant] = RdpAccountant,
        orders: Sequence[float] = ORDERS,
        epsilons: Sequence[float] = EPSILONS,
        deltas: Sequence[float] = DELTAS,
        count: int = 1,
    ) -> Self:
        """What an event costs `count` times, or `InvalidValue` if that is not known; a claim is taken as it stands.

        The event's Renyi curve is read at `orders`. The accountant prints deltas at `epsilons`, and epsilons at
        `deltas` beyond what failure probabilities take.
        """
        if isinstance(event, Claim):
            return event
        require(
            isinstance(event, Event),
            "event",
            type(event).__name__,
            "an event of pate.accounting, or a Claim",
        )
        whole = SelfComposedEvent(event, count)
        failure = failure_probability(whole)
        spent = accountant().compose(whole)
        printed = [(float(epsilon), spent.get_delta(epsilon)) for epsilon in epsilons]
        beyond = [failure + delta for delta in deltas if failure + delta < 1]
        printed += [(spent.get_epsilon(delta), delta) for delta in beyond]
        grid = np.array(orders if failure < 1 else (), dtype=np.float64)
        curve = rdp_curve(count_leaves(whole), grid) if grid.size else grid
        return cls(
            renyi=tuple(zip(grid.tolist(), curve.tolist(), strict=True)),
            deltas=tuple((epsilon, delta) for epsilon, delta in printed if epsilon < math.inf),
            failure_prob=failure if failure < 1 else 0.0,
        )

    def scaled(self, factor: float) -> Self:
        """The same with every divergence and delta multiplied by `factor`: a control that should be refuted below 1."""
        renyi, deltas = (
            tuple((at, factor * bound) for at, bound in points)
            for points in (self.renyi, self.deltas)
        )
        return replace(self, renyi=renyi, deltas=deltas)


class PriceRefuted(ValueError):
    """A mechanism costs more than claimed. The message names the pair, the exact figure and the claim."""


@dataclass(frozen=True)
class WorstPair:
    """The worst pair at one point of a claim."""

    measure: str  # "Renyi divergence" or "delta"
    at: float  # the order, or the epsilon
    # the largest divergence of first from second; for several releases and for draws, a lower bound on it
    exact: float
    claimed: float
    first: Any  # a histogram, or the name of a distribution
    second: Any

    @property
    def ratio(self) -> float:
        """Exact over claimed; 0 where the exact figure is rounding, or the claim infinite."""
        if self.exact <= SLACK or math.isinf(self.claimed):
            return 0.0
        return self.exact / self.claimed if self.claimed > 0 else math.inf

    @property
    def exceeds(self) -> bool:
        """Whether the claim is refuted here, beyond rounding: 1e-9 of it, or 1e-13."""
        return self.exact > self.claimed * (1 + RELATIVE_SLACK) + SLACK

    def __str__(self) -> str:
        point = "order" if self.measure == RENYI else "epsilon"
        figures = f"exact {self.exact:.4g}, claimed {self.claimed:.4g}, {self.ratio:.4g} of it"
        return f"{self.measure} at {point} {self.at:.4g}: {figures}; {self.first} -> {self.second}"


_RANK = attrgetter("exceeds", "ratio", "exact")  # of a pair among others


@dataclass(frozen=True)
class Verdict:
    """The outcome of an enumeration, or of draws, which can refute a price and never confirm one."""

    # the worst pair for each order and for each epsilon of the claim
    worst_pairs: tuple[WorstPair, ...]
    # how many ordered pairs were looked at; of draws, how many tests shared the error probability
    num_pairs: int
    # whether the exact figures are exact for all of them; for several releases they are lower bounds
    exhaustive: bool = True
    confidence: float | None = None  # of draws: with which the figures are lower bounds

    @property
    def refuted(self) -> bool:
        """Whether some pair exceeds the claim."""
        return any(pair.exceeds for pair in self.worst_pairs)

    @property
    def sound(self) -> bool:
        """Whether the claim holds for every pair, at the orders and epsilons looked at; False where that is open."""
        return self.exhaustive and not self.refuted

    @property
    def worst(self) -> WorstPair:
        """The pair with the largest ratio of exact to claimed; one that refutes before one that does not."""
        return max(self.worst_pairs, key=_RANK)

    @property
    def renyi(self) -> WorstPair | None:
        """The worst Renyi divergence; None where the claim has none."""
        return max(
            (pair for pair in self.worst_pairs if pair.measure == RENYI), key=_RANK, default=None
        )

    @property
    def delta(self) -> WorstPair | None:
        """The worst hockey-stick divergence; None where the claim has none."""
        return max(
            (pair for pair in self.worst_pairs if pair.measure == DELTA), key=_RANK, default=None
        )

    @property
    def ratio(self) -> float:
        """The largest ratio of exact to claimed."""
        return max(pair.ratio for pair in self.worst_pairs)

    def require(self) -> Self:
        """Returns itself, or raises `PriceRefuted` with the worst pair."""
        if self.refuted:
            at = "" if self.confidence is None else f" at confidence {self.confidence}"
            raise PriceRefuted(f"price refuted{at}: {self.worst}")
        return self

    def __str__(self) -> str:
        head = "holds" if self.exhaustive else "not refuted"
        if self.refuted:
            head = "REFUTED"
        how = f"on {self.num_pairs} ordered pairs"
        if self.confidence is not None:
            how = f"at confidence {self.confidence}, {self.num_pairs} tests (exact = lower bound)"
        return "\n".join(
            [
                f"{head} {how}",
                *(f"  {pair}" for pair in (self.renyi, self.delta) if pair is not None),
            ]
        )


def _divergences(
    first: Array, second: Array, claim: Claim, log_distributions: tuple[Array, Array] | None = None
) -> Array:
    """Of pairs of distributions `[N, n]` at the points of a claim, `[N, points]`; logs if they say more."""
    orders, epsilons = ([at for at, _ in points] for points in (claim.renyi, claim.deltas))
    if log_distributions is None or claim.failure_prob > 0:
        kept = trimmed(first, second, claim.failure_prob) if orders else (first, second)
        log_distributions = logs(kept[0]), logs(kept[1])
    return np.concatenate(
        [renyi(*log_distributions, orders), hockey_stick(first, second, epsilons)], axis=1
    )


def _compare(
    table: Array,
    first: Indices,
    second: Indices,
    claim: Claim,
    names: Sequence[Any],
    count: int,
    num_pairs: int,
) -> Verdict:
    """Pairs of rows of a table of distributions `[H, n]`, each with a name, against a claim, in chunks.

    For several releases those pairs that are the worst in one of them, `count` times: lower bounds on the divergences.
    """
    largest = np.full(len(claim.renyi) + len(claim.deltas), -np.inf)
    worst = np.full(len(largest), -1)
    size = max(1, _CELLS_AT_ONCE // max(1, table.shape[1]))
    for start in range(0, len(first), size):
        rows = slice(start, start + size)
        values = _divergences(table[first[rows]], table[second[rows]], claim)
        tops = values.max(axis=0)
        higher = tops > largest
        largest[higher], worst[higher] = tops[higher], start + values.argmax(axis=0)[higher]
    finalists = np.unique(worst[worst >= 0])
    if count > 1 and finalists.size:
        composed = [compose(table[first[pair]], table[second[pair]], count) for pair in finalists]
        values = np.concatenate(
            [_divergences(one[None], other[None], claim) for one, other in composed]
        )
        largest = values.max(axis=0)
        worst = finalists[values.argmax(axis=0)]
    named = [
        (names[first[pair]], names[second[pair]]) if pair >= 0 else (None, None) for pair in worst
    ]
    return _verdict(claim, largest, named, num_pairs, exhaustive=count == 1)


def _verdict(
    claim: Claim,
    largest: Array,
    names: Sequence[tuple[Any, Any]],
    num_pairs: int,
    *,
    exhaustive: bool = True,
) -> Verdict:
    points = [(RENYI, *point) for point in claim.renyi] + [
        (DELTA, *point) for point in claim.deltas
    ]
    each = zip(points, np.maximum(largest, 0.0).tolist(), names, strict=True)
    worst_pairs = [
        WorstPair(measure, at, exact, claimed, *named)
        for (measure, at, claimed), exact, named in each
    ]
    return Verdict(tuple(worst_pairs), num_pairs, exhaustive)


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Ordered pairs of different neighboring histograms; where (h, h') is one, so is (h', h)."""

    histograms: Counts  # [H, L] all of the instance, one each
    first: Indices  # [P] rows of `histograms`
    second: Indices  # [P] rows of the neighbors

    def __len__(self) -> int:
        return len(self.first)

    @classmethod
    def of(cls, histograms: Counts, first: Indices, second: Indices) -> Self:
        """With those of the histograms that are in a pair."""
        used, rows = np.unique(np.concatenate([first, second]), return_inverse=True)
        return cls(histograms[used], *np.split(rows.reshape(-1), 2))

    @property
    def pairs(self) -> tuple[Counts, Counts]:
        """Both histograms of every pair: `[P, L]` each."""
        return self.histograms[self.first], self.histograms[self.second]

    def up_to_names(self) -> Self:
        """One pair of each kind, for distributions that treat labels alike and break ties by the lowest index."""
        # Such a distribution is a function of the sorted counts whose outcomes are then renamed from ranks to labels.
        # So a pair's divergences depend on both sorted histograms and on the rank in the second of each rank in the
        # first; pairs that agree in these are one kind. About 1 in 7 pairs of 4 labels and 6 teachers is left.
        order = np.argsort(-self.histograms, axis=1, kind="stable")  # [H, L] label at each rank
        rank = np.argsort(order, axis=1)
        falling = np.take_along_axis(self.histograms, order, axis=1)
        codes = np.ravel_multi_index(
            falling.T, (int(falling.max(initial=0)) + 1,) * falling.shape[1]
        )
        sorted_rows = np.unique(codes, return_inverse=True)[1]
        moved = np.take_along_axis(rank[self.second], order[self.first], axis=1)  # [P, L]
        code = sorted_rows[self.first] * len(falling) + sorted_rows[self.second]
        for column in moved.T:
            code = code * falling.shape[1] + column
        unsorted = (order[self.first] != np.arange(falling.shape[1])).any(axis=1)
        # few different histograms remain if the first is sorted
        preferred = np.argsort(unsorted, kind="stable")
        kept = np.sort(preferred[np.unique(code[preferred], return_index=True)[1]])
        return self.of(self.histograms, self.first[kept], self.second[kept])


def all_histograms(num_labels: int, num_teachers: int) -> Counts:
    """Every histogram that `num_teachers` vote vectors of bits can have: `[(T + 1)^L, L]`."""
    ranges = [np.arange(num_teachers + 1)] * num_labels
    return np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, num_labels)


def neighbors(
    num_labels: int, num_teachers: int, adjacency: Adjacency, *, one_vote: bool = False
) -> Neighbors:
    """Every ordered pair of neighboring histograms that differ.

    Under replace-one one teacher's votes change arbitrarily; under add/remove they are absent, or come back, and
    `num_teachers` is the larger of the two numbers. With `one_vote` each teacher votes for exactly one label, else for
    any set of labels. More than 5 million pairs are refused.

    >>> pairs = neighbors(1, 2, Adjacency.ADD_REMOVE)
    >>> [(int(h[0]), int(other[0])) for h, other in zip(*pairs.pairs)]
    [(1, 0), (2, 1), (0, 1), (1, 2)]
    """
    require_count("num_labels", num_labels)
    require_count("num_teachers", num_teachers)
    replaced = Adjacency.parse(adjacency) is Adjacency.REPLACE_ONE
    pairs = (3 * num_teachers + 1) ** num_labels
    require(
        pairs <= _MOST_PAIRS,
        "num_labels, num_teachers",
        f"{num_labels}, {num_teachers}",
        "a smaller instance",
    )
    # Labels are independent: one teacher's old and new bit, and a count in 0..T-1 from the others. With replace-one
    # both bits are free; with add/remove the new bit is 0.
    bits = [(0, 0), (1, 0), (0, 1), (1, 1)] if replaced else [(0, 0), (1, 0)]
    one_label = np.array(
        sorted({(rest + old, rest + new) for rest in range(num_teachers) for old, new in bits})
    )
    first = second = np.zeros(1, dtype=np.int64)
    for _ in range(num_labels):
        first = (first[:, None] * (num_teachers + 1) + one_label[:, 0]).ravel()
        second = (second[:, None] * (num_teachers + 1) + one_label[:, 1]).ravel()
    histograms = all_histograms(num_labels, num_teachers)
    # counts that sum to T, or to T - 1 where a teacher is gone; one vote moves or goes
    if one_vote:
        totals = histograms.sum(axis=1)
        kept = (totals[first] == num_teachers) & (totals[second] == num_teachers - (not replaced))
        first = first[kept]
        second = second[kept]
        kept = np.abs(histograms[first] - histograms[second]).sum(axis=1) <= 2
        first = first[kept]
        second = second[kept]
    # the pairs that differ and their reverses, each once
    codes = np.concatenate([first * len(histograms) + second, second * len(histograms) + first])
    _, places = np.unique(codes, return_index=True)
    one = np.concatenate([first, second])
    other = np.concatenate([second, first])
    kept = np.sort(places[one[places] != other[places]])
    sides = one[kept], other[kept]
    return Neighbors.of(histograms, *sides) if one_vote else Neighbors(histograms, *sides)


def verify(
    distribution: ExactDistribution,
    *,
    num_labels: int,
    num_teachers: int,
    adjacency: Adjacency,
    event: Event | Claim,
    orders: Sequence[float] = ORDERS,
    epsilons: Sequence[float] = EPSILONS,
    deltas: Sequence[float] = DELTAS,
    accountant: Callable[[], Accountant] = RdpAccountant,
    count: int = 1,
    one_vote: bool = False,
    symmetric: bool = False,
) -> Verdict:
    """Compares a mechanism's exact distributions on all neighboring histograms of a small instance with its price.

    Renyi divergences are taken outside of the event's failure probability, by the best choice of what fails; deltas
    are compared with what the accountant prints. A refutation names a pair of histograms and is a proof, up to
    rounding. Otherwise the price holds on this instance at the orders and epsilons looked at, no more is said.

    `distribution` takes a histogram, int `[num_labels]`, and returns the probability of each outcome. `event` is the
    price of one release, or a `Claim`: figures that need not come from an event. It is compared at Renyi `orders`. What
    the `accountant` prints is compared at `epsilons` and, beyond what failures take, at `deltas`. With `count` releases
    on the same pair those that are worst in one are looked at; what is found is a lower bound on the true divergence.
    With `one_vote` each teacher votes for exactly one label. Say `symmetric` if the distribution treats labels alike
    and breaks ties by the lowest index: pairs that differ by names only are then compared once. A refutation does not
    depend on it.

    Raises:
        InvalidValue: a distribution that is none, an instance that is too large, an event that cannot be priced.

    >>> from pate.accounting import PureDpEvent
    >>> def coin(histogram):
    ...     return {"yes": (1 + histogram[0]) / 4, "no": (3 - histogram[0]) / 4}
    >>> verdict = verify(coin, num_labels=1, num_teachers=2, adjacency="add_remove", event=PureDpEvent(0.5))
    >>> verdict.sound, verdict.delta.first, verdict.delta.second
    (False, (1,), (0,))
    """
    require_count("count", count)
    pairs = neighbors(num_labels, num_teachers, adjacency, one_vote=one_vote)
    claim = Claim.of(
        event, accountant=accountant, orders=orders, epsilons=epsilons, deltas=deltas, count=count
    )
    num_pairs = len(pairs)
    pairs = pairs.up_to_names() if symmetric else pairs
    first = pairs.first
    second = pairs.second
    names = list(map(tuple, pairs.histograms.tolist()))
    table = distribution_table([distribution(histogram) for histogram in pairs.histograms], names)
    # one pair for each two distributions, of which those equal to the last bit are the same
    if len(first):
        rows: dict[bytes, int] = {}
        row = np.array([rows.setdefault(law.tobytes(), len(rows)) for law in table])
        kept = np.unique(row[first] * len(table) + row[second], return_index=True)[1]
        first = first[kept]
        second = second[kept]
    return _compare(table, first, second, claim, names, count, num_pairs)


def verify_distributions(
    first: ArrayLike,
    second: ArrayLike,
    *,
    event: Event | Claim,
    count: int = 1,
    names: Names | None = None,
) -> Verdict:
    """Compares given pairs of distributions with a price, in the stated direction only.

    `first` holds probabilities `[n]`, or `[N, n]` for N pairs, and `second` those of the neighbors, over the same
    outcomes. `names` gives what the pair of a row is called, else its number. The others are as in `verify`;
    `Claim.of(event, orders=...)` chooses where an event is compared.
    """
    one, other = (np.atleast_2d(np.asarray(side, dtype=np.float64)) for side in (first, second))
    require(one.shape == other.shape, "second.shape", other.shape, f"that of first, {one.shape}")
    claim = Claim.of(event, count=require_count("count", count))
    table = np.concatenate([one, other])
    rows = np.arange(len(one))
    shown = [f"{side}[{row}]" for side in ("first", "second") for row in rows]
    _require_distributions(table, shown)
    if names is not None:
        shown = [name for side in zip(*map(names, rows.tolist()), strict=True) for name in side]
    return _compare(table, rows, rows + len(one), claim, shown, count, len(one))


def distribution_table(
    distributions: Sequence[Mapping[Hashable, float]], names: Sequence[Any]
) -> Array:
    """Distributions as rows over all their outcomes, `[H, n]`, or a refusal of what are none."""
    columns: dict[Hashable, int] = {}
    shown = [f"distribution({name})" for name in names]
    for distribution, name in zip(distributions, shown, strict=True):
        require_kind(name, distribution, Mapping, "a mapping from outcomes to probabilities")
        for outcome in distribution:
            columns.setdefault(outcome, len(columns))
    table = np.zeros((len(distributions), len(columns)))
    for row, distribution in enumerate(distributions):
        table[row, [columns[outcome] for outcome in distribution]] = list(distribution.values())
    _require_distributions(table, shown)
    return table


def _require_distributions(table: Array, names: Sequence[str]) -> None:
    totals = table.sum(axis=1)
    wrong = np.flatnonzero(~((np.abs(totals - 1) <= _TOLERANCE) & (table >= 0).all(axis=1)))
    for row in wrong[:1].tolist():
        found = f"total {totals[row]:.9g}, smallest {table[row].min(initial=math.inf):.3g}"
        require(False, names[row], found, f"probabilities >= 0 that sum to 1 within {_TOLERANCE}")


def verify_densities(
    first: LogDensity,
    second: LogDensity,
    *,
    low: float,
    high: float,
    event: Event | Claim,
    names: tuple[Any, Any] = ("first", "second"),
    num_panels: int = 4000,
) -> Verdict:
    """Compares two densities with a price by quadrature, in both directions.

    For mechanisms that publish a number, one pair of neighbors at a time, by the logarithms of their densities, which
    should be smooth but at the ends of the panels of [low, high]. What lies outside is left out, so divergences can be
    too small: at high orders the tails matter far out. Rounding and quadrature make them too large by about 1e-9.
    `names` are those of the two; `Claim.of(event, orders=...)` chooses where an event is compared. A density whose
    integral is not 1 within 1e-9 is refused.
    """
    require(low < high, "low", low, f"a number below high={high}")
    edges = np.linspace(low, high, require_count("num_panels", num_panels) + 1)
    half = np.diff(edges)[:, None] / 2
    nodes, weights = gauss_legendre(16)
    points = (edges[:-1, None] + half * (1 + nodes)).ravel()
    log_weights = np.log(half * weights).ravel()
    log_distributions = np.stack(
        [np.asarray(side(points), dtype=np.float64) + log_weights for side in (first, second)]
    )
    distributions = np.exp(log_distributions)
    for name, total in zip(("first", "second"), distributions.sum(axis=1), strict=True):
        require(
            abs(total - 1) <= _TOLERANCE, f"{name} integral", total, "1 within 1e-9 on [low, high]"
        )
    claim = Claim.of(event)
    both_logs = (log_distributions, log_distributions[::-1])
    values = _divergences(distributions, distributions[::-1], claim, both_logs)
    named = [names[::-1] if pair else names for pair in values.argmax(axis=0)]
    return _verdict(claim, values.max(axis=0), named, 2)


def verify_samples(
    sampler: Sampler,
    *,
    num_labels: int,
    num_teachers: int,
    adjacency: Adjacency,
    event: Event | Claim,
    rng: np.random.Generator,
    num_samples: int = 20_000,
    confidence: float = 0.99,
    epsilons: Sequence[float] = EPSILONS,
    deltas: Sequence[float] = DELTAS,
    accountant: Callable[[], Accountant] = RdpAccountant,
    one_vote: bool = False,
) -> Verdict:
    """Compares draws on all neighboring histograms of a small instance with the (epsilon, delta) of a price.

    One half of the draws picks eight pairs, epsilons and sets of outcomes whose delta seems largest beside the claim.
    The other half is independent of that choice, and tests them by Clopper-Pearson bounds on both probabilities. All
    bounds share the error probability: a refutation holds with `confidence`.

    `sampler` takes a histogram `[L]`, how many draws, here `num_samples` >= 2, and the generator. It returns
    independent outcomes: an array `[n]` or `[n, ...]` or a sequence of hashable values. They should repeat: round
    numbers that do not. Of a `Claim` only the deltas are used. All others are as in `verify`.
    """
    require_generator(rng)
    require_probability("confidence", confidence)
    half = require_count("num_samples", num_samples, minimum=2) // 2
    claim = Claim.of(event, accountant=accountant, orders=(), epsilons=epsilons, deltas=deltas)
    require(len(claim.deltas) > 0, "deltas", claim.deltas, "at least one point")
    pairs = neighbors(num_labels, num_teachers, adjacency, one_vote=one_vote)
    require(len(pairs) > 0, "num_labels", num_labels, "an instance with neighbors")
    seen = _frequencies([sampler(histogram, 2 * half, rng) for histogram in pairs.histograms], half)
    candidates = _candidates(seen[0], pairs, claim, half)
    error = (1 - confidence) / (2 * len(candidates))
    tested = [_tested(seen, pairs, pair, *point, half, error) for pair, point in candidates]
    return Verdict(tuple(tested), len(candidates), exhaustive=False, confidence=confidence)


def _frequencies(draws: Sequence[Sequence[Any]], half: int) -> Array:
    """How often each outcome came in each half: `[2, H, n]` as shares."""
    index: dict[Any, int] = {}
    columns = []
    for drawn in draws:
        outcomes = (
            drawn.reshape(len(drawn), -1).tolist() if isinstance(drawn, np.ndarray) else list(drawn)
        )
        outcomes = list(map(tuple, outcomes)) if isinstance(drawn, np.ndarray) else outcomes
        require(len(outcomes) == 2 * half, "sampler", f"{len(outcomes)} outcomes", f"{2 * half}")
        columns.append([index.setdefault(outcome, len(index)) for outcome in outcomes])
    halves = np.array(columns).reshape(len(columns), 2, half).swapaxes(0, 1)
    return (
        np.array([[np.bincount(row, minlength=len(index)) for row in part] for part in halves])
        / half
    )


def _candidates(
    shares: Array, pairs: Neighbors, claim: Claim, half: int
) -> list[tuple[int, tuple[float, float]]]:
    """The pairs and points of the claim where the first half exceeds it by most standard errors."""
    size = max(1, _SHARES_AT_ONCE // shares.shape[1])
    scores = np.empty((len(pairs), len(claim.deltas)))
    for start in range(0, len(pairs), size):
        rows = slice(start, start + size)
        one = shares[pairs.first[rows]]
        other = shares[pairs.second[rows]]
        for point, (epsilon, delta) in enumerate(claim.deltas):
            factor = np.exp(min(epsilon, _LARGEST_EXPONENT))
            event = one > factor * other
            p, q = ((side * event).sum(axis=1) for side in (one, other))
            # a share of 0 or 1 of few draws is not certain: one draw is added on either side
            near_p, near_q = ((share * half + 1) / (half + 2) for share in (p, q))
            spread = np.sqrt(near_p * (1 - near_p) + factor**2 * near_q * (1 - near_q))
            scores[rows, point] = (p - factor * q - delta) / spread
    best = np.argsort(-scores, axis=None)[:_NUM_CANDIDATES]
    return [
        (int(place) // len(claim.deltas), claim.deltas[place % len(claim.deltas)]) for place in best
    ]


def _tested(
    shares: Array,
    pairs: Neighbors,
    pair: int,
    epsilon: float,
    delta: float,
    half: int,
    error: float,
) -> WorstPair:
    """A lower bound on the delta of one pair at one epsilon, from the set of outcomes that the first half suggests."""
    one = int(pairs.first[pair])
    other = int(pairs.second[pair])
    factor = math.exp(min(epsilon, _LARGEST_EXPONENT))
    event = shares[0, one] > factor * shares[0, other]
    hits = [round(float(shares[1, side, event].sum()) * half) for side in (one, other)]
    at_least = (
        float(scipy.special.betaincinv(hits[0], half - hits[0] + 1, error)) if hits[0] > 0 else 0.0
    )
    at_most = (
        float(scipy.special.betaincinv(hits[1] + 1, half - hits[1], 1 - error))
        if hits[1] < half
        else 1.0
    )
    names = (tuple(pairs.histograms[row].tolist()) for row in (one, other))
    return WorstPair(DELTA, epsilon, max(0.0, at_least - factor * at_most), delta, *names)
