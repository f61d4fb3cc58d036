"""`python -m benchmarks.kills`: a run killed at random moments, again and again, until it ends like an undisturbed one.

SIGKILL goes to the run itself or to one of its processes (workers; with Ray also what makes up the node), then the
same command follows. A run that got to its end is compared with an undisturbed one and begun anew, until there were
enough kills.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

SETTINGS = (
    "data=digits_grid",
    "data.num_private=1200",
    "data.num_public=300",
    "data.num_test=200",
    "teacher=cnn",
    "teacher.patch=2",
    "teacher.num_teachers=12",
    "teacher.epochs=6",
    "aggregator=gaussian_votes",
    "num_queries=100",
    "target_epsilon=100",
    "seed=1",
)
COMPARED = ("release/release.npz", "ledger.jsonl", "votes.npz", "partition.json")
_PATIENCE_S = 120  # before a run whose node was killed is killed itself


@dataclass
class Kills:
    """What happened.

    Attributes:
        of_run: kills of the run itself.
        of_worker: kills of one of its processes.
        finished: runs that got to their end.
        faults: what differed, one line each; empty if all is well.
    """

    of_run: int = 0
    of_worker: int = 0
    finished: int = 0
    faults: list[str] = field(default_factory=list)


def main() -> None:
    """Prints what happened; exit code 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--engine", default="processes", choices=["sequential", "stacked", "processes", "ray"])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kills = disturb(Path(folder), arguments.engine, arguments.kills, random.Random(arguments.seed))
    say = Console(highlight=False).print
    say(f"engine {arguments.engine}: {kills.of_run} kills of the run, {kills.of_worker} of one of its processes")
    say(f"{kills.finished} runs got to their end; releases, ledgers, votes and teachers were compared")
    say("\n".join(kills.faults) or "no difference from an undisturbed run, no teacher trained again")
    sys.exit(1 if kills.faults else 0)


def disturb(folder: Path, engine: str, num_kills: int, rng: random.Random) -> Kills:
    """Kills runs in folder/disturbed until there were enough kills and the last one got to its end."""
    calm, disturbed, kills = folder / "calm", folder / "disturbed", Kills()
    start = time.monotonic()
    _start(calm, engine).wait()
    length = time.monotonic() - start
    saved: dict[str, tuple[int, int]] = {}
    while kills.finished == 0 or kills.of_run + kills.of_worker < num_kills:
        run = _start(disturbed, engine)
        while run.poll() is None and kills.of_run + kills.of_worker < num_kills:
            time.sleep(rng.uniform(0.1, 0.8) * length)
            _note(disturbed, saved, kills)
            processes = descendants(run.pid)
            if run.poll() is None:
                of_worker = bool(processes) and rng.random() < 0.5
                _kill(rng.choice(processes) if of_worker else run.pid)
                kills.of_worker, kills.of_run = kills.of_worker + of_worker, kills.of_run + (not of_worker)
        _wait(run)
        _note(disturbed, saved, kills)
        if (disturbed / "report.json").exists():
            kills.finished += 1
            differing = [name for name in COMPARED if (calm / name).read_bytes() != (disturbed / name).read_bytes()]
            kills.faults += [f"{name} differs from an undisturbed run's" for name in differing]
            shutil.rmtree(disturbed)
            saved.clear()
    return kills


def descendants(pid: int) -> list[int]:
    """The processes below one, as /proc tells."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue  # it ended meanwhile
    found, frontier = [], [pid]
    while frontier:
        frontier = [child for child, parent in parents.items() if parent in frontier]
        found += frontier
    return found


def _start(folder: Path, engine: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pate.cli.train", *SETTINGS, f"engine={engine}", f"output_dir={folder}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
        os.kill(pid, signal.SIGKILL)


def _wait(run: subprocess.Popen[bytes]) -> None:
    try:
        run.wait(timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        run.kill()
        run.wait()


def _note(folder: Path, saved: dict[str, tuple[int, int]], kills: Kills) -> None:
    """Remembers finished teachers; one that was written anew was trained twice."""
    for path in sorted((folder / "teachers").glob("teacher-*.safetensors")):
        status = path.stat()
        found = status.st_ino, status.st_mtime_ns
        if saved.setdefault(path.name, found) != found:
            kills.faults.append(f"{path.name} was trained again")
            saved[path.name] = found


if __name__ == "__main__":
    main()
