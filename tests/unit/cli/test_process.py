"""Commands end soon after a signal, with a line and a code, and with all their processes; closed streams end none."""

import signal
import subprocess
import sys
import time
from pathlib import Path

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
    ("signal_number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_each_signal_prints_one_line_and_sets_the_code(
    signal_number: signal.Signals, code: int
) -> None:
    """SIGINT, SIGTERM and SIGHUP end a process with one line and the code 128 + signal."""
    process = started_process()
    process.send_signal(signal_number)
    _, errors = process.communicate(timeout=60)
    reason = "interrupted" if signal_number == signal.SIGINT else f"ended by {signal_number.name}"
    assert (process.returncode, errors) == (code, reason + LINE)


def test_second_signal_kills_the_process() -> None:
    """A second SIGTERM kills a process that is still ending after the first SIGTERM."""
    # the thread that ends an unresponsive process must not do it before the second signal does
    postponed_forced_end = (
        "import pate.cli.process; pate.cli.process._SECONDS_UNTIL_FORCED_END = 60"
    )
    process = started_process(
        setup=postponed_forced_end, ending="print('ending', flush=True); time.sleep(30)"
    )
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.readline() == "ending\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM


CHILD = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
WORKERS = "__import__('joblib.externals.loky').externals.loky.ProcessPoolExecutor(1).submit(time.sleep, 600)"


@pytest.mark.parametrize("child", [CHILD, WORKERS], ids=["a child", "workers"])
def test_unresponsive_computation_is_killed_with_its_descendants(child: str) -> None:
    """SIGTERM ends a process that swallows its exception, with all descendants, within a minute and with code 143.

    The descendants are a child or workers. The process swallows exceptions as a computation outside Python would do.
    """
    # The test waits for the word "working": from there on, an exception is raised within the `try` alone.
    work_lines = (
        "try:",
        "    print('working', flush=True)",
        "    while True: time.sleep(0.05)",
        "except KeyboardInterrupt: pass",
    )
    process = started_process(setup=f"child = {child}", work="\n            ".join(work_lines))
    assert process.stdout is not None
    process.stdout.readline()
    start_time = time.monotonic()
    process.send_signal(signal.SIGTERM)
    # A child that was left alive would hold the pipe for ten minutes.
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - start_time < 60
    assert (process.returncode, errors) == (143, f"ended by SIGTERM{LINE}")


def test_ignored_signal_stays_ignored() -> None:
    """A process that ignores SIGHUP, as under nohup, goes on after a SIGHUP; the handler of SIGTERM is restored."""
    script = """
import os, signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
from pate.cli.process import ended_by_signals
with ended_by_signals():
    os.kill(os.getpid(), signal.SIGHUP)
print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
"""
    done = result_of_script(script)
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
    [
        pytest.param('raise RuntimeError("can\'t start new thread")', id="no thread"),
        pytest.param("raise MemoryError", id="no memory"),
        pytest.param("return 0", id="no error"),
    ],
)
def test_command_continues_if_a_thread_cannot_start(failing_start: str) -> None:
    """A command whose thread for signals cannot start works on, and SIGTERM ends it with its line and code 143.

    The start of the thread raises an error, or starts no thread and raises nothing.
    """
    done = result_of_script(script=WITHOUT_THREAD.format(failing_start=failing_start))
    assert done.returncode == 143
    assert done.stdout == f"went on\nended by SIGTERM{LINE}"
    assert done.stderr == ""


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("raise MemoryError()", id="no memory"),
        pytest.param("""raise RuntimeError("can't start new thread")""", id="no thread"),
        pytest.param(
            "raise ImportError('libtorch_cpu.so: failed to map segment from shared object')",
            id="no memory for a library",
        ),
        pytest.param(
            "raise SystemError('error return without exception set')", id="no memory for an error"
        ),
        pytest.param(
            "try:\n  raise MemoryError\nfinally:\n  1 // 0",
            id="an error that follows from no memory",
        ),
    ],
)
def test_shortages_while_loading_a_command_print_one_line(statement: str) -> None:
    """A lack of memory or threads while a command is loaded gives one line and code 1.

    So does an error that follows from such a lack.
    """
    done = result_of_script(script=f"import pate.cli\n{statement}")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.endswith(
        "; the same command continues once there is more memory, and threads to start\n"
    )


def test_an_interrupt_while_loading_a_command_prints_one_word() -> None:
    """An interrupt while a command is loaded prints one word and no traceback."""
    done = result_of_script(script="import pate.cli; raise KeyboardInterrupt")
    assert done.returncode != 0
    assert done.stderr == "interrupted\n"


def test_a_fault_while_loading_a_command_prints_its_traceback() -> None:
    """An error of our own code while a command is loaded prints its traceback."""
    done = result_of_script(script="import pate.cli; raise KeyError")
    assert done.stderr.startswith("Traceback (most")


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


@pytest.mark.parametrize(
    "closing",
    [
        pytest.param("2>&-", id="standard error"),
        pytest.param(">&-", id="standard output"),
        pytest.param("<&-", id="standard input"),
        pytest.param("<&- >&- 2>&-", id="all three"),
    ],
)
def test_closed_streams_are_opened_on_dev_null(closing: str, tmp_path: Path) -> None:
    """Standard streams that a shell has closed are opened on /dev/null, so that no file gets their descriptors."""
    (tmp_path / "script.py").write_text(SCRIPT)
    command = f"{sys.executable} {tmp_path / 'script.py'} {tmp_path / 'ledger'} {closing}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "lost sys.stderr" not in done.stderr
    assert (tmp_path / "ledger").read_text() == ""


def test_closed_error_stream_does_not_end_a_command(tmp_path: Path) -> None:
    """If nobody reads standard error, a command prints to standard output and ends with code 0."""
    command = [
        sys.executable,
        "-c",
        "import sys; sys.stdin.read(1)\n" + SCRIPT,
        str(tmp_path / "file"),
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stderr.close()
        process.stdin.close()
        assert process.stdout.read() == "on standard output\na library's words"
    assert process.returncode == 0
