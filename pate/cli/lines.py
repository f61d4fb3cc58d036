"""What a command says when it is done."""

from __future__ import annotations

from rich.text import Text

from pate.report.console import PlainConsole


def print_lines(*lines: str) -> None:
    """Prints lines as they are: nothing in them is markup, and none is cut at the terminal's width."""
    console = PlainConsole(highlight=False)
    for line in lines:
        console.print(Text(line), soft_wrap=True)


PRIVATE = "private: no epsilon covers it. It has mode 0600; send it to the aggregator alone, over an encrypted channel"
"""Of a file that a holder sends."""
