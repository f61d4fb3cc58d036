"""Runs of a comparison: the rows of comparison.csv."""

import csv
import io
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pate.files.atomic import write_text
from pate.files.spreadsheet import row_writer
from pate.report.wording import METRIC_NAMES, MODEL_NAMES
from pate.validation import InvalidValue, require

# the student's scores, by the names of report.json; the headline first
METRICS = tuple(METRIC_NAMES)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A row of comparison.csv: the scores of a trained model, or the reason why a method was not trained."""

    aggregator: str  # the method's name, or that of a baseline
    adjacency: str | None = None  # replace_one or add_remove; None for a baseline
    # what was asked for, an upper bound on the price; None for a baseline
    epsilon: float | None = None
    delta: float | None = None  # of the guarantee; None for a baseline
    accountant: str | None = None  # its name; None for a baseline
    # of the noise and of the student; None where nothing is random or nothing was run
    seed: int | None = None
    num_queries: int  # asked, refused ones included
    num_answered: int | None = None  # of them
    # share of correct bits in the answers, if any. No epsilon covers it.
    label_accuracy: float | None = None
    # of the student on the test split, as the next four; None where there is none
    accuracy: float | None = None
    balanced_accuracy: float | None = None
    micro_f1: float | None = None
    macro_f1: float | None = None
    mean_average_precision: float | None = None
    # what the release costs, at most `epsilon`; None where nothing was run
    priced_epsilon: float | None = None
    teacher: str | None = None  # the kind of teachers; None where they play no part
    num_teachers: int | None = None  # T
    student: str | None = None  # the kind of student
    note: str = ""  # why there is no result; empty where there is
    # `(low, high)` by metric over resampled test sets; columns METRIC_low and METRIC_high of the file
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def is_baseline(self) -> bool:
        """True for a model without privacy."""
        return self.epsilon is None

    @property
    def title(self) -> str:
        """The name of a baseline in words, followed by its number and kind of teachers if it has teachers."""
        name = MODEL_NAMES.get(self.aggregator, self.aggregator)
        return (
            f"{name}, {self.num_teachers:,} {self.teacher} teachers" if self.num_teachers else name
        )


_PLAIN_NAMES = tuple(
    dataclass_field.name for dataclass_field in fields(Run) if dataclass_field.name != "intervals"
)
_ENDS = {metric: (f"{metric}_low", f"{metric}_high") for metric in METRICS}
_NAMES = (*_PLAIN_NAMES, *(name for names in _ENDS.values() for name in names))
_HINTS = {**dict.fromkeys(_NAMES, float | None), **get_type_hints(Run)}


def write_runs(path: Path | str, runs: Iterable[Run]) -> None:
    """Writes comparison.csv: a header, and one row for each run, in which None is an empty cell."""
    text = io.StringIO()
    write = row_writer(text, line_end="\n")
    write(_NAMES)
    for run in runs:
        cells = dict(vars(run))
        for metric, interval in run.intervals.items():
            low_name, high_name = _ENDS[metric]
            cells[low_name], cells[high_name] = interval
        write(cells.get(name, "") for name in _NAMES)
    write_text(path, text=text.getvalue())


def read_runs(path: Path | str) -> list[Run]:
    """Returns the runs of a file that `write_runs` wrote.

    Raises `InvalidValue` if there is no such file, or if its columns or values are wrong.
    """
    require(os.path.isfile(path), "comparison", path, "a comparison.csv")
    runs = []
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        require(
            tuple(reader.fieldnames or ()) == _NAMES,
            "comparison",
            path,
            f"the columns {', '.join(_NAMES)}",
        )
        for line in reader:
            values = {name: _value(name, cell_text=line[name]) for name in _PLAIN_NAMES}
            intervals = {}
            for metric, (low_name, high_name) in _ENDS.items():
                low = _value(low_name, cell_text=line[low_name])
                high = _value(high_name, cell_text=line[high_name])
                if low is not None and high is not None:
                    intervals[metric] = (low, high)
            runs.append(Run(**values, intervals=intervals))
    return runs


def _value(column_name: str, cell_text: str) -> Any:
    """Returns the value of a cell in the type of its column; raises `InvalidValue` for a text of another type.

    Args:
        column_name: the name of the column.
        cell_text: the text of the cell.
    """
    kinds = get_args(_HINTS[column_name]) or (_HINTS[column_name],)
    if cell_text == "" and type(None) in kinds:
        return None
    try:
        return kinds[0](cell_text)
    except ValueError as error:
        raise InvalidValue(
            f"comparison.{column_name}", cell_text, rule=kinds[0].__name__
        ) from error
