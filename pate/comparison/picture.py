"""The frontier drawn: a metric of the student over epsilon, one line per method."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from pate.comparison.frontier import Frontier, Line, Point
from pate.report.drawing.inline_svg import (
    ACCENT,
    INK,
    MUTED,
    SECOND,
    THIRD,
    Picture,
    draw,
    draw_png,
    on_paper,
    shortened,
)
from pate.report.privacy_coverage import PrivacyCoverage
from pate.report.tables import METRIC_NAMES, MODEL_NAMES

Paint = Callable[[Axes], None]

_COLORS = (ACCENT, SECOND, THIRD, MUTED)
_MARKERS = "osDv^P<X>phd*"
_DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
_LINE_POINTS = 16.5  # of height for each line of the legend
_BASE_POINTS = 270.0
_LONGEST_ENTRY = 44
_LEAST_DISTANCE = 0.09  # of the axis between two epsilons that are both written
_DASHES_OF_LEVELS = ((0, (8, 3)), (0, (1, 2)))
_MARGIN = 0.08


def frontier_picture(frontier: Frontier, metric: str) -> Picture:
    """One metric over epsilon, bars of one standard deviation over seeds, a constant and the ceiling as lines."""
    name, lines = METRIC_NAMES[metric], _in_order(frontier, metric)
    ends = [f"{line.title} {text}" for line in lines if (text := _ends(line))]
    (above, high), (below, low) = _levels(frontier, metric)
    spread = "Mean over the seeds, with bars of one standard deviation" if frontier.has_spread else "One seed"
    return Picture(
        name=f"frontier-{metric}",
        title=f"{name} of the student over epsilon",
        alt=f"A line for each aggregator between {below} with {low:.3f} and the {above} with "
        f"{high:.3f}: {'; '.join(ends)}. The table of scores has every number.",
        caption=f"{spread}; the best stand first in the legend. No epsilon covers the two levels, or the true "
        "labels that all are scored with.",
        mark=PrivacyCoverage.UNCOVERED,
        svg=draw(f"frontier-{metric}", _painter(frontier, metric, lambda color: color), height=_height(frontier)),
    )


def write_png(path: Path, frontier: Frontier) -> None:
    """The frontier by its own metric, on white."""
    draw_png(path, _painter(frontier, frontier.metric, on_paper), height=_height(frontier))


def _painter(frontier: Frontier, metric: str, color: Callable[[str], Any]) -> Paint:
    def paint(axes: Axes) -> None:
        for (text, level), dashes in zip(_levels(frontier, metric), _DASHES_OF_LEVELS, strict=True):
            axes.axhline(level, color=color(INK), linewidth=1.0, linestyle=dashes, label=f"{text} {level:.3f}")
        for index, line in enumerate(_in_order(frontier, metric)):
            _paint_line(axes, line, _look(index, color))
        axes.set_xscale("log")
        axes.set_xticks(frontier.epsilons, _tick_labels(frontier.epsilons))
        axes.minorticks_off()
        axes.set(xlabel="epsilon, an upper bound", ylabel=METRIC_NAMES[metric])
        axes.margins(x=0.04)
        axes.grid()
        axes.set_ylim(*_limits(frontier, metric))
        axes.figure.legend(loc="outside lower left", borderaxespad=0, handlelength=2.2)

    return paint


def _paint_line(axes: Axes, line: Line, look: dict[str, Any]) -> None:
    """Without a single score the line is in the legend all the same, and says so."""
    found = [(point.epsilon, point.mean, _bar(point)) for point in line.points if point.mean is not None]
    outcome = "" if found else ": out of reach"
    label = shortened(line.title, _LONGEST_ENTRY - len(outcome)) + outcome
    epsilons, means = [epsilon for epsilon, *_ in found], np.array([mean for _, mean, _ in found])
    axes.plot(epsilons, means, label=label, markersize=3.6, **look)
    if any(point.std is not None for point in line.points):
        low, high = np.array([bar for *_, bar in found]).T
        bars = np.abs([means - low, high - means])
        axes.errorbar(epsilons, means, bars, fmt="none", ecolor=look["color"], capsize=1.8, elinewidth=0.8)


def _look(index: int, color: Callable[[str], Any]) -> dict[str, Any]:
    """Color, marker and dashes of a line; dashes change when the colors begin again."""
    return {
        "color": color(_COLORS[index % len(_COLORS)]),
        "marker": _MARKERS[index % len(_MARKERS)],
        "linestyle": _DASHES[index // len(_COLORS) % len(_DASHES)],
        "linewidth": 1.3,
    }


def _in_order(frontier: Frontier, metric: str) -> list[Line]:
    """The order of the goals, so that an aggregator looks the same in all pictures."""
    by_title = {line.title: line for line in frontier.lines_of(metric)}
    return [by_title[line.title] for line in frontier.ranked]


def _levels(frontier: Frontier, metric: str) -> tuple[tuple[str, float], tuple[str, float]]:
    """The ceiling and the constant, each by name."""
    return (MODEL_NAMES[frontier.ceiling_name], frontier.ceiling(metric)), ("a constant", frontier.floor(metric))


def _limits(frontier: Frontier, metric: str) -> tuple[float, float]:
    """All scores with their bars and both levels, within [0, 1]."""
    ends = [level for _, level in _levels(frontier, metric)]
    for line in frontier.lines_of(metric):
        ends += [end for point in line.points if point.mean is not None for end in _bar(point)]
    low, high = min(ends), max(ends)
    margin = _MARGIN * (high - low) or _MARGIN
    return max(low - margin, 0.0), min(high + margin, 1.0)


def _bar(point: Point) -> tuple[float, float]:
    """The ends of the bar around a mean, within [0, 1]."""
    mean, std = point.mean or 0.0, point.std or 0.0
    return max(mean - std, 0.0), min(mean + std, 1.0)


def _tick_labels(epsilons: tuple[float, ...]) -> list[str]:
    """The epsilons in words, ascending; one too close to the last that was written is left without."""
    places = np.log(epsilons) / (np.log(epsilons[-1] / epsilons[0]) or 1.0)
    labels: list[str] = []
    last = -np.inf
    for place, epsilon in zip(places, epsilons, strict=True):
        written = place - last >= _LEAST_DISTANCE
        labels.append(f"{epsilon:g}" if written else "")
        last = place if written else last
    return labels


def _height(frontier: Frontier) -> float:
    return _BASE_POINTS + _LINE_POINTS * (len(_DASHES_OF_LEVELS) + len(frontier.lines))


def _ends(line: Line) -> str:
    """The first and the last score in words."""
    found = [(point.epsilon, point.mean) for point in line.points if point.mean is not None]
    if not found:
        return ""
    (first, start), (last, end) = found[0], found[-1]
    return f"from {start:.3f} at {first:g} to {end:.3f} at {last:g}"
