"""Program `python -m benchmarks`, which times each job next to its floor in one run; `make bench` sets one thread."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from joblib import cpu_count
from rich.console import Console
from rich.table import Table

from benchmarks.busy import MOST, ROWS, measure_busy_core
from benchmarks.generators import generator_jobs
from benchmarks.growth import measure_growth
from benchmarks.jobs import Job, large_jobs, quick_jobs
from benchmarks.large import NUM_ROWS as LARGE_ROWS
from benchmarks.large import WANTED_S, large_run
from benchmarks.reports import report_jobs
from benchmarks.rounds import round_jobs
from benchmarks.sessions import session_jobs
from benchmarks.starts import start_jobs
from benchmarks.tables import NUM_ROWS, table_cost
from benchmarks.teachers import product_rates, results

_MODELED = ((10**8, 10), (10**9, 100))  # rows, and machines
_PARTS = (start_jobs, quick_jobs, session_jobs, generator_jobs, round_jobs, large_jobs, report_jobs)


def main() -> None:
    """Prints the tables, or one part of them; `--json FILE` writes the figures of the jobs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument(
        "part",
        nargs="?",
        choices=[
            "busy",
            "generators",
            "growth",
            "large",
            "quick",
            "rounds",
            "starts",
            "table",
            "teachers",
        ],
    )
    parser.add_argument("--json", type=Path, help="a file for the figures of the jobs")
    parser.add_argument("--rows", type=int, default=NUM_ROWS, help="of the parts table and large")
    parser.add_argument(
        "--setting", action="append", default=[], help="of pate-train, for the part large"
    )
    chosen = parser.parse_args()
    console = Console(width=160)
    jobs = {
        None: lambda: [job for make_jobs in _PARTS for job in make_jobs()],
        "busy": list[Job],
        "generators": generator_jobs,
        "growth": list[Job],
        "large": list[Job],
        "quick": quick_jobs,
        "rounds": round_jobs,
        "starts": start_jobs,
        "table": list[Job],
        "teachers": list[Job],
    }
    figures = print_jobs(console, jobs[chosen.part]())
    if chosen.part in (None, "teachers"):
        print_teachers(console)
    if chosen.part in (None, "growth"):
        print_growth(console)
    if chosen.part in (None, "busy"):
        print_busy(console)
    if chosen.part in (None, "large"):
        print_large(console, chosen.rows, settings=chosen.setting)
    if chosen.part in (None, "table"):
        print_table(console, chosen.rows)
    if chosen.json:
        chosen.json.write_text(
            json.dumps({**surroundings(), "jobs": figures}, indent=1) + "\n", encoding="utf-8"
        )


def print_table(console: Console, rows: int) -> None:
    """Prints the size of a large table, and time and peak memory of reading it and of training teachers on it."""
    cost = table_cost(rows)
    held, *peaks = (size / 2**30 for size in (cost.held, cost.before, cost.loaded, cost.largest))
    subject = f"data=table, {cost.rows:,} rows of 100 columns: {cost.features} features a row, {held:.2f} GB of float32"
    took = f"{cost.seconds:,.0f} s to load, {cost.training:,.0f} s for 400 linear teachers"
    memory = "memory at the most {:.2f} GB before, {:.2f} GB after loading, {:.2f} GB after training".format(
        *peaks
    )
    console.print(f"{subject}, {took}, {memory}", soft_wrap=True)


def print_large(console: Console, rows: int, settings: Sequence[str]) -> None:
    """Prints the time of a run from Parquet files to the release, the time of its stages, and its peak memory."""
    run = large_run(rows, *settings)
    words = " ".join(("pate-train experiment=centered_votes", *settings))
    wanted = f", wanted {WANTED_S} on two idle cores" if rows == LARGE_ROWS else ""
    console.print(
        f"{words}, {run.rows:,} rows of Parquet files: {run.seconds_to_release:.0f} s to the release{wanted}; "
        f"{run.seconds:.0f} s in all, {run.processor_seconds:.0f} s of processors, {run.peak_mib:,.0f} MiB at most",
        soft_wrap=True,
    )
    for name, seconds in run.stages.items():
        console.print(f"  {name}: {seconds:.1f} s", soft_wrap=True)
    console.print(
        f"  of the rounds: {run.making:.1f} s for features, {run.rounds:.1f} s for 20 rounds"
    )
    for modeled_rows, num_nodes in _MODELED:
        model = run.on_nodes(modeled_rows, num_nodes)
        console.print(
            f"  a model, not measured: {modeled_rows:,} rows on {num_nodes} such machines: "
            f"{model.reading / 60:.0f} min to read in one process, {model.making / 60:.1f} min for features, "
            f"{model.rounds / 60:.1f} min for 20 rounds",
            soft_wrap=True,
        )


def print_busy(console: Console) -> None:
    """Prints a run's processor time next to a busy core; exits if it is too long, or if the bytes of the run differ."""
    busy = measure_busy_core()
    console.print(
        f"pate-train experiment=centered_votes, {ROWS:,} rows: "
        f"{busy.one_thread.seconds:.0f} s of a processor on one thread, "
        f"{busy.next_to_busy_core.seconds:.0f} s by default next to a busy core",
        soft_wrap=True,
    )
    if busy.ratio > MOST:
        raise SystemExit(
            f"busy: expected at most {MOST} times the processor time, found {busy.ratio:.2f}"
        )
    if busy.one_thread.digest != busy.next_to_busy_core.digest:
        raise SystemExit("busy: expected the bytes that one thread leaves, found others")


def print_growth(console: Console) -> None:
    """Prints how time and memory grow with size: an exponent of 1 doubles the time for twice the size."""
    table = Table(title="growth: seconds of a processor, and MiB beyond the inputs")
    for heading in (
        "what grows",
        "sizes",
        "seconds",
        "exponent",
        "MiB",
        "ratio to the floor at the largest",
    ):
        table.add_column(heading, no_wrap=True)
    for result in measure_growth():
        growth = result.growth
        ratio = result.seconds[-1] / max(result.floor, 1e-9)
        table.add_row(
            growth.name,
            ", ".join(f"{size:.0e}".replace("e+0", "e") for size in growth.sizes),
            ", ".join(f"{seconds:.3g}" for seconds in result.seconds),
            f"{result.exponent:.2f}",
            ", ".join(f"{size:.0f}" for size in result.mebibytes),
            f"{ratio:.1f}, {growth.floor_name}",
        )
    console.print(table)


def surroundings() -> dict[str, object]:
    """Returns the versions and the machine, which two runs must share to be compared, and the machine's load."""
    return {
        "version": version("pate-multilabel"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cores": cpu_count(),
        "load_average": os.getloadavg()[0],
    }


def print_jobs(console: Console, jobs: Iterable[Job]) -> list[dict[str, object]]:
    """Prints a row for each job; returns the figures in seconds."""
    figures: list[dict[str, object]] = []
    title = "Each job beside the least work it needs"
    table = Table(
        "job", "median", "floor", "ratio", "the floor leaves out", "peak memory", title=title
    )
    for job in jobs:
        run, floor = _alternating_medians(job)
        figures.append({"name": job.name, "median_s": run, "floor_s": floor, "ratio": run / floor})
        figures[-1] |= {"floor": job.floor_name, "left_out": job.left_out}
        least = f"{_duration(floor)} ({job.floor_name})"
        table.add_row(
            job.name, _duration(run), least, f"{run / floor:.1f}", job.left_out, _peak(job.run)
        )
    if figures:
        console.print(table)
    return figures


def print_teachers(console: Console) -> None:
    """Prints the tables about teachers and the load average, since shares by the clock suffer from other work."""
    before = os.getloadavg()[0]
    console.print(_teachers())
    console.print(_products())
    console.print(
        f"Load average {before:.1f} before and {os.getloadavg()[0]:.1f} after, {cpu_count()} cores."
    )


def _teachers() -> Table:
    """Returns a table of the engines' teachers per second next to those of the loops; more is better."""
    table = Table(
        "teachers",
        "all cores",
        "one after the other",
        "ratio",
        "of sgemm",
        "one core: ratio",
        "of sgemm",
        title="Teachers per second, beside the loop that a user would write",
    )
    for result in results():
        table.add_row(
            result.name,
            f"{result.engine:,.1f} / s",
            f"{result.loop:,.2f} / s",
            f"{result.engine / result.loop:.1f}",
            _share(result.sgemm_share),
            f"{result.core_ratio:.1f}",
            _share(result.core_sgemm_share),
        )
    return table


def _share(share: float) -> str:
    """Returns a share in percent, or a dash where nobody counted the operations."""
    return f"{share:.0%}" if share else "-"


def _products() -> Table:
    """Returns a table of the rates that the shares refer to, and of the rates that the layers' shapes allow."""
    table = Table(
        "product", "operations per second", title="Products of matrices in float32, one core"
    )
    for name, rate in product_rates():
        table.add_row(name, f"{rate / 1e9:,.0f} G")
    return table


def _alternating_medians(job: Job) -> tuple[float, float]:
    """Returns median processor seconds of job and floor, which take turns and so meet the same disturbances."""
    runs = []
    floors = []
    job.run()
    for _ in range(job.rounds):
        runs.append(_seconds(job.run))
        floors.append(_seconds(job.floor))
    return statistics.median(runs), statistics.median(floors)


def _seconds(call: Callable[[], object]) -> float:
    """Returns the processor seconds of a call, in this process and its children; other work disturbs a clock more."""
    start = _spent()
    call()
    return _spent() - start


def _spent() -> float:
    """Returns the processor seconds of this process and of its children that ended, such as started commands."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _peak(call: Callable[[], object]) -> str:
    """Returns the peak memory of the call, its result included and its inputs left out."""
    tracemalloc.start()
    try:
        call()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return f"{peak / 2**20:,.1f} MB"


def _duration(seconds: float) -> str:
    """Returns a duration in milliseconds below a second, else in seconds."""
    return f"{seconds * 1e3:,.2f} ms" if seconds < 1 else f"{seconds:,.2f} s"


if __name__ == "__main__":
    main()
