"""Pairs of distributions against a claim, in chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.verification.claim import Claim
from pate.verification.composition import compose
from pate.verification.divergences import hockey_stick, logs, renyi, trimmed
from pate.verification.verdict import DELTA, RENYI, Verdict, WorstPair

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Names = Callable[[int], tuple[Any, Any]]

_CELLS_AT_ONCE = 2**18


class Comparison:
    """The largest divergence at each point of a claim so far, and which pair has it."""

    def __init__(self, claim: Claim, *, exhaustive: bool = True) -> None:
        self.claim = claim
        self._exhaustive = exhaustive
        self._orders = [order for order, _ in claim.renyi]
        self._epsilons = [epsilon for epsilon, _ in claim.deltas]
        self._largest = np.full(len(self._orders) + len(self._epsilons), -np.inf)
        self._pairs = np.full(len(self._largest), -1)
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
        self._largest[higher], self._pairs[higher] = tops[higher], pairs[places[higher]]
        self._num_pairs += len(pairs)

    @property
    def worst_pairs(self) -> list[int]:
        """The pairs that are the worst at some point."""
        return sorted(set(self._pairs.tolist()) - {-1})

    def verdict(self, names: Names, *, num_pairs: int | None = None) -> Verdict:
        """The worst pairs, called by their names."""
        points = [(RENYI, *point) for point in self.claim.renyi] + [(DELTA, *point) for point in self.claim.deltas]
        worst_pairs = [
            WorstPair(measure, at, max(float(exact), 0.0), claimed, *(names(int(pair)) if pair >= 0 else (None, None)))
            for (measure, at, claimed), exact, pair in zip(points, self._largest, self._pairs, strict=True)
        ]
        return Verdict(tuple(worst_pairs), self._num_pairs if num_pairs is None else num_pairs, self._exhaustive)


def compare(table: Array, first: Indices, second: Indices, claim: Claim) -> Comparison:
    """Pairs of rows of a table of distributions `[H, n]` against a claim."""
    comparison = Comparison(claim)
    size = max(1, _CELLS_AT_ONCE // max(1, table.shape[1]))
    for start in range(0, len(first), size):
        pairs = np.arange(start, min(start + size, len(first)))
        comparison.add(table[first[pairs]], table[second[pairs]], pairs)
    return comparison


def compare_composed(table: Array, first: Indices, second: Indices, claim: Claim, *, count: int) -> Comparison:
    """The pairs that are worst in one release, `count` times: lower bounds on the divergences of all releases."""
    candidates = compare(table, first, second, claim).worst_pairs
    comparison = Comparison(claim, exhaustive=False)
    for pair in candidates:
        one, other = compose(table[first[pair]], table[second[pair]], count)
        comparison.add(one[None], other[None], np.array([pair]))
    return comparison
