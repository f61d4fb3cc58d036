"""Features that the public pool's own patches suggest: no label, no download, minutes on two cores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pate.data.dataset import Stage
from pate.features.features import Features
from pate.features.patch_filters import learn_filters
from pate.features.projection import Projection, stacked
from pate.features.public_pictures import PublicPictures
from pate.validation import require, require_count, require_kind, require_non_negative

if TYPE_CHECKING:  # torch is loaded when it is needed
    from pate.features.patch_extractor import PatchExtractor

_SIDE = 32


@dataclass(frozen=True)
class Patches(Features):
    """Filters of small patches, learned without labels from the public pool.

    Patches are contrast-normalized and whitened; spherical k-means finds the filters. A filter's answers all over a
    picture are rectified both ways and averaged over a grid of regions; the logarithms of these means are standardized
    and projected on their principal directions in the public pool.

    Attributes:
        dimension: features a picture, at most; fewer where the public pool has fewer directions.
        num_filters: filters.
        patch_size: height and width of a patch, in pixels.
        stride: pixels from one patch to the next; None for 1 up to pictures of 32 pixels, 2 of 64, and so on.
        grid: regions a side.
        overlap: whether a region fades out towards the middles of its neighbors, in place of ending where they begin.
        compression: a mean m becomes log(1 + compression m); 0 leaves it as it is.
        threshold: what an answer has to exceed.
        num_patches: patches that filters are learned from.
        most_pictures: public pictures that all of this is learned from, the first ones.
        seed: of the fit; part of the features, not of the noise.
        cache: the folder to keep features in, as private as the pictures; None for `pate_cache` beside the run's.

    Raises:
        InvalidValue: a setting out of range.
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
        for name in ("dimension", "num_filters", "patch_size", "grid", "num_patches", "most_pictures"):
            require_count(f"features.{name}", getattr(self, name))
        if self.stride is not None:
            require_count("features.stride", self.stride)
        require_count("features.seed", self.seed, minimum=0)
        require_kind("features.overlap", self.overlap, bool, "true or false")
        require_non_negative("features.compression", self.compression)
        require_non_negative("features.threshold", self.threshold)

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """See `Features.check`."""
        side = min(picture_shape[1:])
        rule = f"at most {side}, the pictures' smaller side"
        require(self.patch_size <= side, "features.patch_size", self.patch_size, rule)

    def fit(self, pictures: PublicPictures, stage: Stage) -> PatchExtractor:
        """See `Features.fit`."""
        from pate.features.patch_extractor import PatchExtractor
        from pate.networks.device import one_thread

        require_kind("pictures", pictures, PublicPictures, "pate.features.PublicPictures")
        with one_thread():  # the same last bits on any number of cores
            with stage("learning filters from public pictures", 1) as advance:
                filters, offsets = learn_filters(
                    pictures,
                    patch_size=self.patch_size,
                    num_filters=self.num_filters,
                    num_patches=self.num_patches,
                    seed=self.seed,
                )
                advance(1)
            settings = {
                "picture_shape": list(pictures.shape),
                "stride": self.stride or max(1, min(pictures.shape[1:]) // _SIDE),
                "grid": self.grid,
                "overlap": self.overlap,
                "compression": self.compression,
                "threshold": self.threshold,
            }
            origin = {
                "fitted_on": "the public pool",
                "num_pictures": len(pictures),
                "pictures_sha256": pictures.digest(),
            }
            arrays = {"filters": filters, "offsets": np.asarray(offsets, np.float32)}
            with stage("projecting public pictures", len(pictures)) as advance:
                unprojected = PatchExtractor(arrays, settings, origin)
                batches = pictures.batches(unprojected.batch_size, advance)
                measured = stacked(map(unprojected.pooled, batches), len(pictures))
                projection = Projection.fit(measured, self.dimension, seed=self.seed)
        return PatchExtractor(arrays | projection.arrays, settings, origin)
