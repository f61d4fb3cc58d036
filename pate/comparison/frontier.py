"""The runs of a comparison, their file, and what they say: scores over epsilon, the cheapest that reaches a goal."""

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
from pate.files.values import row_writer
from pate.report.metrics import CONSTANTS
from pate.report.report import DASH, METRIC_NAMES, MODEL_NAMES
from pate.validation import InvalidValue, require

# the student's scores, by the names of report.json; the headline first
METRICS = tuple(METRIC_NAMES)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One line of comparison.csv: a release and its student, a baseline, or an epsilon that the method cannot meet."""

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
        return self.epsilon is None

    @property
    def title(self) -> str:
        """A baseline in words, with its teachers, where it has any."""
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
        ends = {
            end: value
            for name, given in run.intervals.items()
            for end, value in zip(_ENDS[name], given, strict=True)
        }
        write((vars(run) | ends).get(name, "") for name in _NAMES)
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
            values = {name: _value(name, line[name]) for name in _NAMES}
            ends = {
                metric: tuple(values.pop(name) for name in names) for metric, names in _ENDS.items()
            }
            runs.append(
                Run(
                    **values,
                    intervals={name: given for name, given in ends.items() if None not in given},
                )
            )
    return runs


def _value(name: str, text: str) -> Any:
    """A cell as its column's type, or an error that names the column."""
    kinds = get_args(_HINTS[name]) or (_HINTS[name],)
    if text == "" and type(None) in kinds:
        return None
    try:
        return kinds[0](text)
    except ValueError as error:
        raise InvalidValue(f"comparison.{name}={text}: expected {kinds[0].__name__}") from error


@dataclass(frozen=True)
class Point:
    """A method at an epsilon. All numbers are None where nothing could be run, or where the score is undefined."""

    epsilon: float  # asked for
    mean: float | None = None  # of the scores over the seeds
    std: float | None = None  # their standard deviation; None for one seed
    num_answered: float | None = None  # mean number of answered queries
    note: str = ""  # why there is no score

    @classmethod
    def of(cls, epsilon: float, runs: list[Run], metric: str) -> Self:
        values = [value for run in runs if (value := getattr(run, metric)) is not None]
        if not values:
            return cls(epsilon, note=next((run.note for run in runs if run.note), ""))
        answered = [run.num_answered for run in runs if run.num_answered is not None]
        std = float(np.std(values)) if len(values) > 1 else None
        return cls(
            epsilon, float(np.mean(values)), std, float(np.mean(answered)) if answered else None
        )

    @property
    def text(self) -> str:
        """Mean, and standard deviation where there are several seeds; or that there is none."""
        if self.mean is None:
            return "out of reach" if self.note else DASH
        return f"{self.mean:.3f}" if self.std is None else f"{self.mean:.3f} ± {self.std:.3f}"


@dataclass(frozen=True)
class Line:
    """A method over all epsilons."""

    name: str  # the aggregator's
    teacher: str  # the kind of its teachers
    num_teachers: int  # how many
    student: str  # the kind of its student
    points: tuple[Point, ...]  # ascending in epsilon

    @property
    def title(self) -> str:
        return f"{self.name} ({self.num_teachers:,})" if self.num_teachers else self.name

    @property
    def recipe(self) -> str:
        """The kinds of its teachers and of its student, in words."""
        return f"{self.teacher} teachers and a {self.student} student"

    @property
    def scored(self) -> list[tuple[float, float, float]]:
        """Epsilon, mean and standard deviation where there is a score, the latter 0 for one seed."""
        return [
            (each.epsilon, each.mean, each.std or 0.0)
            for each in self.points
            if each.mean is not None
        ]

    def at(self, epsilon: float) -> Point:
        return next((point for point in self.points if point.epsilon == epsilon), Point(epsilon))


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """All runs of a comparison, summarized by one metric."""

    runs: tuple[Run, ...]  # baselines first, then method by method
    metric: str = METRICS[0]  # one of `METRICS`
    shares: tuple[float, ...] = (0.5, 0.8)  # the goals, shares of the way from `floor` to `ceiling`
    dataset: str = ""  # its name
    real: bool = True  # False for synthetic data
    num_test: int = 0  # samples behind a score
    unit: str = ""  # what the epsilons are for, in words; empty where adjacencies differ

    @property
    def epsilons(self) -> tuple[float, ...]:
        return tuple(sorted({run.epsilon for run in self.runs if run.epsilon is not None}))

    @property
    def has_spread(self) -> bool:
        return any(point.std is not None for line in self.lines for point in line.points)

    @property
    def baselines(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.is_baseline)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        return self.lines_of(self.metric)

    def lines_of(self, metric: str) -> tuple[Line, ...]:
        found: dict[tuple[str, str | None, int | None], dict[float, list[Run]]] = {}
        for run in self.runs:
            if run.epsilon is not None:
                entrant = (run.aggregator, run.teacher, run.num_teachers)
                found.setdefault(entrant, {}).setdefault(run.epsilon, []).append(run)
        lines = []
        for (name, teacher, total), by_epsilon in found.items():
            points = tuple(
                Point.of(epsilon, runs, metric) for epsilon, runs in sorted(by_epsilon.items())
            )
            student = next(iter(by_epsilon.values()))[0].student
            lines.append(
                Line(name.partition("@")[0], teacher or "", total or 0, student or "", points)
            )
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
        """The score of a baseline that there is one of."""
        values = [
            getattr(run, metric or self.metric) for run in self.baselines if run.aggregator == name
        ]
        if not values or values[0] is None:
            raise InvalidValue(f"{name}=None: expected a run with {metric or self.metric}")
        return float(values[0])

    def floor(self) -> float:
        """What a constant reaches: the better one of the prior and the best fixed set of labels."""
        return max(self.baseline(name) for name in CONSTANTS)

    @property
    def ceiling_name(self) -> str:
        """The model of all private records; where it was not trained, the student of the true labels."""
        names = {run.aggregator for run in self.baselines}
        return "all_records_model" if "all_records_model" in names else "true_label_student"

    def ceiling(self) -> float:
        return self.baseline(self.ceiling_name)

    @property
    def has_levels(self) -> bool:
        """Whether a constant and the ceiling are defined by the metric."""
        names = (*CONSTANTS, self.ceiling_name)
        return all(
            getattr(run, self.metric) is not None
            for run in self.baselines
            if run.aggregator in names
        )

    def goal(self, share: float) -> float:
        low = self.floor()
        high = self.ceiling()
        return low + share * (high - low)

    @property
    def goals(self) -> list[str]:
        """The goals as headings: the share of the way, and the score that it is."""
        return [f"{share:.0%} of the way ({self.goal(share):.3f})" for share in self.shares]

    def cheapest(self, line: Line, share: float) -> float | None:
        """The smallest epsilon tried at which the mean reaches the goal; None where none does, or there is no way."""
        goal = self.goal(share) if self.ceiling() > self.floor() else math.inf
        return next((epsilon for epsilon, mean, _ in line.scored if mean >= goal), None)

    def cheapest_of(self, line: Line) -> list[str]:
        """The cheapest epsilon of a line for each goal, in words."""
        found = [self.cheapest(line, share) for share in self.shares]
        return [DASH if epsilon is None else f"{epsilon:g}" for epsilon in found]

    @property
    def ranked(self) -> tuple[Line, ...]:
        """The methods by their mean score over the epsilons, the best first, as `mean_over_epsilons`."""
        return tuple(sorted(self.lines, key=lambda line: -self.mean_over_epsilons(line)))

    def mean_over_epsilons(self, line: Line) -> float:
        """The mean of a method's scores over all epsilons; a constant stands in where it is out of reach."""
        floor = self.floor()
        return float(
            np.mean([floor if point.mean is None else point.mean for point in line.points])
        )

    @property
    def verdict(self) -> str:
        """Who is best at the smallest and at the largest epsilon, and how much of the reachable that is."""
        ceiling = MODEL_NAMES[self.ceiling_name]
        low = self.floor()
        high = self.ceiling()
        found: dict[float, list[tuple[float, str]]] = {}
        for line in self.lines:
            for epsilon, mean, _ in line.scored:
                found.setdefault(epsilon, []).append((mean, line.title))
        if not found:
            return "Every method is out of reach at every epsilon that was tried."
        said = []
        for epsilon in sorted({min(found), max(found)}):
            mean, title = max(found[epsilon], key=lambda pair: pair[0])
            worth = (
                f"{(mean - low) / (high - low):.0%} of the reachable"
                if high > low
                else "better than a constant"
            )
            worth = worth if high <= low or mean <= high else f"above the {ceiling}"
            worth = worth if mean > low else "no better than a constant"
            said.append(f"at epsilon {epsilon:g} {title} with {mean:.3f}, {worth}")
        best = f"Best {METRIC_NAMES[self.metric]} {'; '.join(said)}."
        return f"{best} A constant has {low:.3f}, the {ceiling} {high:.3f}."
