"""A benchmark of votes from many places, in bytes and seconds: `python -m federated_benchmarks.places`.

It writes the vote files of a few holders, and reads them as often as there are holders. The measured steps are opening,
reading and adding the votes of the files; their time does not depend on the votes. A formula for the time is fitted to
all sizes but the largest, and with `--largest` tested on the largest.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from pate.run.queries import queries_digest
from pate.votes import VoteStore
from pate_federated.bit_sums import BitSums
from pate_federated.gathered_votes import GatheredVotes
from pate_federated.vote_file import SumFile, VoteFile, VoteManifest

_FILES = 8
_FULL = (10_000, 1_000_000, 1_000)
_SIZES = (
    (100, 1_000, 1_000),
    (100, 10_000, 1_000),
    (1_000, 10_000, 1_000),
    (100, 100_000, 100),
    (1_000, 100_000, 1_000),
)


@dataclass(frozen=True)
class Cost:
    """The measured bytes and seconds for one size."""

    holders: int  # H, of one teacher each
    queries: int  # Q
    labels: int  # L
    file_bytes: int  # of one holder's file
    add_s: float  # seconds of a processor to open, read and add all files
    count_s: float  # seconds to make counts of the sums
    # seconds that the same files take where votes are unpacked, measured on some of them
    plain_s: float

    @property
    def votes(self) -> float:
        """The number of votes: holders times queries times labels."""
        return float(self.holders) * self.queries * self.labels


def main() -> None:
    """Prints a line for each size, and the fitted formula."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--largest", action="store_true", help="also the last size, a hundredth of all: minutes"
    )
    parser.add_argument(
        "--tree", action="store_true", help="also a tree of sums, at a hundredth of all"
    )
    chosen = parser.parse_args()
    console = Console(width=150)
    sizes = _SIZES if chosen.largest else _SIZES[:-1]
    costs = []
    with TemporaryDirectory() as folder:
        for size in sizes:
            costs.append(measured(*size, Path(folder)))
            console.print(_table([costs[-1]]), highlight=False)
    if chosen.tree:
        with TemporaryDirectory() as folder:
            tree(Path(folder), console)
    fixed, rate = law(costs[:-1] if chosen.largest else costs)
    console.print(f"law: {1e3 * fixed:.2f} ms a file + votes / {rate / 1e9:.2f} billion a second")
    if chosen.largest:
        last = costs[-1]
        seconds_of_law = last.holders * fixed + last.votes / rate
        console.print(
            f"it says {seconds_of_law:.0f} s for the largest, which took {last.add_s:.0f} s"
        )
    holders, queries, labels = _FULL
    full = holders * fixed + holders * queries * labels / rate
    bytes_of_holder = queries * -(-labels // 8)
    console.print(
        f"{holders:,} holders, {queries:,} queries, {labels:,} labels: {bytes_of_holder / 1e6:.0f} MB a holder, "
        f"{holders * bytes_of_holder / 1e12:.2f} TB at the server, {full / 3600:.1f} h on one core"
    )
    console.print(
        f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB"
    )


def measured(holders: int, queries: int, labels: int, folder: Path) -> Cost:
    """Returns the cost of one size: writes a few files, and adds up one file for each holder."""
    paths = [
        _written(folder / f"{number}.npz", queries, labels, seed=number)
        for number in range(min(_FILES, holders))
    ]
    sums = BitSums(num_queries=queries, bytes_per_query=-(-labels // 8))
    started = time.process_time()
    for number in range(holders):
        for block in VoteStore.open(paths[number % len(paths)]).packed_blocks():
            for row in block:
                sums.add(row)
    added = time.process_time()
    counts = sums.counts(labels)
    counted = time.process_time()
    plain = np.zeros((queries, labels), dtype=np.int64)
    num_files = max(1, min(holders, int(2e9 / (queries * labels))))
    for number in range(num_files):
        for bits in VoteFile.open(paths[number % len(paths)]).bits():
            plain += bits.sum(axis=0)
    plain_s = (time.process_time() - counted) * holders / num_files
    assert num_files < holders or (plain == counts).all()
    cost = Cost(
        holders,
        queries,
        labels,
        file_bytes=paths[0].stat().st_size,
        add_s=added - started,
        count_s=counted - added,
        plain_s=plain_s,
    )
    for path in paths:
        path.unlink()
    return cost


def tree(folder: Path, console: Console) -> None:
    """Measures sums in two levels: a region adds up a hundred files, and the server the sums of a hundred regions.

    The sum of one region is measured, and its copies stand for the sums of the others.
    """
    queries = 10_000
    labels = 1_000
    fan_in = 100
    first = _written(folder / "0.npz", queries, labels, seed=0)
    paths = [first, *(_copied(first, folder, number) for number in range(1, fan_in))]
    written = time.process_time()
    region = GatheredVotes.read(paths)
    file = region.write(folder / "sum-0.npz")
    added = time.process_time()
    sums = [_renamed(file, region.counts(), folder, number) for number in range(fan_in)]
    copied = time.process_time()
    total = GatheredVotes.read(sums)
    counts = total.counts()
    done = time.process_time()
    assert (counts == fan_in * region.counts()).all() and len(total.heads) == fan_in * fan_in
    size = file.path.stat().st_size
    votes = first.stat().st_size
    console.print(
        f"tree of {fan_in} x {fan_in} holders, {queries:,} queries, {labels:,} labels: "
        f"a region takes {added - written:.2f} s "
        f"for {fan_in * votes / 1e6:.0f} MB and sends {size / 1e6:.1f} MB; the server {done - copied:.2f} s for "
        f"{fan_in * size / 1e9:.2f} GB"
    )


def _copied(first: Path, folder: Path, number: int) -> Path:
    """Returns a copy of a vote file with the same votes under another holder's name."""
    file = VoteFile.open(first)
    votes = next(iter(file.bits()))
    path = folder / f"{number}.npz"
    head = replace(file.manifest, holder=str(number))
    VoteFile.write(
        path,
        head,
        yield_bits=lambda: [votes],
        record_ids=file.record_ids,
        label_names=file.label_names,
    )
    return path


def _renamed(file: SumFile, counts: NDArray[np.int64], folder: Path, number: int) -> Path:
    """Returns a file of sums with given counts under other holders' names."""
    path = folder / f"region-{number}.npz"
    heads = tuple(replace(head, holder=f"{number}-{head.holder}") for head in file.heads)
    SumFile.write(path, heads, counts, record_ids=file.record_ids, label_names=file.label_names)
    return path


def law(costs: list[Cost]) -> tuple[float, float]:
    """Returns the fitted seconds per file and votes per second, by least squares of relative errors."""
    rows = np.array([[cost.holders, cost.votes] for cost in costs], dtype=np.float64)
    seconds = np.array([cost.add_s for cost in costs])
    fixed, seconds_of_vote = np.linalg.lstsq(
        rows / seconds[:, None], np.ones(len(costs)), rcond=None
    )[0]
    return max(float(fixed), 0.0), 1 / float(seconds_of_vote)


def _written(path: Path, queries: int, labels: int, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    ids = np.arange(queries)
    head = VoteManifest(
        holder=str(seed),
        queries=queries_digest(np.zeros((queries, 1), np.float32), record_ids=ids),
        num_teachers=1,
        num_queries=queries,
        num_labels=labels,
        num_records=1,
        num_groups=1,
    )
    votes = rng.integers(256, size=(queries, labels), dtype=np.uint8)[None] < 13
    names = tuple(f"label {number}" for number in range(labels))
    VoteFile.write(path, head, yield_bits=lambda: [votes], record_ids=ids, label_names=names)
    return path


def _table(costs: list[Cost]) -> Table:
    table = Table(box=None)
    for heading in (
        "holders",
        "queries",
        "labels",
        "a file",
        "at the server",
        "added",
        "counts",
        "unpacked instead",
    ):
        table.add_column(heading, justify="right")
    for cost in costs:
        table.add_row(
            f"{cost.holders:,}",
            f"{cost.queries:,}",
            f"{cost.labels:,}",
            f"{cost.file_bytes / 1e6:.2f} MB",
            f"{cost.holders * cost.file_bytes / 1e9:.2f} GB",
            f"{cost.add_s:.2f} s",
            f"{cost.count_s:.2f} s",
            f"{cost.plain_s:.1f} s",
        )
    return table


if __name__ == "__main__":
    main()
