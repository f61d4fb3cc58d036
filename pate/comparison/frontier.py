"""The frontier of a comparison: the scores of methods by epsilon, as lines of points.

The floor of a comparison is the best score of a constant prediction, and its ceiling is the score of a model that is
trained without privacy. A goal is a score a share of the way from the floor to the ceiling.
"""

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from pate.comparison.runs import METRIC_KEYS, Run
from pate.report.constants import CONSTANTS
from pate.report.wording import DASH, METRIC_NAMES, MODEL_NAMES
from pate.validation import InvalidValue


@dataclass(frozen=True)
class Point:
    """The score of a method at an epsilon. All numbers but `epsilon` are None if there is no score.

    Attributes:
        epsilon: the epsilon of the budget.
        mean: the mean score over the seeds.
        std: the standard deviation of the scores (divided by their number, not by one less); None for one score.
        num_answered: the mean number of answered queries.
        note: the reason why there is no score; empty if there is one.
    """

    epsilon: float
    mean: float | None = None
    std: float | None = None
    num_answered: float | None = None
    note: str = ""

    @classmethod
    def from_runs(cls, epsilon: float, runs: list[Run], *, metric_key: str) -> Self:
        """Returns the point of a method at an epsilon, over those of its runs that have a score by the metric.

        If none has a score, the point has the first note of the runs.

        Args:
            epsilon: the epsilon.
            runs: the runs, one for each seed.
            metric_key: the name of the metric, a field of `Run`.
        """
        scores = [getattr(run, metric_key) for run in runs]
        scores = [score for score in scores if score is not None]
        if not scores:
            notes_of_runs = [run.note for run in runs if run.note]
            return cls(epsilon, note=notes_of_runs[0] if notes_of_runs else "")
        nums_answered = [run.num_answered for run in runs if run.num_answered is not None]
        return cls(
            epsilon=epsilon,
            mean=float(np.mean(scores)),
            std=float(np.std(scores)) if len(scores) > 1 else None,
            num_answered=float(np.mean(nums_answered)) if nums_answered else None,
        )

    @property
    def text(self) -> str:
        """The mean score as text, with its standard deviation for several seeds.

        Without a score the text is "out of reach" if a note says why, and a dash otherwise.
        """
        if self.mean is None:
            return "out of reach" if self.note else DASH
        return f"{self.mean:.3f}" if self.std is None else f"{self.mean:.3f} ± {self.std:.3f}"


@dataclass(frozen=True)
class Line:
    """The scores of a method at all epsilons.

    Attributes:
        name: the name of the method.
        teacher: the kind of its teachers; empty for a method without teachers.
        num_teachers: the number of teachers; 0 for a method without teachers.
        student: the kind of its student.
        points: the scores, by rising epsilon.
    """

    name: str
    teacher: str
    num_teachers: int
    student: str
    points: tuple[Point, ...]

    @property
    def title(self) -> str:
        """The name of the method, followed by its number of teachers if it has teachers."""
        return f"{self.name} ({self.num_teachers:,})" if self.num_teachers else self.name

    @property
    def kinds_text(self) -> str:
        """The kinds of the method's teachers and of its student, in words."""
        return f"{self.teacher} teachers and a {self.student} student"

    @property
    def scored(self) -> list[tuple[float, float, float]]:
        """Triples (epsilon, mean, standard deviation) of the points with a score; 0 is the deviation for one seed."""
        return [
            (point.epsilon, point.mean, point.std or 0.0)
            for point in self.points
            if point.mean is not None
        ]

    def at(self, epsilon: float) -> Point:
        """Returns the point at an epsilon; it has no score if the method was not run at this epsilon."""
        return next((point for point in self.points if point.epsilon == epsilon), Point(epsilon))


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """The runs of a comparison, summarized by one metric: the score of each method as a function of epsilon.

    Attributes:
        runs: the runs, baselines first, then method by method.
        metric: the name of the metric, one of `METRIC_KEYS`.
        shares: the goals. A share s stands for the score floor + s (ceiling - floor).
        dataset: the name of the data set.
        real: False for synthetic data.
        num_test: the number of test samples.
        unit: the unit of privacy in words; empty if the adjacencies of methods differ, or none has one.
    """

    runs: tuple[Run, ...]
    metric: str = METRIC_KEYS[0]
    shares: tuple[float, ...] = (0.5, 0.8)
    dataset: str = ""
    real: bool = True
    num_test: int = 0
    unit: str = ""

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The epsilons of all runs, in rising order."""
        return tuple(sorted({run.epsilon for run in self.runs if run.epsilon is not None}))

    @property
    def has_spread(self) -> bool:
        """Whether some method has the scores of several seeds at an epsilon."""
        return any(point.std is not None for line in self.lines for point in line.points)

    @property
    def baselines(self) -> tuple[Run, ...]:
        """The runs of models without privacy."""
        return tuple(run for run in self.runs if run.is_baseline)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The methods with privacy in the order of the runs, each with its scores by `metric`."""
        return self.lines_of(self.metric)

    def lines_of(self, metric: str) -> tuple[Line, ...]:
        """Returns the methods with privacy in the order of the runs, each with its scores by a metric."""
        # The runs of each method, by epsilon. A method is known by its name, teacher and number of teachers.
        runs_by_method: dict[tuple[str, str | None, int | None], dict[float, list[Run]]] = {}
        for run in self.runs:
            if run.epsilon is not None:
                method_key = (
                    run.aggregator,
                    run.teacher,
                    run.num_teachers,
                )
                runs_by_method.setdefault(method_key, {}).setdefault(run.epsilon, []).append(run)
        lines = []
        for (method_name, teacher_kind, num_teachers), runs_by_epsilon in runs_by_method.items():
            first_run = next(iter(runs_by_epsilon.values()))[0]
            points = [
                Point.from_runs(epsilon, runs_at_epsilon, metric_key=metric)
                for epsilon, runs_at_epsilon in sorted(runs_by_epsilon.items())
            ]
            line = Line(
                name=method_name.partition("@")[0],  # of NAME@T, with T teachers
                teacher=teacher_kind or "",
                num_teachers=num_teachers or 0,
                student=first_run.student or "",
                points=tuple(points),
            )
            lines.append(line)
        return tuple(lines)

    @property
    def recipe_warnings(self) -> list[str]:
        """Warnings, one for each PATE method whose kinds of teacher and student are not the most frequent pair."""
        lines_with_teachers = [line for line in self.lines if line.teacher]
        num_methods_by_kinds_text = Counter(line.kinds_text for line in lines_with_teachers)
        if len(num_methods_by_kinds_text) < 2:
            return []
        usual_kinds = max(
            num_methods_by_kinds_text, key=lambda kinds: num_methods_by_kinds_text[kinds]
        )
        return [
            f"{line.title} has {line.kinds_text}, where most here have {usual_kinds}: it is compared with these, too"
            for line in lines_with_teachers
            if line.kinds_text != usual_kinds
        ]

    def baseline(self, name: str, metric: str | None = None) -> float:
        """Returns the score of the first run of the baseline with a name.

        Raises `InvalidValue` if there is no such run, or if it has no score by the metric.

        Args:
            name: the name of the baseline.
            metric: the metric; None for the metric of the frontier.
        """
        metric = metric or self.metric
        scores = [getattr(run, metric) for run in self.baselines if run.aggregator == name]
        if not scores or scores[0] is None:
            raise InvalidValue(name, None, rule=f"a run with {metric}")
        return float(scores[0])

    def floor(self) -> float:
        """Returns the best score of a constant prediction, which is the floor of the comparison."""
        return max(self.baseline(baseline_name) for baseline_name in CONSTANTS)

    @property
    def ceiling_name(self) -> str:
        """The name of the baseline that is the ceiling.

        It is the model of all private records, or if that was not trained, the student of the true labels.
        """
        baseline_names = {run.aggregator for run in self.baselines}
        return (
            "all_records_model" if "all_records_model" in baseline_names else "true_label_student"
        )

    def ceiling(self) -> float:
        """Returns the score of the baseline that is the ceiling."""
        return self.baseline(self.ceiling_name)

    @property
    def has_levels(self) -> bool:
        """Whether the floor and the ceiling can be shown: no run of a constant or of the ceiling lacks a score."""
        level_names = (*CONSTANTS, self.ceiling_name)
        return all(
            getattr(run, self.metric) is not None
            for run in self.baselines
            if run.aggregator in level_names
        )

    def goal(self, share: float) -> float:
        """Returns the score floor + share (ceiling - floor)."""
        floor = self.floor()
        ceiling = self.ceiling()
        return floor + share * (ceiling - floor)

    @property
    def goals(self) -> list[str]:
        """The headings of the goals, each with its share and its score, such as "50% of the way (0.412)"."""
        return [f"{share:.0%} of the way ({self.goal(share):.3f})" for share in self.shares]

    def cheapest(self, line: Line, share: float) -> float | None:
        """Returns the smallest epsilon at which the mean score of a method reaches the goal of a share.

        Returns None if the method reaches the goal at no epsilon, or if the ceiling is not above the floor.
        """
        goal = self.goal(share) if self.ceiling() > self.floor() else math.inf
        return next((epsilon for epsilon, mean_score, _ in line.scored if mean_score >= goal), None)

    def cheapest_of(self, line: Line) -> list[str]:
        """Returns the smallest epsilon at which a method reaches each goal, as texts; a dash if it never does."""
        epsilons = [self.cheapest(line, share) for share in self.shares]
        return [DASH if epsilon is None else f"{epsilon:g}" for epsilon in epsilons]

    @property
    def ranked(self) -> tuple[Line, ...]:
        """The methods in falling order of `mean_over_epsilons`."""
        return tuple(sorted(self.lines, key=self.mean_over_epsilons, reverse=True))

    def mean_over_epsilons(self, line: Line) -> float:
        """Returns the mean score of a method over all epsilons; an epsilon without a score counts as the floor."""
        floor_score = self.floor()
        scores_at_epsilons = [
            floor_score if point.mean is None else point.mean for point in line.points
        ]
        return float(np.mean(scores_at_epsilons))

    @property
    def verdict(self) -> str:
        """Sentences on the best method at the smallest and at the largest epsilon with a score, on floor and ceiling.

        If no method has a score, the sentence says so.
        """
        # The best mean score and its method, by epsilon.
        best_by_epsilon: dict[float, tuple[float, str]] = {}
        for line in self.lines:
            for epsilon, mean_score, _ in line.scored:
                if epsilon not in best_by_epsilon or mean_score > best_by_epsilon[epsilon][0]:
                    best_by_epsilon[epsilon] = (mean_score, line.title)
        if not best_by_epsilon:
            return "Every method is out of reach at every epsilon that was tried."
        phrases = []
        for epsilon in sorted({min(best_by_epsilon), max(best_by_epsilon)}):
            mean_score, method_title = best_by_epsilon[epsilon]
            phrases.append(
                f"at epsilon {epsilon:g} {method_title} with {mean_score:.3f}, {self._share_in_words(mean_score)}"
            )
        best = f"Best {METRIC_NAMES[self.metric]} {'; '.join(phrases)}."
        ceiling = MODEL_NAMES[self.ceiling_name]
        return f"{best} A constant has {self.floor():.3f}, the {ceiling} {self.ceiling():.3f}."

    def _share_in_words(self, mean_score: float) -> str:
        """Returns in words where a score lies between the floor and the ceiling, such as "62% of the reachable".

        A score may also be no better than the floor, or above the ceiling.
        """
        floor = self.floor()
        ceiling = self.ceiling()
        if mean_score <= floor:
            return "no better than a constant"
        if ceiling <= floor:
            return "better than a constant"
        if mean_score > ceiling:
            return f"above the {MODEL_NAMES[self.ceiling_name]}"
        return f"{(mean_score - floor) / (ceiling - floor):.0%} of the reachable"
