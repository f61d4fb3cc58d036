"""Runs of a comparison, their file, and their summary: scores over epsilon, and the cheapest that reaches a goal."""

import csv
import io
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self, get_args, get_type_hints

import numpy as np

from pate.files.disk import write_text
from pate.files.spreadsheet import row_writer
from pate.report.metrics import CONSTANTS
from pate.report.report import DASH, METRIC_NAMES, MODEL_NAMES
from pate.validation import InvalidValue, require

# the student's scores, by the names of report.json; the headline first
METRICS = tuple(METRIC_NAMES)


@dataclass(frozen=True, kw_only=True)
class Run:
    """Line of comparison.csv: a release and its student, a baseline, or an epsilon that the method cannot meet."""

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
        """Says whether this is a model that no epsilon covers."""
        return self.epsilon is None

    @property
    def title(self) -> str:
        """The name of a baseline in words, with its teachers, where it has any."""
        name = MODEL_NAMES.get(self.aggregator, self.aggregator)
        return (
            f"{name}, {self.num_teachers:,} {self.teacher} teachers" if self.num_teachers else name
        )


_PLAIN_NAMES = tuple(item.name for item in fields(Run) if item.name != "intervals")
_ENDS = {metric: (f"{metric}_low", f"{metric}_high") for metric in METRICS}
_NAMES = (*_PLAIN_NAMES, *(name for names in _ENDS.values() for name in names))
_HINTS: dict[str, Any] = dict.fromkeys(_NAMES, float | None) | get_type_hints(Run)


def write_runs(path: Path | str, runs: Iterable[Run]) -> None:
    """Writes comparison.csv: a header and one line per run; what is None is empty."""
    text = io.StringIO()
    write = row_writer(text, "\n")
    write(_NAMES)
    for run in runs:
        cells: dict[str, object] = dict(vars(run))
        for metric, interval in run.intervals.items():
            low_name, high_name = _ENDS[metric]
            cells[low_name], cells[high_name] = interval
        write(cells.get(name, "") for name in _NAMES)
    write_text(path, text.getvalue())


def read_runs(path: Path | str) -> list[Run]:
    """Reads what `write_runs` wrote; raises `InvalidValue` for no such file, or one of other columns."""
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
            values = {name: _value(name, line[name]) for name in _PLAIN_NAMES}
            intervals = {}
            for metric, (low_name, high_name) in _ENDS.items():
                low = _value(low_name, line[low_name])
                high = _value(high_name, line[high_name])
                if low is not None and high is not None:
                    intervals[metric] = (low, high)
            runs.append(Run(**values, intervals=intervals))
    return runs


def _value(name: str, text: str) -> Any:
    """Reads a cell as its column's type, or raises an error that names the column."""
    kinds = get_args(_HINTS[name]) or (_HINTS[name],)
    if text == "" and type(None) in kinds:
        return None
    try:
        return kinds[0](text)
    except ValueError as error:
        raise InvalidValue(f"comparison.{name}", text, rule=kinds[0].__name__) from error


@dataclass(frozen=True)
class Point:
    """Score of a method at an epsilon; all numbers are None where nothing could be run, or the score is undefined."""

    epsilon: float  # asked for
    mean: float | None = None  # of the scores over the seeds
    std: float | None = None  # their standard deviation; None for one seed
    num_answered: float | None = None  # mean number of answered queries
    note: str = ""  # why there is no score

    @classmethod
    def of_runs(cls, epsilon: float, runs: list[Run], metric: str) -> Self:
        """Summarizes the runs of a method at an epsilon, one for each seed."""
        scores = [getattr(run, metric) for run in runs]
        scores = [score for score in scores if score is not None]
        if not scores:
            notes = [run.note for run in runs if run.note]
            return cls(epsilon, note=notes[0] if notes else "")
        answered = [run.num_answered for run in runs if run.num_answered is not None]
        return cls(
            epsilon=epsilon,
            mean=float(np.mean(scores)),
            std=float(np.std(scores)) if len(scores) > 1 else None,
            num_answered=float(np.mean(answered)) if answered else None,
        )

    @property
    def text(self) -> str:
        """The mean, with the standard deviation where there are several seeds; or that there is none."""
        if self.mean is None:
            return "out of reach" if self.note else DASH
        return f"{self.mean:.3f}" if self.std is None else f"{self.mean:.3f} ± {self.std:.3f}"


@dataclass(frozen=True)
class Line:
    """Scores of a method over all epsilons."""

    name: str  # the aggregator's
    teacher: str  # the kind of its teachers
    num_teachers: int  # how many
    student: str  # the kind of its student
    points: tuple[Point, ...]  # ascending in epsilon

    @property
    def title(self) -> str:
        """The name, with the number of teachers where there are any."""
        return f"{self.name} ({self.num_teachers:,})" if self.num_teachers else self.name

    @property
    def recipe(self) -> str:
        """The kinds of its teachers and of its student, in words."""
        return f"{self.teacher} teachers and a {self.student} student"

    @property
    def scored(self) -> list[tuple[float, float, float]]:
        """Triples of epsilon, mean and standard deviation where there is a score; the latter is 0 for one seed."""
        return [
            (point.epsilon, point.mean, point.std or 0.0)
            for point in self.points
            if point.mean is not None
        ]

    def at(self, epsilon: float) -> Point:
        """Returns the point of an epsilon, without numbers where the method was not tried there."""
        return next((point for point in self.points if point.epsilon == epsilon), Point(epsilon))


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """Runs of a comparison, summarized by one metric."""

    runs: tuple[Run, ...]  # baselines first, then method by method
    metric: str = METRICS[0]  # one of `METRICS`
    shares: tuple[float, ...] = (0.5, 0.8)  # the goals, shares of the way from `floor` to `ceiling`
    dataset: str = ""  # its name
    real: bool = True  # False for synthetic data
    num_test: int = 0  # samples behind a score
    unit: str = ""  # what the epsilons are for, in words; empty where adjacencies differ

    @property
    def epsilons(self) -> tuple[float, ...]:
        """All epsilons that were asked for, ascending."""
        return tuple(sorted({run.epsilon for run in self.runs if run.epsilon is not None}))

    @property
    def has_spread(self) -> bool:
        """Says whether some method was run with several seeds."""
        return any(point.std is not None for line in self.lines for point in line.points)

    @property
    def baselines(self) -> tuple[Run, ...]:
        """The models that no epsilon covers."""
        return tuple(run for run in self.runs if run.is_baseline)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The methods in the order of the runs, with their scores by the metric."""
        return self.lines_of(self.metric)

    def lines_of(self, metric: str) -> tuple[Line, ...]:
        """Returns the methods in the order of the runs, with their scores by any metric."""
        by_method: dict[tuple[str, str | None, int | None], dict[float, list[Run]]] = {}
        for run in self.runs:
            if run.epsilon is not None:
                method = (run.aggregator, run.teacher, run.num_teachers)
                by_method.setdefault(method, {}).setdefault(run.epsilon, []).append(run)
        lines = []
        for (name, teacher, num_teachers), by_epsilon in by_method.items():
            first_run = next(iter(by_epsilon.values()))[0]
            points = [
                Point.of_runs(epsilon, runs, metric) for epsilon, runs in sorted(by_epsilon.items())
            ]
            line = Line(
                name=name.partition("@")[0],
                teacher=teacher or "",
                num_teachers=num_teachers or 0,
                student=first_run.student or "",
                points=tuple(points),
            )
            lines.append(line)
        return tuple(lines)

    @property
    def recipes(self) -> list[str]:
        """Lines on methods of PATE whose teachers or student are not those of most, as they are not compared alone."""
        lines = [line for line in self.lines if line.teacher]
        kinds = Counter(line.recipe for line in lines)
        if len(kinds) < 2:
            return []
        usual = max(kinds, key=lambda recipe: kinds[recipe])
        return [
            f"{line.title} has {line.recipe}, where most here have {usual}: it is compared with these, too"
            for line in lines
            if line.recipe != usual
        ]

    def baseline(self, name: str, metric: str | None = None) -> float:
        """Returns the score of a baseline; raises where there is none."""
        metric = metric or self.metric
        scores = [getattr(run, metric) for run in self.baselines if run.aggregator == name]
        if not scores or scores[0] is None:
            raise InvalidValue(name, None, rule=f"a run with {metric}")
        return float(scores[0])

    def floor(self) -> float:
        """Returns the score of a constant: the better one of the prior and the best fixed set of labels."""
        return max(self.baseline(name) for name in CONSTANTS)

    @property
    def ceiling_name(self) -> str:
        """The model of all private records; where it was not trained, the student of the true labels."""
        names = {run.aggregator for run in self.baselines}
        return "all_records_model" if "all_records_model" in names else "true_label_student"

    def ceiling(self) -> float:
        """Returns the score of the best model without privacy."""
        return self.baseline(self.ceiling_name)

    @property
    def has_levels(self) -> bool:
        """Says whether the metric is defined for constants and for the ceiling."""
        names = (*CONSTANTS, self.ceiling_name)
        return all(
            getattr(run, self.metric) is not None
            for run in self.baselines
            if run.aggregator in names
        )

    def goal(self, share: float) -> float:
        """Returns the score at a share of the way from a constant to the ceiling."""
        low = self.floor()
        high = self.ceiling()
        return low + share * (high - low)

    @property
    def goals(self) -> list[str]:
        """The goals as headings: the share of the way, and the score that it is."""
        return [f"{share:.0%} of the way ({self.goal(share):.3f})" for share in self.shares]

    def cheapest(self, line: Line, share: float) -> float | None:
        """Returns the smallest epsilon at which the mean reaches a goal; None where none does, or there is no way."""
        goal = self.goal(share) if self.ceiling() > self.floor() else math.inf
        return next((epsilon for epsilon, mean, _ in line.scored if mean >= goal), None)

    def cheapest_of(self, line: Line) -> list[str]:
        """Returns the cheapest epsilon of a line for each goal, in words."""
        epsilons = [self.cheapest(line, share) for share in self.shares]
        return [DASH if epsilon is None else f"{epsilon:g}" for epsilon in epsilons]

    @property
    def ranked(self) -> tuple[Line, ...]:
        """The methods by their mean score over the epsilons, the best first, as `mean_over_epsilons`."""
        return tuple(sorted(self.lines, key=lambda line: -self.mean_over_epsilons(line)))

    def mean_over_epsilons(self, line: Line) -> float:
        """Returns the mean of a method's scores over all epsilons; a constant stands in where it is out of reach."""
        floor = self.floor()
        scores = [floor if point.mean is None else point.mean for point in line.points]
        return float(np.mean(scores))

    @property
    def verdict(self) -> str:
        """The best methods at the smallest and at the largest epsilon, with their share of what is reachable."""
        best_at: dict[float, tuple[float, str]] = {}  # mean and method, by epsilon
        for line in self.lines:
            for epsilon, mean, _ in line.scored:
                if epsilon not in best_at or mean > best_at[epsilon][0]:
                    best_at[epsilon] = (mean, line.title)
        if not best_at:
            return "Every method is out of reach at every epsilon that was tried."
        phrases = []
        for epsilon in sorted({min(best_at), max(best_at)}):
            mean, title = best_at[epsilon]
            phrases.append(f"at epsilon {epsilon:g} {title} with {mean:.3f}, {self._worth(mean)}")
        best = f"Best {METRIC_NAMES[self.metric]} {'; '.join(phrases)}."
        ceiling = MODEL_NAMES[self.ceiling_name]
        return f"{best} A constant has {self.floor():.3f}, the {ceiling} {self.ceiling():.3f}."

    def _worth(self, mean: float) -> str:
        """Says of a score where it lies between a constant and the ceiling."""
        low = self.floor()
        high = self.ceiling()
        if mean <= low:
            return "no better than a constant"
        if high <= low:
            return "better than a constant"
        if mean > high:
            return f"above the {MODEL_NAMES[self.ceiling_name]}"
        return f"{(mean - low) / (high - low):.0%} of the reachable"
