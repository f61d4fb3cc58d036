"""One run of a comparison, and the file with all of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

from pate.files.atomic import write_text
from pate.files.spreadsheet import SpreadsheetRows
from pate.report.tables import METRIC_NAMES
from pate.validation import InvalidValue, require

METRICS = tuple(METRIC_NAMES)
"""The student's scores, by the names of report.json; the headline first."""

_ENDS = ("low", "high")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One line of comparison.csv: a release and its student, a baseline, or an epsilon that the method cannot meet.

    Attributes:
        aggregator: the method's name, or that of a baseline.
        adjacency: replace_one or add_remove; None for a baseline.
        epsilon: what was asked for, an upper bound on the price; None for a baseline.
        delta: of the guarantee; None for a baseline.
        accountant: its name; None for a baseline.
        seed: of the noise and of the student; None where nothing is random or nothing was run.
        num_queries: asked, refused ones included.
        num_answered: of them.
        label_accuracy: share of correct bits in the answers; None without answers. No epsilon covers it.
        accuracy: of the student on the test split, as the next four; None where there is none.
        priced_epsilon: what the release costs, at most `epsilon`; None where nothing was run.
        teacher: the kind of teachers; None where they play no part.
        num_teachers: T.
        student: the kind of student.
        note: why there is no result; empty where there is.
        intervals: `(low, high)` by metric over resampled test sets; columns METRIC_low and METRIC_high of the file.
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
    def line(self) -> tuple[str, str | None, int | None]:
        """Whose run it is: the same aggregator with other teachers competes with itself."""
        return self.aggregator, self.teacher, self.num_teachers

    @property
    def is_baseline(self) -> bool:
        """Whether no epsilon covers it."""
        return self.epsilon is None


_PLAIN_NAMES = tuple(item.name for item in fields(Run) if item.name != "intervals")
_NAMES = (*_PLAIN_NAMES, *(f"{metric}_{end}" for metric in METRICS for end in _ENDS))
_HINTS: dict[str, Any] = get_type_hints(Run)


def write_runs(path: Path, runs: Iterable[Run]) -> None:
    """Writes comparison.csv: a header and one line per run; what is None is empty."""
    text = io.StringIO()
    rows = SpreadsheetRows(text, "\n")
    rows.write(_NAMES)
    for run in runs:
        row = _row(run)
        rows.write(row.get(name, "") for name in _NAMES)
    write_text(path, text.getvalue())


def read_runs(path: Path) -> list[Run]:
    """Reads what `write_runs` wrote.

    Raises:
        InvalidValue: no such file, or one of other columns.
    """
    require(path.is_file(), "comparison", path, "a comparison.csv")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        header: Sequence[str] = reader.fieldnames or ()
        require(tuple(header) == _NAMES, "comparison", path, f"the columns {', '.join(_NAMES)}")
        return [_run(line) for line in reader]


def _row(run: Run) -> dict[str, Any]:
    ends = {
        f"{name}_{end}": value for name, given in run.intervals.items() for end, value in zip(_ENDS, given, strict=True)
    }
    return {name: getattr(run, name) for name in _PLAIN_NAMES} | ends


def _run(line: Mapping[str, str]) -> Run:
    given = {metric: tuple(_number(f"{metric}_{end}", line[f"{metric}_{end}"]) for end in _ENDS) for metric in METRICS}
    intervals = {metric: (low, high) for metric, (low, high) in given.items() if low is not None and high is not None}
    return Run(**{name: _value(name, line[name]) for name in _PLAIN_NAMES}, intervals=intervals)


def _number(name: str, text: str) -> float | None:
    return None if text == "" else _read(name, text, float)


def _value(name: str, text: str) -> Any:
    """A cell as the type of its column."""
    hint = _HINTS[name]
    optional = isinstance(hint, UnionType)
    if optional and text == "":
        return None
    kind = next(part for part in get_args(hint) if part is not type(None)) if optional else hint
    return _read(name, text, kind)


def _read(name: str, text: str, kind: Callable[[str], Any]) -> Any:
    """A cell as a type, or an error that names its column."""
    try:
        return kind(text)
    except ValueError as error:
        raise InvalidValue(f"comparison.{name}={text}: expected {getattr(kind, '__name__', 'a value')}") from error
