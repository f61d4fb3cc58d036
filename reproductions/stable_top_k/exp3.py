"""Prices the CelebA experiment of Zhu & Wang (2022) by every accounting, and prints lower bounds of its noise."""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from pate.accounting import Adjacency
from pate.accounting.rounding import format_epsilon
from reproductions.command import csv_text
from reproductions.stable_top_k.celeba_prices import (
    FAILURE_PROB,
    NO_BOUND_TEXT,
    NUM_LABELS,
    NUM_QUERIES,
    SELECTION_STD,
    TARGET_DELTA,
    TEST_STD,
    PricedAccounting,
    prices,
)
from reproductions.stable_top_k.floors import Floor, floors


def main(arguments: list[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table")
    chosen = parser.parse_args(arguments).format
    table = prices()
    if chosen == "table":
        console = Console(width=140)
        console.print(_rendered(table))
        console.print(_rendered_floors(floors()))
    elif chosen == "json":
        lists = {
            "rows": [asdict(row) for row in table],
            "floors": [asdict(floor) for floor in floors()],
        }
        sys.stdout.write(json.dumps(lists, indent=1) + "\n")
    else:
        sys.stdout.write(csv_text(table))


def _rendered(table: list[PricedAccounting]) -> Table:
    title = (
        f"Epsilon at delta {TARGET_DELTA:g}: {NUM_QUERIES} queries, {NUM_LABELS} labels, failure probability "
        f"{FAILURE_PROB:g} a query, selection std {SELECTION_STD:g}, test std {TEST_STD:g}"
    )
    rendered = Table("accounting", "is a", title=title)
    for adjacency in Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE:
        for conversion in ("classic", "tight"):
            rendered.add_column(f"{adjacency}\n{conversion}", justify="right")
    for row in table:
        cells = (
            row.add_remove_classic,
            row.add_remove_tight,
            row.replace_one_classic,
            row.replace_one_tight,
        )
        style = "red" if row.holds == NO_BOUND_TEXT else None
        rendered.add_row(
            row.accounting,
            row.holds,
            *("-" if x is None else format_epsilon(x) for x in cells),
            style=style,
        )
    return rendered


def _rendered_floors(table: list[Floor]) -> Table:
    rendered = Table(
        "pair of neighbors",
        "adjacency",
        "epsilon at least",
        title="What the paper's noise gives away",
    )
    for floor in table:
        rendered.add_row(
            floor.pair, floor.adjacency, f"{math.floor(floor.epsilon_at_least * 1000) / 1000:.3f}"
        )
    return rendered


if __name__ == "__main__":
    main()
