"""The page of a run, one self-contained file without scripts and without anything to fetch, and its pictures.

Pictures are inline SVG that takes its colors from the page, or a PNG for paper. Each of a run is a function that gives
a `Picture`, or None without data; the page's template has its heading.
"""

import io
import math
import re
import warnings
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from pate.accounting.rounding import format_epsilon
from pate.files.disk import replacing
from pate.report.report import (
    DASH,
    HEADLINE,
    METRIC_NAMES,
    MODEL_NAMES,
    Report,
    RunFigures,
    add_words,
)

# Stand-in colors for matplotlib; in SVG the page's CSS variables replace them, on paper the light page's values.
INK = "#010101"
MUTED = "#020202"
RULE = "#030303"
ACCENT = "#040404"
SECOND = "#050505"
THIRD = "#060606"
FAINT = "#070707"
_PAPER = {
    INK: ("ink", "#1c2126"),
    MUTED: ("muted", "#5a6570"),
    RULE: ("rule", "#d6dbe0"),
    ACCENT: ("accent", "#235f9f"),
    SECOND: ("second", "#b9531a"),
    THIRD: ("third", "#2b7a5c"),
    FAINT: ("faint", "#848f9a"),
}
_STYLE = mpl.rc_params_from_file(
    Path(__file__).with_name("pictures.mplstyle"), use_default_template=False
)
_POINTS_PER_INCH = 72
_DOTS_PER_INCH = 200
_WIDTH = 340.0  # of a phone less its margins, so that a point is no less than a pixel there

_MODEL_COLORS = dict(zip(MODEL_NAMES, (FAINT, FAINT, ACCENT, SECOND, THIRD, MUTED), strict=True))
# The models of a label's row: color, marker, what it is called in words, and whether it is filled. The student's dot
# often lies on the majority's diamond, which is therefore hollow.
_MARKS = (
    ("majority_vote_student", SECOND, "D", "diamond", False),
    ("all_records_model", THIRD, "s", "square", True),
    ("student", ACCENT, "o", "round dot", True),
)
_PITCH = 14.0  # points from bar to bar, and from label to label, each with a line of text beside it
# characters
_LONGEST_NAME = 22
_LONGEST_AXIS = 30
_MOST_LABELS = 60
_MOST_POINTS = 1000
_MOST_BINS = 48


def render_html(report: Report, figures: RunFigures) -> str:
    """Renders `report.html`, which marks what no epsilon covers and must not be published. Every text is escaped."""
    bounded = math.isfinite(report.privacy.epsilon)
    drawings = pictures(report, figures)
    return rendered(
        "report/report.html", report=report, figures=figures, bounded=bounded, pictures=drawings
    )


def rendered(template: str, **values: Any) -> str:
    """A page: light, dark and in print, from the width of a phone on; every text is escaped but a picture's SVG.

    The template extends `report/page.html`, which reads the `title` and `legend` that it sets.
    """
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pate", ""), autoescape=True, undefined=StrictUndefined
    )
    environment.trim_blocks = environment.lstrip_blocks = True
    add_words(environment)
    environment.globals |= {"dash": DASH, "headline": HEADLINE}
    environment.filters["number"] = number
    environment.filters["breakable"] = lambda name: Markup(
        str(escape(name)).replace(".", ".<wbr>").replace("_", "_<wbr>")
    )
    return environment


def number(value: float | None) -> str:
    """A score with three decimals, a dash where there is none."""
    return DASH if value is None or np.isnan(value) else f"{value:.3f}"


@dataclass(frozen=True)
class Picture:
    """One pair of axes, 340 points wide."""

    paint: Callable[[Axes], None]
    height: float = 190.0  # points
    # what a reader who cannot see it needs to know, and how to read it: as far as the template cannot say it
    alt: str = ""
    caption: str = ""

    def svg(self, name: str) -> str:
        """An `<svg>` element for inlining, without colors, scripts or references of its own; its ids start with `name`.

        It scales with its container, and is hidden from screen readers, as the alternative text stands beside it.
        """
        with self._painted({**_STYLE, "svg.hashsalt": name}) as figure:
            buffer = io.StringIO()
            nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
            figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
        element = buffer.getvalue()
        element = element[element.index("<svg") :].strip()
        element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
        element = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", element)
        element = re.sub(
            r'<svg[^>]*?(viewBox="[^"]*")[^>]*>', r'<svg aria-hidden="true" \1>', element, count=1
        )
        element = re.sub(r'\bid="|href="#|url\(#', lambda found: f"{found[0]}{name}-", element)
        for color, (variable, _) in _PAPER.items():
            element = element.replace(color, f"var(--{variable})")
        return element

    def write_png(self, path: Path) -> None:
        """Draws it for paper, dark ink on white; its own colors are those of `on_paper`."""
        style = {name: on_paper(value) for name, value in _STYLE.items()}
        with self._painted(style) as figure, replacing(path) as file:
            figure.savefig(
                file,
                format="png",
                dpi=_DOTS_PER_INCH,
                facecolor="white",
                metadata={"Software": None},
            )

    @contextmanager
    def _painted(self, style: dict[Any, Any]) -> Iterator[Figure]:
        """Neither pyplot nor any other global state is left changed."""
        with mpl.rc_context(style), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from (current )?font")
            size = (_WIDTH / _POINTS_PER_INCH, self.height / _POINTS_PER_INCH)
            figure = Figure(figsize=size, layout="constrained")
            self.paint(figure.add_subplot())
            yield figure


def on_paper(value: Any) -> Any:
    """The color of the light page for a stand-in color; anything else as it is."""
    return _PAPER[value][1] if isinstance(value, str) and value in _PAPER else value


def shortened(name: str, longest: int) -> str:
    """A name of at most so many characters, its middle left out: names often differ at their ends only."""
    end = longest // 3
    return name if len(name) <= longest else f"{name[: longest - end - 1]}…{name[-end:]}"


def _finish(axes: Axes, *, grid: Any = "both", whole: int | None = None, **about: Any) -> None:
    """Limits and names of the axes; along x at most so many whole numbers, if any; a grid; a legend of what has names.

    It is above the axes, where it hides nothing, from the picture's left edge on.
    """
    axes.set(**about)
    if whole is not None:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=whole, min_n_ticks=1))
    if grid is not None:
        axes.grid(axis=grid)
    if axes.get_legend_handles_labels()[0] and axes.get_legend() is None:
        axes.figure.legend(
            loc="outside upper left",
            ncols=2,
            borderaxespad=0,
            borderpad=0.2,
            handlelength=1.2,
            columnspacing=1.2,
        )


def _finish_rows(axes: Axes, **about: Any) -> None:
    """As `_finish`, for rows of scores from 0 to 1 with a name each."""
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    _finish(axes, grid="x", **about)


def pictures(report: Report, figures: RunFigures) -> dict[str, Picture]:
    """Every picture that the run has data for, by its name on the page."""
    of_figures = {
        "precision-recall": precision_recall,
        "curve": student_curve,
        "labels": label_dots,
    }
    of_figures |= {
        "epsilon": epsilon_curve,
        "answers": answer_bars,
        "gaps": gap_histogram,
        "ranks": votes_by_rank,
    }
    drawings = {"scores": score_bars(report), "membership": membership_curve(report)}
    drawings |= {name: picture(figures) for name, picture in of_figures.items()}
    return {name: picture for name, picture in drawings.items() if picture is not None}


def score_bars(report: Report) -> Picture | None:
    """Five metrics of the private student beside its baselines; None where no model has scores."""
    scored = {model: scores for model, scores in report.models.items() if scores is not None}
    pitch = len(scored) + 1

    def paint(axes: Axes) -> None:
        """Groups of horizontal bars: one group per metric, one bar per model, its interval as a line over its end."""
        for row, (model, scores) in enumerate(scored.items()):
            # None is NaN
            values = np.array([getattr(scores, key) for key in METRIC_NAMES], dtype=np.float64)
            places = np.arange(len(values)) * pitch + row
            widths = np.nan_to_num(values)
            axes.barh(
                places, widths, height=0.82, color=_MODEL_COLORS[model], label=MODEL_NAMES[model]
            )
            bounds = report.intervals.get(model, {})
            ends = np.array(
                [bounds.get(key, (end, end)) for key, end in zip(METRIC_NAMES, widths, strict=True)]
            )
            axes.hlines(places, *ends.T, color=INK, linewidth=1.0)
            for value, end, place in zip(
                values, np.maximum(widths, ends[:, 1]), places.tolist(), strict=True
            ):
                text = "undefined" if np.isnan(value) else f"{value:.3f}"
                axes.text(end + 0.012, place, text, va="center", color=MUTED)
        axes.set_yticks(
            np.arange(len(METRIC_NAMES)) * pitch + (len(scored) - 1) / 2, [*METRIC_NAMES.values()]
        )
        axes.invert_yaxis()
        _finish_rows(axes, xlim=(0, 1.24))  # with room for the number behind a full bar

    return Picture(paint, 84 + _PITCH * len(METRIC_NAMES) * pitch) if scored else None


def student_curve(figures: RunFigures) -> Picture | None:
    """The private student's training; None for a student that is solved in one step."""
    curves = {
        name: np.asarray(values)
        for name, values in figures.student_curve.items()
        if len(values) > 1
    }

    def paint(axes: Axes) -> None:
        for (name, values), color in zip(
            curves.items(), cycle((ACCENT, SECOND, THIRD, MUTED)), strict=False
        ):
            axes.plot(
                np.arange(1, len(values) + 1),
                values,
                color=color,
                label=shortened(name, _LONGEST_NAME),
            )
        _finish(axes, whole=8, xlabel="epoch")

    return Picture(paint) if curves else None


def label_dots(figures: RunFigures) -> Picture | None:
    """Each label's average precision: its frequency, the students and the ceiling; None without a student."""
    if "average_precision" not in figures.per_label.get("student", {}):
        return None
    found = {
        key: figures.per_label[key]["average_precision"]
        for key, *_ in _MARKS
        if key in figures.per_label
    }
    student = found["student"]
    frequency = figures.per_label["student"]["prevalence"]
    highest = found.get("all_records_model", student)
    order = np.argsort(-highest, kind="stable")
    # a label that no test sample has, has no average precision
    order = order[np.isfinite(highest[order])]
    if not len(order):
        return None
    ends = np.r_[order[: _MOST_LABELS // 2], order[-(_MOST_LABELS // 2) :]]
    label_order = order if len(order) <= _MOST_LABELS else ends
    left_out = len(order) - len(label_order)
    cut = f" The {left_out} labels in the middle are left out." if left_out else ""
    notes = []
    for label in dict.fromkeys((order[0], order[-1])):
        scores = ", ".join(
            f"{MODEL_NAMES[key]} {values[label]:.2f}" for key, values in found.items()
        )
        notes.append(f"{figures.label_names[label]} with {scores}")
    at_chance = int(np.count_nonzero(student <= 2 * frequency))
    names = [shortened(figures.label_names[label], _LONGEST_NAME) for label in label_order]
    dots = {key: values[label_order] for key, values in found.items()}
    places = np.arange(len(label_order))

    def paint(axes: Axes) -> None:
        """One row per label, from the top."""
        ends = np.stack([*dots.values()])
        axes.hlines(places, ends.min(axis=0), ends.max(axis=0), color=RULE, linewidth=2.2)
        axes.scatter(
            frequency[label_order],
            places,
            marker="|",
            s=70,
            color=FAINT,
            label="frequency",
            zorder=3,
        )
        for key, color, marker, _, filled in _MARKS:
            if key in dots:
                inner = color if filled else "none"
                size = 26 if filled else 44
                label = MODEL_NAMES[key]
                axes.scatter(
                    dots[key],
                    places,
                    marker=marker,
                    s=size,
                    facecolors=inner,
                    edgecolors=color,
                    label=label,
                    zorder=4,
                )
        axes.set_yticks(places, names, parse_math=False)
        _finish_rows(
            axes, ylim=(len(names) - 0.4, -0.6), xlim=(-0.02, 1.02), xlabel="average precision"
        )

    alt = f"Average precision of {len(label_order)} labels, a row each: {'; '.join(notes)}."
    frequencies = "The bar is the label's frequency, the score of a guess"
    near = f"{frequencies}: {at_chance} of {len(order)} labels are within twice of it.{cut}"
    caption = f"{_marks_in_words(dots)} {near}"
    return Picture(
        paint,
        84 + _PITCH * len(label_order),
        f"{alt} The table of labels has every number.",
        caption,
    )


def _marks_in_words(drawn: Container[str]) -> str:
    """Says which mark is which model, of those that are drawn, and what the distances between them are."""
    words = {
        key: f"the {mark} ({MODEL_NAMES[key]})" for key, _, _, mark, _ in _MARKS if key in drawn
    }
    costs = {
        "all_records_model": "is what privacy and few queries cost that label",
        "majority_vote_student": "is what the noise cost that label",
    }
    return " ".join(
        f"The distance from {words['student']} to {words[key]} {cost}."
        for key, cost in costs.items()
        if key in words
    )


def precision_recall(figures: RunFigures) -> Picture | None:
    """The student's precision over its recall, and the point that its threshold chose; None without a student."""
    if (curve := figures.precision_recall) is None:
        return None

    def paint(axes: Axes) -> None:
        axes.plot(curve.recall, curve.precision, color=ACCENT, label="private student")
        axes.plot(
            *curve.chosen, color=ACCENT, marker="o", linestyle="none", label="at its threshold"
        )
        axes.plot(*curve.constant, color=MUTED, marker="X", linestyle="none", label="best constant")
        _finish(axes, xlim=(0, 1.02), ylim=(0, 1.02), xlabel="recall", ylabel="precision")

    return Picture(paint, 270)


def membership_curve(report: Report) -> Picture | None:
    """What an attack on the student finds at low false positive rates, beside chance; None without one."""
    if (attack := report.membership) is None:
        return None
    least = 1 / attack.num_private
    low = np.maximum(attack.low, least / 2)
    high = np.maximum(attack.high, least)
    lines = {
        "by its loss": (attack.tpr, ACCENT),
        "by reference models": (attack.tpr_by_reference, SECOND),
    }

    def paint(axes: Axes) -> None:
        axes.fill_between(
            attack.fpr, low, high, color=FAINT, alpha=0.3, linewidth=0, label="chance, 95%"
        )
        for name, (tpr, color) in lines.items():
            if tpr:
                visible = np.where(np.greater(tpr, 0), tpr, np.nan)
                axes.plot(attack.fpr, visible, color=color, marker="o", markersize=2.6, label=name)
        axes.set(xscale="log", yscale="log", ylim=(min(least, attack.fpr[0]) / 2, 1.2))
        # plain numbers: a reader's colors do not reach raised exponents
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
        _finish(axes, xlabel="false positive rate", ylabel="private records found")

    return Picture(paint)


def answer_bars(figures: RunFigures) -> Picture | None:
    """How many queries were refused, and how many answers released how many labels; None without queries."""
    # [most + 1]
    sizes = np.bincount(np.count_nonzero(figures.labels[figures.answered], axis=1), minlength=1)
    total = len(figures.answered)
    answered = int(sizes.sum())
    spread = ", ".join(f"{count} with {size}" for size, count in enumerate(sizes) if count)

    def paint(axes: Axes) -> None:
        axes.bar(
            np.arange(len(sizes)), sizes, width=0.8, color=ACCENT, label=f"answered ({answered})"
        )
        left = -max(2.0, 0.22 * len(sizes))  # as far from the answers as its name needs
        axes.bar(
            [left],
            [total - answered],
            width=0.8,
            color=FAINT,
            label=f"refused ({total - answered})",
        )
        ticks = list(range(0, len(sizes), max(1, -(-len(sizes) // 10))))
        axes.set_xticks([left, *ticks], ["refused", *map(str, ticks)])
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        _finish(axes, grid="y", xlabel="labels released for the query", ylabel="queries")

    alt = f"Of {total} queries {total - answered} were refused and {answered} answered; by number of labels released: "
    return Picture(paint, alt=f"{alt}{spread or 'none'}.") if total else None


def epsilon_curve(figures: RunFigures) -> Picture | None:
    """The epsilon spent after each query; None without queries or where an epsilon is infinite."""
    epsilon = figures.epsilon_after_query
    if not len(epsilon) or not np.isfinite(epsilon).all():
        return None
    count = len(epsilon)
    last = format_epsilon(float(epsilon[-1]))

    def paint(axes: Axes) -> None:
        places = np.unique(np.linspace(0, count - 1, min(_MOST_POINTS, count)).round().astype(int))
        axes.plot(
            places + 1, epsilon[places], color=ACCENT, drawstyle="steps-post", solid_capstyle="butt"
        )
        axes.plot([count], [epsilon[-1]], "o", color=ACCENT, markersize=4, clip_on=False)
        axes.annotate(last, (count, epsilon[-1]), (-4, 6), textcoords="offset points", ha="right")
        _finish(
            axes,
            whole=6,
            xlabel="queries, refused ones included",
            ylabel="epsilon",
            xlim=(0, count),
            ylim=(0, max(float(epsilon.max()) * 1.16, 1e-9)),
        )

    return Picture(paint)


def gap_histogram(figures: RunFigures) -> Picture | None:
    """The noiseless gaps, with the pass probability of the stability test over them; None without gaps."""
    if figures.gaps is None or not len(figures.gaps):
        return None
    low, middle, high = (f"{gap:.0f}" for gap in np.quantile(figures.gaps, [0.05, 0.5, 0.95]))
    alt = f"A histogram of the {figures.gap_name} over {len(figures.gaps)} queries: "
    alt += f"median {middle} votes, 5% below {low}, 5% above {high}"
    caption = f"The noiseless {figures.gap_name} of each query"
    if figures.pass_gaps is not None and figures.pass_probability is not None:
        caption += ", and the probability that the stability test lets it pass"
        if len(passing := figures.pass_gaps[figures.pass_probability >= 0.5]):
            alt += f"; the test passes with probability one half from {passing[0]:.0f} votes on"

    def paint(axes: Axes) -> None:
        """Stacked bars of the gaps on the left scale, the pass probability on the right one."""
        gaps = np.asarray(figures.gaps)
        answered = figures.answered
        # At most 48 bins of whole votes, from 0 (or a smaller smallest gap) past the largest gap.
        least = min(0, int(np.floor(gaps.min())))
        most = int(np.ceil(gaps.max()))
        width = -(-(most + 1 - least) // _MOST_BINS)
        edges = (
            least - 0.5 + width * np.arange(-(-(most + 1 - least) // width) + 1, dtype=np.float64)
        )
        groups = [gaps[answered], gaps[~answered]]
        names = ["answered", "refused"]
        axes.hist(groups, bins=edges.tolist(), stacked=True, color=[ACCENT, FAINT], label=names)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        if figures.pass_gaps is not None and figures.pass_probability is not None:
            right = axes.twinx()
            axes.plot([], [], color=SECOND, label="pass probability (right)")
            right.plot(figures.pass_gaps, figures.pass_probability, color=SECOND)
            right.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.02))
            right.yaxis.set_major_formatter(PercentFormatter(1.0))
            right.tick_params(axis="y", length=0)
        name = f"{shortened(figures.gap_name, _LONGEST_AXIS)}, in votes"
        _finish(axes, grid=None, xlim=(edges[0], edges[-1]), xlabel=name, ylabel="queries")

    return Picture(paint, 210, f"{alt}.", f"{caption}.")


def votes_by_rank(figures: RunFigures) -> Picture | None:
    """The noiseless counts of each query in decreasing order, summarized rank by rank; None without votes."""
    if figures.histogram is None or not len(figures.histogram):
        return None
    small = figures.histogram.astype(np.min_scalar_type(int(figures.histogram.max())))
    counts = np.sort(small, axis=1)[:, ::-1].T.copy()  # [L, Q], largest first
    low, middle, high = np.quantile(counts, [0.1, 0.5, 0.9], axis=1)  # [L] each
    ranks, num_queries = counts.shape

    def paint(axes: Axes) -> None:
        places = np.arange(1, ranks + 1)
        axes.fill_between(
            places, low, high, color=ACCENT, alpha=0.22, linewidth=0, label="80% of queries"
        )
        axes.plot(places, middle, color=ACCENT, marker="o", markersize=2.6, label="median query")
        axes.legend(loc="upper right")
        _finish(
            axes,
            whole=8,
            xlabel="rank of the label within its query",
            ylabel="votes",
            xlim=(0.5, ranks + 0.5),
            ylim=(0, figures.num_teachers),
        )

    last = f", {middle[-1]:.0f} for the last of {ranks}" if ranks > 1 else ""
    caption = f"Votes by rank of the label, median over {num_queries} queries: {middle[0]:.0f} for the first{last}."
    return Picture(paint, 200, caption)
