"""A small convolutional network, computed alone or together with others in one batch, which is fast on a GPU.

`ConvNet.logits` computes one network. `stacked_logits` and `fit_stacked` compute T networks at once, each with images
of its own. The results are equal up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pate.array_types import BoolArray, Float32Array
from pate.models.hyperparameters import require_settings
from pate.models.networks.minibatches import Minibatch, Minibatches, StackedAdamW
from pate.models.networks.network import (
    Network,
    Tensors,
    flip_horizontally,
    scale_pixels_around_zero,
)
from pate.models.networks.training import AdamWRecipe, KnownTargets
from pate.validation import require

CHANNELS_PER_GROUP = 8
"""The number of channels that the norm "group" normalizes together."""
NORM_MOMENTUM = 0.1
"""The share of a batch in the running means and variances, torch's default."""
NORM_EPS = 1e-5
"""The number that is added to variances, torch's default."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The architecture of a small convolutional network, for images whose height and width are multiples of `patch`.

    Attributes:
        width: the number of channels of the first layer, a multiple of 8.
        blocks: the number of convolutions after the first layer.
        patch: the height and width of a patch, in pixels.
        grid: the head sees the mean of each cell of a grid, which has at most this number of rows, and as many columns.
            A fine grid suits images that are aligned, as faces are; a coarse one suits things that may be anywhere.
        norm: "group" or "batch", the way in which layers are normalized (`ConvNet`).
        kernel_size: the height and width of the kernels of the convolutions, an odd number.
    """

    width: int = 32
    blocks: int = 2
    patch: int = 4
    grid: int = 4
    norm: str = field(default="group", metadata={"public": True})
    kernel_size: int = 3

    def __post_init__(self) -> None:
        require_settings(self)
        require(
            self.width % CHANNELS_PER_GROUP == 0,
            "width",
            self.width,
            f"a multiple of {CHANNELS_PER_GROUP}",
        )
        require(self.kernel_size % 2 == 1, "kernel_size", self.kernel_size, "an odd number")


@dataclass(frozen=True)
class ConvNet(Architecture, Network):
    """A network of a few convolutions on patches of an image, averages over a grid, and a linear head.

    The first layer maps patches without overlap to channels. The other layers have twice as many channels and keep the
    resolution. So nearly all work is in matrix products that are large enough to be fast on a CPU. Each layer is
    normalized. With the norm "group" it is normalized over groups of 8 channels of one image. With "batch" it is
    normalized over the batch, with running means and variances of the network's own records. Weights have the shape
    `[channels out, rows * columns * channels in]`, with the channels innermost.

    Attributes:
        shape: the channels, height and width of an image; height and width are multiples of `patch`.
        num_labels: the number of labels.
    """

    shape: tuple[int, ...]
    num_labels: int

    @classmethod
    def from_architecture(
        cls, architecture: Architecture, shape: tuple[int, ...], num_labels: int
    ) -> ConvNet:
        """Makes the network of an architecture.

        Args:
            architecture: the widths and numbers of layers.
            shape: the shape of an image, (channels, height, width).
            num_labels: the number of labels.
        """
        return cls(
            shape=tuple(shape),
            num_labels=num_labels,
            width=architecture.width,  # channels of the first layer
            blocks=architecture.blocks,  # convolutions after the first layer
            patch=architecture.patch,
            grid=architecture.grid,
            norm=architecture.norm,
            kernel_size=architecture.kernel_size,
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        fits = len(self.shape) == 3 and all(
            size % self.patch == 0 and size > 0 for size in self.shape[1:]
        )
        rule = f"(channels, height, width) in multiples of {self.patch} pixels"
        require(fits, "inputs.shape[1:]", tuple(self.shape), rule)

    @property
    def cells(self) -> int:
        """The number of rows of the grid, which is the number of columns.

        It is the largest number up to `grid` that divides the number of patches along the height and along the width.
        """
        patches = math.gcd(*(size // self.patch for size in self.shape[1:]))
        return max(cells for cells in range(1, self.grid + 1) if patches % cells == 0)

    @property
    def weight_shapes(self) -> list[tuple[int, int]]:
        """For each layer before the head, the number of output channels, and the number of inputs of a channel."""
        patch_layer = (self.width, self.shape[0] * self.patch**2)
        taps = self.kernel_size**2
        # The first convolution reads `width` channels, the next ones twice as many.
        other_layers = [
            (2 * self.width, taps * (self.width if block == 0 else 2 * self.width))
            for block in range(self.blocks)
        ]
        return [patch_layer, *other_layers]

    def initial(self, rng: np.random.Generator) -> Tensors:
        """Draws normally distributed weights, scaled by the rule of He et al. (2015); the head is zero."""
        state_dict: Tensors = {}
        for layer_index, (num_channels, num_inputs) in enumerate(self.weight_shapes):
            spread = np.float32(math.sqrt(2 / num_inputs))
            weights = rng.standard_normal((num_channels, num_inputs), np.float32) * spread
            state_dict[f"layer{layer_index}.weight"] = torch.from_numpy(weights)
            state_dict[f"layer{layer_index}.scale"] = torch.ones(num_channels)
            state_dict[f"layer{layer_index}.shift"] = torch.zeros(num_channels)
            if self.norm == "batch":
                state_dict[f"layer{layer_index}.mean"] = torch.zeros(num_channels)
                state_dict[f"layer{layer_index}.var"] = torch.ones(num_channels)
        state_dict["head.weight"] = torch.zeros(
            self.num_labels, self.cells**2 * self.weight_shapes[-1][0]
        )
        state_dict["head.bias"] = torch.zeros(self.num_labels)
        return state_dict

    def is_buffer(self, name: str) -> bool:
        """Returns True if the tensor `name` is a running mean or variance, which has no gradient."""
        return name.endswith((".mean", ".var"))

    def logits(self, state_dict: Tensors, images: torch.Tensor, *, training: bool) -> torch.Tensor:
        """Returns the log-odds of images, `[num_images, num_labels]`.

        Args:
            state_dict: the parameters and buffers, by name.
            images: images with values in [-1, 1], `[num_images, channels, height, width]`.
            training: true normalizes by the statistics of this batch, and updates the running statistics.
        """
        activations = images
        for layer_index in range(self.blocks + 1):
            weight = state_dict[f"layer{layer_index}.weight"]
            side = self.patch if layer_index == 0 else self.kernel_size
            kernel = weight.view(len(weight), side, side, -1).permute(0, 3, 1, 2)
            stride, padding = (self.patch, 0) if layer_index == 0 else (1, side // 2)
            outputs_channels_first = functional.conv2d(
                activations, kernel, stride=stride, padding=padding
            )
            activations = self._normalize(
                outputs_channels_first,
                state_dict=state_dict,
                layer_index=layer_index,
                is_training=training,
            ).relu_()
        if activations.shape[2:] != (self.cells, self.cells):  # Otherwise each pixel is a cell.
            activations = functional.adaptive_avg_pool2d(activations, self.cells)
        cell_means = activations.permute(0, 2, 3, 1).flatten(1)
        return functional.linear(
            cell_means, weight=state_dict["head.weight"], bias=state_dict["head.bias"]
        )

    def _normalize(
        self,
        outputs_channels_first: torch.Tensor,
        *,
        state_dict: Tensors,
        layer_index: int,
        is_training: bool,
    ) -> torch.Tensor:
        """Returns the normalized outputs of a layer, `[num_images, channels, rows, columns]`.

        Args:
            outputs_channels_first: the outputs of the layer, of the same shape as the result.
            state_dict: the parameters and buffers, by name.
            layer_index: the index of the layer, from 0.
            is_training: true normalizes by the statistics of this batch, and updates the running statistics.
        """
        scale = state_dict[f"layer{layer_index}.scale"]
        shift = state_dict[f"layer{layer_index}.shift"]
        if self.norm == "group":
            return functional.group_norm(
                outputs_channels_first,
                num_groups=len(scale) // CHANNELS_PER_GROUP,
                weight=scale,
                bias=shift,
                eps=NORM_EPS,
            )
        mean = state_dict[f"layer{layer_index}.mean"]
        var = state_dict[f"layer{layer_index}.var"]
        # One value has no unbiased variance, and torch would divide by 0: the running statistics are updated here.
        has_no_variance = is_training and outputs_channels_first[:, 0].numel() == 1
        if has_no_variance:
            mean.lerp_(outputs_channels_first.detach().flatten().to(mean.dtype), NORM_MOMENTUM)
            var.mul_(1 - NORM_MOMENTUM)
        return torch.batch_norm(
            outputs_channels_first,
            weight=scale,
            bias=shift,
            running_mean=None if has_no_variance else mean,
            running_var=None if has_no_variance else var,
            training=is_training,
            momentum=NORM_MOMENTUM,
            eps=NORM_EPS,
            cudnn_enabled=True,
        )


def stacked_logits(
    network: ConvNet,
    *,
    stacked_state_dict: Tensors,
    images: torch.Tensor,
    is_valid_image: torch.Tensor,
    is_training: bool,
) -> torch.Tensor:
    """Returns the log-odds of T networks, `[T, n, num_labels]`, equal to those of `ConvNet.logits` up to rounding.

    A convolution is computed as one product of gathered pixels and the kernels of all networks. A grouped convolution
    would be slow for many groups.

    Args:
        network: the architecture of all networks.
        stacked_state_dict: the parameters and buffers, stacked along a new first axis of length T.
        images: n images for each network, with values in [-1, 1], `[T, n, channels, height, width]`.
        is_valid_image: true for images that count in the means and variances of a batch, `[T, n]`. A network without
            such an image keeps its buffers.
        is_training: true normalizes by the statistics of this batch, and updates the running statistics.
    """
    num_networks, num_images, channels, height, width = images.shape
    patch = network.patch
    rows = height // patch
    columns = width // patch
    cut = images.view(num_networks, num_images, channels, rows, patch, columns, patch)
    patches = cut.permute(0, 1, 3, 5, 4, 6, 2)  # [T, n, rows, columns, patch, patch, channels]
    activations = patches.reshape(num_networks, num_images, rows, columns, -1)
    for layer_index in range(network.blocks + 1):
        gathered = activations  # The neighborhood of the first layer is a patch.
        if layer_index > 0:
            gathered = Neighborhoods.apply(activations, network.kernel_size)  # type: ignore[no-untyped-call]
        weight = stacked_state_dict[f"layer{layer_index}.weight"]  # [T, channels, inputs]
        inputs_of_pixels = gathered.flatten(start_dim=1, end_dim=3)  # [T, pixels, inputs]
        products = inputs_of_pixels @ weight.mT.to(inputs_of_pixels.dtype)
        # [T, n, rows, columns, channels]
        outputs_channels_last = products.view((*gathered.shape[:4], -1))
        activations = _normalize_stacked(
            outputs_channels_last,
            network=network,
            stacked_state_dict=stacked_state_dict,
            layer_index=layer_index,
            is_valid_image=is_valid_image,
            is_training=is_training,
        ).relu_()
    cells = network.cells
    by_cell = activations.view(
        num_networks, num_images, cells, rows // cells, cells, columns // cells, -1
    )
    cell_means = by_cell.mean(dim=(3, 5)).flatten(start_dim=2)
    return torch.baddbmm(
        stacked_state_dict["head.bias"][:, None], cell_means, stacked_state_dict["head.weight"].mT
    )


class Neighborhoods(torch.autograd.Function):
    """A differentiable im2col: gathers the k x k neighbors of each pixel, with zeros outside of the image.

    Values `[T, n, rows, columns, c]` become `[T, n, rows, columns, k * k * c]`.
    """

    @staticmethod
    def forward(context: Any, activations: torch.Tensor, window_side: int) -> torch.Tensor:
        """Returns the values in a square of pixels around each pixel; the class states the shapes.

        The square has `window_side` rows and columns. `context` keeps `window_side` for `backward`.
        """
        num_networks, num_images, rows, columns, channels = activations.shape
        context.window_side = window_side
        edge = window_side // 2
        padded = functional.pad(activations, (0, 0, edge, edge, edge, edge))
        network_stride, image_stride, row_stride, column_stride, _ = padded.stride()
        # The channels of neighboring columns lie side by side in memory, so those of `window_side` columns are one run.
        windows = padded.as_strided(
            size=(num_networks, num_images, rows, columns, window_side, window_side * channels),
            stride=(network_stride, image_stride, row_stride, column_stride, row_stride, 1),
        )
        return windows.reshape(
            num_networks, num_images, rows, columns, window_side * window_side * channels
        )

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Returns the gradient for each pixel: the sum of the gradients of all neighborhoods that contain the pixel."""
        num_networks, num_images, rows, columns, _ = gradients[0].shape
        window_side = context.window_side
        edge = context.window_side // 2
        neighbor_gradients = gradients[0].view(
            num_networks, num_images, rows, columns, window_side, window_side, -1
        )
        total = neighbor_gradients.new_zeros(
            num_networks,
            num_images,
            rows + 2 * edge,
            columns + 2 * edge,
            neighbor_gradients.shape[-1],
        )
        for row in range(window_side):
            for column in range(window_side):
                total[:, :, row : row + rows, column : column + columns] += neighbor_gradients[
                    ..., row, column, :
                ]
        return total[:, :, edge : edge + rows, edge : edge + columns], None


def _normalize_stacked(
    outputs_channels_last: torch.Tensor,
    *,
    network: ConvNet,
    stacked_state_dict: Tensors,
    layer_index: int,
    is_valid_image: torch.Tensor,
    is_training: bool,
) -> torch.Tensor:
    """Returns the normalized outputs of a layer of T networks, `[T, n, rows, columns, channels]`, computed in float32.

    Args:
        outputs_channels_last: the outputs of the layer, of the same shape as the result.
        network: the architecture of all networks.
        stacked_state_dict: the parameters and buffers, stacked along a new first axis of length T.
        layer_index: the index of the layer, from 0.
        is_valid_image: true for images that count in the means and variances of a batch, `[T, n]`.
        is_training: true normalizes by the statistics of this batch, and updates the running statistics.
    """
    outputs_channels_last = outputs_channels_last.float()
    image_axis, row_axis, column_axis, member_of_group_axis = 1, 2, 3, 5
    scale = stacked_state_dict[f"layer{layer_index}.scale"][:, None, None, None]
    shift = stacked_state_dict[f"layer{layer_index}.shift"][:, None, None, None]
    if network.norm == "group":
        grouped_outputs = outputs_channels_last.view(
            (*outputs_channels_last.shape[:4], -1, CHANNELS_PER_GROUP)
        )
        var, mean = torch.var_mean(
            grouped_outputs,
            dim=(row_axis, column_axis, member_of_group_axis),
            correction=0,
            keepdim=True,
        )
        normalized = ((grouped_outputs - mean) * (var + NORM_EPS).rsqrt()).flatten(start_dim=4)
        return torch.addcmul(shift, normalized, scale)
    mean = stacked_state_dict[f"layer{layer_index}.mean"]  # [T, channels]
    var = stacked_state_dict[f"layer{layer_index}.var"]
    if is_training:
        running_mean = mean
        running_var = var
        image_mask = is_valid_image[:, :, None, None, None]
        num_pixels = outputs_channels_last.shape[2] * outputs_channels_last.shape[3]
        num_valid_images = is_valid_image.sum(dim=1, keepdim=True)
        num_valid_pixels = (num_valid_images * num_pixels).clamp(min=1)  # [T, 1]
        masked_outputs = outputs_channels_last * image_mask
        mean = masked_outputs.sum(dim=(image_axis, row_axis, column_axis)) / num_valid_pixels
        squares = (outputs_channels_last - mean[:, None, None, None]).square() * image_mask
        var = squares.sum(dim=(image_axis, row_axis, column_axis)) / num_valid_pixels
        # In torch, too, the variance of a batch is the biased one, and the running variance the unbiased one.
        unbiased_var = var.detach() * num_valid_pixels / (num_valid_pixels - 1).clamp(min=1)
        update_share = NORM_MOMENTUM * is_valid_image.any(dim=1, keepdim=True)
        running_mean.add_(update_share * (mean.detach() - running_mean))
        running_var.add_(update_share * (unbiased_var - running_var))
    center = mean[:, None, None, None]
    inverse_std = (var[:, None, None, None] + NORM_EPS).rsqrt()
    return torch.addcmul(shift, (outputs_channels_last - center) * inverse_std, scale)


def fit_stacked(
    network: ConvNet,
    *,
    images_of_networks: Sequence[NDArray[Any]],
    targets_of_networks: Sequence[Float32Array],
    recipe: AdamWRecipe,
    rngs: Sequence[np.random.Generator],
    device: torch.device,
) -> tuple[Tensors, Float32Array]:
    """Trains T networks at once, each on its own records, equal up to rounding to networks that `fit_network` trains.

    The losses are summed over networks, never averaged, and no gradient is clipped across networks. So no network
    influences another, except by rounding.

    Args:
        network: the architecture of all networks.
        images_of_networks: the images of each network, as in `fit_network`.
        targets_of_networks: the targets of each network in [0, 1], `[num_images, num_labels]`; NaN where they are
            unknown.
        recipe: the hyper-parameters of the training.
        rngs: the random generator of each network.
        device: the device on which the networks are trained.

    Returns:
        The trained tensors, stacked along a new first axis of length T, and the losses `[T, num_steps]`. After the last
        step of a network its losses are NaN.
    """
    initial_state_dicts = [network.initial(rng) for rng in rngs]
    stacked_state_dict = {
        name: torch.stack([state_dict[name] for state_dict in initial_state_dicts]).to(device)
        for name in initial_state_dicts[0]
    }
    parameter_names = [name for name in stacked_state_dict if not network.is_buffer(name)]
    stacked_parameters = [stacked_state_dict[name].requires_grad_() for name in parameter_names]
    part_sizes = [len(images) for images in images_of_networks]
    # All records are in one array; those of network t begin at first_rows[t].
    all_images = torch.from_numpy(np.concatenate(images_of_networks)).to(device)
    known_targets = KnownTargets.from_array(
        torch.from_numpy(np.concatenate(targets_of_networks)).to(device)
    )
    first_rows = torch.from_numpy(np.cumsum([0, *part_sizes[:-1]])).to(device)
    minibatches = Minibatches(
        part_sizes=part_sizes, batch_size=recipe.batch_size, epochs=recipe.epochs, rngs=rngs
    )
    steps_of_networks = torch.tensor(minibatches.steps_by_part, device=device)  # [T]
    loss_scale = recipe.loss_scale(device)
    can_overflow = loss_scale != 1
    # The optimizer has a fast step for networks that all move, at one rate. Any other step is slow, and rounds in
    # another way. If gradients can overflow, a network may leave a step out. The rounding of the others must not depend
    # on that, so then every step is slow.
    has_one_rate = not can_overflow and bool((steps_of_networks == minibatches.num_steps).all())
    optimizer = StackedAdamW(
        parameters=[parameter.detach().flatten(start_dim=1) for parameter in stacked_parameters],
        learning_rate=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
    )
    losses_by_step_of_networks = torch.full(
        (len(part_sizes), minibatches.num_steps), math.nan, device=device
    )
    for step, minibatch in enumerate(minibatches):
        most_records = minibatch.record_rows.shape[1]
        is_valid_image = torch.from_numpy(
            np.arange(most_records) < minibatch.records_per_part[:, None]
        ).to(device)
        image_rows = first_rows[:, None] + torch.from_numpy(minibatch.record_rows).to(device)
        is_flipped = None
        if recipe.flip:
            is_flipped = torch.from_numpy(_draw_flips(minibatch, rngs=rngs).ravel()).to(device)
        batch_images = _batch_images(all_images, image_rows=image_rows, is_flipped=is_flipped)
        with recipe.autocast(device):
            logits = stacked_logits(
                network,
                stacked_state_dict=stacked_state_dict,
                images=batch_images,
                is_valid_image=is_valid_image,
                is_training=True,
            )
        record_losses = functional.binary_cross_entropy_with_logits(
            logits.float(),
            target=known_targets.values[image_rows],
            weight=known_targets.weights_of(rows=image_rows),
            reduction="none",
        ).sum(dim=2)
        num_valid = is_valid_image.sum(dim=1).clamp(min=1)
        network_losses = (record_losses * is_valid_image).sum(dim=1) / num_valid  # [T]
        scaled_stacked_gradients = torch.autograd.grad(
            network_losses.sum() * loss_scale, stacked_parameters
        )
        stacked_gradients = [
            stacked_gradient.flatten(start_dim=1) / loss_scale
            for stacked_gradient in scaled_stacked_gradients
        ]
        # The valid images of a network come first, so the first one tells whether it has any in this step.
        is_active_network = is_valid_image[:, :1]  # [T, 1]
        if can_overflow:
            has_finite_gradient = [
                stacked_gradient.isfinite().all(dim=1) for stacked_gradient in stacked_gradients
            ]
            is_active_network = (
                is_active_network & torch.stack(has_finite_gradient).all(dim=0)[:, None]
            )
            stacked_gradients = [
                stacked_gradient.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
                for stacked_gradient in stacked_gradients
            ]
        if has_one_rate:
            rate_factor: torch.Tensor | float = 1 - step / minibatches.num_steps
        else:
            rate_factor = (1 - step / steps_of_networks).clamp(min=0)[:, None]
        optimizer.step(stacked_gradients, is_active=is_active_network, rate_factor=rate_factor)
        losses_by_step_of_networks[:, step] = torch.where(
            is_valid_image[:, 0], network_losses.detach(), math.nan
        )
    trained_state_dict = {name: tensor.detach() for name, tensor in stacked_state_dict.items()}
    return trained_state_dict, losses_by_step_of_networks.cpu().numpy()


def _batch_images(
    all_images: torch.Tensor, *, image_rows: torch.Tensor, is_flipped: torch.Tensor | None
) -> torch.Tensor:
    """Returns the scaled images of a minibatch of T networks, `[T, n, channels, height, width]`.

    Args:
        all_images: the images of all networks, `[num_images, channels, height, width]`.
        image_rows: the rows in `all_images` of the images of each network, `[T, n]`.
        is_flipped: true for images that are mirrored, bool `[T * n]`; None if none is.
    """
    images = scale_pixels_around_zero(all_images[image_rows.flatten()])
    if is_flipped is not None:
        images = flip_horizontally(images, is_flipped=is_flipped)
    return images.contiguous().view((*image_rows.shape, *all_images.shape[1:]))


def _draw_flips(minibatch: Minibatch, *, rngs: Sequence[np.random.Generator]) -> BoolArray:
    """Draws which images of a minibatch are mirrored, bool `[T, batch_size]` for T networks.

    The generator of each network draws as many numbers as `fit_network` draws for one network.

    Args:
        minibatch: the records of the step, of which the number for each network is used.
        rngs: the generator of each network.
    """
    is_flipped = np.zeros(minibatch.record_rows.shape, np.bool_)
    for part_index, rng in enumerate(rngs):
        num_images = minibatch.records_per_part[part_index]
        is_flipped[part_index, :num_images] = rng.random(num_images) < 0.5
    return is_flipped
