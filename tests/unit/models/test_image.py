"""Teachers and students that are networks for images."""

import numpy as np
import pytest
import torch

from pate.aggregators import TrainingSet
from pate.models import CNNStudent, CNNTeacher, LinearTeacher, ResNet50Teacher, Shard, StudentModel
from pate.models.image_students import CNNModel
from pate.models.image_teachers import _frozen_backbone
from pate.models.networks.resnet import torchvision_models

SMALL = {"width": 8, "blocks": 1, "epochs": 3, "batch_size": 8, "device": "cpu"}


def bright_corners(size, seed):
    """Draws images of 16 x 16 pixels, with a label for each bright corner."""
    rng = np.random.default_rng(seed)
    labels = rng.random((size, 4)) < 0.4
    images = rng.random((size, 1, 16, 16), dtype=np.float32) * 0.5
    images += 0.5 * np.kron(labels.reshape(size, 1, 2, 2), np.ones((8, 8))).astype(np.float32)
    return images, labels


@pytest.fixture(scope="module")
def image_parts():
    """Returns three shards of images with bright corners."""
    return [Shard(*bright_corners(size=size, seed=size)) for size in (24, 17, 30)]


@pytest.fixture(scope="module")
def questions():
    """Returns 60 other images with bright corners, with their labels."""
    return bright_corners(size=60, seed=99)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["group", "batch"])
def test_single_and_stacked_teachers_agree_and_learn(norm, image_parts, questions):
    """Teachers trained alone and side by side agree within 0.002. After 15 epochs over 95% of the labels are right."""
    unstacked, stacked = (
        CNNTeacher(**SMALL, norm=norm, stacked=stacked) for stacked in (False, True)
    )
    unstacked_votes = unstacked.predict_many(
        states=unstacked.fit_many(shards=image_parts, seeds=range(3)), inputs=questions[0]
    )
    other = stacked.predict_many(
        states=stacked.fit_many(shards=image_parts, seeds=range(3)), inputs=questions[0]
    )
    np.testing.assert_allclose(unstacked_votes, other, atol=2e-3)
    assert (unstacked_votes.shape, unstacked_votes.dtype) == ((3, 60, 4), np.float32)
    trained = CNNTeacher(**(SMALL | {"epochs": 15, "learning_rate": 1e-2}), norm=norm)
    states = trained.fit_many(shards=[Shard(*bright_corners(size=60, seed=5))], seeds=[1])
    assert (
        (trained.predict_many(states, inputs=questions[0])[0] >= 0.5) == questions[1]
    ).mean() > 0.95


@pytest.mark.parametrize("stacked", [False, True])
def test_a_threshold_changes_votes_and_not_the_training(stacked, image_parts, questions):
    """Teachers trained with threshold 0.5 vote yes, when asked with threshold 0.2, where their probability is at least
    0.2.

    Their losses fall.
    """
    low, half = (
        CNNTeacher(**SMALL, stacked=stacked, threshold=threshold) for threshold in (0.2, 0.5)
    )
    states = half.fit_many(shards=image_parts, seeds=range(3))
    curves = [state["loss_curve"] for state in states]
    # 3 epochs of 24, 17 and 30 records, 8 a step
    assert [len(curve) for curve in curves] == [9, 9, 12]
    assert all(np.isfinite(curve).all() and curve[-1] < curve[0] for curve in curves)
    probabilities = half.predict_many(states, inputs=questions[0])
    clear = np.abs(probabilities - 0.2) > 1e-5
    assert ((low.predict_many(states, inputs=questions[0]) >= 0.5) == (probabilities >= 0.2))[
        clear
    ].all()


def image_part(size, seed):
    """Returns a shard of images of 32 x 32 pixels, whose red and blue tell the two labels."""
    rng = np.random.default_rng(seed)
    labels = rng.random((size, 2)) < 0.5
    images = rng.random((size, 3, 32, 32), dtype=np.float32) * 0.3
    images[:, 0] += 0.6 * labels[:, 0, None, None]
    images[:, 2] += 0.6 * labels[:, 1, None, None]
    return Shard(images, labels)


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    """Writes random weights of a ResNet-50, and returns the path."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "resnet50.pth"
    torch.save(torchvision_models().resnet50(weights=None).state_dict(), path)
    return str(path)


@pytest.mark.slow
def test_a_whole_network_is_trained_from_the_seed():
    """A ResNet-50 teacher has the same state for the same seed. Its confidences have the right shape and range."""
    part = image_part(size=4, seed=0)
    teacher = ResNet50Teacher(epochs=1, batch_size=4, device="cpu")
    assert teacher.is_isolated
    first = teacher.fit_many(shards=[part], seeds=[3])
    again = teacher.fit_many(shards=[part], seeds=[3])
    assert all(np.array_equal(first[0][name], again[0][name]) for name in first[0])
    assert first[0]["loss_curve"].shape == (1,)
    confidences = teacher.predict_many(states=first, inputs=image_part(size=5, seed=1).inputs)
    assert confidences.shape == (1, 5, 2)
    assert ((confidences >= 0) & (confidences <= 1)).all()


@pytest.mark.slow
def test_frozen_features_are_computed_once_and_a_head_learns(backbone):
    """A frozen ResNet-50 with a linear head is right for over 90% of the labels.

    The head is a linear teacher on its features.
    """
    _frozen_backbone.cache_clear()
    teacher = ResNet50Teacher(weights=backbone, frozen=True, device="cpu")
    shards = [image_part(size=24, seed=0), image_part(size=20, seed=1)]
    query = image_part(size=40, seed=2)
    states = teacher.fit_many(shards=shards, seeds=[0, 1])
    assert states[0]["weights"].shape == (2048, 2)
    votes = teacher.predict_many(states, query.inputs) >= 0.5
    assert (votes == query.labels).mean() > 0.9
    features = _frozen_backbone(
        weights=backbone, image_size=None, device=torch.device("cpu")
    ).features(shards[0].inputs)
    (expected,) = LinearTeacher(penalty=0.5, device="cpu").fit_many(
        shards=[Shard(features, shards[0].labels)], seeds=[0]
    )
    np.testing.assert_allclose(states[0]["weights"], expected["weights"], atol=1e-5)


STUDENT = {
    "width": 8,
    "blocks": 1,
    "epochs": 8,
    "batch_size": 16,
    "folds": 2,
    "learning_rate": 1e-2,
    "device": "cpu",
}


def with_a_label_never_held(size, seed):
    """Returns images with bright corners and five labels, of which the last is always false."""
    images, labels = bright_corners(size=size, seed=seed)
    return images, np.column_stack([labels, np.zeros(size, bool)])


@pytest.fixture(scope="module")
def answered():
    """Returns 60 images with bright corners, and their labels."""
    return with_a_label_never_held(size=60, seed=0)


@pytest.fixture(scope="module")
def others():
    """Returns 100 other images with bright corners, and their labels."""
    return with_a_label_never_held(size=100, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("pool_size", [0, 40])
def test_a_student_learns_with_and_without_a_pool(pool_size, answered, others):
    """A student is right for over 90%, with 0 or 40 unlabeled images.

    A label that was never released has probability 0.
    """
    curve = []
    model = CNNStudent(**STUDENT).learn(
        TrainingSet(*answered),
        pool=others[0][:pool_size],
        seed=0,
        on_epoch=lambda epoch, losses: curve.append(losses["loss"]),
    )
    assert (model.predict(others[0]) == others[1]).mean() > 0.9
    assert (model.predict_proba(others[0])[:, -1] == 0).all(), (
        "a label never released is never predicted"
    )
    assert len(curve) == 8
    assert curve[-1] < curve[0]
    assert model.choices["unlabeled"] == pool_size


def test_a_constant_student_of_an_earlier_version_is_read(tmp_path, others):
    """A stored student that is a constant predicts this constant."""
    CNNModel(
        {"constant": np.array([1, 0], np.float32)},
        threshold=0.5,
        input_shape=(1, 16, 16),
        num_rows=1,
        choices={},
    ).save(tmp_path)
    assert StudentModel.load(tmp_path).predict_proba(others[0][:2]).tolist() == [[1, 0], [1, 0]]


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_round_trip_and_equal_bytes(norm, answered, others, tmp_path):
    """The same seed gives the same files of a student. The read student predicts as the trained one."""
    student = CNNStudent(**(STUDENT | {"epochs": 2, "patch": 2, "grid": 2, "norm": norm}))
    model = student.fit(*answered, seed=3)
    for name, student_model in (("a", model), ("b", student.fit(*answered, seed=3))):
        student_model.save(tmp_path / name)
    for file in ("student.safetensors", "student.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    loaded = StudentModel.load(tmp_path / "a")
    assert (loaded.predict_proba(others[0]) == model.predict_proba(others[0])).all()
    assert loaded.network() == model.network()
