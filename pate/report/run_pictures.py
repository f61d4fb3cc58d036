"""The pictures of a run. Each function returns a `Picture`, or None if the run has no data for it.

The headings of the pictures are in the template of the page.
"""

from collections.abc import Container
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from pate.accounting.rounding import format_epsilon
from pate.report.figures import RunFigures
from pate.report.picture import (
    ACCENT_COLOR,
    FAINT_COLOR,
    INK_COLOR,
    MUTED_COLOR,
    RULE_COLOR,
    SECOND_COLOR,
    THIRD_COLOR,
    Picture,
    shorten_name,
)
from pate.report.report import Report
from pate.report.wording import METRIC_NAMES, MODEL_NAMES

_MODEL_COLORS = dict(
    zip(
        MODEL_NAMES,
        (FAINT_COLOR, FAINT_COLOR, ACCENT_COLOR, SECOND_COLOR, THIRD_COLOR, MUTED_COLOR),
        strict=True,
    )
)


@dataclass(frozen=True)
class _Mark:
    """The mark of a model in the rows of labels: its color, its shape, and its name in the caption."""

    model: str  # by its key in report.json
    color: str
    marker: str  # of matplotlib
    words: str
    is_filled: bool


# The student's dot often lies on the majority's diamond, which is therefore hollow.
_MARKS = (
    _Mark(
        model="majority_vote_student",
        color=SECOND_COLOR,
        marker="D",
        words="diamond",
        is_filled=False,
    ),
    _Mark(model="all_records_model", color=THIRD_COLOR, marker="s", words="square", is_filled=True),
    _Mark(model="student", color=ACCENT_COLOR, marker="o", words="round dot", is_filled=True),
)
_PITCH = 14.0  # points from bar to bar, and from label to label, each with a line of text beside it
# characters
_LONGEST_NAME = 22
_LONGEST_AXIS = 30
_MOST_LABELS = 60
_MOST_POINTS = 1000
_MOST_BINS = 48


def _finish(
    axes: Axes, *, grid: Any = "both", num_ticks: int | None = None, **properties: Any
) -> None:
    """Adds limits, names, a grid and a legend to finished axes; the legend is above the axes, where it hides nothing.

    Args:
        axes: the axes, on which everything is drawn.
        grid: the axis that has a grid, "x", "y" or "both"; None for no grid.
        num_ticks: the greatest number of ticks along x, at whole numbers; None for the ticks of matplotlib.
        **properties: properties of the axes, such as `xlabel`.
    """
    axes.set(**properties)
    if num_ticks is not None:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=num_ticks, min_n_ticks=1))
    if grid is not None:
        axes.grid(axis=grid)
    if axes.get_legend_handles_labels()[0] and axes.get_legend() is None:
        axes.figure.legend(
            loc="outside upper left",
            ncols=2,
            borderaxespad=0,
            borderpad=0.2,
            handlelength=1.2,
            columnspacing=1.2,
        )


def _finish_rows(axes: Axes, **properties: Any) -> None:
    """Adds to axes what `_finish` does, for rows of scores from 0 to 1 that have a name each."""
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=INK_COLOR)
    _finish(axes, grid="x", **properties)


def pictures(report: Report, figures: RunFigures) -> dict[str, Picture]:
    """Returns all pictures that the run has data for, by their names on the page."""
    drawings = {
        "scores": score_bars(report),
        "membership": membership_curve(report),
        "precision-recall": precision_recall(figures),
        "curve": student_curve(figures),
        "labels": label_dots(figures),
        "epsilon": epsilon_curve(figures),
        "answers": answer_bars(figures),
        "gaps": gap_histogram(figures),
        "ranks": votes_by_rank(figures),
    }
    return {name: picture for name, picture in drawings.items() if picture is not None}


def score_bars(report: Report) -> Picture | None:
    """Draws the five metrics of the student and its baselines as bars; None if no model has scores."""
    scored = {model: scores for model, scores in report.models.items() if scores is not None}
    pitch = len(scored) + 1

    def paint(axes: Axes) -> None:
        """Paints a group of horizontal bars for each metric, with a bar for each model and a line for its interval."""
        for row, (model, scores) in enumerate(scored.items()):
            # None becomes NaN
            values = np.array([getattr(scores, key) for key in METRIC_NAMES], dtype=np.float64)
            places = np.arange(len(values)) * pitch + row
            widths = np.nan_to_num(values)
            axes.barh(
                places, widths, height=0.82, color=_MODEL_COLORS[model], label=MODEL_NAMES[model]
            )
            bounds = report.intervals.get(model, {})
            ends = np.array(
                [bounds.get(key, (end, end)) for key, end in zip(METRIC_NAMES, widths, strict=True)]
            )
            axes.hlines(places, *ends.T, color=INK_COLOR, linewidth=1.0)
            for value, end, place in zip(
                values, np.maximum(widths, ends[:, 1]), places.tolist(), strict=True
            ):
                text = "undefined" if np.isnan(value) else f"{value:.3f}"
                axes.text(end + 0.012, place, text, va="center", color=MUTED_COLOR)
        axes.set_yticks(
            np.arange(len(METRIC_NAMES)) * pitch + (len(scored) - 1) / 2, [*METRIC_NAMES.values()]
        )
        axes.invert_yaxis()
        _finish_rows(axes, xlim=(0, 1.24))  # with room for the number behind a full bar

    return Picture(paint, height=84 + _PITCH * len(METRIC_NAMES) * pitch) if scored else None


def student_curve(figures: RunFigures) -> Picture | None:
    """Draws the losses of the student's training; None for a student that is solved in one step."""
    curves = {
        name: np.asarray(values)
        for name, values in figures.student_curve.items()
        if len(values) > 1
    }

    def paint(axes: Axes) -> None:
        for (name, values), color in zip(
            curves.items(),
            cycle((ACCENT_COLOR, SECOND_COLOR, THIRD_COLOR, MUTED_COLOR)),
            strict=False,
        ):
            axes.plot(
                np.arange(1, len(values) + 1),
                values,
                color=color,
                label=shorten_name(name, max_length=_LONGEST_NAME),
            )
        _finish(axes, num_ticks=8, xlabel="epoch")

    return Picture(paint) if curves else None


def label_dots(figures: RunFigures) -> Picture | None:
    """Draws, for each label, its frequency and the average precision of the student and its baselines.

    The result is None if no student was trained, or if no test sample has a label.
    """
    if "average_precision" not in figures.per_label.get("student", {}):
        return None
    precisions = {
        mark.model: figures.per_label[mark.model]["average_precision"]
        for mark in _MARKS
        if mark.model in figures.per_label
    }
    student = precisions["student"]
    frequency = figures.per_label["student"]["prevalence"]
    highest = precisions.get("all_records_model", student)
    order = np.argsort(-highest, kind="stable")
    # a label that no test sample has is without average precision
    order = order[np.isfinite(highest[order])]
    if not len(order):
        return None
    ends = np.r_[order[: _MOST_LABELS // 2], order[-(_MOST_LABELS // 2) :]]
    label_order = order if len(order) <= _MOST_LABELS else ends
    left_out = len(order) - len(label_order)
    cut = f" The {left_out} labels in the middle are left out." if left_out else ""
    notes = []
    for label in dict.fromkeys((order[0], order[-1])):
        scores = ", ".join(
            f"{MODEL_NAMES[key]} {values[label]:.2f}" for key, values in precisions.items()
        )
        notes.append(f"{figures.label_names[label]} with {scores}")
    at_chance = int(np.count_nonzero(student <= 2 * frequency))
    names = [
        shorten_name(figures.label_names[label], max_length=_LONGEST_NAME) for label in label_order
    ]
    dots = {key: values[label_order] for key, values in precisions.items()}
    places = np.arange(len(label_order))

    def paint(axes: Axes) -> None:
        """Paints a row for each label, the first label at the top."""
        ends = np.stack([*dots.values()])
        axes.hlines(places, ends.min(axis=0), ends.max(axis=0), color=RULE_COLOR, linewidth=2.2)
        axes.scatter(
            frequency[label_order],
            places,
            marker="|",
            s=70,
            color=FAINT_COLOR,
            label="frequency",
            zorder=3,
        )
        for mark in _MARKS:
            if mark.model in dots:
                axes.scatter(
                    dots[mark.model],
                    places,
                    marker=mark.marker,
                    s=26 if mark.is_filled else 44,
                    facecolors=mark.color if mark.is_filled else "none",
                    edgecolors=mark.color,
                    label=MODEL_NAMES[mark.model],
                    zorder=4,
                )
        axes.set_yticks(places, names, parse_math=False)
        _finish_rows(
            axes, ylim=(len(names) - 0.4, -0.6), xlim=(-0.02, 1.02), xlabel="average precision"
        )

    alt = f"Average precision of {len(label_order)} labels, a row each: {'; '.join(notes)}."
    frequencies = "The bar is the label's frequency, the score of a guess"
    chance = f"{frequencies}: {at_chance} of {len(order)} labels are within twice of it.{cut}"
    return Picture(
        paint,
        height=84 + _PITCH * len(label_order),
        alt=f"{alt} The table of labels has every number.",
        caption=f"{_marks_in_words(dots)} {chance}",
    )


def _marks_in_words(drawn_models: Container[str]) -> str:
    """Returns sentences that explain the marks of the models in `drawn_models` and the distances between them."""
    words = {
        mark.model: f"the {mark.words} ({MODEL_NAMES[mark.model]})"
        for mark in _MARKS
        if mark.model in drawn_models
    }
    costs = {
        "all_records_model": "is what privacy and few queries cost that label",
        "majority_vote_student": "is what the noise cost that label",
    }
    return " ".join(
        f"The distance from {words['student']} to {words[key]} {cost}."
        for key, cost in costs.items()
        if key in words
    )


def precision_recall(figures: RunFigures) -> Picture | None:
    """Draws the precision-recall curve of the student and the point at its threshold; None if there is no student."""
    curve = figures.precision_recall
    if curve is None:
        return None

    def paint(axes: Axes) -> None:
        axes.plot(curve.recall, curve.precision, color=ACCENT_COLOR, label="private student")
        recall, precision = curve.chosen
        axes.plot(
            recall,
            precision,
            color=ACCENT_COLOR,
            marker="o",
            linestyle="none",
            label="at its threshold",
        )
        recall, precision = curve.constant
        axes.plot(
            recall,
            precision,
            color=MUTED_COLOR,
            marker="X",
            linestyle="none",
            label="best constant",
        )
        _finish(axes, xlim=(0, 1.02), ylim=(0, 1.02), xlabel="recall", ylabel="precision")

    return Picture(paint, height=270)


def membership_curve(report: Report) -> Picture | None:
    """Draws the true positive rates of attacks on the student at low false positive rates, and the rates by chance.

    Marks show the largest rates that the price of the release permits to any attack. The result is None if no attack
    was made.
    """
    attack = report.membership
    if attack is None:
        return None
    bounds = report.privacy.attacks
    one_record = 1 / attack.num_private
    low = np.maximum(attack.low, one_record / 2)
    high = np.maximum(attack.high, one_record)
    lines = {
        "by its loss": (attack.tpr, ACCENT_COLOR),
        "by reference models": (attack.tpr_by_reference, SECOND_COLOR),
    }

    def paint(axes: Axes) -> None:
        axes.fill_between(
            attack.fpr, low, high, color=FAINT_COLOR, alpha=0.3, linewidth=0, label="chance, 95%"
        )
        for name, (tpr, color) in lines.items():
            if tpr:
                visible = np.where(np.greater(tpr, 0), tpr, np.nan)
                axes.plot(attack.fpr, visible, color=color, marker="o", markersize=2.6, label=name)
        if bounds is not None:
            rates = [float(rate) for rate in bounds.found]
            axes.plot(
                rates,
                list(bounds.found.values()),
                color=INK_COLOR,
                linestyle="none",
                marker="_",
                markersize=9,
                label="no attack finds more",
            )
        axes.set(xscale="log", yscale="log", ylim=(min(one_record, attack.fpr[0]) / 2, 1.2))
        # plain numbers: a reader's colors do not reach raised exponents
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
        _finish(axes, xlabel="false positive rate", ylabel="private records found")

    return Picture(paint)


def answer_bars(figures: RunFigures) -> Picture | None:
    """Draws the number of refused queries, and how many answers have each number of labels; None without queries."""
    # queries by their number of released labels
    sizes = np.bincount(np.count_nonzero(figures.labels[figures.answered], axis=1), minlength=1)
    total = len(figures.answered)
    answered = int(sizes.sum())
    spread = ", ".join(f"{count} with {size}" for size, count in enumerate(sizes) if count)

    def paint(axes: Axes) -> None:
        axes.bar(
            np.arange(len(sizes)),
            sizes,
            width=0.8,
            color=ACCENT_COLOR,
            label=f"answered ({answered})",
        )
        left = -max(2.0, 0.22 * len(sizes))  # as far from the answers as its name needs
        axes.bar(
            [left],
            [total - answered],
            width=0.8,
            color=FAINT_COLOR,
            label=f"refused ({total - answered})",
        )
        ticks = list(range(0, len(sizes), max(1, -(-len(sizes) // 10))))
        axes.set_xticks([left, *ticks], ["refused", *map(str, ticks)])
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        _finish(axes, grid="y", xlabel="labels released for the query", ylabel="queries")

    alt = f"Of {total} queries {total - answered} were refused and {answered} answered; by number of labels released: "
    return Picture(paint, alt=f"{alt}{spread or 'none'}.") if total else None


def epsilon_curve(figures: RunFigures) -> Picture | None:
    """Draws the epsilon that was spent after each query; None without queries, or for an infinite epsilon."""
    epsilon = figures.epsilon_after_query
    if not len(epsilon) or not np.isfinite(epsilon).all():
        return None
    num_queries = len(epsilon)
    last = format_epsilon(float(epsilon[-1]))

    def paint(axes: Axes) -> None:
        places = np.unique(
            np.linspace(0, num_queries - 1, min(_MOST_POINTS, num_queries)).round().astype(int)
        )
        axes.plot(
            places + 1,
            epsilon[places],
            color=ACCENT_COLOR,
            drawstyle="steps-post",
            solid_capstyle="butt",
        )
        axes.plot(
            [num_queries], [epsilon[-1]], "o", color=ACCENT_COLOR, markersize=4, clip_on=False
        )
        axes.annotate(
            last, (num_queries, epsilon[-1]), (-4, 6), textcoords="offset points", ha="right"
        )
        _finish(
            axes,
            num_ticks=6,
            xlabel="queries, refused ones included",
            ylabel="epsilon",
            xlim=(0, num_queries),
            ylim=(0, max(float(epsilon.max()) * 1.16, 1e-9)),
        )

    return Picture(paint)


def gap_histogram(figures: RunFigures) -> Picture | None:
    """Draws the gaps of the votes without noise, and the probability that the stability test passes at each gap.

    The result is None if the aggregator has no gaps.
    """
    if figures.gaps is None or not len(figures.gaps):
        return None
    low, middle, high = (f"{gap:.0f}" for gap in np.quantile(figures.gaps, [0.05, 0.5, 0.95]))
    alt = f"A histogram of the {figures.gap_name} over {len(figures.gaps)} queries: "
    alt += f"median {middle} votes, 5% below {low}, 5% above {high}"
    caption = f"The noiseless {figures.gap_name} of each query"
    if figures.pass_gaps is not None and figures.pass_probability is not None:
        caption += ", and the probability that the stability test lets it pass"
        if len(passing := figures.pass_gaps[figures.pass_probability >= 0.5]):
            alt += f"; the test passes with probability one half from {passing[0]:.0f} votes on"

    def paint(axes: Axes) -> None:
        """Paints the numbers of gaps as stacked bars on the left scale, and the probability on the right scale."""
        gaps = np.asarray(figures.gaps)
        is_answered = figures.answered
        # at most 48 bins of whole votes, from 0, or a smaller gap, past the largest gap
        low_gap = min(0, int(np.floor(gaps.min())))
        num_votes = int(np.ceil(gaps.max())) + 1 - low_gap
        width = -(-num_votes // _MOST_BINS)
        num_bins = -(-num_votes // width)
        edges = low_gap - 0.5 + width * np.arange(num_bins + 1, dtype=np.float64)
        axes.hist(
            [gaps[is_answered], gaps[~is_answered]],
            bins=edges.tolist(),
            stacked=True,
            color=[ACCENT_COLOR, FAINT_COLOR],
            label=["answered", "refused"],
        )
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        if figures.pass_gaps is not None and figures.pass_probability is not None:
            right_axes = axes.twinx()
            axes.plot([], [], color=SECOND_COLOR, label="pass probability (right)")
            right_axes.plot(figures.pass_gaps, figures.pass_probability, color=SECOND_COLOR)
            right_axes.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.02))
            right_axes.yaxis.set_major_formatter(PercentFormatter(1.0))
            right_axes.tick_params(axis="y", length=0)
        name = f"{shorten_name(figures.gap_name, max_length=_LONGEST_AXIS)}, in votes"
        _finish(axes, grid=None, xlim=(edges[0], edges[-1]), xlabel=name, ylabel="queries")

    return Picture(paint, height=210, alt=f"{alt}.", caption=f"{caption}.")


def votes_by_rank(figures: RunFigures) -> Picture | None:
    """Draws the distribution of each query's sorted vote counts, without noise, rank by rank; None without votes."""
    if figures.histogram is None or not len(figures.histogram):
        return None
    small = figures.histogram.astype(np.min_scalar_type(int(figures.histogram.max())))
    counts = np.sort(small, axis=1)[:, ::-1].T.copy()  # [L, Q], largest first
    low, middle, high = np.quantile(counts, [0.1, 0.5, 0.9], axis=1)  # [L] each
    ranks, num_queries = counts.shape

    def paint(axes: Axes) -> None:
        places = np.arange(1, ranks + 1)
        axes.fill_between(
            places, low, high, color=ACCENT_COLOR, alpha=0.22, linewidth=0, label="80% of queries"
        )
        axes.plot(
            places, middle, color=ACCENT_COLOR, marker="o", markersize=2.6, label="median query"
        )
        axes.legend(loc="upper right")
        _finish(
            axes,
            num_ticks=8,
            xlabel="rank of the label within its query",
            ylabel="votes",
            xlim=(0.5, ranks + 0.5),
            ylim=(0, figures.num_teachers),
        )

    last = f", {middle[-1]:.0f} for the last of {ranks}" if ranks > 1 else ""
    caption = f"Votes by rank of the label, median over {num_queries} queries: {middle[0]:.0f} for the first{last}."
    return Picture(paint, height=200, alt=caption)
