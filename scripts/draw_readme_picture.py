"""Draws the README's picture of a comparison; the table goes to standard output."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from pate.comparison import Frontier, read_runs
from pate.comparison.frontier import Line, Point
from pate.validation import InvalidValue

METRICS = ("mean_average_precision", "micro_f1")
COLORS = ("#0072B2", "#D55E00", "#007a5a", "#a0508a", "#946a00", "#4d5a61", "#000000", "#3a8fc4")
"""Colors of Okabe and Ito, which color-blind readers tell apart; light colors are darkened for legible names."""
GAP = 0.034  # between two names, of average precision
TEXT = 9.5  # points, of a picture 5.4 inches wide: 8 pixels on a phone
NONE = "\N{EN DASH}"
MARKERS = "osDv^PX*<>"


def main(output: str, comparison: str, *names: str) -> None:
    """Draws mean average precision over epsilon, and prints the table."""
    frontier = select_entrants(Frontier(runs=tuple(read_runs(Path(comparison)))), names)
    draw(output, frontier)
    sys.stdout.write(table(frontier))


def select_entrants(frontier: Frontier, names: tuple[str, ...]) -> Frontier:
    """Returns the frontier with the baselines and the named entrants only; without names with all entrants."""
    lines = {f"{line.name}@{line.num_teachers}": line for line in frontier.lines}
    unknown = [name for name in names if not any(_is_named(key, names=(name,)) for key in lines)]
    if unknown:
        raise InvalidValue("name", unknown[0], rule=f"one of {', '.join(lines)}")
    entrants = {
        (line.name, line.num_teachers)
        for key, line in lines.items()
        if not names or _is_named(key, names)
    }
    runs_by_entrant = [
        (run, (run.aggregator.partition("@")[0], run.num_teachers or 0)) for run in frontier.runs
    ]
    runs = [run for run, entrant in runs_by_entrant if run.is_baseline or entrant in entrants]
    return replace(frontier, runs=tuple(runs))


def draw(output: str, frontier: Frontier) -> None:
    """Draws a line per method with bars of one standard deviation, between both ends without privacy."""
    figure = Figure(figsize=(5.4, 4.6), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    ceiling = frontier.ceiling_name.replace("_", " ")
    levels: tuple[tuple[float, str, int, Literal["top", "bottom"]], ...] = (
        (frontier.floor(), "a constant", -3, "top"),
        (frontier.ceiling(), f"{ceiling}, no privacy", 3, "bottom"),
    )
    for level, text, shift, side in levels:
        axes.axhline(level, color="#b8c4c9", linewidth=1.2)
        axes.annotate(
            text,
            xy=(0.005, level),
            xycoords=("axes fraction", "data"),
            xytext=(0, shift),
            textcoords="offset points",
            ha="left",
            va=side,
            fontsize=TEXT,
        )
    axes.set_ylim(frontier.floor() - 2 * GAP, frontier.ceiling() + 2 * GAP)
    ends: list[tuple[float, str, str]] = []
    for index, line in enumerate(frontier.ranked):
        plotted = [
            (point.epsilon, point.mean, point.std or 0.0)
            for point in line.points
            if point.mean is not None
        ]
        if plotted:
            color = COLORS[index % len(COLORS)]
            epsilons, means, bars = zip(*plotted, strict=True)
            axes.errorbar(
                epsilons,
                means,
                yerr=bars,
                capsize=1.8,
                linewidth=1.6,
                color=color,
                marker=MARKERS[index % len(MARKERS)],
                markersize=4.5,
            )
            ends.append((means[-1], line.title, color))
    for text_level, (level, title, color) in zip(
        spread_levels([end[0] for end in sorted(ends)]), sorted(ends), strict=True
    ):
        axes.annotate(
            title,
            (1.0, level),
            xytext=(1.03, text_level),
            color=color,
            fontsize=TEXT,
            xycoords=("axes fraction", "data"),
            textcoords=("axes fraction", "data"),
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.6},
            va="center",
        )
    axes.set(
        xscale="log", xlabel="epsilon, replace-one, delta 1e-6", ylabel="mean average precision"
    )
    axes.set_xticks(frontier.epsilons, [f"{epsilon:g}" for epsilon in frontier.epsilons])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    FigureCanvasSVG(figure).print_svg(output, metadata={"Date": None})


def spread_levels(levels: list[float]) -> list[float]:
    """Returns rising levels moved apart as little as texts need: a crowded group is centered on its mean."""
    groups: list[list[float]] = []
    for level in levels:
        groups.append([level])
        while len(groups) > 1 and _placed(groups[-1])[0] - _placed(groups[-2])[-1] < GAP:
            last = groups.pop()
            groups[-1] += last
    return [place for group in groups for place in _placed(group)]


def _placed(group: list[float]) -> list[float]:
    """Returns the places of a group of texts, a gap apart."""
    middle = sum(group) / len(group)
    return [middle + (index - (len(group) - 1) / 2) * GAP for index in range(len(group))]


def table(frontier: Frontier) -> str:
    """Returns Markdown: mean average precision / micro-F1 by epsilon between the ends without privacy, best first."""
    empty = [""] * len(frontier.epsilons)
    ends = [
        [
            name.replace("_", " "),
            "",
            _both([frontier.baseline(name, metric) for metric in METRICS]),
            *empty[1:],
        ]
        for name in ("best_constant", frontier.ceiling_name)
    ]
    head = ["method", "teachers", *(f"epsilon {epsilon:g}" for epsilon in frontier.epsilons)]
    lines = [
        head,
        ["---"] * len(head),
        ends[1],
        *(_cells(frontier, line) for line in frontier.ranked),
        ends[0],
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cells(frontier: Frontier, line: Line) -> list[str]:
    by_metric = [
        {point.epsilon: point.mean for point in _line(frontier, line, metric)} for metric in METRICS
    ]
    scores = [_both([means.get(epsilon) for means in by_metric]) for epsilon in frontier.epsilons]
    return [f"`{line.name}`", f"{line.num_teachers:,}" if line.num_teachers else "", *scores]


def _line(frontier: Frontier, line: Line, metric: str) -> tuple[Point, ...]:
    """Returns the same method's points by a metric."""
    index = [curve.title for curve in frontier.lines].index(line.title)
    return frontier.lines_of(metric)[index].points


def _both(scores: list[float | None]) -> str:
    return NONE if None in scores else " / ".join(f"{score:.3f}".lstrip("0") for score in scores)


def _is_named(key: str, names: tuple[str, ...]) -> bool:
    """Returns True where NAME or NAME@T is among the names."""
    return key in names or key.partition("@")[0] in names


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", help="the picture, an .svg file")
    parser.add_argument("comparison", help="the comparison.csv of pate-compare")
    parser.add_argument("names", nargs="*", help="of methods, as NAME or NAME@T; all without any")
    arguments = parser.parse_args()
    try:
        main(arguments.output, arguments.comparison, *arguments.names)
    except InvalidValue as error:
        parser.error(str(error))
