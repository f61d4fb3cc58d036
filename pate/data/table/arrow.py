"""The package pyarrow, which is optional and loads slowly."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.extras import require_extra


def arrow() -> Any:
    """Returns the module pyarrow with its computing part; raises `MissingPackage` where it is not installed."""
    require_extra("data", "table", "table")
    import pyarrow
    import pyarrow.compute

    return pyarrow


def joined(array: Any) -> Any:
    """Returns an array without chunks: those of a chunked array are joined."""
    return array.combine_chunks() if isinstance(array, arrow().ChunkedArray) else array


def is_missing(array: Any) -> NDArray[np.bool_]:
    """Returns which cells are null, `[n]`."""
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False))


def count_values(words: Any) -> dict[str, int]:
    """Returns how often each word occurs that is not null, in the order of first occurrence."""
    counted = words.drop_null().value_counts()
    values = counted.field("values").to_pylist()
    return dict(zip(values, counted.field("counts").to_pylist(), strict=True))


def codes_among(words: Any, categories: Any) -> NDArray[np.int64]:
    """Returns the place of each word `[n]` among the categories, -1 where it is none of them."""
    places = arrow().compute.index_in(words, value_set=categories, skip_nulls=True)
    return np.asarray(places.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
