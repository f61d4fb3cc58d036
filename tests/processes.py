"""A guard by which a test may start a process only with the marker `process`; any other test fails before the start."""

import _posixsubprocess
import os
import subprocess
from collections.abc import Callable, Generator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

# The folders of tests of whole runs, commands, kernels and a browser, which get the marker when they are collected.
MARKED_FOLDERS = frozenset({"browser", "e2e", "notebooks"})
ROOT = Path(__file__).resolve().parents[1]
# The functions that start a process, or put another program into this one; the other ones in Python call these.
# joblib calls the last one, and so does multiprocessing, unless it forks.
_STARTING_FUNCTIONS: tuple[tuple[Any, str], ...] = (
    (subprocess.Popen, "__init__"),
    (os, "fork"),
    (os, "forkpty"),
    (os, "posix_spawn"),
    (os, "posix_spawnp"),
    (os, "system"),
    (os, "execv"),
    (os, "execve"),
    (_posixsubprocess, "fork_exec"),
)
# The program by which joblib counts cores, in whichever test is the first to fit in parallel.
_CORE_COUNTER = "lscpu"


class ProcessGuard:
    """A plugin of pytest that fails each test without the marker `process` that starts a process.

    No test runs while pytest-xdist starts its workers, so these starts are let through.

    Attributes:
        unmarked_test: the id of the running test if it lacks the marker `process`, else None.
    """

    def __init__(self) -> None:
        """Puts a check before each function that starts a process.

        An audit hook would see the same starts. The interpreter calls it for every `id()` too, many millions of times.
        """
        self.unmarked_test: str | None = None
        for owner, name in _STARTING_FUNCTIONS:
            setattr(owner, name, self._guarded(getattr(owner, name)))

    def _guarded(self, start_process: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that fails an unmarked test, and else starts the process."""

        @wraps(start_process)
        def start_if_marked(*arguments: Any, **named_arguments: Any) -> Any:
            self._require_no_start(start_process.__qualname__, arguments)
            return start_process(*arguments, **named_arguments)

        return start_if_marked

    def _require_no_start(self, function_name: str, arguments: tuple[Any, ...]) -> None:
        """Fails an unmarked test that starts a process by this function with these arguments."""
        counts_cores = any(
            isinstance(argument, list) and argument[:1] == [_CORE_COUNTER] for argument in arguments
        )
        if self.unmarked_test is not None and not counts_cores:
            pytest.fail(
                f"{self.unmarked_test} starts a process ({function_name}): expected the marker `process`"
            )

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Gives the marker `process` to each test in `MARKED_FOLDERS`."""
        if not MARKED_FOLDERS.isdisjoint(item.path.relative_to(ROOT).parts):
            item.add_marker(pytest.mark.process)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Watches a test without the marker `process`, with its fixtures, while it runs."""
        self.unmarked_test = None if item.get_closest_marker("process") else item.nodeid
        try:
            return (yield)
        finally:
            self.unmarked_test = None
