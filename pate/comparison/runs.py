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

# The names of the student's scores, as in report.json; the first one is the headline.
METRIC_KEYS = tuple(METRIC_NAMES)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A row of comparison.csv: the scores of a trained model, or the reason why a method was not trained.

    The scores are those of the model on the test split, and None if there is no model.

    Attributes:
        aggregator: the name of the method, or of a baseline.
        adjacency: replace_one or add_remove; None for a baseline.
        epsilon: the epsilon of the budget, an upper bound on the price; None for a baseline.
        delta: the delta of the budget; None for a baseline.
        accountant: the name of the accountant; None for a baseline.
        seed: the seed of noise and student; None for a baseline, or if nothing was run.
        num_queries: the number of queries, refused ones included.
        num_answered: the number of answered queries; None if nothing was asked, as by a method without queries.
        label_accuracy: the share of correct bits in the answers, which no epsilon covers; None without answers.
        accuracy: the accuracy.
        balanced_accuracy: the balanced accuracy.
        micro_f1: the micro-averaged F1.
        macro_f1: the macro-averaged F1.
        mean_average_precision: the mean average precision.
        priced_epsilon: the price of the method, at most `epsilon`; None for a baseline, or if nothing was run.
        teacher: the kind of teachers; None for a method without teachers.
        num_teachers: the number of teachers; None for a method without teachers.
        student: the kind of student, or of the model without teachers; None for a constant.
        note: the reason why there is no result; empty if there is one.
        intervals: the ends `(low, high)` of each metric over resampled test sets, by metric. The file has them in the
            columns METRIC_low and METRIC_high.
    """

    aggregator: str
    adjacency: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    accountant: str | None = None
    seed: int | None = None
    num_queries: int
    num_answered: int | None = None
    label_accuracy: float | None = None
    accuracy: float | None = None
    balanced_accuracy: float | None = None
    micro_f1: float | None = None
    macro_f1: float | None = None
    mean_average_precision: float | None = None
    priced_epsilon: float | None = None
    teacher: str | None = None
    num_teachers: int | None = None
    student: str | None = None
    note: str = ""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def is_baseline(self) -> bool:
        """True for a model without privacy."""
        return self.epsilon is None

    @property
    def title(self) -> str:
        """The name of a baseline in words, followed by its number and kind of teachers if it has teachers.

        Methods with privacy have no words, and keep their names.
        """
        name = MODEL_NAMES.get(self.aggregator, self.aggregator)
        if not self.num_teachers:
            return name
        return f"{name}, {self.num_teachers:,} {self.teacher} teachers"


# The columns that are fields of `Run`.
_FIELD_COLUMNS = tuple(run_field.name for run_field in fields(Run) if run_field.name != "intervals")
# The two columns of the interval of each metric.
_INTERVAL_COLUMNS = {metric: (f"{metric}_low", f"{metric}_high") for metric in METRIC_KEYS}
# All columns of the file, in their order.
_COLUMNS = (
    *_FIELD_COLUMNS,
    *(column for columns in _INTERVAL_COLUMNS.values() for column in columns),
)
# The type of the values in each column.
_COLUMN_TYPES = {**dict.fromkeys(_COLUMNS, float | None), **get_type_hints(Run)}


def write_runs(path: Path | str, runs: Iterable[Run]) -> None:
    """Writes comparison.csv: a header, and one row for each run, in which None is an empty cell."""
    csv_buffer = io.StringIO()
    write_row = row_writer(csv_buffer, line_end="\n")
    write_row(_COLUMNS)
    for comparison_run in runs:
        cell_by_column = dict(vars(comparison_run))
        for metric_key, interval_ends in comparison_run.intervals.items():
            low_column, high_column = _INTERVAL_COLUMNS[metric_key]
            cell_by_column[low_column], cell_by_column[high_column] = interval_ends
        write_row(cell_by_column.get(column, "") for column in _COLUMNS)
    write_text(path, text=csv_buffer.getvalue())


def read_runs(path: Path | str) -> list[Run]:
    """Returns the runs of a file that `write_runs` wrote.

    Raises `InvalidValue` if there is no such file, or if its columns, rows or values are wrong.
    """
    require(os.path.isfile(path), "comparison", path, "a comparison.csv")
    row_rule = f"{len(_COLUMNS)} cells in each row, in UTF-8"
    try:
        with open(path, encoding="utf-8", newline="") as csv_file:
            csv_rows = list(csv.reader(csv_file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidValue("comparison", path, rule=row_rule) from error
    has_columns = bool(csv_rows) and tuple(csv_rows[0]) == _COLUMNS
    require(has_columns, "comparison", path, f"the columns {', '.join(_COLUMNS)}")
    runs = []
    for row_cells in filter(None, csv_rows[1:]):  # without empty lines
        require(len(row_cells) == len(_COLUMNS), "comparison", path, row_rule)
        cell_by_column = dict(zip(_COLUMNS, row_cells, strict=True))
        value_by_field = {
            column_name: _cell_value(column_name, cell_by_column[column_name])
            for column_name in _FIELD_COLUMNS
        }
        intervals = {}
        for metric_key, (low_column, high_column) in _INTERVAL_COLUMNS.items():
            interval_low = _cell_value(low_column, cell_by_column[low_column])
            interval_high = _cell_value(high_column, cell_by_column[high_column])
            if interval_low is not None and interval_high is not None:
                intervals[metric_key] = (interval_low, interval_high)
        runs.append(Run(**value_by_field, intervals=intervals))
    return runs


def _cell_value(column_name: str, cell_text: str) -> Any:
    """Returns the value of a cell of comparison.csv in the type of its column; None for an empty cell that may be None.

    Raises `InvalidValue` for a text of another type.
    """
    column_type = _COLUMN_TYPES[column_name]
    accepted_types = get_args(column_type) or (column_type,)  # (float, NoneType) for `float | None`
    if cell_text == "" and type(None) in accepted_types:
        return None
    cell_type = accepted_types[0]
    try:
        return cell_type(cell_text)
    except ValueError as error:
        raise InvalidValue(
            f"comparison.{column_name}", cell_text, rule=cell_type.__name__
        ) from error
