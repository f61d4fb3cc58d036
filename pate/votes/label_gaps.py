"""This module stores labels of which some are unknown (gaps) in one array: 1, 0, or -1 where a label is unknown.

Teachers that vote in rounds read the labels of their records in this form. Source: docs/proofs/label_gaps.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray

UNKNOWN = -1
"""The number that stands for an unknown label."""

GapLabels = BoolArray | NDArray[np.int8]
"""Labels of records: bool without gaps, or int8 of 0, 1 and `UNKNOWN`."""


def labels_with_gaps(record_labels: BoolArray, *, known_label_mask: BoolArray | None) -> GapLabels:
    """Returns labels as int8 `[n, num_labels]`: 0, 1, or -1 (`UNKNOWN`) where `known_label_mask` is False.

    If `known_label_mask` is None, the array of labels itself is returned.

    Args:
        record_labels: bool `[n, num_labels]`.
        known_label_mask: which labels are known, bool `[n, num_labels]`; None if they have no gaps.
    """
    if known_label_mask is None:
        return record_labels
    gap_labels = record_labels.astype(np.int8)
    gap_labels[~known_label_mask] = UNKNOWN
    return gap_labels


def zero_where_unknown(values: NDArray[Any], *, gap_labels: GapLabels) -> NDArray[Any]:
    """Sets values to 0 where labels are unknown, in place, and returns them.

    Args:
        values: `[n, num_labels]`, one number for each label.
        gap_labels: the labels, `[n, num_labels]`.
    """
    if gap_labels.dtype != np.bool_:
        values[gap_labels == UNKNOWN] = 0
    return values
