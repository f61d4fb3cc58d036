"""Groups of labels that are known for the same records, so that all labels of a group share one regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class LabelGroup:
    """Labels that are known for the same records.

    Attributes:
        labels: the indices of the labels, `[group_size]`.
        known_rows: true for each record for which these labels are known, bool `[num_records]`; never all false.
    """

    labels: NDArray[np.intp]
    known_rows: BoolArray


def label_groups(known: BoolArray) -> list[LabelGroup]:
    """Returns groups of labels: two labels share a group if they are known for the same records.

    The group with the most labels comes first. A label that is known for no record is in no group.

    Args:
        known: which labels are known, bool `[num_records, num_labels]`.
    """
    packed_columns = np.ascontiguousarray(np.packbits(known, axis=0).T)
    _, group_of_label, sizes = np.unique(
        packed_columns, axis=0, return_inverse=True, return_counts=True
    )
    labels_by_group = np.argsort(group_of_label.ravel(), kind="stable")
    groups = np.split(labels_by_group, np.cumsum(sizes)[:-1])
    groups.sort(key=len, reverse=True)
    return [
        LabelGroup(labels=labels, known_rows=known[:, labels[0]])
        for labels in groups
        if known[:, labels[0]].any()
    ]
