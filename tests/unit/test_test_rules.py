"""What the suite holds its own tests to: no process without the marker."""

import multiprocessing
import os
import subprocess
import sys

import pytest
from joblib import Parallel, delayed
from joblib.externals.loky import reusable_executor


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
