"""Attribute vectors into pictures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pate.data.synth_faces.attributes import BLOCK, block_generator, draw_attributes
from pate.data.synth_faces.face import NUM_WHIMS, Face
from pate.data.synth_faces.pen import Pen
from pate.data.synth_faces.population import NAMES, NUM_PHOTOGRAPHS, POSITIVES

_FINER = 2  # pictures are drawn at twice their size and averaged
_GRAIN = 24  # levels of 255
_MISSED = 0.1


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


def picture(face: Face, pose: list[float], image_size: int) -> NDArray[np.uint8]:
    """One face without grain, uint8 `[image_size, image_size, 3]`; the pose is how far it is moved, and its scale."""
    from PIL import Image, ImageFilter  # not when `pate.data` is imported

    side = _FINER * image_size
    image = Image.new("RGB", (side, side), face.background)
    right, down, scale = pose
    face.draw(Pen(image, right=right, down=down, scale=scale))
    if face.has["Blurry"]:
        image = image.filter(ImageFilter.BoxBlur(side / 28))
    return np.asarray(image.reduce(_FINER))
