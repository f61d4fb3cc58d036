"""A picture of a report: as SVG inside a page, in the page's colors, or as a PNG file for print."""

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pate.files.atomic import atomic_write

# Placeholders of colors, with which matplotlib draws. In SVG the CSS variables of the page replace them. A picture for
# PNG is drawn in the colors of the light page (`on_paper`).
INK_COLOR = "#010101"
MUTED_COLOR = "#020202"
RULE_COLOR = "#030303"
ACCENT_COLOR = "#040404"
SECOND_COLOR = "#050505"
THIRD_COLOR = "#060606"
FAINT_COLOR = "#070707"
# The CSS variable and the color on the light page, for each placeholder.
_PAGE_COLORS = {
    INK_COLOR: ("ink", "#1c2126"),
    MUTED_COLOR: ("muted", "#5a6570"),
    RULE_COLOR: ("rule", "#d6dbe0"),
    ACCENT_COLOR: ("accent", "#235f9f"),
    SECOND_COLOR: ("second", "#b9531a"),
    THIRD_COLOR: ("third", "#2b7a5c"),
    FAINT_COLOR: ("faint", "#848f9a"),
}
_STYLE = mpl.rc_params_from_file(
    Path(__file__).with_name("pictures.mplstyle"), use_default_template=False
)
_POINTS_PER_INCH = 72
_DOTS_PER_INCH = 200
# The width of a picture in points: that of a phone less its margins, so that a point is no less than a pixel there.
_WIDTH = 340.0


@dataclass(frozen=True)
class Picture:
    """A picture of one pair of axes, 340 points wide, that matplotlib draws as SVG or PNG.

    Attributes:
        paint: a function that draws the picture on given axes.
        height_in_points: the height in points.
        alt: the alternative text for screen readers; empty if the template of the page has one.
        caption: an explanation of the picture; empty if the template of the page has one.
    """

    paint: Callable[[Axes], None]
    height_in_points: float = 190.0
    alt: str = ""
    caption: str = ""

    def svg(self, id_prefix: str) -> str:
        """Returns an `<svg>` element in the CSS colors of a page, without scripts or references to other files.

        The ids in the element begin with `id_prefix`. Its size follows the surrounding element. Screen readers skip it
        and read the alternative text beside it.
        """
        with self._painted({**_STYLE, "svg.hashsalt": id_prefix}) as figure:
            svg_buffer = io.StringIO()
            no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
            figure.savefig(svg_buffer, format="svg", transparent=True, metadata=no_metadata)
        svg_element = svg_buffer.getvalue()
        svg_element = svg_element[svg_element.index("<svg") :].strip()
        svg_element = re.sub(r"<metadata>.*?</metadata>", "", svg_element, flags=re.DOTALL)
        svg_element = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg_element)
        svg_element = re.sub(
            r'<svg[^>]*?(viewBox="[^"]*")[^>]*>',
            r'<svg aria-hidden="true" \1>',
            svg_element,
            count=1,
        )
        svg_element = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{id_prefix}-", svg_element)
        for placeholder, (variable, _) in _PAGE_COLORS.items():
            svg_element = svg_element.replace(placeholder, f"var(--{variable})")
        return svg_element

    def write_png(self, png_path: Path) -> None:
        """Writes the picture as a PNG file for print: dark on white, in the colors of the light page.

        Placeholders in the style are replaced. `paint` itself has to draw in the colors of `on_paper`.
        """
        matplotlib_style = {
            style_name: on_paper(style_value) for style_name, style_value in _STYLE.items()
        }
        with self._painted(matplotlib_style) as figure, atomic_write(png_path) as png_file:
            figure.savefig(
                png_file,
                format="png",
                dpi=_DOTS_PER_INCH,
                facecolor="white",
                metadata={"Software": None},
            )

    @contextmanager
    def _painted(self, matplotlib_style: dict[Any, Any]) -> Iterator[Figure]:
        """Yields a figure with the painted picture, for a `with` block in which a style of matplotlib holds.

        The style ends with the block, so matplotlib's global state does not change.

        Args:
            matplotlib_style: the settings of matplotlib (rc parameters) by name.
        """
        with mpl.rc_context(matplotlib_style), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from (current )?font")
            size_in_inches = (_WIDTH / _POINTS_PER_INCH, self.height_in_points / _POINTS_PER_INCH)
            figure = Figure(figsize=size_in_inches, layout="constrained")
            self.paint(figure.add_subplot())
            yield figure


def on_paper(value: Any) -> Any:
    """Returns the color that the light page has for a placeholder; any other value is returned unchanged.

    A placeholder is a color, such as `INK_COLOR`, with which pictures are painted. A page replaces it by a color of its
    style sheet.
    """
    if isinstance(value, str) and value in _PAGE_COLORS:
        return _PAGE_COLORS[value][1]
    return value


def shorten_name(name: str, max_length: int) -> str:
    """Returns a name of at most `max_length` characters, 3 or more; if it is too long, its middle is left out.

    Names often differ only at their beginnings and ends.
    """
    if len(name) <= max_length:
        return name
    end_length = max_length // 3
    return f"{name[: max_length - end_length - 1]}…{name[-end_length:]}"
