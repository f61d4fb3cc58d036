"""Writes the constants in docs/how-centered-votes-work.md from `Recipe`: python scripts/draw_recipe.py [--check].

Each field of `Recipe` has a row with its default, unit, meaning, and the data it was chosen on. The table stands
between the lines `<!-- recipe -->` and `<!-- end -->`. With `--check` nothing is written: a stale page is an error.
"""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from pathlib import Path

from pate.votes import Recipe
from scripts.generated_tables import bring_up_to_date

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-centered-votes-work.md"
BLOCK = re.compile(r"(?<=<!-- recipe -->\n).*?(?=<!-- end -->)", re.DOTALL)


def shown(value: object) -> str:
    """Returns a default as the table has it: numbers without an exponent, a tuple with commas."""
    if isinstance(value, tuple):
        return ", ".join(map(shown, value))
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6f}".rstrip("0").rstrip(".")


def table() -> str:
    """Returns the table of all fields in Markdown."""
    lines = ["| constant | default | unit | meaning | chosen on |", "|---|---|---|---|---|"]
    for item in fields(Recipe):
        metadata = item.metadata
        row = (
            f"`{item.name}`",
            shown(item.default),
            metadata["unit"],
            metadata["meaning"],
            metadata["chosen_on"],
        )
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def page_with_table(text: str) -> str:
    """Returns the page with the table of the current fields."""
    return BLOCK.sub(lambda block: f"\n{table()}\n\n", text)


def main(arguments: list[str]) -> int:
    """Writes the page, or with `--check` names it if it is stale; returns the exit code."""
    return bring_up_to_date(
        [PAGE], current_text=page_with_table, description=__doc__, arguments=arguments
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
