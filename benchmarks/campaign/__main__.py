"""Program `python -m benchmarks.campaign --tries N`, which attacks small real runs and prints the findings.

With `--kind kills` they meet SIGKILL at random moments. With `faults` the disk fails, or the machine dies, at any
call of a run to it, those of SQLite included; this takes a C compiler. With `damage` any file in any state is
damaged, most often the ledger. With `input` they are given settings, vote files and arrays that are none. With `rounds`
a run in rounds or one of its workers is killed; with `nodes` the run is on a Ray cluster, and a node may be killed too.
`all` stands for the first four. Exit code 1 where anything got through.
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
from benchmarks.campaign.round_kills import NodeKills, RoundKills
from benchmarks.campaign.stops import Faults, Kills
from benchmarks.campaign.tally import Tally
from benchmarks.campaign.warm import warm_up

KINDS: dict[str, Any] = {"kills": Kills, "faults": Faults, "damage": Damage, "input": Mistakes}
ON_ENGINES: dict[str, type[RoundKills]] = {"rounds": RoundKills, "nodes": NodeKills}


def main() -> None:
    """Runs the requested kinds, one after the other, and prints a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tries", type=int, default=100, help="of each kind")
    parser.add_argument("--kind", choices=[*KINDS, *ON_ENGINES, "all"], default="all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--try", dest="only", type=int, default=None, help="only the try of this number"
    )
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is loaded
    if arguments.kind in ("faults", "all") and not is_loaded():
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
    for kind in KINDS if arguments.kind == "all" else [arguments.kind]:
        tries = range(arguments.tries) if arguments.only is None else [arguments.only]
        tally = campaign(kind, tries, seed=arguments.seed, console=Console(stderr=True))
        say(tally.summary())
        wrong = wrong or bool(tally.findings)
    sys.exit(1 if wrong else 0)


def campaign(
    kind: str, tries: range | list[int], *, seed: int, console: Console | None = None
) -> Tally:
    """Runs tries of one kind. Each try has a generator of its own, so that any try can be repeated alone."""
    # Without automatic refresh it has no thread, which would not live on in forks.
    progress = Progress(
        TextColumn(kind),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[found]} findings"),
        TimeRemainingColumn(),
        console=console,
        auto_refresh=False,
        disable=console is None,
    )
    tally = Tally(kind)
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder, progress:
        attack = (KINDS | ON_ENGINES)[kind](Path(folder).resolve())
        task = progress.add_task(kind, total=len(tries), found=0)
        for number in tries:
            tally.tries = number
            findings = attack.attempt(random.Random(f"{seed} {kind} {number}"))
            tally.add(findings)
            for finding in findings if console is not None else []:
                sys.stdout.write(f"  {kind}, try {number}, {finding.sort}: {finding.text}\n")
                sys.stdout.flush()
            progress.update(task, advance=1, found=len(tally.findings), refresh=True)
    tally.tries = len(tries)
    return tally


if __name__ == "__main__":
    main()
