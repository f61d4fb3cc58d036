"""The output of commands: pages from templates. Names in data or files are plain text, without effect on a terminal."""

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
# characters of templates, which no value contains
_CELL = "\N{BROKEN BAR}"  # between cells of a table
_BREAK = "\v"  # within a cell


class PlainConsole(Console):
    """A console that prints text as it is: escape codes and other controls in names of data or files have no effect."""

    def on_broken_pipe(self) -> None:
        """Raises the current error, which ends a command whose output nobody reads."""
        raise  # rich calls this method while it handles the error

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yields the segments of rich with printable text; styles, and rich's own moves of the cursor, stay."""
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

    Lines stay whole at any width. Lines with `¦` are rows of a table, and `br` breaks a cell. The first row is a
    heading if it begins with `=`; `>` before a cell of it aligns the column at the right. A heading that begins with
    `==` lets the terminal wrap the table rather than cut it. `{##}` is an empty line after a line with `%`.

    Args:
        template: its path in the package.
        console: where it is printed; None for standard output.
        package: of the template.
        **values: by the names that the template reads.
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
    """Prints rows of cells, the first of which may be a heading (`print_page`)."""
    width = console.width
    is_wrapped = rows[0][0].startswith("==")
    if rows[0][0].startswith("="):
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
        for place, cell in enumerate(rows.pop(0)):
            heading = _text(cell.lstrip("=").removeprefix(">"))
            table.add_column(
                heading, no_wrap=place == 0, vertical="bottom" if is_wrapped else "top"
            )
            table.columns[-1].justify = "right" if cell.startswith(">") else "left"
    else:
        table = Table.grid(padding=(0, 0, 0, 2), pad_edge=True)
        table.add_column(style="dim", no_wrap=True)
    for row in rows:
        table.add_row(*map(_text, row))
    if is_wrapped:
        options = console.options.update(max_width=_ANY_WIDTH)
        console.width = max(width, console.measure(table, options=options).maximum)
    console.print(table)
    console.width = width


def _text(cell: str) -> Text:
    """Returns the text of a template's markup."""
    return Text.from_markup(cell.replace(_BREAK, "\n"), emoji=False)


def _value(value: Any) -> str:
    """Returns a value as text without markup, controls or cells."""
    return escape(printable(str(value)).replace(_CELL, "|"))


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package, ""),
        undefined=StrictUndefined,
        line_statement_prefix="%",
        finalize=_finalize,
    )
    environment.tests["finite"] = math.isfinite
    add_words(environment)
    environment.filters |= {
        "broken": _broken,
        "cells": _cells,
        "down": rounded_down,
        "up": rounded_up,
        "small": _small,
    }
    environment.globals |= {"br": Markup(_BREAK)}
    return environment


def _finalize(value: Any) -> str:
    """Returns what a template prints for a value: markup of filters stays, anything else is text."""
    return value if isinstance(value, Markup) else _value(value)


def _broken(heading: str) -> Markup:
    """Returns a heading with a word on each line."""
    return Markup(_value(heading).replace(" ", _BREAK))


def _cells(values: Iterable[Any], before: str = "") -> Markup:
    """Returns values as cells of a row, with `before` before each."""
    return Markup("".join(f"{_CELL}{before}{_value(value)}" for value in values))


def _small(probability: float) -> str:
    """Returns a probability with three digits, such as 1e-6."""
    return f"{probability:.3g}".replace("e-0", "e-")


def print_lines(*lines: str, stderr: bool = False) -> None:
    """Prints lines as they are, without markup, and not cut at the terminal's width."""
    console = PlainConsole(stderr=stderr, highlight=False)
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def print_result(form: str, result: Any, template: str, /, **values: Any) -> None:
    """Prints the result of a command: with the form `json` for programs, otherwise as a page for people.

    Args:
        form: "json", or another for the page.
        result: printed as JSON.
        template: of the page.
        **values: by the names that the template reads.
    """
    if form == "json":
        print_json(result)
    else:
        print_page(template, **values)


def print_json(value: object) -> None:
    """Prints a value as JSON on one line, for programs."""
    sys.stdout.write(f"{to_json_line(value)}\n")


def print_report(
    report: Report, path: Path | None = None, *, scores: bool = True, console: Console | None = None
) -> None:
    """Prints the verdict, the models' scores, the guarantee, the answer rate and, on a line, the report's path.

    Without `scores` verdict and scores are left out: a sweep has a table of its own.
    """
    models = report.models if scores else {}
    print_page("report/report.txt", console=console, report=report, path=path, models=models)
