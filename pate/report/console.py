"""The report of a run on the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from pate.pricing.remedies import WEAK_EPSILON
from pate.report.report import PAPER_LABEL, SEEDED_WARNING, Report
from pate.report.tables import (
    METRIC_NAMES,
    accountant_of,
    charging_verdict,
    format_epsilon,
    guarantee,
    hit_counts,
    models,
    percent,
)
from pate.validation import printable


class PlainConsole(Console):
    """A console on which text only shows: escape codes and other controls of names in data or files do nothing."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich has it, its text printable; colors are styles, and moves of the cursor controls, which stay."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                lines = "\n".join(map(printable, segment.text.split("\n")))
                yield Segment(lines, segment.style)


def print_report(
    report: Report, path: Path | None = None, *, scores: bool = True, console: Console | None = None
) -> None:
    """Prints the verdict, the models' scores, the guarantee, the answer rate and, on a line, the report's path.

    Without `scores`, as in a sweep, which has a table of its own, verdict and scores are left out. Names are printed as
    they are: rich's markup in them has no effect.
    """
    console = console or PlainConsole()
    if scores:
        console.print(Text(report.verdict.text, style="bold"), soft_wrap=True)
        console.print(_score_table(report))
    for line in _lines(report):
        console.print(line, soft_wrap=True)
    if path is not None:
        console.print(Text.assemble("report: ", (str(path), "bold")), soft_wrap=True)


def titled_table(title: str) -> Table:
    """A table without columns, under a title."""
    shown = Text(title, style="bold")
    return Table(title=shown, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))


def _score_table(report: Report) -> Table:
    data = report.data
    kind = "real" if data.real else "synthetic"
    table = titled_table(f"{data.name} ({kind}), scores on {data.num_test} test samples")
    table.add_column("", no_wrap=True)
    for name in METRIC_NAMES.values():
        table.add_column(name, justify="right")
    for model in models(report):
        style = "bold" if model.key == "student" else ""
        values = [getattr(model.scores, key, None) for key in METRIC_NAMES]
        cells = ("-" if value is None else f"{value:.3f}" for value in values)
        table.add_row(Text(model.name), *cells, style=style)
    return table


def _lines(report: Report) -> list[Text]:
    privacy, release = report.privacy, report.release
    lines = [
        Text.assemble("privacy: ", (guarantee(privacy), "bold")),
        Text(f"         {report.name}, {privacy.num_queries} queries, accountant {accountant_of(privacy)}"),
    ]
    if WEAK_EPSILON < privacy.epsilon < math.inf:
        lines.append(Text(f"         epsilon above {WEAK_EPSILON} promises one person little", style="yellow"))
    if privacy.paper_epsilon is not None:
        lines.append(Text(f"         epsilon {format_epsilon(privacy.paper_epsilon)} {PAPER_LABEL}"))
    if report.data_dependent is not None:
        lines.append(Text(f"         epsilon {report.data_dependent}", style="yellow"))
    if privacy.noise_seeded:
        lines.append(Text(f"         {SEEDED_WARNING}", style="yellow"))
    answered = f"{release.num_answered} of {release.num_queries} queries ({percent(release.answer_rate)})"
    lines.append(Text(f"answered: {answered}"))
    if not release.num_answered:
        lines.append(Text("the student learned nothing, as no query was answered", style="yellow"))
    if privacy.plain_epsilon is not None:
        lines.append(Text(f"hits: {hit_counts(release)}"))
        lines.append(Text(f"target charging {charging_verdict(privacy)}"))
    lines.append(Text("baselines and scores use private or true labels: do not publish them"))
    if not report.data.real:
        lines.append(Text("synthetic data: shows that the pipeline works and nothing else", style="yellow"))
    return lines
