"""The ONNX graph of every student predicts the same as the student after it was trained, saved and read."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pate.bundle import Bundle, ModelForm
from pate.config.schema import names_in_config_group
from pate.data import ImageForm
from pate.models import (
    CNNStudent,
    LinearStudent,
    LogisticStudent,
    LowRankStudent,
    MLPStudent,
    ResNet50Student,
    Student,
    StudentModel,
)
from pate.models.released_model import ReleasedModel
from tests.unit.bundle.test_bundle import write_manifest

onnxruntime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

LABELS = ("one", "two", "never")
# The number of released weights of each label, by the kind of model. A kernel model has more weights than the 6
# components of its inputs.
NUM_WEIGHTS = {"released": 4, "released_kernel": 13}
STUDENTS: dict[str, Student] = {
    "linear": LinearStudent(),
    "logistic": LogisticStudent(),
    "low_rank": LowRankStudent(num_directions=3),
    "mlp": MLPStudent(epochs=5, hidden=8),
    "cnn": CNNStudent(width=8, epochs=1, folds=2, device="cpu", max_unlabeled=0),
    "cnn with the statistics of batches": CNNStudent(
        width=8, norm="batch", blocks=1, epochs=1, folds=2, device="cpu", max_unlabeled=0
    ),
}


def recipe_of_student(name: str) -> Student:
    """Returns the recipe of a student by its name.

    The recipe of a ResNet-50 is made on demand, as it loads torchvision, which takes over a second.
    """
    if name == "resnet50":
        return ResNet50Student(epochs=1, folds=2, device="cpu", max_unlabeled=0)
    return STUDENTS[name]


def trained_student_and_inputs(name: str, num_rows: int = 40) -> tuple[StudentModel, np.ndarray]:
    """Returns a student of a kind with the inputs that it was trained on, or a released model with public inputs.

    Args:
        name: the kind: a name in `STUDENTS` or `NUM_WEIGHTS`, or "resnet50".
        num_rows: the number of these inputs.
    """
    rng = np.random.default_rng(0)
    if name in NUM_WEIGHTS:
        # A release gives these weights as they are, without a fit.
        public_inputs = rng.standard_normal((200, 6), dtype=np.float32)
        weights = rng.standard_normal((NUM_WEIGHTS[name], len(LABELS)))
        model = ReleasedModel.from_weights(weights, public_inputs=public_inputs, num_rows=num_rows)
        return model, public_inputs[:num_rows]
    recipe = recipe_of_student(name)
    takes_images = "cnn" in name or "resnet" in name
    inputs = rng.random((num_rows, 3, 16, 16) if takes_images else (num_rows, 6), dtype=np.float32)
    flat = inputs.reshape(len(inputs), int(np.prod(inputs.shape[1:])))
    labels = np.stack([flat[:, 0] > 0.5, flat[:, 1] > 0.3, np.zeros(num_rows, np.bool_)], axis=1)
    return recipe.fit(inputs, labels, seed=0), inputs


def export_bundle(parent_folder: Path, model: StudentModel) -> Bundle:
    """Publishes a model into `release/` of a folder, writes its ONNX graph beside it, and returns the loaded model."""
    release_folder = parent_folder / "release"
    model.save(release_folder / "student")
    form, kind = (
        (ImageForm(channels=3, height=16, width=16), "images")
        if len(model.input_shape) == 3
        else (None, "features")
    )
    ModelForm(
        name="people",
        kind=kind,
        labels=LABELS,
        input_shape=model.input_shape,
        features=(),
        preprocessing=form,
        threshold=model.threshold,
        model=model.kind,
    ).write(release_folder)
    write_manifest(release_folder)
    bundle = Bundle.load(release_folder)
    bundle.to_onnx(parent_folder / "model.onnx")
    return bundle


def probabilities_of_graph(onnx_path: Path, inputs: np.ndarray) -> np.ndarray:
    """Returns the probabilities that the ONNX graph in a file computes for inputs, `[num_records, num_labels]`."""
    session = onnxruntime.InferenceSession(onnx_path, providers=["CPUExecutionProvider"])
    probabilities: np.ndarray = session.run(["probabilities"], {"inputs": inputs})[0]
    return probabilities


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*STUDENTS, *names_in_config_group(group="student")}))
@pytest.mark.parametrize("num_rows", [40, 1, 0])
def test_the_graph_predicts_the_same(tmp_path: Path, name: str, num_rows: int) -> None:
    """The ONNX graph of each student gives the probabilities of the loaded and of the trained model.

    The student is trained on `num_rows` rows, and a ResNet-50 on at most 8. With more than one, probabilities of the
    first label differ between queries. A label that was never released has probability 0.
    """
    if name == "resnet50" and find_spec("torchvision") is None:
        pytest.skip("torchvision is optional")
    # A ResNet-50 is slow, so it is trained on few rows.
    num_training_rows = min(num_rows, 8) if name == "resnet50" else num_rows
    model, _ = trained_student_and_inputs(name=name, num_rows=num_training_rows)
    bundle = export_bundle(parent_folder=tmp_path, model=model)
    queries = np.random.default_rng(1).random((7, *model.input_shape), dtype=np.float32)
    probabilities = probabilities_of_graph(onnx_path=tmp_path / "model.onnx", inputs=queries)
    assert probabilities.shape == (7, 3)
    assert np.abs(probabilities - bundle.predict_proba(queries)).max() < 1e-5
    assert np.array_equal(bundle.predict_proba(queries), model.predict_proba(queries))
    assert not probabilities[:, 2].any()
    if num_rows > 1:
        assert probabilities[:, 0].std() > 0, "the graph looks at its inputs"


@pytest.mark.parametrize("name", NUM_WEIGHTS)
def test_the_graph_of_a_released_model_keeps_a_record_in_the_middle(
    tmp_path: Path, name: str
) -> None:
    """The graph of a released model predicts as the model does, also for a record at the center of the features.

    The centered features of such a record have length 0.
    """
    model, inputs = trained_student_and_inputs(name=name)
    assert model.kind == name
    bundle = export_bundle(parent_folder=tmp_path, model=model)
    queries = np.vstack([inputs, model.arrays["center"].reshape(1, -1)]).astype(np.float32)
    assert (
        np.abs(
            probabilities_of_graph(onnx_path=tmp_path / "model.onnx", inputs=queries)
            - bundle.predict_proba(queries)
        ).max()
        < 1e-5
    )
