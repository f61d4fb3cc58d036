"""The digest of private records as they stand in their file: whatever is made of them, they are the same records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from pate.data.table.cells import arrow, as_texts, with_points

_BETWEEN, _MISSING = "\x1f", "\x00"


def private_cells(batches: Iterable[Any], *, split: str | None, of_text: bool = False) -> str:
    """SHA-256 in hexadecimal of all cells of the private rows, in whatever order they stand. Covered by no epsilon.

    Args:
        batches: of all columns of the file.
        split: the column that says private, public or test; None where all rows are private.
        of_text: whether the cells are words of a CSV file: a decimal comma is a point then, whatever settings say of
            them, so that no setting makes the records new ones.
    """
    from pandas.util import hash_array  # loads slowly

    pa = arrow()
    names: list[str] = []
    rows = []
    for batch in batches:
        if split is not None:
            said = as_texts(batch.column(split)).array
            batch = batch.filter(pa.compute.equal(said, "private").fill_null(False))
        names = sorted(batch.column_names)
        texts = [as_texts(batch.column(name)).array.fill_null(_MISSING) for name in names]
        if of_text:
            texts = [with_points(each) for each in texts]
        lines = pa.compute.binary_join_element_wise(*texts, _BETWEEN)
        rows.append(hash_array(np.array(lines.to_pylist(), dtype=object), categorize=False))
    digest = hashlib.sha256(_BETWEEN.join(names).encode())
    digest.update(np.sort(np.concatenate(rows)).astype("<u8").tobytes())
    return digest.hexdigest()
