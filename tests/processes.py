"""A guard by which a test may start a process only with the marker `process`; any other test fails before the start."""

import _posixsubprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

# The folders of tests of whole runs, commands, kernels and a browser, which get the marker when they are collected.
MARKED_FOLDERS = frozenset({"browser", "e2e", "notebooks"})
ROOT = Path(__file__).resolve().parents[1]
# The C function by which multiprocessing and joblib start processes, without an audit event.
_FORK_EXEC = "_posixsubprocess.fork_exec"
_EVENTS_OF_STARTS = frozenset(
    {
        "subprocess.Popen",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.exec",
        "os.system",
    }
)
# The program by which joblib counts cores, in whichever test is the first to fit in parallel.
_CORE_COUNTER = "lscpu"


class ProcessGuard:
    """A plugin of pytest that fails each test without the marker `process` that starts a process.

    Workers of pytest-xdist are started before it listens.

    Attributes:
        unmarked_test: the id of the running test if it lacks the marker `process`, else None.
    """

    def __init__(self) -> None:
        """Watches audit events and the C function by which `multiprocessing` and joblib start processes without one."""
        self.unmarked_test: str | None = None
        start_process = _posixsubprocess.fork_exec

        def fork_exec(*arguments: Any) -> int:
            self._require_no_start(_FORK_EXEC, arguments)
            return start_process(*arguments)

        _posixsubprocess.fork_exec = fork_exec

        def watch(
            event_name: str,
            arguments: tuple[Any, ...],
            event_names: frozenset[str] = _EVENTS_OF_STARTS,
        ) -> None:
            # The interpreter calls this millions of times, so it looks up no global name or attribute for other events.
            if event_name in event_names:
                self._require_no_start(event_name, arguments)

        sys.addaudithook(watch)

    def _require_no_start(self, event_name: str, arguments: tuple[Any, ...]) -> None:
        """Fails an unmarked test that starts a process, as this event and its arguments say."""
        if self.unmarked_test is not None and arguments[:1] != (_CORE_COUNTER,):
            pytest.fail(
                f"{self.unmarked_test} starts a process ({event_name}): expected the marker `process`"
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
