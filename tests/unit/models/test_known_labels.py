"""Models of labels with gaps learn from the known ones alone."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from pate.aggregators.training_set import TrainingSet
from pate.models import (
    CNNTeacher,
    LinearStudent,
    LinearTeacher,
    LogisticStudent,
    MLPStudent,
    MLPTeacher,
    SklearnTeacher,
    Student,
    Teacher,
)
from pate.models.shards import Shard

RNG = np.random.default_rng(7)
INPUTS = RNG.normal(size=(400, 3)).astype(np.float32)
LABELS = INPUTS[:, :2] + 0.3 * RNG.normal(size=(400, 2)) > 0.5
KNOWN = RNG.random((400, 2)) < [0.4, 1.0]


def test_a_student_of_known_labels_ignores_what_unknown_ones_would_be() -> None:
    """The model is the same for any values of unknown labels, and right where they are unknown."""
    student = LogisticStudent()
    no_pool = INPUTS[:0]
    models = [
        student.learn(TrainingSet(INPUTS, labels, known=KNOWN), pool=no_pool, seed=0)
        for labels in (LABELS & KNOWN, LABELS | ~KNOWN)
    ]
    predictions = [model.predict_proba(INPUTS) for model in models]
    # the optimizer's losses differ by a constant of each unknown label
    np.testing.assert_allclose(predictions[0], predictions[1], atol=0.02)
    as_absent = student.fit(INPUTS, LABELS & KNOWN, seed=0).predict_proba(INPUTS)
    hidden = ~KNOWN[:, 0]
    right = ((predictions[0] >= 0.5) == LABELS)[hidden, 0].mean()
    assert right > 0.85 > ((as_absent >= 0.5) == LABELS)[hidden, 0].mean()


@pytest.mark.slow
@pytest.mark.parametrize("student", [LogisticStudent(), MLPStudent(epochs=5), LinearStudent()])
def test_students_of_true_labels_may_have_gaps(student: Student) -> None:
    """Every student learns from labels with gaps, and predicts all labels."""
    training = TrainingSet(INPUTS, LABELS & KNOWN, known=KNOWN)
    model = student.learn(training, pool=INPUTS[:0], seed=0)
    assert model.predict(INPUTS).shape == LABELS.shape


TEACHERS = [
    LinearTeacher(device="cpu"),
    MLPTeacher(hidden=4, epochs=2, device="cpu"),
    SklearnTeacher(LogisticRegression()),
    SklearnTeacher(DecisionTreeClassifier(max_depth=2)),
]


@pytest.mark.parametrize("teacher", TEACHERS, ids=str)
def test_a_teacher_reads_no_label_that_is_unknown(teacher: Teacher) -> None:
    """Other values of unknown labels change no confidence of a teacher; those of known ones do."""
    known = KNOWN[:60]
    answers = []
    for labels in (LABELS[:60], LABELS[:60] ^ ~known, ~LABELS[:60]):
        states = teacher.fit_many([Shard(INPUTS[:60], labels, known)], seeds=[3])
        answers.append(teacher.predict_many(states, INPUTS[60:]))
    np.testing.assert_array_equal(answers[0], answers[1])
    assert not np.array_equal(answers[0], answers[2])


@pytest.mark.slow
@pytest.mark.parametrize("stacked", [False, True])
def test_a_network_of_pictures_reads_no_label_that_is_unknown(stacked: bool) -> None:
    """Other values of unknown labels change no weight of a network."""
    teacher = CNNTeacher(width=8, grid=2, epochs=2, batch_size=8, stacked=stacked, device="cpu")
    images = np.random.default_rng(0).random((20, 3, 16, 16)).astype(np.float32)
    known = KNOWN[:20]
    states = [
        teacher.fit_many([Shard(images, labels, known)], seeds=[3])[0]
        for labels in (LABELS[:20], LABELS[:20] ^ ~known, ~LABELS[:20])
    ]
    same = [all(np.array_equal(states[0][name], state[name]) for name in state) for state in states]
    assert same == [True, True, False]


def test_a_linear_teacher_of_a_label_is_fitted_to_the_records_that_know_it() -> None:
    """Its weights are those of a teacher that has no other records, however shards are stacked."""
    teacher = LinearTeacher(threshold=0.5, device="cpu")
    shard = Shard(INPUTS[:60], LABELS[:60] & KNOWN[:60], KNOWN[:60])
    other = Shard(INPUTS[60:90], LABELS[60:90], np.ones((30, 2), np.bool_))
    state = teacher.fit_many([shard, other], seeds=[0, 1])[0]
    rows = KNOWN[:60, 0]
    alone = teacher.fit_many([Shard(INPUTS[:60][rows], LABELS[:60][rows])], seeds=[0])[0]
    for name in ("weights", "bias"):
        np.testing.assert_allclose(state[name][..., 0], alone[name][..., 0], rtol=1e-5)


@pytest.mark.parametrize("teacher", TEACHERS, ids=str)
def test_a_teacher_may_know_nothing_of_a_label(teacher: Teacher) -> None:
    """A label that no record of a shard knows is learned by nobody, and the others as ever."""
    known = np.array([[False, True]]).repeat(60, axis=0)
    states = teacher.fit_many([Shard(INPUTS[:60], LABELS[:60] & known, known)], seeds=[3])
    confidences = teacher.predict_many(states, INPUTS[60:])
    assert np.isfinite(confidences).all()
