"""Standard streams that are closed or broken end no command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

SCRIPT = """
import os, sys
from pate.cli.streams import mend_streams
mend_streams()
print("on standard error", file=sys.stderr, flush=True)
print("on standard output", flush=True)
with open(sys.argv[1], "w") as file:
    assert file.fileno() > 2, file.fileno()
    os.write(2, b"a library's words")
    os.write(1, b"a library's words")
"""


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_go_nowhere_and_no_file_takes_their_number(closed: str, tmp_path: Path) -> None:
    written = tmp_path / "file"
    (tmp_path / "script.py").write_text(SCRIPT)
    command = f"{sys.executable} {tmp_path / 'script.py'} {written} {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "lost sys.stderr" not in done.stderr
    assert written.read_text() == ""


def test_an_error_stream_that_nobody_reads_ends_no_command(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read(1)\n" + SCRIPT, str(tmp_path / "file")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    process.stderr.close()
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    assert process.stdout.read() == "on standard output\na library's words"
    process.stdout.close()
    assert process.wait() == 0


HELP = """
import os, sys
from pate.cli import app

def hydras_help(_task):
    print("help")
    sys.exit(0)

read, write = os.pipe()
os.dup2(write, 1)
os.close(read), os.close(write)
app.hydra.main = lambda **_: lambda task: lambda: hydras_help(task)
sys.argv = ["pate-audit", "--help"]
app.run_app(None, "audit")
"""


def test_help_that_nobody_reads_to_its_end_is_no_error() -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=False, env=buffered)
    assert (done.returncode, done.stderr) == (141, "")
