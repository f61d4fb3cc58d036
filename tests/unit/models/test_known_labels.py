"""Models whose training labels have gaps learn from the known labels alone."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from pate.aggregators.training_set import TrainingSet
from pate.array_types import BoolArray
from pate.models import (
    CNNStudent,
    CNNTeacher,
    LinearStudent,
    LinearTeacher,
    LogisticStudent,
    LowRankStudent,
    MLPStudent,
    MLPTeacher,
    SklearnTeacher,
    Student,
    Teacher,
)
from pate.models.label_groups import label_groups
from pate.models.shards import Shard

RNG = np.random.default_rng(7)
INPUTS = RNG.normal(size=(400, 3)).astype(np.float32)
LABELS = INPUTS[:, :2] + 0.3 * RNG.normal(size=(400, 2)) > 0.5
KNOWN = RNG.random((400, 2)) < [0.4, 1.0]


STUDENTS = [
    LogisticStudent(),
    LinearStudent(),
    LinearStudent(rank=2, threshold="prevalence"),
    LowRankStudent(),
]


@pytest.mark.parametrize("student", STUDENTS, ids=str)
def test_a_student_ignores_unknown_labels(student: Student) -> None:
    """A student learns the share of a label among the rows where it is unknown, from the other rows.

    The error of the share is less than half of that of a student that takes unknown labels as absent.
    """
    model = student.learn(
        TrainingSet(inputs=INPUTS, labels=LABELS & KNOWN, known=KNOWN), pool=INPUTS[:0], seed=0
    )
    model_with_unknown_as_absent = student.fit(INPUTS, labels=LABELS & KNOWN, seed=0)
    hidden = ~KNOWN[:, 0]

    def error_of_label_share(predicted: BoolArray) -> float:
        """Returns the distance of the predicted and the true share of label 0, over the rows where it is hidden."""
        return float(abs(predicted[hidden, 0].mean() - LABELS[hidden, 0].mean()))

    assert error_of_label_share(predicted=model.predict(INPUTS)) < 0.5 * error_of_label_share(
        predicted=model_with_unknown_as_absent.predict(INPUTS)
    )


def test_values_of_unknown_labels_do_not_change_a_logistic_student() -> None:
    """The probabilities of a logistic student differ by at most 0.02 for different values of unknown labels."""
    models = [
        LogisticStudent().learn(
            TrainingSet(inputs=INPUTS, labels=labels, known=KNOWN), pool=INPUTS[:0], seed=0
        )
        for labels in (LABELS & KNOWN, LABELS | ~KNOWN)
    ]
    predictions = [model.predict_proba(INPUTS) for model in models]
    # The losses that the optimizer compares differ by a constant for each unknown label.
    np.testing.assert_allclose(predictions[0], predictions[1], atol=0.02)


def test_a_linear_student_of_a_label_is_fitted_to_the_rows_that_know_it() -> None:
    """With one penalty, a linear student predicts a label as one that is fitted only to rows that know the label."""
    student = LinearStudent(penalties=(1.0,), threshold=0.5)
    labels = LABELS & KNOWN
    model = student.learn(
        TrainingSet(inputs=INPUTS, labels=labels, known=KNOWN), pool=INPUTS[:0], seed=0
    )
    rows_that_know_label = KNOWN[:, 0]
    model_of_known_rows = student.fit(
        INPUTS[rows_that_know_label], labels=labels[rows_that_know_label], seed=0
    )
    np.testing.assert_allclose(
        model.predict_proba(INPUTS)[:, 0],
        model_of_known_rows.predict_proba(INPUTS)[:, 0],
        atol=1e-5,
    )


def test_a_linear_student_without_gaps_in_its_mask_is_one_without_a_mask() -> None:
    """A linear student with a mask without gaps is that without a mask: all labels share one regression on all rows."""
    known = np.ones_like(KNOWN)
    student = LinearStudent(rank=1)
    model_with_mask = student.learn(
        TrainingSet(inputs=INPUTS, labels=LABELS, known=known), pool=INPUTS[:0], seed=0
    )
    model_without_mask = student.fit(INPUTS, labels=LABELS, seed=0)
    np.testing.assert_allclose(
        model_with_mask.predict_proba(INPUTS), model_without_mask.predict_proba(INPUTS), atol=1e-5
    )


def test_a_student_never_predicts_a_label_that_no_row_knows() -> None:
    """A student never predicts a label that no row knows, and learns one that all rows know."""
    known = np.array([[False, True]]).repeat(len(INPUTS), axis=0)
    for student in STUDENTS:
        training_set = TrainingSet(inputs=INPUTS, labels=LABELS & known, known=known)
        predicted = student.learn(training_set, pool=INPUTS[:0], seed=0).predict(INPUTS)
        assert not predicted[:, 0].any()
        assert (predicted == LABELS)[:, 1].mean() > 0.8


@pytest.mark.slow
def test_an_mlp_student_reads_no_label_that_is_unknown() -> None:
    """The probabilities of an MLP student do not depend on the values of unknown labels, but on those of known labels.

    Before the first step, the mean probability of a label is near its share among the rows that know the label.
    """
    first_probabilities, other_unknown, other_known = (
        MLPStudent(epochs=5)
        .learn(TrainingSet(inputs=INPUTS, labels=labels, known=KNOWN), pool=INPUTS[:0], seed=0)
        .predict_proba(INPUTS)
        for labels in (LABELS & KNOWN, LABELS | ~KNOWN, ~LABELS)
    )
    np.testing.assert_array_equal(other_unknown, first_probabilities)
    assert not np.allclose(other_known, first_probabilities, atol=0.1)
    untrained_model = MLPStudent(epochs=1, learning_rate=1e-9).learn(
        TrainingSet(inputs=INPUTS, labels=LABELS & KNOWN, known=KNOWN), pool=INPUTS[:0], seed=0
    )
    known_shares = (LABELS & KNOWN).sum(axis=0) / KNOWN.sum(axis=0)
    mean_probabilities = untrained_model.predict_proba(INPUTS).mean(axis=0)
    np.testing.assert_allclose(mean_probabilities, known_shares, atol=0.02)


@pytest.mark.slow
def test_a_student_for_pictures_reads_no_label_that_is_unknown() -> None:
    """A student for images has the same arrays if unknown labels change, and others if known labels change."""
    images = np.random.default_rng(0).random((30, 3, 8, 8)).astype(np.float32)
    known = KNOWN[:30]
    labels = LABELS[:30]
    student = CNNStudent(width=8, grid=2, patch=2, blocks=1, epochs=2, folds=2, device="cpu")
    models = [
        student.learn(
            TrainingSet(inputs=images, labels=labels_of_run, known=known), pool=images[:4], seed=0
        )
        for labels_of_run in (labels, labels ^ ~known, ~labels)
    ]
    same = [
        all(np.array_equal(models[0].arrays[name], model.arrays[name]) for name in model.arrays)
        for model in models
    ]
    assert same == [True, True, False]


TEACHERS = [
    LinearTeacher(device="cpu"),
    MLPTeacher(hidden=4, epochs=2, device="cpu"),
    SklearnTeacher(LogisticRegression()),
    SklearnTeacher(DecisionTreeClassifier(max_depth=2)),
]


@pytest.mark.parametrize("teacher", TEACHERS, ids=str)
def test_a_teacher_reads_no_label_that_is_unknown(teacher: Teacher) -> None:
    """The confidences of a teacher do not depend on the values of unknown labels, but on those of known labels."""
    known = KNOWN[:60]
    confidences_of_trainings = []
    for labels in (LABELS[:60], LABELS[:60] ^ ~known, ~LABELS[:60]):
        states = teacher.fit_many(
            shards=[Shard(inputs=INPUTS[:60], labels=labels, known=known)], seeds=[3]
        )
        confidences_of_trainings.append(teacher.predict_many(states=states, inputs=INPUTS[60:]))
    np.testing.assert_array_equal(confidences_of_trainings[0], confidences_of_trainings[1])
    assert not np.array_equal(confidences_of_trainings[0], confidences_of_trainings[2])


@pytest.mark.slow
@pytest.mark.parametrize("stacked", [False, True])
def test_a_network_of_pictures_reads_no_label_that_is_unknown(stacked: bool) -> None:
    """The weights of a network for images stay the same if unknown labels change, but not if known labels change."""
    teacher = CNNTeacher(width=8, grid=2, epochs=2, batch_size=8, stacked=stacked, device="cpu")
    images = np.random.default_rng(0).random((20, 3, 16, 16)).astype(np.float32)
    known = KNOWN[:20]
    states = [
        teacher.fit_many(shards=[Shard(inputs=images, labels=labels, known=known)], seeds=[3])[0]
        for labels in (LABELS[:20], LABELS[:20] ^ ~known, ~LABELS[:20])
    ]
    same = [all(np.array_equal(states[0][name], state[name]) for name in state) for state in states]
    assert same == [True, True, False]


def test_a_linear_teacher_of_a_label_is_fitted_to_the_records_that_know_it() -> None:
    """A linear teacher has the weights, for a label, of a teacher that has only the records that know this label.

    The first teacher is stacked with one of another shard, and the second is alone.
    """
    teacher = LinearTeacher(threshold=0.5, device="cpu")
    shard = Shard(inputs=INPUTS[:60], labels=LABELS[:60] & KNOWN[:60], known=KNOWN[:60])
    other_shard = Shard(
        inputs=INPUTS[60:90], labels=LABELS[60:90], known=np.ones((30, 2), np.bool_)
    )
    state_from_all_rows = teacher.fit_many(shards=[shard, other_shard], seeds=[0, 1])[0]
    first_label = 0
    rows_that_know_label = KNOWN[:60, first_label]
    state_from_known_rows = teacher.fit_many(
        shards=[
            Shard(
                inputs=INPUTS[:60][rows_that_know_label], labels=LABELS[:60][rows_that_know_label]
            )
        ],
        seeds=[0],
    )[0]
    for name in ("weights", "bias"):
        np.testing.assert_allclose(
            state_from_all_rows[name][..., first_label],
            state_from_known_rows[name][..., first_label],
            rtol=1e-5,
        )


@pytest.mark.parametrize("teacher", TEACHERS, ids=str)
def test_a_teacher_may_know_nothing_of_a_label(teacher: Teacher) -> None:
    """A teacher none of whose records know a label has finite confidences in all labels."""
    known = np.array([[False, True]]).repeat(60, axis=0)
    states = teacher.fit_many(
        shards=[Shard(inputs=INPUTS[:60], labels=LABELS[:60] & known, known=known)], seeds=[3]
    )
    confidences = teacher.predict_many(states=states, inputs=INPUTS[60:])
    assert np.isfinite(confidences).all()


def test_labels_known_for_the_same_records_are_one_group() -> None:
    """Labels that are known for the same records are one group, and the group of the most labels comes first.

    A label that no record knows is in no group.
    """
    known = np.array([[1, 0, 1, 0, 1, 0], [1, 1, 1, 1, 1, 0]], dtype=np.bool_)
    largest, smallest = label_groups(known)
    assert largest.label_indices.tolist() == [0, 2, 4]
    assert largest.known_record_mask.tolist() == [True, True]
    assert smallest.label_indices.tolist() == [1, 3]
    assert smallest.known_record_mask.tolist() == [False, True]
