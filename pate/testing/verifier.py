"""The verifier by exact distributions: a price is compared with divergences on all neighbors of a small instance."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pate.accounting import Accountant, Adjacency, Event, RdpAccountant
from pate.accounting.special import gauss_legendre
from pate.array_types import FloatArray, IntArray
from pate.testing.claim import DELTAS, EPSILONS, ORDERS, Claim
from pate.testing.composition import compose
from pate.testing.divergences import hockey_stick, logs, renyi, without_failures
from pate.testing.neighbors import neighbors
from pate.testing.verdict import DELTA, RENYI, Verdict, WorstPair
from pate.validation import (
    require,
    require_count,
    require_kind,
)

Names = Callable[[int], tuple[Any, Any]]
ExactDistribution = Callable[[IntArray], Mapping[Any, float]]
LogDensity = Callable[[FloatArray], FloatArray]
_CELLS_AT_ONCE = 2**18
_TOLERANCE = 1e-9  # of a total of probabilities


def _divergences(
    first: FloatArray,
    second: FloatArray,
    claim: Claim,
    log_distributions: tuple[FloatArray, FloatArray] | None = None,
) -> FloatArray:
    """Returns the divergences of N pairs of distributions, `[N, P]`, at the P orders and epsilons of a claim.

    Args:
        first: the first distribution of each pair, `[N, n]`.
        second: the second distribution of each pair, over the same n outcomes, `[N, n]`.
        claim: with P points; Renyi divergences come first, then deltas.
        log_distributions: the logarithms of both distributions, if the caller has more exact values than the
            logarithms of `first` and `second`; None otherwise.
    """
    orders = [order for order, _ in claim.renyi]
    epsilons = [epsilon for epsilon, _ in claim.deltas]
    if log_distributions is None or claim.failure_prob > 0:
        trimmed_first, trimmed_second = first, second
        if orders:
            trimmed_first, trimmed_second = without_failures(first, second, claim.failure_prob)
        log_distributions = (logs(trimmed_first), logs(trimmed_second))
    log_first, log_second = log_distributions
    renyi_divergences = renyi(log_first, log_second, orders)
    return np.concatenate([renyi_divergences, hockey_stick(first, second, epsilons)], axis=1)


def _compare(
    table: FloatArray,
    *,
    first_rows: IntArray,
    second_rows: IntArray,
    claim: Claim,
    row_names: Sequence[Any],
    num_releases: int,
    num_pairs: int,
) -> Verdict:
    """Compares P pairs of distributions with a claim and returns the verdict.

    Args:
        table: H distributions over n outcomes, `[H, n]`.
        first_rows: the row of the first distribution of each pair, `[P]`.
        second_rows: the row of the second distribution of each pair, `[P]`.
        claim: the claimed bounds for `num_releases` releases.
        row_names: the name of each row, `[H]`.
        num_releases: the number of releases. For 2 or more, only the pairs with the largest divergences of one release
            are composed, so the divergences of the verdict are lower bounds.
        num_pairs: the number of pairs that the verdict states. It exceeds P if equal pairs were compared once.
    """
    largest = np.full(len(claim.renyi) + len(claim.deltas), -np.inf)
    worst = np.full(len(largest), -1)
    pairs_at_once = max(1, _CELLS_AT_ONCE // max(1, table.shape[1]))
    for start in range(0, len(first_rows), pairs_at_once):
        rows = slice(start, start + pairs_at_once)
        values = _divergences(table[first_rows[rows]], table[second_rows[rows]], claim)
        tops = values.max(axis=0)
        higher = tops > largest
        largest[higher], worst[higher] = tops[higher], start + values.argmax(axis=0)[higher]
    finalists = np.unique(worst[worst >= 0])
    if num_releases > 1 and finalists.size:
        composed = [
            compose(table[first_rows[pair]], table[second_rows[pair]], count=num_releases)
            for pair in finalists
        ]
        values = np.concatenate(
            [
                _divergences(first_law[None], second_law[None], claim)
                for first_law, second_law in composed
            ]
        )
        largest = values.max(axis=0)
        worst = finalists[values.argmax(axis=0)]
    pair_names = [
        (row_names[first_rows[pair]], row_names[second_rows[pair]]) if pair >= 0 else (None, None)
        for pair in worst
    ]
    return _verdict(
        claim,
        largest_divergences=largest,
        pair_names=pair_names,
        num_pairs=num_pairs,
        is_exhaustive=num_releases == 1,
    )


def _verdict(
    claim: Claim,
    *,
    largest_divergences: FloatArray,
    pair_names: Sequence[tuple[Any, Any]],
    num_pairs: int,
    is_exhaustive: bool = True,
) -> Verdict:
    """Returns the verdict on a claim with P points.

    Args:
        claim: the claimed bounds.
        largest_divergences: the largest divergence of all pairs at each point, `[P]`.
        pair_names: the names of the two distributions that have this divergence, `[P]`.
        num_pairs: the number of pairs that were compared.
        is_exhaustive: whether the divergences are exact, and not lower bounds.
    """
    points = [(RENYI, *point) for point in claim.renyi] + [
        (DELTA, *point) for point in claim.deltas
    ]
    worst_pairs = [
        WorstPair(measure=measure, at=at, exact=exact, claimed=claimed, first=first, second=second)
        for (measure, at, claimed), exact, (first, second) in zip(
            points, np.maximum(largest_divergences, 0.0).tolist(), pair_names, strict=True
        )
    ]
    return Verdict(worst_pairs=tuple(worst_pairs), num_pairs=num_pairs, exhaustive=is_exhaustive)


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
    """Compares the exact distributions of a mechanism on all neighboring histograms of a small instance with its price.

    Renyi divergences are computed after a failure event is removed (see `without_failures`): its probability is that of
    the price, and it is chosen such that the divergences are smallest. Deltas are compared with the deltas that the
    accountant computes. A refutation names a pair of histograms and is a proof, up to rounding errors. If the price is
    not refuted, it holds on this instance at these orders and epsilons.

    Args:
        distribution: returns the probability of each outcome, for a histogram, int `[num_labels]`.
        num_labels: the number of labels of the instance.
        num_teachers: the number of teachers of the instance.
        adjacency: the adjacency of the price.
        event: the price of one release; or a `Claim`, whose bounds need not come from an event.
        orders: the orders at which Renyi divergences are compared.
        epsilons: the epsilons at which deltas are compared.
        deltas: further points of the price. For each, the epsilon at the sum of this delta and the failure probability
            is compared.
        accountant: computes epsilons and deltas of an event.
        count: the number of releases on the same pair. For 2 or more, only the pairs with the largest divergences of
            one release are composed, so the divergences of the verdict are lower bounds.
        one_vote: whether each teacher votes for exactly one label, and not for any set of labels.
        symmetric: whether the mechanism treats all labels alike and breaks ties by the lowest index. Then one pair is
            compared of all pairs that differ by a permutation of the labels. A refutation is valid in any case.

    Raises:
        InvalidValue: a distribution has negative probabilities or another sum than 1, or the instance is too large, or
            the event has no known price.

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
    # copies: pairs are shared by later calls, and a distribution may change its argument
    distributions = [distribution(histogram.copy()) for histogram in pairs.histograms]
    table = distribution_table(distributions, names)
    # pairs of distributions that are equal to the last bit are compared once
    if len(first):
        number_of: dict[bytes, int] = {}
        numbers = np.array([number_of.setdefault(row.tobytes(), len(number_of)) for row in table])
        pair_codes = numbers[first] * len(table) + numbers[second]
        different = np.unique(pair_codes, return_index=True)[1]
        first = first[different]
        second = second[different]
    return _compare(
        table,
        first_rows=first,
        second_rows=second,
        claim=claim,
        row_names=names,
        num_releases=count,
        num_pairs=num_pairs,
    )


def verify_distributions(
    first: ArrayLike,
    second: ArrayLike,
    *,
    event: Event | Claim,
    count: int = 1,
    names: Names | None = None,
) -> Verdict:
    """Compares the divergences of `first` from `second`, for N pairs of distributions, with a price.

    Divergences of `second` from `first` are not compared.

    Args:
        first: the probabilities of the first distribution of each pair, `[N, n]`, or `[n]` for one pair.
        second: the probabilities of the second distributions, over the same n outcomes, in the same shape.
        event: the price of one release. A `Claim`, as from `Claim.from_event(event, orders=...)`, has its own orders
            and epsilons.
        count: the number of releases on the same pair, as in `verify`.
        names: returns the names of the two distributions of the pair with a given number; None names them by number.

    Raises:
        InvalidValue: a row is no distribution, the shapes differ, or the event has no known price.
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
    return _compare(
        table,
        first_rows=rows,
        second_rows=rows + len(one),
        claim=claim,
        row_names=row_names,
        num_releases=count,
        num_pairs=len(one),
    )


def distribution_table(
    distributions: Sequence[Mapping[Hashable, float]], distribution_names: Sequence[Any]
) -> FloatArray:
    """Returns H distributions as the rows of an array over the union of their n outcomes, `[H, n]`.

    Args:
        distributions: mappings from outcome to probability, one for each row.
        distribution_names: the name of each distribution, for errors.

    Raises:
        InvalidValue: an entry is no mapping, has negative probabilities or another sum than 1.
    """
    columns: dict[Hashable, int] = {}
    row_names = [f"distribution({name})" for name in distribution_names]
    for distribution, name in zip(distributions, row_names, strict=True):
        require_kind(name, distribution, Mapping, "a mapping from outcomes to probabilities")
        for outcome in distribution:
            columns.setdefault(outcome, len(columns))
    table = np.zeros((len(distributions), len(columns)))
    for row, distribution in enumerate(distributions):
        table[row, [columns[outcome] for outcome in distribution]] = list(distribution.values())
    _require_distributions(table, row_names)
    return table


def _require_distributions(table: FloatArray, row_names: Sequence[str]) -> None:
    """Raises `InvalidValue`, with the name of the row, if a row has negative entries or another sum than 1."""
    totals = table.sum(axis=1)
    wrong = np.flatnonzero(~((np.abs(totals - 1) <= _TOLERANCE) & (table >= 0).all(axis=1)))
    for row in wrong[:1].tolist():
        text = f"total {totals[row]:.9g}, smallest {table[row].min(initial=math.inf):.3g}"
        require(
            False, row_names[row], text, f"probabilities >= 0 that sum to 1 within {_TOLERANCE}"
        )


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
    """Compares the divergences between two densities, in both directions, with a price.

    The densities are those of a mechanism that publishes a real number, on one pair of neighbors. Divergences are
    computed by quadrature on [low, high], divided into panels (intervals of equal width). Mass outside is left out, so
    divergences can be too small, above all at high orders. Rounding and quadrature make them too large by about 1e-9.

    Args:
        first: returns the logarithm of the first density at each of an array of numbers. The density is smooth, except
            at the ends of panels.
        second: returns the logarithm of the second density.
        low: the lower end of the first panel.
        high: the upper end of the last panel.
        event: the price. A `Claim`, as from `Claim.from_event(event, orders=...)`, has its own orders and epsilons.
        names: the names of the two densities in the verdict.
        num_panels: the number of panels, of 16 nodes each.

    Raises:
        InvalidValue: the integral of a density is not 1 within 1e-9.
    """
    require(low < high, "low", low, f"a number below high={high}")
    edges = np.linspace(low, high, require_count("num_panels", num_panels) + 1)
    half = np.diff(edges)[:, None] / 2
    nodes, weights = gauss_legendre(num_nodes=16)
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
    divergences_of_ways = _divergences(distributions, distributions[::-1], claim, both_logs)
    worst_ways = divergences_of_ways.argmax(axis=0)
    pair_names = [names[::-1] if is_reverse else names for is_reverse in worst_ways]
    return _verdict(
        claim,
        largest_divergences=divergences_of_ways.max(axis=0),
        pair_names=pair_names,
        num_pairs=2,
    )
