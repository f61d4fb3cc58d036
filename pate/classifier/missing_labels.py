"""Labels that are missing among private labels.

If each record has several labels, some of them may be missing; `without_gaps` returns which labels are known. If each
record has one class, or one set of words, none may be missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray
from pate.validation import require_entries


def without_gaps(y: Any) -> tuple[Any, BoolArray | None]:
    """Returns labels `[n, num_labels]` with 0 where they are missing, and which ones are known, bool `[n, num_labels]`.

    Missing labels are NaN, None and pandas.NA in arrays, DataFrames and lists of rows, and masked entries of a masked
    array. It is public that labels have gaps, but not which ones.

    The labels are returned unchanged, with None as the second result, if they are no masked array and no label is
    missing. So are labels with fewer than two columns, and labels of which an entry is no number.

    Args:
        y: the labels as the user passes them.
    """
    is_masked = isinstance(y, np.ma.MaskedArray)
    label_rows = _rows_as_array(y)
    if label_rows is None:
        return y, None
    may_hold_nan = label_rows.dtype.kind in ("f", "O")
    if not (may_hold_nan or is_masked):
        return y, None
    label_cells = np.ma.getdata(label_rows)
    is_missing = np.ma.getmaskarray(label_rows).copy()
    if label_cells.dtype.kind == "f":
        is_missing |= np.isnan(label_cells)
    elif label_cells.dtype.kind == "O":
        missing_cells = [is_missing_label(cell) for cell in label_cells.flat]
        is_missing |= np.array(missing_cells, np.bool_).reshape(label_cells.shape)
    if not is_missing.any() and not is_masked:
        return y, None
    filled_labels = label_cells.copy()
    filled_labels[is_missing] = 0
    try:
        label_numbers = filled_labels.astype(np.float64)
    except (TypeError, ValueError):  # words, which are refused later
        return y, None
    return label_numbers, ~is_missing


def _rows_as_array(y: Any) -> NDArray[Any] | None:
    """Returns labels with two or more columns as an array, `[n, num_labels]`; None for labels of another form."""
    is_frame = hasattr(y, "isna") and hasattr(y, "columns")
    label_rows = y.to_numpy(object) if is_frame else y
    if isinstance(y, list) and y and isinstance(y[0], (list, tuple, np.ndarray)):
        try:
            label_rows = np.array(y)
        except ValueError:  # rows of several lengths
            return None
    if not isinstance(label_rows, np.ndarray) or label_rows.ndim != 2 or label_rows.shape[1] < 2:
        return None
    return label_rows


def require_labels(y: Any, *, name: str = "y") -> None:
    """Raises `InvalidValue` if a label is missing: None, NaN, NaT or pandas.NA.

    NaN in an array of floats is not found here, as later checks refuse it.

    Args:
        y: the labels, a DataFrame, a Series, an array or a list.
        name: the name of the parameter that holds the labels.
    """
    if hasattr(y, "isna"):
        is_missing = np.asarray(y.isna(), np.bool_)
    elif isinstance(y, np.ndarray) and y.dtype.kind == "O":
        is_missing = np.array([is_missing_label(label) for label in y.flat], np.bool_).reshape(
            y.shape
        )
    elif isinstance(y, list):
        is_missing = np.array([is_missing_label(label) for label in y], np.bool_)
    else:
        return
    require_entries(name, ~is_missing, rule="a label for each record, none missing")


def is_missing_label(value: Any) -> bool:
    """Returns True if a value is None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    try:
        return bool(value != value)  # true of NaN and NaT alone
    # The comparison fails for pandas.NA, and for arrays, which are compared entry by entry.
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"
