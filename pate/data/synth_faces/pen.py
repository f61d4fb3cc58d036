"""A pen that draws in hundredths of the picture's side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

Color = tuple[int, int, int]


def mixed(first: Color, second: Color, share: float) -> Color:
    """The first color with a share of the second."""
    red, green, blue = (int(a + share * (b - a)) for a, b in zip(first, second, strict=True))
    return red, green, blue


class Pen:
    """Draws on a picture; (50, 50) is the middle of the face, which may be moved and scaled.

    Args:
        image: what is drawn on, square.
        right: how far the face is moved.
        down: likewise.
        scale: of the face.
    """

    def __init__(self, image: Image.Image, *, right: float, down: float, scale: float) -> None:
        from PIL import ImageDraw

        self._draw = ImageDraw.Draw(image)
        pixel = image.width / 100
        self._unit = pixel * scale
        self._left, self._top = pixel * (50 + right) - 50 * self._unit, pixel * (50 + down) - 50 * self._unit

    def disc(self, x: float, y: float, across: float, along: float, color: Color) -> None:
        """A filled ellipse with the given half axes."""
        self._draw.ellipse(self._box(x - across, y - along, x + across, y + along), fill=color)

    def ring(self, x: float, y: float, across: float, along: float, color: Color, width: float) -> None:
        """The outline of an ellipse."""
        box = self._box(x - across, y - along, x + across, y + along)
        self._draw.ellipse(box, outline=color, width=self._width(width))

    def arc(
        self, x: float, y: float, across: float, along: float, ends: tuple[int, int], color: Color, width: float
    ) -> None:
        """A part of an outline; degrees run clockwise from the right."""
        box = self._box(x - across, y - along, x + across, y + along)
        self._draw.arc(box, *ends, fill=color, width=self._width(width))

    def slab(self, left: float, top: float, right: float, bottom: float, color: Color) -> None:
        """A filled rectangle."""
        self._draw.rectangle(self._box(left, top, right, bottom), fill=color)

    def line(self, points: Sequence[tuple[float, float]], color: Color, width: float) -> None:
        """A line through points."""
        self._draw.line(self._points(points), fill=color, width=self._width(width))

    def shape(self, points: Sequence[tuple[float, float]], color: Color) -> None:
        """A filled polygon."""
        self._draw.polygon(self._points(points), fill=color)

    def _box(self, left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
        unit, x, y = self._unit, self._left, self._top
        return x + left * unit, y + top * unit, x + right * unit, y + bottom * unit

    def _points(self, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(self._left + x * self._unit, self._top + y * self._unit) for x, y in points]

    def _width(self, width: float) -> int:
        return max(1, round(width * self._unit))
