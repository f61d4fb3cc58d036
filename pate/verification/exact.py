"""Verification of mechanisms whose exact distribution is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pate.accounting import Accountant, Adjacency, Event, RdpAccountant
from pate.validation import InvalidValue, require, require_count
from pate.verification.claim import DELTAS, EPSILONS, ORDERS, Claim
from pate.verification.comparison import Comparison, compare, compare_composed
from pate.verification.neighbors import Counts, Indices, neighbors
from pate.verification.verdict import Verdict

Array = NDArray[np.float64]
ExactDistribution = Callable[[Counts], Mapping[Any, float]]

_SUM_TOLERANCE = 1e-9


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
    rounding. Otherwise the price holds on this instance at the orders and epsilons looked at, and nothing is said
    about others.

    Args:
        distribution: takes a histogram, int `[L]`, and returns the probability of each outcome. Called once a
            histogram.
        num_labels: L.
        num_teachers: T.
        adjacency: what one change means.
        event: the price of one release, or a `Claim`: figures that need not come from an event.
        orders: Renyi orders at which an event is compared.
        epsilons: where the printed delta is compared.
        deltas: where the printed epsilon is compared, beyond what failures take.
        accountant: makes the accountant that prints.
        count: compares this many releases on the same pair with the price of all of them, for the pairs that are
            worst in one release. What is then found is a lower bound on the true divergence.
        one_vote: whether each teacher votes for exactly one label.
        symmetric: whether the distribution treats labels alike and breaks ties by the lowest index; then pairs that
            differ by names only are compared once. A refutation does not depend on it.

    Raises:
        InvalidValue: a distribution that is no distribution, an instance that is too large, an event that cannot be
            priced.

    >>> from pate.accounting import PureDpEvent
    >>> def coin(histogram):
    ...     return {"yes": (1 + histogram[0]) / 4, "no": (3 - histogram[0]) / 4}
    >>> verdict = verify(coin, num_labels=1, num_teachers=2, adjacency="add_remove", event=PureDpEvent(0.5))
    >>> verdict.sound, verdict.delta.first, verdict.delta.second
    (False, (1,), (0,))
    """
    require_count("count", count)
    pairs = neighbors(num_labels, num_teachers, Adjacency.parse(adjacency), one_vote=one_vote)
    claim = Claim.of(event, accountant=accountant, orders=orders, epsilons=epsilons, deltas=deltas, count=count)
    num_pairs = len(pairs)
    pairs = pairs.up_to_names() if symmetric else pairs
    used, rows = np.unique(np.concatenate([pairs.first, pairs.second]), return_inverse=True)
    first, second = np.split(rows.reshape(-1), 2)
    histograms = pairs.histograms[used]
    table = distribution_table(
        [distribution(histogram) for histogram in histograms], [_tuple(histogram) for histogram in histograms]
    )
    kept = _different(table, first, second)
    first, second = first[kept], second[kept]
    comparison = _compare(table, first, second, claim, count)
    return comparison.verdict(
        lambda pair: (_tuple(histograms[first[pair]]), _tuple(histograms[second[pair]])), num_pairs=num_pairs
    )


def verify_distributions(
    first: ArrayLike,
    second: ArrayLike,
    *,
    event: Event | Claim,
    count: int = 1,
    names: Callable[[int], tuple[Any, Any]] | None = None,
) -> Verdict:
    """Compares given pairs of distributions with a price, in the stated direction only.

    Args:
        first: probabilities `[n]`, or `[N, n]` for N pairs.
        second: the same of the neighbors, over the same outcomes.
        event: as in `verify`; `Claim.of(event, orders=...)` chooses where the event is compared.
        count: as in `verify`.
        names: what the pair of a row is called; else by its number.
    """
    one, other = (np.atleast_2d(np.asarray(side, dtype=np.float64)) for side in (first, second))
    require(one.shape == other.shape, "second.shape", other.shape, f"that of first, {one.shape}")
    claim = Claim.of(event, count=require_count("count", count))
    table = np.concatenate([one, other])
    _require_distributions(table, lambda row: f"{'first' if row < len(one) else 'second'}[{row % len(one)}]")
    rows = np.arange(len(one))
    comparison = _compare(table, rows, rows + len(one), claim, count)
    return comparison.verdict(names or (lambda row: (f"first[{row}]", f"second[{row}]")))


def distribution_table(distributions: Sequence[Mapping[Hashable, float]], names: Sequence[Any]) -> Array:
    """Distributions as rows over all their outcomes: `[H, n]`.

    Raises:
        InvalidValue: probabilities that are negative or not numbers, or do not sum to 1 within 1e-9.
    """
    columns: dict[Hashable, int] = {}
    for distribution, name in zip(distributions, names, strict=True):
        if not isinstance(distribution, Mapping):
            raise InvalidValue(
                f"distribution({name})={type(distribution).__name__}: expected a mapping from outcomes to probabilities"
            )
        for outcome in distribution:
            columns.setdefault(outcome, len(columns))
    table = np.zeros((len(distributions), len(columns)))
    for row, distribution in enumerate(distributions):
        table[row, [columns[outcome] for outcome in distribution]] = list(distribution.values())
    _require_distributions(table, lambda row: f"distribution({names[row]})")
    return table


def _different(table: Array, first: Indices, second: Indices) -> Indices:
    """One pair for each two distributions, where distributions that are equal to the last bit are the same."""
    if len(first) == 0:
        return first
    row = np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)
    return np.asarray(np.unique(row[first] * len(table) + row[second], return_index=True)[1])


def _compare(table: Array, first: Indices, second: Indices, claim: Claim, count: int) -> Comparison:
    if count == 1:
        return compare(table, first, second, claim)
    return compare_composed(table, first, second, claim, count=count)


def _require_distributions(table: Array, name: Callable[[int], str]) -> None:
    totals = table.sum(axis=1)
    wrong = np.flatnonzero(~((np.abs(totals - 1) <= _SUM_TOLERANCE) & (table >= 0).all(axis=1)))
    if wrong.size:
        row = int(wrong[0])
        smallest = float(table[row].min()) if table.shape[1] else math.nan
        found = f"total {totals[row]:.9g}, smallest {smallest:.3g}"
        raise InvalidValue(f"{name(row)}={found}: expected probabilities >= 0 that sum to 1 within {_SUM_TOLERANCE}")


def _tuple(histogram: Counts) -> tuple[int, ...]:
    return tuple(histogram.tolist())
