"""Runs of image teachers killed at random moments, by the harness that `python -m benchmarks.kills` uses at length."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.descendants import descendants
from benchmarks.kills import RELEASES, Disturbed


@pytest.mark.slow
def test_killed_runs_end_like_an_undisturbed_one(tmp_path: Path) -> None:
    kills = Disturbed(tmp_path, "processes", (*RELEASES["labels"], "teacher.epochs=4")).kill(2, random.Random(7))
    assert kills.total >= 2
    assert kills.finished >= 1
    assert kills.faults == []


def test_descendants_are_found() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    parent = subprocess.Popen([sys.executable, "-c", script])
    for _ in range(100):
        if found := descendants(parent.pid):
            break
        time.sleep(0.1)
    assert len(found) == 1
    os.kill(found[0], 9)
    parent.wait()
