"""Labels as bits and back."""

from typing import Any

import numpy as np
import pytest

from pate.classifier.samples import LabelSets, OneClass, Task, task_of
from pate.validation import InvalidValue
from tests.refusals import refused


@pytest.mark.parametrize("y", [["x", "z", "y"], [5, 9, 7], [True, False, True]])
def test_a_vector_holds_classes(y: list[Any]) -> None:
    task, bits = task_of(np.array(y), None)
    assert task.classes.tolist() == sorted(set(y))
    assert bits.sum(axis=1).tolist() == [1, 1, 1]
    assert task.decode(bits).tolist() == y


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        ([1, 1], None, r"len\(classes\)=1: expected at least two, found 1 class"),
        ([1, 2], [1, 3], r"y\[\d\]: expected one of the classes that were given"),
        (
            [[0, 1], [1, 0]],
            [0, 1],
            r"classes=\[0, 1\]: expected None where y has a column for each label",
        ),
        (
            [[1, 2], [2, 1]],
            None,
            r"y\[\d, \d\]: expected 0 and 1 where y has a column for each label",
        ),
        (
            [[0, 1], [1, None]],
            None,
            r"y\.dtype=object: expected labels of one kind, numbers or words, none missing",
        ),
        (
            ["a", "b", None],
            None,
            r"y\.dtype=object: expected labels of one kind, numbers or words, none missing",
        ),
        ([[1, 2], [3, 1]], None, r"y=multiclass-multioutput: expected classes \[n\], or 0 and 1"),
        (
            [["no", "yes"], ["yes", "no"]],
            None,
            r"y=multiclass-multioutput: .*; \(y == 'yes'\)\.astype\(int\) makes",
        ),
    ],
)
def test_what_cannot_be_a_task_is_named(
    y: list[Any], classes: list[Any] | None, message: str
) -> None:
    with pytest.raises(InvalidValue, match=message):
        task_of(np.array(y), classes)


@pytest.mark.parametrize("kind", [set, list, tuple, frozenset])
def test_sets_of_words_are_labels(kind: Any) -> None:
    y = [kind(["flu", "cold"]), kind([]), kind(["mumps"])]
    task = LabelSets.of(y, None)
    assert task is not None
    assert task.classes.tolist() == ["cold", "flu", "mumps"]
    assert task.decode(task.encode(y).astype(bool)) == [("cold", "flu"), (), ("mumps",)]
    with refused("y[2]", rule="words among the"):
        LabelSets(["flu", "cold"]).encode(y)
    with refused("y[1]", rule="a set of"):
        LabelSets.of([kind(["flu"]), 3], None)
    with refused("classes", "flu"):
        LabelSets.of(y, "flu")
    assert all(
        LabelSets.of(other, None) is None
        for other in ([[0, 1], [1, 0]], ["flu", "cold"], "flu", np.eye(2), [])
    )


def test_a_student_of_one_class_learns_from_answers_that_name_one() -> None:
    labels = np.array([[1, 0], [0, 0], [1, 1], [0, 1]], dtype=bool)
    assert OneClass(np.arange(2)).usable(labels).tolist() == [True, False, False, True]
    assert Task(2).usable(labels).all()
