"""Program `python -m benchmarks.kills`, which kills a run at random moments until it ends like an undisturbed run.

SIGKILL goes to the run itself, to one of its workers or, with `--nodes`, to a whole node of a Ray cluster; then the
same command follows. Half of the moments are uniform over half the length of a run, half lie just after a file of the
run appeared, where a stage hands over to the next. A run that got to its end is compared with an undisturbed one and
begun anew, until there were enough kills.
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
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from safetensors.numpy import load_file

from benchmarks.campaign.runs import RUN, Row, release_of, rows_of
from benchmarks.descendants import command_of, descendants
from benchmarks.ray_nodes import RayNodes

SETTINGS = (
    "data=digits_grid",
    "data.num_private=1200",
    "data.num_public=300",
    "data.num_test=200",
    "teacher=cnn",
    "teacher.patch=2",
    "teacher.num_teachers=24",
    "teacher.epochs=6",
    "teacher._target_=benchmarks.witness.WitnessedTeacher",
    "allowed_targets=[benchmarks.]",
    "num_queries=100",
    "allow_useless=true",
    "all_records=false",
    "seed=1",
)
RELEASES = {
    "labels": ("aggregator=gaussian_votes", "target_epsilon=100"),
    "session": (
        "aggregator=stable_top_k_boundary",
        "aggregator.target_hits=20",
        "target_epsilon=200",
    ),
}
_MILESTONES = (
    "partition.json",
    "teachers",
    "casting",
    "votes.npz",
    "../ledger.db",
    "release/release.npz",
    "release/student",
)
_WITHIN_S = 0.3  # of a milestone
_PATIENCE_S = 120  # the longest wait for a file of a run, or for its end
_SAVED_S = 3.0  # a teacher trained so long before a kill is on the disk


@dataclass
class Kills:
    """Kills by their kind, and the faults that followed them."""

    # how many kills of a "run", "worker" or "node"
    counts: Counter[str] = field(default_factory=Counter)
    finished: int = 0  # runs that reached their end
    continued: int = 0  # runs that lost a worker or node and reached their end by themselves
    stopped: int = 0  # runs that lost a worker or node and ended with a line on the remedy
    # waits of two minutes in vain: for a file of a run, or for the end of a run, which is then killed
    hung: int = 0
    # trainings that ended before a kill but were not saved, and so were repeated
    unsaved: int = 0
    # faults, one line each; empty for a faultless campaign
    faults: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Returns the number of kills of all kinds."""
        return sum(self.counts.values())


def main() -> None:
    """Prints the kills and the faults; exit code 1 where anything is wrong, except that runs on Ray may hang."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument(
        "--engine", default="processes", choices=["sequential", "stacked", "processes", "ray"]
    )
    parser.add_argument(
        "--nodes", action="store_true", help="with --engine ray: on a cluster of two nodes"
    )
    parser.add_argument(
        "--release",
        default="labels",
        choices=[*RELEASES],
        help="all at once, or a session in rounds",
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = os.getcwd()  # a cluster's workers need the witness
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        RayNodes() if arguments.nodes else contextlib.nullcontext() as nodes,
    ):
        disturbed = Disturbed(
            Path(folder), arguments.engine, release=RELEASES[arguments.release], nodes=nodes
        )
        kills = disturbed.kill(arguments.kills, random.Random(arguments.seed))
    say = Console(highlight=False, soft_wrap=True).print
    counts = ", ".join(f"{number} of a {kind}" for kind, number in kills.counts.items())
    say(
        f"engine {arguments.engine}, {time.monotonic() - started:.0f} s: {kills.total} kills: {counts}"
    )
    say(
        f"{kills.continued} runs went on without what they lost, {kills.stopped} stopped and said so, {kills.hung} hung"
    )
    say(
        f"{kills.finished} runs got to their end; {kills.unsaved} teachers were cut off from their saving"
    )
    say(
        "\n".join(kills.faults)
        or "same release, votes and teachers; none trained again once saved; ledger complete"
    )
    sys.exit(1 if kills.faults or (kills.hung and arguments.engine != "ray") else 0)


@dataclass
class Disturbed:
    """A run that is killed and started again, compared with an undisturbed run."""

    folder: Path  # of both runs
    engine: str  # of both runs
    release: tuple[str, ...]  # settings of the aggregator
    nodes: RayNodes | None = None  # the cluster that the run uses, or None

    def __post_init__(self) -> None:
        self.calm = self.folder / "calm" / RUN
        self.path = self.folder / "disturbed" / RUN  # the ledger lies next to this folder
        self.log = self.folder / "trained.log"
        self.errors = self.folder / "stderr"
        self.kills = Kills()
        self.saved: dict[str, tuple[int, int]] = {}
        self.spent: list[Row] = []
        self.moments: list[float] = []

    def kill(self, num_kills: int, rng: random.Random) -> Kills:
        """Kills until enough kills were made and at least one run reached its end."""
        start = time.monotonic()
        if self._start(self.calm).wait() != 0:
            raise RuntimeError(self.errors.read_text())
        length = time.monotonic() - start
        self.log.unlink()
        while self.kills.finished == 0 or self.kills.total < num_kills:
            run = self._start(self.path)
            last = ""
            while run.poll() is None and self.kills.total < num_kills and last != "run":
                self._wait_for_a_moment(run, length, rng)
                self._note()
                if run.poll() is None:
                    last = self._kill_one(run, rng)
            self._end(run, last)
        return self.kills

    def _start(self, path: Path) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            "pate.cli.train",
            *SETTINGS,
            *self.release,
            f"+teacher.log={self.log}",
            f"engine={self.engine}",
            f"output_dir={path}",
        ]
        command += [f"engine.address={self.nodes.address}"] if self.nodes else []
        with self.errors.open("wb") as errors:
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)

    def _wait_for_a_moment(
        self, run: subprocess.Popen[bytes], length: float, rng: random.Random
    ) -> None:
        """Waits for a uniform moment, or until just after one of the missing files appears."""
        ahead = [name for name in _MILESTONES if not (self.path / name).exists()]
        if ahead and rng.random() < 0.5:
            awaited = self.path / rng.choice(ahead)
            deadline = time.monotonic() + _PATIENCE_S
            while run.poll() is None and not awaited.exists() and time.monotonic() < deadline:
                time.sleep(0.002)
            self.kills.hung += time.monotonic() >= deadline
            time.sleep(rng.uniform(0, _WITHIN_S))
        else:
            time.sleep(rng.uniform(0.05, 0.5) * length)

    def _kill_one(self, run: subprocess.Popen[bytes], rng: random.Random) -> str:
        """Kills the run or a process of it; returns the kind of kill."""
        workers = self.nodes.workers() if self.nodes else descendants(run.pid)
        kind = rng.choice(
            ["run", *(["worker"] if workers else []), *(["node"] if self.nodes else [])]
        )
        pid = rng.choice(workers) if kind == "worker" else run.pid
        name = command_of(pid).split(" -")[0] if kind == "worker" else ""
        self.moments.append(time.time())
        if kind == "node" and self.nodes:
            self.nodes.lose_second()
        else:
            with contextlib.suppress(ProcessLookupError):  # the process has ended meanwhile
                os.kill(pid, signal.SIGKILL)
        self.kills.counts[kind] += 1
        sys.stderr.write(f"{self.kills.total}: {kind} {name}\n")  # minutes pass
        return kind

    def _end(self, run: subprocess.Popen[bytes], last: str) -> None:
        """Waits for the run and compares what it left."""
        try:
            code = run.wait(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            run.kill()
            code = run.wait()
            self.kills.hung += 1
        self._note()
        if last != "run":
            lines = self.errors.read_text().splitlines()
            if code != 0 and (last == "" or any(line.startswith("Traceback") for line in lines)):
                self.kills.faults.append(
                    f"exit code {code}, {lines[-1:]}, after {last or 'no kill'}"
                )
            self.kills.continued += code == 0 and last != ""
            self.kills.stopped += code != 0
        if (self.path / "report.json").exists():
            self._compare()

    def _note(self) -> None:
        """Records the teachers' files and the charges; a file written anew means a teacher that was trained again."""
        for path in sorted((self.path / "teachers").glob("teachers-*.safetensors")):
            status = path.stat()
            stamp = status.st_ino, status.st_mtime_ns
            if self.saved.setdefault(path.name, stamp) != stamp:
                self.kills.faults.append(f"{path.name} was saved again")
                self.saved[path.name] = stamp
        spent = rows_of(self.path.parent)
        if spent[: len(self.spent)] != self.spent:
            self.kills.faults.append("a charge is missing in the ledger")
        if release_of(self.path.parent) is not None and not spent:
            self.kills.faults.append("something was released that is not in the ledger")
        self.spent = spent

    def _compare(self) -> None:
        """Compares a run that reached its end with the undisturbed run; then begins anew."""
        if _drawn(self.path.parent) != _drawn(self.calm.parent):
            self.kills.faults.append(
                "the charges, or what they paid for, differ from an undisturbed run's"
            )
        names = ["votes.npz", "partition.json", "release/release.npz"]
        names += [
            str(path.relative_to(self.calm))
            for path in sorted((self.calm / "release/student").iterdir())
        ]
        if _teachers(self.path) != _teachers(self.calm):
            self.kills.faults.append("teachers differ from an undisturbed run's")
        for name in names:
            if (
                not (self.path / name).exists()
                or (self.calm / name).read_bytes() != (self.path / name).read_bytes()
            ):
                self.kills.faults.append(f"{name} differs from an undisturbed run's")
        self._count_trainings()
        self.kills.finished += 1
        shutil.rmtree(self.path.parent)
        self.log.unlink(missing_ok=True)
        self.saved.clear()
        self.spent = []
        self.moments = []

    def _count_trainings(self) -> None:
        """Finds teachers that were trained again without a kill between their training and their saving."""
        ends: dict[str, list[float]] = {}
        for line in self.log.read_text().splitlines():
            seed, ended = line.split()
            ends.setdefault(seed, []).append(float(ended))
        for seed, moments in ends.items():
            for moment in moments[:-1]:
                lost = any(
                    moment - _SAVED_S < killed < moment + _SAVED_S for killed in self.moments
                )
                self.kills.unsaved += lost
                if not lost:
                    near = min((killed - moment for killed in self.moments), key=abs, default=0.0)
                    rule = f"its first end was {abs(near):.1f} s {'before' if near > 0 else 'after'} a kill"
                    self.kills.faults.append(
                        f"the teacher of seed {seed} was trained to its end again: {rule}"
                    )


def _drawn(folder: Path) -> list[tuple[str, str, bytes]]:
    """Returns part, event and release of each line of a run's ledger, but not the names of run and charge."""
    return [(key.partition(":")[2], event, release) for key, _, event, release in rows_of(folder)]


def _teachers(folder: Path) -> dict[str, bytes]:
    """Returns the arrays of all teachers of a run in order, since files end where the run happened to save."""
    files = [load_file(path) for path in sorted((folder / "teachers").iterdir())]
    return {name: np.concatenate([file[name] for file in files]).tobytes() for name in files[0]}


if __name__ == "__main__":
    main()
