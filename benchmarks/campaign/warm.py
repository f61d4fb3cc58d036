"""Commands in forked children of a warm parent, which loads once what an interpreter loads in seconds."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

_LOADED = (
    "matplotlib",
    "scipy.optimize",
    "scipy.stats",
    "sklearn",
    "torch.utils.tensorboard",
    "pate.cli.account",
    "pate.cli.audit",
    "pate.cli.train",
    "pate.aggregators",
    "pate.data",
    "pate.mechanisms",
    "pate.report.page",
    "pate.student",
    "pate.models.linear_student",
    "pate.teachers",
    "pate.models.linear_teacher",
)
_SURROUNDINGS = {
    "OMP_NUM_THREADS": "1",
    "COLUMNS": "120",
    "HYDRA_FULL_ERROR": "1",
}
_PAUSE_S = 0.002
_PATIENCE_S = 120.0


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a command that ended."""

    code: int  # the exit code; minus the signal's number where a signal ended it
    out: str  # standard output
    err: str  # standard error

    @property
    def line(self) -> str:
        """Returns the last line of standard error, which names a mistake."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        return lines[-1] if lines else ""


class Child:
    """A running command in a forked process.

    Args:
        act: what it does; raises SystemExit where it exits.
    """

    def __init__(self, act: Callable[[], Any]) -> None:
        self._files = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]  # noqa: SIM115 - closed by wait()
        self.pid = os.fork()
        if self.pid == 0:
            _become(act, *(file.fileno() for file in self._files))
        self._code: int | None = None

    def wait(self, patience: float = _PATIENCE_S) -> Ended:
        """Waits for the end; kills the command after `patience` seconds, and then returns code and text of the kill."""
        deadline = time.monotonic() + patience
        while not self.ended():
            if time.monotonic() > deadline:
                self.kill()
                break
            time.sleep(_PAUSE_S)
        return Ended(self._code or 0, *_texts(self._files))

    def ended(self) -> bool:
        """Returns True once the command has ended."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is not None

    def kill(self) -> None:
        """Sends SIGKILL and waits for the end."""
        if not self.ended():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class FreshProcess:
    """A running command in an interpreter of its own, with the methods of `Child`.

    Args:
        module: the module of the command in `pate.cli`.
        arguments: its settings.
        variables: environment variables beside those of this process.
    """

    def __init__(self, module: str, arguments: Sequence[str], variables: Mapping[str, str]) -> None:
        self._files = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]  # noqa: SIM115 - closed by wait()
        out, err = self._files
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"pate.cli.{module}", *arguments],
            stdout=out,
            stderr=err,
            env={**os.environ, **_SURROUNDINGS, **variables},
        )
        self.pid = self._process.pid

    def wait(self, patience: float = _PATIENCE_S) -> Ended:
        """Waits for the end; see `Child.wait`."""
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
        return Ended(self._process.returncode, *_texts(self._files))

    def ended(self) -> bool:
        """Returns True once the command has ended."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Sends SIGKILL and waits for the end."""
        self._process.kill()
        self._process.wait()


def _texts(files: list[Any]) -> list[str]:
    """Returns the contents of files, and closes them."""
    texts = []
    for file in files:
        file.seek(0)
        texts.append(file.read().decode(errors="replace"))
        file.close()
    return texts


def warm_up() -> None:
    """Loads the modules of commands; starts no thread, which a fork would not copy."""
    for name in _LOADED:
        with contextlib.suppress(ImportError):  # an extra that is not installed
            importlib.import_module(name)


def command(
    module: str, arguments: Sequence[str], prepare: Callable[[], None] | None = None
) -> Child:
    """Starts `python -m pate.cli.MODULE ARGUMENTS` in a child, where `prepare` is called first."""

    def act() -> None:
        sys.argv = [f"pate-{module}", *arguments]
        warnings.resetwarnings()  # removes the filters of a test that calls this
        handlers: Any = logging
        logging.root.handlers = []
        handlers._handlers = WeakValueDictionary()
        handlers._handlerList = []
        os.environ |= _SURROUNDINGS
        importlib.import_module("torch").set_num_threads(1)
        _leave_pictures_out()
        if prepare is not None:
            prepare()
        importlib.import_module(f"pate.cli.{module}").main()

    return Child(act)


def _leave_pictures_out() -> None:
    """Removes the pictures of reports, which take longer than so small a run and decide nothing."""
    page: Any = importlib.import_module("pate.report.page")
    if hasattr(page, "pictures"):
        page.pictures = lambda *_, **__: {}


def _become(act: Callable[[], Any], out: int, err: int) -> None:
    """Runs `act` as the child process; never returns."""
    code: object = 70
    try:
        atexit._clear()  # those of the parent would delete its folders and print warnings
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open to the end
        # The interpreter writes standard error by lines, too: a command that ends at once loses no line.
        sys.stderr = open(2, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115 - open to the end
        act()
        code = 0
    except SystemExit as stopped:
        code = stopped.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)
