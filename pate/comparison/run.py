"""One run of a comparison, and the file with all of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

from pate.files.atomic import write_text
from pate.validation import InvalidValue, require

METRICS = ("accuracy", "balanced_accuracy", "micro_f1", "macro_f1", "mean_average_precision")
"""The student's scores, by the names of report.json."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One line of comparison.csv: one release and its student, or a baseline, or an epsilon that is out of reach.

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

    @property
    def line(self) -> tuple[str, str | None, int | None]:
        """Whose run it is: the same aggregator with other teachers competes with itself."""
        return self.aggregator, self.teacher, self.num_teachers

    @property
    def is_baseline(self) -> bool:
        """Whether no epsilon covers it."""
        return self.epsilon is None


_NAMES = tuple(item.name for item in fields(Run))


def write_runs(path: Path, runs: Iterable[Run]) -> None:
    """Writes comparison.csv: a header and one line a run; what is None is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _NAMES, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(run) for run in runs)
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
        return [Run(**{name: _value(name, text) for name, text in line.items()}) for line in reader]


HINTS: dict[str, Any] = get_type_hints(Run)
"""The type of each column."""


def _value(name: str, text: str) -> Any:
    """A cell as the type of its column."""
    hint = HINTS[name]
    optional = isinstance(hint, UnionType)
    if optional and text == "":
        return None
    kind = next(part for part in get_args(hint) if part is not type(None)) if optional else hint
    try:
        return kind(text)
    except ValueError as error:
        raise InvalidValue(f"comparison.{name}={text}: expected {kind.__name__}") from error
