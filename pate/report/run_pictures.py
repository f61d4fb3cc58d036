"""The pictures of a run. Each function returns a `Picture`, or None if the run has no data for it.

The headings of the pictures are in the template of the page.
"""

import math
from collections.abc import Container
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from pate.accounting.rounding import format_epsilon
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
from pate.report.picture_arrays import PictureArrays
from pate.report.report import Report
from pate.report.wording import METRIC_NAMES, MODEL_NAMES

# The color of each model, by its key in report.json.
_MODEL_COLORS = dict(
    zip(
        MODEL_NAMES,
        (FAINT_COLOR, FAINT_COLOR, ACCENT_COLOR, SECOND_COLOR, THIRD_COLOR, MUTED_COLOR),
        strict=True,
    )
)


@dataclass(frozen=True)
class _Mark:
    """The mark of a model in the picture of labels (`label_dots`), which has a row for each label.

    Attributes:
        model: the key of the model in report.json.
        color: the color of the mark.
        marker: the shape of the mark, as matplotlib names it.
        shape_words: the shape of the mark in the caption.
        is_filled: False for a hollow mark.
    """

    model: str
    color: str
    marker: str
    shape_words: str
    is_filled: bool


# The marks of `label_dots`. The student's dot often lies on the majority's diamond, which is therefore hollow.
_MARKS = (
    _Mark(
        model="majority_vote_student",
        color=SECOND_COLOR,
        marker="D",
        shape_words="diamond",
        is_filled=False,
    ),
    _Mark(
        model="all_records_model",
        color=THIRD_COLOR,
        marker="s",
        shape_words="square",
        is_filled=True,
    ),
    _Mark(model="student", color=ACCENT_COLOR, marker="o", shape_words="round dot", is_filled=True),
)
# The distance in points from bar to bar, and from label to label: a line of text.
_PITCH = 14.0
# The largest length of the name of a label or of a curve, in characters.
_MAX_NAME_LENGTH = 22
# The largest length of the name of an axis, in characters.
_MAX_AXIS_LENGTH = 30
# The largest number of labels with a row of their own; of more labels, those in the middle are left out.
_MAX_LABELS = 60
# The largest number of points of a curve over queries.
_MAX_POINTS = 1000
# The largest number of bins of a histogram.
_MAX_BINS = 48


def pictures(report: Report, picture_arrays: PictureArrays) -> dict[str, Picture]:
    """Returns all pictures that the run has data for, by their names on the page."""
    drawings = {
        "scores": score_bars(report),
        "membership": membership_curve(report),
        "precision-recall": precision_recall(picture_arrays),
        "curve": student_curve(picture_arrays),
        "labels": label_dots(picture_arrays),
        "epsilon": epsilon_curve(picture_arrays),
        "answers": answer_bars(picture_arrays),
        "gaps": gap_histogram(picture_arrays),
        "ranks": votes_by_rank(picture_arrays),
    }
    return {name: picture for name, picture in drawings.items() if picture is not None}


def score_bars(report: Report) -> Picture | None:
    """Draws the five metrics of the student and its baselines as bars; None if no model has scores."""
    scored = {model: scores for model, scores in report.models.items() if scores is not None}
    if not scored:
        return None
    rows_per_metric = len(scored) + 1  # a bar for each model, and a space
    metric_rows = np.arange(len(METRIC_NAMES)) * rows_per_metric

    def paint(axes: Axes) -> None:
        """Paints a group of horizontal bars for each metric, with a bar for each model and a line for its interval."""
        for row, (model, scores) in enumerate(scored.items()):
            # None becomes NaN.
            values = np.array([getattr(scores, key) for key in METRIC_NAMES], dtype=np.float64)
            rows = metric_rows + row
            widths = np.nan_to_num(values)
            axes.barh(
                rows, widths, height=0.82, color=_MODEL_COLORS[model], label=MODEL_NAMES[model]
            )
            # A metric without an interval has a line of length 0.
            intervals = report.intervals.get(model, {})
            ends = np.array(
                [
                    intervals.get(key, (width, width))
                    for key, width in zip(METRIC_NAMES, widths, strict=True)
                ]
            )
            axes.hlines(rows, xmin=ends[:, 0], xmax=ends[:, 1], color=INK_COLOR, linewidth=1.0)
            for metric_index, value in enumerate(values):
                axes.text(
                    x=max(widths[metric_index], ends[metric_index, 1]) + 0.012,
                    y=int(rows[metric_index]),
                    s="undefined" if np.isnan(value) else f"{value:.3f}",
                    va="center",
                    color=MUTED_COLOR,
                )
        axes.set_yticks(metric_rows + (len(scored) - 1) / 2, list(METRIC_NAMES.values()))
        axes.invert_yaxis()
        # There is room for the number behind a full bar.
        _finish_rows(axes, xlim=(0, 1.24))

    return Picture(paint, height=84 + _PITCH * len(METRIC_NAMES) * rows_per_metric)


def student_curve(picture_arrays: PictureArrays) -> Picture | None:
    """Draws the losses of the student's training; None for a student that is solved in one step."""
    curves = {
        name: np.asarray(values)
        for name, values in picture_arrays.student_curve.items()
        if len(values) > 1
    }

    if not curves:
        return None
    colors = cycle((ACCENT_COLOR, SECOND_COLOR, THIRD_COLOR, MUTED_COLOR))
    color_of_curve = dict(zip(curves, colors, strict=False))  # `cycle` never ends

    def paint(axes: Axes) -> None:
        """Paints a curve over the epochs for each loss."""
        for name, values in curves.items():
            axes.plot(
                np.arange(1, len(values) + 1),
                values,
                color=color_of_curve[name],
                label=shorten_name(name, max_length=_MAX_NAME_LENGTH),
            )
        _finish(axes, num_ticks=8, xlabel="epoch")

    return Picture(paint)


def label_dots(picture_arrays: PictureArrays) -> Picture | None:
    """Draws, for each label, its frequency and the average precision of up to three models.

    The models are the student, the majority-vote student and the all-records model. Labels that no test sample has are
    left out, and of more than 60 labels those in the middle. The result is None if no student was trained, or if no
    test sample has a label.
    """
    if "average_precision" not in picture_arrays.per_label.get("student", {}):
        return None
    precisions = {
        mark.model: picture_arrays.per_label[mark.model]["average_precision"]
        for mark in _MARKS
        if mark.model in picture_arrays.per_label
    }
    student_precision = precisions["student"]
    frequency = picture_arrays.per_label["student"]["prevalence"]
    sort_key = precisions.get("all_records_model", student_precision)
    sorted_labels = np.argsort(-sort_key, kind="stable")
    # A label that no test sample has is without average precision.
    sorted_labels = sorted_labels[np.isfinite(sort_key[sorted_labels])]
    if len(sorted_labels) == 0:
        return None
    shown_labels = sorted_labels
    omission = ""
    if len(sorted_labels) > _MAX_LABELS:
        first_labels = sorted_labels[: _MAX_LABELS // 2]
        last_labels = sorted_labels[-(_MAX_LABELS // 2) :]
        shown_labels = np.concatenate([first_labels, last_labels])
        num_omitted = len(sorted_labels) - len(shown_labels)
        omission = f" The {num_omitted} labels in the middle are left out."
    notes = []
    for label in dict.fromkeys((sorted_labels[0], sorted_labels[-1])):
        scores = ", ".join(
            f"{MODEL_NAMES[key]} {values[label]:.2f}" for key, values in precisions.items()
        )
        notes.append(f"{picture_arrays.label_names[label]} with {scores}")
    num_near_chance = int(np.count_nonzero(student_precision <= 2 * frequency))
    names = [
        shorten_name(picture_arrays.label_names[label], max_length=_MAX_NAME_LENGTH)
        for label in shown_labels
    ]
    dots = {key: values[shown_labels] for key, values in precisions.items()}
    rows = np.arange(len(shown_labels))

    def paint(axes: Axes) -> None:
        """Paints a row for each label, the first label at the top."""
        all_dots = np.stack(list(dots.values()))
        axes.hlines(
            rows,
            xmin=all_dots.min(axis=0),
            xmax=all_dots.max(axis=0),
            color=RULE_COLOR,
            linewidth=2.2,
        )
        axes.scatter(
            frequency[shown_labels],
            rows,
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
                    rows,
                    marker=mark.marker,
                    s=26 if mark.is_filled else 44,
                    facecolors=mark.color if mark.is_filled else "none",
                    edgecolors=mark.color,
                    label=MODEL_NAMES[mark.model],
                    zorder=4,
                )
        axes.set_yticks(rows, names, parse_math=False)
        _finish_rows(
            axes, ylim=(len(names) - 0.4, -0.6), xlim=(-0.02, 1.02), xlabel="average precision"
        )

    alt = (
        f"Average precision of {len(shown_labels)} labels, a row each: {'; '.join(notes)}. "
        "The table of labels has every number."
    )
    caption = (
        f"{_sentence_on_marks(dots)} The bar is the label's frequency, the score of a guess: "
        f"{num_near_chance} of {len(sorted_labels)} labels are within twice of it.{omission}"
    )
    return Picture(paint, height=84 + _PITCH * len(shown_labels), alt=alt, caption=caption)


def _sentence_on_marks(drawn_models: Container[str]) -> str:
    """Returns sentences that say what the distance from the student's mark to that of each other model means.

    Args:
        drawn_models: the keys in report.json of the models that the picture of labels shows.
    """
    mark_texts = {
        mark.model: f"the {mark.shape_words} ({MODEL_NAMES[mark.model]})"
        for mark in _MARKS
        if mark.model in drawn_models
    }
    cost_texts = {
        "all_records_model": "is what privacy and few queries cost that label",
        "majority_vote_student": "is what the noise cost that label",
    }
    return " ".join(
        f"The distance from {mark_texts['student']} to {mark_texts[model]} {cost_text}."
        for model, cost_text in cost_texts.items()
        if model in mark_texts
    )


def precision_recall(picture_arrays: PictureArrays) -> Picture | None:
    """Draws the student's precision-recall curve, pooled over labels; None if there is no student.

    Points mark the student at its threshold, and the best constant.
    """
    curve = picture_arrays.precision_recall
    if curve is None:
        return None

    def paint(axes: Axes) -> None:
        """Paints the curve, and the points of the student's threshold and of the best constant."""
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
    """Draws the true positive rates of attacks on the student at low false positive rates, and those of blind guesses.

    Marks show the largest rates that the price of the release permits to any attack. The result is None if no attack
    was made.
    """
    attack = report.membership
    if attack is None:
        return None
    bounds = report.privacy.attacks
    # Rates of 0 have no place on a logarithmic axis: they are drawn below one record.
    share_of_one_record = 1 / attack.num_private
    low = np.maximum(attack.low, share_of_one_record / 2)
    high = np.maximum(attack.high, share_of_one_record)

    def paint_attack(
        axes: Axes, true_positive_rates: tuple[float, ...], *, color: str, label: str
    ) -> None:
        """Paints the curve of one attack, without points where the true positive rate is 0.

        Args:
            axes: the axes.
            true_positive_rates: the rate at each false positive rate of the report, `[num_rates]`.
            color: the color of the curve.
            label: the name of the curve in the legend.
        """
        visible_rates = np.where(np.greater(true_positive_rates, 0), true_positive_rates, np.nan)
        axes.plot(attack.fpr, visible_rates, color=color, marker="o", markersize=2.6, label=label)

    def paint(axes: Axes) -> None:
        """Paints the 95% interval of blind guesses as a band, attacks as curves, and bounds by the price as marks."""
        axes.fill_between(
            attack.fpr,
            y1=low,
            y2=high,
            color=FAINT_COLOR,
            alpha=0.3,
            linewidth=0,
            label="chance, 95%",
        )
        paint_attack(axes, attack.tpr, color=ACCENT_COLOR, label="by its loss")
        if attack.tpr_by_reference:
            paint_attack(
                axes, attack.tpr_by_reference, color=SECOND_COLOR, label="by reference models"
            )
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
        lowest_rate = min(share_of_one_record, attack.fpr[0]) / 2
        axes.set(xscale="log", yscale="log", ylim=(lowest_rate, 1.2))
        # Numbers are plain, because the colors of the page do not reach raised exponents.
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
        _finish(axes, xlabel="false positive rate", ylabel="private records found")

    return Picture(paint)


def answer_bars(picture_arrays: PictureArrays) -> Picture | None:
    """Draws the number of refused queries, and how many answers have each number of labels; None without queries."""
    num_queries = len(picture_arrays.answered)
    if num_queries == 0:
        return None
    # The number of answered queries with each number of released labels.
    num_released_labels = np.count_nonzero(picture_arrays.labels[picture_arrays.answered], axis=1)
    query_counts = np.bincount(num_released_labels, minlength=1)
    num_answered = int(query_counts.sum())
    num_refused = num_queries - num_answered

    def paint(axes: Axes) -> None:
        """Paints a bar for each number of labels, and a bar of the refused queries at their left."""
        num_bars = len(query_counts)
        axes.bar(
            np.arange(num_bars),
            query_counts,
            width=0.8,
            color=ACCENT_COLOR,
            label=f"answered ({num_answered})",
        )
        # The distance leaves room for the name of the bar.
        refused_position = -max(2.0, 0.22 * num_bars)
        axes.bar(
            [refused_position],
            [num_refused],
            width=0.8,
            color=FAINT_COLOR,
            label=f"refused ({num_refused})",
        )
        tick_distance = max(1, math.ceil(num_bars / 10))
        ticks = list(range(0, num_bars, tick_distance))
        axes.set_xticks([refused_position, *ticks], ["refused", *map(str, ticks)])
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        _finish(axes, grid="y", xlabel="labels released for the query", ylabel="queries")

    counts_text = ", ".join(
        f"{count} with {num_labels}" for num_labels, count in enumerate(query_counts) if count
    )
    alt = (
        f"Of {num_queries} queries {num_refused} were refused and {num_answered} answered; "
        f"by number of labels released: {counts_text or 'none'}."
    )
    return Picture(paint, alt=alt)


def epsilon_curve(picture_arrays: PictureArrays) -> Picture | None:
    """Draws the epsilon that was spent after each query; None without queries, or for an infinite epsilon."""
    epsilon_after_query = picture_arrays.epsilon_after_query
    if not len(epsilon_after_query) or not np.isfinite(epsilon_after_query).all():
        return None
    num_queries = len(epsilon_after_query)
    last_epsilon = float(epsilon_after_query[-1])

    def paint(axes: Axes) -> None:
        """Paints steps over the queries, and a point with the last epsilon."""
        num_points = min(_MAX_POINTS, num_queries)
        query_indices = np.unique(np.linspace(0, num_queries - 1, num_points).round().astype(int))
        axes.plot(
            query_indices + 1,
            epsilon_after_query[query_indices],
            color=ACCENT_COLOR,
            drawstyle="steps-post",
            solid_capstyle="butt",
        )
        axes.plot(
            [num_queries],
            [last_epsilon],
            marker="o",
            linestyle="none",
            color=ACCENT_COLOR,
            markersize=4,
            clip_on=False,
        )
        axes.annotate(
            format_epsilon(last_epsilon),
            xy=(num_queries, last_epsilon),
            xytext=(-4, 6),
            textcoords="offset points",
            ha="right",
        )
        _finish(
            axes,
            num_ticks=6,
            xlabel="queries, refused ones included",
            ylabel="epsilon",
            xlim=(0, num_queries),
            ylim=(0, max(float(epsilon_after_query.max()) * 1.16, 1e-9)),
        )

    return Picture(paint)


def gap_histogram(picture_arrays: PictureArrays) -> Picture | None:
    """Draws the gaps of the votes without noise, and the probability that the stability test passes at each gap.

    The result is None if the votes are not counted, or if there are no queries. An aggregator without a stability test
    has a picture of the gaps alone.
    """
    if picture_arrays.gaps is None or not len(picture_arrays.gaps):
        return None
    low, middle, high = np.quantile(picture_arrays.gaps, [0.05, 0.5, 0.95])
    alt = (
        f"A histogram of the {picture_arrays.gap_name} over {len(picture_arrays.gaps)} queries: "
        f"median {middle:.0f} votes, 5% below {low:.0f}, 5% above {high:.0f}"
    )
    caption = f"The noiseless {picture_arrays.gap_name} of each query"
    if picture_arrays.pass_gaps is not None and picture_arrays.pass_probability is not None:
        caption += ", and the probability that the stability test lets it pass"
        passing_gaps = picture_arrays.pass_gaps[picture_arrays.pass_probability >= 0.5]
        if len(passing_gaps) > 0:
            alt += (
                f"; the test passes with probability one half from {passing_gaps[0]:.0f} votes on"
            )

    def paint(axes: Axes) -> None:
        """Paints the numbers of gaps as stacked bars on the left scale, and the probability on the right scale."""
        gaps = np.asarray(picture_arrays.gaps)
        is_answered = picture_arrays.answered
        # Each bin has the same number of whole votes. The first bin begins at 0, or at a smaller gap.
        lowest_gap = min(0, int(np.floor(gaps.min())))
        num_votes = int(np.ceil(gaps.max())) + 1 - lowest_gap
        bin_width = math.ceil(num_votes / _MAX_BINS)
        num_bins = math.ceil(num_votes / bin_width)
        edges = lowest_gap - 0.5 + bin_width * np.arange(num_bins + 1, dtype=np.float64)
        axes.hist(
            [gaps[is_answered], gaps[~is_answered]],
            bins=edges.tolist(),
            stacked=True,
            color=[ACCENT_COLOR, FAINT_COLOR],
            label=["answered", "refused"],
        )
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        if picture_arrays.pass_gaps is not None and picture_arrays.pass_probability is not None:
            right_axes = axes.twinx()
            axes.plot([], [], color=SECOND_COLOR, label="pass probability (right)")
            right_axes.plot(
                picture_arrays.pass_gaps, picture_arrays.pass_probability, color=SECOND_COLOR
            )
            right_axes.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.02))
            right_axes.yaxis.set_major_formatter(PercentFormatter(1.0))
            right_axes.tick_params(axis="y", length=0)
        axis_name = (
            f"{shorten_name(picture_arrays.gap_name, max_length=_MAX_AXIS_LENGTH)}, in votes"
        )
        _finish(axes, grid=None, xlim=(edges[0], edges[-1]), xlabel=axis_name, ylabel="queries")

    return Picture(paint, height=210, alt=f"{alt}.", caption=f"{caption}.")


def votes_by_rank(picture_arrays: PictureArrays) -> Picture | None:
    """Draws the votes without noise by rank: the distribution over queries of the largest count, the second, and so on.

    The result is None if the votes are not counted, or if there are no queries.
    """
    if picture_arrays.histogram is None or not len(picture_arrays.histogram):
        return None
    # Small integers are sorted faster.
    small_type = np.min_scalar_type(int(picture_arrays.histogram.max()))
    sorted_counts = np.sort(picture_arrays.histogram.astype(small_type), axis=1)
    counts_by_rank = sorted_counts[:, ::-1].T.copy()  # [num_labels, num_queries], largest first
    low, middle, high = np.quantile(counts_by_rank, [0.1, 0.5, 0.9], axis=1)
    num_ranks, num_queries = counts_by_rank.shape

    def paint(axes: Axes) -> None:
        """Paints the median over queries at each rank as a curve, and the range of 80% of the queries as a band."""
        ranks = np.arange(1, num_ranks + 1)
        axes.fill_between(
            ranks,
            y1=low,
            y2=high,
            color=ACCENT_COLOR,
            alpha=0.22,
            linewidth=0,
            label="80% of queries",
        )
        axes.plot(
            ranks, middle, color=ACCENT_COLOR, marker="o", markersize=2.6, label="median query"
        )
        axes.legend(loc="upper right")
        axes.set_ylim(bottom=0, top=picture_arrays.num_teachers)
        _finish(
            axes,
            num_ticks=8,
            xlabel="rank of the label within its query",
            ylabel="votes",
            xlim=(0.5, num_ranks + 0.5),
        )

    alt = f"Votes by rank of the label, median over {num_queries} queries: {middle[0]:.0f} for the first"
    if num_ranks > 1:
        alt += f", {middle[-1]:.0f} for the last of {num_ranks}"
    return Picture(paint, height=200, alt=f"{alt}.")


def _finish_rows(
    axes: Axes,
    *,
    xlim: tuple[float, float],
    ylim: tuple[float, float] | None = None,
    xlabel: str = "",
) -> None:
    """Adds limits, ticks, a name and a grid to finished axes whose rows show scores from 0 to 1.

    Args:
        axes: the axes, on which everything is drawn.
        xlim: the ends of the x axis.
        ylim: the ends of the y axis; None for the limits of matplotlib.
        xlabel: the name of the x axis.
    """
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=INK_COLOR)
    _finish(axes, grid="x", xlim=xlim, ylim=ylim, xlabel=xlabel)


def _finish(
    axes: Axes,
    *,
    grid: Literal["x", "y", "both"] | None = "both",
    num_ticks: int | None = None,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    xlabel: str = "",
    ylabel: str = "",
) -> None:
    """Adds limits, names, a grid and a legend to finished axes; the legend is above the axes, where it hides nothing.

    Args:
        axes: the axes, on which everything is drawn.
        grid: the axis that has a grid, "x", "y" or "both"; None for no grid.
        num_ticks: the largest number of ticks along x, at whole numbers; None for the ticks of matplotlib.
        xlim: the ends of the x axis; None for the limits of matplotlib.
        ylim: the ends of the y axis; None for the limits of matplotlib.
        xlabel: the name of the x axis.
        ylabel: the name of the y axis.
    """
    if xlim is not None:
        axes.set_xlim(xlim)
    if ylim is not None:
        axes.set_ylim(ylim)
    axes.set(xlabel=xlabel, ylabel=ylabel)
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
