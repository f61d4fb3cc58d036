"""Readers of labels of public samples, from which the student of a fit starts, and of labels of test records.

Both have the same form as the private labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pate.classifier.inputs import as_series_if_one_column, dense, require_samples
from pate.classifier.missing_labels import require_labels, without_gaps
from pate.classifier.tasks import LabelSets, OneClass, Task
from pate.validation import InvalidValue, require, require_array, require_entries
from pate.votes.label_gaps import GapLabels, labels_with_gaps


def read_public_labels(
    y_public: Any, label_task: Task, *, num_public: int, classes_are_stated: bool
) -> GapLabels:
    """Returns labels of the first public samples, bool `[num_labeled, num_labels]`, or int8 if some are unknown.

    Args:
        y_public: the labels, in the form of the private labels.
        label_task: the kind of labels of the fit.
        num_public: the number of public samples.
        classes_are_stated: whether the user passed `classes`.

    Raises:
        InvalidValue: the labels have another form than the private ones. Or there are no labels, or none is 1, or there
            are labels of more samples than the public ones. Or they are words or classes, and the user passed no
            `classes`.
    """
    if label_task.reads_classes and not classes_are_stated:
        rule = "None without classes=[…]: an error about a class that no private record has would reveal that"
        raise InvalidValue("y_public", "given", rule=rule)
    labels = read_labels("y_public", y_public, label_task)
    if not 1 <= len(labels) <= num_public:
        rule = f"labels of 1 to {num_public} samples, the first of X_public"
        raise InvalidValue("len(y_public)", len(labels), rule=rule)
    if not (labels == 1).any():
        rule = "at least one label that a sample has, or None"
        raise InvalidValue("y_public", "no label is 1", rule=rule)
    return labels


def read_labels(name: str, y: Any, label_task: Task) -> GapLabels:
    """Returns labels of samples, bool `[num_samples, num_labels]`, or int8 if some may be unknown (`UNKNOWN`).

    Args:
        name: the name of the parameter that holds the labels.
        y: the labels, in the form of the private labels.
        label_task: the kind of labels of the fit.

    Raises:
        InvalidValue: the labels have another form than the private ones, or are none of their words or classes.
    """
    require_samples(name, y)
    y_without_gaps, known_label_mask = without_gaps(as_series_if_one_column(y))
    require(
        hasattr(y_without_gaps, "__len__"), name, type(y_without_gaps).__name__, "labels of samples"
    )
    if isinstance(label_task, LabelSets):
        try:
            return label_task.encode(y_without_gaps).astype(np.bool_)
        except InvalidValue as error:
            raise InvalidValue(name, error.value, rule=error.rule) from None
    if isinstance(label_task, OneClass):
        class_of_sample = require_array(name, dense(y_without_gaps), dtype_kinds=None)
        require(
            class_of_sample.ndim == 1,
            f"{name}.shape",
            class_of_sample.shape,
            "one class for each sample",
        )
        require_labels(class_of_sample, name=name)
        one_hot = class_of_sample[:, None] == label_task.classes
        require_entries(name, one_hot.any(axis=1), rule="classes among those of classes=")
        return np.asarray(one_hot)
    bits = require_array(name, dense(y_without_gaps))
    expected_shape = (len(bits), label_task.num_labels)
    rule = f"{expected_shape}, the labels of y"
    require(bits.shape == expected_shape, f"{name}.shape", bits.shape, rule)
    require_entries(name, (bits == 0) | (bits == 1), rule="0, 1 or NaN")
    return labels_with_gaps(bits.astype(np.bool_), known_label_mask=known_label_mask)
