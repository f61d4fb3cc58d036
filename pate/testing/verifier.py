"""Comparison of a price with exact distributions or densities on all neighbors of a small instance."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pate.accounting import Accountant, Adjacency, Event, RdpAccountant
from pate.accounting.special import gauss_legendre
from pate.testing.claim import DELTAS, EPSILONS, ORDERS, Claim
from pate.testing.composition import compose
from pate.testing.divergences import Array, hockey_stick, logs, renyi, trimmed
from pate.testing.neighbors import Counts, Indices, neighbors
from pate.testing.verdict import DELTA, RENYI, Verdict, WorstPair
from pate.validation import (
    require,
    require_count,
    require_kind,
)

Names = Callable[[int], tuple[Any, Any]]
ExactDistribution = Callable[[Counts], Mapping[Any, float]]
LogDensity = Callable[[Array], Array]
_CELLS_AT_ONCE = 2**18
_TOLERANCE = 1e-9  # of a total of probabilities


def _divergences(
    first: Array, second: Array, claim: Claim, log_distributions: tuple[Array, Array] | None = None
) -> Array:
    """Returns the divergences of pairs of distributions `[N, n]` at the points of a claim, `[N, points]`.

    `log_distributions` are more exact logarithms of both, where the caller has them.
    """
    orders = [order for order, _ in claim.renyi]
    epsilons = [epsilon for epsilon, _ in claim.deltas]
    if log_distributions is None or claim.failure_prob > 0:
        trimmed_first, trimmed_second = first, second
        if orders:
            trimmed_first, trimmed_second = trimmed(first, second, claim.failure_prob)
        log_distributions = (logs(trimmed_first), logs(trimmed_second))
    log_first, log_second = log_distributions
    renyi_divergences = renyi(log_first, log_second, orders)
    return np.concatenate([renyi_divergences, hockey_stick(first, second, epsilons)], axis=1)


def _compare(
    table: Array,
    first: Indices,
    second: Indices,
    claim: Claim,
    names: Sequence[Any],
    count: int,
    num_pairs: int,
) -> Verdict:
    """Compares pairs of distributions with a claim.

    Args:
        table: distributions, `[H, n]`.
        first: rows of the first distributions, `[P]`.
        second: rows of the second ones, `[P]`.
        claim: on `count` releases.
        names: of the rows, `[H]`.
        count: the number of releases. For several, the pairs that are the worst in one release are composed, so the
            figures are lower bounds.
        num_pairs: shown in the verdict; more than P where pairs were equal.
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
    pair_names = [
        (names[first[pair]], names[second[pair]]) if pair >= 0 else (None, None) for pair in worst
    ]
    return _verdict(claim, largest, pair_names, num_pairs, exhaustive=count == 1)


def _verdict(
    claim: Claim,
    largest: Array,
    names: Sequence[tuple[Any, Any]],
    num_pairs: int,
    *,
    exhaustive: bool = True,
) -> Verdict:
    """Returns the verdict on a claim.

    Args:
        claim: with P points.
        largest: the largest divergence at each point, `[P]`.
        names: of the pair that has it, `[P]`.
        num_pairs: the number of pairs that were compared.
        exhaustive: see `Verdict`.
    """
    points = [(RENYI, *point) for point in claim.renyi] + [
        (DELTA, *point) for point in claim.deltas
    ]
    worst_pairs = [
        WorstPair(measure, at, exact, claimed, first=first, second=second)
        for (measure, at, claimed), exact, (first, second) in zip(
            points, np.maximum(largest, 0.0).tolist(), names, strict=True
        )
    ]
    return Verdict(tuple(worst_pairs), num_pairs, exhaustive)


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

    Renyi divergences are taken outside of the event's failure probability, by the best choice of the failure. Deltas
    are compared with those that the accountant prints. A refutation names a pair of histograms and is a proof, up to
    rounding. Without a refutation the price holds on this instance, at these orders and epsilons.

    Args:
        distribution: takes a histogram, int `[num_labels]`, and returns the probability of each outcome.
        num_labels: L of the instance.
        num_teachers: T of the instance.
        adjacency: of the price.
        event: the price of one release; or a `Claim`, whose figures need not come from an event.
        orders: at which Renyi divergences are compared.
        epsilons: at which deltas are compared.
        deltas: at which epsilons are compared, each beside the failure probability.
        accountant: prints the price.
        count: the number of releases on the same pair. The pairs that are worst in one release are composed, so the
            figures are lower bounds.
        one_vote: True where each teacher votes for exactly one label.
        symmetric: True where the distribution treats labels alike and breaks ties by the lowest index. Pairs that
            differ by names only are then compared once. A refutation does not depend on it.

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
    claim = Claim.from_event(
        event, accountant=accountant, orders=orders, epsilons=epsilons, deltas=deltas, count=count
    )
    num_pairs = len(pairs)
    pairs = pairs.up_to_names if symmetric else pairs
    first = pairs.first
    second = pairs.second
    names = list(map(tuple, pairs.histograms.tolist()))
    table = distribution_table([distribution(histogram) for histogram in pairs.histograms], names)
    # pairs of distributions that are equal to the last bit are compared once
    if len(first):
        number_of: dict[bytes, int] = {}
        numbers = np.array([number_of.setdefault(row.tobytes(), len(number_of)) for row in table])
        pair_codes = numbers[first] * len(table) + numbers[second]
        different = np.unique(pair_codes, return_index=True)[1]
        first = first[different]
        second = second[different]
    return _compare(table, first, second, claim, names, count, num_pairs)


def verify_distributions(
    first: ArrayLike,
    second: ArrayLike,
    *,
    event: Event | Claim,
    count: int = 1,
    names: Names | None = None,
) -> Verdict:
    """Compares pairs of distributions with a price, in the stated direction only.

    Args:
        first: probabilities `[n]`, or `[N, n]` for N pairs.
        second: those of the neighbors, over the same outcomes.
        event: the price of one release; `Claim.from_event(event, orders=...)` chooses where it is compared.
        count: the number of releases, as in `verify`.
        names: returns the names of a row's pair; None for its number.
    """
    one, other = (np.atleast_2d(np.asarray(side, dtype=np.float64)) for side in (first, second))
    require(one.shape == other.shape, "second.shape", other.shape, f"that of first, {one.shape}")
    claim = Claim.from_event(event, count=require_count("count", count))
    table = np.concatenate([one, other])
    rows = np.arange(len(one))
    row_names = [f"{side}[{row}]" for side in ("first", "second") for row in rows]
    _require_distributions(table, row_names)
    if names is not None:
        row_names = [name for side in zip(*map(names, rows.tolist()), strict=True) for name in side]
    return _compare(table, rows, rows + len(one), claim, row_names, count, len(one))


def distribution_table(
    distributions: Sequence[Mapping[Hashable, float]], names: Sequence[Any]
) -> Array:
    """Returns distributions as rows over all outcomes, `[H, n]`; raises `InvalidValue` for anything else."""
    columns: dict[Hashable, int] = {}
    row_names = [f"distribution({name})" for name in names]
    for distribution, name in zip(distributions, row_names, strict=True):
        require_kind(name, distribution, Mapping, "a mapping from outcomes to probabilities")
        for outcome in distribution:
            columns.setdefault(outcome, len(columns))
    table = np.zeros((len(distributions), len(columns)))
    for row, distribution in enumerate(distributions):
        table[row, [columns[outcome] for outcome in distribution]] = list(distribution.values())
    _require_distributions(table, row_names)
    return table


def _require_distributions(table: Array, names: Sequence[str]) -> None:
    """Raises `InvalidValue`, with the name of the row, unless all rows are distributions."""
    totals = table.sum(axis=1)
    wrong = np.flatnonzero(~((np.abs(totals - 1) <= _TOLERANCE) & (table >= 0).all(axis=1)))
    for row in wrong[:1].tolist():
        text = f"total {totals[row]:.9g}, smallest {table[row].min(initial=math.inf):.3g}"
        require(False, names[row], text, f"probabilities >= 0 that sum to 1 within {_TOLERANCE}")


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

    It serves mechanisms that publish a number, for one pair of neighbors. Mass outside of [low, high] is left out, so
    divergences can be too small: at high orders far tails matter. Rounding and quadrature make them too large by about
    1e-9.

    Args:
        first: the logarithm of a density, elementwise; smooth except at the ends of panels.
        second: that of the neighbor.
        low: the beginning of the first panel.
        high: the end of the last panel.
        event: the price; `Claim.from_event(event, orders=...)` chooses where it is compared.
        names: of the two.
        num_panels: of equal width, 16 nodes each.

    Raises:
        InvalidValue: the integral of a density is not 1 within 1e-9.
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
    claim = Claim.from_event(event)
    both_logs = (log_distributions, log_distributions[::-1])
    values = _divergences(distributions, distributions[::-1], claim, both_logs)
    pair_names = [names[::-1] if pair else names for pair in values.argmax(axis=0)]
    return _verdict(claim, values.max(axis=0), pair_names, 2)
