"""Benchmark of the default method on many rows, from a folder of Parquet files to the release."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

NUM_ROWS = 1_000_000
WANTED_S = 90  # from a million rows to the release, on two idle cores
_INPUTS = 64
_LABELS = 20
_PUBLIC = 3000
_TEST = 2000
_FILE_ROWS = 250_000
_GROUP_ROWS = 50_000  # of a row group, which is read at a time
_KIBIBYTES_PER_MIB = 2**10
_STAGE = re.compile(
    r"^(?P<name>[^:\n]+): (?P<seconds>[0-9.]+) s(?: \((?P<note>.*)\))?$", re.MULTILINE
)
_READING = "reading the data"
_ROUNDS = "releasing labels in rounds"
_NUM_ROUNDS = 20  # of `experiment=centered_votes`
_SPEED = re.compile(r"(?P<rows>[0-9,]+) rows per second")


@dataclass(frozen=True)
class LargeRun:
    """A run on many rows, as it was measured.

    Attributes:
        rows: the number of private rows.
        seconds: the time of the whole command.
        processor_seconds: the time of all processors.
        peak_mib: the most memory that the command held, imports included.
        stages: the seconds of each stage that the command printed, by name.
        rows_per_second: the speed of the last round.
    """

    rows: int
    seconds: float
    processor_seconds: float
    peak_mib: float
    stages: Mapping[str, float]
    rows_per_second: float

    @property
    def reading(self) -> float:
        """The seconds of reading and encoding all rows."""
        return self.stages[_READING]

    @property
    def rounds(self) -> float:
        """The seconds of all rounds, without those of making features."""
        return _NUM_ROUNDS * self.rows / self.rows_per_second

    @property
    def making(self) -> float:
        """The seconds of making the features of all rows."""
        return self.stages[_ROUNDS] - self.rounds

    def on_nodes(self, rows: int, num_nodes: int) -> NodesModel:
        """Returns a model of the same run on more rows, with `engine=ray` on several machines like this one.

        Rows are read by one process. Features and rounds are distributed over all machines.

        Args:
            rows: the number of private rows.
            num_nodes: the number of machines.
        """
        times = rows / self.rows
        return NodesModel(
            rows=rows,
            num_nodes=num_nodes,
            reading=self.reading * times,
            making=self.making * times / num_nodes,
            rounds=self.rounds * times / num_nodes,
        )

    @property
    def seconds_to_release(self) -> float:
        """The time until the release was published: that of the whole command, less that of the stages behind it."""
        names = list(self.stages)
        behind = names[names.index(_ROUNDS) + 1 :]
        return self.seconds - sum(self.stages[name] for name in behind)


@dataclass(frozen=True)
class NodesModel:
    """The seconds of a run on several machines, by a model of measured parts; nobody has measured it.

    Attributes:
        rows: the number of private rows.
        num_nodes: the number of machines.
        reading: seconds of reading and encoding, in one process.
        making: seconds of making features.
        rounds: seconds of all rounds.
    """

    rows: int
    num_nodes: int
    reading: float
    making: float
    rounds: float


def large_run(rows: int = NUM_ROWS, *settings: str) -> LargeRun:
    """Writes Parquet files with `rows` private rows, and runs `pate-train experiment=centered_votes` on them.

    Args:
        rows: the number of private rows.
        *settings: more settings of the command.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        write_files(folder, rows=rows)
        labels = ",".join(f"l{number}" for number in range(_LABELS))
        words = [
            "data=table",
            f"data.private={folder}/private",
            f"data.public={folder}/public.parquet",
            f"data.test={folder}/test.parquet",
            f"data.labels=[{labels}]",
            "data.id=id",
            "experiment=centered_votes",
            "target_epsilon=1",
            "seed=1",
            "all_records=false",
            f"output_dir={folder}/run",
            f"ledger={folder}/ledger.db",
        ]
        return _measured(rows, [*words, *settings], folder=folder)


def write_files(folder: Path, rows: int) -> None:
    """Writes a folder `private` of Parquet files of at most 250,000 rows, and files of public and test rows."""
    (folder / "private").mkdir()
    for number, first in enumerate(range(0, rows, _FILE_ROWS)):
        count = min(_FILE_ROWS, rows - first)
        path = folder / "private" / f"part-{number:04}.parquet"
        _write(path, first_id=first, rows=count, seed=100 + number)
    _write(folder / "public.parquet", first_id=10**12, rows=_PUBLIC, seed=3)
    _write(folder / "test.parquet", first_id=2 * 10**12, rows=_TEST, seed=4)


def _write(path: Path, *, first_id: int, rows: int, seed: int) -> None:
    """Writes a Parquet file of rows with ids that are counted on from `first_id`."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = pa.table({"id": np.arange(first_id, first_id + rows), **dict(_columns(rows, seed))})
    parquet.write_table(columns, path, row_group_size=_GROUP_ROWS)


def _columns(rows: int, seed: int) -> Iterator[tuple[str, Any]]:
    """Yields random columns of inputs, and of labels that depend on them, with their names."""
    slopes = np.random.default_rng(1).normal(size=(_INPUTS, _LABELS)) / 8
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(rows, _INPUTS)).astype(np.float32)
    labels = (inputs @ slopes + 0.7 * rng.normal(size=(rows, _LABELS))) > 1
    for number in range(_INPUTS):
        yield f"x{number}", inputs[:, number]
    for number in range(_LABELS):
        yield f"l{number}", labels[:, number].astype(np.int8)


def _measured(rows: int, words: list[str], folder: Path) -> LargeRun:
    """Runs `pate-train` with the given settings, and returns what it took; raises where it fails."""
    environment = {
        name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")
    }
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    log = folder / "log.txt"
    started = time.perf_counter()
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "pate.cli.train", *words],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
        _, status, usage = os.wait4(process.pid, 0)  # of this process alone, unlike `getrusage`
    process.returncode = os.waitstatus_to_exitcode(status)
    text = log.read_text()
    if process.returncode != 0:
        raise RuntimeError(f"pate-train ended with {process.returncode}: {text[-2000:]}")
    stages = {match["name"]: match for match in _STAGE.finditer(text)}
    speed = _SPEED.fullmatch(stages[_ROUNDS]["note"] or "")
    if speed is None:
        raise RuntimeError(f"expected the speed of the last round, found {stages[_ROUNDS][0]!r}")
    return LargeRun(
        rows=rows,
        seconds=time.perf_counter() - started,
        processor_seconds=usage.ru_utime + usage.ru_stime,
        peak_mib=usage.ru_maxrss / _KIBIBYTES_PER_MIB,
        stages={name: float(match["seconds"]) for name, match in stages.items()},
        rows_per_second=float(speed["rows"].replace(",", "")),
    )
