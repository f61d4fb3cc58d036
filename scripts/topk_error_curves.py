"""Draws the errors of top-k mechanisms over k at epsilon 1: l-inf, l-1 and k-relative, with quartiles."""

from __future__ import annotations

import argparse
from itertools import chain

from rich.console import Console

from reproductions.command import WARNING, add_data, describe, folder, followed, load, parser_of, plan_of, run
from reproductions.error_curves import curve_points
from reproductions.picture import curve_picture
from reproductions.table import curve_table, write_csv

KS = (5, 10, 20, 30, 40, 50, 60)
COMPARED = ["joint", "pnf_joint", "canonical", "canonical_exponential", "peeling", "pnf_peeling", "laplace", "gamma"]


def main(arguments: list[str] | None = None) -> None:
    """Prints the table and saves error_curves.csv and .svg."""
    parser = parser_of(str(__doc__), output_dir="outputs/topk_error_curves", ks=KS, epsilons=(1.0,))
    parser.set_defaults(mechanisms=COMPARED)
    add_data(parser, default="flights")
    run(lambda: _curves(parser.parse_args(arguments)))


def _curves(chosen: argparse.Namespace) -> None:
    plan, data = plan_of(chosen), load(chosen.data, chosen.path)
    output, console = folder(chosen.output_dir), Console(width=160)
    describe(console, data)
    points = list(chain.from_iterable(followed(curve_points(data, plan), total=plan.size)))
    console.print(curve_table(points))
    console.print(WARNING)
    write_csv(output / "error_curves.csv", points)
    curve_picture(points, output / "error_curves.svg")
    console.print(f"saved: {output}/error_curves.csv, .svg", soft_wrap=True)


if __name__ == "__main__":
    main()
