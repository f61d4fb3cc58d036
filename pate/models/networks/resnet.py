"""ResNet-50 as torchvision has it, with a head for our labels; torchvision also where its wheel is another torch's."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from pickle import PickleError
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch.nn import functional

from pate.extras import require_extra
from pate.models.networks.network import Network, Tensors, blocks_of, require_settings
from pate.validation import InvalidValue, require

_SCHEMA = "{}nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_declared: list[torch.library.Library] = []  # a library's declarations end with it


def torchvision_models(setting: str = "teacher=resnet50") -> Any:
    """Imports `torchvision.models`; raises `InvalidValue`, naming the setting that needs it, where it is missing."""
    require_extra(setting, "vision")
    spec = importlib.util.find_spec("torchvision")
    if not _declared and spec is not None and spec.origin and torch.version.cuda is None:
        # A CUDA build beside a torch without CUDA lacks these. Its version is read, as importing it may already fail.
        path = Path(spec.origin).with_name("version.py")
        if path.is_file() and re.search(r"__version__\s*=\s*['\"][^'\"]*\+cu", path.read_text()):
            library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's
            for kind in ("", "q"):
                library.define(_SCHEMA.format(kind))  # type: ignore[no-untyped-call]  # torch's
            _declared.append(library)
    from torchvision import models

    return models


FEATURES = 2048  # channels that the head sees
# mean and spread that published weights expect
_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_HEAD = ("fc.weight", "fc.bias")
_TO_ONE_PIXEL = 32  # pixels a side of which the strides leave one
_SAFE_TORCH = 2, 10  # whose reader of plain weights runs no code; see CVE-2026-24747
_BLOCK = 64  # images a forward pass of the frozen backbone


@dataclass(frozen=True)
class ResNet50(Network):
    """The residual network of 50 layers (He et al., 2016), each network with batch statistics of its own."""

    num_labels: int  # L; 0 leaves the head out, so that `logits` are the 2,048 features
    # a file of backbone weights to begin with (`read_weights`), or None for random ones
    weights: str | None = None
    # images are resized to this height and width first; None leaves them as they are
    image_size: int | None = None

    def __post_init__(self) -> None:
        torchvision_models()
        require_settings(self)
        if self.weights is not None:
            _require_weights(self.weights)

    @cached_property
    def _module(self) -> torch.nn.Module:
        with torch.device("meta"):
            module: torch.nn.Module = torchvision_models().resnet50(weights=None)
        if self.num_labels == 0:
            module.fc = torch.nn.Identity()
        return module

    def initial(self, rng: np.random.Generator) -> Tensors:
        """Returns the weights that training begins with."""
        seed = int(rng.integers(2**32))
        if self.weights is None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                tensors: Tensors = dict(torchvision_models().resnet50(weights=None).state_dict())
        else:
            tensors = read_weights(self.weights)
        tensors = {name: tensor for name, tensor in tensors.items() if name not in _HEAD}
        if self.num_labels:
            tensors["fc.weight"] = torch.zeros(self.num_labels, FEATURES)
            tensors["fc.bias"] = torch.zeros(self.num_labels)
        return tensors

    def is_buffer(self, name: str) -> bool:
        """True where an array is a running mean or variance, which no gradient changes."""
        return name.endswith(("running_mean", "running_var", "num_batches_tracked"))

    def logits(self, tensors: Tensors, images: torch.Tensor, *, training: bool) -> torch.Tensor:
        """Returns logits `[n, L]` of pictures."""
        images = self._standardized(images)
        lone = training and len(images) == 1 and max(images.shape[2:]) <= _TO_ONE_PIXEL
        if lone:  # a single value has no variance: the image is shown beside its mirror image
            images = torch.cat([images, images.flip(3)])
        self._module.train(training)
        logits: torch.Tensor = torch.func.functional_call(self._module, tensors, (images,))
        return logits[:1] if lone else logits

    def traceable(self, tensors: Tensors) -> Callable[[torch.Tensor], torch.Tensor]:
        """With parameters of its own, as tracing lets none be passed in."""
        module: torch.nn.Module = torchvision_models().resnet50(weights=None)
        module.fc = torch.nn.Linear(FEATURES, self.num_labels)
        module.load_state_dict(tensors)
        module.eval().requires_grad_(False)
        return lambda images: module(self._standardized(images))

    def _standardized(self, images: torch.Tensor) -> torch.Tensor:
        if self.image_size is not None:
            size = (self.image_size, self.image_size)
            images = functional.interpolate(images, size=size, mode="bilinear", antialias=True)
        mean, spread = (
            torch.tensor(values, device=images.device)[:, None, None] for values in _IMAGENET
        )
        return (images - (2 * mean - 1)) / (2 * spread)  # one channel becomes three


def read_weights(path: str | Path) -> Tensors:
    """Reads a backbone: a `.safetensors` file, or what `torch.save` wrote of a state dictionary.

    No code in the file is run. The head, if there is one, is left out. The file must come from PUBLIC data: what it
    was trained on is covered by no epsilon. Raises for another file, or one of torch's where torch may run code of it.
    """
    plain = str(path).endswith(".safetensors")
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    rule = f"a .safetensors file, or torch >= {'.'.join(map(str, _SAFE_TORCH))}: an older one can run code from others"
    require(plain or version >= _SAFE_TORCH, "weights", path, rule)
    try:
        found: Tensors = (
            load_file(path) if plain else torch.load(path, map_location="cpu", weights_only=True)
        )
        tensors = {
            name.removeprefix("module."): tensor.float()
            for name, tensor in found.items()
            if "num_b" not in name
        }
    except Exception as error:  # also what a damaged pickle raises
        # that is a page of advice
        reason = "" if isinstance(error, PickleError) else f": {error}".partition("\n")[0]
        rule = f"a file of ResNet-50 weights ({type(error).__name__}{reason})"
        raise InvalidValue("weights", path, rule=rule) from error
    structure = ResNet50(num_labels=0)._module.state_dict()
    shapes = {name: tensor.shape for name, tensor in structure.items() if "num_batches" not in name}
    wrong = [
        name
        for name, shape in shapes.items()
        if name not in tensors or tensors[name].shape != shape
    ]
    if wrong:
        raise InvalidValue(
            "weights", path, rule=f"a file of ResNet-50 weights, found no good {wrong[0]} in it"
        )
    counts = {name: torch.tensor(0) for name in structure if "num_batches" in name}
    return {name: tensors[name] for name in shapes} | counts


@cache
def _require_weights(path: str) -> None:
    """Reads the file once, so that a wrong one is told before anything is trained or paid for with it."""
    read_weights(path)


class FrozenBackbone:
    """Features of a backbone that is never trained; the last are remembered, as all teachers are asked the same."""

    _remembered = 2

    def __init__(self, weights: str, image_size: int | None, device: torch.device) -> None:
        self._network = ResNet50(0, weights, image_size)
        self._device = device
        self._tensors = {name: tensor.to(device) for name, tensor in read_weights(weights).items()}
        self._memory: dict[str, NDArray[np.float32]] = {}

    @torch.no_grad()
    def features(self, images: NDArray[Any], *, remember: bool = False) -> NDArray[np.float32]:
        """Of images `[n, channels, height, width]`, float32 `[n, 2048]`."""
        key = hashlib.sha256(np.ascontiguousarray(images).data).hexdigest() if remember else ""
        if key in self._memory:
            return self._memory[key]
        vectors = np.empty((len(images), FEATURES), np.float32)
        for rows, block in blocks_of(images, _BLOCK, self._device):
            vectors[rows] = self._network.logits(self._tensors, block, training=False).cpu().numpy()
        if remember:
            while len(self._memory) >= self._remembered:
                del self._memory[next(iter(self._memory))]
            self._memory[key] = vectors
        return vectors
