"""Features of pictures from a network that was trained on public data elsewhere, projected."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pate.features.backbone_nets import Net, net_of
from pate.features.extractor import Extractor
from pate.networks.device import require_device

_LAYERS = 16  # in the first, which is the largest, numbers per number of the picture
PREFIX = "net."
"""Of the network's own arrays."""


class BackboneExtractor(Extractor):
    """See `Extractor`. Arrays: the network's weights behind `net.`, `center` and `projection` of `Projection`.

    Rule: pictures are resized, gray ones shown in three channels, standardized as the weights want them; what the
    network measures before its last layer is projected.
    """

    kind = "backbone"

    def _numbers_at_once(self) -> int:
        """See `Extractor._numbers_at_once`: the pictures, and the network only if the file brings its weights."""
        with torch.device("meta"):
            shapes = net_of(str(self.settings["model"])).shapes
        if any(self.arrays[f"{PREFIX}{name}"].shape != shape for name, shape in shapes.items()):
            raise ValueError("arrays of other shapes")
        return _LAYERS * (math.prod(self.picture_shape) + 3 * int(self.settings["image_size"]) ** 2)

    def features(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `Extractor.features`."""
        found = (self.measured(images) - self.arrays["center"]) @ self.arrays["projection"]
        return np.asarray(found, np.float32)

    def measured(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """What is projected, `[n, d]`."""
        size, device = int(self.settings["image_size"]), self._device
        mean, spread = (
            torch.tensor(values, device=device)[:, None, None] for values in (self._net.mean, self._net.spread)
        )
        with torch.inference_mode():
            shown = torch.from_numpy(np.ascontiguousarray(images)).to(device)
            if shown.shape[2:] != (size, size):
                shown = functional.interpolate(shown, size=(size, size), mode="bilinear", antialias=True)
            found: NDArray[np.float32] = self._net.module((shown - mean) / spread).flatten(1).cpu().numpy()
        return found

    @property
    def _device(self) -> torch.device:
        return require_device("auto")

    @cached_property
    def _net(self) -> Net:
        net = net_of(str(self.settings["model"]))
        own = {name.removeprefix(PREFIX): array for name, array in self.arrays.items() if name.startswith(PREFIX)}
        net.load(own)
        net.module.to(self._device)
        return net
