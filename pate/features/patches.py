"""Features by filters of small patches, which are learned from the public pool without labels.

Patches of the public images are contrast-normalized and whitened. Spherical k-means finds unit vectors such that each
whitened patch, or its negative, is close to one of them. A filter is the product of such a vector and the matrix that
whitens. The responses of all filters to all patches of an image are rectified in both directions, averaged over
regions, compressed by a logarithm and projected.

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

CONTRAST = np.float32((10 / 255) ** 2)
"""The number that is added to the variance of a patch before the patch is divided by the root, to keep noise small."""

# The number of steps of the stage in which filters are learned.
_NUM_STEPS = 1
# The largest variance of a patch that counts as constant.
_CONSTANT_VARIANCE = 1e-4
# The number that is added to the variances by which patches are whitened.
_RIDGE = 0.05
# The number of iterations of k-means.
_NUM_ITERATIONS = 12
# The number of patches in one product of matrices.
_PATCHES_PER_PRODUCT = 20_000
# The number of images that are read at once.
_IMAGES_AT_ONCE = 256
# Unless a setting names the stride, it is an image's smaller side divided by this number, rounded down, at least 1.
_SIDE_PER_STRIDE = 32


def learn_filters(
    pictures: PublicPictures, *, patch_size: int, num_filters: int, num_patches: int, seed: int
) -> tuple[Float32Array, Float32Array]:
    """Learns filters and their offsets from patches of public images.

    The response of a filter to a patch p with variance v is `<filter, p> / sqrt(v + CONTRAST) - offset`.

    Args:
        pictures: the public images.
        patch_size: height and width of a patch, in pixels.
        num_filters: the number of filters.
        num_patches: the least number of random patches that are drawn. Constant ones are not used.
        seed: the seed of the random choices.

    Returns:
        The filters `[num_filters, channels, patch_size, patch_size]` of mean 0, and the offsets `[num_filters]`.

    Raises:
        InvalidValue: fewer than two of the patches vary.
    """
    rng = np.random.default_rng(seed)
    patches = _sample_patches(
        public_pictures=pictures, patch_size=patch_size, num_patches=num_patches, rng=rng
    )
    patches = patches - patches.mean(axis=1, keepdims=True)
    contrasts = np.sqrt(patches.var(axis=1, keepdims=True) + CONTRAST)
    patches = np.asarray(patches / contrasts, np.float32)
    patch_center = patches.mean(axis=0)
    patches -= patch_center
    patch_covariance = (patches.T @ patches / len(patches)).astype(np.float64)
    variances, eigenvectors = np.linalg.eigh(patch_covariance)
    whitening_matrix = (
        (eigenvectors / np.sqrt(variances.clip(0) + _RIDGE)) @ eigenvectors.T
    ).astype(np.float32)
    filter_directions = spherical_k_means(
        vectors=patches @ whitening_matrix, num_clusters=num_filters, rng=rng
    )
    filters = filter_directions @ whitening_matrix
    offsets = filters @ patch_center
    # Patches have mean 0 after normalization, so the responses stay the same.
    filters -= filters.mean(axis=1, keepdims=True)
    num_channels = pictures.picture_shape[0]
    filters_shape = (len(filters), num_channels, patch_size, patch_size)
    return filters.reshape(filters_shape), offsets


def spherical_k_means(
    vectors: Float32Array, num_clusters: int, rng: np.random.Generator
) -> Float32Array:
    """Returns unit vectors `[num_clusters, d]` such that each row of `vectors`, or its negative, is close to one.

    Args:
        vectors: the vectors to cluster, `[num_rows, d]`.
        num_clusters: the number of clusters.
        rng: draws the initial vectors.
    """
    initial_vectors = rng.standard_normal((num_clusters, vectors.shape[1])).astype(np.float32)
    directions = _scaled_to_length_1(initial_vectors)
    for _ in range(_NUM_ITERATIONS):
        # Each sum begins with the direction itself, so a direction without a nearest row stays unchanged.
        cluster_sums = directions.copy()
        for first_row in range(0, len(vectors), _PATCHES_PER_PRODUCT):
            vector_block = vectors[first_row : first_row + _PATCHES_PER_PRODUCT]
            responses = vector_block @ directions.T
            nearest_cluster = np.abs(responses).argmax(axis=1)
            block_rows = np.arange(len(vector_block))
            # Each row is added to the sum of its nearest direction, times its response to this direction.
            cluster_weights = sparse.csr_matrix(
                (responses[block_rows, nearest_cluster], (nearest_cluster, block_rows)),
                shape=(num_clusters, len(vector_block)),
            )
            cluster_sums += cluster_weights @ vector_block
        directions = _scaled_to_length_1(cluster_sums)
    return directions


def _sample_patches(
    public_pictures: PublicPictures, patch_size: int, num_patches: int, rng: np.random.Generator
) -> Float32Array:
    """Returns random patches, without constant ones, `[n, channels * patch_size * patch_size]`.

    Args:
        public_pictures: the public images; each contributes the same number of patches.
        patch_size: height and width of a patch, in pixels.
        num_patches: the least number of patches that are drawn, constant ones included.
        rng: draws the positions.

    Raises:
        InvalidValue: fewer than two patches are not constant.
    """
    num_per_image = math.ceil(num_patches / len(public_pictures))
    _, height, width = public_pictures.picture_shape
    patches_of_blocks = []
    for first_image in range(0, len(public_pictures), _IMAGES_AT_ONCE):
        images = public_pictures.batch(first_index=first_image, batch_size=_IMAGES_AT_ONCE)
        windows = np.lib.stride_tricks.sliding_window_view(
            images, window_shape=(patch_size, patch_size), axis=(2, 3)
        )
        image_of_patch = np.repeat(np.arange(len(images)), num_per_image)
        tops = rng.integers(height - patch_size + 1, size=len(image_of_patch))
        lefts = rng.integers(width - patch_size + 1, size=len(image_of_patch))
        patches = windows[image_of_patch, :, tops, lefts].reshape(len(image_of_patch), -1)
        patches_of_blocks.append(patches[patches.var(axis=1) > _CONSTANT_VARIANCE])
    all_patches = np.concatenate(patches_of_blocks).astype(np.float32)
    if len(all_patches) < 2:
        rule = "public pictures that show something, features are fitted on them"
        raise InvalidValue("data", rule=rule)
    return all_patches


def _scaled_to_length_1(directions: Float32Array) -> Float32Array:
    """Returns each row of `directions`, `[num_rows, d]`, divided by its length; a row of length 0 stays 0."""
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions / np.where(lengths > 0, lengths, 1), np.float32)


class PatchExtractor(Extractor):
    """An extractor of features by filters of small patches.

    Rule: let a be the response of a filter to a contrast-normalized patch, and t a threshold. Two rectified responses,
    max(a - t, 0) and max(-a - t, 0), are averaged over a grid of regions with the weights of `region_weights`. A mean m
    becomes log(1 + compression m), or stays m for a compression of 0, and the results are projected. The arrays are the
    filters and offsets of `learn_filters`, and the arrays of `with_projection`.
    """

    kind: ClassVar[str] = "patches"

    @property
    def batch_size(self) -> int:
        """The number of images that are processed together: 512 on a GPU, otherwise 64."""
        return 512 if require_device("auto").type == "cuda" else 64

    def _numbers_at_once(self) -> int:
        """Returns about how many numbers patches, responses and region weights take in memory, for one image.

        Raises `ValueError` if the shapes of arrays contradict the settings.
        """
        self._require_shapes()
        channels, height, width = self.picture_shape
        stride = int(self.settings["stride"])
        grid = int(self.settings["grid"])
        filters_shape: tuple[int, ...] = self.arrays["filters"].shape
        num_filters = filters_shape[0]
        patch_numbers = math.prod(filters_shape[1:])
        patch_size = filters_shape[-1]
        rows, columns = ((side - patch_size) // stride + 1 for side in (height, width))
        picture_numbers = channels * height * width
        position_numbers = patch_numbers + 3 * num_filters + grid**2
        return picture_numbers + rows * columns * position_numbers + (rows + columns) * grid

    def _require_shapes(self) -> None:
        """Raises `ValueError` if the shapes of arrays contradict each other or the settings."""
        num_channels = self.picture_shape[0]
        filters_shape: tuple[int, ...] = self.arrays["filters"].shape
        num_filters = filters_shape[0]
        patch_size = filters_shape[-1]
        num_means = 2 * num_filters * int(self.settings["grid"]) ** 2
        expected_shapes = {
            "filters": (num_filters, num_channels, patch_size, patch_size),
            "offsets": (num_filters,),
            "center": (num_means,),
            "projection": (num_means, self.num_features),
        }
        if any(self.arrays[name].shape != shape for name, shape in expected_shapes.items()):
            raise ValueError("arrays of other shapes")

    def measure(self, images: Float32Array) -> Float32Array:
        """Returns the means of rectified responses by region, after the logarithm of the class's rule.

        The shape is `[num_images, 2 * filters * grid * grid]`.

        Args:
            images: `[num_images, channels, height, width]` in [0, 1].
        """
        device = require_device("auto")
        compression_factor = float(self.settings["compression"])
        with torch.inference_mode():
            image_batch = torch.from_numpy(np.ascontiguousarray(images)).to(device)
            # A CPU computes one image at a time, because the responses of one image fit into its cache.
            images_per_step = max(1, len(image_batch)) if device.type == "cuda" else 1
            region_means = torch.cat(
                [
                    self._means(images_of_step)
                    for images_of_step in torch.split(image_batch, images_per_step)
                ]
            )
            if compression_factor:
                region_means = region_means.mul_(compression_factor).log1p_()
            pooled: Float32Array = region_means.cpu().numpy()
        return pooled

    def project(self, measurements: Float32Array) -> Float32Array:
        """Returns the features, `[num_images, num_features]`: the measurements, centered and projected.

        Args:
            measurements: the results of `measure`, `[num_images, d]`.
        """
        tensors = self._tensors
        with torch.inference_mode():
            centered = torch.from_numpy(measurements).to(tensors["center"].device)
            projected: Float32Array = (
                ((centered - tensors["center"]) @ tensors["projection"]).cpu().numpy()
            )
        return projected

    def _means(self, image_batch: torch.Tensor) -> torch.Tensor:
        """Returns the means by region of max(a - t, 0) and max(-a - t, 0), for responses a and the threshold t.

        The shape is `[num_images, 2 * filters * grid * grid]`.
        """
        tensors = self._tensors
        region_matrix = self._regions
        stride = int(self.settings["stride"])
        response_threshold = float(self.settings["threshold"])
        filters = tensors["filters"].flatten(1).T.expand(len(image_batch), -1, -1)
        patch_size = int(tensors["filters"].shape[-1])
        # The variance of a patch is its mean square less the square of its mean; the rounding error is far below
        # CONTRAST.
        means_over_channels = image_batch.mean(dim=1)
        mean_squares_over_channels = image_batch.square().mean(dim=1)
        pixel_moments = torch.stack([means_over_channels, mean_squares_over_channels], dim=1)
        # [n, 1, positions]
        patch_means, patch_mean_squares = (
            functional.avg_pool2d(pixel_moments, patch_size, stride).flatten(2).chunk(2, dim=1)
        )
        # [n, channels * size * size, positions]
        patches = functional.unfold(image_batch, patch_size, stride=stride)
        # Patches are divided, but not centered: filters have mean 0.
        patches.mul_(
            patch_mean_squares.addcmul_(patch_means, patch_means, value=-1)
            .clamp_min_(0)
            .add_(float(CONTRAST))
            .rsqrt_()
        )
        # a - t, [n, positions, filters]: filters side by side make both products fast.
        responses_less_threshold = torch.baddbmm(
            tensors["offsets"] + response_threshold, patches.mT, filters, beta=-1
        )
        # -a - t = -2 t - (a - t)
        opposite_less_threshold = torch.rsub(responses_less_threshold, -2 * response_threshold)
        responses_above = responses_less_threshold.clamp_min_(0)
        responses_below = opposite_less_threshold.clamp_min_(0)
        return torch.stack(
            [region_matrix @ responses_above, region_matrix @ responses_below], dim=1
        ).mT.flatten(1)

    @cached_property
    def _tensors(self) -> dict[str, Any]:
        """The extractor's arrays as tensors by name, on a GPU if torch can use one."""
        device = require_device("auto")
        return {
            name: torch.from_numpy(np.array(array)).to(device)
            for name, array in self.arrays.items()
        }

    @cached_property
    def _regions(self) -> torch.Tensor:
        """The weight of each position of a patch in the mean of each region, `[grid * grid, positions]`.

        Positions go through the rows of the image, from left to right.
        """
        _, height, width = self.picture_shape
        patch_size = self.arrays["filters"].shape[-1]
        stride = int(self.settings["stride"])
        grid = int(self.settings["grid"])
        regions_overlap = bool(self.settings["overlap"])
        weights_of_rows, weights_of_columns = (
            region_weights(
                num_positions=(side - patch_size) // stride + 1,
                num_regions=grid,
                regions_overlap=regions_overlap,
            )
            for side in (height, width)
        )
        weights_by_position_and_region = np.kron(weights_of_rows, weights_of_columns)
        region_matrix = weights_by_position_and_region.T.astype(np.float32)
        return torch.from_numpy(region_matrix).to(require_device("auto"))


def region_weights(num_positions: int, num_regions: int, *, regions_overlap: bool) -> FloatArray:
    """Returns the weight of each position along one side of an image in the mean of each region.

    The shape is `[num_positions, num_regions]`.

    Without overlap, each position belongs to one region, and all positions of a region have the same weight. With
    overlap, weights decrease linearly from the middle of a region to 0 at the middles of its neighbors. Each column
    sums to 1, or to 0 for a region without positions.

    Args:
        num_positions: the number of positions along the side.
        num_regions: the number of regions along the side.
        regions_overlap: whether regions overlap.
    """
    position_indices = np.arange(num_positions)[:, None]
    region_indices = np.arange(num_regions)
    if regions_overlap:
        middles = (region_indices + 0.5) * num_positions / num_regions - 0.5
        distances_to_middles = np.abs(position_indices - middles) * num_regions / num_positions
        position_weights = np.maximum(1 - distances_to_middles, 0)
    else:
        region_of_position = position_indices * num_regions // num_positions
        position_weights = (region_of_position == region_indices).astype(np.float64)
    sums_per_region = position_weights.sum(axis=0)
    return np.asarray(position_weights / np.where(sums_per_region > 0, sums_per_region, 1))


@dataclass(frozen=True)
class Patches(Features):
    """A recipe of features by filters of small patches, which are learned without labels from the public pool.

    Patches are contrast-normalized and whitened. Spherical k-means finds the filters. The responses of a filter all
    over an image are rectified in both directions and averaged over a grid of regions. The logarithms of these means
    are standardized and projected on their principal directions in the public pool.

    Attributes:
        dimension: the largest number of features of an image; fewer if the public pool varies in fewer directions.
        num_filters: the number of filters.
        patch_size: height and width of a patch, in pixels.
        stride: the number of pixels from one patch to the next; None for 1 if the smaller side of an image is below 64
            pixels, 2 if it is below 96, 3 if it is below 128, and so on.
        grid: the number of regions along each side of an image.
        overlap: true lets regions overlap, so that each fades out up to the middles of its neighbors; false lets each
            end where its neighbors begin.
        compression: a mean m becomes log(1 + compression m); 0 leaves it unchanged.
        threshold: the number that is subtracted from responses before they are rectified.
        num_patches: the least number of patches that are drawn to learn filters. Constant ones are not used.
        most_pictures: the largest number of public images from which filters and directions are learned, the first
            ones.
        seed: the seed of the fit; part of the features, not of the noise.
        cache: the folder of extractors and features; see `Features`.
    """

    dimension: int = 1024
    num_filters: int = 512
    patch_size: int = 6
    stride: int | None = None
    grid: int = 3
    overlap: bool = True
    compression: float = 5.0
    threshold: float = 0.5
    num_patches: int = 200_000
    most_pictures: int = 10_000
    seed: int = 0
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
        if self.stride is not None:
            require_count("features.stride", self.stride)
        require_count("features.seed", self.seed, minimum=0)
        require_kind("features.overlap", value=self.overlap, kind=bool, rule="true or false")
        require_non_negative("features.compression", self.compression)
        require_non_negative("features.threshold", self.threshold)

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Raises `InvalidValue` if images are smaller than a patch."""
        smaller_side = min(picture_shape[1:])
        rule = f"at most {smaller_side}, the pictures' smaller side"
        require(self.patch_size <= smaller_side, "features.patch_size", self.patch_size, rule)

    def fit(self, pictures: PublicPictures, stage: StageOpener) -> PatchExtractor:
        """Returns the extractor, whose filters and directions are learned from public images.

        Args:
            pictures: the public images.
            stage: opens the stages that report progress.
        """
        rule = "pate.features.PublicPictures"
        require_kind("pictures", value=pictures, kind=PublicPictures, rule=rule)
        with one_thread():  # the last bits do not depend on the number of cores
            with stage("learning filters from public pictures", _NUM_STEPS) as advance:
                filters, offsets = learn_filters(
                    pictures,
                    patch_size=self.patch_size,
                    num_filters=self.num_filters,
                    num_patches=self.num_patches,
                    seed=self.seed,
                )
                advance(_NUM_STEPS)
            smaller_side = min(pictures.picture_shape[1:])
            settings = {
                "picture_shape": list(pictures.picture_shape),  # channels, height, width
                "stride": self.stride or max(1, smaller_side // _SIDE_PER_STRIDE),
                "grid": self.grid,
                "overlap": self.overlap,  # of regions
                "compression": self.compression,
                "threshold": self.threshold,
            }
            extractor = PatchExtractor(
                arrays={"filters": filters, "offsets": np.asarray(offsets, np.float32)},
                settings=settings,
                origin=pictures.origin,
            )
            return extractor.with_projection(
                pictures, dimension=self.dimension, seed=self.seed, open_stage=stage
            )
