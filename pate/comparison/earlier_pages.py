"""The pages of a comparison. Pages that show other runs are kept under other names before new pages are written."""

import os
from collections.abc import Sequence
from pathlib import Path

from pate.comparison.runs import Run, read_runs
from pate.validation import (
    InvalidValue,
)

PAGES = ("comparison.csv", "frontier.html", "frontier.png")  # what a comparison is read from


def keep_earlier_pages(folder: Path, runs: Sequence[Run]) -> str:
    """Renames the pages in a folder if they show runs that are not among the given runs.

    The results of all runs stay in `runs/` in any case.

    Args:
        folder: the folder of the comparison.
        runs: the runs that the new pages will show.

    Returns:
        A line that tells the new names, or an empty string if nothing was renamed.
    """
    if not os.path.lexists(folder / "comparison.csv"):
        return ""
    selected = {_row_of(run) for run in runs}
    # a row without a result, and so without a seed, may have some now
    selected |= {(*row[:-1], None) for row in selected}
    try:
        missing = {_row_of(run) for run in read_runs(folder / "comparison.csv")} - selected
    except InvalidValue:  # written by another version, or by hand
        missing = {("an earlier comparison",)}
    if not missing:
        return ""
    number = 1
    while any(os.path.lexists(_numbered(folder / name, number)) for name in PAGES):
        number += 1
    for name in PAGES:
        if os.path.lexists(folder / name):
            os.replace(folder / name, _numbered(folder / name, number))
    names = ", ".join(sorted({str(row[0]) for row in missing}))
    new_names = ", ".join(_numbered(Path(name), number).name for name in PAGES)
    return f"output_dir={folder}: the pages here are of another selection ({names}); they are kept as {new_names}"


def _numbered(path: Path, page_number: int) -> Path:
    return path.with_name(f"{path.stem}-{page_number}{path.suffix}")


def _row_of(run: Run) -> tuple[object, ...]:
    """Returns the values that identify a row of comparison.csv; the last is the seed, None for a row without result."""
    name = run.aggregator.partition("@")[0]
    return (
        name,
        run.teacher,
        run.num_teachers,
        run.student,
        run.epsilon,
        None if run.note else run.seed,
    )
