import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from pate.student import LinearStudent, LogisticStudent, MLPStudent, StudentModel
from pate.student.student import best_threshold, matched_threshold
from pate.validation import InvalidValue


def test_a_hand_worked_case():
    probabilities = np.array([[0.9, 0.8], [0.6, 0.2], [0.4, 0.1]])
    labels = np.array([[1, 1], [0, 0], [1, 0]], bool)
    # predicting the top 2: F1 = 4/5; the top 4: 6/7; fewer or more do worse
    assert best_threshold(probabilities, labels) == pytest.approx(0.3)
    assert best_threshold(probabilities, labels, metric="accuracy") == pytest.approx(0.7)


def accuracy(labels, predicted):
    return accuracy_score(labels.ravel(), predicted.ravel())


def micro_f1(labels, predicted):
    return f1_score(labels, predicted, average="micro")


@pytest.mark.parametrize("metric", [micro_f1, accuracy])
def test_no_threshold_does_better(metric):
    rng = np.random.default_rng(0)
    labels = rng.random((40, 5)) < 0.2
    probabilities = (labels * 0.3 + rng.random((40, 5)) * 0.6).round(2)  # with ties
    threshold = best_threshold(probabilities, labels, metric=metric.__name__)
    others = [metric(labels, probabilities >= t) for t in np.linspace(0.005, 0.995, 100)]
    assert metric(labels, probabilities >= threshold) == pytest.approx(max(others))


def test_stays_above_zero_and_has_a_default():
    assert best_threshold(np.array([[0.0, 0.0]]), np.array([[True, True]])) > 0
    assert best_threshold(np.zeros((3, 2)), np.zeros((3, 2), bool)) == 0.5


def test_matches_a_number_of_labels():
    probabilities = np.linspace(0, 1, 100).reshape(25, 4)
    assert (probabilities >= matched_threshold(probabilities, 1.0)).sum() == 25
    assert matched_threshold(probabilities, 9.0) == 1e-3


@pytest.mark.parametrize("student", [LinearStudent, LogisticStudent, MLPStudent])
@pytest.mark.parametrize("rule", ["micro_f1", "accuracy", "prevalence"])
def test_each_label_can_have_its_own(student, rule, make_rows, held_out, tmp_path):
    rows = make_rows(300)
    given = {"hidden": 8, "epochs": 30} if student is MLPStudent else {}
    model = student(threshold=rule, threshold_each_label=True, **given).fit(*rows, seed=0)
    assert len(set(model.threshold)) == 6 == len(model.threshold)
    model.save(tmp_path)
    loaded = StudentModel.load(tmp_path)
    assert loaded.threshold == model.threshold
    predicted = loaded.predict(held_out[0])
    assert (predicted == (model.predict_proba(held_out[0]) >= np.float32(model.threshold))).all()
    if rule == "prevalence":
        np.testing.assert_allclose(predicted.mean(axis=0), rows[1].mean(axis=0), atol=0.15)


def test_rules_differ_and_a_number_is_taken_as_it_is(make_rows, held_out):
    rows = make_rows(300)
    placed = {
        rule: LinearStudent(threshold=rule).fit(*rows, seed=0).threshold for rule in ("micro_f1", "accuracy", 0.7)
    }
    assert placed["accuracy"] > placed["micro_f1"]
    assert placed[0.7] == 0.7
    share = LinearStudent(threshold="prevalence").fit(*rows, seed=0).predict(held_out[0]).mean()
    assert share == pytest.approx(rows[1].mean(), abs=0.02)


def test_numbers_for_each_label_are_taken_as_they_are(make_rows, held_out):
    given = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    for student in (LinearStudent(threshold=given), LogisticStudent(threshold=tuple(given))):
        model = student.fit(*make_rows(300), seed=0)
        assert model.threshold == tuple(given)
        probabilities = model.predict_proba(held_out[0])
        assert (model.predict(held_out[0]) == (probabilities >= np.float32(given))).all()
        student.check((4,), 6)
        with pytest.raises(InvalidValue, match="threshold=6 numbers: expected one for each of 7 labels"):
            student.check((4,), 7)


@pytest.mark.parametrize("wrong", ["f1", 0, 1.5, True, float("nan"), [], [0.5, 2.0], ["micro_f1"]])
def test_refuses_another_rule(wrong):
    with pytest.raises(InvalidValue, match="threshold"):
        LinearStudent(threshold=wrong)
