import numpy as np
import pytest
import torch

from pate.networks.resnet import torchvision_models
from pate.teachers import LinearTeacher, ResNet50Teacher, Shard
from pate.teachers.image import _frozen_backbone
from pate.validation import InvalidValue


def image_part(size, seed):
    rng = np.random.default_rng(seed)
    labels = rng.random((size, 2)) < 0.5
    images = rng.random((size, 3, 32, 32), np.float32) * 0.3
    images[:, 0] += 0.6 * labels[:, 0, None, None]
    images[:, 2] += 0.6 * labels[:, 1, None, None]
    return Shard(images, labels)


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "resnet50.pth"
    torch.save(torchvision_models().resnet50(weights=None).state_dict(), path)
    return str(path)


@pytest.mark.slow
def test_a_whole_network_is_trained_from_the_seed():
    part = image_part(4, 0)
    teacher = ResNet50Teacher(epochs=1, batch_size=4, device="cpu")
    assert teacher.is_isolated
    first = teacher.fit_many([part], [3])
    again = teacher.fit_many([part], [3])
    assert all(np.array_equal(first[0][name], again[0][name]) for name in first[0])
    assert first[0]["loss_curve"].shape == (1,)
    confidences = teacher.predict_many(first, image_part(5, 1).inputs)
    assert confidences.shape == (1, 5, 2)
    assert ((confidences >= 0) & (confidences <= 1)).all()


@pytest.mark.slow
def test_frozen_features_are_computed_once_and_a_head_learns(backbone):
    _frozen_backbone.cache_clear()
    teacher = ResNet50Teacher(weights=backbone, frozen=True, device="cpu")
    parts, asked = [image_part(24, 0), image_part(20, 1)], image_part(40, 2)
    states = teacher.fit_many(parts, [0, 1])
    assert states[0]["weights"].shape == (2048, 2)
    votes = teacher.predict_many(states, asked.inputs) >= 0.5
    assert (votes == asked.labels).mean() > 0.9
    features = _frozen_backbone(backbone, None, torch.device("cpu")).features(parts[0].inputs)
    (wanted,) = LinearTeacher(penalty=0.5, device="cpu").fit_many([Shard(features, parts[0].labels)], [0])
    np.testing.assert_allclose(states[0]["weights"], wanted["weights"], atol=1e-5)


def test_refuses_a_frozen_backbone_of_random_weights_and_impossible_parameters():
    with pytest.raises(InvalidValue, match=r"frozen=True: expected weights=FILE, a backbone trained on public data"):
        ResNet50Teacher(frozen=True)
    with pytest.raises(InvalidValue, match="penalty=0: expected a number > 0"):
        ResNet50Teacher(penalty=0)
    with pytest.raises(InvalidValue, match="epochs=0: expected a whole number >= 1"):
        ResNet50Teacher(epochs=0)
