"""The output of commands: pages from Jinja templates, lines, and JSON.

Names in data or files are printed as plain text. Control codes in such names have no effect on the terminal.
"""

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

from pate.accounting.rounding import ceil_to_digits, floor_to_digits
from pate.files.strict_json import to_json_line
from pate.report.report import Report
from pate.report.wording import add_words
from pate.validation import printable

# A width of the terminal, in characters, that no table reaches.
_UNLIMITED_WIDTH = 10_000
# The separator of cells in a line of a template. No printed value contains it.
_TEMPLATE_CELL_SEPARATOR = "\N{BROKEN BAR}"
# A line break within a cell of a template. No printed value contains it.
_VERTICAL_TAB = "\v"
# The beginnings of a line of a template that is the heading of a table, and of one whose table is wrapped.
_HEADING_MARK = "="
_WRAPPED_TABLE_MARK = "=="


class PlainConsole(Console):
    """A console of the package rich that prints texts without control codes, such as those in names from data files."""

    def on_broken_pipe(self) -> None:
        """Raises the current error, which ends the command if no program reads its output any more."""
        raise  # rich calls this method while it handles the error

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yields the segments that rich makes of an object to print, with control codes in texts made visible.

        Styles, and the cursor moves of rich itself, stay as they are.
        """
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                printable_text = "\n".join(map(printable, segment.text.split("\n")))
                yield Segment(printable_text, segment.style)


def print_page(
    text_template_path: str,
    *,
    console: Console | None = None,
    package_name: str = "pate",
    **template_values: Any,
) -> None:
    """Prints a page from a Jinja template with rich's markup. Markup in the values is printed as text.

    Lines are not wrapped. Lines with `¦`, which separates cells, are rows of a table. The template's variable `br` is a
    line break in a cell. If the first row begins with `=`, it is a heading; `>` before a cell of the heading aligns its
    column at the right. If a heading begins with `==`, a narrow terminal wraps the table instead of cutting it. After a
    line with `%`, a statement of Jinja, `{##}` makes an empty line.

    Args:
        text_template_path: the path of the template in the package.
        console: the console; None prints on standard output.
        package_name: the name of the package with the template.
        **template_values: the values for the template, by name.
    """
    console = console or PlainConsole()
    page_in_rich_markup = (
        _environment(package_name)
        .get_template(text_template_path)
        .render(template_values)
        .removesuffix("\n")
    )
    for is_table, page_lines in groupby(page_in_rich_markup.split("\n"), key=_is_table_row):
        if is_table:
            _print_table(
                console,
                cell_rows=[page_line.split(_TEMPLATE_CELL_SEPARATOR) for page_line in page_lines],
            )
        else:
            for page_line in page_lines:
                console.print(_styled_text(page_line), soft_wrap=True)


def _is_table_row(line: str) -> bool:
    """Returns True if a line of a page is a row of a table, that is, has the separator of cells."""
    return _TEMPLATE_CELL_SEPARATOR in line


def _print_table(console: Console, cell_rows: list[list[str]]) -> None:
    """Prints rows of cells as a table; the first row may be a heading, as `print_page` describes."""
    console_width = console.width
    first_cell = cell_rows[0][0]
    is_table_wrapped = first_cell.startswith(_WRAPPED_TABLE_MARK)
    if first_cell.startswith(_HEADING_MARK):
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
        for column_index, heading_cell in enumerate(cell_rows.pop(0)):
            heading_text = _styled_text(heading_cell.lstrip(_HEADING_MARK).removeprefix(">"))
            table.add_column(
                heading_text,
                no_wrap=column_index == 0,
                vertical="bottom" if is_table_wrapped else "top",
                justify="right" if heading_cell.startswith(">") else "left",
            )
    else:
        table = Table.grid(padding=(0, 0, 0, 2), pad_edge=True)
        table.add_column(style="dim")
    for cells in cell_rows:
        table.add_row(*[_styled_text(cell) for cell in cells])
    if is_table_wrapped:
        options = console.options.update(max_width=_UNLIMITED_WIDTH)
        console.width = max(console_width, console.measure(table, options=options).maximum)
    console.print(table)
    console.width = console_width


def _styled_text(cell: str) -> Text:
    """Returns a cell of a table, or another line of a page, as text with the styles that its rich markup names."""
    return Text.from_markup(cell.replace(_VERTICAL_TAB, "\n"), emoji=False)


def _escaped_for_terminal(value: Any) -> str:
    """Returns a value as text in which markup, control codes and cell separators have no effect."""
    return escape(printable(str(value)).replace(_TEMPLATE_CELL_SEPARATOR, "|"))


@cache  # each template is compiled once
def _environment(package_name: str) -> Environment:
    """Returns the Jinja environment that loads the templates of a package, with the filters that pages use."""
    environment = Environment(
        loader=PackageLoader(package_name, ""),
        undefined=StrictUndefined,
        line_statement_prefix="%",
        finalize=_finalize,
    )
    environment.tests["finite"] = math.isfinite
    add_words(environment)
    environment.filters |= {
        "broken": _broken_at_spaces,
        "cells": _cells,
        "down": floor_to_digits,
        "up": ceil_to_digits,
        "small": _small,
    }
    environment.globals |= {"br": Markup(_VERTICAL_TAB)}
    return environment


def _finalize(value: Any) -> str:
    """Returns the text that a template prints for a value.

    `Markup`, which filters return, is printed as it is. In any other value, markup has no effect.
    """
    return value if isinstance(value, Markup) else _escaped_for_terminal(value)


def _broken_at_spaces(heading: str) -> Markup:
    """Returns a heading with each word on a line of its own."""
    return Markup(_escaped_for_terminal(heading).replace(" ", _VERTICAL_TAB))


def _cells(values: Iterable[Any], prefix: str = "") -> Markup:
    """Returns values as cells of a table row, each with the separator of cells and then the text `prefix` before it.

    `prefix` is a mark of a heading, such as `>` (`print_page`).
    """
    return Markup(
        "".join(
            f"{_TEMPLATE_CELL_SEPARATOR}{prefix}{_escaped_for_terminal(value)}" for value in values
        )
    )


def _small(probability: float) -> str:
    """Returns a probability with up to three significant digits, such as 1e-6."""
    return f"{probability:.3g}".replace("e-0", "e-")


def print_lines(*lines: str, stderr: bool = False) -> None:
    """Prints lines without markup, and with control codes made visible; long lines are not cut."""
    console = PlainConsole(stderr=stderr, highlight=False)
    for printed_line in lines:
        console.print(Text(printed_line), soft_wrap=True)


def print_result(
    output_format: str, result: Any, text_template_path: str, /, **template_values: Any
) -> None:
    """Prints the result of a command, as JSON for programs or as a page for people.

    Args:
        output_format: "json" for JSON; any other text for the page.
        result: the result, which is printed as JSON.
        text_template_path: the path of the page's template in the package.
        **template_values: the values for the template, by name.
    """
    if output_format == "json":
        print_json(result)
    else:
        print_page(text_template_path, **template_values)


def print_json(value: object) -> None:
    """Prints a value as JSON on one line."""
    sys.stdout.write(f"{to_json_line(value)}\n")


def print_report(
    report: Report,
    report_path: Path | None = None,
    *,
    with_scores: bool = True,
    console: Console | None = None,
) -> None:
    """Prints a report: the verdict, the scores of the models, the guarantee and the answer rate.

    Args:
        report: the report.
        report_path: the path of the report, which is printed on a line of its own; None prints no path.
        with_scores: false leaves out the verdict and the scores, as a sweep prints its own table of scores.
        console: the console; None prints on standard output.
    """
    scores_by_model = report.models if with_scores else {}
    print_page(
        "report/report.txt",
        console=console,
        report=report,
        path=report_path,
        models=scores_by_model,
    )
