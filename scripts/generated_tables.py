"""Tables of pages that are generated: written where they are stale, or only named with `--check`.

`draw_names.py`, `draw_recipe.py` and `draw_tables.py` each know how their tables look; this module brings pages up to
date with them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path


def bring_up_to_date(
    pages: Iterable[Path],
    current_text: Callable[[str], str],
    *,
    description: str | None,
    arguments: Sequence[str],
) -> int:
    """Writes each page whose tables are stale, prints its path, and returns the exit code.

    Args:
        pages: the pages that may have such tables.
        current_text: returns the text of a page with current tables, given its text.
        description: the text of `--help`.
        arguments: the words of the command line. With `--check` nothing is written, and a stale page gives 1.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; 1 for a stale page")
    is_check = parser.parse_args(arguments).check
    has_stale_page = False
    for page in pages:
        text = page.read_text(encoding="utf-8")
        current = current_text(text)
        if current == text:
            continue
        has_stale_page = True
        sys.stdout.write(f"{page}\n")
        if not is_check:
            page.write_text(current, encoding="utf-8")
    return int(is_check and has_stale_page)
