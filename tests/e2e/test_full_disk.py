"""A run on a disk that takes no more, at several stages: one line, and the same command goes on once there is room."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

from tests.e2e.commands import SMALL

SETTINGS = (*SMALL, "target_epsilon=200", "seed=1")


def train(folder: Path, largest_file: int | None = None) -> subprocess.CompletedProcess[str]:
    """The command; a limit on the size of files stands for the end of the disk."""
    command = [sys.executable, "-m", "pate.cli.train", *SETTINGS, f"output_dir={folder}"]
    limit = (largest_file, resource.RLIM_INFINITY) if largest_file else (resource.RLIM_INFINITY,) * 2
    limited = partial(resource.setrlimit, resource.RLIMIT_FSIZE, limit)
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, preexec_fn=limited)


def test_a_run_that_met_the_end_of_the_disk_continues_and_pays_once(tmp_path: Path) -> None:
    for largest_file, stopped_at in ((8_000, "ledger.db"), (50_000, "teachers-"), (90_000, "report.html")):
        stopped = train(tmp_path, largest_file)
        assert stopped.returncode == 1, stopped.stderr
        assert "Traceback" not in stopped.stderr
        line = stopped.stderr.splitlines()[-1]
        assert re.match(r"OSError: \[Errno \d+\] (Input/output error|File too large): ", line)
        assert stopped_at in line
        assert line.endswith("; the same command continues once that is mended")
    before = {name: (tmp_path / name).read_bytes() for name in ("release/release.npz", "ledger.db", "votes.npz")}
    assert train(tmp_path).returncode == 0
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
