"""The network ResNet-50 of torchvision with a head for our labels, and files of its weights."""

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

from pate.array_types import Float32Array
from pate.errors import InvalidValue
from pate.extras import require_extra
from pate.models.hyperparameters import require_settings
from pate.models.networks.network import Network, Tensors, iterate_batches

FEATURES = 2048
"""The number of channels that the head sees."""
# The mean and the standard deviation of the channels on ImageNet, which published weights expect.
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)
_HEAD = ("fc.weight", "fc.bias")
# The end of the names of the counts of batches, which old files lack.
_BATCH_COUNT = "num_batches_tracked"
# The strides of the network multiply to 32, so an image of at most this side becomes one pixel.
_ONE_PIXEL_SIDE = 32
# The first version of torch whose reader of plain weights runs no code from the file; see CVE-2026-24747.
_SAFE_TORCH = (2, 10)
_BACKBONE_BATCH_SIZE = 64  # images of a forward pass of the frozen backbone
# The schema of an operator that a build of torchvision for CUDA expects, and that a torch without CUDA lacks.
_NMS_SCHEMA = "{prefix}nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
# The library that declared the operators: the declarations end when it is deleted.
_declared_libraries: list[torch.library.Library] = []


def torchvision_models(setting: str = "teacher=resnet50") -> Any:
    """Imports `torchvision.models`, even if torchvision was built for CUDA and torch was not.

    Args:
        setting: the setting that needs torchvision, for the error.

    Raises:
        MissingPackage: torchvision is not installed.
    """
    require_extra(setting, extra="vision")
    if not _declared_libraries and torch.version.cuda is None and _torchvision_is_for_cuda():
        torch_library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's
        torch_library.define(_NMS_SCHEMA.format(prefix=""))  # type: ignore[no-untyped-call]  # torch's
        torch_library.define(_NMS_SCHEMA.format(prefix="q"))  # type: ignore[no-untyped-call]  # torch's
        _declared_libraries.append(torch_library)
    from torchvision import models

    return models


def _torchvision_is_for_cuda() -> bool:
    """Returns True if torchvision was built for CUDA; reads its version file, as importing it may fail."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or not spec.origin:
        return False
    version_file = Path(spec.origin).with_name("version.py")
    cuda_version_pattern = r"__version__\s*=\s*['\"][^'\"]*\+cu"
    return (
        version_file.is_file()
        and re.search(cuda_version_pattern, version_file.read_text()) is not None
    )


@dataclass(frozen=True)
class ResNet50(Network):
    """The residual network with 50 layers (He et al., 2016), with batch normalization.

    Attributes:
        num_labels: the number of labels; 0 leaves the head out, so that `logits` are the 2,048 features.
        weights_file: a file of weights with which training begins (`read_weights`); None begins with random weights.
        image_size: the height and width to which images are resized; None leaves them.
    """

    num_labels: int
    weights_file: str | None = None
    image_size: int | None = None

    def __post_init__(self) -> None:
        torchvision_models()  # raises `MissingPackage` without torchvision
        require_settings(self)
        if self.weights_file is not None:
            _require_weights(self.weights_file)

    @cached_property
    def _module(self) -> torch.nn.Module:
        """The layers as a module of torch without weights; `logits` passes the weights to it in each call."""
        with torch.device("meta"):
            module: torch.nn.Module = torchvision_models().resnet50(weights=None)
        if self.num_labels == 0:
            module.fc = torch.nn.Identity()
        return module

    def initial(self, rng: np.random.Generator) -> Tensors:
        """Draws the weights with which training begins, or reads them from `weights_file`; the head is zero."""
        seed = int(rng.integers(2**32))
        if self.weights_file is None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                state_dict: Tensors = dict(torchvision_models().resnet50(weights=None).state_dict())
        else:
            state_dict = read_weights(self.weights_file)
        state_dict = {name: tensor for name, tensor in state_dict.items() if name not in _HEAD}
        if self.num_labels:
            state_dict["fc.weight"] = torch.zeros(self.num_labels, FEATURES)
            state_dict["fc.bias"] = torch.zeros(self.num_labels)
        return state_dict

    def is_buffer(self, name: str) -> bool:
        """Returns True if the tensor `name` is a running mean, variance or count, which has no gradient."""
        return name.endswith(("running_mean", "running_var", _BATCH_COUNT))

    def logits(self, state_dict: Tensors, images: torch.Tensor, *, training: bool) -> torch.Tensor:
        """Returns the log-odds of images, `[num_images, num_labels]`; for a network without a head, its features.

        Args:
            state_dict: the parameters and buffers, by name.
            images: images with values in [-1, 1], `[num_images, channels, height, width]`.
            training: true normalizes by the statistics of this batch, and updates the running statistics.
        """
        images = self._standardized(images)
        ends_in_one_pixel = max(images.shape[2:]) <= _ONE_PIXEL_SIDE
        has_no_variance = training and len(images) == 1 and ends_in_one_pixel
        # One value has no variance, so the image is shown beside its mirror image.
        if has_no_variance:
            images = torch.cat([images, images.flip(dims=[3])])
        self._module.train(training)
        logits: torch.Tensor = torch.func.functional_call(
            self._module, parameter_and_buffer_dicts=state_dict, args=(images,)
        )
        return logits[:1] if has_no_variance else logits

    def inference_function(self, state_dict: Tensors) -> Callable[[torch.Tensor], torch.Tensor]:
        """Returns a function from images with values in [-1, 1] to log-odds, for the exporters of torch.

        A module inside it holds the parameters, as tracing cannot pass them as an argument.
        """
        with torch.device("meta"):  # without weights, which would be drawn and replaced at once
            module: torch.nn.Module = torchvision_models().resnet50(weights=None)
            module.fc = torch.nn.Linear(FEATURES, self.num_labels)
        module.load_state_dict(state_dict, assign=True)
        module.eval().requires_grad_(False)

        def log_odds(images: torch.Tensor) -> torch.Tensor:
            return module(self._standardized(images))  # type: ignore[no-any-return]

        return log_odds

    def _standardized(self, images: torch.Tensor) -> torch.Tensor:
        """Returns images with values in [-1, 1], resized to `image_size` and standardized as published weights expect.

        The means and standard deviations of the three channels are those of ImageNet. One channel becomes three.
        """
        if self.image_size is not None:
            side_lengths = (self.image_size, self.image_size)
            images = functional.interpolate(
                images, size=side_lengths, mode="bilinear", antialias=True
            )
        mean = torch.tensor(_IMAGENET_MEAN, device=images.device)[:, None, None]
        std = torch.tensor(_IMAGENET_STD, device=images.device)[:, None, None]
        # For y = (images + 1) / 2, in [0, 1], this is (y - mean) / std. One channel becomes three by broadcasting.
        return (images - (2 * mean - 1)) / (2 * std)


def read_weights(weights_file: str | Path) -> Tensors:
    """Reads the weights of a backbone: a `.safetensors` file, or a state dictionary that `torch.save` wrote.

    No code in the file is run. If the file has a head, the head is left out. The file must come from PUBLIC data, as no
    epsilon covers the data that the backbone was trained on.

    Raises:
        InvalidValue: the file is of another kind; or it is a file of torch, and this version of torch could run code in
            it.
    """
    is_safetensors = str(weights_file).endswith(".safetensors")
    torch_version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if not is_safetensors and torch_version < _SAFE_TORCH:
        safe_version = ".".join(map(str, _SAFE_TORCH))
        rule = f"a .safetensors file, or torch >= {safe_version}: an older one can run code from others"
        raise InvalidValue("weights", weights_file, rule=rule)
    try:
        stored_state_dict: Tensors = (
            load_file(weights_file)
            if is_safetensors
            else torch.load(weights_file, map_location="cpu", weights_only=True)
        )
        # Running averages with a fixed momentum do not read the counts of batches.
        state_dict = {
            name.removeprefix("module."): tensor.float()
            for name, tensor in stored_state_dict.items()
            if not name.endswith(_BATCH_COUNT)
        }
    except Exception as error:  # a damaged pickle raises errors of any type
        # the text of a PickleError is a page of advice
        reason = "" if isinstance(error, PickleError) else f": {error}".partition("\n")[0]
        rule = f"a file of ResNet-50 weights ({type(error).__name__}{reason})"
        raise InvalidValue("weights", weights_file, rule=rule) from error
    reference_state_dict = ResNet50(num_labels=0)._module.state_dict()
    shapes = {
        name: tensor.shape
        for name, tensor in reference_state_dict.items()
        if not name.endswith(_BATCH_COUNT)
    }
    wrong_names = [
        name
        for name, shape in shapes.items()
        if name not in state_dict or state_dict[name].shape != shape
    ]
    if wrong_names:
        rule = f"a file of ResNet-50 weights, found no good {wrong_names[0]} in it"
        raise InvalidValue("weights", weights_file, rule=rule)
    batch_counts = {
        name: torch.tensor(0) for name in reference_state_dict if name.endswith(_BATCH_COUNT)
    }
    return {name: state_dict[name] for name in shapes} | batch_counts


@cache
def _require_weights(weights_file: str) -> None:
    """Raises `InvalidValue` if a file of weights cannot be read; called before anything is trained or paid for."""
    read_weights(weights_file)


class FrozenBackbone:
    """A backbone that is not trained and can keep the features of the last two arrays of images in memory.

    All teachers vote on the same queries, so their features are computed once.
    """

    _memory_size = 2

    def __init__(self, weights_file: str, image_size: int | None, device: torch.device) -> None:
        self._network = ResNet50(num_labels=0, weights_file=weights_file, image_size=image_size)
        self._device = device
        self._state_dict = {
            name: tensor.to(device) for name, tensor in read_weights(weights_file).items()
        }
        self._memory: dict[str, Float32Array] = {}

    @torch.no_grad()
    def features(self, images: NDArray[Any], *, keep_in_memory: bool = False) -> Float32Array:
        """Returns the features of images, float32 `[num_images, 2048]`.

        Args:
            images: the images, float32 in [0, 1] or uint8, `[num_images, channels, height, width]`.
            keep_in_memory: true keeps the features in memory for a second call with the same images.
        """
        image_digest = None
        if keep_in_memory:
            image_digest = hashlib.sha256(np.ascontiguousarray(images).data).hexdigest()
        if image_digest in self._memory:
            return self._memory[image_digest]
        all_features = np.empty((len(images), FEATURES), np.float32)
        image_batches = iterate_batches(
            images, batch_size=_BACKBONE_BATCH_SIZE, device=self._device
        )
        for rows, image_batch in image_batches:
            batch_features = self._network.logits(
                self._state_dict, images=image_batch, training=False
            )
            all_features[rows] = batch_features.cpu().numpy()
        if image_digest is not None:
            while len(self._memory) >= self._memory_size:
                del self._memory[next(iter(self._memory))]
            self._memory[image_digest] = all_features
        return all_features
