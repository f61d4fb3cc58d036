"""Rows of a comparison as tables on the terminal and as pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Column, Table

from pate.accounting.rounding import format_delta, format_epsilon
from reproductions.top_k.contender import FAMILIES
from reproductions.top_k.grid import ErrorRow, RecallRow
from reproductions.top_k.price import PriceRow


def recall_table(rows: Sequence[RecallRow], title: str) -> Table:
    """Returns recalls: a line for each adjacency, k and mechanism, a column for each epsilon."""
    epsilons = list(dict.fromkeys(row.epsilon for row in rows))
    table = Table("adjacency", "k", Column("mechanism", no_wrap=True), title=title)
    for epsilon in epsilons:
        table.add_column(f"recall at\nepsilon {epsilon:g}", justify="right")
    table.add_column("precision at\nthe last", justify="right")
    table.add_column("sound epsilon\nat the last", justify="right")
    cells = {(row.adjacency, row.k, row.mechanism, row.epsilon): row for row in rows}
    for line in _lines(table, rows):
        rows_of_line = [cells[(*line, epsilon)] for epsilon in epsilons]
        last = rows_of_line[-1]
        recalls = [f"{row.recall_mean:.3f} ± {row.recall_std:.3f}" for row in rows_of_line]
        table.add_row(
            line[0],
            str(line[1]),
            line[2],
            *recalls,
            f"{last.precision_mean:.3f}",
            format_epsilon(last.sound_epsilon),
        )
    return table


def price_table(rows: Sequence[PriceRow], title: str) -> Table:
    """Returns the paper's price of a noise next to the sound prices; a false price is red."""
    table = Table("mechanism", title=title)
    for name in (
        "paper's formula,\nadd/remove",
        "which is",
        "sound,\nadd/remove",
        "sound, same noise,\nreplace-one",
    ):
        table.add_column(name, justify="right")
    for row in rows:
        paper = "-" if row.paper is None else f"{row.paper:.3f}"
        style = "red" if row.paper_is == "false" else None
        table.add_row(
            row.mechanism,
            paper,
            row.paper_is,
            format_epsilon(row.add_remove),
            format_epsilon(row.replace_one),
            style=style,
        )
    return table


def error_table(rows: Sequence[ErrorRow]) -> Table:
    """Returns medians with quartiles: a line for each adjacency, k and mechanism, a column for each measure."""
    first = rows[0]
    measures = list(dict.fromkeys(row.measure for row in rows))
    title = (
        f"Errors on {first.data} ({first.kind}) at epsilon {first.epsilon:g}, delta {format_delta(first.delta)}: "
        "median (25th to 75th percentile)"
    )
    table = Table("adjacency", "k", "mechanism", title=title)
    for measure in measures:
        table.add_column(measure.replace("_", "-"), justify="right")
    cells = {(row.adjacency, row.k, row.mechanism, row.measure): row for row in rows}
    for line in _lines(table, rows):
        rows_of_line = [cells[(*line, measure)] for measure in measures]
        medians = [
            f"{row.median:,.0f} ({row.lower:,.0f} to {row.upper:,.0f})" for row in rows_of_line
        ]
        table.add_row(line[0], str(line[1]), line[2], *medians)
    return table


def _lines(table: Table, rows: Sequence[RecallRow | ErrorRow]) -> Iterator[tuple[str, int, str]]:
    """Yields adjacency, k and mechanism of each line, with a rule where the first two change."""
    before = None
    for line in dict.fromkeys((row.adjacency, row.k, row.mechanism) for row in rows):
        if before not in (None, line[:2]):
            table.add_section()
        before = line[:2]
        yield line


_COLORS = "#0072B2 #56B4E9 #000000 #D55E00 #E69F00 #009E73 #8bc34a #a0508a #CC79A7 #8d6e63 #d81b60 #607d8b #9e9d24"
_MARKERS = "oHsv^DdPX<>*h"
_DASHES = ("-", (0, (4, 1.5)), (0, (1.2, 1.2)))
_LOOKS: dict[str, dict[str, Any]] = {  # marker and dashes distinguish the lines, too
    family.label: {"color": color, "marker": marker, "linestyle": _DASHES[index % len(_DASHES)]}
    for index, (family, color, marker) in enumerate(
        zip(FAMILIES.values(), _COLORS.split(), _MARKERS, strict=True)
    )
}
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "pate",
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "legend.frameon": False,
    "lines.markersize": 4.5,
    "lines.linewidth": 1.4,
}


def recall_picture(rows: Sequence[RecallRow], path: Path, *, over: str, panels: str) -> None:
    """Draws mean recall over a field of the rows: a column of panels for each value of another, a row per adjacency."""
    columns = list(dict.fromkeys(getattr(row, panels) for row in rows))
    adjacencies = list(dict.fromkeys(row.adjacency for row in rows))

    def paint(axes: Axes, adjacency: str, column: Any) -> None:
        panel_rows = [
            row for row in rows if row.adjacency == adjacency and getattr(row, panels) == column
        ]
        for label in dict.fromkeys(row.mechanism for row in panel_rows):
            line = [row for row in panel_rows if row.mechanism == label]
            axes.plot(
                [getattr(row, over) for row in line],
                [row.recall_mean for row in line],
                label=label,
                **_LOOKS[label],
            )
        name = panel_rows[0].data if panels == "data" else f"{panels} {column:g}"
        axes.set(
            title=f"{name},\n{_words(adjacency)}", xlabel=over, ylabel="recall", ylim=(-0.03, 1.03)
        )
        values = sorted({getattr(row, over) for row in panel_rows})
        if over == "k":
            axes.set_xscale("log")
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()

    _save(path, rows=adjacencies, columns=columns, paint=paint)


def error_picture(rows: Sequence[ErrorRow], path: Path) -> None:
    """Draws medians over k with the quartiles as bands: a column of panels for each measure, a row per adjacency."""
    adjacencies = list(dict.fromkeys(row.adjacency for row in rows))
    measures = list(dict.fromkeys(row.measure for row in rows))

    def paint(axes: Axes, adjacency: str, measure: str) -> None:
        panel_rows = [row for row in rows if row.adjacency == adjacency and row.measure == measure]
        for label in dict.fromkeys(row.mechanism for row in panel_rows):
            line = [row for row in panel_rows if row.mechanism == label]
            ks, look = [row.k for row in line], _LOOKS[label]
            axes.plot(ks, [1 + row.median for row in line], label=label, **look)
            low, high = [1 + row.lower for row in line], [1 + row.upper for row in line]
            axes.fill_between(ks, low, high, color=look["color"], alpha=0.12, linewidth=0)
        title = f"{measure.replace('_', '-')}, {_words(adjacency)}"
        axes.set(title=title, xlabel="k", ylabel="1 + error in counts", yscale="log")

    _save(path, rows=adjacencies, columns=measures, paint=paint)


def _words(adjacency: str) -> str:
    return {"add_remove": "add/remove", "replace_one": "replace-one"}[adjacency]


def _save(
    path: Path, rows: Sequence[str], columns: Sequence[Any], paint: Callable[[Axes, str, Any], None]
) -> None:
    """Draws all panels with one legend below."""
    with mpl.rc_context(_STYLE):
        figure = Figure(
            figsize=(max(2.6 * len(columns), 5.2), 2.5 * len(rows) + 0.9),
            facecolor="white",
            layout="constrained",
        )
        grid = figure.subplots(len(rows), len(columns), squeeze=False)
        for line, row in zip(grid, rows, strict=True):
            for axes, column in zip(line, columns, strict=True):
                paint(axes, row, column)
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
