import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pate.models import ResNet50Student, ResNet50Teacher
from pate.models.networks import resnet as resnet_module
from pate.models.networks.resnet import (
    FrozenBackbone,
    ResNet50,
    read_weights,
    torchvision_models,
)
from pate.validation import InvalidValue
from tests.refusals import refused_parameter

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def backbone_path(tmp_path_factory):
    """Writes the weights of torchvision's ResNet-50, with a head, into a file, and returns the path."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "resnet50.pth"
    torch.save(torchvision_models().resnet50(weights=None).state_dict(), path)
    return path


@pytest.mark.slow  # a second, if no other test has loaded torchvision
def test_torchvision_for_cuda_is_imported_without_cuda():
    """`torchvision_models` loads the installed torchvision, which may be built for CUDA while torch is not."""
    assert torchvision_models().resnet50 is not None


def test_a_missing_torchvision_is_refused_in_one_line(monkeypatch):
    """Without torchvision, its models and a ResNet student are refused in one line with the package to install."""
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with refused_parameter("teacher=resnet50", rule_words="package torchvision") as refusal:
        torchvision_models()
    assert "\n" not in str(refusal.value)
    with refused_parameter("teacher=resnet50", rule_words="package torchvision"):
        ResNet50Student()  # not once it has labels to learn from, which were paid for


@pytest.mark.slow
def test_backbone_weights_are_read_without_the_head_of_the_file(backbone_path):
    """A network for 7 labels has the layers of a file of weights, except the head, which is new."""
    tensors = ResNet50(num_labels=7, weights_file=str(backbone_path)).initial(
        np.random.default_rng(0)
    )
    stored = torch.load(backbone_path, weights_only=True)
    assert (tensors["layer4.2.conv3.weight"] == stored["layer4.2.conv3.weight"]).all()
    assert tensors["fc.weight"].shape == (7, 2048)
    images = torch.rand(2, 3, 32, 32) * 2 - 1
    assert ResNet50(num_labels=7, weights_file=str(backbone_path)).logits(
        tensors, images=images, training=False
    ).shape == (2, 7)


@pytest.mark.slow
@pytest.mark.parametrize("side", [32, 64])
def test_a_minibatch_may_be_one_image(side):
    """A minibatch of one image gives finite logits in training.

    For an image of 32 x 32 pixels, the last layers have a single pixel, which has no variance.
    """
    network = ResNet50(num_labels=3)
    tensors = network.initial(np.random.default_rng(0))
    tensors["fc.weight"] += 0.01
    logits = network.logits(tensors, images=torch.rand(1, 3, side, side) * 2 - 1, training=True)
    assert logits.shape == (1, 3)
    assert logits.isfinite().all()


@pytest.mark.slow
def test_frozen_features_equal_torchvision_and_are_kept(backbone_path, monkeypatch):
    """Features of a frozen network are those of torchvision's, and are computed once for the same images."""
    images = np.random.default_rng(0).random((3, 3, 32, 32), dtype=np.float32)
    frozen_backbone = FrozenBackbone(weights_file=str(backbone_path), image_size=None, device=CPU)
    features = frozen_backbone.features(images, keep_in_memory=True)
    model = torchvision_models().resnet50(weights=None)
    model.load_state_dict(torch.load(backbone_path, weights_only=True))
    model.fc = torch.nn.Identity()
    mean = torch.tensor(resnet_module._IMAGENET_MEAN)[:, None, None]
    std = torch.tensor(resnet_module._IMAGENET_STD)[:, None, None]
    with torch.no_grad():
        expected = model.eval()((torch.from_numpy(images) - mean) / std)
    np.testing.assert_allclose(features, expected, rtol=1e-3, atol=1e-4)
    monkeypatch.setattr(ResNet50, "logits", None)
    assert frozen_backbone.features(images, keep_in_memory=True) is features


@pytest.mark.slow
def test_files_without_resnet_weights_are_refused_before_training(tmp_path, backbone_path):
    """`read_weights` refuses a file of weights that is cut, missing or of another network.

    A recipe of a teacher or student reads its file when it is made, so it refuses a cut file before any training. A
    network with an image size of 0 is refused as well.
    """
    (tmp_path / "cut.pth").write_bytes(b"PK")
    for recipe_class in (ResNet50Teacher, ResNet50Student):
        # before torch 2.10 no .pth is opened at all
        rule = r"a file of ResNet-50 weights|a \.safetensors file, or torch >= 2\.10"
        with pytest.raises(InvalidValue, match=rf"weights=.*cut\.pth: expected ({rule})"):
            recipe_class(weights=str(tmp_path / "cut.pth"))
    (tmp_path / "torn.pth").write_bytes(backbone_path.read_bytes()[:1000])
    save_file({"conv1.weight": torch.zeros(2)}, tmp_path / "other.safetensors")
    causes = {
        "none.pth": r" \(FileNotFound",
        "torn.pth": r" \(",
        "other.safetensors": r", found no good conv1\.weight in it",
    }
    for file_name, cause in causes.items():
        with pytest.raises(
            InvalidValue,
            match=f"weights=.*{file_name}: expected a file of ResNet-50 weights{cause}",
        ):
            read_weights(tmp_path / file_name)
    with refused_parameter("image_size", value=0, rule_words="a whole number >= 1"):
        ResNet50(num_labels=1, weights_file=None, image_size=0)
