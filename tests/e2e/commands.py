"""Functions that start a `pate-...` command, in a new process or by calling its `main` in the test's process."""

import csv
import importlib
import io
import logging
import os
import subprocess
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from weakref import WeakValueDictionary

import pytest

Arguments = list[str] | tuple[str, ...]
"""Settings as they are typed after the name of a command: `data=table`."""
SURROUNDINGS = {"OMP_NUM_THREADS": "1", "COLUMNS": "120"}
FEW = ("data=digits_grid", "data.num_private=120", "data.num_public=30", "data.num_test=20")
SMALL = (
    *FEW,
    "teacher.num_teachers=8",
    "num_queries=20",
    "all_records=false",
    "allow_useless=true",
    "accountant=rdp",
)
"""Settings of a run in a second."""


def module_of(name: str) -> str:
    """Returns the module of a command.

    Args:
        name: the name of the module in `pate.cli`, such as `train`, or a full name with dots.
    """
    return name if "." in name else f"pate.cli.{name}"


def command(module: str, arguments: Arguments) -> list[str]:
    """Returns the command line that runs `pate-MODULE` with the Python interpreter of the test."""
    return [sys.executable, "-m", module_of(module), *arguments]


def run(
    module: str, arguments: Arguments = (), cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a new process, and returns the result for any exit code."""
    environment = os.environ | SURROUNDINGS
    return subprocess.run(
        command(module, arguments),
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        timeout=300,
        check=False,
    )


def rows_of(csv_path: Path) -> list[dict[str, str]]:
    """Returns the rows of a CSV file, each as a dictionary from the name of a column to its text."""
    with csv_path.open() as file:
        return list(csv.DictReader(file))


def call(
    module: str, arguments: Arguments = (), cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Calls the `main` of a command in the process of the test, which is seconds faster than a new process."""
    stdout = io.StringIO()
    stderr = io.StringIO()
    code = None
    main = importlib.import_module(module_of(module)).main
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(stdout), redirect_stderr(stderr):
        if cwd is not None:
            patch.chdir(cwd)
        patch.setattr(sys, "argv", [module, *arguments])
        patch.setattr("pate.cli.app.leave", sys.exit)  # `leave` would end this process
        for name, value in (SURROUNDINGS | {"HYDRA_FULL_ERROR": "1"}).items():
            patch.setenv(name, value)
        # These values are changed by the command, and put back when the block ends.
        patch.setattr(threading, "excepthook", threading.excepthook)
        patch.setattr(logging.root, "handlers", [])
        patch.setattr(logging.root, "level", logging.root.level)
        # Hydra closes all handlers that it finds, some of them with files.
        patch.setattr(logging, "_handlers", WeakValueDictionary())
        patch.setattr(logging, "_handlerList", [])
        try:
            main()
        except SystemExit as stopped:
            code = stopped.code
    assert code is None or isinstance(code, int), code
    return subprocess.CompletedProcess(
        args=[module, *arguments],
        returncode=code or 0,
        stdout=stdout.getvalue(),
        stderr=stderr.getvalue(),
    )


def succeeded(
    module: str, arguments: Arguments = (), cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Calls a command, and fails unless its exit code is 0."""
    ended = call(module, arguments=arguments, cwd=cwd)
    assert ended.returncode == 0, ended.stderr
    return ended


def refused_command(module: str, arguments: Arguments = (), cwd: Path | None = None) -> str:
    """Calls a command that refuses its settings, and returns what it writes to standard error.

    Fails if the exit code is not 2, or if standard error has a traceback.
    """
    ended = call(module, arguments=arguments, cwd=cwd)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr.rstrip("\n")
