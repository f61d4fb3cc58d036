"""Hashes and digests of rows, by which equal rows are recognized in any order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.copies import rounded
from pate.data.table.arrow import import_pyarrow
from pate.data.table.cells import as_texts, digest_cells, digest_texts
from pate.data.table.column import Column
from pate.data.table.number_column import NumberColumn
from pate.data.table.schema import TableSchema
from pate.data.table.spelling import CellSpelling, canonical_words, with_points
from pate.data.table.table_file import NumberedBatch

# The character between the words of two cells, and the word for a missing cell. Cells hardly ever have these
# characters; rows that differ in them alone may have one hash.
_CELL_SEPARATOR = "\x1f"
_MISSING_WORD = "\x00"
# The number of rows that are hashed at once.
_HASHED_ROWS = 2048


def row_fingerprints(batches: Iterable[NumberedBatch], schema: TableSchema) -> NDArray[np.uint64]:
    """Returns a hash of each row, uint64 `[num_rows]`, which is equal for rows whose cells have equal values.

    Only the columns of the schema count. Fractional numbers are rounded to 16 significant bits, as in the search for
    copied inputs.

    Args:
        batches: pairs of row numbers, which are ignored, and a pyarrow table of the rows.
        schema: the columns that are compared, and the notation of their cells.
    """
    row_hashes = []
    for _, table in batches:
        word_columns = [
            _words_of(cells=table.column(column.name), column=column, cell_notation=schema.spelling)
            for column in schema.columns
        ]
        row_hashes.append(_hash_rows(word_columns))
    return np.concatenate(row_hashes)


def _words_of(cells: Any, column: Column, cell_notation: CellSpelling) -> Any:
    """Returns a pyarrow word for each cell, such that cells with equal values have equal words.

    All missing cells have the same word. Fractional numbers are rounded to 16 significant bits.

    Args:
        cells: a pyarrow array of cells.
        column: the column of the schema, which says whether the cells are numbers.
        cell_notation: the notation of the cells.
    """
    if isinstance(column, NumberColumn):
        numbers = column.numbers(cells, cell_notation=cell_notation)
        is_whole = np.isfinite(numbers) & (numbers % 1 == 0)
        with np.errstate(over="ignore"):
            rounded_numbers = np.where(is_whole, numbers, rounded(numbers.astype(np.float32)))
        return import_pyarrow().array(rounded_numbers).cast(import_pyarrow().string())
    return canonical_words(words=as_texts(cells), number_notation=cell_notation).fill_null(
        _MISSING_WORD
    )


class CellDigest:
    """A SHA-256 digest of all cells of the rows of a split, which does not depend on the order of the rows.

    No epsilon covers the digest. `hashes` may be called by several threads at once, and `add` in any order. If all
    floats of a column are whole within a batch, they are written as integers (`digest_cells`). This changes the texts
    of large floats: 1e+16 becomes 10000000000000000. So rows with large floats must come in equal batches.

    Args:
        cells_are_text: whether the cells are text, as in CSV. A decimal comma then counts as a point, whatever
            settings say, so that no setting makes a ledger take the records for new records.
    """

    def __init__(self, *, cells_are_text: bool = False) -> None:
        self._cells_are_text = cells_are_text
        self._column_names: list[str] = []
        self._hashes: list[NDArray[np.uint64]] = []

    def hashes(self, batch: Any) -> NDArray[np.uint64]:
        """Returns the hash of all cells in each row of a pyarrow table, `[num_rows]`, and does not add the rows."""
        self._column_names = sorted(batch.column_names)
        columns = [digest_cells(batch.column(name)) for name in self._column_names]
        # Some rows are hashed at a time, because texts take many times the memory of numbers.
        return np.concatenate(
            [
                self._hashes_of_some([column[first : first + _HASHED_ROWS] for column in columns])
                for first in range(0, batch.num_rows, _HASHED_ROWS)
            ]
        )

    def _hashes_of_some(self, cell_columns: list[Any]) -> NDArray[np.uint64]:
        """Returns the hash of each of some rows, `[num_rows]`.

        `cell_columns` are pyarrow arrays of the cells of these rows, one for each column, from `digest_cells`.
        """
        word_columns = [digest_texts(column).fill_null(_MISSING_WORD) for column in cell_columns]
        if self._cells_are_text:
            word_columns = [with_points(words) for words in word_columns]
        return _hash_rows(word_columns)

    def add(self, hashes: NDArray[np.uint64]) -> None:
        """Adds rows to the digest, by their hashes `[num_rows]` from the method `hashes`."""
        self._hashes.append(hashes)

    def add_all(self, batches: Iterable[NumberedBatch]) -> None:
        """Adds the rows of all batches, which are pairs of row numbers and a pyarrow table, to the digest."""
        for _ in self.pass_through(batches):
            pass

    def pass_through(self, batches: Iterable[NumberedBatch]) -> Iterator[NumberedBatch]:
        """Yields batches unchanged, and adds the rows of each to the digest before it is yielded."""
        for numbers, batch in batches:
            self.add(self.hashes(batch))
            yield numbers, batch

    def hexdigest(self) -> str:
        """Returns the digest of all rows that were added, in hexadecimal."""
        digest = hashlib.sha256(_CELL_SEPARATOR.join(self._column_names).encode())
        digest.update(np.sort(np.concatenate(self._hashes)).astype("<u8").tobytes())
        return digest.hexdigest()


def cell_digest(batches: Iterable[NumberedBatch], *, cells_are_text: bool = False) -> str:
    """Returns the `CellDigest` of all rows of a split in hexadecimal.

    Args:
        batches: pairs of row numbers and a pyarrow table, with all cells of the rows.
        cells_are_text: whether the cells are text, as in CSV.
    """
    digest = CellDigest(cells_are_text=cells_are_text)
    digest.add_all(batches)
    return digest.hexdigest()


def _hash_rows(word_columns: list[Any]) -> NDArray[np.uint64]:
    """Returns a hash of the words in each row, uint64 `[num_rows]`, the same in every process.

    Args:
        word_columns: pyarrow arrays of words, each `[num_rows]`.
    """
    from pandas.util import hash_array  # loads slowly

    pa = import_pyarrow()
    lines = pa.compute.binary_join_element_wise(*word_columns, _CELL_SEPARATOR).cast(pa.binary())
    # pandas hashes a text by its bytes in UTF-8
    return np.asarray(hash_array(lines.to_numpy(zero_copy_only=False), categorize=False), np.uint64)
