"""Cartoon faces with CelebA's attributes, its stand-in where nobody has the photographs: drawn, or in its files."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from pate.accounting import PrivacyUnit
from pate.data.cache import kept_pixels
from pate.data.celeba import ATTRIBUTES, IDENTITIES, IMAGES, MARKER, SPLITS
from pate.data.dataset import Dataset, ImageForm, Split, Stage, unwatched
from pate.files.disk import make_folder, read_json, remove_partials, write_text
from pate.validation import InvalidValue, require, require_choice, require_count

Color = tuple[int, int, int]

NUM_PHOTOGRAPHS = 202_599
_TABLES: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("faces.yaml").read_text(encoding="utf-8")
)
POSITIVES: dict[str, int] = _TABLES["positives"]
THRESHOLDS: dict[str, float] = _TABLES["thresholds"]
LOADINGS: dict[str, dict[str, float]] = _TABLES["loadings"]
CORRELATIONS: dict[tuple[str, ...], float] = {
    tuple(pair.split()): phi for pair, phi in _TABLES["correlations"].items()
}
NAMES = tuple(POSITIVES)
BLOCK = 256  # faces that share a generator; face i is row i % BLOCK of block i // BLOCK
NUM_WHIMS = 16  # numbers in [0, 1) that make faces of equal attributes differ
_ATTRIBUTES, _SHAPES, _POSES = range(3)  # behind seed and block: each has a generator of its own
_COLUMN = {name: column for column, name in enumerate(NAMES)}
_HAIR: dict[str, list[int]] = _TABLES["hair"]
_HAIR_SHAPES = ("Straight_Hair", "Wavy_Hair")
_BEARDS = ("Goatee", "Mustache", "Sideburns")
_FINER = 2  # pictures are drawn at twice their size and averaged
_GRAIN = 24  # levels of 255
_MISSED = 0.1
_STAGE = "drawing faces"
_VERSION = 1  # of the drawing; in the cache's name
_AUBURN, _WHITE, _DARK, _GOLD, _ROSE = (
    (160, 52, 36), (250, 250, 250), (28, 24, 24), (240, 205, 60), (232, 96, 110),
)  # fmt: skip

_OFFICIAL = (162_770, 19_867, 19_962)  # train, validation, test
_BOX = _TABLES["box"]
_POINTS = _TABLES["points"]
_FACES_A_PERSON = 20
_FILE = "{:06d}.jpg"


def draw_attributes(seed: int, block: int) -> NDArray[np.bool_]:
    """The attributes of one block of faces, bool `[BLOCK, 40]`, in the order of `NAMES`."""
    latent = _latent(BLOCK, np.random.default_rng((seed, block, _ATTRIBUTES)))
    return consistent(latent - np.array([THRESHOLDS[name] for name in NAMES]))


def consistent(excess: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Attributes from latent variables minus thresholds, `[n, 40]`, after the rules.

    Of several hair colors the one with the largest excess stays, and of straight and wavy likewise. The bald have no
    hair of any color or shape, no bangs and no receding hairline, which also excludes bangs. Women are not bald and
    have no beard or shadow of one. Who has a goatee, a moustache or sideburns has a beard.
    """
    bits = excess > 0
    for rivals in (tuple(_HAIR), _HAIR_SHAPES):
        columns = [_COLUMN[name] for name in rivals]
        best = excess[:, columns].argmax(axis=1)[:, None] == np.arange(len(columns))
        bits[:, columns] &= best
    male = bits[:, _COLUMN["Male"]]
    bits[:, _COLUMN["Bald"]] &= male
    bald = bits[:, _COLUMN["Bald"]]
    bits[
        :, [_COLUMN[name] for name in (*_HAIR, *_HAIR_SHAPES, "Bangs", "Receding_Hairline")]
    ] &= ~bald[:, None]
    bits[:, _COLUMN["Bangs"]] &= ~bits[:, _COLUMN["Receding_Hairline"]]
    beards = [_COLUMN[name] for name in _BEARDS]
    bits[:, [*beards, _COLUMN["5_o_Clock_Shadow"]]] &= male[:, None]
    bits[:, _COLUMN["No_Beard"]] = (bits[:, _COLUMN["No_Beard"]] | ~male) & ~bits[:, beards].any(
        axis=1
    )
    return bits


def _latent(count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Standard normal variables `[count, 40]`, correlated through the factors."""
    loadings = np.array(
        [[of_factor.get(name, 0.0) for of_factor in LOADINGS.values()] for name in NAMES]
    )
    own_share = np.sqrt(1 - (loadings**2).sum(axis=1))
    factors = rng.standard_normal((count, len(LOADINGS)))
    return np.asarray(factors @ loadings.T + own_share * rng.standard_normal((count, len(NAMES))))


def mixed(first: Sequence[int], second: Sequence[int], share: float) -> Color:
    """The first color with a share of the second."""
    red, green, blue = (int(a + share * (b - a)) for a, b in zip(first, second, strict=True))
    return red, green, blue


class _Pen:
    """Draws on a square picture; (50, 50) is the middle of the face, which may be moved and scaled."""

    def __init__(self, image: Image.Image, right: float, down: float, scale: float) -> None:
        self._draw = ImageDraw.Draw(image)
        pixel = image.width / 100
        self._unit = pixel * scale
        self._left = pixel * (50 + right) - 50 * self._unit
        self._top = pixel * (50 + down) - 50 * self._unit

    def disc(self, x: float, y: float, across: float, along: float, color: Color) -> None:
        self._draw.ellipse(self._around(x, y, across, along), fill=color)

    def discs(self, x: float, y: float, across: float, along: float, color: Color) -> None:
        """One on each side, so far from the middle."""
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
    """What is drawn: every attribute leaves a mark that can be seen."""

    has: Mapping[str, bool]  # of each of the 40 names
    whims: list[float]  # `NUM_WHIMS` numbers in [0, 1)

    def draw(self, pen: _Pen) -> None:
        """Draws the face with a pen, from what lies behind it to what lies in front."""
        for part in (self._behind, self._head, self._eyes, self._nose_and_mouth, self._in_front):
            part(pen)

    @property
    def _looks(self) -> tuple[Color, Color, float]:
        """The colors of skin and hair, and half the width of the face."""
        skin = (
            (252, 236, 226)
            if self.has["Pale_Skin"]
            else mixed((238, 196, 162), (172, 116, 82), self.whims[3])
        )
        hair = next((color for name, color in _HAIR.items() if self.has[name]), _AUBURN)
        wide = (
            23.0
            + 5.0 * self.has["Chubby"]
            - 3.5 * self.has["Oval_Face"]
            + 2.5 * (self.whims[5] - 0.5)
        )
        return skin, mixed(hair, (128, 100, 80), 0.25 * self.whims[4]), wide

    def _behind(self, pen: _Pen) -> None:
        (skin, hair, wide) = self._looks
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
        (skin, hair, _) = self._looks
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
    """One face without grain, uint8 `[image_size, image_size, 3]`; the pose is how far it is moved, and its scale."""
    side = _FINER * image_size
    red, green, blue = (int(90 + 130 * whim) for whim in face.whims[:3])
    image = Image.new("RGB", (side, side), (red, green, blue))
    face.draw(_Pen(image, *pose))
    if face.has["Blurry"]:
        image = image.filter(ImageFilter.BoxBlur(side / 28))
    return np.asarray(image.reduce(_FINER))


def draw_faces(seed: int, block: int, *, image_size: int) -> NDArray[np.uint8]:
    """One block of faces, uint8 `[BLOCK, 3, image_size, image_size]`; their labels are `draw_attributes`.

    As with people who label photographs, label and picture do not always agree: a tenth of the attributes that a
    face has are not drawn, and as many are drawn that it has not.
    """
    rng = np.random.default_rng((seed, block, _SHAPES))
    whims = rng.random((BLOCK, NUM_WHIMS)).tolist()
    poses = _poses(seed, block).tolist()
    grain = rng.integers(
        -_GRAIN, _GRAIN, (BLOCK, 3, image_size, image_size), dtype=np.int16, endpoint=True
    )
    pictures = np.empty((BLOCK, image_size, image_size, 3), np.uint8)
    for row, bits in enumerate(shown(draw_attributes(seed, block), rng).tolist()):
        face = Face(dict(zip(NAMES, bits, strict=True)), whims[row])
        pictures[row] = picture(face, poses[row], image_size)
    grain += pictures.transpose(0, 3, 1, 2)
    return np.clip(grain, 0, 255).astype(np.uint8)


def _poses(seed: int, block: int) -> NDArray[np.float64]:
    """How far each face is moved to the right and down, in hundredths, and its scale, `[BLOCK, 3]`."""
    poses = np.random.default_rng((seed, block, _POSES)).uniform(-1, 1, (BLOCK, 3))
    return np.array([0, 0, 1]) + np.array([6, 6, 0.12]) * poses


def shown(attributes: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.bool_]:
    """What is drawn: attributes go with probability `_MISSED`, and come at the rate that leaves the marginals."""
    share = np.array([POSITIVES[name] for name in NAMES]) / NUM_PHOTOGRAPHS
    rate = np.where(attributes, _MISSED, _MISSED * share / (1 - share))
    return np.asarray(attributes ^ (rng.random(attributes.shape) < rate))


@dataclass(frozen=True)
class SynthFaces:
    """Faces drawn from attribute vectors that have CelebA's names, marginals and main correlations.

    Attributes come from a Gaussian copula over a few factors, cut at thresholds and made consistent: one hair color and
    none for the bald, a goatee is a beard. Each leaves a mark in the picture; poses, skin, clothes, background and
    grain differ from face to face and say nothing. Reports call it synthetic: it is no evidence about CelebA.

    Formal guarantees:
        * Face i depends on `seed`, `image_size` and i alone, and is a record and a group of its own.
        * Marginals are within 0.02 of those that CelebA's attribute list has, `CORRELATIONS` within 0.15.

    Faces are numbered as in CelebA: private, public, test. The inputs are `Pixels`, 3 * image_size**2 bytes each.
    """

    num_private: int = 20_000  # private faces
    num_public: int = field(default=2_000, metadata={"public": True})  # public faces
    num_test: int = field(default=2_000, metadata={"public": True})  # faces for test
    image_size: int = field(default=32, metadata={"public": True})  # height and width, in pixels
    seed: int = 0  # of all faces; part of the data, not of the noise
    # the folder to keep faces in from run to run; None draws them anew, in memory
    cache: Path | str | None = None

    def __post_init__(self) -> None:
        for name in ("num_private", "num_public", "num_test", "image_size"):
            require_count(name, getattr(self, name))
        require_count("seed", self.seed, minimum=0)

    def load(self, stage: Stage = unwatched) -> Dataset:
        """Draws the faces, which is announced: images in [0, 1]; record ids are their numbers from 1."""
        ends = np.cumsum([self.num_private, self.num_public, self.num_test])
        count = int(ends[-1])
        labels = np.concatenate(
            [draw_attributes(self.seed, block) for block in range(-(-count // BLOCK))]
        )[:count]
        levels = self._levels(count, stage)
        record_ids = np.arange(1, count + 1)
        private, public, test = (
            Split.of_pictures(rows, levels, labels, record_ids, record_ids)
            for rows in np.split(np.arange(count), ends[:-1])
        )
        form = ImageForm(3, self.image_size, self.image_size, "crop")
        return Dataset(
            "synth_faces",
            False,
            "images",
            NAMES,
            private,
            public,
            test,
            preprocessing=form,
            group_unit=PrivacyUnit("one face"),
        )

    def _levels(self, count: int, stage: Stage) -> NDArray[np.uint8]:
        shape = (count, 3, self.image_size, self.image_size)
        if self.cache is not None:
            name = f"synth_faces-{self.image_size}-{self.seed}-{count}-{_VERSION}"
            folder = Path(self.cache).expanduser() / name
            stamps = np.ones(count, np.int64)
            return kept_pixels(
                folder, shape, np.arange(count), stamps, self._faces, name=_STAGE, stage=stage
            )
        levels = np.empty(shape, np.uint8)
        with stage(_STAGE, count) as advance:
            for first in range(0, count, BLOCK):
                levels[first : first + BLOCK] = self._faces(
                    np.arange(first, min(first + BLOCK, count))
                )
                advance(min(first + BLOCK, count))
        return levels

    def _faces(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        blocks: Iterable[int] = np.unique(rows // BLOCK).tolist()
        faces = [
            draw_faces(self.seed, b, image_size=self.image_size)[rows[rows // BLOCK == b] % BLOCK]
            for b in blocks
        ]
        return np.concatenate(faces)


def split_sizes(count: int) -> tuple[int, int, int]:
    """How many of `count` faces are for training, validation and test: the official shares, none of them empty."""
    rule = "at least 3, one for each split"
    require(require_count("count", count) >= 3, "count", count, rule)
    validation, test = (max(1, count * size // NUM_PHOTOGRAPHS) for size in _OFFICIAL[1:])
    return count - validation - test, validation, test


@dataclass(frozen=True)
class FaceCopy:
    """A folder that `data=celeba` reads, and that says of itself that it is synthetic.

    Faces are those of `SynthFaces` with the same seed and size, but for the loss of JPEG. Up to 20 faces that follow
    each other in a split are called one person; they have nothing else in common.
    """

    count: int = NUM_PHOTOGRAPHS  # faces; 202,599 are as many as CelebA has, and in its splits
    image_size: int = 64  # height and width, in pixels
    # "text", the authors' files, or "csv", as they are often passed on (without identities)
    form: str = "text"
    seed: int = 0  # of all faces

    def __post_init__(self) -> None:
        split_sizes(self.count)
        require_count("size", self.image_size)
        require_count("seed", self.seed, minimum=0)
        require_choice("format", self.form, ("text", "csv"))

    def write(self, folder: Path | str, stage: Stage = unwatched) -> None:
        """Writes what is missing in the folder, pictures first: the same call goes on after a full disk."""
        folder = Path(folder)
        images = folder / IMAGES if self.form == "text" else folder / IMAGES / IMAGES
        done = self._claim(folder)
        make_folder(images, within=folder)
        with stage(_STAGE, self.count) as advance:
            for block in range(done, -(-self.count // BLOCK)):
                faces = draw_faces(self.seed, block, image_size=self.image_size).transpose(
                    0, 2, 3, 1
                )
                for number, face in enumerate(
                    faces[: self.count - block * BLOCK], start=block * BLOCK + 1
                ):
                    picture = Image.fromarray(np.ascontiguousarray(face))
                    picture.save(
                        images / _FILE.format(number), format="JPEG", quality=95, subsampling=0
                    )
                self._note(folder, block + 1)
                advance(min((block + 1) * BLOCK, self.count))
        for stem, header, rows in self._lists():
            self._write_list(folder, stem, header, rows)

    def _claim(self, folder: Path) -> int:
        """Makes the folder this copy's and returns how many blocks are in it."""
        rule = "a new folder or a part of this copy"
        if not (folder / MARKER).exists():
            names = sorted(
                name
                for name in (os.listdir(folder) if folder.is_dir() else [])
                if name[-8:] != ".partial"
            )
            if names:
                raise InvalidValue("output", folder, rule=f"{rule}, found {names[0]}")
            self._note(make_folder(folder), 0)
        content = read_json(
            folder / MARKER,
            rule="the marker of a copy",
            remedy="remove the folder and make it anew",
        )
        settings = {"synthetic": True, **asdict(self)}
        if found := ", ".join(
            f"{key}={content.get(key)}" for key in settings if content.get(key) != settings[key]
        ):
            raise InvalidValue("output", folder, rule=f"{rule}, found {found}")
        remove_partials(folder, (r"\w+\.(?:txt|csv)", re.escape(MARKER)))
        return int(content["blocks_written"])

    def _note(self, folder: Path, blocks_written: int) -> None:
        content = {"synthetic": True, **asdict(self), "blocks_written": blocks_written}
        write_text(folder / MARKER, json.dumps(content) + "\n")

    def _lists(self) -> Iterator[tuple[str, tuple[str, ...], NDArray[np.int64]]]:
        """Each list's name, columns (none where the text form has no header) and numbers `[count, columns]`."""
        blocks = range(-(-self.count // BLOCK))
        sizes = split_sizes(self.count)
        yield SPLITS, ("partition",), np.repeat([0, 1, 2], sizes)[:, None]
        places = np.concatenate([np.arange(size) // _FACES_A_PERSON for size in sizes])
        first_of_split = np.repeat(
            np.cumsum([0, *(-(-size // _FACES_A_PERSON) for size in sizes[:-1])]), sizes
        )
        if self.form == "text":
            yield IDENTITIES, ("identity",), (places + first_of_split + 1)[:, None]
        box = np.round(np.array([[*_BOX.values()]]) * self.image_size / 100).astype(np.int64)
        yield "list_bbox_celeba", tuple(_BOX), np.repeat(box, self.count, axis=0)
        points = np.array([*_POINTS.values()], dtype=np.float64)
        poses = np.concatenate([_poses(self.seed, block) for block in blocks])[: self.count, None]
        placed = (50 + poses[..., :2] + (points - 50) * poses[..., 2:]) * self.image_size / 100
        columns = tuple(f"{name}_{axis}" for name in _POINTS for axis in "xy")
        yield (
            "list_landmarks_align_celeba",
            columns,
            placed.round().astype(np.int64).reshape(self.count, -1),
        )
        attributes = np.concatenate([draw_attributes(self.seed, block) for block in blocks])[
            : self.count
        ]
        # last: the folder is a copy once it is there
        yield ATTRIBUTES, NAMES, np.where(attributes, 1, -1)

    def _write_list(
        self, folder: Path, stem: str, columns: tuple[str, ...], numbers: NDArray[np.int64]
    ) -> None:
        between, suffix = {"text": (" ", "txt"), "csv": (",", "csv")}[self.form]
        width = 1 if self.form == "csv" or stem in (SPLITS, IDENTITIES) else 2
        header = [",".join(["image_id", *columns])] if self.form == "csv" else []
        if width > 1:  # as in the genuine files: a blank behind the names of attributes
            header = [str(len(numbers)), " ".join(columns) + " " * (stem == ATTRIBUTES)]
        cells = ([f"{value:{width}d}" for value in values] for values in numbers.tolist())
        rows = (
            between.join([_FILE.format(row), *row_cells])
            for row, row_cells in enumerate(cells, start=1)
        )
        write_text(folder / f"{stem}.{suffix}", "\n".join([*header, *rows]) + "\n")
