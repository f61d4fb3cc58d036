"""The pictures of the votes and of their release: functions that return a `Picture`, or None without data."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from pate.report.drawing.inline_svg import ACCENT, FAINT, SECOND, Picture, draw, legend_above, shortened
from pate.report.figures import RunFigures
from pate.report.privacy_coverage import PrivacyCoverage
from pate.report.rounding import format_epsilon

_MOST_POINTS = 1000
_MOST_BINS = 48
_LONGEST_NAME = 30


def answer_bars(figures: RunFigures) -> Picture | None:
    """How many queries were refused, and how many answers released how many labels; None without queries."""
    total = len(figures.answered)
    if not total:
        return None
    sizes = np.bincount(np.count_nonzero(figures.labels[figures.answered], axis=1), minlength=1)  # [most + 1]
    answered = int(sizes.sum())
    spread = ", ".join(f"{count} with {size}" for size, count in enumerate(sizes) if count)
    return Picture(
        name="answers",
        title="Answered and refused",
        alt=f"Of {total} queries {total - answered} were refused and {answered} answered; by number of "
        f"labels released: {spread or 'none'}.",
        caption="A refused query costs as much privacy as an answered one. An answer with 0 labels says that "
        "the sample has none.",
        mark=PrivacyCoverage.COVERED,
        svg=draw("answers", lambda axes: _paint_answers(axes, sizes, total - answered), height=190),
    )


def epsilon_curve(figures: RunFigures) -> Picture | None:
    """The epsilon spent after each query; None without queries or where an epsilon is infinite."""
    epsilon = figures.epsilon_after_query
    if not len(epsilon) or not np.isfinite(epsilon).all():
        return None
    first, last = format_epsilon(float(epsilon[0])), format_epsilon(float(epsilon[-1]))
    return Picture(
        name="epsilon",
        title="Epsilon after each query",
        alt=f"A curve of the epsilon spent, from {first} after query 1 to {last} after query {len(epsilon)}.",
        caption="What the release would have cost had it stopped after that query, answered or refused. "
        "No vote changes it.",
        mark=PrivacyCoverage.COVERED,
        svg=draw("epsilon", lambda axes: _paint_epsilon(axes, epsilon, last), height=190),
    )


def gap_histogram(figures: RunFigures) -> Picture | None:
    """The noiseless gaps, with the pass probability of the stability test over them; None without gaps."""
    if figures.gaps is None or not len(figures.gaps):
        return None
    low, middle, high = (f"{gap:.0f}" for gap in np.quantile(figures.gaps, [0.05, 0.5, 0.95]))
    tested = figures.pass_gaps is not None
    return Picture(
        name="gaps",
        title="How far apart the votes were",
        alt=f"A histogram of the {figures.gap_name} over {len(figures.gaps)} queries: median {middle} votes, "
        f"5% below {low}, 5% above {high}{_pass_text(figures)}.",
        caption=f"The noiseless {figures.gap_name} of each query"
        + (", and the probability that the stability test lets it pass." if tested else "."),
        mark=PrivacyCoverage.UNCOVERED,
        svg=draw("gaps", lambda axes: _paint_gaps(axes, figures), height=210),
    )


def votes_by_rank(figures: RunFigures) -> Picture | None:
    """The noiseless counts of each query in decreasing order, summarized rank by rank; None without votes."""
    if figures.histogram is None or not len(figures.histogram):
        return None
    small = figures.histogram.astype(np.min_scalar_type(int(figures.histogram.max())))
    counts = np.sort(small, axis=1)[:, ::-1].T.copy()  # [L, Q], largest first
    band = np.quantile(counts, [0.1, 0.5, 0.9], axis=1)  # [3, L]
    middle, ranks = band[1], len(counts)
    return Picture(
        name="ranks",
        title="Votes by rank",
        alt=f"Votes by rank of the label, median over {counts.shape[1]} queries: {middle[0]:.0f} for the first"
        + (f", {middle[-1]:.0f} for the last of {ranks}." if ranks > 1 else "."),
        caption="Noiseless counts of each query in decreasing order. A stable answer needs a steep step.",
        mark=PrivacyCoverage.UNCOVERED,
        svg=draw("ranks", lambda axes: _paint_ranks(axes, band, figures.num_teachers), height=200),
    )


def _paint_answers(axes: Axes, sizes: NDArray[Any], refused: int) -> None:
    """A bar for the refused queries, then one for each number k of released labels, `sizes[k]` high."""
    axes.bar(np.arange(len(sizes)), sizes, width=0.8, color=ACCENT, label=f"answered ({sizes.sum()})")
    left = -max(2.0, 0.22 * len(sizes))  # as far from the answers as its name needs
    axes.bar([left], [refused], width=0.8, color=FAINT, label=f"refused ({refused})")
    ticks = list(range(0, len(sizes), max(1, -(-len(sizes) // 10))))
    axes.set_xticks([left, *ticks], ["refused", *map(str, ticks)])
    axes.set_xlabel("labels released for the query")
    axes.set_ylabel("queries")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.grid(axis="y")
    legend_above(axes, columns=2)


def _paint_epsilon(axes: Axes, epsilon: NDArray[np.float64], last: str) -> None:
    """A curve over the queries, thinned to a thousand points, its end named."""
    count = len(epsilon)
    places = np.unique(np.linspace(0, count - 1, min(_MOST_POINTS, count)).round().astype(int))
    axes.plot(places + 1, epsilon[places], color=ACCENT, drawstyle="steps-post", solid_capstyle="butt")
    axes.plot([count], [epsilon[-1]], "o", color=ACCENT, markersize=4, clip_on=False)
    axes.annotate(last, (count, epsilon[-1]), (-4, 6), textcoords="offset points", ha="right")
    axes.set_xlim(0, count)
    axes.set_ylim(0, max(float(epsilon.max()) * 1.16, 1e-9))
    axes.set_xlabel("queries, refused ones included")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
    axes.set_ylabel("epsilon")
    axes.grid()


def _paint_gaps(axes: Axes, figures: RunFigures) -> None:
    """Stacked bars of the gaps on the left scale, the pass probability on the right one."""
    gaps, answered = np.asarray(figures.gaps), figures.answered
    edges = _gap_edges(gaps)
    colors, names = [ACCENT, FAINT], ["answered", "refused"]
    groups = [gaps[answered], gaps[~answered]]
    axes.hist(groups, bins=edges.tolist(), stacked=True, color=colors, label=names)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_xlabel(f"{shortened(figures.gap_name, _LONGEST_NAME)}, in votes")
    axes.set_ylabel("queries")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    if figures.pass_gaps is not None and figures.pass_probability is not None:
        right = axes.twinx()
        axes.plot([], [], color=SECOND, label="pass probability (right)")
        right.plot(figures.pass_gaps, figures.pass_probability, color=SECOND)
        right.set_xlim(edges[0], edges[-1])
        right.set_ylim(0, 1.02)
        right.yaxis.set_major_formatter(PercentFormatter(1.0))
        right.tick_params(axis="y", length=0)
    legend_above(axes, columns=2)


def _paint_ranks(axes: Axes, band: NDArray[np.float64], num_teachers: int | None) -> None:
    """The median count by rank inside the band of the middle 80% of the queries; `band` is `[3, L]`."""
    ranks = np.arange(1, band.shape[1] + 1)
    axes.fill_between(ranks, band[0], band[2], color=ACCENT, alpha=0.22, linewidth=0, label="80% of queries")
    axes.plot(ranks, band[1], color=ACCENT, marker="o", markersize=2.6, label="median query")
    axes.set_xlim(0.5, len(ranks) + 0.5)
    axes.set_ylim(0, num_teachers)
    axes.set_xlabel("rank of the label within its query")
    axes.set_ylabel("votes")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
    axes.grid()
    axes.legend(loc="upper right")


def _gap_edges(gaps: NDArray[Any]) -> NDArray[np.float64]:
    """Edges of at most 48 bins of whole votes, from 0 (or a smaller smallest gap) past the largest gap."""
    low, high = min(0, int(np.floor(gaps.min()))), int(np.ceil(gaps.max()))
    width = -(-(high + 1 - low) // _MOST_BINS)
    bins = -(-(high + 1 - low) // width)
    edges: NDArray[np.float64] = low - 0.5 + width * np.arange(bins + 1, dtype=np.float64)
    return edges


def _pass_text(figures: RunFigures) -> str:
    """Where the stability test passes with probability one half, as a clause for the alternative text."""
    if figures.pass_gaps is None or figures.pass_probability is None:
        return ""
    likely = figures.pass_gaps[figures.pass_probability >= 0.5]
    return f"; the test passes with probability one half from {likely[0]:.0f} votes on" if len(likely) else ""
