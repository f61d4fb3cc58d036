"""A comparison on the terminal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pate.comparison.frontier import (
    NOT_COVERED,
    Frontier,
    Point,
    baseline_name,
    baseline_title,
    goal_cells,
    goal_names,
    score,
    verdict,
)
from pate.report.console import PlainConsole, titled_table
from pate.report.report import SEEDED_WARNING
from pate.report.tables import METRIC_NAMES

_ANY_WIDTH = 10_000


def print_frontier(frontier: Frontier, folder: Path, *, console: Console | None = None) -> None:
    """Prints the scores, the cheapest epsilon for each goal, what no epsilon covers, and the files in the folder."""
    console = console or PlainConsole()
    console.print(Text(verdict(frontier), style="bold"), soft_wrap=True)
    console.print(_scores(frontier, console))
    console.print(_goals(frontier))
    metric = frontier.metric
    for run in frontier.baselines:
        console.print(f"{baseline_name(run)}: {METRIC_NAMES[metric]} {getattr(run, metric):.3f}", highlight=False)
    for line in frontier.lines:
        if note := next((point.note for point in line.points if point.note), ""):
            count = sum(bool(point.note) for point in line.points)
            console.print(
                Text(f"{line.title}: out of reach at {count} epsilons: {note}", style="yellow"), soft_wrap=True
            )
    console.print(Text(f"{NOT_COVERED} {SEEDED_WARNING.capitalize()}.", style="yellow"), soft_wrap=True)
    for name in ("frontier.html", "frontier.png", "comparison.csv"):
        console.print(Text.assemble("written: ", (str(folder / name), "bold")), soft_wrap=True)


def _scores(frontier: Frontier, console: Console) -> Table:
    table = _scores_with(frontier, frontier.has_spread)
    wanted = console.measure(table, options=console.options.update(max_width=_ANY_WIDTH)).maximum
    return table if wanted <= console.width else _scores_with(frontier, False)


def _scores_with(frontier: Frontier, spread: bool) -> Table:
    kind = "real" if frontier.real else "synthetic"
    over = "mean ± std over the seeds" if spread else "mean over the seeds" if frontier.has_spread else "one seed"
    table = titled_table(
        f"{frontier.dataset} ({kind}), {METRIC_NAMES[frontier.metric]} of the student by epsilon, {over}"
    )
    table.add_column("", no_wrap=True)
    table.add_column("teachers", justify="right")
    for epsilon in frontier.epsilons:
        table.add_column(f"{epsilon:g}", justify="right")
    for line in frontier.ranked:
        by_epsilon = {point.epsilon: score(point) if spread else _short(point) for point in line.points}
        cells = [by_epsilon.get(epsilon, "") for epsilon in frontier.epsilons]
        table.add_row(Text(line.name), f"{line.num_teachers:,}", *cells)
    return table


def _short(point: Point) -> str:
    return score(replace(point, std=None)).removeprefix("0")


def _goals(frontier: Frontier) -> Table:
    ceiling = baseline_title(frontier.ceiling_name)
    table = titled_table(f"cheapest epsilon tried that reaches a share of the way from a constant to the {ceiling}")
    table.add_column("", no_wrap=True)
    for name in goal_names(frontier):
        table.add_column(name, justify="right")
    for line in frontier.ranked:
        table.add_row(Text(line.title), *goal_cells(frontier, line))
    return table
