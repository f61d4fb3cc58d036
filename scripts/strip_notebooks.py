"""Takes outputs, counts and metadata out of notebooks: python scripts/strip_notebooks.py [--check] [FILE ...]."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def stripped(text: str) -> str:
    """Returns the notebook as git stores it: sources and ids, without anything that running changes.

    A cell keeps its id; one without gets an id from its source.
    """
    notebook = json.loads(text)
    ids = {cell["id"] for cell in notebook["cells"] if "id" in cell}
    cells = [_cell(cell, ids) for cell in notebook["cells"]]
    content = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _cell(cell: dict[str, Any], ids: set[str]) -> dict[str, Any]:
    source = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
    content = {
        "cell_type": cell["cell_type"],
        "id": cell.get("id") or _new_id(source, ids),
        "metadata": {},
    }
    if cell["cell_type"] == "code":
        content |= {"execution_count": None, "outputs": []}
    return content | {"source": source.splitlines(keepends=True)}


def _new_id(source: str, ids: set[str]) -> str:
    """Returns eight digits of the source's digest that are not among the ids, and adds them."""
    digest = hashlib.sha256(source.encode()).hexdigest()
    candidates = (digest[start : start + 8] for start in range(56))
    new_id = next(candidate for candidate in candidates if candidate not in ids)
    ids.add(new_id)
    return new_id


def main(arguments: list[str] | None = None) -> int:
    """Strips the files in place; with --check names unstripped files and returns 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("files", nargs="*", type=Path)
    chosen = parser.parse_args(arguments)
    changed = 0
    for path in chosen.files or sorted(NOTEBOOKS.glob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        content = stripped(text)
        if content != text:
            changed = 1
            sys.stdout.write(f"{path}: {'not stripped' if chosen.check else 'stripped'}\n")
            if not chosen.check:
                path.write_text(content, encoding="utf-8")
    return changed if chosen.check else 0


if __name__ == "__main__":
    sys.exit(main())
