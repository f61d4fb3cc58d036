"""Kills: SIGKILL at random moments, once or several times, then the same command to its end."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

from benchmarks.campaign.runs import SETTINGS, Kind, Truth, faults_of, refusal_faults, release_of, twin_of, unpaid
from benchmarks.campaign.tally import WRONG_RELEASE, Finding

_AGAIN = 0.4  # how often a run that was killed is killed once more
_FIRST_S = 0.15  # nothing is on the disk before


class Kills:
    """Runs that are killed, seeded and not, beside runs that are not.

    Args:
        folder: for all of them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._truths: dict[Kind, tuple[Truth, float]] = {}

    def attempt(self, rng: random.Random) -> list[Finding]:
        """One run, killed and continued."""
        kind = Kind(rng.choice(list(SETTINGS)), rng.choice([1, None]))
        truth, length = self._truth(kind)
        folder = self._folder / "killed"
        try:
            return self._attempt(kind, truth, length, folder, rng)
        finally:
            for path in (folder, folder.with_name("killed-twin")):
                shutil.rmtree(path, ignore_errors=True)

    def _attempt(self, kind: Kind, truth: Truth, length: float, folder: Path, rng: random.Random) -> list[Finding]:
        found: list[Finding] = []
        while True:
            child, moment = kind.start(folder), time.monotonic() + rng.uniform(_FIRST_S, length)
            while time.monotonic() < moment and not child.ended():
                time.sleep(0.001)
            child.kill()
            child.wait()
            found += unpaid(folder, truth)
            if rng.random() >= _AGAIN:
                break
        release = truth.release
        if kind.seed is None:
            release, more = self._twin_release(kind, folder)
            found += more
        ended = kind.start(folder).wait()
        return found + (faults_of(folder, truth, release) if ended.code == 0 else refusal_faults(ended, codes=(0,)))

    def _twin_release(self, kind: Kind, folder: Path) -> tuple[bytes | None, list[Finding]]:
        """What an unseeded run has to release: what is there, or what a copy of it draws; None if nothing is fixed."""
        if (there := release_of(folder)) is not None:
            return there, []
        if (twin := twin_of(folder)) is None:
            return None, []
        ended = kind.start(twin).wait()
        if ended.code != 0:
            return None, refusal_faults(ended, codes=(0,))
        release = release_of(twin)
        return release, [] if release else [Finding(WRONG_RELEASE, "a copy of the run ended without a release")]

    def _truth(self, kind: Kind) -> tuple[Truth, float]:
        if kind not in self._truths:
            started = time.monotonic()
            truth = Truth.of(kind, self._folder / f"calm-{kind.name}-{kind.seed}")
            self._truths[kind] = truth, 1.05 * (time.monotonic() - started)
        return self._truths[kind]
