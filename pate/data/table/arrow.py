"""Helpers for pyarrow, which is optional and loads slowly."""

from functools import cache
from typing import Any

import numpy as np

from pate.array_types import BoolArray, IntArray
from pate.extras import require_extra


@cache  # each look for the package takes longer than a step on a short column
def import_pyarrow() -> Any:
    """Returns the module pyarrow, with `pyarrow.compute` loaded; raises `MissingPackage` if it is not installed."""
    require_extra("tables and DataFrames", extra="table")
    import pyarrow
    import pyarrow.compute

    return pyarrow


def joined(array: Any) -> Any:
    """Returns a pyarrow array as one array: the chunks of a chunked array are joined, any other is unchanged."""
    return array.combine_chunks() if isinstance(array, import_pyarrow().ChunkedArray) else array


def is_null(cells: Any) -> BoolArray:
    """Returns whether each cell of a pyarrow array is null, bool `[num_cells]`."""
    return np.asarray(cells.is_null().to_numpy(zero_copy_only=False))


def count_values(words: Any) -> dict[str, int]:
    """Returns the number of occurrences of each word in a pyarrow array, in the order of first occurrence.

    Null cells are not counted.
    """
    counted = words.drop_null().value_counts()
    values = counted.field("values").to_pylist()
    return dict(zip(values, counted.field("counts").to_pylist(), strict=True))


def codes_among(words: Any, categories: Any) -> IntArray:
    """Returns the index of each word in a list of categories, int64 `[num_words]`.

    The index is -1 for a null and for a word that is not in the list.

    Args:
        words: a pyarrow array of words.
        categories: a pyarrow array of distinct words.
    """
    codes = import_pyarrow().compute.index_in(words, value_set=categories, skip_nulls=True)
    return np.asarray(codes.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
