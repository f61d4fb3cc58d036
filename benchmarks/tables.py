"""Memory and time of a large table: a tenth of ten million rows of 100 columns, in a process of its own."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pate.data import Partition, Split, Table
from pate.models import LinearTeacher, Shard

NUM_ROWS = 1_000_000
_COLUMNS = 100
_BLOCK = 50_000
_TEACHERS = 400
_AT_ONCE = 8


@dataclass(frozen=True)
class TableCost:
    """The memory and the time of reading a table."""

    rows: int  # private ones
    features: int  # numbers a row, once words are categories
    seconds: float  # of `Table.load`
    training: float  # seconds of the partition and of linear teachers, a few at a time
    held: int  # bytes of the private features, float32: in memory, or in a file where they are many
    # bytes of the process at its largest before it read anything, torch and pyarrow among them
    before: int
    loaded: int  # the same after reading
    largest: int  # the same at the end


def table_cost(rows: int = NUM_ROWS) -> TableCost:
    """Writes Parquet files of 90 columns of numbers, ten of words and a label; reads them in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        for name, count in (("private", rows), ("public", 5000), ("test", 1000)):
            _write(Path(folder) / f"{name}.parquet", rows=count)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(_read, (Path(folder),))


def _write(path: Path, rows: int) -> None:
    """Writes the rows to a Parquet file in blocks."""
    import pyarrow as pa
    from pyarrow import parquet

    writer: Any = None
    for block in _blocks(rows):
        table = pa.table(block)
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def _blocks(rows: int) -> Iterator[dict[str, Any]]:
    """Yields columns of random numbers, words and labels, a block of rows at a time."""
    rng = np.random.default_rng(0)
    words = np.array(["north", "east", "south", "west"])
    for first in range(0, rows, _BLOCK):
        count = min(_BLOCK, rows - first)
        numbers = {
            f"x{number}": rng.standard_normal(count).astype(np.float32)
            for number in range(_COLUMNS - 10)
        }
        texts = {f"w{number}": rng.choice(words, count) for number in range(10)}
        yield numbers | texts | {"flu": rng.integers(0, 2, count)}


def _read(folder: Path) -> TableCost:
    import pandas
    import pyarrow.parquet
    import torch

    assert pandas and pyarrow.parquet and torch  # their own size is no part of what a table takes
    before = _largest()
    started = time.perf_counter()
    files = {name: str(folder / f"{name}.parquet") for name in ("private", "public", "test")}
    private = Table(**files, labels=("flu",)).load().private
    seconds = time.perf_counter() - started
    loaded = _largest()
    started = time.perf_counter()
    _train(private)
    training = time.perf_counter() - started
    rows, features = private.inputs.shape
    return TableCost(
        rows,
        features,
        seconds,
        training,
        held=private.inputs.nbytes,
        before=before,
        loaded=loaded,
        largest=_largest(),
    )


def _train(private: Split) -> None:
    """Partitions the records among teachers and trains eight at a time."""
    partition = Partition.draw(private.group_ids, _TEACHERS, np.random.default_rng(0))
    teacher = LinearTeacher(device="cpu")
    for first in range(0, _TEACHERS, _AT_ONCE):
        parts = [
            private.take(partition.indices(number))
            for number in range(first, min(first + _AT_ONCE, _TEACHERS))
        ]
        teacher.fit_many(
            [Shard(part.inputs, part.labels) for part in parts], seeds=[0] * len(parts)
        )


def _largest() -> int:
    """Returns the peak memory of this process; `getrusage` would count the process it was forked from, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
