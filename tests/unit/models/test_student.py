"""The guarantees of students, the choice of their thresholds, and the folder of a trained student."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from pate.models import LinearStudent, LogisticStudent, MLPStudent, StudentModel, student_model
from pate.models.thresholds import best_threshold
from pate.validation import InvalidValue
from tests.refusals import refused_parameter

SMALL_MLP = MLPStudent(hidden=16, epochs=60, learning_rate=1e-2)


@pytest.fixture(
    params=[LinearStudent(), LinearStudent(rank=3), LogisticStudent(), SMALL_MLP],
    ids=lambda each: type(each).__name__,
)
def student(request):
    """Returns the recipe of a student that is linear, linear of rank 3, logistic or an MLP."""
    return request.param


def accuracy(labels, predicted):
    """Returns the share of right bits of all labels."""
    return accuracy_score(labels.ravel(), predicted.ravel())


def micro_f1(labels, predicted):
    """Returns scikit-learn's micro F1 of predicted bits, `[num_rows, num_labels]`."""
    return f1_score(labels, predicted, average="micro")


def test_it_learns_probabilities_and_labels_of_every_input(student, rows, held_out):
    """A student of 120 rows predicts probabilities and labels of 1,000 inputs, by its threshold.

    The micro F1 is above 0.7, and over 0.1 above that of predicting every label. Inputs of another width are refused.
    """
    model = student.fit(rows.inputs, labels=rows.labels, seed=0)
    probabilities = model.predict_proba(held_out.inputs)
    predicted = model.predict(held_out.inputs)
    assert probabilities.shape == predicted.shape == (1000, 6)
    assert probabilities.dtype == np.float32
    assert predicted.dtype == np.bool_
    assert 0 <= probabilities.min() < probabilities.max() <= 1
    assert (predicted == (probabilities >= np.float32(model.threshold))).all()
    assert 0 < model.threshold <= 1
    assert model.num_rows == 120
    student_f1 = micro_f1(labels=held_out.labels, predicted=predicted)
    assert student_f1 > max(
        0.7, micro_f1(labels=held_out.labels, predicted=np.ones_like(predicted)) + 0.1
    )
    with refused_parameter("inputs.shape", value=(4, 3), rule_words="[m, 15]"):
        model.predict(np.zeros((4, 3), np.float32))


def test_equal_arguments_give_equal_bytes_that_are_read_back(student, rows, held_out, tmp_path):
    """The same seed gives the same files, and a student that is read predicts as the trained one."""
    models = [student.fit(rows.inputs, labels=rows.labels, seed=3) for _ in range(2)]
    for name, model in zip("ab", models, strict=True):
        model.save(tmp_path / name / "student")
    for file in ("student.safetensors", "student.json"):
        first, second = ((tmp_path / name / "student" / file).read_bytes() for name in "ab")
        assert first == second
    loaded = StudentModel.load(tmp_path / "a" / "student")
    assert type(loaded) is type(model)
    assert (loaded.predict_proba(held_out.inputs) == model.predict_proba(held_out.inputs)).all()
    assert (loaded.predict(held_out.inputs) == model.predict(held_out.inputs)).all()
    assert (loaded.choices, loaded.input_shape, loaded.num_rows) == (model.choices, (15,), 120)


@pytest.mark.parametrize("size", [2, 3, 7])
def test_students_learn_from_few_answers(student, rows, held_out, size):
    """A student of 2, 3 or 7 rows has finite probabilities, and never predicts a label that no row has."""
    model = student.fit(rows.inputs[:size], labels=rows.labels[:size], seed=0)
    assert np.isfinite(model.predict_proba(held_out.inputs)).all()
    assert not model.predict(held_out.inputs)[:, ~rows.labels[:size].any(axis=0)].any()


@pytest.mark.parametrize(
    ("inputs", "labels", "seed", "refusal"),
    [
        (np.zeros((3, 2)), np.zeros((3, 2)), 0, refused_parameter("labels.dtype", value="float64")),
        (
            np.zeros((3, 2)),
            np.zeros((2, 2), bool),
            0,
            refused_parameter("labels.shape", value=(2, 2)),
        ),
        (
            np.zeros((3, 2)),
            np.zeros(3, bool),
            0,
            refused_parameter("labels.shape", value=(3,)),
        ),
        (np.zeros(3), np.zeros((3, 2), bool), 0, refused_parameter("inputs.shape", value=(3,))),
        (
            np.full((3, 2), np.inf),
            np.zeros((3, 2), bool),
            0,
            refused_parameter("inputs[0, 0]", rule_words="finite"),
        ),
        (np.zeros((3, 2)), np.zeros((3, 2), bool), -1, refused_parameter("seed", value=-1)),
    ],
)
def test_impossible_rows_are_refused(student, inputs, labels, seed, refusal):
    """Labels of another type, shape or number, infinite inputs or inputs of another shape, and seed -1 are refused."""
    with refusal:
        student.fit(inputs.astype(np.float32), labels=labels, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("compute_score", [micro_f1, accuracy])
def test_the_threshold_has_the_best_score(compute_score):
    """The chosen threshold has the best score of 100 thresholds, in micro F1 and in accuracy."""
    rng = np.random.default_rng(0)
    labels = rng.random((40, 5)) < 0.2
    probabilities = (labels * 0.3 + rng.random((40, 5)) * 0.6).round(2)  # with ties
    threshold = best_threshold(probabilities, labels=labels, metric=compute_score.__name__)
    grid = np.linspace(start=0.005, stop=0.995, num=100)
    scores = [
        compute_score(labels=labels, predicted=probabilities >= grid_threshold)
        for grid_threshold in grid
    ]
    assert compute_score(labels=labels, predicted=probabilities >= threshold) == pytest.approx(
        max(scores)
    )


@pytest.mark.parametrize(
    "student",
    [LinearStudent(), LogisticStudent(), MLPStudent(hidden=8, epochs=30)],
    ids=["linear", "logistic", "mlp"],
)
@pytest.mark.parametrize("threshold_rule", ["micro_f1", "accuracy", "prevalence"])
def test_each_label_can_have_its_own_threshold(
    student, threshold_rule, make_rows, held_out, tmp_path
):
    """With a threshold for each of six labels, six different thresholds are chosen, stored and used.

    By prevalence, each label is predicted as often as in the training rows, within 0.15.
    """
    rows = make_rows(size=300)
    student_with_thresholds = replace(student, threshold=threshold_rule, threshold_each_label=True)
    model = student_with_thresholds.fit(rows.inputs, labels=rows.labels, seed=0)
    assert len(set(model.threshold)) == 6 == len(model.threshold)
    model.save(tmp_path)
    loaded = StudentModel.load(tmp_path)
    assert loaded.threshold == model.threshold
    predicted = loaded.predict(held_out.inputs)
    assert (
        predicted == (model.predict_proba(held_out.inputs) >= np.float32(model.threshold))
    ).all()
    if threshold_rule == "prevalence":
        np.testing.assert_allclose(predicted.mean(axis=0), rows.labels.mean(axis=0), atol=0.15)


@pytest.fixture
def student_folder(rows, tmp_path):
    """Returns the folder of a trained linear student."""
    LinearStudent().fit(rows.inputs, labels=rows.labels, seed=0).save(tmp_path / "student")
    return tmp_path / "student"


def test_the_folder_holds_two_plain_files_and_names_an_unknown_kind(student_folder):
    """A student is stored as a card (facts in JSON) and a file of arrays. An unknown kind in the card is refused."""
    assert sorted(path.name for path in student_folder.iterdir()) == [
        "student.json",
        "student.safetensors",
    ]
    card = json.loads((student_folder / "student.json").read_text())
    assert (card["kind"], card["num_rows"], card["input_shape"]) == ("linear", 120, [15])
    assert 0 < card["threshold"] <= 1
    (student_folder / "student.json").write_text(json.dumps({**card, "kind": "linaer"}))
    with refused_parameter("kind", value="linaer"):
        StudentModel.load(student_folder)


def test_a_failed_save_keeps_the_earlier_student(student_folder, make_rows, monkeypatch):
    """If the disk is full while another student is saved, the earlier one stays. The next save succeeds."""

    def raise_disk_full(_descriptor):
        raise OSError(28, "No space left on device")

    before = {path.name: path.read_bytes() for path in student_folder.iterdir()}
    other_rows = make_rows(size=50, seed=3)
    other_model = LinearStudent().fit(other_rows.inputs, labels=other_rows.labels, seed=0)
    with monkeypatch.context() as patched, pytest.raises(OSError, match="No space left"):
        patched.setattr("os.fsync", raise_disk_full)
        other_model.save(student_folder)
    assert {path.name: path.read_bytes() for path in student_folder.iterdir()} == before
    other_model.save(student_folder)
    assert StudentModel.load(student_folder).num_rows == 50


@pytest.mark.parametrize("file_name", ["student.json", "student.safetensors"])
def test_an_incomplete_or_missing_file_is_refused(student_folder, file_name):
    """If a file of a student is cut or missing, the error names the file."""
    path = student_folder / file_name
    rule = rf"^file=.*{file_name}: expected the (card|weights) of a published student \("
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(InvalidValue, match=rule):
        StudentModel.load(student_folder)
    path.unlink()
    with pytest.raises(InvalidValue, match=rule):
        StudentModel.load(student_folder)


@pytest.mark.process
def test_reading_a_student_loads_no_pickle(student_folder):
    """A process in which pickle cannot load anything reads a student and predicts."""
    script = (
        "import sys, builtins, pickle\n"
        "def refuse(*_, **__): raise SystemExit('pickle was used')\n"
        "import pate.student\n"
        "pickle.load = pickle.loads = pickle.Unpickler = refuse\n"
        "import numpy as np\n"
        "model = pate.student.StudentModel.load(sys.argv[1])\n"
        "print(model.predict(np.zeros((2, 15), np.float32)).shape)"
    )
    finished_process = subprocess.run(
        [sys.executable, "-c", script, str(student_folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished_process.stdout.strip() == "(2, 6)", finished_process.stderr


def test_every_kind_can_be_read_before_its_module_is_loaded():
    """`KINDS` names the module of each kind of student that a module of the package defines."""
    texts = {
        file.stem: file.read_text() for file in Path(student_model.__file__).parent.glob("*.py")
    }
    written = {
        kind: home
        for home in texts
        for kind in re.findall(r'^    kind: ClassVar\[str\] = "(\w+)"', texts[home], re.MULTILINE)
    }
    assert written == student_model.KINDS
