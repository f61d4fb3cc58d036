"""Drawing one picture: as inline SVG that takes its colors from the page, in light, dark and print, or as a PNG."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pate.files.disk import replacing
from pate.report.report import PrivacyCoverage

INK, MUTED, RULE = "#010101", "#020202", "#030303"
ACCENT, SECOND, THIRD, FAINT = "#040404", "#050505", "#060606", "#070707"
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    RULE: "var(--rule)",
    ACCENT: "var(--accent)",
    SECOND: "var(--second)",
    THIRD: "var(--third)",
    FAINT: "var(--faint)",
}
"""Stand-in colors for matplotlib, and the CSS variables that replace them in the SVG."""

_PAPER = {
    INK: "#1c2126",
    MUTED: "#5a6570",
    RULE: "#d6dbe0",
    ACCENT: "#235f9f",
    SECOND: "#b9531a",
    THIRD: "#2b7a5c",
    FAINT: "#848f9a",
}
"""What the variables are on the light page."""

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 12.0,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 12.0,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "grid.alpha": 0.55,
    "legend.frameon": False,
    "legend.fontsize": 12.0,
    "lines.linewidth": 1.6,
    "hatch.linewidth": 0.6,
}
_POINTS_PER_INCH = 72
_WIDTH = 340.0  # of a phone less its margins, so that a point is no less than a pixel there
_DOTS_PER_INCH = 200


@dataclass(frozen=True)
class Picture:
    """A picture of the page.

    Attributes:
        name: identifier, unique on the page.
        title: what it shows.
        alt: what a reader who cannot see it needs to know, with the numbers.
        caption: how to read it.
        mark: what protects what it shows.
        svg: an `<svg>` element without colors, scripts or references of its own.
    """

    name: str
    title: str
    alt: str
    caption: str
    mark: PrivacyCoverage
    svg: str


def draw(name: str, paint: Callable[[Axes], None], *, height: float) -> str:
    """Draws on one pair of axes and returns an `<svg>` element for inlining.

    Neither pyplot nor any other global state is left changed. The element scales with its container, its ids
    start with `name`, and it is hidden from screen readers: the alternative text stands beside it.

    Args:
        name: prefix of the element's ids.
        paint: draws on the axes it is given, with the colors of this module only.
        height: in points; the width is 340.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        size = (_WIDTH / _POINTS_PER_INCH, height / _POINTS_PER_INCH)
        figure = Figure(figsize=size, layout="constrained")
        paint(figure.add_subplot())
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    return _inline(buffer.getvalue(), name)


def draw_png(path: Path, paint: Callable[[Axes], None], *, height: float) -> None:
    """Draws the same picture as a PNG for paper: dark ink on white.

    Args:
        path: the file, written whole or not at all.
        paint: as in `draw`, but it takes its colors from `on_paper`.
        height: in points; the width is 340.
    """
    style = {name: on_paper(value) for name, value in _STYLE.items()}
    with mpl.rc_context(style), warnings.catch_warnings(), replacing(path) as file:
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(_WIDTH / _POINTS_PER_INCH, height / _POINTS_PER_INCH), layout="constrained")
        paint(figure.add_subplot())
        figure.savefig(file, format="png", dpi=_DOTS_PER_INCH, facecolor="white", metadata={"Software": None})


def on_paper(value: Any) -> Any:
    """The color of the light page for a stand-in color; anything else as it is."""
    return _PAPER.get(value, value) if isinstance(value, str) else value


def legend_above(axes: Axes, *, columns: int) -> None:
    """Puts the legend above the axes, where it hides nothing, from the picture's left edge on."""
    style: dict[str, Any] = {"borderaxespad": 0, "borderpad": 0.2, "handlelength": 1.2, "columnspacing": 1.2}
    axes.figure.legend(loc="outside upper left", ncols=columns, **style)


def shortened(name: str, longest: int) -> str:
    """A name of at most so many characters, its middle left out: names often differ at their ends only."""
    end = longest // 3
    return name if len(name) <= longest else f"{name[: longest - end - 1]}…{name[-end:]}"


def _inline(document: str, name: str) -> str:
    """The `<svg>` element of matplotlib's document, in the page's colors, with ids of its own."""
    element = document[document.index("<svg") :].strip()
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", element)
    element = re.sub(r'<svg[^>]*?(viewBox="[^"]*")[^>]*>', r'<svg aria-hidden="true" \1>', element, count=1)
    element = re.sub(r'\bid="', f'id="{name}-', element)
    element = re.sub(r'href="#', f'href="#{name}-', element)
    element = re.sub(r"url\(#", f"url(#{name}-", element)
    for color, variable in _VARIABLES.items():
        element = element.replace(color, variable)
    return element
