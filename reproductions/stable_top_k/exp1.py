"""Selects a fixed k from check-in counts by every mechanism at one sound price, and prints each recall."""

from __future__ import annotations

import argparse

from rich.console import Console

from pate.files.atomic import write_text
from reproductions.command import csv_text, folder, run, with_progress
from reproductions.top_k.arguments import WARNING, add_data, describe, grid_of, load, parser_of
from reproductions.top_k.display import recall_picture, recall_table
from reproductions.top_k.grid import RecallRow


def main(arguments: list[str] | None = None) -> None:
    """Prints the table and saves exp1.csv and exp1.svg."""
    parser = parser_of(
        str(__doc__), output_dir="outputs/exp1", ks=(3, 10, 50), epsilons=(0.4, 0.8, 1.0)
    )
    add_data(parser, default="flights")
    run(lambda: _experiment(parser.parse_args(arguments)))


def _experiment(chosen: argparse.Namespace) -> None:
    grid, data = grid_of(chosen), load(chosen.data, chosen.path)
    output, console = folder(chosen.output_dir), Console(width=160)
    describe(console, data)
    rows = [
        RecallRow.from_scores(*cell) for cell in with_progress(grid.cells(data), total=grid.size)
    ]
    console.print(
        recall_table(
            rows,
            title=f"EXP1 on {data.name} ({data.kind}), delta {grid.delta:g}: true top k returned",
        )
    )
    console.print(WARNING)
    write_text(output / "exp1.csv", csv_text(rows))
    recall_picture(rows, path=output / "exp1.svg", over="epsilon", panels="k")
    console.print(f"saved: {output}/exp1.csv, .svg", soft_wrap=True)


if __name__ == "__main__":
    main()
