"""Prices the CelebA experiment of Zhu & Wang (2022) by every accounting: python scripts/reproduce_exp3.py."""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.optimize import brentq

from pate.accounting import (
    Accountant,
    Adjacency,
    ApproximateEvent,
    ComposedEvent,
    Event,
    ExactAccountant,
    GaussianEvent,
    PldAccountant,
    RdpAccountant,
    ZCdpEvent,
)
from pate.accounting.paper_epsilons import Curve, converted, corollary_9_rdp, curve_of, gaussian_stand_in
from pate.aggregators import StableTopK
from pate.mechanisms.noise.argmax_distributions import gaussian_argmax
from pate.report.rounding import round_up
from pate.verification import compose

Law = dict[Hashable, float]

NUM_QUERIES, NUM_LABELS, NUM_TEACHERS = 600, 40, 800
FAILURE_PROB, TARGET_DELTA = 1e-9, 1e-6
SELECTION_STD, TEST_STD = 50.0, 60.0
SAME_STD = 38.985
"""The scale of a Gumbel variable whose standard deviation is 50."""

FALSE = "false, no bound"
BOUND = "bound"


@dataclass(frozen=True)
class Row:
    """One accounting of the experiment; None where it does not apply.

    Attributes:
        accounting: what is charged.
        holds: whether the figures bound what was spent.
        add_remove_classic: epsilon by rdp + log(1/delta) / (a - 1).
        add_remove_tight: epsilon by the tight conversion, or by another accountant.
        replace_one_classic: the same under replace-one.
        replace_one_tight: the same under replace-one.
    """

    accounting: str
    holds: str
    add_remove_classic: float | None
    add_remove_tight: float | None
    replace_one_classic: float | None
    replace_one_tight: float | None


@dataclass(frozen=True)
class Floor:
    """What one pair of neighbors alone gives away: no sound epsilon is below it.

    Attributes:
        pair: the neighbors.
        adjacency: under which they are.
        epsilon_at_least: of 600 releases, from the pair's exact laws.
    """

    pair: str
    adjacency: Adjacency
    epsilon_at_least: float


def rows() -> list[Row]:
    """The whole table, in the order of the specification."""
    return [
        _by_curve("Corollary 9, literally", BOUND, _corollary_9),
        _by_curve("selection as a Gaussian of twice the sensitivity", FALSE, _doubled_stand_in),
        _by_curve("selection as a Gaussian of the sensitivity: the paper's 3.6", FALSE, _stand_in),
        _by_curve("Gumbel of the same std, zCDP", BOUND, _zcdp),
        _by_curve("Gumbel of the same std, bounded range and one bit", BOUND, lambda a: curve_of(_same_std(a))),
        _by_accountant("the same, optimal adaptive composition", ExactAccountant, _same_std),
        _by_curve("Gumbel of scale 50, bounded range and one bit", BOUND, lambda a: curve_of(_same_scale(a))),
        _by_accountant("the paper's noise, valid bound, loss distributions", PldAccountant, _gaussian),
        _by_accountant("the paper's noise, valid bound, Renyi", RdpAccountant, _gaussian_with_gaussian_test),
        _by_accountant("the same, test as one bit: what pate-account prints", RdpAccountant, _gaussian),
    ]


def floors() -> list[Floor]:
    """Pairs that refute the paper's 3.6, for its own noise."""
    tied = np.full(NUM_LABELS - 1, 10.0)
    alternating = np.where(np.arange(NUM_LABELS - 1) % 2 == 0, -1.0, 1.0)
    falling = [760 * (NUM_LABELS - 1 - rank) for rank in range(NUM_LABELS)]
    raised = [count + rank % 2 for rank, count in enumerate(falling)]
    one, other = [799, 401] + [1] * 38, [800, 400] + [2] * 38
    return [
        *(
            Floor(
                "39 tied gaps, every second one moves; k released",
                adjacency,
                _at_least(*(_choice(tied + move) for move in (0, adjacency.gap_sensitivity * alternating))),
            )
            for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
        ),
        Floor(
            f"{falling[0]:,} teachers, 39 gaps of 760; one votes for every second rank",
            Adjacency.ADD_REMOVE,
            _at_least(*(_released(counts, Adjacency.ADD_REMOVE) for counts in (falling, raised))),
        ),
        Floor(
            "800 teachers: (799, 401, 1, …, 1) and (800, 400, 2, …, 2)",
            Adjacency.REPLACE_ONE,
            _at_least(*(_released(counts, Adjacency.REPLACE_ONE) for counts in (one, other))),
        ),
    ]


def _choice(gaps: NDArray[np.float64]) -> Law:
    """The law of the noisy maximum."""
    return dict(enumerate(gaussian_argmax(gaps / SELECTION_STD).tolist()))


def _released(counts: list[int], adjacency: Adjacency) -> Law:
    """The law of one query, k hidden where it is refused; the first label has all the votes."""
    aggregator = _aggregator(adjacency, noise="gaussian", scale=SELECTION_STD)
    return dict(aggregator.distribution(np.array(counts), num_teachers=max(counts[0], NUM_TEACHERS)))


def _at_least(one: Law, two: Law) -> float:
    """The larger epsilon of the two directions; merging outcomes only lowers it."""
    outcomes = list(dict.fromkeys([*one, *two]))
    first, second = (np.array([law.get(outcome, 0.0) for outcome in outcomes]) for law in (one, two))

    def epsilon(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
        p, q = compose(p, q, NUM_QUERIES, num_cells=512)
        return float(brentq(lambda e: np.maximum(p - math.exp(e) * q, 0.0).sum() - TARGET_DELTA, 0.0, 100.0))

    return max(epsilon(first, second), epsilon(second, first))


def _by_curve(accounting: str, holds: str, curve_for: Callable[[Adjacency], Curve | None]) -> Row:
    """Both conversions, under both adjacencies."""
    left = TARGET_DELTA - NUM_QUERIES * FAILURE_PROB
    curves = [curve_for(adjacency) for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)]
    cells = [
        None if curve is None else converted(curve, count=NUM_QUERIES, target_delta=left, conversion=conversion)
        for curve in curves
        for conversion in ("classic", "tight")
    ]
    return Row(accounting, holds, *cells)


def _by_accountant(accounting: str, kind: type[Accountant], event_for: Callable[[Adjacency], Event]) -> Row:
    """An accountant's epsilon, under both adjacencies."""
    add_remove, replace_one = (
        kind().compose(event_for(adjacency), NUM_QUERIES).get_epsilon(TARGET_DELTA)
        for adjacency in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
    )
    return Row(accounting, BOUND, None, add_remove, None, replace_one)


def _aggregator(adjacency: Adjacency, *, noise: str, scale: float) -> StableTopK:
    return StableTopK(
        selection_noise=noise,
        selection_scale=scale,
        test_std=TEST_STD,
        failure_prob=FAILURE_PROB,
        adjacency=adjacency,
    )


def _query(aggregator: StableTopK) -> Event:
    return aggregator.event_for(num_queries=1, num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS)


def _same_std(adjacency: Adjacency) -> Event:
    return _query(_aggregator(adjacency, noise="gumbel", scale=SAME_STD))


def _same_scale(adjacency: Adjacency) -> Event:
    return _query(_aggregator(adjacency, noise="gumbel", scale=SELECTION_STD))


def _gaussian(adjacency: Adjacency) -> Event:
    return _query(_aggregator(adjacency, noise="gaussian", scale=SELECTION_STD))


def _test(adjacency: Adjacency) -> GaussianEvent:
    """The stability test priced as the Gaussian release that its bit is computed from."""
    return GaussianEvent(TEST_STD / adjacency.gap_sensitivity)


def _gaussian_with_gaussian_test(adjacency: Adjacency) -> Event:
    aggregator = _aggregator(adjacency, noise="gaussian", scale=SELECTION_STD)
    selection = aggregator.gap_selection(num_labels=NUM_LABELS, num_teachers=NUM_TEACHERS)
    return ComposedEvent((selection.event, ApproximateEvent(_test(adjacency), FAILURE_PROB)))


def _corollary_9(adjacency: Adjacency) -> Curve:
    multiplier, test = SELECTION_STD / adjacency.gap_sensitivity, curve_of(_test(adjacency))
    return lambda orders: corollary_9_rdp(orders, noise_multiplier=multiplier, num_labels=NUM_LABELS) + test(orders)


def _stand_in(adjacency: Adjacency) -> Curve:
    sensitivity = adjacency.gap_sensitivity
    return curve_of(
        gaussian_stand_in(selection_multiplier=SELECTION_STD / sensitivity, test_multiplier=TEST_STD / sensitivity)
    )


def _doubled_stand_in(adjacency: Adjacency) -> Curve | None:
    if adjacency is Adjacency.REPLACE_ONE:
        return None
    return curve_of(gaussian_stand_in(selection_multiplier=SELECTION_STD / 2, test_multiplier=TEST_STD))


def _zcdp(adjacency: Adjacency) -> Curve:
    selection = ZCdpEvent((adjacency.gap_range / SAME_STD) ** 2 / 8)
    return curve_of(ComposedEvent((selection, _test(adjacency))))


def main(arguments: list[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table")
    chosen = parser.parse_args(arguments).format
    table = rows()
    if chosen == "table":
        console = Console(width=140)
        console.print(_rendered(table))
        console.print(_rendered_floors(floors()))
    elif chosen == "json":
        lists = {"rows": [asdict(row) for row in table], "floors": [asdict(floor) for floor in floors()]}
        sys.stdout.write(json.dumps(lists, indent=1) + "\n")
    else:
        writer = csv.DictWriter(sys.stdout, fieldnames=list(asdict(table[0])), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in table)


def _rendered(table: list[Row]) -> Table:
    title = (
        f"Epsilon at delta {TARGET_DELTA:g}: {NUM_QUERIES} queries, {NUM_LABELS} labels, failure probability "
        f"{FAILURE_PROB:g} a query, selection std {SELECTION_STD:g}, test std {TEST_STD:g}"
    )
    shown = Table("accounting", "is a", title=title)
    for adjacency in Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE:
        for conversion in ("classic", "tight"):
            shown.add_column(f"{adjacency}\n{conversion}", justify="right")
    for row in table:
        cells = (row.add_remove_classic, row.add_remove_tight, row.replace_one_classic, row.replace_one_tight)
        style = "red" if row.holds == FALSE else None
        shown.add_row(row.accounting, row.holds, *("-" if x is None else round_up(x, 3) for x in cells), style=style)
    return shown


def _rendered_floors(table: list[Floor]) -> Table:
    shown = Table("pair of neighbors", "adjacency", "epsilon at least", title="What the paper's noise gives away")
    for floor in table:
        shown.add_row(floor.pair, floor.adjacency, f"{math.floor(floor.epsilon_at_least * 1000) / 1000:.3f}")
    return shown


if __name__ == "__main__":
    main()
