"""Features from a pretrained network: the input of its last layer, projected on public directions."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch.nn import functional

from pate.array_types import Float32Array
from pate.device import require_device
from pate.extras import how_to_install
from pate.features.extractor import Extractor
from pate.features.features import Features
from pate.features.pretrained_network import Net, net_of, read_net, weights_path
from pate.features.public_pictures import PublicPictures
from pate.files.digests import file_digest
from pate.progress import StageOpener
from pate.threads import one_thread
from pate.validation import InvalidValue, require_count, require_kind, require_text

PREFIX = "net."
"""The beginning of the names of the network's own arrays."""

# The largest output of a layer is taken to have so many numbers for each number of the image.
_NUMBERS_PER_PIXEL = 16
# The side, in pixels, to which smaller images are resized.
_MIN_SIDE = 64


class BackboneExtractor(Extractor):
    """An extractor of features by a pretrained network.

    Rule: images are resized, gray images repeated in three channels, and standardized. The input of the network's
    last layer is the measurement, which is projected on public directions. The arrays of the network have names that
    begin with `net.`; the other arrays come from `with_projection`.
    """

    kind: ClassVar[str] = "backbone"

    def _numbers_at_once(self) -> int:
        """Returns about how many numbers one image and the largest output of a layer take in memory.

        Raises `ValueError` if the arrays have other shapes than those of the network.
        """
        self._require_shapes()
        resized_numbers = 3 * int(self.settings["image_size"]) ** 2
        return _NUMBERS_PER_PIXEL * (math.prod(self.picture_shape) + resized_numbers)

    def _require_shapes(self) -> None:
        """Raises `ValueError` if an array of weights has another shape than in the network, `KeyError` without one."""
        # On this device a network has shapes, but no numbers in memory.
        with torch.device("meta"):
            shapes_by_name = net_of(network_name=str(self.settings["model"])).shapes.items()
        if any(self.arrays[f"{PREFIX}{name}"].shape != shape for name, shape in shapes_by_name):
            raise ValueError("arrays of other shapes")

    def project(self, measurements: Float32Array) -> Float32Array:
        """Returns the features, `[num_images, num_features]`: the measurements, centered and projected.

        Args:
            measurements: the results of `measure`, `[num_images, d]`.
        """
        centered_measurements = measurements - self.arrays["center"]
        return np.asarray(centered_measurements @ self.arrays["projection"], np.float32)

    def measure(self, images: Float32Array) -> Float32Array:
        """Returns the input of the network's last layer for each image, float32 `[num_images, d]`.

        Args:
            images: `[num_images, channels, height, width]` in [0, 1]; they are resized and standardized.
        """
        side_length = int(self.settings["image_size"])
        mean = torch.tensor(self._net.mean, device=self._device)[:, None, None]
        std = torch.tensor(self._net.std, device=self._device)[:, None, None]
        with torch.inference_mode():
            image_batch = torch.from_numpy(np.ascontiguousarray(images)).to(self._device)
            if image_batch.shape[2:] != (side_length, side_length):
                image_batch = functional.interpolate(
                    image_batch, size=(side_length, side_length), mode="bilinear", antialias=True
                )
            # `mean` has three channels, so the one channel of a gray image becomes three equal ones by broadcasting.
            outputs = self._net.module((image_batch - mean) / std).flatten(1)
            vectors: Float32Array = outputs.cpu().numpy()
        return vectors

    @cached_property
    def _device(self) -> torch.device:
        """The device that computes: a GPU if torch can use one, otherwise the processor."""
        return require_device("auto")

    @cached_property
    def _net(self) -> Net:
        """The network with its weights, on the device that computes."""
        net = net_of(network_name=str(self.settings["model"]))
        weights_by_name = {
            name: torch.from_numpy(np.array(self.arrays[f"{PREFIX}{name}"])) for name in net.shapes
        }
        # `strict=False`: the network also has counters of training batches. `Net.shapes` leaves them out, as a network
        # in use does not read them. All its other arrays are in `weights_by_name`.
        net.module.load_state_dict(weights_by_name, strict=False)
        net.module.eval().requires_grad_(False).to(self._device)
        return net


@dataclass(frozen=True)
class Backbone(Features):
    """A recipe of features by a pretrained network: the input of its last layer, projected on public directions.

    **Weights must come from public data.** A network that was trained on private records, or on data that overlap them,
    leaks these records, and no epsilon here covers that. The weights are read before anything is fitted.

    Attributes:
        model: `efficientnet_lite0`, whose ImageNet weights come with the extra `backbone`; or the name of a model of
            torchvision, or of timm if that is installed.
        weights: the file of the weights (`.safetensors`, or a state dictionary of torch); None for the weights that an
            installed package has for `model`.
        image_size: the height and width to which images are resized; None for their larger side, but at least 64.
        dimension: the largest number of features of an image.
        most_pictures: the largest number of public images to which the projection is fitted, the first ones.
        seed: the seed of the projection.
        cache: the folder of extractors and features; see `Features`.
    """

    model: str = field(default="efficientnet_lite0", metadata={"public": True})
    weights: str | None = None
    image_size: int | None = None
    dimension: int = 512
    most_pictures: int = 10_000
    seed: int = 0
    cache: str | None = field(default=None, metadata={"private": True})

    def __post_init__(self) -> None:
        require_text("features.model", self.model)
        for name in ("dimension", "most_pictures"):
            require_count(f"features.{name}", getattr(self, name))
        if self.image_size is not None:
            require_count("features.image_size", self.image_size)
        require_count("features.seed", self.seed, minimum=0)
        # An unknown model, and a file that does not exist, are refused here; the results are not used.
        net_of(network_name=self.model)
        weights_path(network_name=self.model, chosen_file=self.weights)

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Reads the weights and applies the network to one blank image of the given shape.

        Raises:
            InvalidValue: the network cannot process images of this shape, or `read_net` refuses the weights.
        """
        extractor = self._unfitted_extractor(picture_shape, origin={})
        try:
            extractor.measure(np.zeros((1, *picture_shape), np.float32))
        except (RuntimeError, ValueError, AssertionError) as error:
            image_size = extractor.settings["image_size"]
            rule = f"a size that {self.model} takes ({str(error).splitlines()[0][:80]})"
            raise InvalidValue("features.image_size", image_size, rule=rule) from error

    def fit(self, pictures: PublicPictures, stage: StageOpener) -> BackboneExtractor:
        """Returns the extractor, whose directions are the principal ones of the network's vectors of public images.

        Args:
            pictures: the public images.
            stage: opens the stage that reports progress.
        """
        rule = "pate.features.PublicPictures"
        require_kind("pictures", value=pictures, kind=PublicPictures, rule=rule)
        extractor = self._unfitted_extractor(pictures.picture_shape, origin=pictures.origin)
        with one_thread():
            return extractor.with_projection(
                pictures, dimension=self.dimension, seed=self.seed, open_stage=stage
            )

    def identity(self, pictures: PublicPictures) -> str:
        """Returns a digest of all that the extractor depends on: settings, public images and weights."""
        return hashlib.sha256(f"{super().identity(pictures)}{self._digest()}".encode()).hexdigest()

    def _digest(self) -> str:
        """Returns the SHA-256 digest of the file of weights."""
        weights_file = weights_path(network_name=self.model, chosen_file=self.weights)
        return file_digest(
            weights_file, rule="a file of weights", remedy=how_to_install("backbone")
        )

    def _unfitted_extractor(
        self, picture_shape: tuple[int, int, int], origin: dict[str, str | int]
    ) -> BackboneExtractor:
        """Returns the extractor without a projection.

        Args:
            picture_shape: the shape `(channels, height, width)` of an image.
            origin: the description of the public images, to which the model and the digest of its weights are added.
        """
        weights_file = weights_path(network_name=self.model, chosen_file=self.weights)
        weights_by_name = read_net(network_name=self.model, weights_file=weights_file)
        arrays = {f"{PREFIX}{array_name}": array for array_name, array in weights_by_name.items()}
        image_size = self.image_size or max(_MIN_SIDE, *picture_shape[1:])
        settings = {
            "picture_shape": list(picture_shape),
            "model": self.model,
            "image_size": image_size,
        }
        return BackboneExtractor(
            arrays=arrays,
            settings=settings,
            origin=origin | {"model": self.model, "weights_sha256": self._digest()},
        )
