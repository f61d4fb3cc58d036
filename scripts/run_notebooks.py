"""Runs the notebooks and keeps their outputs for the site: python scripts/run_notebooks.py [NAME ...].

Each notebook runs from a clean kernel in an empty folder. `mkdocs build` then shows `.venv/notebooks/NAME.ipynb`, as
`docs/_build/notebooks.py` arranges. NAME is a notebook's name without `.ipynb`; without any NAME, all notebooks run.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
EXECUTED = ROOT / ".venv" / "notebooks"
SECONDS_A_CELL = 1800


def run(notebook: Path, output: Path) -> None:
    """Runs one notebook in an empty folder and writes it with its outputs."""
    content = nbformat.read(notebook, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        client = NotebookClient(
            content, kernel_name="python3", timeout=SECONDS_A_CELL, resources=resources
        )
        client.execute()
    output.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(content, output)


def main(names: list[str]) -> int:
    """Runs the named notebooks, or all; returns the exit code."""
    notebooks = {path.stem: path for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
    for name in names:
        if name not in notebooks:
            sys.stderr.write(f"NAME={name}: expected one of {', '.join(notebooks)}\n")
            return 2
    for name in names or notebooks:
        sys.stdout.write(f"running {name}\n")
        sys.stdout.flush()
        run(notebooks[name], output=EXECUTED / f"{name}.ipynb")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
