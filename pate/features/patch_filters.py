"""Filters that small patches of public pictures suggest: whitened, then clustered by their directions.

Source: A. Coates and A. Ng, "Learning Feature Representations with K-means", 2012.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pate.features.public_pictures import PublicPictures
from pate.validation import InvalidValue

Array = NDArray[np.float32]

CONTRAST = np.float32((10 / 255) ** 2)
"""Added to a patch's variance before it is divided by its root: gray noise is not blown up."""

_FLAT = 1e-4  # variance of a patch that shows nothing
_RIDGE = 0.05  # added to the variances that are whitened
_ROUNDS = 12
_BLOCK = 20_000


def learn_filters(
    pictures: PublicPictures, *, patch_size: int, num_filters: int, num_patches: int, seed: int
) -> tuple[Array, Array]:
    """Filters for contrast-normalized patches, and what is subtracted from their answers.

    Returns:
        Filters `[f, channels, patch_size, patch_size]` of mean 0 and offsets `[f]`: the answer to a patch p with
        variance v is `<filter, p> / sqrt(v + CONTRAST) - offset`.

    Raises:
        InvalidValue: pictures without any patch that shows something.
    """
    rng = np.random.default_rng(seed)
    rows = _normalized(_sampled(pictures, patch_size, num_patches, rng))
    center = rows.mean(axis=0)
    rows -= center
    variances, vectors = np.linalg.eigh((rows.T @ rows / len(rows)).astype(np.float64))
    whitening = ((vectors / np.sqrt(variances.clip(0) + _RIDGE)) @ vectors.T).astype(np.float32)
    directions = spherical_k_means(rows @ whitening, num_filters, rng)
    filters = directions @ whitening
    offsets = filters @ center
    filters -= filters.mean(axis=1, keepdims=True)  # normalized patches have mean 0: nothing is lost
    return filters.reshape(len(filters), pictures.shape[0], patch_size, patch_size), offsets


def spherical_k_means(rows: Array, count: int, rng: np.random.Generator) -> Array:
    """Unit vectors `[count, d]`: each row belongs to the one that it or its opposite is nearest to."""
    directions = _unit(rng.standard_normal((count, rows.shape[1])).astype(np.float32))
    for _ in range(_ROUNDS):
        total = directions.copy()  # damped: one that nobody is near to stays
        for first in range(0, len(rows), _BLOCK):
            block = rows[first : first + _BLOCK]
            answers = block @ directions.T
            nearest, each = np.abs(answers).argmax(axis=1), np.arange(len(block))
            codes = sparse.csr_matrix((answers[each, nearest], (nearest, each)), (count, len(block)))
            total += codes @ block
        directions = _unit(total)
    return directions


def _sampled(pictures: PublicPictures, size: int, count: int, rng: np.random.Generator) -> Array:
    """About `count` patches `[n, channels * size * size]`, as many of each picture, those that show something."""
    each = -(-count // len(pictures))
    _, height, width = pictures.shape
    found = []
    for block in pictures.blocks():
        windows = np.lib.stride_tricks.sliding_window_view(block, (size, size), axis=(2, 3))
        number = np.repeat(np.arange(len(block)), each)
        tops, lefts = (rng.integers(0, side - size + 1, len(number)) for side in (height, width))
        patches = windows[number, :, tops, lefts].reshape(len(number), -1)
        found.append(patches[patches.var(axis=1) > _FLAT])
    rows = np.concatenate(found).astype(np.float32)
    if len(rows) < 2:
        raise InvalidValue("data: expected public pictures that show something, features are fitted on them")
    return rows


def _normalized(rows: Array) -> Array:
    rows = rows - rows.mean(axis=1, keepdims=True)
    return np.asarray(rows / np.sqrt(rows.var(axis=1, keepdims=True) + CONTRAST), np.float32)


def _unit(rows: Array) -> Array:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)
