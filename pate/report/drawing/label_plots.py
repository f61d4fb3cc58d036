"""The pictures of the labels: what each one lost to privacy, and which trade the threshold makes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from pate.report.drawing.inline_svg import (
    ACCENT,
    FAINT,
    INK,
    MUTED,
    RULE,
    SECOND,
    THIRD,
    Picture,
    draw,
    legend_above,
    shortened,
)
from pate.report.figures import RunFigures
from pate.report.precision_recall import PrecisionRecall
from pate.report.privacy_coverage import PrivacyCoverage
from pate.report.tables import MODEL_NAMES

_MARKS = (("majority_vote_student", SECOND, "D"), ("all_records_model", THIRD, "s"), ("student", ACCENT, "o"))
_MOST_LABELS = 60
_PITCH = 14.0  # points from label to label, each with a line of text beside it
_LONGEST_NAME = 22

Floats = NDArray[np.float64]


def label_dots(figures: RunFigures) -> Picture | None:
    """Each label's average precision: its frequency, the students and the ceiling; None without a student."""
    if "average_precision" not in figures.per_label.get("student", {}):
        return None
    found = {key: figures.per_label[key]["average_precision"] for key, *_ in _MARKS if key in figures.per_label}
    student, frequency = found["student"], figures.per_label["student"]["prevalence"]
    highest = found.get("all_records_model", student)
    order = np.argsort(-highest, kind="stable")
    order = order[np.isfinite(highest[order])]  # a label that no test sample has, has no average precision
    if not len(order):
        return None
    ends = np.r_[order[: _MOST_LABELS // 2], order[-(_MOST_LABELS // 2) :]]
    shown = order if len(order) <= _MOST_LABELS else ends
    left_out = len(order) - len(shown)
    cut = f" The {left_out} labels in the middle are left out." if left_out else ""
    names = [shortened(figures.label_names[label], _LONGEST_NAME) for label in shown]
    at_chance = int(np.count_nonzero(student <= 2 * frequency))

    def paint(axes: Axes) -> None:
        _paint_dots(axes, {key: values[shown] for key, values in found.items()}, frequency[shown], names)

    return Picture(
        name="labels",
        title="What privacy cost each label",
        alt=f"Average precision of {len(shown)} labels, a row each: {_ends(figures, order, found)}. "
        "The table of labels has every number.",
        caption="On the test split. The distance from a round dot to a square is what privacy and few queries cost "
        f"that label; the bar is the label's frequency, the score of a guess. {at_chance} of {len(order)} labels are "
        f"within twice of it.{cut}",
        mark=PrivacyCoverage.UNCOVERED,
        svg=draw("labels", paint, height=84 + _PITCH * len(shown)),
    )


def precision_recall(figures: RunFigures) -> Picture | None:
    """The student's precision over its recall, and the point that its threshold chose; None without a student."""
    curve = figures.precision_recall
    if curve is None:
        return None
    return Picture(
        name="precision-recall",
        title="Precision and recall of the student",
        alt=f"Over all labels together; at the threshold recall {curve.chosen[0]:.3f} and precision "
        f"{curve.chosen[1]:.3f}; a constant set of labels has recall {curve.constant[0]:.3f} and precision "
        f"{curve.constant[1]:.3f}.",
        caption=f"All bits of the test split together. {_threshold_text(curve)}",
        mark=PrivacyCoverage.HELD_OUT,
        svg=draw("precision-recall", lambda axes: _paint_curve(axes, curve), height=270),
    )


def _ends(figures: RunFigures, order: NDArray[np.intp], found: dict[str, Floats]) -> str:
    """The first and the last label in words."""
    texts = []
    for label in dict.fromkeys((order[0], order[-1])):
        scores = ", ".join(f"{MODEL_NAMES[key]} {values[label]:.2f}" for key, values in found.items())
        texts.append(f"{figures.label_names[label]} with {scores}")
    return "; ".join(texts)


def _threshold_text(curve: PrecisionRecall) -> str:
    if curve.threshold is None:
        return ""
    placed = "a function of the release and of public inputs"
    if isinstance(curve.threshold, tuple):
        low, high = min(curve.threshold), max(curve.threshold)
        return f"Each label is predicted from a probability of its own on, {low:.3g} to {high:.3g}, {placed}."
    return f"A label is predicted from probability {curve.threshold:.3g} on, {placed}."


def _paint_dots(axes: Axes, found: dict[str, Floats], frequency: Floats, names: Sequence[str]) -> None:
    """One row per label, from the top."""
    places = np.arange(len(names))
    ends = np.stack([*found.values()])
    axes.hlines(places, ends.min(axis=0), ends.max(axis=0), color=RULE, linewidth=2.2)
    axes.scatter(frequency, places, marker="|", s=70, color=FAINT, label="frequency", zorder=3)
    for key, color, marker in _MARKS:
        if key in found:
            axes.scatter(found[key], places, marker=marker, s=26, color=color, label=MODEL_NAMES[key], zorder=4)
    axes.set_yticks(places, names, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.set_xlabel("average precision")
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    legend_above(axes, columns=2)


def _paint_curve(axes: Axes, curve: PrecisionRecall) -> None:
    axes.plot(curve.recall, curve.precision, color=ACCENT, label="private student")
    axes.plot(*curve.chosen, color=ACCENT, marker="o", linestyle="none", label="at its threshold")
    axes.plot(*curve.constant, color=MUTED, marker="X", linestyle="none", label="best constant")
    axes.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="recall", ylabel="precision")
    axes.grid()
    legend_above(axes, columns=2)
