"""Features from a pretrained network by name: its weights come from a package or from a file of the user's."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pate.data.dataset import Stage
from pate.features.features import Features
from pate.features.projection import Projection, stacked
from pate.features.public_pictures import PublicPictures
from pate.validation import InvalidValue, require_count, require_kind, require_text

if TYPE_CHECKING:  # torch is loaded when it is needed
    from pate.features.backbone_extractor import BackboneExtractor

_LEAST_SIDE = 64


@dataclass(frozen=True)
class Backbone(Features):
    """What a network measures before its last layer, standardized and projected in the public pool.

    **Weights must come from public data.** A backbone trained on private records, or on data that overlaps them, leaks
    what no epsilon here covers.

    Attributes:
        model: `efficientnet_lite0`, whose ImageNet weights come with the extra `backbone`; or a model of torchvision,
            or of timm where that is installed.
        weights: file of its weights (`.safetensors`, or a state dictionary of torch's); None for those of a package.
        image_size: pictures are resized to this height and width; None for their own, 64 at least.
        dimension: features a picture, at most.
        most_pictures: public pictures that the projection is fitted on, the first ones.
        seed: of the projection.
        cache: the folder to keep features in, as private as the pictures; None for `pate_cache` beside the run's.

    Raises:
        InvalidValue: a setting out of range; no such network or file. Weights are read before anything is fitted.
    """

    model: str = field(default="efficientnet_lite0", metadata={"public": True})
    weights: str | None = None
    image_size: int | None = None
    dimension: int = 512
    most_pictures: int = 10_000
    seed: int = 0
    cache: str | None = field(default=None, metadata={"private": True})

    def __post_init__(self) -> None:
        from pate.features.backbone_nets import net_of, weights_path

        require_text("features.model", self.model)
        for name in ("dimension", "most_pictures"):
            require_count(f"features.{name}", getattr(self, name))
        if self.image_size is not None:
            require_count("features.image_size", self.image_size)
        require_count("features.seed", self.seed, minimum=0)
        net_of(self.model)
        weights_path(self.model, self.weights)

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """See `Features.check`: reads the weights, and has the network look at one blank picture."""
        extractor = self._network(picture_shape, {})
        try:
            extractor.measured(np.zeros((1, *picture_shape), np.float32))
        except (RuntimeError, ValueError, AssertionError) as error:
            size = extractor.settings["image_size"]
            rule = f"a size that {self.model} takes ({str(error).splitlines()[0][:80]})"
            raise InvalidValue(f"features.image_size={size}: expected {rule}") from error

    def fit(self, pictures: PublicPictures, stage: Stage) -> BackboneExtractor:
        """See `Features.fit`; the projection alone is fitted."""
        from pate.features.backbone_extractor import BackboneExtractor
        from pate.networks.device import one_thread

        require_kind("pictures", pictures, PublicPictures, "pate.features.PublicPictures")
        network = self._network(
            pictures.shape,
            {"fitted_on": "the public pool", "num_pictures": len(pictures), "pictures_sha256": pictures.digest()},
        )
        with one_thread(), stage("projecting public pictures", len(pictures)) as advance:
            measured = stacked(map(network.measured, pictures.batches(network.batch_size, advance)), len(pictures))
            projection = Projection.fit(measured, self.dimension, seed=self.seed)
        return BackboneExtractor(dict(network.arrays) | projection.arrays, network.settings, network.origin)

    def identity(self, pictures: PublicPictures) -> str:
        """See `Features.identity`."""
        from pate.features.backbone_nets import weights_digest, weights_path

        weights = weights_digest(weights_path(self.model, self.weights))
        return hashlib.sha256(f"{super().identity(pictures)}{weights}".encode()).hexdigest()

    def _network(self, picture_shape: tuple[int, int, int], origin: dict[str, str | int]) -> BackboneExtractor:
        """The network with its weights, and no projection yet."""
        from pate.features.backbone_extractor import PREFIX, BackboneExtractor
        from pate.features.backbone_nets import read_net, weights_digest, weights_path

        path = weights_path(self.model, self.weights)
        arrays = {f"{PREFIX}{name}": array for name, array in read_net(self.model, path).items()}
        size = self.image_size or max(_LEAST_SIDE, *picture_shape[1:])
        settings = {"picture_shape": list(picture_shape), "model": self.model, "image_size": size}
        return BackboneExtractor(
            arrays, settings, origin | {"model": self.model, "weights_sha256": weights_digest(path)}
        )
