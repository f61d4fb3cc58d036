"""Rows of an experiment as CSV files and as tables on the terminal."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rich.table import Column, Table

from pate.report.rounding import format_delta, round_up
from reproductions.error_curves import CurvePoint
from reproductions.price import PriceRow
from reproductions.recall import Outcome


def write_csv(path: Path, rows: Sequence[Any]) -> None:
    """Rows of one dataclass, its fields as the header."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(rows[0])], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def recall_table(rows: Sequence[Outcome], title: str) -> Table:
    """Recall of each mechanism: a line for each adjacency, k and mechanism, a column for each epsilon."""
    epsilons = list(dict.fromkeys(row.epsilon for row in rows))
    table = Table("adjacency", "k", Column("mechanism", no_wrap=True), title=title)
    for epsilon in epsilons:
        table.add_column(f"recall at\nepsilon {epsilon:g}", justify="right")
    table.add_column("precision at\nthe last", justify="right")
    table.add_column("sound epsilon\nat the last", justify="right")
    table.add_column("paper's\nrecall", justify="right")
    cells = {(row.adjacency, row.k, row.mechanism, row.epsilon): row for row in rows}
    lines, before = list(dict.fromkeys(key[:3] for key in cells)), None
    for line in lines:
        if before not in (None, line[:2]):
            table.add_section()
        before = line[:2]
        found = [cells[(*line, epsilon)] for epsilon in epsilons]
        last = found[-1]
        shown = [f"{row.recall_mean:.3f} ± {row.recall_std:.3f}" for row in found]
        tail = (f"{last.precision_mean:.3f}", round_up(last.sound_epsilon, 4), last.paper_recall)
        table.add_row(line[0], str(line[1]), line[2], *shown, *tail)
    return table


def price_table(rows: Sequence[PriceRow], title: str) -> Table:
    """The paper's price of a noise beside the sound ones; a false one in red."""
    table = Table("mechanism", title=title)
    for name in ("paper's formula,\nadd/remove", "which is", "sound,\nadd/remove", "sound, same noise,\nreplace-one"):
        table.add_column(name, justify="right")
    for row in rows:
        paper = "-" if row.paper is None else f"{row.paper:.3f}"
        style = "red" if row.paper_is == "false" else None
        sound = (round_up(row.add_remove, 3), round_up(row.replace_one, 3))
        table.add_row(row.mechanism, paper, row.paper_is, *sound, style=style)
    return table


def curve_table(points: Sequence[CurvePoint]) -> Table:
    """Medians with quartiles: a line for each adjacency, k and mechanism, a column for each measure."""
    first = points[0]
    measures = list(dict.fromkeys(point.measure for point in points))
    title = (
        f"Errors on {first.data} ({first.kind}) at epsilon {first.epsilon:g}, delta {format_delta(first.delta)}: "
        "median (25th to 75th percentile)"
    )
    table = Table("adjacency", "k", "mechanism", title=title)
    for measure in measures:
        table.add_column(measure.replace("_", "-"), justify="right")
    cells = {(point.adjacency, point.k, point.mechanism, point.measure): point for point in points}
    before = None
    for line in dict.fromkeys(key[:3] for key in cells):
        if before not in (None, line[:2]):
            table.add_section()
        before = line[:2]
        found = [cells[(*line, measure)] for measure in measures]
        shown = [f"{point.median:,.0f} ({point.lower:,.0f} to {point.upper:,.0f})" for point in found]
        table.add_row(line[0], str(line[1]), line[2], *shown)
    return table
