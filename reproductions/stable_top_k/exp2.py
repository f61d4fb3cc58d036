"""Selects the states with most new cases on ten days, and up to 1,500 of 15,000 items, 700 of which have counts.

The ten days share epsilon; the 15,000 items are synthetic, and so are the days unless --path names a file.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from pate.files.atomic import write_text
from pate.validation import require
from reproductions.command import csv_text, folder, run, with_progress
from reproductions.counts import CountData, StateCases, sparse_histogram, state_cases_look_alike
from reproductions.top_k.arguments import WARNING, describe, grid_of, parser_of
from reproductions.top_k.display import price_table, recall_picture, recall_table
from reproductions.top_k.grid import RecallRow, SelectionGrid
from reproductions.top_k.price import SharedBudget, price_row

SPARSE_KS = (10, 30, 100, 300, 700, 1500)
MIN_COUNT = 500
COMPARED = ["stable", "stable_loose", "top_stable", "limited_domain", "peeling", "canonical"]


def main(arguments: list[str] | None = None) -> None:
    """Prints the tables and saves exp2_days, exp2_prices and exp2_sparse as CSV, the first and last also drawn."""
    parser = parser_of(
        str(__doc__), output_dir="outputs/exp2", ks=(15,), epsilons=(0.5, 1.0, 2.0, 4.0)
    )
    parser.set_defaults(mechanisms=COMPARED, repeats=50)
    parser.add_argument(
        "--path",
        help="us-states.csv in the New York Times' format, plain or .gz; none: a look-alike",
    )
    parser.add_argument("--num-days", type=int, default=10, help="how many days share epsilon")
    parser.add_argument(
        "--first-day", help="the first of them, such as 2020-11-01; none: the last days of the file"
    )
    parser.add_argument(
        "--sparse-k", type=int, nargs="*", default=list(SPARSE_KS), help="for the 15,000 items"
    )
    parser.add_argument(
        "--sparse-epsilon", type=float, default=1.0, help="for the 15,000 items, one release"
    )
    run(lambda: _experiment(parser.parse_args(arguments)))


def _experiment(chosen: argparse.Namespace) -> None:
    grid, days = grid_of(chosen), _days(chosen)
    shapes = (sparse_histogram(), sparse_histogram(least=MIN_COUNT))
    for k in chosen.sparse_k:
        require(
            k < len(shapes[0].items),
            "sparse_k",
            k,
            f"below the number of items, {len(shapes[0].items)}",
        )
    sparse_grid = replace(grid, ks=chosen.sparse_k or SPARSE_KS, epsilons=[chosen.sparse_epsilon])
    output, console = folder(chosen.output_dir), Console(width=160)
    title = f"EXP2 on {days.name} ({days.kind}): {len(days.counts)} days share epsilon, delta {grid.delta:g}"
    rows = _recall(days, grid, title, console)
    _save(rows, path=output / "exp2_days", over="epsilon", panels="k")
    _prices(days, grid, path=output / "exp2_prices.csv", console=console)
    if chosen.sparse_k:
        title = "EXP2 on the {0.name} ({0.kind}), 700 counts, delta {1:g}"
        sparse_rows = [
            row
            for data in shapes
            for row in _recall(
                data, sparse_grid, title=title.format(data, grid.delta), console=console
            )
        ]
        _save(sparse_rows, path=output / "exp2_sparse", over="k", panels="data")
    console.print(WARNING)
    console.print(f"saved in {output}", soft_wrap=True)


def _days(chosen: argparse.Namespace) -> CountData:
    """Returns the user's file, or a look-alike."""
    if chosen.path is not None:
        return StateCases(chosen.path, num_days=chosen.num_days, first_day=chosen.first_day).load()
    require(
        chosen.first_day is None,
        "first_day",
        chosen.first_day,
        "a file, --path, whose days it chooses from",
    )
    return state_cases_look_alike(chosen.num_days)


def _recall(data: CountData, grid: SelectionGrid, title: str, console: Console) -> list[RecallRow]:
    """Draws all cells and prints them."""
    describe(console, data)
    rows = [
        RecallRow.from_scores(*cell) for cell in with_progress(grid.cells(data), total=grid.size)
    ]
    console.print(recall_table(rows, title))
    return rows


def _save(rows: list[RecallRow], path: Path, *, over: str, panels: str) -> None:
    """Saves rows as CSV and as a picture."""
    write_text(path.with_suffix(".csv"), csv_text(rows))
    recall_picture(rows, path=path.with_suffix(".svg"), over=over, panels=panels)


def _prices(days: CountData, grid: SelectionGrid, path: Path, console: Console) -> None:
    """Prices each mechanism's noise on all days together, by its paper and soundly."""
    budgets = [
        SharedBudget(epsilon=epsilon, delta=grid.delta, releases=len(days.counts))
        for epsilon in grid.epsilons
    ]
    rows = [
        price_row(name, budget.task(days, k=grid.ks[0]), budget)
        for budget in budgets
        for name in grid.names
    ]
    console.print(
        price_table(rows, title=f"What one noise costs on {len(days.counts)} days, k {grid.ks[0]}")
    )
    write_text(path, csv_text(rows))


if __name__ == "__main__":
    main()
