"""The HTML page of a comparison, with pictures of the score of each method as a function of epsilon."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from pate.comparison.frontier import Frontier, Line
from pate.comparison.runs import METRIC_KEYS
from pate.report.page import render_template
from pate.report.picture import (
    ACCENT_COLOR,
    INK_COLOR,
    MUTED_COLOR,
    SECOND_COLOR,
    THIRD_COLOR,
    Picture,
    shorten_name,
)
from pate.report.wording import METRIC_NAMES, MODEL_NAMES

# The colors, markers and dashes of methods, which repeat after the last one. Dashes change when all colors were used.
_COLORS = (ACCENT_COLOR, SECOND_COLOR, THIRD_COLOR, MUTED_COLOR)
_MARKERS = "osDv^P<X>phd*"
_DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
# The dashes of the ceiling and of the floor.
_LEVEL_DASHES = ((0, (8, 3)), (0, (1, 2)))
# The height of the picture in points: the axes, and each entry of the legend.
_AXES_HEIGHT = 270.0
_ENTRY_HEIGHT = 16.5
# The most characters of an entry of the legend.
_MAX_ENTRY_LENGTH = 44
# The smallest distance of two epsilons that both have a label, as a share of the axis.
_MIN_LABEL_DISTANCE = 0.09
# The empty space above and below the scores, as a share of their range.
_MARGIN = 0.08
# The most metrics that are drawn; tables have them all.
_MAX_PICTURES = 2


def render_page(
    frontier: Frontier, parameter_texts_by_method: dict[str, list[tuple[float, str]]]
) -> str:
    """Returns the text of frontier.html, which is for the owner of the data alone.

    Args:
        frontier: the results of the comparison.
        parameter_texts_by_method: for each method, pairs of an epsilon and the parameters at this epsilon, in words.
    """
    metric_keys = dict.fromkeys([frontier.metric, *METRIC_KEYS])
    frontiers = [replace(frontier, metric=metric_key) for metric_key in metric_keys]
    titles_in_order = [method_line.title for method_line in frontier.ranked]
    pictured_frontiers = [frontier for frontier in frontiers if frontier.has_levels][:_MAX_PICTURES]
    return render_template(
        "comparison/frontier.html",
        frontier=frontier,
        pictures={
            frontier.metric: frontier_picture(frontier, titles_in_order)
            for frontier in pictured_frontiers
        },
        metric_frontiers=[
            (frontier, _lines_in_order(frontier, titles_in_order)) for frontier in frontiers
        ],
        parameters=parameter_texts_by_method,
    )


def _lines_in_order(frontier: Frontier, titles_in_order: list[str]) -> list[Line]:
    """Returns the methods of a frontier in the order in which a list has their titles."""
    return sorted(frontier.lines, key=lambda method_line: titles_in_order.index(method_line.title))


def frontier_picture(
    frontier: Frontier, titles_in_order: list[str], *, color_for: Callable[[str], Any] = str
) -> Picture:
    """Returns a picture of the score of each method as a function of epsilon.

    Bars show one standard deviation over seeds. Horizontal lines show the floor and the ceiling.

    Args:
        frontier: the results of the comparison.
        titles_in_order: the titles of the methods, in the order in which colors and markers are assigned.
        color_for: returns the color to draw for a color of the style sheet, such as `on_paper`; by default the same.
    """
    score_of_levels = {
        MODEL_NAMES[frontier.ceiling_name]: frontier.ceiling(),
        "a constant": frontier.floor(),
    }
    method_lines = _lines_in_order(frontier, titles_in_order)

    def paint(axes: Axes) -> None:
        """Draws the floor and the ceiling as horizontal lines, and the scores of each method over epsilon."""
        for (level_name, level_score), dashes in zip(
            score_of_levels.items(), _LEVEL_DASHES, strict=True
        ):
            axes.axhline(
                level_score,
                color=color_for(INK_COLOR),
                linewidth=1.0,
                linestyle=dashes,
                label=f"{level_name} {level_score:.3f}",
            )
        for line_index, method_line in enumerate(method_lines):
            _paint_line(
                axes,
                method_line,
                color=color_for(_COLORS[line_index % len(_COLORS)]),
                marker=_MARKERS[line_index % len(_MARKERS)],
                dashes=_DASHES[line_index // len(_COLORS) % len(_DASHES)],
            )
        axes.set_xscale("log")
        axes.set_xticks(frontier.epsilons, _tick_labels(frontier.epsilons))
        axes.minorticks_off()
        axes.set(xlabel="epsilon, an upper bound", ylabel=METRIC_NAMES[frontier.metric])
        axes.margins(x=0.04)
        axes.grid()
        axis_bottom, axis_top = _axis_limits(
            method_lines, scores_of_levels=score_of_levels.values()
        )
        axes.set_ylim(axis_bottom, axis_top)
        axes.figure.legend(loc="outside lower left", borderaxespad=0, handlelength=2.2)

    return Picture(
        paint,
        height_in_points=_AXES_HEIGHT + _ENTRY_HEIGHT * (len(score_of_levels) + len(method_lines)),
    )


def _paint_line(axes: Axes, method_line: Line, *, color: Any, marker: str, dashes: Any) -> None:
    """Draws the scores of a method. A method without scores is only in the legend, marked "out of reach"."""
    outcome = "" if method_line.scored else ": out of reach"
    legend_entry = (
        shorten_name(method_line.title, max_length=_MAX_ENTRY_LENGTH - len(outcome)) + outcome
    )
    epsilons, mean_scores, score_stds = np.array(method_line.scored).reshape(-1, 3).T
    axes.plot(
        epsilons,
        mean_scores,
        label=legend_entry,
        color=color,
        marker=marker,
        linestyle=dashes,
        markersize=3.6,
        linewidth=1.3,
    )
    if any(point.std is not None for point in method_line.points):
        bar_lengths = np.minimum(score_stds, [mean_scores, 1 - mean_scores])  # scores are in [0, 1]
        axes.errorbar(
            epsilons,
            mean_scores,
            bar_lengths,
            fmt="none",
            ecolor=color,
            capsize=1.8,
            elinewidth=0.8,
        )


def _axis_limits(
    method_lines: list[Line], scores_of_levels: Iterable[float]
) -> tuple[float, float]:
    """Returns the bottom and the top of the vertical axis, both in [0, 1].

    The axis shows the mean scores of all methods, one standard deviation on both sides of each mean, and all levels,
    which are horizontal lines. A deviation that leaves [0, 1] is cut off at 0 or 1. A margin is added within [0, 1].

    Args:
        method_lines: the scores of the methods.
        scores_of_levels: the scores that horizontal lines show, such as the floor and the ceiling.
    """
    shown_scores = list(scores_of_levels)
    for method_line in method_lines:
        for _, mean_score, score_std in method_line.scored:
            shown_scores += [mean_score - score_std, mean_score + score_std]
    lowest_score, highest_score = np.clip([min(shown_scores), max(shown_scores)], 0, 1).tolist()
    margin = _MARGIN * (highest_score - lowest_score) or _MARGIN
    return max(lowest_score - margin, 0.0), min(highest_score + margin, 1.0)


def _tick_labels(epsilons: tuple[float, ...]) -> list[str]:
    """Returns the text at each epsilon of a logarithmic axis; it is empty where it would overlap the text before."""
    axis_length = np.log(epsilons[-1] / epsilons[0]) or 1.0  # one epsilon has no length
    positions = np.log(epsilons) / axis_length
    tick_labels: list[str] = []
    last_labeled = -np.inf
    for position, epsilon in zip(positions, epsilons, strict=True):
        if position - last_labeled >= _MIN_LABEL_DISTANCE:
            tick_labels.append(f"{epsilon:g}")
            last_labeled = position
        else:
            tick_labels.append("")
    return tick_labels
