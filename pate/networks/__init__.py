"""Networks for images and how they are trained: beneath teachers and students, who both use them.

What needs torch is loaded when it is asked for.
"""

from pate.files.lazy_names import lazy_names

with lazy_names(globals()):
    from pate.networks.convnet import ConvNet, fit_stacked
    from pate.networks.device import one_thread, require_device
    from pate.networks.network import Network, Tensors, fit, logits_in_blocks, require_images
    from pate.networks.resnet import ResNet50, read_weights
    from pate.networks.training import Recipe

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
