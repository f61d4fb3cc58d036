"""Networks that are trained alone or side by side: their images, their optimizer, and their device."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from pate import device
from pate.device import DeviceFull, device_memory, require_device
from pate.models.networks.convnet import ConvNet, fit_stacked
from pate.models.networks.minibatches import StackedAdamW
from pate.models.networks.network import require_images
from pate.models.networks.training import AdamWRecipe, fit_network
from pate.threads import one_thread
from tests.refusals import refused_parameter

CPU = torch.device("cpu")
RECIPE = AdamWRecipe(epochs=3, batch_size=8, learning_rate=3e-3, weight_decay=1e-2)


def small_convnet(norm_kind="group"):
    """Returns a network for images of 16 x 16 pixels in color, with four labels."""
    return ConvNet(shape=(3, 16, 16), num_labels=4, width=8, blocks=1, norm=norm_kind)


def train_alone(images, labels, recipe=RECIPE, seed=0, norm_kind="group"):
    """Trains one network alone; returns its tensors and its losses."""
    rng = np.random.default_rng(seed)
    return fit_network(
        network=small_convnet(norm_kind=norm_kind),
        images=images,
        targets=labels.astype(np.float32),
        recipe=recipe,
        rng=rng,
        device=CPU,
    )


def train_side_by_side(labeled_image_sets, recipe, seeds, norm_kind="group"):
    """Trains one network for each pair of images and labels, side by side; returns their tensors and their losses."""
    targets = [labels.astype(np.float32) for _, labels in labeled_image_sets]
    rngs = [np.random.default_rng(seed) for seed in seeds]
    images = [images for images, _ in labeled_image_sets]
    return fit_stacked(
        network=small_convnet(norm_kind=norm_kind),
        images_of_networks=images,
        targets_of_networks=targets,
        recipe=recipe,
        rngs=rngs,
        device=CPU,
    )


def test_training_equals_torch_adamw(make_images):
    """Three epochs give a network the losses and tensors of torch's AdamW with a falling learning rate."""
    images, labels = make_images(num_images=20)
    tensors, step_losses = train_alone(images=images, labels=labels)
    rng = np.random.default_rng(0)
    torch_tensors = {
        name: tensor.requires_grad_() for name, tensor in small_convnet().initial(rng).items()
    }
    optimizer = torch.optim.AdamW(torch_tensors.values(), lr=3e-3, weight_decay=1e-2)
    step = 0
    for _ in range(3):
        order = rng.permutation(20)
        for first in range(0, 20, 8):
            optimizer.param_groups[0]["lr"] = 3e-3 * (1 - step / 9)
            rows = order[first : first + 8]
            logits = small_convnet().logits(
                torch_tensors, images=torch.from_numpy(images[rows]) * 2 - 1, training=True
            )
            targets = torch.from_numpy(labels[rows].astype(np.float32))
            total_loss = functional.binary_cross_entropy_with_logits(
                logits, target=targets, reduction="sum"
            )
            loss = total_loss / len(rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert step_losses[step] == pytest.approx(float(loss.detach()), rel=1e-4)
            step += 1
    for name, tensor in tensors.items():
        np.testing.assert_allclose(tensor, torch_tensors[name].detach(), atol=2e-4)


@pytest.mark.parametrize("norm", ["group", "batch"])
@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("sizes", [(20, 9, 13), (20, 20)])
def test_networks_trained_together_equal_networks_train_alone(make_images, norm, precision, sizes):
    """Networks that are trained side by side have the losses and tensors of each trained alone, within a tolerance.

    The sets of images of the networks have three sizes, or one. The tolerance is 0.002 in float32, and 0.05 in float16.
    """
    recipe = AdamWRecipe(
        epochs=2,
        batch_size=8,
        learning_rate=3e-3,
        weight_decay=1e-2,
        flip=True,
        precision=precision,
    )
    labeled_image_sets = [
        make_images(num_images=num_images, seed=num_images) for num_images in sizes
    ]
    network_seeds = [20 + number for number in range(len(sizes))]
    tensors, step_losses_of_networks = train_side_by_side(
        labeled_image_sets=labeled_image_sets, recipe=recipe, seeds=network_seeds, norm_kind=norm
    )
    tolerance = 2e-3 if precision == "float32" else 0.05
    for row, (images, labels) in enumerate(labeled_image_sets):
        tensors_alone, step_losses = train_alone(
            images=images, labels=labels, recipe=recipe, seed=network_seeds[row], norm_kind=norm
        )
        np.testing.assert_allclose(
            step_losses_of_networks[row, : len(step_losses)], step_losses, atol=tolerance
        )
        assert np.isnan(step_losses_of_networks[row, len(step_losses) :]).all()
        for name in tensors_alone:
            np.testing.assert_allclose(tensors[name][row], tensors_alone[name], atol=tolerance)


def test_the_overflow_of_one_network_does_not_change_another(make_images):
    """The tensors of a network are the same, bit for bit, if another one beside it overflows in float16.

    The other network has usual inputs in one training and huge ones in another. A step that it skips must not select
    another formula, with other rounding, for the first network.
    """
    images, labels = make_images(num_images=16)
    recipe = AdamWRecipe(
        epochs=3, batch_size=8, learning_rate=3e-2, weight_decay=1e-2, precision="float16"
    )

    def train_beside_scaled_images(image_factor):
        labeled_image_sets = [(images, labels), (images * np.float32(image_factor), labels)]
        tensors, _ = train_side_by_side(
            labeled_image_sets=labeled_image_sets, recipe=recipe, seeds=(1, 2)
        )
        return tensors

    tensors_beside_usual = train_beside_scaled_images(image_factor=1)
    tensors_beside_huge = train_beside_scaled_images(image_factor=1e6)
    for name in tensors_beside_usual:
        assert (tensors_beside_usual[name][0] == tensors_beside_huge[name][0]).all(), name
    assert any(
        (tensors_beside_usual[name][1] != tensors_beside_huge[name][1]).any()
        for name in tensors_beside_usual
    )


def test_equal_arguments_give_equal_bytes_and_another_seed_other_bytes(make_images):
    """Trainings with the same seed give the same tensors, and another seed gives other tensors."""
    images, labels = make_images(num_images=20)
    first, again, other = (
        train_alone(images=images, labels=labels, seed=seed)[0] for seed in (1, 1, 2)
    )
    assert all((first[name] == again[name]).all() for name in first)
    assert not (first["layer0.weight"] == other["layer0.weight"]).all()


def test_a_step_with_infinite_gradients_is_skipped(make_images, monkeypatch):
    """A step whose gradients are infinite in float16 is skipped, so that the tensors stay as they are.

    The weights of the network's head are so large that its products overflow.
    """
    images, labels = make_images(num_images=8)
    recipe = AdamWRecipe(
        epochs=1, batch_size=8, learning_rate=1e-3, weight_decay=0.0, precision="float16"
    )
    initial_tensors = small_convnet().initial(np.random.default_rng(0))
    initial_tensors["head.weight"] += 3e4  # times any activation more than float16 holds

    def copy_initial_tensors(_network, rng):
        return {name: tensor.clone() for name, tensor in initial_tensors.items()}

    monkeypatch.setattr(ConvNet, "initial", copy_initial_tensors)
    targets = labels.astype(np.float32)
    rng = np.random.default_rng(0)
    trained_tensors, _ = fit_network(
        network=small_convnet(), images=images, targets=targets, recipe=recipe, rng=rng, device=CPU
    )
    assert all((trained_tensors[name] == initial_tensors[name]).all() for name in initial_tensors)


def test_inputs_that_are_no_images_are_refused():
    """Inputs with two axes, and images of float64, are refused."""
    with refused_parameter("inputs.shape", value=(3, 5)):
        require_images(np.zeros((3, 5), np.float32))
    with refused_parameter("inputs.dtype", value="float64", rule_words="float32"):
        require_images(np.zeros((3, 1, 5, 5)))


LEARNING_RATE = 0.1
WEIGHT_DECAY = 0.2


def parameters_after(num_steps, active_networks=None, rate_factor=1.0):
    """Returns the parameters `[2, 5]` of two stacked networks after some steps with fixed gradients.

    Args:
        num_steps: the number of steps.
        active_networks: for each step, which of the two networks it moves, `[2, 1]`; by default both.
        rate_factor: a factor of the learning rate; a number, or one for each network, `[2, 1]`.
    """
    parameter, *gradients = draw_parameter_and_gradients(num_steps=num_steps)
    optimizer = StackedAdamW([parameter], learning_rate=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    both_networks = torch.ones(2, 1, dtype=torch.bool)
    for step, gradient in enumerate(gradients):
        is_active = both_networks if active_networks is None else active_networks[step]
        optimizer.step([gradient], is_active=is_active, rate_factor=rate_factor)
    return parameter


def draw_parameter_and_gradients(num_steps):
    """Returns the first parameters and the gradients of each step, `[2, 5]` each."""
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(2, 5, generator=generator) * 10.0 ** min(1 - step, 0)
        for step in range(num_steps + 1)
    ]


def parameters_by_torch(num_steps, rate_factor=1.0):
    """Returns the parameters of both networks after the same steps of torch's AdamW."""
    parameter, *gradients = draw_parameter_and_gradients(num_steps=num_steps)
    optimizer = torch.optim.AdamW(
        [parameter], lr=LEARNING_RATE * rate_factor, weight_decay=WEIGHT_DECAY
    )
    for gradient in gradients:
        parameter.grad = gradient
        optimizer.step()
    return parameter


@pytest.mark.slow
@pytest.mark.parametrize("rate_factor", [1.0, 0.3])
def test_the_stacked_optimizer_equals_torch_adamw(rate_factor):
    """Six steps of the stacked optimizer give the parameters of torch's AdamW.

    The learning rate has one factor for both networks, or a factor for each, which is 1 or 0.3.
    """
    expected_parameters = parameters_by_torch(num_steps=6, rate_factor=rate_factor)
    parameters_at_one_rate_factor = parameters_after(num_steps=6, rate_factor=rate_factor)
    np.testing.assert_allclose(parameters_at_one_rate_factor, expected_parameters, atol=1e-6)
    rate_factor_of_each_network = torch.full((2, 1), fill_value=rate_factor)
    parameters_at_two_rate_factors = parameters_after(
        num_steps=6, rate_factor=rate_factor_of_each_network
    )
    np.testing.assert_allclose(parameters_at_two_rate_factors, expected_parameters, atol=1e-6)


def test_an_inactive_part_keeps_its_parameters_and_does_not_influence_others():
    """A stacked network that is active in two of four steps has the parameters of two steps.

    The other network, which is active in all steps, has those of four.
    """
    both_networks = torch.tensor([[True], [True]])
    first_network = torch.tensor([[True], [False]])
    first_parameters, second_parameters = parameters_after(
        num_steps=4, active_networks=[both_networks, both_networks, first_network, first_network]
    )
    np.testing.assert_allclose(first_parameters, parameters_by_torch(num_steps=4)[0], atol=1e-6)
    np.testing.assert_array_equal(second_parameters, parameters_after(num_steps=2)[1])


def test_auto_chooses_a_gpu_and_cuda_without_a_gpu_is_refused(monkeypatch):
    """The device `auto` is the GPU if torch finds one, and the CPU if not. Without a GPU, `cuda` is refused."""
    assert require_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert require_device("cpu").type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert require_device("auto").type == "cpu"
    with refused_parameter("device", value="cuda"):
        require_device("cuda")


def test_the_stand_in_for_torch_checks_no_extra_once_torch_is_loaded(monkeypatch):
    """The lazy stand-in for torch does not look for the packages of an extra once torch is loaded.

    Names of torch are read in loops, and the check looks for each package of the extra.
    """

    def refuse_to_check(name, extra):
        pytest.fail(f"{name} is loaded: expected no check of the extra {extra}")

    monkeypatch.setattr(device, "require_extra", refuse_to_check)
    assert device.torch.float32 is torch.float32


def test_the_number_of_threads_is_restored_after_an_error():
    """Torch has one thread within `one_thread`, and its earlier two threads again after an error."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(KeyError, match="inside"), one_thread():
            assert torch.get_num_threads() == 1
            raise KeyError("inside")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_full_gpu_gives_advice_in_one_line():
    """If torch runs out of GPU memory, the error is one line with advice. Another error is raised unchanged."""
    message = (
        "CUDA out of memory. Tried to allocate 2.00 GiB. "
        "GPU 0 has a total capacity of 7.79 GiB. See documentation"
    )
    line = r"^CUDA out of memory\. Tried to allocate 2\.00 GiB \(a smaller chunk takes less\)$"
    with pytest.raises(DeviceFull, match=line), device_memory("a smaller chunk takes less"):
        raise torch.cuda.OutOfMemoryError(message)
    with (
        pytest.raises(RuntimeError, match="no kernel"),
        device_memory("a smaller chunk takes less"),
    ):
        raise RuntimeError("no kernel")
