"""Cartoon faces with CelebA's attributes: its stand-in where nobody has the photographs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from pate.data.cache import PixelCache
from pate.data.cartoon import NUM_WHIMS, Face, picture
from pate.data.dataset import Dataset, Split, Stage, unwatched
from pate.data.image_form import ImageForm
from pate.validation import require_count

NUM_PHOTOGRAPHS = 202_599

POSITIVES = {
    "5_o_Clock_Shadow": 22516,
    "Arched_Eyebrows": 54090,
    "Attractive": 103833,
    "Bags_Under_Eyes": 41446,
    "Bald": 4547,
    "Bangs": 30709,
    "Big_Lips": 48785,
    "Big_Nose": 47516,
    "Black_Hair": 48472,
    "Blond_Hair": 29983,
    "Blurry": 10312,
    "Brown_Hair": 41572,
    "Bushy_Eyebrows": 28803,
    "Chubby": 11663,
    "Double_Chin": 9459,
    "Eyeglasses": 13193,
    "Goatee": 12716,
    "Gray_Hair": 8499,
    "Heavy_Makeup": 78390,
    "High_Cheekbones": 92189,
    "Male": 84437,
    "Mouth_Slightly_Open": 97942,
    "Mustache": 8417,
    "Narrow_Eyes": 23329,
    "No_Beard": 169158,
    "Oval_Face": 57567,
    "Pale_Skin": 8701,
    "Pointy_Nose": 56210,
    "Receding_Hairline": 16163,
    "Rosy_Cheeks": 13315,
    "Sideburns": 11449,
    "Smiling": 97669,
    "Straight_Hair": 42222,
    "Wavy_Hair": 64744,
    "Wearing_Earrings": 38276,
    "Wearing_Hat": 9818,
    "Wearing_Lipstick": 95715,
    "Wearing_Necklace": 24913,
    "Wearing_Necktie": 14732,
    "Young": 156734,
}
"""Photographs that have the attribute, in the order of CelebA's lists."""

NAMES = tuple(POSITIVES)

FACTORS = ("manly", "made_up", "merry", "young", "heavy", "bearded")

LOADINGS: dict[str, dict[str, float]] = {
    "Male": {"manly": 0.99},
    "Wearing_Lipstick": {"manly": -0.95, "made_up": 0.29},
    "Heavy_Makeup": {"manly": -0.87, "made_up": 0.47},
    "Attractive": {"manly": -0.40, "made_up": 0.35, "young": 0.50, "heavy": -0.30},
    "Arched_Eyebrows": {"manly": -0.50, "made_up": 0.35},
    "Rosy_Cheeks": {"manly": -0.35, "made_up": 0.40, "merry": 0.20},
    "Wearing_Earrings": {"manly": -0.55, "made_up": 0.15},
    "Wearing_Necklace": {"manly": -0.50},
    "Wearing_Necktie": {"manly": 0.60, "young": -0.35},
    "Blond_Hair": {"manly": -0.50, "made_up": 0.15},
    "Wavy_Hair": {"manly": -0.50, "made_up": 0.20},
    "Pointy_Nose": {"manly": -0.25, "made_up": 0.20},
    "Bangs": {"manly": -0.25, "young": 0.15},
    "Big_Nose": {"manly": 0.40, "young": -0.35, "heavy": 0.30},
    "Bags_Under_Eyes": {"manly": 0.35, "young": -0.35, "heavy": 0.15},
    "Bushy_Eyebrows": {"manly": 0.40},
    "Sideburns": {"manly": 0.60, "bearded": 0.70},
    "Goatee": {"manly": 0.60, "bearded": 0.70},
    "Mustache": {"manly": 0.60, "bearded": 0.60, "young": -0.15},
    "5_o_Clock_Shadow": {"manly": 0.65, "bearded": 0.30},
    "No_Beard": {"manly": -0.65, "bearded": -0.70},
    "Smiling": {"merry": 0.97},
    "High_Cheekbones": {"merry": 0.90, "made_up": 0.12},
    "Mouth_Slightly_Open": {"merry": 0.77},
    "Oval_Face": {"merry": 0.25, "made_up": 0.15, "heavy": -0.20},
    "Narrow_Eyes": {"merry": 0.20},
    "Young": {"young": 0.90},
    "Gray_Hair": {"young": -0.75, "manly": 0.20},
    "Bald": {"manly": 0.65, "young": -0.35},
    "Receding_Hairline": {"manly": 0.25, "young": -0.45},
    "Eyeglasses": {"manly": 0.30, "young": -0.40},
    "Wearing_Hat": {"manly": 0.30},
    "Chubby": {"heavy": 0.86, "young": -0.20, "manly": 0.15},
    "Double_Chin": {"heavy": 0.86, "young": -0.25, "manly": 0.12},
}
"""How an attribute's latent variable depends on the factors; what is not listed is independent. Chosen by hand so that
the correlations below come out."""

CORRELATIONS = {
    ("Heavy_Makeup", "Wearing_Lipstick"): 0.80,
    ("Male", "Wearing_Lipstick"): -0.79,
    ("Male", "Heavy_Makeup"): -0.67,
    ("Smiling", "High_Cheekbones"): 0.68,
    ("Smiling", "Mouth_Slightly_Open"): 0.53,
    ("Chubby", "Double_Chin"): 0.53,
    ("Male", "No_Beard"): -0.52,
}
"""The strongest correlations (phi, about) of pairs of attributes."""

BLOCK = 256
"""Faces that share a generator; face i is row i % BLOCK of block i // BLOCK."""

_CALIBRATION_SIZE, _CALIBRATION_SEED, _CALIBRATION_STEPS = 40_000, 202_599, 25
_DECIMALS = 3

_COLUMN = {name: column for column, name in enumerate(NAMES)}
_HAIR_COLORS = ("Black_Hair", "Blond_Hair", "Brown_Hair", "Gray_Hair")
_HAIR_SHAPES = ("Straight_Hair", "Wavy_Hair")
_BEARDS = ("Goatee", "Mustache", "Sideburns")

_GRAIN = 24  # levels of 255
_MISSED = 0.1
_STAGE = "drawing faces"
_VERSION = 1  # of the drawing; in the cache's name


def block_generator(seed: int, block: int, purpose: int) -> np.random.Generator:
    """The generator of a block; purposes (attributes, shapes) have streams of their own."""
    return np.random.default_rng((seed, block, purpose))


def draw_attributes(seed: int, block: int) -> NDArray[np.bool_]:
    """The attributes of one block of faces, bool `[BLOCK, 40]`, in the order of `NAMES`."""
    return consistent(_latent(BLOCK, block_generator(seed, block, 0)) - thresholds())


@cache
def thresholds() -> NDArray[np.float64]:
    """Where each latent variable is cut, `[40]`, so that marginals *after* the rules are those of `POSITIVES`.

    The rules take attributes away and give some, so the cuts that would be right without them are moved, on a
    fixed sample, until the marginals are right. They are rounded, to be the same on every machine.
    """
    wanted = np.array([POSITIVES[name] for name in NAMES]) / NUM_PHOTOGRAPHS
    latent = _latent(_CALIBRATION_SIZE, np.random.default_rng(_CALIBRATION_SEED))
    share = wanted.copy()
    for _ in range(_CALIBRATION_STEPS):
        found = consistent(latent + ndtri(share)).mean(axis=0)
        odds = share / (1 - share) * (wanted / (1 - wanted)) * ((1 - found) / np.maximum(found, 1e-4))
        share = np.clip(odds / (1 + odds), 1e-4, 1 - 1e-4)
    cuts: NDArray[np.float64] = np.round(-ndtri(share), _DECIMALS)
    return cuts


def consistent(excess: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Attributes from latent variables minus thresholds, `[n, 40]`, after the rules.

    Of several hair colors the one with the largest excess stays, and of straight and wavy likewise. The bald have no
    hair of any color or shape, no bangs and no receding hairline, which also excludes bangs. Women are not bald and
    have no beard or shadow of one. Who has a goatee, a moustache or sideburns has a beard.
    """
    bits = excess > 0
    for rivals in (_HAIR_COLORS, _HAIR_SHAPES):
        columns = [_COLUMN[name] for name in rivals]
        best = excess[:, columns].argmax(axis=1)[:, None] == np.arange(len(columns))
        bits[:, columns] &= best
    male = bits[:, _COLUMN["Male"]]
    bits[:, _COLUMN["Bald"]] &= male
    bald = bits[:, _COLUMN["Bald"]]
    bits[:, [_COLUMN[name] for name in (*_HAIR_COLORS, *_HAIR_SHAPES, "Bangs", "Receding_Hairline")]] &= ~bald[:, None]
    bits[:, _COLUMN["Bangs"]] &= ~bits[:, _COLUMN["Receding_Hairline"]]
    beards = [_COLUMN[name] for name in _BEARDS]
    bits[:, [*beards, _COLUMN["5_o_Clock_Shadow"]]] &= male[:, None]
    bits[:, _COLUMN["No_Beard"]] = (bits[:, _COLUMN["No_Beard"]] | ~male) & ~bits[:, beards].any(axis=1)
    return bits


def _latent(count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Standard normal variables `[count, 40]`, correlated through the factors."""
    loadings = _loadings()
    own = np.sqrt(1 - (loadings**2).sum(axis=1))
    factors = rng.standard_normal((count, len(FACTORS)))
    return np.asarray(factors @ loadings.T + own * rng.standard_normal((count, len(NAMES))))


@cache
def _loadings() -> NDArray[np.float64]:
    """`[40, num_factors]`."""
    return np.array([[LOADINGS.get(name, {}).get(factor, 0.0) for factor in FACTORS] for name in NAMES])


def draw_faces(seed: int, block: int, *, image_size: int) -> NDArray[np.uint8]:
    """One block of faces, uint8 `[BLOCK, 3, image_size, image_size]`; their labels are `draw_attributes`.

    As with people who label photographs, label and picture do not always agree: a tenth of the attributes that a
    face has are not drawn, and as many are drawn that it has not.
    """
    rng = block_generator(seed, block, 1)
    whims, poses = rng.random((BLOCK, NUM_WHIMS)).tolist(), _poses(seed, block).tolist()
    grain = rng.integers(-_GRAIN, _GRAIN, (BLOCK, 3, image_size, image_size), dtype=np.int16, endpoint=True)
    pictures = np.empty((BLOCK, image_size, image_size, 3), np.uint8)
    for row, bits in enumerate(shown(draw_attributes(seed, block), rng).tolist()):
        face = Face(dict(zip(NAMES, bits, strict=True)), whims[row])
        pictures[row] = picture(face, poses[row], image_size)
    grain += pictures.transpose(0, 3, 1, 2)
    return np.clip(grain, 0, 255).astype(np.uint8)


def place_points(seed: int, block: int, points: NDArray[np.float64], *, image_size: int) -> NDArray[np.int64]:
    """Where points of the face `[k, 2]`, in hundredths, are in the pictures of a block: pixels `[BLOCK, k, 2]`."""
    poses = _poses(seed, block)[:, None, :]
    placed = 50 + poses[..., :2] + (points - 50) * poses[..., 2:]
    return np.asarray((placed * image_size / 100).round(), dtype=np.int64)


def _poses(seed: int, block: int) -> NDArray[np.float64]:
    """How far each face is moved to the right and down, in hundredths, and its scale, `[BLOCK, 3]`."""
    return np.array([0, 0, 1]) + np.array([6, 6, 0.12]) * block_generator(seed, block, 2).uniform(-1, 1, (BLOCK, 3))


def shown(attributes: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.bool_]:
    """What is drawn: attributes go with probability `_MISSED`, and come at the rate that leaves the marginals."""
    share = np.array([POSITIVES[name] for name in NAMES]) / NUM_PHOTOGRAPHS
    rate = np.where(attributes, _MISSED, _MISSED * share / (1 - share))
    return np.asarray(attributes ^ (rng.random(attributes.shape) < rate))


@dataclass(frozen=True)
class SynthFaces:
    """Faces drawn from attribute vectors that have CelebA's names, marginals and main correlations.

    Attributes come from a Gaussian copula over a few factors, cut at thresholds and made consistent: one hair
    color and none for the bald, a goatee is a beard. Each leaves a mark in the picture; poses, skin, clothes,
    background and grain differ from face to face and say nothing. Reports call it synthetic: it shows that the
    pipeline works and is no evidence about CelebA.

    Formal guarantees:
        * Face i depends on `seed`, `image_size` and i alone: more faces leave the first ones as they are.
        * Each face is a record and a group of its own.
        * Marginals are within 0.02 of CelebA's, and those of `CORRELATIONS` within 0.15.

    Faces are numbered as in CelebA: the private ones first, then the public ones, then those for test. They are
    kept as bytes, 3 * image_size**2 each, and the inputs of the splits are `Pixels`.

    Attributes:
        num_private: private faces.
        num_public: public faces.
        num_test: faces for test.
        image_size: height and width, in pixels.
        seed: of all faces; part of the data, not of the noise.
        cache: the folder to keep faces in from run to run; None draws them anew, in memory.

    Source: the counts of CelebA's own attribute list.
    """

    num_private: int = 20_000
    num_public: int = field(default=2_000, metadata={"public": True})
    num_test: int = field(default=2_000, metadata={"public": True})
    image_size: int = field(default=32, metadata={"public": True})
    seed: int = 0
    cache: Path | str | None = None

    def __post_init__(self) -> None:
        for name in ("num_private", "num_public", "num_test", "image_size"):
            require_count(name, getattr(self, name))
        require_count("seed", self.seed, minimum=0)

    def load(self) -> Dataset:
        """Draws the faces: images `[n, 3, image_size, image_size]` in [0, 1]; record ids are their numbers from 1.

        Raises:
            InvalidValue: a cache folder that cannot be written.
            OSError: the disk is full.
        """
        return self.load_in_stages(unwatched)

    def load_in_stages(self, stage: Stage) -> Dataset:
        """The same, and announces the drawing."""
        ends = np.cumsum([self.num_private, self.num_public, self.num_test])
        count = int(ends[-1])
        labels = np.concatenate([draw_attributes(self.seed, block) for block in range(-(-count // BLOCK))])[:count]
        levels, record_ids = self._levels(count, stage), np.arange(1, count + 1)
        known = (levels, labels, record_ids, record_ids)
        private, public, test = (Split.of_pictures(*known, rows) for rows in np.split(np.arange(count), ends[:-1]))
        form = ImageForm(3, self.image_size, self.image_size, "crop")
        return Dataset("synth_faces", False, "images", NAMES, private, public, test, preprocessing=form)

    def _levels(self, count: int, stage: Stage) -> NDArray[np.uint8]:
        shape = (count, 3, self.image_size, self.image_size)
        if self.cache is not None:
            name = f"synth_faces-{self.image_size}-{self.seed}-{count}-{_VERSION}"
            cache = PixelCache(Path(self.cache).expanduser() / name, shape, _STAGE)
            return cache.fill(np.arange(count), np.ones(count, np.int64), self._faces, stage)
        levels = np.empty(shape, np.uint8)
        with stage(_STAGE, count) as advance:
            for first in range(0, count, BLOCK):
                rows = np.arange(first, min(first + BLOCK, count))
                levels[rows] = self._faces(rows)
                advance(first + len(rows))
        return levels

    def _faces(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The faces of the given numbers, ascending."""
        blocks: Iterable[int] = np.unique(rows // BLOCK).tolist()
        drawn = [draw_faces(self.seed, b, image_size=self.image_size)[rows[rows // BLOCK == b] % BLOCK] for b in blocks]
        return np.concatenate(drawn)
