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
        label_indices: the indices of the labels, `[group_size]`.
        known_record_mask: true for each record for which these labels are known, bool `[num_records]`; never all false.
    """

    label_indices: NDArray[np.intp]
    known_record_mask: BoolArray


def label_groups(known_label_mask: BoolArray) -> list[LabelGroup]:
    """Returns groups of labels: two labels share a group if they are known for the same records.

    The group with the most labels comes first. A label that is known for no record is in no group.

    Args:
        known_label_mask: which labels are known, bool `[num_records, num_labels]`.
    """
    packed_columns = np.ascontiguousarray(np.packbits(known_label_mask, axis=0).T)
    _, group_of_label, group_sizes = np.unique(
        packed_columns, axis=0, return_inverse=True, return_counts=True
    )
    label_indices_in_group_order = np.argsort(group_of_label.ravel(), kind="stable")
    groups_of_label_indices = np.split(label_indices_in_group_order, np.cumsum(group_sizes)[:-1])
    groups_of_label_indices.sort(key=len, reverse=True)
    return [
        LabelGroup(
            label_indices=label_indices, known_record_mask=known_label_mask[:, label_indices[0]]
        )
        for label_indices in groups_of_label_indices
        if known_label_mask[:, label_indices[0]].any()
    ]
