"""`python -m benchmarks`: every job beside its floor, both measured in this run, on one thread."""

from __future__ import annotations

import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable

from joblib import cpu_count
from rich.console import Console
from rich.table import Table

from benchmarks.generators import generator_jobs
from benchmarks.jobs import Job, large_jobs, quick_jobs
from benchmarks.reports import report_jobs
from benchmarks.sessions import session_jobs
from benchmarks.starts import start_jobs
from benchmarks.tables import table_cost
from benchmarks.teachers import product_rates, results


def main() -> None:
    """Prints the tables; with the argument `teachers`, `generators`, `starts` or `table` only those about them."""
    console = Console(width=140)
    if sys.argv[1:] == ["teachers"]:
        print_teachers(console)
    elif sys.argv[1:] == ["generators"]:
        print_jobs(console, generator_jobs())
    elif sys.argv[1:] == ["starts"]:
        print_jobs(console, start_jobs())
    elif sys.argv[1:2] == ["table"]:
        print_table(console, *map(int, sys.argv[2:]))
    else:
        print_jobs(
            console, [*start_jobs(), *quick_jobs(), *session_jobs(), *generator_jobs(), *large_jobs(), *report_jobs()]
        )
        print_teachers(console)
        print_table(console)


def print_table(console: Console, *rows: int) -> None:
    """A line on a large table: what is held after reading it, and what it took meanwhile."""
    cost = table_cost(*rows)
    held, peak = cost.held / 2**30, cost.peak / 2**30
    what = f"data=table, {cost.rows:,} rows of 100 columns: {cost.seconds:,.0f} s, {cost.features} features a row"
    console.print(f"{what}, {held:.2f} GB held, {peak:.2f} GB at the peak", soft_wrap=True)


def print_jobs(console: Console, jobs: Iterable[Job]) -> None:
    """A row for each."""
    table = Table("job", "median", "floor", "ratio", "peak memory", title="Each job beside the least work it needs")
    for job in jobs:
        run, floor = _alternating_medians(job)
        least = f"{_duration(floor)} ({job.floor_name})"
        table.add_row(job.name, _duration(run), least, f"{run / floor:.1f}", _peak(job.run))
    console.print(table)


def print_teachers(console: Console) -> None:
    """The tables about teachers, and how busy the machine was: shares by the clock suffer from other work."""
    before = os.getloadavg()[0]
    console.print(_teachers())
    console.print(_products())
    console.print(f"Load average {before:.1f} before and {os.getloadavg()[0]:.1f} after, {cpu_count()} cores.")


def _teachers() -> Table:
    """Engines beside loops: more teachers a second are better."""
    columns = ("teachers", "all cores", "one after the other", "ratio", "of sgemm", "one core: ratio", "of sgemm")
    table = Table(*columns, title="Teachers a second, beside the loop that a user would write")
    for result in results():
        rates = f"{result.ours:,.1f} / s", f"{result.loop:,.2f} / s", f"{result.ours / result.loop:.1f}"
        core = f"{result.core_ratio:.1f}", _share(result.core_sgemm_share)
        table.add_row(result.name, *rates, _share(result.sgemm_share), *core)
    return table


def _share(share: float) -> str:
    return f"{share:.0%}" if share else "-"


def _products() -> Table:
    """What the shares are of, and what the layers' shapes allow."""
    table = Table("product", "operations a second", title="Products of matrices in float32, one core")
    for name, rate in product_rates():
        table.add_row(name, f"{rate / 1e9:,.0f} G")
    return table


def _alternating_medians(job: Job) -> tuple[float, float]:
    """Medians in seconds; job and floor take turns, so that both meet the same disturbances."""
    runs, floors = [], []
    job.run()
    for _ in range(job.rounds):
        runs.append(_seconds(job.run))
        floors.append(_seconds(job.floor))
    return statistics.median(runs), statistics.median(floors)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _peak(call: Callable[[], object]) -> str:
    """The most memory that the call held at one time, its result included and its inputs not."""
    tracemalloc.start()
    try:
        call()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return f"{peak / 2**20:,.1f} MB"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms" if seconds < 1 else f"{seconds:,.2f} s"


if __name__ == "__main__":
    main()
