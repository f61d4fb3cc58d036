"""`python -m benchmarks.campaign --tries N`: attacks small real runs, and says what got through.

With `--kind kills` they meet SIGKILL at random moments. With `faults` the disk fails, or the machine dies, at any
call of a run to it, those of SQLite included; this takes a C compiler. With `damage` any file in any state is
damaged, the ledger first. With `input` they are given settings, vote files and arrays that are none. Exit code 1
where anything got through.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.campaign.damage import Damage
from benchmarks.campaign.faulty_disk import is_loaded, preload
from benchmarks.campaign.mistakes import Mistakes
from benchmarks.campaign.stops import Faults, Kills
from benchmarks.campaign.tally import Tally
from benchmarks.campaign.warm import warm_up

KINDS: dict[str, Any] = {"kills": Kills, "faults": Faults, "damage": Damage, "input": Mistakes}


def main() -> None:
    """Runs the kinds asked for, one after the other, and prints a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tries", type=int, default=100, help="of each kind")
    parser.add_argument("--kind", choices=[*KINDS, "all"], default="all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--try", dest="only", type=int, default=None, help="only the try of this number"
    )
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is loaded
    if given.kind in ("faults", "all") and not is_loaded():
        with tempfile.TemporaryDirectory() as folder:
            again = [sys.executable, "-m", "benchmarks.campaign", *sys.argv[1:]]
            sys.exit(
                subprocess.run(
                    again, env={**os.environ, **preload(Path(folder))}, check=False
                ).returncode
            )
    warm_up()
    say = Console(highlight=False, soft_wrap=True).print
    wrong = False
    for kind in KINDS if given.kind == "all" else [given.kind]:
        tries = range(given.tries) if given.only is None else [given.only]
        tally = campaign(kind, tries, seed=given.seed, console=Console(stderr=True))
        say(tally.summary())
        wrong = wrong or bool(tally.findings)
    sys.exit(1 if wrong else 0)


def campaign(
    kind: str, tries: range | list[int], *, seed: int, console: Console | None = None
) -> Tally:
    """Some tries of one kind. Each has a generator of its own, so that one of them can be tried again alone."""
    bar = Progress(
        TextColumn(kind),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[found]} findings"),
        TimeRemainingColumn(),
        console=console,
        auto_refresh=False,
        disable=console is None,
    )  # its thread would not live on in forks
    tally = Tally(kind)
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder, bar:
        attack = KINDS[kind](Path(folder).resolve())
        task = bar.add_task(kind, total=len(tries), found=0)
        for number in tries:
            tally.tries = number
            found = attack.attempt(random.Random(f"{seed} {kind} {number}"))
            tally.add(found)
            for finding in found if console is not None else []:
                sys.stdout.write(f"  {kind}, try {number}, {finding.sort}: {finding.text}\n")
                sys.stdout.flush()
            bar.update(task, advance=1, found=len(tally.findings), refresh=True)
    tally.tries = len(tries)
    return tally


if __name__ == "__main__":
    main()
