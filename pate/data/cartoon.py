"""One cartoon face: every attribute leaves a mark that can be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

Color = tuple[int, int, int]

NUM_WHIMS = 16
"""Numbers in [0, 1) that make faces of equal attributes differ."""

_FINER = 2  # pictures are drawn at twice their size and averaged
_HAIR: dict[str, Color] = {
    "Black_Hair": (24, 20, 22),
    "Blond_Hair": (226, 192, 112),
    "Brown_Hair": (118, 72, 38),
    "Gray_Hair": (172, 172, 176),
}
_AUBURN: Color = (160, 52, 36)
_WHITE: Color = (250, 250, 250)
_DARK: Color = (28, 24, 24)
_GOLD: Color = (240, 205, 60)
_ROSE: Color = (232, 96, 110)


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
        self._draw = ImageDraw.Draw(image)
        pixel = image.width / 100
        self._unit = pixel * scale
        self._left, self._top = pixel * (50 + right) - 50 * self._unit, pixel * (50 + down) - 50 * self._unit

    def disc(self, x: float, y: float, across: float, along: float, color: Color) -> None:
        self._draw.ellipse(self._box(x - across, y - along, x + across, y + along), fill=color)

    def ring(self, x: float, y: float, across: float, along: float, color: Color, width: float) -> None:
        box = self._box(x - across, y - along, x + across, y + along)
        self._draw.ellipse(box, outline=color, width=self._width(width))

    def arc(
        self, x: float, y: float, across: float, along: float, ends: tuple[int, int], color: Color, width: float
    ) -> None:
        """A part of an outline; degrees run clockwise from the right."""
        box = self._box(x - across, y - along, x + across, y + along)
        self._draw.arc(box, *ends, fill=color, width=self._width(width))

    def slab(self, left: float, top: float, right: float, bottom: float, color: Color) -> None:
        self._draw.rectangle(self._box(left, top, right, bottom), fill=color)

    def line(self, points: Sequence[tuple[float, float]], color: Color, width: float) -> None:
        self._draw.line(self._points(points), fill=color, width=self._width(width))

    def shape(self, points: Sequence[tuple[float, float]], color: Color) -> None:
        self._draw.polygon(self._points(points), fill=color)

    def _box(self, left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
        unit, x, y = self._unit, self._left, self._top
        return x + left * unit, y + top * unit, x + right * unit, y + bottom * unit

    def _points(self, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(self._left + x * self._unit, self._top + y * self._unit) for x, y in points]

    def _width(self, width: float) -> int:
        return max(1, round(width * self._unit))


@dataclass(frozen=True)
class Face:
    """What is drawn.

    Attributes:
        has: for each of the 40 names, whether the face has the attribute.
        whims: `NUM_WHIMS` numbers in [0, 1).
    """

    has: Mapping[str, bool]
    whims: list[float]

    def draw(self, pen: Pen) -> None:
        self._hair_behind(pen)
        self._body(pen)
        self._head(pen)
        self._beard(pen)
        self._eyes(pen)
        self._nose(pen)
        self._mouth(pen)
        self._age(pen)
        self._hair_in_front(pen)
        self._jewels(pen)

    @property
    def background(self) -> Color:
        red, green, blue = (int(90 + 130 * whim) for whim in self.whims[:3])
        return red, green, blue

    @property
    def _skin(self) -> Color:
        if self.has["Pale_Skin"]:
            return 252, 236, 226
        return mixed((238, 196, 162), (172, 116, 82), self.whims[3])

    @property
    def _hair(self) -> Color:
        color = next((color for name, color in _HAIR.items() if self.has[name]), _AUBURN)
        return mixed(color, (128, 100, 80), 0.25 * self.whims[4])

    @property
    def _half_width(self) -> float:
        """Of the face: the chubby are wide, oval faces narrow."""
        return 23.0 + 5.0 * self.has["Chubby"] - 3.5 * self.has["Oval_Face"] + 2.5 * (self.whims[5] - 0.5)

    @property
    def _chin(self) -> float:
        """Where the face ends, downwards."""
        return 80.0 + 4.0 * self.has["Oval_Face"] + 2.0 * (self.whims[6] - 0.5)

    def _hair_behind(self, pen: Pen) -> None:
        if self.has["Bald"]:
            return
        hair, wide = self._hair, self._half_width
        pen.disc(50, 40, wide + 5, 31, hair)
        length = 62.0 + 14.0 * self.whims[7] if self.has["Male"] else 84.0 + 12.0 * self.whims[7]
        if self.has["Straight_Hair"]:
            pen.slab(50 - wide - 6, 40, 50 + wide + 6, length, hair)
        elif self.has["Wavy_Hair"]:
            for step in range(4):
                y = 40 + step * (length - 40) / 3
                pen.disc(50 - wide - 5, y, 7, 7, hair)
                pen.disc(50 + wide + 5, y, 7, 7, hair)
        elif not self.has["Male"]:
            pen.disc(50, 58, wide + 6, 26, hair)

    def _body(self, pen: Pen) -> None:
        red, green, blue = (int(30 + 190 * whim) for whim in self.whims[8:11])
        pen.disc(50, 112, 44, 24, (red, green, blue))
        pen.slab(41, 74, 59, 92, mixed(self._skin, _DARK, 0.15))
        if self.has["Wearing_Necktie"]:
            pen.shape([(50, 88), (32, 88), (44, 100), (50, 92), (56, 100), (68, 88)], _WHITE)
            pen.shape([(46, 89), (54, 89), (58, 112), (42, 112)], (150, 20, 30))
        if self.has["Wearing_Necklace"]:
            pen.arc(50, 84, 13, 11, (10, 170), _GOLD, 3)

    def _head(self, pen: Pen) -> None:
        skin, wide = self._skin, self._half_width
        for side in (-1, 1):
            pen.disc(50 + side * wide, 53, 4, 6, mixed(skin, _DARK, 0.12))
        if self.has["Double_Chin"]:
            pen.disc(50, self._chin - 1, wide * 0.72, 8, mixed(skin, _DARK, 0.28))
            pen.disc(50, self._chin - 2.5, wide * 0.66, 7, skin)
        pen.disc(50, (self._chin + 18) / 2, wide, (self._chin - 18) / 2, skin)
        if self.has["Male"]:
            pen.slab(50 - wide * 0.78, 58, 50 + wide * 0.78, self._chin - 6, skin)
        for side in (-1, 1):
            if self.has["High_Cheekbones"]:
                pen.line([(50 + side * 11, 63), (50 + side * 19, 57)], mixed(skin, _WHITE, 0.75), 3)
            if self.has["Rosy_Cheeks"]:
                pen.disc(50 + side * 14, 64, 5.5, 4, mixed(skin, _ROSE, 0.7))

    def _beard(self, pen: Pen) -> None:
        skin, hair, wide, chin = self._skin, self._hair, self._half_width, self._chin
        if self.has["5_o_Clock_Shadow"]:
            pen.disc(50, 69, wide * 0.82, chin - 69, mixed(skin, (70, 72, 80), 0.4))
        if self.has["Sideburns"]:
            for side in (-1, 1):
                pen.slab(50 + side * (wide - 2.5) - 2.5, 42, 50 + side * (wide - 2.5) + 2.5, 66, hair)
        if not self.has["No_Beard"]:
            pen.arc(50, 57, wide, chin - 57, (15, 165), hair, 4)
        if self.has["Goatee"]:
            pen.disc(50, chin - 4, 7.5, 6.5, hair)
        if self.has["Mustache"]:
            pen.shape([(38, 68), (44, 63), (50, 65), (56, 63), (62, 68)], hair)

    def _eyes(self, pen: Pen) -> None:
        skin, bushy = self._skin, 2.0 + 3.0 * self.has["Bushy_Eyebrows"]
        wide = 5.0 + 1.2 * self.has["Attractive"]
        tall = (1.6 if self.has["Narrow_Eyes"] else 4.0) + 0.8 * self.has["Attractive"]
        brow = mixed(self._hair, _DARK, 0.6)
        for side in (-1, 1):
            x = 50 + side * 10.5
            if self.has["Heavy_Makeup"]:
                pen.disc(x, 47.5, wide + 2, tall + 2.5, (120, 70, 150))
            if self.has["Bags_Under_Eyes"]:
                pen.arc(x, 51, wide, 6.5, (20, 160), mixed(skin, (70, 30, 60), 0.65), 2.5)
            pen.disc(x, 49, wide, tall, _WHITE)
            pen.disc(x, 49, min(2.6, tall), min(2.6, tall), (50, 60 + int(70 * self.whims[11]), 90))
            inner, outer = 50 + side * 5, 50 + side * 16
            middle = 36.0 if self.has["Arched_Eyebrows"] else 41.5
            pen.line([(inner, 41.5), (x, middle), (outer, 41.5)], brow, bushy)
            if self.has["Eyeglasses"]:
                pen.ring(x, 49, 8.5, 7.5, _DARK, 2)
        if self.has["Eyeglasses"]:
            pen.line([(47, 48), (53, 48)], _DARK, 2)

    def _nose(self, pen: Pen) -> None:
        shade = mixed(self._skin, _DARK, 0.42)
        half = 2.6 + 4.6 * self.has["Big_Nose"] + 1.0 * self.whims[12]
        if self.has["Pointy_Nose"]:
            pen.shape([(50, 48), (50 - half, 61), (50 + half, 61)], shade)
        else:
            pen.disc(50, 59, half, 2.6 + 1.2 * self.has["Big_Nose"], shade)

    def _mouth(self, pen: Pen) -> None:
        color = (196, 24, 48) if self.has["Wearing_Lipstick"] else mixed(self._skin, (104, 36, 40), 0.6)
        wide, thick = 9.0 + 2.0 * self.whims[13], 2.2 + 2.6 * self.has["Big_Lips"]
        bend = 4.5 if self.has["Smiling"] else -0.8
        if self.has["Mouth_Slightly_Open"]:
            pen.disc(50, 71.5, wide * 0.75, 4.2, color)
            pen.disc(50, 71.5, wide * 0.62, 2.8, (60, 10, 16))
            pen.slab(50 - wide * 0.4, 69.6, 50 + wide * 0.4, 71.0, _WHITE)
        ends, middle = 71.0 - bend / 2, 71.0 + bend / 2 + 2.5 * self.has["Mouth_Slightly_Open"]
        points = [(50 - wide, ends), (50 - wide / 2, middle - 0.6), (50, middle), (50 + wide / 2, middle - 0.6)]
        pen.line([*points, (50 + wide, ends)], color, thick)

    def _age(self, pen: Pen) -> None:
        shade = mixed(self._skin, _DARK, 0.5)
        if not self.has["Young"]:
            for y in (30, 34):
                pen.line([(39, y), (61, y)], shade, 1.6)
            for side in (-1, 1):
                pen.line([(50 + side * 8, 61), (50 + side * 13, 70)], shade, 1.8)
        if not self.has["Attractive"]:
            for x, y in ((35 + 4 * self.whims[14], 58), (62 + 4 * self.whims[15], 60), (54, 76)):
                pen.disc(x, y, 1.3, 1.3, mixed(shade, _ROSE, 0.4))

    def _hair_in_front(self, pen: Pen) -> None:
        hair, wide = self._hair, self._half_width
        if not self.has["Bald"]:
            line = 17.0 if self.has["Receding_Hairline"] else 26.0
            pen.disc(50, 20, wide - 1, line - 11, hair)
            if self.has["Receding_Hairline"]:
                for side in (-1, 1):
                    pen.disc(50 + side * 10.5, 24, 7, 6, self._skin)
        if self.has["Bangs"]:
            pen.slab(50 - wide + 3, 22, 50 + wide - 3, 37, hair)
        if self.has["Wearing_Hat"]:
            red, green, blue = (int(40 + 160 * whim) for whim in self.whims[9:12])
            pen.slab(50 - wide - 9, 21, 50 + wide + 9, 26, mixed((red, green, blue), _DARK, 0.4))
            pen.slab(50 - wide + 1, 4, 50 + wide - 1, 22, (red, green, blue))

    def _jewels(self, pen: Pen) -> None:
        if self.has["Wearing_Earrings"]:
            for side in (-1, 1):
                pen.disc(50 + side * (self._half_width + 1), 63, 3, 4, _GOLD)


def picture(face: Face, pose: list[float], image_size: int) -> NDArray[np.uint8]:
    """One face without grain, uint8 `[image_size, image_size, 3]`; the pose is how far it is moved, and its scale."""
    side = _FINER * image_size
    image = Image.new("RGB", (side, side), face.background)
    right, down, scale = pose
    face.draw(Pen(image, right=right, down=down, scale=scale))
    if face.has["Blurry"]:
        image = image.filter(ImageFilter.BoxBlur(side / 28))
    return np.asarray(image.reduce(_FINER))
