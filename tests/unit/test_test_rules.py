"""What the suite holds its own tests to: no process without the marker, and a budget when one is asked for."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from joblib import Parallel, delayed
from joblib.externals.loky import reusable_executor

from tests.duration_budget import DurationBudget


def workers_of_joblib() -> None:
    if reusable_executor._executor is not None:  # of an earlier test, whose workers are there already
        reusable_executor._executor.shutdown(kill_workers=True)
        reusable_executor._executor = None
    Parallel(n_jobs=2)(delayed(int)() for _ in range(2))


STARTS = {
    "a command": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    "a shell": lambda: os.system("true"),
    "a fork": lambda: os.fork() or os._exit(0),
    "a worker": lambda: multiprocessing.get_context("spawn").Process(target=int).start(),
    "workers of joblib": workers_of_joblib,
}


@pytest.mark.parametrize("name", STARTS)
def test_a_test_without_the_marker_starts_no_process(name: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"starts a process .*: expected the marker `process`"):
        STARTS[name]()


@pytest.mark.process
def test_a_test_with_the_marker_does() -> None:
    assert subprocess.run([sys.executable, "-c", "raise SystemExit(3)"], check=False).returncode == 3


def ended(seconds: float, marker: str | None) -> object:
    """The end of a test that did a little, with one marker or none."""
    item: Any = SimpleNamespace(get_closest_marker=lambda name: True if name == marker else None)
    running = DurationBudget(seconds).pytest_runtest_call(item)
    next(running)
    sum(range(300_000))
    with pytest.raises(StopIteration) as stopped:
        running.send("result")
    return stopped.value.value


def test_a_test_over_the_budget_fails_unless_it_is_marked() -> None:
    assert ended(60.0, None) == ended(0.0, "slow") == ended(0.0, "process") == "result"
    with pytest.raises(pytest.fail.Exception, match=r"took .* s of the processor: expected <= 0.0, or"):
        ended(0.0, None)
