"""The page of a comparison, one self-contained file, and its pictures: a metric over epsilon, a line per method."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from pate.comparison.frontier import (
    DASH,
    METRICS,
    NOT_COVERED,
    Frontier,
    Line,
    Point,
    baseline_name,
    baseline_title,
    goal_cells,
    goal_names,
    score,
    verdict,
)
from pate.report.page import number, rendered
from pate.report.pictures import ACCENT, INK, MUTED, SECOND, THIRD, Picture, draw, draw_png, on_paper, shortened
from pate.report.report import PrivacyCoverage
from pate.report.tables import ADJACENCY_NAMES, METRIC_NAMES, MODEL_NAMES

_LEGEND = {
    PrivacyCoverage.COVERED: "Computed from public parameters alone.",
    PrivacyCoverage.UNCOVERED: "Scored with true labels, and taken from many releases of the same data.",
}
_COLORS = (ACCENT, SECOND, THIRD, MUTED)
_MARKERS = "osDv^P<X>phd*"
_DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
_LINE_POINTS = 16.5  # of height for each line of the legend
_BASE_POINTS = 270.0
_LONGEST_ENTRY = 44
_LEAST_DISTANCE = 0.09  # of the axis between two epsilons that are both written
_DASHES_OF_LEVELS = ((0, (8, 3)), (0, (1, 2)))
_MARGIN = 0.08


def render_page(frontier: Frontier, parameters: dict[str, list[tuple[float, str]]]) -> str:
    """Renders frontier.html, which is the data owner's; `parameters`: what was solved for, by method and epsilon."""
    metrics = list(dict.fromkeys([frontier.metric, *METRICS]))
    shown = [metric for metric in metrics if frontier.has_levels(metric)]
    priced = next((run for run in frontier.runs if not run.is_baseline), None)
    num_lines = len(frontier.lines)
    num_seeds = len({run.seed for run in frontier.runs if run.seed is not None})
    return rendered(
        "comparison/frontier.html",
        title=f"{num_lines} method{'s' * (num_lines != 1)} on {frontier.dataset}",
        legend=_LEGEND,
        frontier=frontier,
        said=verdict(frontier),
        pictures=[frontier_picture(frontier, metric) for metric in shown[:2]],
        scores=[_scores(frontier, metric) for metric in metrics],
        baselines=[(baseline_name(run), [number(getattr(run, key)) for key in METRICS]) for run in frontier.baselines],
        ceiling=baseline_title(frontier.ceiling_name),
        goals=goal_names(frontier),
        cheapest=[(line.title, goal_cells(frontier, line)) for line in frontier.ranked],
        epsilons=_epsilon_names(frontier),
        entrants=[(line.title, [line.teacher, line.student, *_answers(frontier, line)]) for line in frontier.ranked],
        parameters=[(f"{name} at {epsilon:g}", text) for name, found in parameters.items() for epsilon, text in found],
        not_covered=NOT_COVERED,
        priced=priced,
        adjacency=ADJACENCY_NAMES.get((priced.adjacency if priced else None) or "", ""),
        seeds="seed" if num_seeds == 1 else f"{num_seeds} seeds",
    )


def _scores(frontier: Frontier, metric: str) -> dict[str, Any]:
    first, rows = metric == frontier.metric, []
    for line in _in_order(frontier, metric):
        points = [_at(line, epsilon) for epsilon in frontier.epsilons]
        # a mean and its deviation in two lines at most, the sign with the latter
        cells = [score(point).replace("± ", "±\N{NO-BREAK SPACE}") for point in points]
        rows.append((line.title, [*cells, f"{frontier.mean_over_epsilons(line):.3f}"] if first else cells))
    head = ["method (teachers)", *_epsilon_names(frontier)]
    over = "mean and standard deviation over the seeds" if frontier.has_spread else "of one seed"
    caption = f"{METRIC_NAMES[metric]} on {frontier.num_test:,} test samples, {over}."
    if (error := frontier.test_error(metric)) is not None:
        caption += f" Another test set would move a score by up to {error:.3f} (95%)."
    if first:
        caption += " The best mean over all epsilons first; a constant stands in where a method is out of reach."
    return {"caption": caption, "head": [*head, "mean"] if first else head, "rows": rows}


def _epsilon_names(frontier: Frontier) -> list[str]:
    return [f"epsilon {epsilon:g}" for epsilon in frontier.epsilons]


def _answers(frontier: Frontier, line: Line) -> list[str]:
    found = [_at(line, epsilon).num_answered for epsilon in frontier.epsilons]
    return [DASH if answered is None else f"{answered:.0f}" for answered in found]


def _at(line: Line, epsilon: float) -> Point:
    points = [point for point in line.points if point.epsilon == epsilon]
    return points[0] if points else Point(epsilon, None, None, None)


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
    """Writes frontier.png: its own metric, on white."""
    draw_png(path, _painter(frontier, frontier.metric, on_paper), height=_height(frontier))


def _painter(frontier: Frontier, metric: str, color: Callable[[str], Any]) -> Callable[[Axes], None]:
    def paint(axes: Axes) -> None:
        for (text, level), dashes in zip(_levels(frontier, metric), _DASHES_OF_LEVELS, strict=True):
            axes.axhline(level, color=color(INK), linewidth=1.0, linestyle=dashes, label=f"{text} {level:.3f}")
        for index, line in enumerate(_in_order(frontier, metric)):
            look = {"color": color(_COLORS[index % len(_COLORS)]), "marker": _MARKERS[index % len(_MARKERS)]}
            _paint_line(axes, line, {**look, "linestyle": _DASHES[index // len(_COLORS) % len(_DASHES)]})
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
    axes.plot(epsilons, means, label=label, markersize=3.6, linewidth=1.3, **look)
    if any(point.std is not None for point in line.points):
        low, high = np.array([bar for *_, bar in found]).T
        bars = np.abs([means - low, high - means])
        axes.errorbar(epsilons, means, bars, fmt="none", ecolor=look["color"], capsize=1.8, elinewidth=0.8)


def _in_order(frontier: Frontier, metric: str) -> list[Line]:
    """The order of the goals, so that an aggregator looks the same in all pictures."""
    by_title = {line.title: line for line in frontier.lines_of(metric)}
    return [by_title[line.title] for line in frontier.ranked]


def _levels(frontier: Frontier, metric: str) -> tuple[tuple[str, float], tuple[str, float]]:
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
    found = [(point.epsilon, point.mean) for point in line.points if point.mean is not None]
    if not found:
        return ""
    (first, start), (last, end) = found[0], found[-1]
    return f"from {start:.3f} at {first:g} to {end:.3f} at {last:g}"
