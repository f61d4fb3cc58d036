"""Rows of a comparison as tables on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Column, Table

from pate.report.rounding import format_delta, round_up
from reproductions.top_k.outcome import ErrorRow, RecallRow
from reproductions.top_k.price import PriceRow


def recall_table(rows: Sequence[RecallRow], title: str) -> Table:
    """Recall of each mechanism: a line for each adjacency, k and mechanism, a column for each epsilon."""
    epsilons = list(dict.fromkeys(row.epsilon for row in rows))
    table = Table("adjacency", "k", Column("mechanism", no_wrap=True), title=title)
    for epsilon in epsilons:
        table.add_column(f"recall at\nepsilon {epsilon:g}", justify="right")
    table.add_column("precision at\nthe last", justify="right")
    table.add_column("sound epsilon\nat the last", justify="right")
    cells = {(row.adjacency, row.k, row.mechanism, row.epsilon): row for row in rows}
    for line in _lines(table, rows):
        found = [cells[(*line, epsilon)] for epsilon in epsilons]
        last = found[-1]
        shown = [f"{row.recall_mean:.3f} ± {row.recall_std:.3f}" for row in found]
        tail = (f"{last.precision_mean:.3f}", round_up(last.sound_epsilon, 4))
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


def error_table(rows: Sequence[ErrorRow]) -> Table:
    """Medians with quartiles: a line for each adjacency, k and mechanism, a column for each measure."""
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
        found = [cells[(*line, measure)] for measure in measures]
        shown = [f"{row.median:,.0f} ({row.lower:,.0f} to {row.upper:,.0f})" for row in found]
        table.add_row(line[0], str(line[1]), line[2], *shown)
    return table


def _lines(table: Table, rows: Sequence[RecallRow | ErrorRow]) -> Iterator[tuple[str, int, str]]:
    """Adjacency, k and mechanism of each line, with a rule where the first two change."""
    before = None
    for line in dict.fromkeys((row.adjacency, row.k, row.mechanism) for row in rows):
        if before not in (None, line[:2]):
            table.add_section()
        before = line[:2]
        yield line
