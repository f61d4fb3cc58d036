"""Draws the picture of docs/audit.md: python scripts/draw_audit.py OUT.svg, some seconds on one core.

For two pairs of neighbors it draws the delta that 600 releases of StableTopK truly have at each epsilon, with the
paper's noise, and the point that the paper states. A guarantee has to lie above the curve of every pair.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from pate.accounting import Adjacency
from pate.array_types import FloatArray, IntArray
from pate.testing import compose, hockey_stick
from pate.testing.verifier import distribution_table
from reproductions.stable_top_k.celeba_prices import (
    NUM_LABELS,
    NUM_QUERIES,
    NUM_TEACHERS,
    SELECTION_STD,
    TARGET_DELTA,
    celeba_aggregator,
)

STATED = (3.6, TARGET_DELTA)
RANKS = np.arange(NUM_LABELS)
FALLING = 760 * RANKS[::-1]
# text and its place, adjacency, two neighboring histograms, color of Okabe and Ito, dashes
CURVES = (
    ("800 teachers:\none record replaced", (5.4, 2e-4), Adjacency.REPLACE_ONE,
     (np.array([799, 401, *[1] * 38]), np.array([800, 400, *[2] * 38])), "#0072B2", "-"),
    ("29,640 teachers:\none more", (3.0, 1e-8), Adjacency.ADD_REMOVE,
     (FALLING, FALLING + RANKS % 2), "#007a5a", "--"),
)  # fmt: skip
EPSILONS = np.linspace(0, 9, 181)


def true_deltas(neighbors: tuple[IntArray, ...], adjacency: Adjacency) -> FloatArray:
    """Returns the delta of all releases at each epsilon in the worse direction; merging outcomes only lowers it."""
    aggregator = celeba_aggregator(adjacency, noise="gaussian", scale=SELECTION_STD)
    teachers = max(NUM_TEACHERS, *(int(counts[0]) for counts in neighbors))
    laws: list[Mapping[Any, float]] = [
        aggregator.distribution(counts, num_teachers=teachers) for counts in neighbors
    ]
    table = distribution_table(laws, distribution_names=("one", "two"))
    first, second = compose(first=table[0], second=table[1], count=NUM_QUERIES, num_cells=512)
    forward = hockey_stick(first[None], second[None], EPSILONS)[0]
    backward = hockey_stick(second[None], first[None], EPSILONS)[0]
    return np.asarray(np.maximum(forward, backward))


def main(output: str) -> None:
    """Draws both curves and the point."""
    figure = Figure(figsize=(5.0, 4.0), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    for text, place, adjacency, neighbors, color, dashes in CURVES:
        axes.plot(EPSILONS, true_deltas(neighbors, adjacency), dashes, color=color, linewidth=2)
        axes.annotate(text, place, color=color)
    axes.plot(*STATED, "o", color="#D55E00", markersize=8)
    axes.annotate(
        "stated: (3.6, 1e-6)",
        STATED,
        (-8, 0),
        textcoords="offset points",
        color="#b84a00",
        ha="right",
    )
    axes.set(
        yscale="log", ylim=(1e-9, 1.5), xlim=(0, 9), xlabel="epsilon", ylabel="delta of 600 queries"
    )
    axes.spines[["top", "right"]].set_visible(False)
    FigureCanvasSVG(figure).print_svg(output, metadata={"Date": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", help="the SVG file to write")
    main(parser.parse_args().output)
