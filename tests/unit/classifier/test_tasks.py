"""The tasks of a fit: labels of several forms are encoded as bits, and bits are decoded to labels."""

from typing import Any

import numpy as np
import pytest

from pate.classifier.tasks import LabelSets, OneClass, Task, task_of
from tests.refusals import ANY, Refusal, refused_parameter


@pytest.mark.parametrize(
    "labels",
    [["x", "z", "y"], [5, 9, 7], [True, False, True]],
    ids=["words", "numbers", "truth values"],
)
def test_a_vector_of_labels_is_one_class_per_sample(labels: list[Any]) -> None:
    """A vector of labels is encoded as bits, of which each sample has one, that of its class, and decoded again.

    The classes are the sorted values of the vector.
    """
    task, bits = task_of(np.array(labels), classes=None)
    assert task.classes.tolist() == sorted(set(labels))
    assert bits.sum(axis=1).tolist() == [1, 1, 1]
    assert task.decode(bits).tolist() == labels


@pytest.mark.parametrize(
    ("labels", "classes", "refusal"),
    [
        pytest.param(
            [1, 1], None, refused_parameter("len(classes)", value=1), id="one class alone"
        ),
        pytest.param(
            [1, 2], [1, 3], refused_parameter("y[1]", rule_words="classes that"), id="unknown class"
        ),
        pytest.param(
            [[0, 1], [1, 0]],
            [0, 1],
            refused_parameter("classes", value="[0, 1]"),
            id="classes for bits",
        ),
        pytest.param(
            [[1, 2], [2, 1]], None, refused_parameter("y[0, 1]", rule_words="0 and"), id="no bits"
        ),
        pytest.param(
            [[0, 1], [1, None]],
            None,
            refused_parameter("y.dtype", value=ANY, rule_words="labels of"),
            id="missing bit",
        ),
        pytest.param(
            ["a", "b", None],
            None,
            refused_parameter("y.dtype", value=ANY, rule_words="labels of"),
            id="missing class",
        ),
        pytest.param(
            [[1, 2], [3, 1]],
            None,
            refused_parameter("y", value="multiclass-multioutput"),
            id="table of numbers",
        ),
        pytest.param(
            [["no", "yes"], ["yes", "no"]],
            None,
            refused_parameter("y", value="multiclass-multioutput"),
            id="table of words",
        ),
    ],
)
def test_impossible_labels_are_refused(
    labels: list[Any], classes: list[Any] | None, refusal: Refusal
) -> None:
    """Labels are refused if they have only one class, are no bits, are missing, or are not among the classes.

    Classes are refused beside bits.
    """
    with refusal:
        task_of(np.array(labels), classes=classes)


@pytest.mark.parametrize("collection_class", [set, list, tuple, frozenset])
def test_sets_of_words_are_encoded_as_bits(collection_class: Any) -> None:
    """Sets, lists and tuples of words become a bit for each word, in sorted order, and are decoded to tuples."""
    word_sets = [
        collection_class(["flu", "cold"]),
        collection_class([]),
        collection_class(["mumps"]),
    ]
    task = LabelSets.from_labels(word_sets, classes=None)
    assert task is not None
    assert task.classes.tolist() == ["cold", "flu", "mumps"]
    bits = task.encode(word_sets).astype(bool)
    assert task.decode(bits) == [("cold", "flu"), (), ("mumps",)]


@pytest.mark.parametrize("collection_class", [set, list, tuple, frozenset])
def test_sets_of_unknown_words_and_other_values_are_refused(collection_class: Any) -> None:
    """A word that is not among the words of a task, a label that is no set, and a text as `classes` are refused."""
    word_sets = [
        collection_class(["flu", "cold"]),
        collection_class([]),
        collection_class(["mumps"]),
    ]
    with refused_parameter("y[2]", rule_words="words among the"):
        LabelSets(words=["flu", "cold"]).encode(word_sets)
    with refused_parameter("y[0]", rule_words="a set of"):
        LabelSets(words=["flu", "cold"]).encode(np.array([1, 0]))
    with refused_parameter("y[1]", rule_words="a set of"):
        LabelSets.from_labels([collection_class(["flu"]), 3], classes=None)
    with refused_parameter("classes", value="flu"):
        LabelSets.from_labels(word_sets, classes="flu")


@pytest.mark.parametrize(
    "labels",
    [[[0, 1], [1, 0]], ["flu", "cold"], "flu", np.eye(2), []],
    ids=["lists of bits", "words", "one word", "array of bits", "no labels"],
)
def test_labels_of_other_forms_are_no_sets_of_words(labels: Any) -> None:
    """`LabelSets.from_labels` returns None for bits, for words, and for no labels at all."""
    assert LabelSets.from_labels(labels, classes=None) is None


def test_a_student_of_classes_uses_answers_with_one_class_alone() -> None:
    """The student of a task of classes uses only released answers with exactly one bit.

    For a task of labels, it uses all answers.
    """
    answers = np.array([[1, 0], [0, 0], [1, 1], [0, 1]], dtype=bool)
    assert OneClass(class_names=np.arange(2)).is_usable(answers).tolist() == [
        True,
        False,
        False,
        True,
    ]
    assert Task(num_labels=2).is_usable(answers).all()
