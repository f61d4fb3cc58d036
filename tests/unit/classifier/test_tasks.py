"""Labels as bits and back."""

from typing import Any

import numpy as np
import pytest

from pate.classifier.tasks import LabelSets, OneClass, Task, task_of
from tests.refusals import ANY, Refusal, refused


@pytest.mark.parametrize("y", [["x", "z", "y"], [5, 9, 7], [True, False, True]])
def test_a_vector_of_labels_is_one_class_per_sample(y: list[Any]) -> None:
    """A vector of three labels becomes three classes in sorted order, one bit a sample, and is decoded back."""
    task, bits = task_of(np.array(y), classes=None)
    assert task.classes.tolist() == sorted(set(y))
    assert bits.sum(axis=1).tolist() == [1, 1, 1]
    assert task.decode(bits).tolist() == y


@pytest.mark.parametrize(
    ("y", "classes", "refusal"),
    [
        ([1, 1], None, refused("len(classes)", value=1)),
        ([1, 2], [1, 3], refused("y[1]", rule="classes that")),
        (
            [[0, 1], [1, 0]],
            [0, 1],
            refused("classes", value="[0, 1]"),
        ),
        (
            [[1, 2], [2, 1]],
            None,
            refused("y[0, 1]", rule="0 and"),
        ),
        (
            [[0, 1], [1, None]],
            None,
            refused("y.dtype", value=ANY, rule="labels of"),
        ),
        (
            ["a", "b", None],
            None,
            refused("y.dtype", value=ANY, rule="labels of"),
        ),
        ([[1, 2], [3, 1]], None, refused("y", value="multiclass-multioutput")),
        (
            [["no", "yes"], ["yes", "no"]],
            None,
            refused("y", value="multiclass-multioutput"),
        ),
    ],
)
def test_impossible_labels_are_refused(
    y: list[Any], classes: list[Any] | None, refusal: Refusal
) -> None:
    """Labels that are one class only, no bits, missing or not among the classes are refused."""
    with refusal:
        task_of(np.array(y), classes)


@pytest.mark.parametrize("kind", [set, list, tuple, frozenset])
def test_sets_of_words_are_encoded_as_labels(kind: Any) -> None:
    """Sets, lists and tuples of words become bits for sorted words, and are decoded to tuples.

    Unknown words, other values and a single text as classes are refused; other labels are no sets.
    """
    y = [kind(["flu", "cold"]), kind([]), kind(["mumps"])]
    task = LabelSets.from_labels(y, classes=None)
    assert task is not None
    assert task.classes.tolist() == ["cold", "flu", "mumps"]
    assert task.decode(task.encode(y).astype(bool)) == [("cold", "flu"), (), ("mumps",)]
    with refused("y[2]", rule="words among the"):
        LabelSets(words=["flu", "cold"]).encode(y)
    with refused("y[1]", rule="a set of"):
        LabelSets.from_labels([kind(["flu"]), 3], classes=None)
    with refused("classes", value="flu"):
        LabelSets.from_labels(y, classes="flu")
    assert all(
        LabelSets.from_labels(other, classes=None) is None
        for other in ([[0, 1], [1, 0]], ["flu", "cold"], "flu", np.eye(2), [])
    )


def test_a_student_of_classes_uses_answers_with_one_class_alone() -> None:
    """Of four released answers, a task of classes uses those with one bit. A task of labels uses all."""
    labels = np.array([[1, 0], [0, 0], [1, 1], [0, 1]], dtype=bool)
    assert OneClass(names=np.arange(2)).is_usable(labels).tolist() == [True, False, False, True]
    assert Task(count=2).is_usable(labels).all()
