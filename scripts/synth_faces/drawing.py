"""Pictures of faces: every attribute leaves a mark that can be seen.

Poses, tones of skin that is not pale, clothes, background and grain differ from face to face and have nothing to do
with the attributes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from pate.array_types import BoolArray, FloatArray
from scripts.synth_faces.attributes import (
    BLOCK,
    HAIR_COLORS,
    NAMES,
    NUM_PHOTOGRAPHS,
    POSITIVES,
    draw_attributes,
)

Color = tuple[int, int, int]

NUM_WHIMS = 16  # numbers in [0, 1) that make faces of equal attributes differ
_SHAPES, _POSES = 1, 2  # streams of the generators, behind seed and block; `attributes` has 0
_FINER = 2  # pictures are drawn at twice their size and averaged
_GRAIN = 24  # levels of 255
_MISSED = 0.1  # the share of attributes that are not drawn
_AUBURN, _WHITE, _DARK, _GOLD, _ROSE = (
    (160, 52, 36), (250, 250, 250), (28, 24, 24), (240, 205, 60), (232, 96, 110),
)  # fmt: skip


def mixed(first: Sequence[int], second: Sequence[int], share: float) -> Color:
    """Returns the first color with a share of the second."""
    red, green, blue = (int(a + share * (b - a)) for a, b in zip(first, second, strict=True))
    return red, green, blue


class _Pen:
    """A pen on a square picture: (50, 50) is the middle of the face, which may be moved and scaled."""

    def __init__(self, image: Image.Image, right: float, down: float, scale: float) -> None:
        self._draw = ImageDraw.Draw(image)
        pixel = image.width / 100
        self._unit = pixel * scale
        self._left = pixel * (50 + right) - 50 * self._unit
        self._top = pixel * (50 + down) - 50 * self._unit

    def disc(self, x: float, y: float, across: float, along: float, color: Color) -> None:
        self._draw.ellipse(self._around(x, y, across, along), fill=color)

    def discs(self, x: float, y: float, across: float, along: float, color: Color) -> None:
        """Draws a disc on each side of the face, `x` from the middle."""
        self.disc(50 - x, y, across, along, color)
        self.disc(50 + x, y, across, along, color)

    def arc(
        self, *round_what: float, ends: tuple[int, int] = (0, 360), color: Color, width: float
    ) -> None:
        self._draw.arc(self._around(*round_what), *ends, fill=color, width=self._width(width))

    def slab(self, left: float, top: float, right: float, bottom: float, color: Color) -> None:
        self._draw.rectangle(self._points((left, top), (right, bottom)), fill=color)

    def line(self, *points: tuple[float, float], color: Color, width: float) -> None:
        self._draw.line(self._points(*points), fill=color, width=self._width(width))

    def shape(self, *points: tuple[float, float], color: Color) -> None:
        self._draw.polygon(self._points(*points), fill=color)

    def _around(self, x: float, y: float, across: float, along: float) -> list[tuple[float, float]]:
        return self._points((x - across, y - along), (x + across, y + along))

    def _points(self, *points: tuple[float, float]) -> list[tuple[float, float]]:
        return [(self._left + x * self._unit, self._top + y * self._unit) for x, y in points]

    def _width(self, width: float) -> int:
        return max(1, round(width * self._unit))


@dataclass(frozen=True)
class Face:
    """A face to draw."""

    has: Mapping[str, bool]  # whether it has each of the 40 attributes
    whims: list[float]  # `NUM_WHIMS` numbers in [0, 1)

    def draw(self, pen: _Pen) -> None:
        """Draws the face with a pen, from what lies behind it to what lies in front."""
        for part in (self._behind, self._head, self._eyes, self._nose_and_mouth, self._in_front):
            part(pen)

    @property
    def _looks(self) -> tuple[Color, Color, float]:
        """Returns the colors of skin and hair, and half the width of the face."""
        skin = (
            (252, 236, 226)
            if self.has["Pale_Skin"]
            else mixed((238, 196, 162), (172, 116, 82), self.whims[3])
        )
        hair = next((color for name, color in HAIR_COLORS.items() if self.has[name]), _AUBURN)
        wide = (
            23.0
            + 5.0 * self.has["Chubby"]
            - 3.5 * self.has["Oval_Face"]
            + 2.5 * (self.whims[5] - 0.5)
        )
        return skin, mixed(hair, (128, 100, 80), 0.25 * self.whims[4]), wide

    def _behind(self, pen: _Pen) -> None:
        skin, hair, wide = self._looks
        bald = self.has["Bald"]
        if not bald:
            pen.disc(50, 40, wide + 5, 31, hair)
        length = 62.0 + 14.0 * self.whims[7] if self.has["Male"] else 84.0 + 12.0 * self.whims[7]
        if self.has["Straight_Hair"] and not bald:
            pen.slab(50 - wide - 6, 40, 50 + wide + 6, length, hair)
        elif self.has["Wavy_Hair"] and not bald:
            for step in range(4):
                pen.discs(wide + 5, 40 + step * (length - 40) / 3, 7, 7, hair)
        elif not self.has["Male"] and not bald:
            pen.disc(50, 58, wide + 6, 26, hair)
        red, green, blue = (int(30 + 190 * whim) for whim in self.whims[8:11])
        pen.disc(50, 112, 44, 24, (red, green, blue))
        pen.slab(41, 74, 59, 92, mixed(skin, _DARK, 0.15))
        if self.has["Wearing_Necktie"]:
            pen.shape((50, 88), (32, 88), (44, 100), (50, 92), (56, 100), (68, 88), color=_WHITE)
            pen.shape((46, 89), (54, 89), (58, 112), (42, 112), color=(150, 20, 30))
        if self.has["Wearing_Necklace"]:
            pen.arc(50, 84, 13, 11, ends=(10, 170), color=_GOLD, width=3)

    def _head(self, pen: _Pen) -> None:
        skin, hair, wide = self._looks
        chin = 80.0 + 4.0 * self.has["Oval_Face"] + 2.0 * (self.whims[6] - 0.5)
        pen.discs(wide, 53, 4, 6, mixed(skin, _DARK, 0.12))
        if self.has["Double_Chin"]:
            pen.disc(50, chin - 1, wide * 0.72, 8, mixed(skin, _DARK, 0.28))
            pen.disc(50, chin - 2.5, wide * 0.66, 7, skin)
        pen.disc(50, (chin + 18) / 2, wide, (chin - 18) / 2, skin)
        if self.has["Male"]:
            pen.slab(50 - wide * 0.78, 58, 50 + wide * 0.78, chin - 6, skin)
        if self.has["High_Cheekbones"]:
            for side in (-1, 1):
                pen.line(
                    (50 + side * 11, 63),
                    (50 + side * 19, 57),
                    color=mixed(skin, _WHITE, 0.75),
                    width=3,
                )
        if self.has["Rosy_Cheeks"]:
            pen.discs(14, 64, 5.5, 4, mixed(skin, _ROSE, 0.7))
        if self.has["5_o_Clock_Shadow"]:
            pen.disc(50, 69, wide * 0.82, chin - 69, mixed(skin, (70, 72, 80), 0.4))
        if self.has["Sideburns"]:
            for side in (-1, 1):
                pen.slab(
                    50 + side * (wide - 2.5) - 2.5, 42, 50 + side * (wide - 2.5) + 2.5, 66, hair
                )
        if not self.has["No_Beard"]:
            pen.arc(50, 57, wide, chin - 57, ends=(15, 165), color=hair, width=4)
        if self.has["Goatee"]:
            pen.disc(50, chin - 4, 7.5, 6.5, hair)
        if self.has["Mustache"]:
            pen.shape((38, 68), (44, 63), (50, 65), (56, 63), (62, 68), color=hair)

    def _eyes(self, pen: _Pen) -> None:
        skin, hair, _ = self._looks
        bushy = 2.0 + 3.0 * self.has["Bushy_Eyebrows"]
        wide = 5.0 + 1.2 * self.has["Attractive"]
        tall = (1.6 if self.has["Narrow_Eyes"] else 4.0) + 0.8 * self.has["Attractive"]
        brow = mixed(hair, _DARK, 0.6)
        for side in (-1, 1):
            x = 50 + side * 10.5
            if self.has["Heavy_Makeup"]:
                pen.disc(x, 47.5, wide + 2, tall + 2.5, (120, 70, 150))
            if self.has["Bags_Under_Eyes"]:
                pen.arc(
                    x,
                    51,
                    wide,
                    6.5,
                    ends=(20, 160),
                    color=mixed(skin, (70, 30, 60), 0.65),
                    width=2.5,
                )
            pen.disc(x, 49, wide, tall, _WHITE)
            pen.disc(x, 49, min(2.6, tall), min(2.6, tall), (50, 60 + int(70 * self.whims[11]), 90))
            middle = 36.0 if self.has["Arched_Eyebrows"] else 41.5
            pen.line(
                (50 + side * 5, 41.5), (x, middle), (50 + side * 16, 41.5), color=brow, width=bushy
            )
            if self.has["Eyeglasses"]:
                pen.arc(x, 49, 8.5, 7.5, color=_DARK, width=2)
        if self.has["Eyeglasses"]:
            pen.line((47, 48), (53, 48), color=_DARK, width=2)

    def _nose_and_mouth(self, pen: _Pen) -> None:
        skin, _, _ = self._looks
        shade = mixed(skin, _DARK, 0.42)
        half = 2.6 + 4.6 * self.has["Big_Nose"] + 1.0 * self.whims[12]
        if self.has["Pointy_Nose"]:
            pen.shape((50, 48), (50 - half, 61), (50 + half, 61), color=shade)
        else:
            pen.disc(50, 59, half, 2.6 + 1.2 * self.has["Big_Nose"], shade)
        color = (196, 24, 48) if self.has["Wearing_Lipstick"] else mixed(skin, (104, 36, 40), 0.6)
        wide = 9.0 + 2.0 * self.whims[13]
        thick = 2.2 + 2.6 * self.has["Big_Lips"]
        bend = 4.5 if self.has["Smiling"] else -0.8
        if self.has["Mouth_Slightly_Open"]:
            pen.disc(50, 71.5, wide * 0.75, 4.2, color)
            pen.disc(50, 71.5, wide * 0.62, 2.8, (60, 10, 16))
            pen.slab(50 - wide * 0.4, 69.6, 50 + wide * 0.4, 71.0, _WHITE)
        ends = 71.0 - bend / 2
        middle = 71.0 + bend / 2 + 2.5 * self.has["Mouth_Slightly_Open"]
        points = [
            (50 - wide, ends),
            (50 - wide / 2, middle - 0.6),
            (50, middle),
            (50 + wide / 2, middle - 0.6),
        ]
        pen.line(*points, (50 + wide, ends), color=color, width=thick)

    def _in_front(self, pen: _Pen) -> None:
        skin, hair, wide = self._looks
        shade = mixed(skin, _DARK, 0.5)
        if not self.has["Young"]:
            for y in (30, 34):
                pen.line((39, y), (61, y), color=shade, width=1.6)
            for side in (-1, 1):
                pen.line((50 + side * 8, 61), (50 + side * 13, 70), color=shade, width=1.8)
        if not self.has["Attractive"]:
            for x, y in ((35 + 4 * self.whims[14], 58), (62 + 4 * self.whims[15], 60), (54, 76)):
                pen.disc(x, y, 1.3, 1.3, mixed(shade, _ROSE, 0.4))
        if not self.has["Bald"]:
            line = 17.0 if self.has["Receding_Hairline"] else 26.0
            pen.disc(50, 20, wide - 1, line - 11, hair)
            if self.has["Receding_Hairline"]:
                pen.discs(10.5, 24, 7, 6, skin)
        if self.has["Bangs"]:
            pen.slab(50 - wide + 3, 22, 50 + wide - 3, 37, hair)
        if self.has["Wearing_Hat"]:
            red, green, blue = (int(40 + 160 * whim) for whim in self.whims[9:12])
            pen.slab(50 - wide - 9, 21, 50 + wide + 9, 26, mixed((red, green, blue), _DARK, 0.4))
            pen.slab(50 - wide + 1, 4, 50 + wide - 1, 22, (red, green, blue))
        if self.has["Wearing_Earrings"]:
            pen.discs(wide + 1, 63, 3, 4, _GOLD)


def picture(face: Face, pose: list[float], image_size: int) -> NDArray[np.uint8]:
    """Draws one face without grain, uint8 `[image_size, image_size, 3]`.

    Args:
        face: the face.
        pose: how far it is moved to the right and down, in hundredths of the picture, and its scale.
        image_size: height and width, in pixels.
    """
    side = _FINER * image_size
    red, green, blue = (int(90 + 130 * whim) for whim in face.whims[:3])
    image = Image.new("RGB", (side, side), (red, green, blue))
    face.draw(_Pen(image, *pose))
    if face.has["Blurry"]:
        image = image.filter(ImageFilter.BoxBlur(side / 28))
    return np.asarray(image.reduce(_FINER))


def draw_faces(seed: int, block: int, *, image_size: int) -> NDArray[np.uint8]:
    """Draws one block of faces, uint8 `[BLOCK, 3, image_size, image_size]`; their labels are `draw_attributes`.

    As with people who label photographs, label and picture do not always agree: on average a tenth of the attributes
    that a face has are not drawn, and as many are drawn that it has not.
    """
    rng = np.random.default_rng((seed, block, _SHAPES))
    whims = rng.random((BLOCK, NUM_WHIMS)).tolist()
    poses = draw_poses(seed, block).tolist()
    grain = rng.integers(
        -_GRAIN, _GRAIN, (BLOCK, 3, image_size, image_size), dtype=np.int16, endpoint=True
    )
    pictures = np.empty((BLOCK, image_size, image_size, 3), np.uint8)
    for row, bits in enumerate(shown(draw_attributes(seed, block), rng).tolist()):
        face = Face(dict(zip(NAMES, bits, strict=True)), whims[row])
        pictures[row] = picture(face, pose=poses[row], image_size=image_size)
    grain += pictures.transpose(0, 3, 1, 2)
    return np.clip(grain, 0, 255).astype(np.uint8)


def draw_poses(seed: int, block: int) -> FloatArray:
    """Draws how far each face is moved to the right and down, in hundredths, and its scale, `[BLOCK, 3]`."""
    poses = np.random.default_rng((seed, block, _POSES)).uniform(-1, 1, (BLOCK, 3))
    return np.array([0, 0, 1]) + np.array([6, 6, 0.12]) * poses


def shown(attributes: BoolArray, rng: np.random.Generator) -> BoolArray:
    """Returns the attributes that are drawn: some go missing, and as many come as leaves the marginals."""
    share = np.array([POSITIVES[name] for name in NAMES]) / NUM_PHOTOGRAPHS
    rate = np.where(attributes, _MISSED, _MISSED * share / (1 - share))
    return np.asarray(attributes ^ (rng.random(attributes.shape) < rate))
