"""Starting a process takes the marker `process`: any other test that starts one fails, and the process never begins."""

import _posixsubprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

# whole runs, commands, kernels, a browser: marked as they are found
FOLDERS = frozenset({"browser", "e2e", "notebooks"})
ROOT = Path(__file__).resolve().parents[1]
# The C function by which multiprocessing and joblib start processes, without an audit event.
_FORK_EXEC = "_posixsubprocess.fork_exec"
_EVENTS_OF_STARTS = {
    "subprocess.Popen",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.exec",
    "os.system",
    _FORK_EXEC,
}
# The program by which joblib counts cores, in whichever test is the first to fit in parallel.
_CORE_COUNTER = "lscpu"


class ProcessGuard:
    """A plugin of pytest that fails each test without the marker `process` that starts a process.

    Workers of pytest-xdist are started before it listens.

    Attributes:
        watched: the id of the running test if it may start no process, else None.
    """

    def __init__(self) -> None:
        """Watches audit events and the C function by which `multiprocessing` and joblib start processes without one."""
        self.watched: str | None = None
        start = _posixsubprocess.fork_exec

        def fork_exec(*arguments: Any) -> int:
            self._require_no_start(_FORK_EXEC, arguments)
            return start(*arguments)

        _posixsubprocess.fork_exec = fork_exec
        sys.addaudithook(self._require_no_start)

    def _require_no_start(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Fails the watched test if an event of the interpreter's audit is the start of a process."""
        is_start = event in _EVENTS_OF_STARTS and arguments[:1] != (_CORE_COUNTER,)
        if self.watched is not None and is_start:
            pytest.fail(f"{self.watched} starts a process ({event}): expected the marker `process`")

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Gives the marker `process` to each test in `FOLDERS`."""
        if not FOLDERS.isdisjoint(item.path.relative_to(ROOT).parts):
            item.add_marker(pytest.mark.process)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Watches a test without the marker `process`, with its fixtures, while it runs."""
        self.watched = None if item.get_closest_marker("process") else item.nodeid
        try:
            return (yield)
        finally:
            self.watched = None
