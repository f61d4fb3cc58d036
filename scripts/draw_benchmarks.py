"""Draws the picture of docs/performance.md over versions: python scripts/draw_benchmarks.py OUT.svg.

Reads the figures that `python -m benchmarks quick --json benchmarks/history/VERSION.json` wrote, and draws for each job
its time over that of its floor: a row per job, a dot per version, the last version with its number.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

HISTORY = Path(__file__).parents[1] / "benchmarks" / "history"
LAST = "#0072B2"
EARLIER = "#b8c4c9"


def main(output: str) -> None:
    """Draws all versions in the history."""
    files = sorted(
        HISTORY.glob("*.json"), key=lambda path: [int(part) for part in path.stem.split(".")]
    )
    versions = {path.stem: json.loads(path.read_text(encoding="utf-8"))["jobs"] for path in files}
    draw(
        output,
        ratios={
            name: {job["name"]: job["ratio"] for job in jobs} for name, jobs in versions.items()
        },
    )


def draw(output: str, ratios: dict[str, dict[str, float]]) -> None:
    """Draws a row per job of the last version, with the job's name above its dots."""
    last = list(ratios)[-1]
    jobs = sorted(ratios[last], key=ratios[last].__getitem__, reverse=True)
    figure = Figure(figsize=(4.8, 0.36 * len(jobs) + 0.8), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    for version, values in ratios.items():
        places = [(values[job], row) for row, job in enumerate(jobs) if job in values]
        axes.plot(
            *zip(*places, strict=True),
            "o",
            color=LAST if version == last else EARLIER,
            markersize=5,
        )
    for row, job in enumerate(jobs):
        text = f"{ratios[last][job]:.1f}"
        axes.annotate(
            text,
            (ratios[last][job], row),
            (7, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
        axes.annotate(job, (1, row), (4, 5), textcoords="offset points", va="bottom", fontsize=9)
    axes.axvline(1, color="#4d5a61", linewidth=1)
    axes.set(
        xscale="log",
        xlim=(0.8, 400),
        xlabel=f"time over the time of the floor, version {last} in blue",
    )
    axes.set_xticks([1, 10, 100], ["1", "10", "100"])
    axes.set(yticks=[], ylim=(-0.7, len(jobs) - 0.1))
    axes.minorticks_off()
    axes.spines[["top", "right", "left"]].set_visible(False)
    FigureCanvasSVG(figure).print_svg(output, metadata={"Date": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", help="the SVG file to write")
    main(parser.parse_args().output)
