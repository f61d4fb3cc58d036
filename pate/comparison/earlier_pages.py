"""This module renames the pages of an earlier comparison that show other runs, before new pages are written."""

import os
from collections.abc import Sequence
from pathlib import Path

from pate.comparison.runs import Run, read_runs
from pate.validation import InvalidValue

# The files that people read of a comparison.
PAGES = ("comparison.csv", "frontier.html", "frontier.png")


def keep_earlier_pages(comparison_folder: Path, comparison_runs: Sequence[Run]) -> str:
    """Renames comparison.csv, frontier.html and frontier.png if they show runs that the new ones will not show.

    They are also renamed if comparison.csv cannot be read. Without a comparison.csv nothing is renamed. The results of
    all runs stay in `runs/` in any case.

    Args:
        comparison_folder: the folder of the comparison.
        comparison_runs: the runs that the new pages will show.

    Returns:
        A line that tells the new names, or an empty string if nothing was renamed.
    """
    if not os.path.lexists(comparison_folder / "comparison.csv"):
        return ""
    new_rows = {_row_key(comparison_run) for comparison_run in comparison_runs}
    # An earlier row without a result, whose key has no seed, is shown by each new row of the same method and epsilon.
    new_rows |= {(*row[:-1], None) for row in new_rows}
    try:
        earlier_rows = {
            _row_key(comparison_run)
            for comparison_run in read_runs(comparison_folder / "comparison.csv")
        }
        missing_rows = earlier_rows - new_rows
    except InvalidValue:  # a file of another version, or one that was edited
        missing_rows = {("an earlier comparison",)}
    if not missing_rows:
        return ""
    page_number = 1
    while any(
        os.path.lexists(_with_number(comparison_folder / page_name, page_number))
        for page_name in PAGES
    ):
        page_number += 1
    for page_name in PAGES:
        if os.path.lexists(comparison_folder / page_name):
            os.replace(
                comparison_folder / page_name,
                _with_number(comparison_folder / page_name, page_number),
            )
    methods = ", ".join(sorted({str(method_name) for method_name, *_ in missing_rows}))
    new_names = ", ".join(_with_number(Path(page_name), page_number).name for page_name in PAGES)
    reason = f"the pages here are of another selection ({methods}); they are kept as {new_names}"
    return f"output_dir={comparison_folder}: {reason}"


def _with_number(page_file: Path, page_number: int) -> Path:
    """Returns the path of a page with a number at the end of its name, such as `frontier-2.html`."""
    return page_file.with_name(f"{page_file.stem}-{page_number}{page_file.suffix}")


def _row_key(comparison_run: Run) -> tuple[object, ...]:
    """Returns the method, teacher, number of teachers, student, epsilon and seed of a row of comparison.csv.

    These identify the row. The seed is None for a row without result.
    """
    method_name = comparison_run.aggregator.partition("@")[0]  # of NAME@T, with T teachers
    return (
        method_name,
        comparison_run.teacher,
        comparison_run.num_teachers,
        comparison_run.student,
        comparison_run.epsilon,
        None if comparison_run.note else comparison_run.seed,
    )
