"""The page of a comparison, one self-contained file, and its pictures: a metric over epsilon, a line per method."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from pate.comparison.frontier import METRICS, NOT_COVERED, Frontier, Line
from pate.report.page import number, rendered
from pate.report.pictures import ACCENT, INK, MUTED, SECOND, THIRD, Picture, shortened
from pate.report.report import ADJACENCY_NAMES, DASH, METRIC_NAMES, MODEL_NAMES, PrivacyCoverage

_LEGEND = {
    PrivacyCoverage.COVERED: "Computed from public parameters alone.",
    PrivacyCoverage.UNCOVERED: "Scored with true labels, and taken from many releases of the same data.",
}
_COLORS = (ACCENT, SECOND, THIRD, MUTED)
_MARKERS = "osDv^P<X>phd*"
_DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
_DASHES_OF_LEVELS = ((0, (8, 3)), (0, (1, 2)))
_BASE_POINTS, _LINE_POINTS = 270.0, 16.5  # of height, and for each line of the legend
_LONGEST_ENTRY = 44
_LEAST_DISTANCE = 0.09  # of the axis between two epsilons that are both written
_MARGIN = 0.08


def render_page(frontier: Frontier, parameters: dict[str, list[tuple[float, str]]]) -> str:
    """Renders frontier.html, which is the data owner's; `parameters`: what was solved for, by method and epsilon."""
    each = [replace(frontier, metric=metric) for metric in dict.fromkeys([frontier.metric, *METRICS])]
    titles, epsilons = [line.title for line in frontier.ranked], frontier.epsilons
    answers = [[line.at(epsilon).num_answered for epsilon in epsilons] for line in frontier.ranked]
    priced = next((run for run in frontier.runs if not run.is_baseline), None)
    num_seeds = len({run.seed for run in frontier.runs if run.seed is not None})
    return rendered(
        "comparison/frontier.html",
        title=f"{len(titles)} method{'s' * (len(titles) != 1)} on {frontier.dataset}",
        legend=_LEGEND,
        frontier=frontier,
        pictures=[(of.metric, frontier_picture(of, titles)) for of in each if of.has_levels][:2],
        scores=[_scores(of, titles, with_mean=of.metric == frontier.metric) for of in each],
        baselines=[(run.title, [number(getattr(run, key)) for key in METRICS]) for run in frontier.baselines],
        ceiling=MODEL_NAMES[frontier.ceiling_name],
        cheapest=[(line.title, frontier.cheapest_of(line)) for line in frontier.ranked],
        epsilons=[f"epsilon {epsilon:g}" for epsilon in epsilons],
        entrants=[
            (line.title, [line.teacher, line.student, *(DASH if count is None else f"{count:.0f}" for count in counts)])
            for line, counts in zip(frontier.ranked, answers, strict=True)
        ],
        parameters=[(f"{name} at {epsilon:g}", text) for name, found in parameters.items() for epsilon, text in found],
        not_covered=NOT_COVERED,
        priced=priced,
        adjacency=ADJACENCY_NAMES.get((priced.adjacency if priced else None) or "", ""),
        seeds="seed" if num_seeds == 1 else f"{num_seeds} seeds",
    )


def _scores(frontier: Frontier, titles: list[str], *, with_mean: bool) -> dict[str, Any]:
    rows = []
    for line in _in_order(frontier, titles):
        # a mean and its deviation in two lines at most, the sign with the latter
        cells = [line.at(epsilon).text.replace("± ", "±\N{NO-BREAK SPACE}") for epsilon in frontier.epsilons]
        rows.append((line.title, [*cells, *([f"{frontier.mean_over_epsilons(line):.3f}"] if with_mean else [])]))
    over = "mean and standard deviation over the seeds" if frontier.has_spread else "of one seed"
    caption = f"{METRIC_NAMES[frontier.metric]} on {frontier.num_test:,} test samples, {over}."
    if found := [run.intervals[frontier.metric] for run in frontier.runs if frontier.metric in run.intervals]:
        error = max((high - low) / 2 for low, high in found)
        caption += f" Another test set would move a score by up to {error:.3f} (95%)."
    if with_mean:
        caption += " The best mean over all epsilons first; a constant stands in where a method is out of reach."
    return {"caption": caption, "rows": rows, "mean": ["mean"] * with_mean}


def frontier_picture(
    frontier: Frontier, titles: list[str], color: Callable[[str], Any] = lambda color: color
) -> Picture:
    """Its metric over epsilon, bars of one standard deviation over seeds, a constant and the ceiling as lines.

    `color` turns a stand-in into what is drawn, such as `on_paper`. Lines have the order of the titles, so that a
    method looks the same in all pictures.
    """
    levels = {MODEL_NAMES[frontier.ceiling_name]: frontier.ceiling(), "a constant": frontier.floor()}
    lines = _in_order(frontier, titles)
    said = [
        f"{line.title} from {mean:.3f} at {first:g} to {end:.3f} at {last:g}"
        for line in lines
        if line.scored
        for (first, mean, _), (last, end, _) in [(line.scored[0], line.scored[-1])]
    ]

    def paint(axes: Axes) -> None:
        for (text, level), dashes in zip(levels.items(), _DASHES_OF_LEVELS, strict=True):
            axes.axhline(level, color=color(INK), linewidth=1.0, linestyle=dashes, label=f"{text} {level:.3f}")
        for index, line in enumerate(lines):
            look = {"color": color(_COLORS[index % len(_COLORS)]), "marker": _MARKERS[index % len(_MARKERS)]}
            _paint_line(axes, line, {**look, "linestyle": _DASHES[index // len(_COLORS) % len(_DASHES)]})
        axes.set_xscale("log")
        axes.set_xticks(frontier.epsilons, _tick_labels(frontier.epsilons))
        axes.minorticks_off()
        axes.set(xlabel="epsilon, an upper bound", ylabel=METRIC_NAMES[frontier.metric])
        axes.margins(x=0.04)
        axes.grid()
        axes.set_ylim(*_limits(lines, *levels.values()))
        axes.figure.legend(loc="outside lower left", borderaxespad=0, handlelength=2.2)

    (above, high), (below, low) = levels.items()
    return Picture(
        f"A line for each aggregator between {below} with {low:.3f} and the {above} with {high:.3f}: "
        f"{'; '.join(said)}. The table of scores has every number.",
        paint,
        _BASE_POINTS + _LINE_POINTS * (len(levels) + len(lines)),
    )


def _paint_line(axes: Axes, line: Line, look: dict[str, Any]) -> None:
    """Without a single score the line is in the legend all the same, and says so."""
    outcome = "" if line.scored else ": out of reach"
    label = shortened(line.title, _LONGEST_ENTRY - len(outcome)) + outcome
    epsilons, means, stds = np.array(line.scored).reshape(-1, 3).T
    axes.plot(epsilons, means, label=label, markersize=3.6, linewidth=1.3, **look)
    if any(point.std is not None for point in line.points):
        bars = np.minimum(stds, [means, 1 - means])  # scores are in [0, 1]
        axes.errorbar(epsilons, means, bars, fmt="none", ecolor=look["color"], capsize=1.8, elinewidth=0.8)


def _in_order(frontier: Frontier, titles: list[str]) -> list[Line]:
    return sorted(frontier.lines, key=lambda line: titles.index(line.title))


def _limits(lines: list[Line], *levels: float) -> tuple[float, float]:
    """All scores with their bars and both levels, within [0, 1]."""
    ends = [*levels, *(end for line in lines for _, mean, std in line.scored for end in (mean - std, mean + std))]
    low, high = np.clip([min(ends), max(ends)], 0, 1).tolist()
    margin = _MARGIN * (high - low) or _MARGIN
    return max(low - margin, 0.0), min(high + margin, 1.0)


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
