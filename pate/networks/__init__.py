"""Networks for images and how they are trained: beneath teachers and students, who both use them.

What needs torch is loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pate.networks.convnet import ConvNet
    from pate.networks.device import one_thread, require_device
    from pate.networks.network import Network, Tensors, logits_in_blocks, require_images
    from pate.networks.recipe import Recipe
    from pate.networks.resnet import ResNet50, read_weights
    from pate.networks.stacked_training import fit_stacked
    from pate.networks.training import fit

_MODULES = {
    "ConvNet": "convnet",
    "Network": "network",
    "Recipe": "recipe",
    "ResNet50": "resnet",
    "Tensors": "network",
    "fit": "training",
    "fit_stacked": "stacked_training",
    "logits_in_blocks": "network",
    "one_thread": "device",
    "read_weights": "resnet",
    "require_device": "device",
    "require_images": "network",
}

__all__ = [
    "ConvNet",
    "Network",
    "Recipe",
    "ResNet50",
    "Tensors",
    "fit",
    "fit_stacked",
    "logits_in_blocks",
    "one_thread",
    "read_weights",
    "require_device",
    "require_images",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"pate.networks.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'pate.networks' has no attribute '{name}'")
