import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from pate.models.networks.convnet import ConvNet, stacked_logits
from pate.validation import InvalidValue

SHAPE = (3, 16, 16)


def torch_layers(network, tensors):
    """Returns the network without its head, built from torch's own layers with the same tensors.

    The result maps images `[num_images, 3, 16, 16]` to features of cells, `[num_images, channels, grid, grid]`.
    """
    layers = []
    for layer, (channels, _) in enumerate(network.weight_shapes):
        weight = tensors[f"layer{layer}.weight"]
        if layer == 0:
            side = stride = network.patch
            inputs = 3
            padding = 0
        else:
            side = network.kernel_size
            stride = 1
            inputs, _ = network.weight_shapes[layer - 1]
            padding = side // 2
        convolution = nn.Conv2d(
            in_channels=inputs,
            out_channels=channels,
            kernel_size=side,
            stride=stride,
            padding=padding,
            bias=False,
        )
        kernels = weight.view((channels, side, side, inputs))
        convolution.weight.data = kernels.permute((0, 3, 1, 2)).clone()
        if network.norm == "group":
            norm = nn.GroupNorm(num_groups=channels // 8, num_channels=channels)
        else:
            norm = nn.BatchNorm2d(num_features=channels)
        layers += [convolution, norm, nn.ReLU()]
    layers.append(nn.AvgPool2d(kernel_size=16 // network.patch // network.grid))
    return nn.Sequential(*layers)


def initial_tensors(network, seed=0):
    """Returns the initial tensors of a network, with a random head."""
    tensors = network.initial(np.random.default_rng(seed))
    tensors["head.weight"] = torch.randn(
        tensors["head.weight"].shape, generator=torch.Generator().manual_seed(seed)
    )
    return tensors


@pytest.mark.parametrize("norm", ["group", "batch"])
@pytest.mark.parametrize(("grid", "kernel_size"), [(1, 3), (2, 3), (4, 3), (2, 1), (4, 5)])
def test_a_network_equals_the_layers_of_torch(norm, grid, kernel_size):
    """A network gives the logits of torch's own layers with its tensors.

    With batch norm, network and layers also update the running mean and variance of a layer to the same values.
    """
    network = ConvNet(
        SHAPE,
        num_labels=5,
        width=8,
        blocks=2,
        patch=4,
        grid=grid,
        norm=norm,
        kernel_size=kernel_size,
    )
    tensors = initial_tensors(network=network)
    images = torch.rand(7, *SHAPE) * 2 - 1
    model = torch_layers(network=network, tensors=tensors)
    for is_training in (True, False):
        model.train(is_training)
        cells = model(images).permute((0, 2, 3, 1)).flatten(start_dim=1)
        expected = cells @ tensors["head.weight"].T + tensors["head.bias"]
        logits = network.logits(tensors, images=images, training=is_training)
        np.testing.assert_allclose(logits.detach(), expected.detach(), atol=1e-4)
    if norm == "batch":
        np.testing.assert_allclose(tensors["layer1.mean"], model[4].running_mean, atol=1e-5)
        np.testing.assert_allclose(tensors["layer1.var"], model[4].running_var, atol=1e-5)


@pytest.mark.parametrize("norm", ["group", "batch"])
@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("kernel_size", [3, 5])
def test_stacked_networks_equal_single_networks(norm, is_training, kernel_size):
    """Three networks side by side, with 6, 4 and 1 images, give the logits of each alone.

    Afterwards the tensors, which include the running statistics of batch norm, are those of each alone, too.
    """
    network = ConvNet(
        SHAPE, num_labels=5, width=8, blocks=2, patch=2, grid=4, norm=norm, kernel_size=kernel_size
    )
    tensors_of_networks = [initial_tensors(network=network, seed=seed) for seed in range(3)]
    stacked_tensors = {
        name: torch.stack([tensors[name] for tensors in tensors_of_networks])
        for name in tensors_of_networks[0]
    }
    images = torch.rand(3, 6, *SHAPE) * 2 - 1
    image_counts = [6, 4, 1]
    is_valid_image = torch.arange(6) < torch.tensor(image_counts)[:, None]
    logits_of_stack = stacked_logits(
        network=network,
        stacked_state_dict=stacked_tensors,
        images=images,
        is_valid_image=is_valid_image,
        is_training=is_training,
    )
    for row, (tensors, count) in enumerate(zip(tensors_of_networks, image_counts, strict=True)):
        expected_logits = network.logits(tensors, images=images[row, :count], training=is_training)
        np.testing.assert_allclose(logits_of_stack[row, :count], expected_logits, atol=1e-4)
        for name in tensors:
            np.testing.assert_allclose(stacked_tensors[name][row], tensors[name], atol=1e-4)


def test_a_single_value_per_channel_has_no_variance():
    """If a minibatch has one image of one patch, a single network and a stack have the same logits and statistics.

    If all images of a minibatch are padding, the logits of the stack are finite, and all its tensors stay as they were.
    """
    network = ConvNet((3, 4, 4), num_labels=2, width=8, blocks=1, norm="batch")
    single_tensors = network.initial(np.random.default_rng(0))
    stacked_tensors = {name: tensor[None].clone() for name, tensor in single_tensors.items()}
    image = torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(0)) * 2 - 1
    logits = network.logits(single_tensors, images=image, training=True)
    logits_of_stack = stacked_logits(
        network=network,
        stacked_state_dict=stacked_tensors,
        images=image[None],
        is_valid_image=torch.ones(1, 1, dtype=torch.bool),
        is_training=True,
    )
    np.testing.assert_allclose(logits, logits_of_stack[0], atol=1e-6)
    for name in ("layer0.mean", "layer0.var", "layer1.mean", "layer1.var"):
        np.testing.assert_allclose(single_tensors[name], stacked_tensors[name][0], atol=1e-6)
    before = {name: tensor.clone() for name, tensor in stacked_tensors.items()}
    no_valid_image = torch.zeros(1, 1, dtype=torch.bool)
    logits_without_images = stacked_logits(
        network=network,
        stacked_state_dict=stacked_tensors,
        images=image[None],
        is_valid_image=no_valid_image,
        is_training=True,
    )
    assert logits_without_images.isfinite().all()
    assert all((stacked_tensors[name] == before[name]).all() for name in stacked_tensors)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("width", 12, "a multiple of 8"),
        ("blocks", -1, "a whole number >= 0"),
        ("patch", 0, "a whole number >= 1"),
        ("grid", 0, "a whole number >= 1"),
        ("kernel_size", 0, "a whole number >= 1"),
        ("kernel_size", 4, "an odd number"),
        ("norm", "layer", "one of group, batch"),
        ("shape", (3, 18, 16), r"\(channels, height, width\) in multiples of 4"),
        ("shape", (12,), r"\(channels, height, width\)"),
    ],
)
def test_impossible_networks_are_refused(name, value, rule):
    """A network with an impossible width, depth, patch, grid, kernel, norm or image shape is refused under its name."""
    network = ConvNet(shape=SHAPE, num_labels=2)
    message = rf"{name}(\[1:\])?={re.escape(str(value))}: expected {rule}"
    with pytest.raises(InvalidValue, match=message):
        replace(network, **{name: value})
