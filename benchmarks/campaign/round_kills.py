"""Kills of runs that sum one-record votes in rounds, of their workers and nodes, with features in scratch files."""

from __future__ import annotations

import os
import random
import shutil
import signal
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.busy import write_arrays_of
from benchmarks.campaign.runs import (
    RUN,
    Kind,
    Truth,
    digests_of_draws,
    find_faults,
    find_refusal_faults,
    find_unpaid,
    release_of,
)
from benchmarks.campaign.tally import EXPOSED, Finding
from benchmarks.campaign.warm import FreshProcess
from benchmarks.descendants import command_of, descendants
from benchmarks.ray_nodes import RayNodes

_ROWS = 20_000
_ROUNDS = (
    "experiment=centered_votes",
    "data=arrays",
    "teacher._target_=benchmarks.witness.SpillingTeacher",
    "allowed_targets=[benchmarks.]",
    "aggregator.rounds=12",
    "target_epsilon=8",
    "accountant=rdp",
    "all_records=false",
    "allow_useless=true",
    "logger=none",
)
_AGAIN = 0.4  # probability that a run that was killed is killed again
_WORKERS_END_S = 20.0
_LOST_LENGTHS = 30.0  # patience for a run that lost a worker or node, in lengths of a run
_WORKERS = ("answer_requests", "_Actor")  # in the command lines of worker processes and actors


@dataclass(frozen=True)
class RoundsKind(Kind):
    """A kind of run in rounds: the settings of its engine, and the folder of its data and temporary files."""

    engine: tuple[str, ...] = ()
    data: Path = Path()

    @property
    def temporary(self) -> Path:
        """The folder of temporary files of the run and its workers."""
        return self.data / "tmp"

    def arguments(self, folder: Path) -> tuple[str, ...]:
        """Returns the settings of the run."""
        seed = () if self.seed is None else (f"seed={self.seed}",)
        files = [f"data.{part}={self.data / part}.npz" for part in ("private", "public", "test")]
        return (*_ROUNDS, *files, *self.engine, *seed, f"output_dir={folder / RUN}")

    def begin(self, folder: Path) -> FreshProcess:
        """Starts or continues the run."""
        variables = {"TMPDIR": str(self.temporary)}
        return FreshProcess("train", self.arguments(folder), variables)


class RoundKills:
    """Runs in threads or worker processes that lose themselves or a worker at a random moment, once or several times.

    Args:
        folder: for all of them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._truths: dict[Kind, Truth] = {}
        (folder / "tmp").mkdir()
        write_arrays_of(_ROWS, folder)

    def attempt(self, rng: random.Random) -> list[Finding]:
        """Kills and continues one run, which must end with the charges and, if seeded, the release of a calm run."""
        kind = self._kind(rng)
        truth = self._truth(kind)
        folder = self._folder / "run"
        findings = list[Finding]()
        stops = list[str]()
        committed_digests = dict[str, str]()
        published = None
        has_ended = False
        try:
            while not has_ended:
                run = kind.begin(folder)
                time.sleep(rng.uniform(0.3, 1.0) * truth.duration_s)
                victim = self._kill_one(run, rng)
                stops.append(victim)
                if victim == "run":
                    findings += self._find_exposed(folder) + find_unpaid(folder, truth)
                    # the draw of a key and the release must be those of the first stop
                    committed_digests = digests_of_draws(folder) | committed_digests
                    published = published or release_of(folder)
                    has_ended = rng.random() >= _AGAIN
                else:
                    ended = run.wait(patience=_LOST_LENGTHS * truth.duration_s)
                    findings += find_refusal_faults(ended, codes=(0,)) if ended.code else []
                    has_ended = True
            ended = kind.begin(folder).wait()
            if ended.code == 0:
                findings += find_faults(
                    folder, truth, committed_digests=committed_digests, published_release=published
                )
            else:
                findings += find_refusal_faults(ended, codes=(0,))
            findings += self._find_exposed(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        where = f"{' '.join(kind.engine)}, seed {kind.seed}, killed: {', '.join(stops)}"
        return [Finding(finding.sort, text=f"{where}: {finding.text}") for finding in findings]

    def _kind(self, rng: random.Random) -> RoundsKind:
        """Returns a kind of run."""
        engines = (("engine=threads",), ("engine=processes", "engine.num_workers=2"))
        return self._kind_on(rng.choice(engines), rng)

    def _kind_on(self, engine: tuple[str, ...], rng: random.Random) -> RoundsKind:
        return RoundsKind("rounds", rng.choice([1, None]), engine=engine, data=self._folder)

    def _truth(self, kind: RoundsKind) -> Truth:
        """Returns what an undisturbed run of a kind leaves."""
        if kind not in self._truths:
            calm = self._folder / f"calm-{len(self._truths)}"
            started = time.monotonic()
            ended = kind.begin(calm).wait()
            duration = time.monotonic() - started
            if ended.code != 0:
                raise RuntimeError(f"an undisturbed run ended with code {ended.code}: {ended.err}")
            self._truths[kind] = Truth.of_run(calm, kind, duration_s=duration)
        return self._truths[kind]

    def _kill_one(self, run: FreshProcess, rng: random.Random) -> str:
        """Kills the run or one of its workers; returns which."""
        workers = self._workers(run)
        victim = rng.choice(["run", *(["worker", "worker"] if workers else [])])
        if victim == "run":
            run.kill()
        else:
            with suppress(ProcessLookupError):  # the process has ended meanwhile
                os.kill(rng.choice(workers), signal.SIGKILL)
        return victim

    def _workers(self, run: FreshProcess) -> list[int]:
        """Returns the processes that hold records for a run."""
        return [pid for pid in descendants(run.pid) if _is_worker(pid)]

    def _remaining(self) -> list[int]:
        """Returns the processes that hold records, once no run is there."""
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if self._is_own(path)]

    def _is_own(self, process: Path) -> bool:
        """Returns True for a worker of this campaign's runs, by its folder of temporary files."""
        with suppress(OSError):
            variables = (process / "environ").read_bytes()
            return _is_worker(int(process.name)) and os.fsencode(self._folder) in variables
        return False

    def _find_exposed(self, folder: Path) -> list[Finding]:
        """Returns what is left of a run that was killed or has ended: workers, temporary files, files for others."""
        deadline = time.monotonic() + _WORKERS_END_S
        while (workers := self._remaining()) and time.monotonic() < deadline:
            time.sleep(0.05)
        texts = [f"worker {pid} is still there: {command_of(pid)}" for pid in workers]
        texts += [f"{path} is left" for path in (self._folder / "tmp").iterdir()]
        for path in (folder / RUN).rglob("*"):
            mode = path.stat().st_mode
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                texts.append(f"{path} has mode {stat.filemode(mode)}")
        return [Finding(EXPOSED, text=text) for text in texts]


class NodeKills(RoundKills):
    """Runs on a Ray cluster of two nodes that lose themselves, an actor, or a node.

    Args:
        folder: for all of them.
    """

    @cached_property
    def _nodes(self) -> RayNodes:
        return RayNodes()

    def _kind(self, rng: random.Random) -> RoundsKind:
        return self._kind_on(("engine=ray", f"engine.address={self._nodes.address}"), rng)

    def _kill_one(self, run: FreshProcess, rng: random.Random) -> str:
        if self._workers(run) and rng.random() < 0.4:
            self._nodes.lose_second()
            return "node"
        return super()._kill_one(run, rng)

    def _workers(self, run: FreshProcess) -> list[int]:
        return [pid for pid in self._nodes.workers() if _is_worker(pid)]

    def _remaining(self) -> list[int]:
        return [pid for pid in self._nodes.workers() if _is_worker(pid)]


def _is_worker(pid: int) -> bool:
    """Returns True for a process that holds the records of a shard."""
    return any(name in command_of(pid) for name in _WORKERS)
