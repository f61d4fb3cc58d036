"""A claim, points on the curves of a price, and the verdict of pairs of distributions on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Accountant, Event, RdpAccountant, SelfComposedEvent
from pate.accounting.events import count_leaves, failure_probability
from pate.accounting.rdp import rdp_curve
from pate.validation import require
from pate.verification.divergences import RELATIVE_SLACK, SLACK, compose, hockey_stick, logs, renyi, trimmed

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Points = tuple[tuple[float, float], ...]
Names = Callable[[int], tuple[Any, Any]]

_CELLS_AT_ONCE = 2**18

ORDERS: tuple[float, ...] = (1.05, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 64.0, 1024.0)
EPSILONS: tuple[float, ...] = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)
DELTAS: tuple[float, ...] = (1e-6, 1e-3, 0.05)


@dataclass(frozen=True)
class Claim:
    """Points on the curves of a price, of an event or of any other claim.

    >>> Claim(deltas=((1.617, 1e-5),)).scaled(0.9).deltas
    ((1.617, 9e-06),)
    """

    renyi: Points = ()  # (order, divergence) pairs: what is said to bound the Renyi divergence outside of the failure
    deltas: Points = ()  # (epsilon, delta) pairs: what is said to be (epsilon, delta)-DP, failures included
    failure_prob: float = 0.0  # in [0, 1): what the Renyi divergences leave out

    def __post_init__(self) -> None:
        require(bool(self.renyi or self.deltas), "renyi, deltas", "(), ()", "at least one point")
        for order, divergence in self.renyi:
            require(1 < order < math.inf, "renyi", order, "finite orders > 1")
            require(divergence >= 0, "renyi", divergence, "divergences >= 0")
        for epsilon, delta in self.deltas:
            require(0 <= epsilon < math.inf, "deltas", epsilon, "finite epsilons >= 0")
            require(delta >= 0, "deltas", delta, "deltas >= 0")
        require(0 <= self.failure_prob < 1, "failure_prob", self.failure_prob, "a number in [0, 1)")

    @classmethod
    def of(
        cls,
        event: Event | Claim,
        *,
        accountant: Callable[[], Accountant] = RdpAccountant,
        orders: Sequence[float] = ORDERS,
        epsilons: Sequence[float] = EPSILONS,
        deltas: Sequence[float] = DELTAS,
        count: int = 1,
    ) -> Claim:
        """What an event costs `count` times; a claim is taken as it stands.

        The event's Renyi curve is read at `orders`, none for events without one. The accountant prints deltas at
        `epsilons`, and epsilons at `deltas` beyond what failure probabilities take.

        Raises:
            InvalidValue: neither an event nor a claim, or an event that cannot be priced.
        """
        if isinstance(event, Claim):
            return event
        require(isinstance(event, Event), "event", type(event).__name__, "an event of pate.accounting, or a Claim")
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

    def scaled(self, factor: float) -> Claim:
        """The same with every divergence and delta multiplied by `factor`: a control that should be refuted below 1."""
        renyi, deltas = (tuple((at, factor * bound) for at, bound in points) for points in (self.renyi, self.deltas))
        return Claim(renyi, deltas, self.failure_prob)


RENYI = "Renyi divergence"
DELTA = "delta"


class PriceRefuted(ValueError):
    """A mechanism costs more than claimed. The message names the pair, the exact figure and the claim."""


@dataclass(frozen=True)
class WorstPair:
    """The worst pair at one point of a claim."""

    measure: str  # "Renyi divergence" or "delta"
    at: float  # the order, or the epsilon
    exact: float  # the largest divergence of first from second; for several releases, a lower bound on it
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


@dataclass(frozen=True)
class Verdict:
    """The outcome of an enumeration."""

    worst_pairs: tuple[WorstPair, ...]  # the worst pair for each order and for each epsilon of the claim
    num_pairs: int  # how many ordered pairs were looked at
    # whether the exact figures are exact for all of them; for several releases they are lower bounds
    exhaustive: bool = True

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
        return max(self.worst_pairs, key=lambda pair: (pair.exceeds, pair.ratio))

    @property
    def renyi(self) -> WorstPair | None:
        """The worst Renyi divergence; None where the claim has none."""
        return self._worst_of(RENYI)

    @property
    def delta(self) -> WorstPair | None:
        """The worst hockey-stick divergence; None where the claim has none."""
        return self._worst_of(DELTA)

    def _worst_of(self, measure: str) -> WorstPair | None:
        pairs = tuple(pair for pair in self.worst_pairs if pair.measure == measure)
        return replace(self, worst_pairs=pairs).worst if pairs else None

    @property
    def ratio(self) -> float:
        """The largest ratio of exact to claimed."""
        return max(pair.ratio for pair in self.worst_pairs)

    def require(self) -> Self:
        """Returns itself unless refuted.

        Raises:
            PriceRefuted: with the worst pair.
        """
        if self.refuted:
            raise PriceRefuted(f"price refuted: {self.worst}")
        return self

    def __str__(self) -> str:
        head = "REFUTED" if self.refuted else "holds" if self.exhaustive else "not refuted"
        lines = [f"{head} on {self.num_pairs} ordered pairs"]
        return "\n".join(lines + [f"  {pair}" for pair in (self.renyi, self.delta) if pair is not None])


class Comparison:
    """The largest divergence at each point of a claim so far, and which pair has it."""

    def __init__(self, claim: Claim, *, exhaustive: bool = True) -> None:
        self.claim = claim
        self._exhaustive = exhaustive
        self._orders = [order for order, _ in claim.renyi]
        self._epsilons = [epsilon for epsilon, _ in claim.deltas]
        self._largest = np.full(len(self._orders) + len(self._epsilons), -np.inf)
        self.pairs = np.full(len(self._largest), -1)  # the worst at each point
        self._num_pairs = 0

    def add(
        self, first: Array, second: Array, pairs: Indices, log_distributions: tuple[Array, Array] | None = None
    ) -> None:
        """Takes in distributions `[N, n]` and `[N, n]` of the pairs with these numbers `[N]`; logs if they say more."""
        if log_distributions is None or self.claim.failure_prob > 0:
            kept = trimmed(first, second, self.claim.failure_prob) if self._orders else (first, second)
            log_distributions = logs(kept[0]), logs(kept[1])
        divergences = renyi(*log_distributions, self._orders)
        values = np.concatenate([divergences, hockey_stick(first, second, self._epsilons)], axis=1)
        places = values.argmax(axis=0)
        tops = values.max(axis=0)
        higher = tops > self._largest
        self._largest[higher], self.pairs[higher] = tops[higher], pairs[places[higher]]
        self._num_pairs += len(pairs)

    def verdict(self, names: Names, *, num_pairs: int | None = None) -> Verdict:
        """The worst pairs, called by their names."""
        points = [(RENYI, *point) for point in self.claim.renyi] + [(DELTA, *point) for point in self.claim.deltas]
        worst_pairs = [
            WorstPair(measure, at, max(float(exact), 0.0), claimed, *(names(int(pair)) if pair >= 0 else (None, None)))
            for (measure, at, claimed), exact, pair in zip(points, self._largest, self.pairs, strict=True)
        ]
        return Verdict(tuple(worst_pairs), self._num_pairs if num_pairs is None else num_pairs, self._exhaustive)


def compare(table: Array, first: Indices, second: Indices, claim: Claim, *, count: int = 1) -> Comparison:
    """Pairs of rows of a table of distributions `[H, n]` against a claim, in chunks.

    For several releases those pairs that are the worst in one of them, `count` times: lower bounds on the divergences.
    """
    comparison = Comparison(claim)
    size = max(1, _CELLS_AT_ONCE // max(1, table.shape[1]))
    for start in range(0, len(first), size):
        pairs = np.arange(start, min(start + size, len(first)))
        comparison.add(table[first[pairs]], table[second[pairs]], pairs)
    if count == 1:
        return comparison
    composed = Comparison(claim, exhaustive=False)
    for pair in sorted(set(comparison.pairs.tolist()) - {-1}):
        one, other = compose(table[first[pair]], table[second[pair]], count)
        composed.add(one[None], other[None], np.array([pair]))
    return composed
