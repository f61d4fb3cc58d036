"""The pictures of a run, collected: functions that return a `Picture`, or None without data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from pate.report.drawing import (
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
from pate.report.metrics import Floats, PrecisionRecall
from pate.report.report import PrivacyCoverage, Report, RunFigures
from pate.report.rounding import format_epsilon
from pate.report.tables import METRIC_NAMES, MODEL_NAMES, Model, models

_MODEL_COLORS = {
    "prior": FAINT,
    "best_constant": FAINT,
    "student": ACCENT,
    "majority_vote_student": SECOND,
    "true_label_student": THIRD,
    "all_records_model": MUTED,
}
_MARKS = (("majority_vote_student", SECOND, "D"), ("all_records_model", THIRD, "s"), ("student", ACCENT, "o"))
_PITCH = 14.0  # points from bar to bar, and from label to label, each with a line of text beside it
_LONGEST_NAME, _LONGEST_AXIS = 22, 30  # characters
_MOST_LABELS = 60
_MOST_POINTS = 1000
_MOST_BINS = 48


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
    height = 84 + _PITCH * (len(shown) + 1) * len(METRIC_NAMES)
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


def _paint_scores(
    axes: Axes, shown: Sequence[Model], intervals: Mapping[str, Mapping[str, tuple[float, float]]]
) -> None:
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
        for end, place, text in zip(np.maximum(widths, ends[:, 1]), places.tolist(), texts, strict=True):
            axes.text(end + 0.012, place, text, va="center", color=MUTED)
    ticks = [row * pitch + (len(shown) - 1) / 2 for row in range(len(METRIC_NAMES))]
    axes.set_yticks(ticks, [*METRIC_NAMES.values()])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.24)  # with room for the number behind a full bar
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    legend_above(axes, columns=2)


def _paint_curves(axes: Axes, curves: dict[str, NDArray[Any]]) -> None:
    """One line per curve over the epochs."""
    for (name, values), color in zip(curves.items(), cycle((ACCENT, SECOND, THIRD, MUTED)), strict=False):
        axes.plot(np.arange(1, len(values) + 1), values, color=color, label=shortened(name, _LONGEST_NAME))
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
    axes.grid()
    legend_above(axes, columns=2)


def _score_text(model: Model) -> str:
    """The metrics of a model in words."""
    scores = vars(model.scores)
    texts = {key: "undefined" if scores[key] is None else f"{scores[key]:.3f}" for key in METRIC_NAMES}
    return ", ".join(f"{METRIC_NAMES[key]} {text}" for key, text in texts.items())


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


def answer_bars(figures: RunFigures) -> Picture | None:
    """How many queries were refused, and how many answers released how many labels; None without queries."""
    total = len(figures.answered)
    if not total:
        return None
    sizes = np.bincount(np.count_nonzero(figures.labels[figures.answered], axis=1), minlength=1)  # [most + 1]
    answered = int(sizes.sum())
    spread = ", ".join(f"{count} with {size}" for size, count in enumerate(sizes) if count)
    return Picture(
        name="answers",
        title="Answered and refused",
        alt=f"Of {total} queries {total - answered} were refused and {answered} answered; by number of "
        f"labels released: {spread or 'none'}.",
        caption="A refused query costs as much privacy as an answered one. An answer with 0 labels says that "
        "the sample has none.",
        mark=PrivacyCoverage.COVERED,
        svg=draw("answers", lambda axes: _paint_answers(axes, sizes, total - answered), height=190),
    )


def epsilon_curve(figures: RunFigures) -> Picture | None:
    """The epsilon spent after each query; None without queries or where an epsilon is infinite."""
    epsilon = figures.epsilon_after_query
    if not len(epsilon) or not np.isfinite(epsilon).all():
        return None
    first, last = format_epsilon(float(epsilon[0])), format_epsilon(float(epsilon[-1]))
    return Picture(
        name="epsilon",
        title="Epsilon after each query",
        alt=f"A curve of the epsilon spent, from {first} after query 1 to {last} after query {len(epsilon)}.",
        caption="What the release would have cost had it stopped after that query, answered or refused. "
        "No vote changes it.",
        mark=PrivacyCoverage.COVERED,
        svg=draw("epsilon", lambda axes: _paint_epsilon(axes, epsilon, last), height=190),
    )


def gap_histogram(figures: RunFigures) -> Picture | None:
    """The noiseless gaps, with the pass probability of the stability test over them; None without gaps."""
    if figures.gaps is None or not len(figures.gaps):
        return None
    low, middle, high = (f"{gap:.0f}" for gap in np.quantile(figures.gaps, [0.05, 0.5, 0.95]))
    tested = figures.pass_gaps is not None
    return Picture(
        name="gaps",
        title="How far apart the votes were",
        alt=f"A histogram of the {figures.gap_name} over {len(figures.gaps)} queries: median {middle} votes, "
        f"5% below {low}, 5% above {high}{_pass_text(figures)}.",
        caption=f"The noiseless {figures.gap_name} of each query"
        + (", and the probability that the stability test lets it pass." if tested else "."),
        mark=PrivacyCoverage.UNCOVERED,
        svg=draw("gaps", lambda axes: _paint_gaps(axes, figures), height=210),
    )


def votes_by_rank(figures: RunFigures) -> Picture | None:
    """The noiseless counts of each query in decreasing order, summarized rank by rank; None without votes."""
    if figures.histogram is None or not len(figures.histogram):
        return None
    small = figures.histogram.astype(np.min_scalar_type(int(figures.histogram.max())))
    counts = np.sort(small, axis=1)[:, ::-1].T.copy()  # [L, Q], largest first
    band = np.quantile(counts, [0.1, 0.5, 0.9], axis=1)  # [3, L]
    middle, ranks = band[1], len(counts)
    return Picture(
        name="ranks",
        title="Votes by rank",
        alt=f"Votes by rank of the label, median over {counts.shape[1]} queries: {middle[0]:.0f} for the first"
        + (f", {middle[-1]:.0f} for the last of {ranks}." if ranks > 1 else "."),
        caption="Noiseless counts of each query in decreasing order. A stable answer needs a steep step.",
        mark=PrivacyCoverage.UNCOVERED,
        svg=draw("ranks", lambda axes: _paint_ranks(axes, band, figures.num_teachers), height=200),
    )


def _paint_answers(axes: Axes, sizes: NDArray[Any], refused: int) -> None:
    """A bar for the refused queries, then one for each number k of released labels, `sizes[k]` high."""
    axes.bar(np.arange(len(sizes)), sizes, width=0.8, color=ACCENT, label=f"answered ({sizes.sum()})")
    left = -max(2.0, 0.22 * len(sizes))  # as far from the answers as its name needs
    axes.bar([left], [refused], width=0.8, color=FAINT, label=f"refused ({refused})")
    ticks = list(range(0, len(sizes), max(1, -(-len(sizes) // 10))))
    axes.set_xticks([left, *ticks], ["refused", *map(str, ticks)])
    axes.set_xlabel("labels released for the query")
    axes.set_ylabel("queries")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.grid(axis="y")
    legend_above(axes, columns=2)


def _paint_epsilon(axes: Axes, epsilon: NDArray[np.float64], last: str) -> None:
    """A curve over the queries, thinned to a thousand points, its end named."""
    count = len(epsilon)
    places = np.unique(np.linspace(0, count - 1, min(_MOST_POINTS, count)).round().astype(int))
    axes.plot(places + 1, epsilon[places], color=ACCENT, drawstyle="steps-post", solid_capstyle="butt")
    axes.plot([count], [epsilon[-1]], "o", color=ACCENT, markersize=4, clip_on=False)
    axes.annotate(last, (count, epsilon[-1]), (-4, 6), textcoords="offset points", ha="right")
    axes.set_xlim(0, count)
    axes.set_ylim(0, max(float(epsilon.max()) * 1.16, 1e-9))
    axes.set_xlabel("queries, refused ones included")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
    axes.set_ylabel("epsilon")
    axes.grid()


def _paint_gaps(axes: Axes, figures: RunFigures) -> None:
    """Stacked bars of the gaps on the left scale, the pass probability on the right one."""
    gaps, answered = np.asarray(figures.gaps), figures.answered
    edges = _gap_edges(gaps)
    colors, names = [ACCENT, FAINT], ["answered", "refused"]
    groups = [gaps[answered], gaps[~answered]]
    axes.hist(groups, bins=edges.tolist(), stacked=True, color=colors, label=names)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_xlabel(f"{shortened(figures.gap_name, _LONGEST_AXIS)}, in votes")
    axes.set_ylabel("queries")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    if figures.pass_gaps is not None and figures.pass_probability is not None:
        right = axes.twinx()
        axes.plot([], [], color=SECOND, label="pass probability (right)")
        right.plot(figures.pass_gaps, figures.pass_probability, color=SECOND)
        right.set_xlim(edges[0], edges[-1])
        right.set_ylim(0, 1.02)
        right.yaxis.set_major_formatter(PercentFormatter(1.0))
        right.tick_params(axis="y", length=0)
    legend_above(axes, columns=2)


def _paint_ranks(axes: Axes, band: NDArray[np.float64], num_teachers: int | None) -> None:
    """The median count by rank inside the band of the middle 80% of the queries; `band` is `[3, L]`."""
    ranks = np.arange(1, band.shape[1] + 1)
    axes.fill_between(ranks, band[0], band[2], color=ACCENT, alpha=0.22, linewidth=0, label="80% of queries")
    axes.plot(ranks, band[1], color=ACCENT, marker="o", markersize=2.6, label="median query")
    axes.set_xlim(0.5, len(ranks) + 0.5)
    axes.set_ylim(0, num_teachers)
    axes.set_xlabel("rank of the label within its query")
    axes.set_ylabel("votes")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
    axes.grid()
    axes.legend(loc="upper right")


def _gap_edges(gaps: NDArray[Any]) -> NDArray[np.float64]:
    """Edges of at most 48 bins of whole votes, from 0 (or a smaller smallest gap) past the largest gap."""
    low, high = min(0, int(np.floor(gaps.min()))), int(np.ceil(gaps.max()))
    width = -(-(high + 1 - low) // _MOST_BINS)
    bins = -(-(high + 1 - low) // width)
    edges: NDArray[np.float64] = low - 0.5 + width * np.arange(bins + 1, dtype=np.float64)
    return edges


def _pass_text(figures: RunFigures) -> str:
    """Where the stability test passes with probability one half, as a clause for the alternative text."""
    if figures.pass_gaps is None or figures.pass_probability is None:
        return ""
    likely = figures.pass_gaps[figures.pass_probability >= 0.5]
    return f"; the test passes with probability one half from {likely[0]:.0f} votes on" if len(likely) else ""
