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
    scores_by_model = {
        model_key: scores for model_key, scores in report.models.items() if scores is not None
    }
    if not scores_by_model:
        return None
    rows_per_metric = len(scores_by_model) + 1  # a bar for each model, and a space
    metric_rows = np.arange(len(METRIC_NAMES)) * rows_per_metric

    def paint(axes: Axes) -> None:
        """Paints a group of horizontal bars for each metric, with a bar for each model and a line for its interval."""
        for model_row, (model_key, scores) in enumerate(scores_by_model.items()):
            # None becomes NaN.
            score_of_metrics = np.array(
                [getattr(scores, metric_key) for metric_key in METRIC_NAMES], dtype=np.float64
            )
            bar_rows = metric_rows + model_row
            bar_ends = np.nan_to_num(score_of_metrics)
            axes.barh(
                bar_rows,
                bar_ends,
                height=0.82,
                color=_MODEL_COLORS[model_key],
                label=MODEL_NAMES[model_key],
            )
            # A metric without an interval has a line of length 0.
            interval_by_metric = report.intervals.get(model_key, {})
            interval_ends = np.array(
                [
                    interval_by_metric.get(metric_key, (bar_end, bar_end))
                    for metric_key, bar_end in zip(METRIC_NAMES, bar_ends, strict=True)
                ]
            )
            axes.hlines(
                bar_rows,
                xmin=interval_ends[:, 0],
                xmax=interval_ends[:, 1],
                color=INK_COLOR,
                linewidth=1.0,
            )
            for metric_index, score in enumerate(score_of_metrics):
                axes.text(
                    x=max(bar_ends[metric_index], interval_ends[metric_index, 1]) + 0.012,
                    y=int(bar_rows[metric_index]),
                    s="undefined" if np.isnan(score) else f"{score:.3f}",
                    va="center",
                    color=MUTED_COLOR,
                )
        axes.set_yticks(metric_rows + (len(scores_by_model) - 1) / 2, list(METRIC_NAMES.values()))
        axes.invert_yaxis()
        # There is room for the number behind a full bar.
        _finish_rows(axes, xlim=(0, 1.24))

    return Picture(paint, height_in_points=84 + _PITCH * len(METRIC_NAMES) * rows_per_metric)


def student_curve(picture_arrays: PictureArrays) -> Picture | None:
    """Draws the losses of the student's training; None for a student that is solved in one step."""
    loss_by_curve = {
        curve_name: np.asarray(loss_of_epochs)
        for curve_name, loss_of_epochs in picture_arrays.student_curve.items()
        if len(loss_of_epochs) > 1
    }

    if not loss_by_curve:
        return None
    colors = cycle((ACCENT_COLOR, SECOND_COLOR, THIRD_COLOR, MUTED_COLOR))
    color_of_curve = dict(zip(loss_by_curve, colors, strict=False))  # `cycle` never ends

    def paint(axes: Axes) -> None:
        """Paints a curve over the epochs for each loss."""
        for curve_name, loss_of_epochs in loss_by_curve.items():
            axes.plot(
                np.arange(1, len(loss_of_epochs) + 1),
                loss_of_epochs,
                color=color_of_curve[curve_name],
                label=shorten_name(curve_name, max_length=_MAX_NAME_LENGTH),
            )
        _finish(axes, num_ticks=8, xlabel="epoch")

    return Picture(paint)


def label_dots(picture_arrays: PictureArrays) -> Picture | None:
    """Draws, for each label, its frequency and the average precision of up to three models.

    The models are the student, the majority-vote student and the all-records model. Labels that no test sample has are
    left out. Rows are sorted by the average precision of the all-records model, or else of the student, the greatest
    first. Of more than 60 rows only the first 30 and the last 30 are drawn. The result is None if no student was
    trained, or if no test sample has a label.
    """
    if "average_precision" not in picture_arrays.per_label.get("student", {}):
        return None
    precisions_by_model = {
        mark.model: picture_arrays.per_label[mark.model]["average_precision"]
        for mark in _MARKS
        if mark.model in picture_arrays.per_label
    }
    student_precision_of_labels = precisions_by_model["student"]
    frequency_of_labels = picture_arrays.per_label["student"]["prevalence"]
    precision_to_sort_by = precisions_by_model.get("all_records_model", student_precision_of_labels)
    sorted_label_indices = np.argsort(-precision_to_sort_by, kind="stable")
    # A label that no test sample has is without average precision.
    sorted_label_indices = sorted_label_indices[
        np.isfinite(precision_to_sort_by[sorted_label_indices])
    ]
    if len(sorted_label_indices) == 0:
        return None
    shown_label_indices = sorted_label_indices
    omission = ""
    if len(sorted_label_indices) > _MAX_LABELS:
        most_precise_labels = sorted_label_indices[: _MAX_LABELS // 2]
        least_precise_labels = sorted_label_indices[-(_MAX_LABELS // 2) :]
        shown_label_indices = np.concatenate([most_precise_labels, least_precise_labels])
        num_omitted = len(sorted_label_indices) - len(shown_label_indices)
        omission = f" The {num_omitted} labels in the middle are left out."
    notes = []
    for label_index in dict.fromkeys((sorted_label_indices[0], sorted_label_indices[-1])):
        precisions_text = ", ".join(
            f"{MODEL_NAMES[model_key]} {precision_of_labels[label_index]:.2f}"
            for model_key, precision_of_labels in precisions_by_model.items()
        )
        notes.append(f"{picture_arrays.label_names[label_index]} with {precisions_text}")
    num_near_chance = int(np.count_nonzero(student_precision_of_labels <= 2 * frequency_of_labels))
    shown_names = [
        shorten_name(picture_arrays.label_names[label_index], max_length=_MAX_NAME_LENGTH)
        for label_index in shown_label_indices
    ]
    shown_precisions_by_model = {
        model_key: precision_of_labels[shown_label_indices]
        for model_key, precision_of_labels in precisions_by_model.items()
    }
    label_rows = np.arange(len(shown_label_indices))

    def paint(axes: Axes) -> None:
        """Paints a row for each label, the label with the greatest average precision at the top."""
        shown_precisions = np.stack(list(shown_precisions_by_model.values()))
        axes.hlines(
            label_rows,
            xmin=shown_precisions.min(axis=0),
            xmax=shown_precisions.max(axis=0),
            color=RULE_COLOR,
            linewidth=2.2,
        )
        axes.scatter(
            frequency_of_labels[shown_label_indices],
            label_rows,
            marker="|",
            s=70,
            color=FAINT_COLOR,
            label="frequency",
            zorder=3,
        )
        for mark in _MARKS:
            if mark.model in shown_precisions_by_model:
                axes.scatter(
                    shown_precisions_by_model[mark.model],
                    label_rows,
                    marker=mark.marker,
                    s=26 if mark.is_filled else 44,
                    facecolors=mark.color if mark.is_filled else "none",
                    edgecolors=mark.color,
                    label=MODEL_NAMES[mark.model],
                    zorder=4,
                )
        axes.set_yticks(label_rows, shown_names, parse_math=False)
        _finish_rows(
            axes,
            ylim=(len(shown_names) - 0.4, -0.6),
            xlim=(-0.02, 1.02),
            xlabel="average precision",
        )

    alt_text = (
        f"Average precision of {len(shown_label_indices)} labels, a row each: {'; '.join(notes)}. "
        "The table of labels has every number."
    )
    caption = (
        f"{_sentence_on_marks(shown_precisions_by_model)} The bar is the label's frequency, the score of a guess: "
        f"{num_near_chance} of {len(sorted_label_indices)} labels are within twice of it.{omission}"
    )
    return Picture(
        paint,
        height_in_points=84 + _PITCH * len(shown_label_indices),
        alt=alt_text,
        caption=caption,
    )


def _sentence_on_marks(drawn_model_keys: Container[str]) -> str:
    """Returns sentences that say what the distance from the student's mark to that of each other model means.

    Args:
        drawn_model_keys: the keys in report.json of the models that the picture of labels shows.
    """
    mark_texts = {
        mark.model: f"the {mark.shape_words} ({MODEL_NAMES[mark.model]})"
        for mark in _MARKS
        if mark.model in drawn_model_keys
    }
    cost_texts = {
        "all_records_model": "is what privacy and few queries cost that label",
        "majority_vote_student": "is what the noise cost that label",
    }
    return " ".join(
        f"The distance from {mark_texts['student']} to {mark_texts[model_key]} {cost_text}."
        for model_key, cost_text in cost_texts.items()
        if model_key in mark_texts
    )


def precision_recall(picture_arrays: PictureArrays) -> Picture | None:
    """Draws the student's precision-recall curve, pooled over labels; None if there is no curve.

    There is no curve without a student, or if no test sample has a label. Points mark the student at its threshold, and
    the best constant.
    """
    curve = picture_arrays.precision_recall
    if curve is None:
        return None

    def paint(axes: Axes) -> None:
        """Paints the curve, and the points of the student's threshold and of the best constant."""
        axes.plot(curve.recall, curve.precision, color=ACCENT_COLOR, label="private student")
        chosen_recall, chosen_precision = curve.chosen
        axes.plot(
            chosen_recall,
            chosen_precision,
            color=ACCENT_COLOR,
            marker="o",
            linestyle="none",
            label="at its threshold",
        )
        constant_recall, constant_precision = curve.constant
        axes.plot(
            constant_recall,
            constant_precision,
            color=MUTED_COLOR,
            marker="X",
            linestyle="none",
            label="best constant",
        )
        _finish(axes, xlim=(0, 1.02), ylim=(0, 1.02), xlabel="recall", ylabel="precision")

    return Picture(paint, height_in_points=270)


def membership_curve(report: Report) -> Picture | None:
    """Draws the true positive rates of attacks on the student at low false positive rates, and those of blind guesses.

    Marks show the largest rates that the price of the release permits to any attack. The result is None if no attack
    was made.
    """
    membership = report.membership
    if membership is None:
        return None
    attack_bounds = report.privacy.attacks
    # Rates of 0 have no place on a logarithmic axis: they are drawn below one record.
    share_of_one_private_record = 1 / membership.num_private
    blind_guess_tpr_low = np.maximum(membership.low, share_of_one_private_record / 2)
    blind_guess_tpr_high = np.maximum(membership.high, share_of_one_private_record)

    def paint_attack(
        axes: Axes, true_positive_rates: tuple[float, ...], *, color: str, legend_name: str
    ) -> None:
        """Paints the curve of one attack, without points where the true positive rate is 0.

        Args:
            axes: the axes.
            true_positive_rates: the rate at each false positive rate of the report, `[num_rates]`.
            color: the color of the curve.
            legend_name: the name of the curve in the legend.
        """
        true_positive_rates_or_nan = np.where(
            np.greater(true_positive_rates, 0), true_positive_rates, np.nan
        )
        axes.plot(
            membership.fpr,
            true_positive_rates_or_nan,
            color=color,
            marker="o",
            markersize=2.6,
            label=legend_name,
        )

    def paint(axes: Axes) -> None:
        """Paints the 95% interval of blind guesses as a band, attacks as curves, and bounds by the price as marks."""
        axes.fill_between(
            membership.fpr,
            y1=blind_guess_tpr_low,
            y2=blind_guess_tpr_high,
            color=FAINT_COLOR,
            alpha=0.3,
            linewidth=0,
            label="chance, 95%",
        )
        paint_attack(axes, membership.tpr, color=ACCENT_COLOR, legend_name="by its loss")
        if membership.tpr_by_reference:
            paint_attack(
                axes,
                membership.tpr_by_reference,
                color=SECOND_COLOR,
                legend_name="by reference models",
            )
        if attack_bounds is not None:
            stated_rates = [float(stated_rate) for stated_rate in attack_bounds.found]
            axes.plot(
                stated_rates,
                list(attack_bounds.found.values()),
                color=INK_COLOR,
                linestyle="none",
                marker="_",
                markersize=9,
                label="no attack finds more",
            )
        lowest_rate = min(share_of_one_private_record, membership.fpr[0]) / 2
        axes.set(xscale="log", yscale="log", ylim=(lowest_rate, 1.2))
        # Numbers are plain, because the colors of the page do not reach raised exponents.
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
        _finish(axes, xlabel="false positive rate", ylabel="private records found")

    return Picture(paint)


def answer_bars(picture_arrays: PictureArrays) -> Picture | None:
    """Draws bars that count queries: one for each number of released labels, one for refusals; None without queries.

    The bar for 2 labels counts the queries whose answer says of 2 labels that they are present. The first bar is that
    of no label; a bar at its left counts the refused queries.
    """
    num_queries = len(picture_arrays.answered)
    if num_queries == 0:
        return None
    # The number of answered queries with each number of released labels.
    labels_of_answered_queries = picture_arrays.labels[picture_arrays.answered]
    num_released_labels = np.count_nonzero(labels_of_answered_queries, axis=1)
    num_queries_by_num_labels = np.bincount(num_released_labels, minlength=1)
    num_answered = int(num_queries_by_num_labels.sum())
    num_refused = num_queries - num_answered

    def paint(axes: Axes) -> None:
        """Paints a bar for each number of labels, and a bar of the refused queries at their left."""
        num_bars = len(num_queries_by_num_labels)
        axes.bar(
            np.arange(num_bars),
            num_queries_by_num_labels,
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
        ticks_of_num_released_labels = list(range(0, num_bars, tick_distance))
        axes.set_xticks(
            [refused_position, *ticks_of_num_released_labels],
            ["refused", *map(str, ticks_of_num_released_labels)],
        )
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        _finish(axes, grid="y", xlabel="labels released for the query", ylabel="queries")

    counts_text = ", ".join(
        f"{count} with {num_labels}"
        for num_labels, count in enumerate(num_queries_by_num_labels)
        if count
    )
    alt_text = (
        f"Of {num_queries} queries {num_refused} were refused and {num_answered} answered; "
        f"by number of labels released: {counts_text or 'none'}."
    )
    return Picture(paint, alt=alt_text)


def epsilon_curve(picture_arrays: PictureArrays) -> Picture | None:
    """Draws the epsilon that was spent after each query; None without queries, or for an infinite epsilon."""
    epsilon_after_query = picture_arrays.epsilon_after_query
    if not len(epsilon_after_query) or not np.isfinite(epsilon_after_query).all():
        return None
    num_all_queries = len(epsilon_after_query)
    last_epsilon = float(epsilon_after_query[-1])

    def paint(axes: Axes) -> None:
        """Paints steps over the queries, and a point with the last epsilon."""
        num_points = min(_MAX_POINTS, num_all_queries)
        query_indices = np.unique(
            np.linspace(0, num_all_queries - 1, num_points).round().astype(int)
        )
        axes.plot(
            query_indices + 1,
            epsilon_after_query[query_indices],
            color=ACCENT_COLOR,
            drawstyle="steps-post",
            solid_capstyle="butt",
        )
        axes.plot(
            [num_all_queries],
            [last_epsilon],
            marker="o",
            linestyle="none",
            color=ACCENT_COLOR,
            markersize=4,
            clip_on=False,
        )
        axes.annotate(
            format_epsilon(last_epsilon),
            xy=(num_all_queries, last_epsilon),
            xytext=(-4, 6),
            textcoords="offset points",
            ha="right",
        )
        _finish(
            axes,
            num_ticks=6,
            xlabel="queries, refused ones included",
            ylabel="epsilon",
            xlim=(0, num_all_queries),
            ylim=(0, max(float(epsilon_after_query.max()) * 1.16, 1e-9)),
        )

    return Picture(paint)


def gap_histogram(picture_arrays: PictureArrays) -> Picture | None:
    """Draws the gaps of the votes without noise, and the probability that the stability test passes at each gap.

    The result is None if votes are numbers, which cannot be counted, or if there are no queries. An aggregator without
    a stability test has a picture of the gaps alone.
    """
    if picture_arrays.gaps is None or not len(picture_arrays.gaps):
        return None
    low_gap, median_gap, high_gap = np.quantile(picture_arrays.gaps, [0.05, 0.5, 0.95])
    alt_text = (
        f"A histogram of the {picture_arrays.gap_name} over {len(picture_arrays.gaps)} queries: "
        f"median {median_gap:.0f} votes, 5% below {low_gap:.0f}, 5% above {high_gap:.0f}"
    )
    caption = f"The noiseless {picture_arrays.gap_name} of each query"
    if picture_arrays.pass_gaps is not None and picture_arrays.pass_probability is not None:
        caption += ", and the probability that the stability test lets it pass"
        passing_gaps = picture_arrays.pass_gaps[picture_arrays.pass_probability >= 0.5]
        if len(passing_gaps) > 0:
            alt_text += (
                f"; the test passes with probability one half from {passing_gaps[0]:.0f} votes on"
            )

    def paint(axes: Axes) -> None:
        """Paints the numbers of queries by gap as bars, and the probability of passing on a scale at the right.

        The bars of refused queries are stacked on those of answered queries.
        """
        noiseless_gap_of_queries = np.asarray(picture_arrays.gaps)
        is_answered = picture_arrays.answered
        # Each bin has the same number of whole votes. The first bin begins at 0, or at a smaller gap.
        lowest_gap = min(0, int(np.floor(noiseless_gap_of_queries.min())))
        num_votes = int(np.ceil(noiseless_gap_of_queries.max())) + 1 - lowest_gap
        bin_width = math.ceil(num_votes / _MAX_BINS)
        num_bins = math.ceil(num_votes / bin_width)
        bin_edges = lowest_gap - 0.5 + bin_width * np.arange(num_bins + 1, dtype=np.float64)
        axes.hist(
            [noiseless_gap_of_queries[is_answered], noiseless_gap_of_queries[~is_answered]],
            bins=bin_edges.tolist(),
            stacked=True,
            color=[ACCENT_COLOR, FAINT_COLOR],
            label=["answered", "refused"],
        )
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        if picture_arrays.pass_gaps is not None and picture_arrays.pass_probability is not None:
            right_axes = axes.twinx()
            axes.plot([], [], color=SECOND_COLOR, label="pass probability (right)")
            right_axes.plot(
                # by gaps as `gap_name` defines them
                picture_arrays.pass_gaps,
                picture_arrays.pass_probability,
                color=SECOND_COLOR,
            )
            right_axes.set(xlim=(bin_edges[0], bin_edges[-1]), ylim=(0, 1.02))
            right_axes.yaxis.set_major_formatter(PercentFormatter(1.0))
            right_axes.tick_params(axis="y", length=0)
        axis_name = (
            f"{shorten_name(picture_arrays.gap_name, max_length=_MAX_AXIS_LENGTH)}, in votes"
        )
        _finish(
            axes, grid=None, xlim=(bin_edges[0], bin_edges[-1]), xlabel=axis_name, ylabel="queries"
        )

    return Picture(paint, height_in_points=210, alt=f"{alt_text}.", caption=f"{caption}.")


def votes_by_rank(picture_arrays: PictureArrays) -> Picture | None:
    """Draws the votes without noise by rank: the distribution over queries of the largest count, the second, and so on.

    The result is None if votes are numbers, which cannot be counted, or if there are no queries.
    """
    if picture_arrays.vote_counts is None or not len(picture_arrays.vote_counts):
        return None
    # Small integers are sorted faster.
    vote_counts_of_queries = picture_arrays.vote_counts
    smallest_dtype = np.min_scalar_type(int(vote_counts_of_queries.max()))
    sorted_vote_counts = np.sort(vote_counts_of_queries.astype(smallest_dtype), axis=1)
    # [num_labels, num_queries], largest first
    vote_counts_by_rank = sorted_vote_counts[:, ::-1].T.copy()
    low_votes_of_ranks, median_votes_of_ranks, high_votes_of_ranks = np.quantile(
        vote_counts_by_rank, [0.1, 0.5, 0.9], axis=1
    )
    num_ranks, num_queries = vote_counts_by_rank.shape

    def paint(axes: Axes) -> None:
        """Paints the median over queries at each rank as a curve, and the range of 80% of the queries as a band."""
        label_ranks = np.arange(1, num_ranks + 1)
        axes.fill_between(
            label_ranks,
            y1=low_votes_of_ranks,
            y2=high_votes_of_ranks,
            color=ACCENT_COLOR,
            alpha=0.22,
            linewidth=0,
            label="80% of queries",
        )
        axes.plot(
            label_ranks,
            median_votes_of_ranks,
            color=ACCENT_COLOR,
            marker="o",
            markersize=2.6,
            label="median query",
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

    first_median = median_votes_of_ranks[0]
    alt_text = f"Votes by rank of the label, median over {num_queries} queries: {first_median:.0f} for the first"
    if num_ranks > 1:
        alt_text += f", {median_votes_of_ranks[-1]:.0f} for the last of {num_ranks}"
    return Picture(paint, height_in_points=200, alt=f"{alt_text}.")


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
