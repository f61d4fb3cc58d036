"""Cartoon faces with CelebA's attributes: its stand-in where nobody has the photographs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from pate.data.cache import PixelCache
from pate.data.dataset import Dataset, Split
from pate.data.image_form import ImageForm
from pate.data.pixels import Pixels
from pate.data.stages import Stage, unwatched
from pate.data.synth_faces.attributes import BLOCK, draw_attributes
from pate.data.synth_faces.drawing import draw_faces
from pate.data.synth_faces.population import NAMES
from pate.validation import require_count

_STAGE = "drawing faces"
_VERSION = 1  # of the drawing; in the cache's name


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
        * Marginals are within 0.02 of CelebA's, and the correlations listed in `population` within 0.15.

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

        def split(rows: NDArray[np.int64]) -> Split:
            inputs = cast(NDArray[np.float32], Pixels(levels, rows))  # reads like one, see `Split`
            return Split(inputs, labels[rows], record_ids[rows], record_ids[rows])

        private, public, test = map(split, np.split(np.arange(count), ends[:-1]))
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
