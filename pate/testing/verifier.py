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
from pate.validation import InvalidValue, require, require_count, require_kind

# A function that returns the names of the two distributions of a pair, for the number of the pair.
Names = Callable[[int], tuple[Any, Any]]
# A function that returns the probability of each outcome, for a histogram.
ExactDistribution = Callable[[IntArray], Mapping[Any, float]]
# A function that returns the logarithm of a density at each of an array of numbers.
LogDensity = Callable[[FloatArray], FloatArray]
# The number of probabilities that are compared at a time, over pairs and outcomes.
_BLOCK_SIZE = 2**18
# The largest distance from 1 of a sum of probabilities.
_TOLERANCE = 1e-9


def verify(
    outcome_probs_of: ExactDistribution,
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
    accountant computes. A refutation names a pair of histograms and is a proof, up to rounding errors. If the price of
    one release is not refuted, it holds on this instance at these orders and epsilons.

    Args:
        outcome_probs_of: returns the probability of each outcome, for a histogram, int `[num_labels]`.
        num_labels: the number of labels of the instance.
        num_teachers: the number of teachers of the instance.
        adjacency: the adjacency of the price.
        event: the price of one release; or a `Claim` on all `count` releases, whose bounds need not come from an event.
        orders: the orders at which Renyi divergences are compared.
        epsilons: the epsilons at which deltas are compared.
        deltas: further points of the price. For each, the epsilon at the sum of this delta and the failure probability
            is compared.
        accountant: computes epsilons and deltas of an event.
        count: the number of releases on the same pair. For 2 or more, only the pairs with the largest divergences of
            one release are composed, so the divergences of the verdict are lower bounds.
        one_vote: whether each teacher votes for exactly one label, and not for any set of labels.
        symmetric: whether the mechanism treats all labels alike and breaks ties by the lowest index. Then only one of
            several equivalent pairs is compared (`Neighbors.up_to_names`). A refutation is valid in any case.

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
    first_rows = pairs.first_rows
    second_rows = pairs.second_rows
    histogram_names = [tuple(histogram) for histogram in pairs.histograms.tolist()]
    # The function gets a copy, as it may change its argument, and later calls share the pairs.
    distributions = [outcome_probs_of(histogram.copy()) for histogram in pairs.histograms]
    law_table = distribution_table(distributions, distribution_names=histogram_names)
    # Pairs of distributions that are equal to the last bit are compared once.
    if len(first_rows) > 0:
        number_of_row: dict[bytes, int] = {}
        row_numbers = np.array(
            [number_of_row.setdefault(row.tobytes(), len(number_of_row)) for row in law_table]
        )
        law_pair_codes = row_numbers[first_rows] * len(law_table) + row_numbers[second_rows]
        distinct_pairs = np.unique(law_pair_codes, return_index=True)[1]
        first_rows = first_rows[distinct_pairs]
        second_rows = second_rows[distinct_pairs]
    return _compare(
        law_table,
        first_rows=first_rows,
        second_rows=second_rows,
        claim=claim,
        row_names=histogram_names,
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
        event: the price of one release. A `Claim`, as from `Claim.from_event(event, orders=..., count=count)`, has its
            own orders and epsilons, and is about all releases.
        count: the number of releases on the same pair, as in `verify`.
        names: returns the names of the two distributions of the pair with a given number; None names them by number.

    Raises:
        InvalidValue: a row is no distribution, the shapes differ, or the event has no known price.
    """
    first_table = np.atleast_2d(np.asarray(first, dtype=np.float64))
    second_table = np.atleast_2d(np.asarray(second, dtype=np.float64))
    if first_table.shape != second_table.shape:
        rule = f"that of first, {first_table.shape}"
        raise InvalidValue("second.shape", second_table.shape, rule=rule)
    claim = Claim.from_event(event, count=require_count("count", count))
    law_table = np.concatenate([first_table, second_table])
    num_pairs = len(first_table)
    pair_numbers = np.arange(num_pairs)
    row_names: list[Any] = [f"first[{row}]" for row in pair_numbers] + [
        f"second[{row}]" for row in pair_numbers
    ]
    _require_distributions(law_table, row_names=row_names)
    if names is not None:
        names_of_pairs = [names(pair_number) for pair_number in pair_numbers.tolist()]
        first_names = [first_name for first_name, _ in names_of_pairs]
        second_names = [second_name for _, second_name in names_of_pairs]
        row_names = first_names + second_names
    return _compare(
        law_table,
        first_rows=pair_numbers,
        second_rows=pair_numbers + num_pairs,
        claim=claim,
        row_names=row_names,
        num_releases=count,
        num_pairs=num_pairs,
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
    row_names = [f"distribution({name})" for name in distribution_names]
    # The outcomes of all distributions, one after another, each with its column in the table and its probability.
    column_of: dict[Hashable, int] = {}
    columns: list[int] = []
    probs: list[float] = []
    for distribution, name in zip(distributions, row_names, strict=True):
        rule = "a mapping from outcomes to probabilities"
        require_kind(name, distribution, kind=Mapping, rule=rule)
        columns += [column_of.setdefault(outcome, len(column_of)) for outcome in distribution]
        probs += distribution.values()
    rows = np.repeat(np.arange(len(distributions)), [len(d) for d in distributions])
    law_table = np.zeros((len(distributions), len(column_of)))
    law_table[rows, columns] = probs
    _require_distributions(law_table, row_names=row_names)
    return law_table


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
    divergences can be too small, above all at high orders. Rounding and quadrature can also change them, by about 1e-9.

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
    # The points of the quadrature in all panels, with their weights. They make each density a finite distribution.
    panel_edges = np.linspace(low, high, require_count("num_panels", num_panels) + 1)
    half_widths = np.diff(panel_edges)[:, None] / 2
    nodes, weights = gauss_legendre(num_nodes=16)
    quadrature_points = (panel_edges[:-1, None] + half_widths * (1 + nodes)).ravel()
    log_weights = np.log(half_widths * weights).ravel()
    log_first_law = np.asarray(first(quadrature_points), dtype=np.float64) + log_weights
    log_second_law = np.asarray(second(quadrature_points), dtype=np.float64) + log_weights
    log_laws_in_both_orders = np.stack([log_first_law, log_second_law])
    laws_in_both_orders = np.exp(log_laws_in_both_orders)
    for name, total_prob in zip(("first", "second"), laws_in_both_orders.sum(axis=1), strict=True):
        is_one = abs(total_prob - 1) <= _TOLERANCE
        require(is_one, f"{name} integral", value=total_prob, rule="1 within 1e-9 on [low, high]")
    claim = Claim.from_event(event)
    # The first row compares `first` with `second`, and the second row `second` with `first`.
    divergences = _divergences(
        first_laws=laws_in_both_orders,
        second_laws=laws_in_both_orders[::-1],
        claim=claim,
        logs_of_both_laws=(log_laws_in_both_orders, log_laws_in_both_orders[::-1]),
    )
    is_reversed = divergences.argmax(axis=0)
    pair_names = [names[::-1] if reverse else names for reverse in is_reversed]
    return _verdict(
        claim,
        largest_divergences=divergences.max(axis=0),
        pair_names=pair_names,
        num_pairs=2,
    )


def _divergences(
    first_laws: FloatArray,
    second_laws: FloatArray,
    claim: Claim,
    logs_of_both_laws: tuple[FloatArray, FloatArray] | None = None,
) -> FloatArray:
    """Returns the divergences of N pairs of distributions, `[N, P]`, at the P orders and epsilons of a claim.

    Args:
        first_laws: the first distribution of each pair, `[N, n]`.
        second_laws: the second distribution of each pair, over the same n outcomes, `[N, n]`.
        claim: with P points; Renyi divergences come first, then deltas.
        logs_of_both_laws: the logarithms of both distributions, if the caller has more exact values than the
            logarithms of `first_laws` and `second_laws`; None otherwise.
    """
    orders = [order for order, _ in claim.renyi]
    epsilons = [epsilon for epsilon, _ in claim.deltas]
    if logs_of_both_laws is not None and claim.failure_prob == 0:
        log_first_laws, log_second_laws = logs_of_both_laws
    elif orders:
        first_without_failures, second_without_failures = without_failures(
            first_laws, second_laws, failure_prob=claim.failure_prob
        )
        log_first_laws = logs(first_without_failures)
        log_second_laws = logs(second_without_failures)
    else:
        log_first_laws = logs(first_laws)
        log_second_laws = logs(second_laws)
    renyi_of_pairs = renyi(log_first_laws, log_second_laws=log_second_laws, renyi_orders=orders)
    deltas_of_pairs = hockey_stick(first_laws, second_laws=second_laws, epsilons=epsilons)
    return np.concatenate([renyi_of_pairs, deltas_of_pairs], axis=1)


def _compare(
    law_table: FloatArray,
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
        law_table: H distributions over n outcomes, `[H, n]`.
        first_rows: the row of the first distribution of each pair, `[P]`.
        second_rows: the row of the second distribution of each pair, `[P]`.
        claim: the claimed bounds for `num_releases` releases.
        row_names: the name of each row, `[H]`.
        num_releases: the number of releases. For 2 or more, only the pairs with the largest divergences of one release
            are composed, so the divergences of the verdict are lower bounds.
        num_pairs: the number of pairs that the verdict states. It exceeds P if equal pairs were compared once.
    """
    # For each point of the claim, the largest divergence and the pair that has it; -1 without pairs.
    largest_divergences = np.full(len(claim.renyi) + len(claim.deltas), -np.inf)
    worst_pairs = np.full(len(largest_divergences), -1)
    pairs_per_block = max(1, _BLOCK_SIZE // max(1, law_table.shape[1]))
    for start in range(0, len(first_rows), pairs_per_block):
        block = slice(start, start + pairs_per_block)
        divergences = _divergences(
            law_table[first_rows[block]], second_laws=law_table[second_rows[block]], claim=claim
        )
        block_largest = divergences.max(axis=0)
        block_worst = start + divergences.argmax(axis=0)
        is_larger = block_largest > largest_divergences
        largest_divergences[is_larger] = block_largest[is_larger]
        worst_pairs[is_larger] = block_worst[is_larger]
    finalists = np.unique(worst_pairs[worst_pairs >= 0])
    if num_releases > 1 and len(finalists) > 0:
        divergences_of_finalists = []
        for pair in finalists:
            first_law, second_law = compose(
                law_table[first_rows[pair]], law_table[second_rows[pair]], count=num_releases
            )
            divergences_of_finalists.append(
                _divergences(first_law[None], second_laws=second_law[None], claim=claim)
            )
        finalist_divergences = np.concatenate(divergences_of_finalists)
        largest_divergences = finalist_divergences.max(axis=0)
        worst_pairs = finalists[finalist_divergences.argmax(axis=0)]
    pair_names: list[tuple[Any, Any]] = []
    for pair in worst_pairs:
        if pair >= 0:
            pair_names.append((row_names[first_rows[pair]], row_names[second_rows[pair]]))
        else:
            pair_names.append((None, None))
    return _verdict(
        claim,
        largest_divergences=largest_divergences,
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
    """Returns the verdict on a claim with P points, which are its orders and then its epsilons.

    Args:
        claim: the claimed bounds.
        largest_divergences: the largest divergence of all pairs at each point, `[P]`.
        pair_names: the names of the two distributions that have the largest divergence at each point, `[P]`.
        num_pairs: the number of pairs that were compared.
        is_exhaustive: whether the divergences are exact, and not lower bounds.
    """
    points = [(RENYI, order, divergence) for order, divergence in claim.renyi]
    points += [(DELTA, epsilon, delta) for epsilon, delta in claim.deltas]
    worst_pairs = []
    for (measure, order_or_epsilon, claimed), divergence, (first, second) in zip(
        points, largest_divergences.tolist(), pair_names, strict=True
    ):
        worst_pair = WorstPair(
            measure=measure,
            at=order_or_epsilon,
            exact=max(divergence, 0.0),
            claimed=claimed,
            first=first,
            second=second,
        )
        worst_pairs.append(worst_pair)
    return Verdict(worst_pairs=tuple(worst_pairs), num_pairs=num_pairs, exhaustive=is_exhaustive)


def _require_distributions(law_table: FloatArray, *, row_names: Sequence[str]) -> None:
    """Raises `InvalidValue`, with the row's name, if a row of `[H, n]` has negative entries or another sum than 1."""
    totals = law_table.sum(axis=1)
    is_valid = (np.abs(totals - 1) <= _TOLERANCE) & (law_table >= 0).all(axis=1)
    if not is_valid.all():
        row = int(np.argmin(is_valid))
        found_probs = (
            f"total {totals[row]:.9g}, smallest {law_table[row].min(initial=math.inf):.3g}"
        )
        rule = f"probabilities >= 0 that sum to 1 within {_TOLERANCE}"
        raise InvalidValue(row_names[row], found_probs, rule=rule)
