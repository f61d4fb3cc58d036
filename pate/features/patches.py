"""Features by filters of small patches, which are learned from the public pool without labels.

Patches of the public images are contrast-normalized and whitened. Spherical k-means finds the filters: unit vectors
such that each patch, or its negative, is close to one of them. The responses of all filters to all patches of an image
are rectified in both directions, averaged over regions, compressed by a logarithm and projected.

Source: Coates & Ng 2012, "Learning Feature Representations with K-means".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from scipy import sparse
from torch.nn import functional

from pate.array_types import Float32Array, FloatArray
from pate.device import require_device
from pate.features.extractor import Extractor
from pate.features.features import Features
from pate.features.public_pictures import PublicPictures
from pate.progress import StageOpener
from pate.threads import one_thread
from pate.validation import InvalidValue, require, require_count, require_kind, require_non_negative

# added to a patch's variance, by whose root the patch is divided, so that noise stays small
CONTRAST = np.float32((10 / 255) ** 2)
_NUM_STEPS = 1  # of the stage in which filters are learned
_FLAT = 1e-4  # the largest variance of a patch that shows nothing
_RIDGE = 0.05  # added to the variances that are whitened
_ROUNDS = 12  # of k-means
_BLOCK = 20_000  # patches in one product of matrices
_PICTURES = 256  # read at once
_SIDE = 32  # pixels; images up to this size have a stride of 1


def learn_filters(
    pictures: PublicPictures, *, patch_size: int, num_filters: int, num_patches: int, seed: int
) -> tuple[Float32Array, Float32Array]:
    """Learns filters and their offsets from patches of public images.

    The response of a filter to a patch p with variance v is `<filter, p> / sqrt(v + CONTRAST) - offset`.

    Args:
        pictures: the public images.
        patch_size: height and width of a patch, in pixels.
        num_filters: the number of filters.
        num_patches: the number of random patches that are used.
        seed: the seed of the random choices.

    Returns:
        The filters `[num_filters, channels, patch_size, patch_size]` of mean 0, and the offsets `[num_filters]`.

    Raises:
        InvalidValue: all patches are constant.
    """
    rng = np.random.default_rng(seed)
    rows = _sample_patches(pictures, patch_size, num_patches=num_patches, rng=rng)
    rows = rows - rows.mean(axis=1, keepdims=True)
    rows = np.asarray(rows / np.sqrt(rows.var(axis=1, keepdims=True) + CONTRAST), np.float32)
    center = rows.mean(axis=0)
    rows -= center
    variances, vectors = np.linalg.eigh((rows.T @ rows / len(rows)).astype(np.float64))
    whitening = ((vectors / np.sqrt(variances.clip(0) + _RIDGE)) @ vectors.T).astype(np.float32)
    directions = spherical_k_means(vectors=rows @ whitening, num_clusters=num_filters, rng=rng)
    filters = directions @ whitening
    offsets = filters @ center
    # patches have mean 0 after normalization, so the answers stay the same
    filters -= filters.mean(axis=1, keepdims=True)
    return filters.reshape(len(filters), pictures.shape[0], patch_size, patch_size), offsets


def spherical_k_means(
    vectors: Float32Array, num_clusters: int, rng: np.random.Generator
) -> Float32Array:
    """Returns unit vectors `[num_clusters, d]` such that each row, or its negative, is close to one of them.

    Args:
        vectors: the vectors to cluster, `[num_rows, d]`.
        num_clusters: the number of clusters.
        rng: draws the initial vectors.
    """
    directions = _unit(rng.standard_normal((num_clusters, vectors.shape[1])).astype(np.float32))
    for _ in range(_ROUNDS):
        total = directions.copy()  # damping: a direction without near rows stays as it is
        for first in range(0, len(vectors), _BLOCK):
            block = vectors[first : first + _BLOCK]
            answers = block @ directions.T
            nearest = np.abs(answers).argmax(axis=1)
            places = np.arange(len(block))
            codes = sparse.csr_matrix(
                (answers[places, nearest], (nearest, places)), (num_clusters, len(block))
            )
            total += codes @ block
        directions = _unit(vectors=total)
    return directions


def _sample_patches(
    pictures: PublicPictures, patch_size: int, num_patches: int, rng: np.random.Generator
) -> Float32Array:
    """Returns about `num_patches` random patches `[num_patches, channels * size * size]`, without constant patches.

    Raises `InvalidValue` if fewer than two remain.

    Args:
        pictures: the public images; each contributes the same number of patches.
        patch_size: height and width of a patch, in pixels.
        num_patches: the number of patches.
        rng: draws the positions.
    """
    per_picture = -(-num_patches // len(pictures))
    _, height, width = pictures.shape
    samples = []
    for first in range(0, len(pictures), _PICTURES):
        block = pictures.batch(first_index=first, batch_size=_PICTURES)
        windows = np.lib.stride_tricks.sliding_window_view(
            block, (patch_size, patch_size), axis=(2, 3)
        )
        number = np.repeat(np.arange(len(block)), per_picture)
        tops, lefts = (
            rng.integers(0, side - patch_size + 1, len(number)) for side in (height, width)
        )
        patches = windows[number, :, tops, lefts].reshape(len(number), -1)
        samples.append(patches[patches.var(axis=1) > _FLAT])
    rows = np.concatenate(samples).astype(np.float32)
    if len(rows) < 2:
        rule = "public pictures that show something, features are fitted on them"
        raise InvalidValue("data", rule=rule)
    return rows


def _unit(vectors: Float32Array) -> Float32Array:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


class PatchExtractor(Extractor):
    """An extractor of features by filters of small patches.

    Rule: let a be the response of a filter to a contrast-normalized patch, and t a threshold. Two rectified responses,
    max(a - t, 0) and max(-a - t, 0), are averaged over a grid of regions with the weights of `region_weights`. A mean m
    becomes log(1 + compression m), and the results are projected. The arrays are the filters and offsets of
    `learn_filters`, and the arrays of `with_projection`.
    """

    kind: ClassVar[str] = "patches"

    @property
    def batch_size(self) -> int:
        """The number of images that are processed together."""
        return 512 if require_device("auto").type == "cuda" else 64

    def _numbers_at_once(self) -> int:
        """Returns about how many numbers patches, responses and region weights take in memory, for one image."""
        channels, height, width = self.picture_shape
        stride = int(self.settings["stride"])
        grid = int(self.settings["grid"])
        shape: tuple[int, ...] = self.arrays["filters"].shape
        num_filters = shape[0]
        patch_numbers = math.prod(shape[1:])
        size = shape[-1]
        num_means = 2 * num_filters * grid**2
        shapes = {
            "filters": (num_filters, channels, size, size),
            "offsets": (num_filters,),
            "center": (num_means,),
            "projection": (num_means, self.num_features),
        }
        if any(self.arrays[name].shape != shape for name, shape in shapes.items()):
            raise ValueError("arrays of other shapes")
        rows, columns = ((side - size) // stride + 1 for side in (height, width))
        picture_numbers = channels * height * width
        position_numbers = patch_numbers + 3 * num_filters + grid**2
        return picture_numbers + rows * columns * position_numbers + (rows + columns) * grid

    def measure(self, images: Float32Array) -> Float32Array:
        """Returns the compressed means of rectified responses by region.

        The shape is `[num_images, 2 * filters * grid * grid]`.
        """
        device = require_device("auto")
        compression = float(self.settings["compression"])
        with torch.inference_mode():
            batch = torch.from_numpy(np.ascontiguousarray(images)).to(device)
            # on a processor image by image: the responses of one image stay in its cache
            step = max(1, len(batch)) if device.type == "cuda" else 1
            means = torch.cat(
                [self._means(batch[first : first + step]) for first in range(0, len(batch), step)]
            )
            if compression:
                means = means.mul_(compression).log1p_()
            pooled: Float32Array = means.cpu().numpy()
        return pooled

    def project(self, measurements: Float32Array) -> Float32Array:
        """Returns the features: the measurements, centered and projected on the public directions."""
        tensors = self._tensors
        with torch.inference_mode():
            centered = torch.from_numpy(measurements).to(tensors["center"].device)
            projected: Float32Array = (
                ((centered - tensors["center"]) @ tensors["projection"]).cpu().numpy()
            )
        return projected

    def _means(self, batch: torch.Tensor) -> torch.Tensor:
        """Returns the means of max(a - t, 0) and of max(-a - t, 0) by region.

        The shape is `[num_images, 2 * filters * grid * grid]`.
        """
        tensors = self._tensors
        regions = self._regions
        stride = int(self.settings["stride"])
        threshold = float(self.settings["threshold"])
        filters = tensors["filters"].flatten(1).T.expand(len(batch), -1, -1)
        size = int(tensors["filters"].shape[-1])
        # The variance of a patch is its mean square less the square of its mean; the rounding error is far below
        # CONTRAST.
        moments = torch.stack([batch.mean(1), batch.square().mean(1)], dim=1)
        # [n, 1, positions]
        mean, square = functional.avg_pool2d(moments, size, stride).flatten(2).chunk(2, dim=1)
        # [n, channels * size * size, positions]
        patches = functional.unfold(batch, size, stride=stride)
        # Patches are divided, but not centered: filters have mean 0.
        patches.mul_(
            square.addcmul_(mean, mean, value=-1).clamp_min_(0).add_(float(CONTRAST)).rsqrt_()
        )
        # Answers less the threshold, [n, positions, filters]: filters side by side make both products fast.
        above = torch.baddbmm(tensors["offsets"] + threshold, patches.mT, filters, beta=-1)
        below = torch.rsub(above, -2 * threshold).clamp_min_(0)
        return torch.stack([regions @ above.clamp_min_(0), regions @ below], dim=1).mT.flatten(1)

    @cached_property
    def _tensors(self) -> dict[str, Any]:
        device = require_device("auto")
        return {
            name: torch.from_numpy(np.array(array)).to(device)
            for name, array in self.arrays.items()
        }

    @cached_property
    def _regions(self) -> torch.Tensor:
        """The weight of each position of a patch in the mean of each region, `[grid * grid, positions]`."""
        _, height, width = self.picture_shape
        size = self.arrays["filters"].shape[-1]
        stride = int(self.settings["stride"])
        grid = int(self.settings["grid"])
        overlap = bool(self.settings["overlap"])
        rows, columns = (
            region_weights(
                num_positions=(side - size) // stride + 1, num_regions=grid, overlap=overlap
            )
            for side in (height, width)
        )
        weights = np.kron(rows, columns).T.astype(np.float32)
        return torch.from_numpy(weights).to(require_device("auto"))


def region_weights(num_positions: int, num_regions: int, *, overlap: bool) -> FloatArray:
    """Returns the weight of each position along one side of an image in the mean of each region.

    The shape is `[num_positions, num_regions]`.

    Without overlap, each position belongs to one region, and all positions of a region have the same weight. With
    overlap, weights decrease linearly from the middle of a region to 0 at the middles of its neighbors. Each column
    sums to 1, or to 0 for a region without positions.

    Args:
        num_positions: the number of positions along the side.
        num_regions: the number of regions along the side.
        overlap: whether regions overlap.
    """
    if overlap:
        middles = (np.arange(num_regions) + 0.5) * num_positions / num_regions - 0.5
        weights = np.maximum(
            1 - np.abs(np.arange(num_positions)[:, None] - middles) * num_regions / num_positions, 0
        )
    else:
        weights = (
            np.arange(num_positions)[:, None] * num_regions // num_positions
            == np.arange(num_regions)
        ).astype(np.float64)
    total = weights.sum(axis=0)
    return np.asarray(weights / np.where(total > 0, total, 1))


@dataclass(frozen=True)
class Patches(Features):
    """A recipe of features by filters of small patches, which are learned without labels from the public pool.

    Patches are contrast-normalized and whitened. Spherical k-means finds the filters. The responses of a filter all
    over an image are rectified in both directions and averaged over a grid of regions. The logarithms of these means
    are standardized and projected on their principal directions in the public pool.
    """

    # features an image, at most; fewer where the public pool has fewer directions
    dimension: int = 1024
    num_filters: int = 512  # filters
    patch_size: int = 6  # height and width of a patch, in pixels
    # pixels from one patch to the next; None for 1 up to images of 32 pixels, 2 of 64, and so on.
    stride: int | None = None
    grid: int = 3  # regions a side
    # whether a region fades out towards the middles of its neighbors, in place of ending where they begin.
    overlap: bool = True
    compression: float = 5.0  # a mean m becomes log(1 + compression m); 0 leaves it as it is
    threshold: float = 0.5  # is subtracted from answers before they are rectified
    num_patches: int = 200_000  # patches that filters are learned from
    most_pictures: int = 10_000  # public images that all of this is learned from, the first ones
    seed: int = 0  # of the fit; part of the features, not of the noise
    cache: str | None = field(default=None, metadata={"private": True})

    def __post_init__(self) -> None:
        for name in (
            "dimension",
            "num_filters",
            "patch_size",
            "grid",
            "num_patches",
            "most_pictures",
        ):
            require_count(f"features.{name}", getattr(self, name))
        require_count("features.stride", 1 if self.stride is None else self.stride)
        require_count("features.seed", self.seed, minimum=0)
        require_kind("features.overlap", self.overlap, bool, "true or false")
        require_non_negative("features.compression", self.compression)
        require_non_negative("features.threshold", self.threshold)

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Raises `InvalidValue` if images are smaller than a patch."""
        side = min(picture_shape[1:])
        rule = f"at most {side}, the pictures' smaller side"
        require(self.patch_size <= side, "features.patch_size", self.patch_size, rule)

    def fit(self, pictures: PublicPictures, stage: StageOpener) -> PatchExtractor:
        """Returns the extractor whose filters and directions are learned from the public images."""
        require_kind("pictures", pictures, PublicPictures, "pate.features.PublicPictures")
        with one_thread():  # the same last bits on any number of cores
            with stage("learning filters from public pictures", _NUM_STEPS) as advance:
                filters, offsets = learn_filters(
                    pictures,
                    patch_size=self.patch_size,
                    num_filters=self.num_filters,
                    num_patches=self.num_patches,
                    seed=self.seed,
                )
                advance(_NUM_STEPS)
            settings = {
                "picture_shape": list(pictures.shape),
                "stride": self.stride or max(1, min(pictures.shape[1:]) // _SIDE),
                **{
                    name: getattr(self, name)
                    for name in ("grid", "overlap", "compression", "threshold")
                },
            }
            arrays = {"filters": filters, "offsets": np.asarray(offsets, np.float32)}
            extractor = PatchExtractor(arrays, settings, pictures.origin)
            return extractor.with_projection(
                pictures, dimension=self.dimension, seed=self.seed, stage=stage
            )
