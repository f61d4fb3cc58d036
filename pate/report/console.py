"""What commands print: pages from templates, in which names of others are text and do nothing to a terminal."""

import math
import sys
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from pate.files.strict_json import to_json_line
from pate.report.report import Report
from pate.report.wording import add_words
from pate.validation import printable, rounded_down, rounded_up

_ANY_WIDTH = 10_000
# of which no value has any
_CELL = "\N{BROKEN BAR}"
_BREAK = "\v"


class PlainConsole(Console):
    """A console on which text only shows: escape codes and other controls of names in data or files do nothing."""

    def on_broken_pipe(self) -> None:
        """Raises the error at hand, which ends a command as it ends others whose output nobody reads."""
        raise  # rich calls this where it caught one

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As rich has it, its text printable; colors are styles, and moves of the cursor controls, which stay."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                lines = "\n".join(map(printable, segment.text.split("\n")))
                yield Segment(lines, segment.style)


def print_page(
    template: str, *, console: Console | None = None, package: str = "pate", **values: Any
) -> None:
    """Prints a page from a Jinja template of a package, in rich's markup; markup in values is text.

    Lines stay whole at any width. Those with `¦` are rows of a table, of which `br` breaks a cell. The first of them
    is a heading if it begins with `=`; then `>` before a cell aligns its column at the right. It begins with `==` where
    the terminal wraps the table rather than cuts it. `{##}` is an empty line behind one with `%`.
    """
    console = console or PlainConsole()
    page = _environment(package).get_template(template).render(values).removesuffix("\n")
    for is_table, lines in groupby(page.split("\n"), key=lambda line: _CELL in line):
        if is_table:
            _print_table(console, [line.split(_CELL) for line in lines])
        else:
            for line in lines:
                console.print(_text(line), soft_wrap=True)


def _print_table(console: Console, rows: list[list[str]]) -> None:
    width = console.width
    is_heading = rows[0][0].startswith("==")
    if rows[0][0].startswith("="):
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
        for place, cell in enumerate(rows.pop(0)):
            heading = _text(cell.lstrip("=").removeprefix(">"))
            table.add_column(
                heading, no_wrap=place == 0, vertical="bottom" if is_heading else "top"
            )
            table.columns[-1].justify = "right" if cell.startswith(">") else "left"
    else:
        table = Table.grid(padding=(0, 0, 0, 2), pad_edge=True)
        table.add_column(style="dim", no_wrap=True)
    for row in rows:
        table.add_row(*map(_text, row))
    if is_heading:
        wanted = console.measure(
            table, options=console.options.update(max_width=_ANY_WIDTH)
        ).maximum
        console.width = max(width, wanted)
    console.print(table)
    console.width = width


def _text(cell: str) -> Text:
    return Text.from_markup(cell.replace(_BREAK, "\n"), emoji=False)


def _value(value: Any) -> str:
    return escape(printable(str(value)).replace(_CELL, "|"))


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package, ""),
        undefined=StrictUndefined,
        line_statement_prefix="%",
        finalize=lambda value: value if isinstance(value, Markup) else _value(value),
    )
    environment.tests["finite"] = math.isfinite
    add_words(environment)
    environment.filters |= {
        "broken": lambda heading: Markup(_value(heading).replace(" ", _BREAK)),
        "cells": lambda values, before="": Markup(
            "".join(f"{_CELL}{before}{_value(value)}" for value in values)
        ),
        "down": rounded_down,
        "up": rounded_up,
        "small": lambda probability: f"{probability:.3g}".replace("e-0", "e-"),
    }
    environment.globals |= {"br": Markup(_BREAK)}
    return environment


def print_lines(*lines: str, stderr: bool = False) -> None:
    """Prints lines as they are: nothing in them is markup, and none is cut at the terminal's width."""
    console = PlainConsole(stderr=stderr, highlight=False)
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def print_found(form: str, found: Any, template: str, /, **values: Any) -> None:
    """Prints what a command found, for people as a page, or with `json` for programs."""
    if form == "json":
        print_json(found)
    else:
        print_page(template, **values)


def print_json(value: object) -> None:
    """Prints a value as JSON on one line, the product of a command for programs."""
    sys.stdout.write(f"{to_json_line(value)}\n")


def print_report(
    report: Report, path: Path | None = None, *, scores: bool = True, console: Console | None = None
) -> None:
    """Prints the verdict, the models' scores, the guarantee, the answer rate and, on a line, the report's path.

    Without `scores`, as in a sweep, which has a table of its own, verdict and scores are left out.
    """
    models = report.models if scores else {}
    print_page("report/report.txt", console=console, report=report, path=path, models=models)
