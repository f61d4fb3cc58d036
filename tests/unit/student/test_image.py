"""Students that are networks for images."""

from __future__ import annotations

import numpy as np
import pytest

from pate.aggregators import TrainingSet
from pate.student import CNNStudent, ResNet50Student, StudentModel
from pate.validation import InvalidValue

SMALL = {"width": 8, "blocks": 1, "epochs": 8, "batch_size": 16, "folds": 2, "learning_rate": 1e-2, "device": "cpu"}


def bright_corners(size, seed):
    """16 x 16 images with a label for each bright corner; the last label is never held."""
    rng = np.random.default_rng(seed)
    labels = rng.random((size, 4)) < 0.4
    images = rng.random((size, 1, 16, 16), np.float32) * 0.5
    images += 0.5 * np.kron(labels.reshape(size, 1, 2, 2), np.ones((8, 8))).astype(np.float32)
    return images, np.column_stack([labels, np.zeros(size, bool)])


@pytest.fixture(scope="module")
def answered():
    return bright_corners(60, 0)


@pytest.fixture(scope="module")
def others():
    return bright_corners(100, 1)


@pytest.mark.parametrize("pool_size", [0, 40])
def test_it_learns_with_and_without_a_pool(pool_size, answered, others):
    heard = []
    model = CNNStudent(**SMALL).learn(
        TrainingSet(*answered),
        pool=others[0][:pool_size],
        seed=0,
        on_epoch=lambda epoch, losses: heard.append(losses["loss"]),
    )
    assert (model.predict(others[0]) == others[1]).mean() > 0.9
    assert (model.predict_proba(others[0])[:, -1] == 0).all(), "a label never released is never predicted"
    assert len(heard) == 8
    assert heard[-1] < heard[0]
    assert model.choices["unlabeled"] == pool_size


def test_the_pool_is_used_up_to_a_number(answered, others):
    student = CNNStudent(**(SMALL | {"max_unlabeled": 10, "epochs": 2}))
    few, many = (student.learn(TrainingSet(*answered), pool=others[0][:size], seed=0) for size in (10, 90))
    assert (few.predict_proba(others[0]) == many.predict_proba(others[0])).all()
    assert many.choices["unlabeled"] == 10


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_round_trip_and_equal_bytes(norm, answered, others, tmp_path):
    student = CNNStudent(**(SMALL | {"epochs": 2, "patch": 2, "grid": 2, "norm": norm}))
    model = student.fit(*answered, seed=3)
    for name, each in (("a", model), ("b", student.fit(*answered, seed=3))):
        each.save(tmp_path / name)
    for file in ("student.safetensors", "student.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    loaded = StudentModel.load(tmp_path / "a")
    assert (loaded.predict_proba(others[0]) == model.predict_proba(others[0])).all()
    assert loaded.network() == model.network()


def test_few_answers(answered, others, tmp_path):
    for size in (0, 1, 2, 3):
        model = CNNStudent(**(SMALL | {"epochs": 1})).fit(answered[0][:size], answered[1][:size], seed=0)
        assert np.isfinite(model.predict_proba(others[0])).all()
        assert not model.predict(others[0])[:, ~answered[1][:size].any(axis=0)].any()
        if size == 1:
            assert (model.predict(others[0]) == answered[1][0]).all()
        model.save(tmp_path / str(size))
        assert (StudentModel.load(tmp_path / str(size)).predict(others[0]) == model.predict(others[0])).all()


@pytest.mark.slow
def test_a_resnet_can_be_a_student(tmp_path):
    rng = np.random.default_rng(0)
    images, labels = rng.random((4, 3, 32, 32), np.float32), rng.random((4, 2)) < 0.5
    student = ResNet50Student(epochs=1, folds=2, image_size=32, max_unlabeled=0, device="cpu")
    model = student.learn(TrainingSet(images, labels), pool=images, seed=0)
    model.save(tmp_path)
    loaded = StudentModel.load(tmp_path)
    assert (loaded.predict_proba(images) == model.predict_proba(images)).all()
    assert model.choices["unlabeled"] == 0


def test_refuses_what_is_no_image(rows):
    with pytest.raises(InvalidValue, match=r"inputs\.shape=\(120, 15\): expected images"):
        CNNStudent().fit(*rows, seed=0)
