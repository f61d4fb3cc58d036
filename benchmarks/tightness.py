"""Program `python -m benchmarks.tightness`: prices next to lower bounds; fails where one is unsound or grew looser.

A price below what a pair of neighbors gives away is refuted. A ratio of price to lower bound above the one recorded in
`tightness.json` is a step back: in a price, or in the search for pairs. With `--record` the ratios found are recorded,
and the table of the page how-tight.md in docs/results.json; scripts/draw_tables.py then draws the page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pate.accounting import Accountant, AutoAccountant, RdpAccountant
from pate.accounting.rounding import floor_to_digits, format_epsilon
from pate.aggregators import (
    Aggregator,
    BoundaryMax,
    ClippedVotes,
    FixedTopK,
    GaussianVotes,
    GNMax,
    PowersetGNMax,
    StableTopK,
)
from pate.auditing.lower_bound import lower_bound_of
from pate.votes import VoteShape

RECORDED = Path(__file__).with_name("tightness.json")
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results.json"
DELTA = 1e-6
QUERIES = 600
TEACHERS = 800
SESSION_QUERIES = 2_000
ACCOUNTANTS: dict[str, Callable[[], Accountant]] = {
    "rdp": RdpAccountant,
    "auto": AutoAccountant,
}
_SLACK = 1.005  # of a recorded ratio: another machine's rounding, another scipy

_TABLE = {"test": "table", "failure_prob": 1e-9}
_GUMBEL = {"selection_scale": 38.985, "test_std": 60.0}
_PAPER = {"selection_noise": "gaussian", "selection_scale": 50.0, "test_std": 60.0}

_SESSION = {"selection_scale": 40.0, "target_hits": 10}

ROWS: dict[str, tuple[Aggregator, int]] = {
    "GNMax, std 50": (GNMax(noise_std=50.0), 10),
    "GNMax, std 50, add/remove": (GNMax(noise_std=50.0, adjacency="add_remove"), 10),
    "Powerset, std 50": (PowersetGNMax(noise_std=50.0), 40),
    "Gaussian votes, std 100": (GaussianVotes(noise_std=100.0), 40),
    "clipped votes, l1, 4 labels of std 50": (ClippedVotes(noise_std=50.0, vote_clip=4), 40),
    "clipped votes, l2, 4 labels of std 50": (
        ClippedVotes(noise_std=50.0, vote_clip=4, norm="l2"),
        40,
    ),
    "stable top-k, Gumbel 39, Gaussian test 60": (StableTopK(**_GUMBEL), 40),
    "the same, add/remove": (StableTopK(**_GUMBEL, adjacency="add_remove"), 40),
    "stable top-k, optimal table": (
        StableTopK(selection_scale=49.12, table_order=4.4827, table_budget=0.00371, **_TABLE),
        40,
    ),
    "stable top-k, the paper's noise": (StableTopK(**_PAPER), 40),
    "the paper's noise, add/remove": (StableTopK(**_PAPER, adjacency="add_remove"), 40),
    "peeling, 3 of 9": (FixedTopK(k=3, epsilon=0.1), 9),
    "joint, 1 of 9": (FixedTopK(k=1, epsilon=0.1, mechanism="joint"), 9),
    "joint, 3 of 9": (FixedTopK(k=3, epsilon=0.1, mechanism="joint"), 9),
    "canonical, 1 of 9": (FixedTopK(k=1, epsilon=0.1, mechanism="canonical"), 9),
    "canonical, 5 of 9": (FixedTopK(k=5, epsilon=0.1, mechanism="canonical"), 9),
    "permute-and-flip, 1 of 9": (FixedTopK(k=1, epsilon=0.03, mechanism="permute_and_flip"), 9),
    "boundary max, ten hits of 2,000 queries": (BoundaryMax(**_SESSION), 10),
    "ten hits, add/remove": (BoundaryMax(**_SESSION, adjacency="add_remove"), 10),
}


def main() -> None:
    """Prints the table; without `--record` exit code 1 for a price below its bound or looser than recorded."""
    recorded: dict[str, dict[str, float]] = (
        json.loads(RECORDED.read_text()) if RECORDED.is_file() else {}
    )
    table = Table(
        title=f"{QUERIES} queries, {TEACHERS} teachers, delta {DELTA:g}: epsilon at most and at least"
    )
    for heading in ("release", "at least", *(f"{name}, ratio" for name in ACCOUNTANTS)):
        table.add_column(heading, justify="left" if heading == "release" else "right", no_wrap=True)
    bounds = dict[str, dict[str, float]]()
    faults = list[str]()
    rows: list[list[str]] = []
    for name, (aggregator, num_labels) in ROWS.items():
        least, prices = bound_and_prices(aggregator, num_labels)
        bounds[name] = {accountant: round(price / least, 4) for accountant, price in prices.items()}
        faults += [
            f"{name}: {fault}"
            for fault in find_faults(least, prices, recorded=recorded.get(name, {}))
        ]
        cells = [f"{format_epsilon(price)}, {price / least:.2f}" for price in prices.values()]
        rows.append([name, floor_to_digits(least, num_digits=3), *cells])
        table.add_row(*rows[-1])
    console = Console(width=120)
    console.print(table)
    if "--record" in sys.argv[1:]:
        RECORDED.write_text(json.dumps(bounds, indent=1) + "\n")
        record_rows(rows)
    for fault in faults:
        console.print(fault, style="bold red")
    sys.exit(1 if faults and "--record" not in sys.argv[1:] else 0)


def record_rows(rows: list[list[str]]) -> None:
    """Writes the rows of the figure set `tightness` into docs/results.json, in place of the rows there."""
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    text = RESULTS.read_text(encoding="utf-8")
    head, name, tail = text.partition('"tightness": {')
    before, key, after = tail.partition('"rows": [\n')
    _, end, rest_of_file = after.partition("\n    ]\n")
    body = ",\n".join(f"      {line}" for line in lines)
    RESULTS.write_text(f"{head}{name}{before}{key}{body}{end}{rest_of_file}", encoding="utf-8")


def bound_and_prices(aggregator: Aggregator, num_labels: int) -> tuple[float, dict[str, float]]:
    """Returns the lower bound of a release, and its price by each accountant."""
    queries = SESSION_QUERIES if isinstance(aggregator, BoundaryMax) else QUERIES
    shape = VoteShape(num_queries=queries, num_labels=num_labels, num_teachers=TEACHERS)
    lower_bound = lower_bound_of(aggregator, shape, target_delta=DELTA)
    if lower_bound is None:
        raise TypeError(f"{type(aggregator).__name__}: no lower bound is known")
    event = aggregator.event(shape)
    return lower_bound.epsilon, {
        name: make().compose(event).get_epsilon(DELTA) for name, make in ACCOUNTANTS.items()
    }


def find_faults(least: float, prices: dict[str, float], recorded: dict[str, float]) -> list[str]:
    """Returns the prices that are below their lower bound, looser than recorded, or without a recorded ratio."""
    faults = [
        f"{name} says {price:.4f}, refuted by {least:.4f}"
        for name, price in prices.items()
        if price < least
    ]
    for name, price in prices.items():
        if name not in recorded:
            faults.append(f"{name} has no recorded ratio; see --record")
        elif price / least > recorded[name] * _SLACK:
            faults.append(
                f"{name} is {price / least:.4f} times its lower bound, recorded {recorded[name]:.4f}"
            )
    return faults


if __name__ == "__main__":
    main()
