"""Commands end by signals soon, with a line, a code and all that they started; closed or broken streams end none."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.process

BLOCK = """
import subprocess, sys, time
from pate.cli.process import Stopped, ended_by_signals
try:
    with ended_by_signals():
        {setup}
        print("ready", flush=True)
        while True:
            {work}
except Stopped as stopped:
    {ending}
    print(stopped, file=sys.stderr)
    sys.exit(stopped.code)
"""
LINE = "; the same command continues where it stopped\n"


def result_of_script(script: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a new Python process, and returns the result."""
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )


def started_process(
    setup: str = "pass", work: str = "time.sleep(0.1)", ending: str = "pass"
) -> subprocess.Popen[str]:
    """Starts a process that works until a signal, and returns it once it is ready.

    Args:
        setup: the statement before the work.
        work: the statement that is repeated.
        ending: the statement after the signal.
    """
    command = [sys.executable, "-c", BLOCK.format(setup=setup, work=work, ending=ending)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ready")
    return process


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_each_signal_prints_one_line_and_sets_the_code(number: signal.Signals, code: int) -> None:
    """SIGINT, SIGTERM and SIGHUP end a process with one line and the code 128 + signal."""
    process = started_process()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    reason = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    assert (process.returncode, errors) == (code, reason + LINE)


def test_second_signal_kills_the_process() -> None:
    """A second SIGTERM kills a process that is still ending after the first SIGTERM."""
    process = started_process(ending="print('ending', flush=True); time.sleep(60)")
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "ending\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    # by the signal, or by the watch that was due
    assert process.returncode in (-signal.SIGTERM, 143)


CHILD = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
WORKERS = "__import__('joblib.externals.loky').externals.loky.ProcessPoolExecutor(1).submit(time.sleep, 600)"


@pytest.mark.parametrize("child", [CHILD, WORKERS], ids=["a child", "workers"])
def test_unresponsive_computation_is_killed_with_its_descendants(child: str) -> None:
    """A process ignores SIGTERM in its computation, and has a child or workers.

    SIGTERM ends this process within a minute with code 143.

    A function that swallows exceptions stands for a computation outside Python.
    """
    # from here on nothing is raised outside of the try
    working = "    print('working', flush=True)"
    work = ("try:", working, "    while True: time.sleep(0.05)", "except KeyboardInterrupt: pass")
    process = started_process(setup=f"child = {child}", work="\n            ".join(work))
    assert process.stdout is not None
    process.stdout.readline()
    sent = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)  # its child would hold the pipe for ten minutes
    assert time.monotonic() - sent < 60
    assert (process.returncode, errors) == (143, f"ended by SIGTERM{LINE}")


def test_ignored_signal_stays_ignored() -> None:
    """A process that ignores SIGHUP, as under nohup, goes on after one. Other handlers are restored afterwards."""
    lines = ("import os, signal", "signal.signal(signal.SIGHUP, signal.SIG_IGN)")
    lines += ("from pate.cli.process import ended_by_signals", "with ended_by_signals():")
    lines += (
        "    os.kill(os.getpid(), signal.SIGHUP)",
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)",
    )
    done = result_of_script(script="\n".join(lines))
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


WITHOUT_THREAD = """
import _thread, os, signal, sys, threading
def start(*_):
    {failing_start}
_thread.start_new_thread = threading._start_new_thread = start
from pate.cli.process import Stopped, ended_by_signals, leave
try:
    with ended_by_signals():
        print("went on", flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
except Stopped as stopped:
    print(stopped, flush=True)
    leave(stopped.code)
"""


@pytest.mark.parametrize(
    "failing_start",
    ['raise RuntimeError("can\'t start new thread")', "raise MemoryError", "return 0"],
)
def test_command_continues_if_a_thread_cannot_start(failing_start: str) -> None:
    """A command that cannot start the thread for its signals works on, and ends by SIGTERM with its line and code 143.

    Starting raises an error, or it starts no thread and raises nothing: `Thread.start` would wait for this thread
    forever.
    """
    done = result_of_script(script=WITHOUT_THREAD.format(failing_start=failing_start))
    assert (done.returncode, done.stdout, done.stderr) == (
        143,
        f"went on\nended by SIGTERM{LINE}",
        "",
    )


SHORTAGES = (
    "MemoryError()",
    'RuntimeError("can\'t start new thread")',
    "ImportError('libtorch_cpu.so: failed to map segment from shared object')",
    "SystemError('error return without exception set')",
)


def test_errors_while_loading_a_command_print_one_line() -> None:
    """A shortage of memory or threads while a command is loaded gives one line and code 1.

    Errors that follow from the shortage do too; an error in our own code prints its traceback.
    """
    for raised in (
        *(f"raise {each}" for each in SHORTAGES),
        "try:\n  raise MemoryError\nfinally:\n  1 // 0",
    ):
        done = result_of_script(script=f"import pate.cli\n{raised}")
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert done.stderr.endswith(
            "; the same command continues once there is more memory, and threads to start\n"
        )
    stopped, fault = (
        result_of_script(script=f"import pate.cli; raise {error}")
        for error in ("KeyboardInterrupt", "KeyError")
    )
    assert stopped.returncode != 0 and stopped.stderr == "interrupted\n"
    assert fault.stderr.startswith("Traceback (most")


SCRIPT = """
import os, sys
from pate.cli.process import mend_streams
mend_streams()
print("on standard error", file=sys.stderr, flush=True)
print("on standard output", flush=True)
with open(sys.argv[1], "w") as file:
    assert file.fileno() > 2, file.fileno()
    os.write(2, b"a library's words")
    os.write(1, b"a library's words")
"""


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_are_opened_on_dev_null(closed: str, tmp_path: Path) -> None:
    """A script starts with closed standard streams.

    The streams are opened on /dev/null, so that no file gets their number.
    """
    (tmp_path / "script.py").write_text(SCRIPT)
    command = f"{sys.executable} {tmp_path / 'script.py'} {tmp_path / 'ledger'} {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "lost sys.stderr" not in done.stderr
    assert (tmp_path / "ledger").read_text() == ""


def test_closed_error_stream_does_not_end_a_command(tmp_path: Path) -> None:
    """The reader of standard error has gone. The command prints to standard output, and ends with code 0."""
    command = [
        sys.executable,
        "-c",
        "import sys; sys.stdin.read(1)\n" + SCRIPT,
        str(tmp_path / "file"),
    ]
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = subprocess.Popen(command, **pipes, text=True)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stderr.close()
    process.stdin.close()
    assert process.stdout.read() == "on standard output\na library's words"
    process.stdout.close()
    assert process.wait() == 0
