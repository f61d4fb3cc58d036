"""Benchmarks, each against a floor measured in the same run: `make bench`."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from pate.accounting import ComposedEvent, ExactAccountant, GaussianEvent, RdpAccountant
from pate.aggregators import GaussianVotes, StableTopK

RUNS = 21


def median_seconds(task: Callable[[], object], runs: int = RUNS) -> float:
    """The median time of a task over some runs, after one that does not count."""
    task()
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        task()
        times.append(time.perf_counter() - started)
    return sorted(times)[runs // 2]


def aggregation(table: Table) -> None:
    """600 queries x 40 labels against one batched noise draw plus one sort of the same array."""
    rng = np.random.default_rng(0)
    votes = rng.binomial(800, rng.beta(0.3, 1, (600, 40)))
    floor = median_seconds(lambda: (rng.gumbel(size=(600, 41)), np.sort(votes, axis=1)))
    aggregators = {
        "StableTopK, Gumbel and Gaussian test": StableTopK(selection_scale=39.0, test_std=60.0),
        "StableTopK, Gumbel and table": StableTopK(
            selection_scale=49.0, test="table", table_order=4.5, table_budget=0.0037
        ),
        "StableTopK, Gaussian noise": StableTopK(selection_noise="gaussian", selection_scale=50.0, test_std=60.0),
        "GaussianVotes": GaussianVotes(noise_std=60.0),
    }
    for name, aggregator in aggregators.items():
        found = median_seconds(lambda a=aggregator: a.aggregate(votes, num_teachers=800, rng=rng))  # type: ignore[misc]
        _row(table, f"{name}, 600 x 40", found, "a noise draw and a sort", floor)


def a_million_queries(table: Table) -> None:
    """A million queries x 40 labels: time, and memory beyond the votes themselves."""
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 801, size=(1_000_000, 40), dtype=np.int16)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = median_seconds(
        lambda: StableTopK(selection_scale=39.0, test_std=60.0).aggregate(votes, num_teachers=800, rng=rng), runs=1
    )
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    floor = median_seconds(lambda: np.sort(votes, axis=1), runs=1)
    _row(table, f"a million x 40, {(after - before) / 1024:.0f} MiB beyond the votes", found, "a sort", floor)


def accounting(table: Table) -> None:
    """100,000 different Gaussian events, and the exact composition of 600 queries against the Renyi one."""
    multipliers = np.random.default_rng(0).uniform(20, 200, 100_000)
    events = ComposedEvent(tuple(GaussianEvent(noise_multiplier=float(value)) for value in multipliers))
    found = median_seconds(lambda: RdpAccountant().compose(events).get_epsilon(1e-6), runs=5)
    floor = median_seconds(lambda: (1 / multipliers**2).sum())
    _row(table, "100,000 Gaussian events to an epsilon", found, "a vectorised sum", floor)
    event = StableTopK(selection_scale=38.985, test_std=60.0).event_for(
        num_queries=600, num_labels=40, num_teachers=800
    )
    exact = median_seconds(lambda: ExactAccountant().compose(event).get_epsilon(1e-6), runs=1)
    renyi = median_seconds(lambda: RdpAccountant().compose(event).get_epsilon(1e-6))
    _row(table, "exact composition of 600 queries", exact, "the Renyi accountant", renyi)


def _row(table: Table, name: str, found: float, floor_name: str, floor: float) -> None:
    table.add_row(name, f"{found * 1e3:,.2f}", floor_name, f"{floor * 1e3:,.3f}", f"{found / floor:,.1f}")


def main() -> None:
    """Prints one table."""
    table = Table("what", "ms", "floor", "ms", "ratio", title="one thread, medians of one run")
    for part in (aggregation, a_million_queries, accounting):
        part(table)
    Console(file=sys.stdout, soft_wrap=True).print(table)


if __name__ == "__main__":
    main()
