"""Teachers and students that are networks for images."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pate.aggregators import TrainingSet
from pate.models import CNNStudent, CNNTeacher, LinearTeacher, ResNet50Teacher, Shard, StudentModel
from pate.models.image_students import CNNModel
from pate.models.image_teachers import _frozen_backbone
from pate.models.networks.resnet import torchvision_models

SMALL_TEACHER = CNNTeacher(width=8, blocks=1, epochs=3, batch_size=8, device="cpu")


def bright_corners(num_images, seed):
    """Returns a shard of images of 16 x 16 pixels, with a label for each bright corner."""
    rng = np.random.default_rng(seed)
    labels = rng.random((num_images, 4)) < 0.4
    images = rng.random((num_images, 1, 16, 16), dtype=np.float32) * 0.5
    label_of_quarter = labels.reshape((num_images, 1, 2, 2))
    images += 0.5 * np.kron(label_of_quarter, np.ones((8, 8))).astype(np.float32)
    return Shard(inputs=images, labels=labels)


@pytest.fixture(scope="module")
def image_shards():
    """Returns three shards of images with bright corners."""
    return [bright_corners(num_images=num_images, seed=num_images) for num_images in (24, 17, 30)]


@pytest.fixture(scope="module")
def queries():
    """Returns 60 other images with bright corners, with their labels."""
    return bright_corners(num_images=60, seed=99)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["group", "batch"])
def test_single_and_stacked_teachers_agree_and_learn(norm, image_shards, queries):
    """The confidences of teachers that are trained alone and side by side agree within 0.002.

    A teacher that is trained for 15 epochs on 60 images has over 95% of the labels right.
    """

    def confidences_of_trained(teacher):
        states = teacher.fit_many(shards=image_shards, seeds=range(3))
        return teacher.predict_many(states=states, inputs=queries.inputs)

    confidences_alone = confidences_of_trained(
        teacher=replace(SMALL_TEACHER, norm=norm, stacked=False)
    )
    confidences_side_by_side = confidences_of_trained(
        teacher=replace(SMALL_TEACHER, norm=norm, stacked=True)
    )
    np.testing.assert_allclose(confidences_alone, confidences_side_by_side, atol=2e-3)
    assert (confidences_alone.shape, confidences_alone.dtype) == ((3, 60, 4), np.float32)
    long_trained = replace(SMALL_TEACHER, norm=norm, epochs=15, learning_rate=1e-2)
    states = long_trained.fit_many(shards=[bright_corners(num_images=60, seed=5)], seeds=[1])
    (votes,) = long_trained.predict_many(states=states, inputs=queries.inputs) >= 0.5
    assert (votes == queries.labels).mean() > 0.95


@pytest.mark.parametrize("stacked", [False, True])
def test_a_threshold_changes_votes_and_not_the_training(stacked, image_shards, queries):
    """A teacher is trained alike with the thresholds 0.5 and 0.2, and votes by the threshold with which it is asked.

    At threshold 0.2 the votes are for the labels with a probability of at least 0.2. The losses of the training fall.
    """
    low_threshold = replace(SMALL_TEACHER, stacked=stacked, threshold=0.2)
    teacher = replace(SMALL_TEACHER, stacked=stacked, threshold=0.5)
    states = teacher.fit_many(shards=image_shards, seeds=range(3))
    states_at_low_threshold = low_threshold.fit_many(shards=image_shards, seeds=range(3))
    for state, other_state in zip(states, states_at_low_threshold, strict=True):
        assert all(np.array_equal(state[name], other_state[name]) for name in state)
    curves = [state["loss_curve"] for state in states]
    # There are 3 epochs of 24, 17 and 30 records, 8 in a step.
    assert [len(curve) for curve in curves] == [9, 9, 12]
    assert all(np.isfinite(curve).all() and curve[-1] < curve[0] for curve in curves)
    probabilities = teacher.predict_many(states=states, inputs=queries.inputs)
    votes = low_threshold.predict_many(states=states, inputs=queries.inputs) >= 0.5
    is_clear = np.abs(probabilities - 0.2) > 1e-5
    assert (votes == (probabilities >= 0.2))[is_clear].all()


def red_and_blue(num_images, seed):
    """Returns a shard of images of 32 x 32 pixels, whose red and blue channels show the two labels."""
    rng = np.random.default_rng(seed)
    labels = rng.random((num_images, 2)) < 0.5
    images = rng.random((num_images, 3, 32, 32), dtype=np.float32) * 0.3
    images[:, 0] += 0.6 * labels[:, 0, None, None]
    images[:, 2] += 0.6 * labels[:, 1, None, None]
    return Shard(inputs=images, labels=labels)


@pytest.fixture(scope="module")
def backbone_path(tmp_path_factory):
    """Writes random weights of a ResNet-50, and returns the path."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "resnet50.pth"
    torch.save(torchvision_models().resnet50(weights=None).state_dict(), path)
    return str(path)


@pytest.mark.slow
def test_a_whole_network_is_trained_from_the_seed():
    """A ResNet-50 teacher has the same state for the same seed, and confidences between 0 and 1."""
    shard = red_and_blue(num_images=4, seed=0)
    teacher = ResNet50Teacher(epochs=1, batch_size=4, device="cpu")
    assert teacher.is_isolated
    states = teacher.fit_many(shards=[shard], seeds=[3])
    repeated_states = teacher.fit_many(shards=[shard], seeds=[3])
    assert all(np.array_equal(states[0][name], repeated_states[0][name]) for name in states[0])
    assert states[0]["loss_curve"].shape == (1,)
    confidences = teacher.predict_many(
        states=states, inputs=red_and_blue(num_images=5, seed=1).inputs
    )
    assert confidences.shape == (1, 5, 2)
    assert ((confidences >= 0) & (confidences <= 1)).all()


@pytest.mark.slow
def test_a_linear_head_learns_from_frozen_features(backbone_path):
    """A frozen ResNet-50 with a linear head has over 90% of the labels right.

    The head is that of a linear teacher on the frozen features.
    """
    _frozen_backbone.cache_clear()
    teacher = ResNet50Teacher(weights=backbone_path, frozen=True, device="cpu")
    shards = [red_and_blue(num_images=24, seed=0), red_and_blue(num_images=20, seed=1)]
    query_shard = red_and_blue(num_images=40, seed=2)
    states = teacher.fit_many(shards=shards, seeds=[0, 1])
    assert states[0]["weights"].shape == (2048, 2)
    votes = teacher.predict_many(states=states, inputs=query_shard.inputs) >= 0.5
    assert (votes == query_shard.labels).mean() > 0.9
    frozen_backbone = _frozen_backbone(
        weights_file=backbone_path, image_size=None, device=torch.device("cpu")
    )
    feature_shard = Shard(
        inputs=frozen_backbone.features(shards[0].inputs), labels=shards[0].labels
    )
    linear_teacher = LinearTeacher(penalty=0.5, device="cpu")
    (expected,) = linear_teacher.fit_many(shards=[feature_shard], seeds=[0])
    np.testing.assert_allclose(states[0]["weights"], expected["weights"], atol=1e-5)


STUDENT = CNNStudent(
    width=8, blocks=1, epochs=8, batch_size=16, folds=2, learning_rate=1e-2, device="cpu"
)


def with_an_absent_label(num_images, seed):
    """Returns a training set of images with bright corners and five labels, of which the last is always false."""
    shard = bright_corners(num_images=num_images, seed=seed)
    labels = np.column_stack([shard.labels, np.zeros(num_images, bool)])
    return TrainingSet(inputs=shard.inputs, labels=labels)


@pytest.fixture(scope="module")
def answered():
    """Returns 60 images with bright corners, and their labels."""
    return with_an_absent_label(num_images=60, seed=0)


@pytest.fixture(scope="module")
def others():
    """Returns 100 other images with bright corners, and their labels."""
    return with_an_absent_label(num_images=100, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("pool_size", [0, 40])
def test_a_student_learns_with_and_without_a_pool(pool_size, answered, others):
    """A student has over 90% of the labels right, with 0 or 40 unlabeled images.

    A label that no training image has gets probability 0.
    """
    loss_curve = []

    def record_loss(epoch, losses):
        loss_curve.append(losses["loss"])

    model = STUDENT.learn(answered, pool=others.inputs[:pool_size], seed=0, on_epoch=record_loss)
    assert (model.predict(others.inputs) == others.labels).mean() > 0.9
    assert (model.predict_proba(others.inputs)[:, -1] == 0).all()
    assert len(loss_curve) == 8
    assert loss_curve[-1] < loss_curve[0]
    assert model.choices["unlabeled"] == pool_size


def test_a_constant_student_of_an_earlier_version_is_read(tmp_path, others):
    """A constant student that an earlier version stored predicts its constant."""
    CNNModel(
        arrays={"constant": np.array([1, 0], np.float32)},
        threshold=0.5,
        input_shape=(1, 16, 16),
        num_rows=1,
        choices={},
    ).save(tmp_path)
    probabilities = StudentModel.load(tmp_path).predict_proba(others.inputs[:2])
    assert probabilities.tolist() == [[1, 0], [1, 0]]


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_round_trip_and_equal_bytes(norm, answered, others, tmp_path):
    """Two students that are trained with the same seed are saved as the same bytes, for each `norm`.

    A student that is read back predicts on other images as the trained one does.
    """
    student = replace(STUDENT, epochs=2, patch=2, grid=2, norm=norm)
    model = student.fit(answered.inputs, labels=answered.labels, seed=3)
    model.save(tmp_path / "first")
    student.fit(answered.inputs, labels=answered.labels, seed=3).save(tmp_path / "second")
    for name in ("student.safetensors", "student.json"):
        first_bytes = (tmp_path / "first" / name).read_bytes()
        assert first_bytes == (tmp_path / "second" / name).read_bytes()
    loaded = StudentModel.load(tmp_path / "first")
    expected = model.predict_proba(others.inputs)
    assert (loaded.predict_proba(others.inputs) == expected).all()
    assert loaded.network() == model.network()
