"""Draws the picture of docs/when-to-take-what.md (30 minutes): python scripts/draw_teachers_needed.py OUT.svg.

For each aggregator, number of queries and epsilon it searches the fewest teachers whose release is right. Right means:
where 90% of the teachers agree on every label, answered queries times right bits is at least 0.9. It uses public
numbers alone. The same numbers go to standard output as a table in Markdown.
"""

from __future__ import annotations

import argparse
import sys

from hydra import compose, initialize_config_dir
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from pate.accounting import Budget
from pate.aggregators import Aggregator
from pate.config import CONFIG_FOLDER, build_aggregator, register_configs
from pate.pricing import expected_release, plan_release
from pate.votes import VoteShape

EPSILONS = (8.0, 4.0, 2.0, 1.0, 0.5)
QUERIES = (100, 600)
NUM_LABELS = 40
# colors of Okabe and Ito, two of them darker; markers; points by which a name is moved up
LOOKS = {
    "stable_top_k": ("#D55E00", "v", 0),
    "stable_top_k_table": ("#a0508a", "s", 3),
    "gaussian_votes": ("#0072B2", "o", 0),
    "peeling": ("#007a5a", "^", -3),
}
MOST = 100_000
STEP = 1.06  # how close the search comes


def main(output: str) -> None:
    """Searches, draws and prints."""
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        needed = {
            (name, count): fewest_teachers(name, num_queries=count)
            for name in LOOKS
            for count in QUERIES
        }
    draw(output, needed)
    sys.stdout.write(table(needed))


def fewest_teachers(name: str, num_queries: int) -> list[int]:
    """Returns the fewest teachers at each epsilon, to within 6% above them; they grow as epsilon falls."""
    aggregator = build_aggregator(
        compose("train", [f"aggregator={name}"])["aggregator"], adjacency="replace_one"
    )
    counts: list[int] = []
    for epsilon in EPSILONS:
        low = high = counts[-1] if counts else 20
        while high < MOST and not is_right(aggregator, num_queries, epsilon, num_teachers=high):
            low = high
            high = int(high * 1.5)
        while high / low > STEP:
            middle = round((low * high) ** 0.5)
            low, high = (
                (low, middle)
                if is_right(aggregator, num_queries, epsilon, num_teachers=middle)
                else (middle, high)
            )
        counts.append(high)
    return counts


def is_right(aggregator: Aggregator, num_queries: int, epsilon: float, num_teachers: int) -> bool:
    """Returns True where a release of this many teachers recovers the labels that they agree on."""
    shape = VoteShape(num_queries=num_queries, num_labels=NUM_LABELS, num_teachers=num_teachers)
    plan = plan_release(aggregator, shape, budget=Budget(delta=1e-6, epsilon=epsilon))
    return expected_release(plan.aggregator, shape, agreement=0.9).success >= 0.9


def draw(output: str, needed: dict[tuple[str, int], list[int]]) -> None:
    """Draws a panel for each number of queries, one below another: narrow enough for a phone."""
    figure = Figure(figsize=(4.8, 3.4 * len(QUERIES)), layout="constrained", facecolor="white")
    panels = figure.subplots(len(QUERIES), 1, sharex=True, sharey=True)
    for axes, count in zip(panels, QUERIES, strict=True):
        panel(axes, num_queries=count, needed={name: needed[name, count] for name in LOOKS})
        axes.set_ylabel("teachers needed")
    panels[-1].set_xlabel("epsilon, replace-one, delta 1e-6")
    FigureCanvasSVG(figure).print_svg(output, metadata={"Date": None})


def panel(axes: Axes, num_queries: int, needed: dict[str, list[int]]) -> None:
    """Draws the lines of one number of queries."""
    for name, counts in needed.items():
        color, marker, up = LOOKS[name]
        axes.plot(EPSILONS, counts, color=color, marker=marker, markersize=4.5, linewidth=1.6)
        axes.annotate(
            name,
            (EPSILONS[0], counts[0]),
            (6, up),
            textcoords="offset points",
            color=color,
            va="center",
        )
    axes.set(xscale="log", yscale="log", title=f"{num_queries} queries, {NUM_LABELS} labels")
    axes.set_xlim(0.42, 45)
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.set_yticks([100, 1_000, 10_000], ["100", "1,000", "10,000"])
    axes.minorticks_off()
    axes.grid(axis="y", color="#d8dee1", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)


def table(needed: dict[tuple[str, int], list[int]]) -> str:
    """Returns Markdown with a row for each line."""
    head = ["aggregator", "queries", *(f"epsilon {epsilon:g}" for epsilon in reversed(EPSILONS))]
    rows = [
        [f"`{name}`", str(q), *(f"{n:,}" for n in reversed(counts))]
        for (name, q), counts in needed.items()
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", help="the SVG file to write")
    main(parser.parse_args().output)
