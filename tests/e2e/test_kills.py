"""Runs of image teachers killed at random moments, by the harness that `python -m benchmarks.kills` uses at length."""

import random
from pathlib import Path

import pytest

from benchmarks.kills import RELEASES, Disturbed


@pytest.mark.slow
def test_killed_runs_end_like_an_undisturbed_one(tmp_path: Path) -> None:
    kills = Disturbed(tmp_path, "processes", (*RELEASES["labels"], "teacher.epochs=4")).kill(2, random.Random(7))
    assert kills.total >= 2
    assert kills.finished >= 1
    assert kills.faults == []
