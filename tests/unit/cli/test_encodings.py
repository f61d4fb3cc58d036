"""Commands end without a traceback if their output goes to an encoding that lacks letters, or to a closed pipe."""

from __future__ import annotations

import codecs
import io
import subprocess
import sys
from typing import Any

import pytest

from pate.cli.monitor import ConsoleMonitor
from pate.cli.process import _PLAIN_LETTERS, plain_letters
from pate.report.console import PlainConsole, print_lines, print_page

codecs.register_error(_PLAIN_LETTERS, plain_letters)


def stream_of_encoding(text_encoding: str) -> io.TextIOWrapper:
    """Returns a stream of this encoding that replaces letters as the commands do."""
    return io.TextIOWrapper(io.BytesIO(), text_encoding, errors=_PLAIN_LETTERS, write_through=True)


def written_bytes(text_stream: Any) -> bytes:
    """Returns the bytes that were written to a stream."""
    content: bytes = text_stream.buffer.getvalue()
    return content


@pytest.mark.parametrize(
    ("text_encoding", "content"),
    [
        ("ascii", rb"Gr\xfc\xdfe ... 3 +- 1 \u65e5"),
        ("latin-1", "Grüße ... 3 ± 1 \\u65e5".encode("latin-1")),
        ("cp1252", "Grüße … 3 ± 1 \\u65e5".encode("cp1252")),
        ("utf-8", "Grüße … 3 ± 1 日".encode()),
    ],
)
def test_letters_missing_in_an_encoding_are_replaced(text_encoding: str, content: bytes) -> None:
    """A stream replaces the letters that its encoding lacks by similar letters or by escapes."""
    text_stream = stream_of_encoding(text_encoding)
    text_stream.write("Grüße … 3 ± 1 日")
    assert written_bytes(text_stream) == content


@pytest.mark.parametrize("text_encoding", ["ascii", "latin-1", "cp1252", "koi8-r"])
def test_tables_and_bars_are_printed_in_any_encoding(
    text_encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages, bars and lines with foreign letters are printed in an encoding without them, and no error is raised."""
    text_stream = stream_of_encoding(text_encoding)
    monkeypatch.setattr(sys, "stdout", text_stream)
    print_lines("Fieber … é 日")
    console = PlainConsole(file=text_stream, force_terminal=True, width=80)
    column = {"name": "Größe 日", "kind": "number", "feature_names": ("a",), "has_missing": True}
    print_page(
        text_template_path="cli/schema.txt",
        console=console,
        as_setting=lambda name, value: f"{name}={value}",
        schema={"columns": [column]},
        output="ü.yaml",
        lines=["±"],
        parts={"test": "test.csv"},
        next_steps="",
        command="pate-train",
    )
    monitor = ConsoleMonitor(console)
    with monitor.stage("Größe … 日", total=3) as advance:
        advance(1, note="±")
    monitor.say("… 日")
    assert rb"\u65e5" in written_bytes(text_stream)


PROGRAM = """
import sys
from pate.cli.process import mend_streams
mend_streams()
print("Grüße …")
print("Grüße …", file=sys.stderr)
"""


@pytest.mark.process
def test_standard_streams_replace_letters_their_encoding_lacks() -> None:
    """A process with ASCII streams prints escapes or similar letters for foreign ones, and ends with code 0."""
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, env=environment, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, *[b"Gr\\xfc\\xdfe ...\n"] * 2)


def test_closed_pipe_ends_a_table_like_other_output() -> None:
    """Printing to a closed pipe raises `BrokenPipeError`."""

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        PlainConsole(file=Closed()).print("a table")
