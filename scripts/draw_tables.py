"""Writes tables of results into the pages, from docs/results.json: python scripts/draw_tables.py [--check].

A page has a table between the lines `<!-- results: NAME -->` and `<!-- end -->`. NAME is a figure set of the file: the
command that gives it, the commit that recorded it, columns and rows. A set `from` another one takes some of its rows,
named by their first two cells, and some of its columns. With `--check` nothing is written: stale pages are an error.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from scripts.generated_tables import bring_up_to_date

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results.json"
BLOCK = re.compile(r"(?<=<!-- results: )(?P<name>[\w-]+) -->\n.*?(?=<!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """Returns every page that may hold a table."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def rows_of_set(sets: dict[str, Any], name: str) -> tuple[list[str], list[list[str]]]:
    """Returns columns and rows of a figure set, which may be part of another set."""
    chosen = sets[name]
    if "from" not in chosen:
        return chosen["columns"], chosen["rows"]
    columns, rows = rows_of_set(sets, name=chosen["from"])
    places = [columns.index(column) for column in chosen["columns"]]
    by_name = {tuple(row[:2]): [row[place] for place in places] for row in rows}
    return chosen["columns"], [by_name[tuple(key)] for key in chosen["rows"]]


def table(sets: dict[str, Any], name: str) -> str:
    """Returns a figure set in Markdown."""
    columns, rows = rows_of_set(sets, name)
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(
        f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|\n" for cells in lines
    )


def page_with_tables(text: str, sets: dict[str, Any]) -> str:
    """Returns a page with the tables of the current file."""

    def replace_block(match: re.Match[str]) -> str:
        return f"{match['name']} -->\n\n{table(sets, name=match['name'])}\n"

    return BLOCK.sub(replace_block, text)


def main(arguments: list[str]) -> int:
    """Writes the pages, or names those that are stale; returns the exit code."""
    sets = json.loads(RESULTS.read_text(encoding="utf-8"))
    return bring_up_to_date(
        pages(),
        current_text=lambda text: page_with_tables(text, sets),
        description=__doc__,
        arguments=arguments,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
