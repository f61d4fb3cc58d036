"""The pictures of one run, collected, and those of the student: functions that return a `Picture`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from pate.report.drawing.inline_svg import (
    ACCENT,
    FAINT,
    INK,
    MUTED,
    SECOND,
    THIRD,
    Picture,
    draw,
    legend_above,
    shortened,
)
from pate.report.drawing.label_plots import label_dots, precision_recall
from pate.report.drawing.vote_plots import answer_bars, epsilon_curve, gap_histogram, votes_by_rank
from pate.report.figures import RunFigures
from pate.report.privacy_coverage import PrivacyCoverage
from pate.report.report import Report
from pate.report.tables import METRIC_NAMES, Model, models

_MODEL_COLORS = {
    "prior": FAINT,
    "best_constant": FAINT,
    "student": ACCENT,
    "majority_vote_student": SECOND,
    "true_label_student": THIRD,
    "all_records_model": MUTED,
}
_BAR_PITCH = 14.0  # points from bar to bar, each
_LONGEST_NAME = 22

Intervals = Mapping[str, Mapping[str, tuple[float, float]]]


def pictures(report: Report, figures: RunFigures) -> dict[str, Picture]:
    """Draws every picture that the run has data for, by name: the keys are the names of `Picture`."""
    painters: tuple[Callable[[RunFigures], Picture | None], ...] = (
        label_dots,
        precision_recall,
        student_curve,
        answer_bars,
        epsilon_curve,
        gap_histogram,
        votes_by_rank,
    )
    drawn = [score_bars(report), *(painter(figures) for painter in painters)]
    return {picture.name: picture for picture in drawn if picture is not None}


def score_bars(report: Report) -> Picture | None:
    """Five metrics of the private student beside its baselines; None where no model has scores."""
    shown = [model for model in models(report) if model.scores is not None]
    if not shown:
        return None
    lines = [f"{model.name}: {_score_text(model)}" for model in shown]
    lines_over = ", with 95% intervals over test sets drawn again" if report.intervals else ""
    height = 84 + _BAR_PITCH * (len(shown) + 1) * len(METRIC_NAMES)
    return Picture(
        name="scores",
        title="The private student beside its baselines",
        alt=f"Bars of five metrics on the test split. {'; '.join(lines)}.",
        caption=f"Scores on the test split{lines_over}. All bars but the private student's come from true labels or "
        "from votes without noise.",
        mark=PrivacyCoverage.UNCOVERED,
        svg=draw("scores", lambda axes: _paint_scores(axes, shown, report.intervals), height=height),
    )


def student_curve(figures: RunFigures) -> Picture | None:
    """The private student's training; None for a student that is solved in one step."""
    curves = {name: np.asarray(values) for name, values in figures.student_curve.items() if len(values) > 1}
    if not curves:
        return None
    lines = [f"{name} from {values[0]:.3g} to {values[-1]:.3g}" for name, values in curves.items()]
    return Picture(
        name="curve",
        title="Training of the student",
        alt=f"Curves over the epochs: {'; '.join(lines)}.",
        caption="Trained on the released labels of the answered queries and on nothing else.",
        mark=PrivacyCoverage.COVERED,
        svg=draw("curve", lambda axes: _paint_curves(axes, curves), height=190),
    )


def _paint_scores(axes: Axes, shown: Sequence[Model], intervals: Intervals) -> None:
    """Groups of horizontal bars: one group per metric, one bar per model, its interval as a line over its end."""
    pitch = len(shown) + 1
    for row, model in enumerate(shown):
        values = np.array([getattr(model.scores, key) for key in METRIC_NAMES], dtype=np.float64)  # None is NaN
        places, widths = np.arange(len(values)) * pitch + row, np.nan_to_num(values)
        axes.barh(places, widths, height=0.82, color=_MODEL_COLORS[model.key], label=model.name)
        ends = np.array(
            [intervals.get(model.key, {}).get(key, (end, end)) for key, end in zip(METRIC_NAMES, widths, strict=True)]
        )
        axes.hlines(places, *ends.T, color=INK, linewidth=1.0)
        texts = ["undefined" if np.isnan(value) else f"{value:.3f}" for value in values]
        _write_beside(axes, np.maximum(widths, ends[:, 1]), places, texts)
    ticks = [row * pitch + (len(shown) - 1) / 2 for row in range(len(METRIC_NAMES))]
    axes.set_yticks(ticks, [*METRIC_NAMES.values()])
    axes.invert_yaxis()
    _scale_from_0_to_1(axes)
    legend_above(axes, columns=2)


def _paint_curves(axes: Axes, curves: dict[str, NDArray[Any]]) -> None:
    """One line per curve over the epochs."""
    for (name, values), color in zip(curves.items(), cycle((ACCENT, SECOND, THIRD, MUTED)), strict=False):
        axes.plot(np.arange(1, len(values) + 1), values, color=color, label=shortened(name, _LONGEST_NAME))
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
    axes.grid()
    legend_above(axes, columns=2)


def _write_beside(axes: Axes, ends: NDArray[Any], places: NDArray[Any], texts: Sequence[str]) -> None:
    """Writes each bar's number behind its end."""
    for end, place, text in zip(ends, places, texts, strict=True):
        axes.text(end + 0.012, place, text, va="center", color=MUTED)


def _scale_from_0_to_1(axes: Axes) -> None:
    """The horizontal scale of a score, with room for the number behind a full bar."""
    axes.set_xlim(0, 1.24)
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=INK)


def _score_text(model: Model) -> str:
    """The metrics of a model in words."""
    scores = vars(model.scores)
    texts = {key: "undefined" if scores[key] is None else f"{scores[key]:.3f}" for key in METRIC_NAMES}
    return ", ".join(f"{METRIC_NAMES[key]} {text}" for key, text in texts.items())
