"""Faults: the disk fails, or the machine dies, at one of the calls that a run makes to it; then the same command."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from benchmarks.campaign.faulty_disk import FAILURES, FaultyDisk
from benchmarks.campaign.runs import SETTINGS, Kind, Truth, faults_of, refusal_faults, unpaid
from benchmarks.campaign.tally import Finding

_AGAIN = 0.3  # how often the continued run fails once more
_KILLED = -9


class Faults:
    """Runs whose disk fails.

    Args:
        folder: for all of them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._truths: dict[Kind, tuple[Truth, int]] = {}

    def attempt(self, rng: random.Random) -> list[Finding]:
        """One run, with one fault or a few."""
        kind = Kind(rng.choice(list(SETTINGS)))
        truth, num_calls = self._truth(kind)
        folder, found = self._folder / "faulty", []
        try:
            while True:
                disk = FaultyDisk(folder, rng.randrange(num_calls), rng.choice(FAILURES))
                ended = kind.start(folder, disk.install).wait()
                where = f"{kind.name}, {disk.failure} at call {disk.at}: "
                if ended.code not in (0, _KILLED):
                    found += [Finding(f.sort, where + f.text) for f in refusal_faults(ended, codes=(1, 2))]
                found += unpaid(folder, truth)
                if rng.random() >= _AGAIN:
                    break
            ended = kind.start(folder).wait()
            ok = ended.code == 0
            last = faults_of(folder, truth, truth.release) if ok else refusal_faults(ended, codes=(0,))
            return found + [Finding(f.sort, f"continued after {where}{f.text}") for f in last]
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _truth(self, kind: Kind) -> tuple[Truth, int]:
        if kind not in self._truths:
            truth = Truth.of(kind, self._folder / f"calm-faults-{kind.name}")
            self._truths[kind] = truth, num_disk_calls(kind, self._folder / "counted")
        return self._truths[kind]


def num_disk_calls(kind: Kind, folder: Path) -> int:
    """How many calls to the disk a run makes; the folder is removed."""
    log = folder.with_suffix(".log")
    kind.start(folder, FaultyDisk(folder, log=log).install).wait()
    shutil.rmtree(folder)
    number = len(log.read_text(encoding="utf-8").splitlines())
    log.unlink()
    return number
