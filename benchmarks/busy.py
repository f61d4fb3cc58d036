"""Benchmark of the default method next to a busy core: processor time against one thread, and the same bytes."""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MOST = 1.5  # times the processor time with one thread
ROWS = 120_000
_INPUTS = 64
_LABELS = 20
_ONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    seconds: float  # of a processor
    digest: str  # of the names and bytes of all files that it published


@dataclass(frozen=True)
class Busy:
    """A command with one thread, and the same command with default threads next to a loop that keeps cores busy."""

    one_thread: Ended
    next_to_busy_core: Ended

    @property
    def ratio(self) -> float:
        """Returns the processor time next to a busy core over that with one thread."""
        return self.next_to_busy_core.seconds / self.one_thread.seconds


def measure_busy_core(rows: int = ROWS) -> Busy:
    """Runs the command with one thread, then next to busy cores."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_arrays_of(rows, folder)
        one_thread = train(folder, name="one", threads=_ONE)
        with busy_core():
            next_to_busy_core = train(folder, name="beside", threads={})
    return Busy(one_thread, next_to_busy_core)


def write_arrays_of(rows: int, folder: Path) -> None:
    """Writes `rows` private records, 3,000 public samples and 500 test samples."""
    slopes = np.random.default_rng(1).normal(size=(_INPUTS, _LABELS)) / 8
    for seed, (split, count) in enumerate({"private": rows, "public": 3000, "test": 500}.items()):
        rng = np.random.default_rng(seed)
        inputs = rng.normal(size=(count, _INPUTS)).astype(np.float32)
        scores = inputs @ slopes + 0.7 * rng.normal(size=(count, _LABELS))
        np.savez(folder / f"{split}.npz", inputs=inputs, labels=scores > 1)


def train(folder: Path, name: str, threads: dict[str, str], settings: Sequence[str] = ()) -> Ended:
    """Runs `pate-train experiment=centered_votes` on the arrays in a folder; raises where it fails."""
    words = [f"data.{split}={folder}/{split}.npz" for split in ("private", "public", "test")]
    words += [
        f"output_dir={folder}/{name}",
        f"ledger={folder}/{name}.db",
        "all_records=false",
        "seed=1",
    ]
    command = [
        sys.executable,
        "-m",
        "pate.cli.train",
        "experiment=centered_votes",
        "data=arrays",
        "target_epsilon=1",
    ]
    environment = {
        key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")
    }
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    before = _children_seconds()
    subprocess.run(
        [*command, *words, *settings],
        cwd=folder,
        env=environment | threads,
        check=True,
        capture_output=True,
    )
    seconds = _children_seconds() - before
    digest = hashlib.sha256()
    published = folder / name / "release"
    for path in sorted(published.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(published)}\0".encode() + path.read_bytes())
    return Ended(seconds, digest=digest.hexdigest())


@contextmanager
def busy_core() -> Iterator[None]:
    """Keeps half of the cores busy."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(max(1, _cores() // 2))
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _cores() -> int:
    """Returns the number of cores of the machine; 2 where it is not known."""
    return os.cpu_count() or 2


def _children_seconds() -> float:
    """Returns the processor seconds of ended children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
