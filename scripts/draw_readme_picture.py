"""Draws the README's picture from the reports of finished runs: python scripts/draw_readme_picture.py OUT.svg RUN..."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from pate.report import Report

MODELS = {
    "prior": "prior: each label's majority",
    "student": "private student, epsilon {epsilon:.0f}",
    "majority_vote_student": "student of the votes without noise",
    "non_private_student": "student of the true labels",
}


def main(output: str, *folders: str) -> None:
    """Micro-F1 of each model, the mean over the runs with its standard deviation."""
    reports = [Report.from_json((Path(folder) / "report.json").read_text()) for folder in folders]
    epsilon = reports[0].privacy.epsilon
    figure = Figure(figsize=(7.2, 2.1), layout="constrained")
    axes = figure.add_subplot()
    for row, (key, name) in enumerate(reversed(MODELS.items())):
        scores = [r.student if key == "student" else getattr(r.baselines, key) for r in reports]
        values = np.array([score.micro_f1 for score in scores if score is not None])
        colour = "#1f6f8b" if key == "student" else "#b8c4c9"
        axes.barh(row, values.mean(), xerr=values.std(), color=colour, height=0.62)
        axes.text(values.mean() + 0.012, row, f"{values.mean():.3f}", va="center", fontsize=9)
        axes.text(-0.01, row, name.format(epsilon=epsilon), va="center", ha="right", fontsize=9)
    axes.set(yticks=[], xlim=(0, 0.75), xlabel=f"micro-F1 on WordNet-40, {len(reports)} runs")
    axes.spines[["top", "right", "left"]].set_visible(False)
    FigureCanvasSVG(figure).print_svg(output, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
