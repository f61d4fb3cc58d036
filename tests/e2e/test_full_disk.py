"""A run on a disk that takes no more, at several stages: one line, and the same command goes on once there is room."""

import re
import resource
from functools import partial
from importlib import reload
from pathlib import Path

from benchmarks.campaign import warm
from pate.report import page
from tests.e2e.commands import SMALL


def train(folder: Path, largest_file: int = resource.RLIM_INFINITY) -> warm.Ended:
    """The command; a limit on the size of files stands for the end of the disk."""
    warm.warm_up()
    return warm.command(
        "train", [*SMALL, "target_epsilon=200", "seed=1", f"output_dir={folder}"], partial(limited, largest_file)
    ).wait()


def limited(largest_file: int) -> None:
    reload(page)  # with its pictures, which make it a large file
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, resource.RLIM_INFINITY))


def test_a_run_that_met_the_end_of_the_disk_continues_and_pays_once(tmp_path: Path) -> None:
    for largest_file, stopped_at in ((8_000, "ledger.db"), (50_000, "teachers-"), (90_000, "report.html")):
        stopped = train(tmp_path, largest_file)
        assert stopped.code == 1, stopped.err
        assert "Traceback" not in stopped.err
        assert re.match(r"OSError: \[Errno \d+\] (Input/output error|File too large): ", stopped.line)
        assert stopped_at in stopped.line
        assert stopped.line.endswith("; the same command continues once that is mended")
    before = {name: (tmp_path / name).read_bytes() for name in ("release/release.npz", "ledger.db", "votes.npz")}
    assert train(tmp_path).code == 0
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
