"""Kills apps, nodes and the server of a deployment at random moments, and looks at what is left.

`python -m tests.e2e.federated_kills --tries 30 --seed 0 FOLDER` prints a line for each try. A try is a release in a
folder of its own: it is sent in, something is killed by SIGKILL, and it is sent in again until it is finished. Each has
to end with the bytes of an undisturbed release and exactly one charge, and may refuse on the way.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

from pate.accounting import Ledger
from tests.e2e.deployment import Deployment, end
from tests.e2e.small_run import released

VICTIMS = ("holder's app", "node", "server's app", "link")
_SUBMISSIONS = 6


def charges(folder: Path) -> int:
    path = folder / "release" / "ledger.db"
    return len(Ledger.stored(path).entries) if path.exists() else 0


def kill(federation: Deployment, victim: str, holder: int) -> bool:
    """Whether there was something to kill; what was killed and is no app is started again."""
    if victim == "node":
        end(federation.nodes[holder])
        federation.start_node(holder)
        return True
    if victim == "link":
        assert federation.link is not None
        end(federation.link)
        federation.start_link()
        return True
    owner = federation.nodes[holder] if victim == "holder's app" else federation.link
    found = federation.apps(owner)
    for number in found:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    return bool(found)


def wait_for_app(federation: Deployment, victim: str, holder: int, seconds: float = 60) -> None:
    """Until there is something to kill, where an app is to be killed."""
    until = time.monotonic() + seconds
    owner = federation.link if victim == "server's app" else federation.nodes[holder]
    while victim.endswith("app") and not federation.apps(owner) and time.monotonic() < until:
        time.sleep(0.1)


def finished(federation: Deployment, folder: Path, seconds: float, *, seen: bool = False) -> bool:
    """Waits for the release, or until the server's app, which was seen or will be, has ended without one."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if (folder / "release" / "manifest.json").exists():
            return True
        running = bool(federation.apps(federation.link))
        if seen and not running:
            time.sleep(1)
            return (folder / "release" / "manifest.json").exists()
        seen |= running
        time.sleep(0.5)
    return False


def attempt(federation: Deployment, folder: Path, rng: random.Random, victim: str, span: float) -> str:
    """One try; a line of what happened. Raises where a release differs or is charged twice."""
    folder.mkdir()
    shutil.rmtree(federation.folder / "holders", ignore_errors=True)
    span = span / 2 if victim.endswith("app") else span
    holder, after = rng.randint(1, federation.holders), rng.uniform(0, span)
    sent = federation.run(folder)
    assert sent.returncode == 0, sent.stderr
    wait_for_app(federation, victim, holder)
    time.sleep(after)
    hit, count = kill(federation, victim, holder), 1
    gone = hit and victim in ("server's app", "link")
    done = finished(federation, folder, 2 * federation.seconds + 60, seen=gone)
    while not done and count < _SUBMISSIONS:
        assert charges(folder) <= 1
        count += federation.run(folder).returncode == 0
        done = finished(federation, folder, 2 * federation.seconds + 60)
    assert done, f"{folder}: not finished after {count} submissions"
    return f"{victim}, {after:.1f} s after sending, {'killed' if hit else 'nothing ran'}, sent in {count} times"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tries", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--span", type=float, default=15.0)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(given.seed)
    with Deployment(given.folder, 3, seconds=30) as federation:
        assert federation.run(given.folder / "whole").returncode == 0
        assert finished(federation, given.folder / "whole", 180), federation.log("link")[-2000:]
        expected = released(given.folder / "whole" / "release")
        for number in range(given.tries):
            folder, victim = given.folder / f"try-{number}", VICTIMS[number % len(VICTIMS)]
            line = attempt(federation, folder, rng, victim, given.span)
            same = released(folder / "release") == expected
            print(f"{number}: {line}; same={same} charges={charges(folder)}", flush=True)  # noqa: T201
            assert same and charges(folder) == 1
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
