"""Draws the errors of top-k mechanisms over k at epsilon 1: l-inf, l-1 and k-relative, with quartiles."""

from __future__ import annotations

import argparse

from rich.console import Console

from pate.files.atomic import write_text
from pate.validation import require
from reproductions.command import csv_text, folder, run, with_progress
from reproductions.top_k.arguments import WARNING, add_data, describe, grid_of, load, parser_of
from reproductions.top_k.display import error_picture, error_table
from reproductions.top_k.grid import ErrorRow

KS = (5, 10, 20, 30, 40, 50, 60)
COMPARED = [
    "joint",
    "pnf_joint",
    "canonical",
    "canonical_exponential",
    "peeling",
    "pnf_peeling",
    "laplace",
    "gamma",
]


def main(arguments: list[str] | None = None) -> None:
    """Prints the table and saves error_curves.csv and .svg."""
    parser = parser_of(str(__doc__), output_dir="outputs/error_curves", ks=KS, epsilons=(1.0,))
    parser.set_defaults(mechanisms=COMPARED)
    add_data(parser, default="flights")
    run(lambda: _curves(parser.parse_args(arguments)))


def _curves(chosen: argparse.Namespace) -> None:
    require(len(chosen.epsilon) == 1, "epsilon", chosen.epsilon, "one, as errors are drawn over k")
    grid, data = grid_of(chosen), load(chosen.data, chosen.path)
    output, console = folder(chosen.output_dir), Console(width=160)
    describe(console, data)
    cells = with_progress(grid.cells(data), total=grid.size)
    rows = [row for cell, (scores,) in cells for row in ErrorRow.rows_from_scores(cell, scores)]
    console.print(error_table(rows))
    console.print(WARNING)
    write_text(output / "error_curves.csv", csv_text(rows))
    error_picture(rows, path=output / "error_curves.svg")
    console.print(f"saved: {output}/error_curves.csv, .svg", soft_wrap=True)


if __name__ == "__main__":
    main()
