"""Kills and faults: a run is stopped at some moment, once or several times, then continued to its end."""

from __future__ import annotations

import random
import shutil
from abc import ABC, abstractmethod
from pathlib import Path

from benchmarks.campaign.faulty_disk import FAILURES, FaultyDisk
from benchmarks.campaign.runs import (
    SETTINGS,
    Kind,
    Truth,
    digests_of_draws,
    find_faults,
    find_refusal_faults,
    find_unpaid,
    release_of,
)
from benchmarks.campaign.tally import Finding

_AGAIN = 0.4  # probability that a stopped run is stopped again
_FIRST_S = 0.1  # nothing is on the disk before
_KILLED = -9


class Stops(ABC):
    """Runs that are stopped, seeded or not, each compared with an undisturbed run of its kind.

    Args:
        folder: for all of them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._truths: dict[Kind, Truth] = {}

    def attempt(self, rng: random.Random) -> list[Finding]:
        """Stops and continues one run, which must end with all that was committed or published at any stop."""
        kind = Kind(rng.choice(list(SETTINGS)), seed=rng.choice([1, None]))
        folder = self._folder / "run"
        findings = []
        if kind not in self._truths:
            self._truths[kind] = Truth.from_undisturbed_run(
                kind, folder=self._folder / f"calm-{kind.name}-{kind.seed}"
            )
        truth = self._truths[kind]
        committed_digests = dict[str, str]()
        published = None
        stops = list[str]()
        try:
            while True:
                description, faults = self._stop(kind, truth, folder, rng)
                stops.append(description)
                findings += faults + find_unpaid(folder, truth)
                # the draw of a key and the release must be those of the first stop
                committed_digests = digests_of_draws(folder) | committed_digests
                published = published or release_of(folder)
                if rng.random() >= _AGAIN:
                    break
            ended = kind.start(folder).wait()
            ok = ended.code == 0
            findings += (
                find_faults(
                    folder, truth, committed_digests=committed_digests, published_release=published
                )
                if ok
                else find_refusal_faults(ended, codes=(0,))
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        where = f"{kind.name}, seed {kind.seed}, {', '.join(stops)}"
        return [Finding(finding.sort, text=f"{where}: {finding.text}") for finding in findings]

    @abstractmethod
    def _stop(
        self, kind: Kind, truth: Truth, folder: Path, rng: random.Random
    ) -> tuple[str, list[Finding]]:
        """Starts the run and stops it; returns a description of the stop and the faults seen."""


class Kills(Stops):
    """Stops by SIGKILL at random moments."""

    def _stop(
        self, kind: Kind, truth: Truth, folder: Path, rng: random.Random
    ) -> tuple[str, list[Finding]]:
        after = rng.uniform(_FIRST_S, truth.duration_s)
        kind.kill(folder, after)
        return f"killed after {after:.2f} s", []


class Faults(Stops):
    """Stops by a disk that fails, or a machine that dies, at one of the calls that a run makes to its disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._calls: dict[Kind, int] = {}

    def _stop(
        self, kind: Kind, truth: Truth, folder: Path, rng: random.Random
    ) -> tuple[str, list[Finding]]:
        if kind not in self._calls:
            self._calls[kind] = num_disk_calls(kind, folder=self._folder / "counted")
        disk = FaultyDisk(folder, at=rng.randrange(self._calls[kind]), failure=rng.choice(FAILURES))
        ended = kind.start(folder, disk.install).wait()
        faults = [] if ended.code in (0, _KILLED) else find_refusal_faults(ended, codes=(1, 2))
        return f"{disk.failure} at call {disk.at}", faults


def num_disk_calls(kind: Kind, folder: Path) -> int:
    """Returns the number of disk calls of a run; removes the folder."""
    log = folder.with_suffix(".log")
    kind.start(folder, FaultyDisk(folder, log=log).install).wait()
    shutil.rmtree(folder)
    number = log.stat().st_size
    log.unlink()
    return number
