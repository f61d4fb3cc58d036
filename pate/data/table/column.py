"""A column of a table: the encoding of its cells as features, and its entry in a schema's file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from pate.array_types import BoolArray, Float32Array, IntArray
from pate.data.table.arrow import is_null
from pate.data.table.cells import as_texts
from pate.data.table.spelling import USUAL, CellSpelling

MISSING = "missing"
"""The word for missing cells in the name of their feature."""


def wrong_cells_in_words(num_wrong: int, *, num_rows: int, first_row_in_words: str) -> str:
    """Returns the end of an error message: the number of wrong cells and the first row with one, but no cell's value.

    Args:
        num_wrong: the number of wrong cells.
        num_rows: the number of rows of the table.
        first_row_in_words: the first row with a wrong cell, such as `row 3`.
    """
    return f"{num_wrong} of {num_rows} rows hold something else, {first_row_in_words} is the first"


def row_in_words(row_number: int) -> str:
    """Returns the number of a row for a message, counted from 1; `row_number` counts from 0."""
    return f"row {row_number + 1}"


class Encoded(NamedTuple):
    """The features of a column or a table, with counts of wrong, unknown and missing cells.

    Attributes:
        features: the features of the n rows, `[n, num_features]`.
        wrong: whether each cell is of another kind than its column, such as a word among numbers: bool `[n]` for a
            column, and `[n, num_columns]` for a table.
        num_unknown_and_missing: two numbers, `[2]` for a column and `[num_columns, 2]` for a table. The first is that
            of unknown cells: words that are no category of the public file, numbers beyond its range, or texts without
            a known word. The second is that of missing cells.
        broken_rules: the rule that the first wrong cell violates, for an error message: one for a column, and
            `num_columns` for a table. None where no cell is wrong, or the rule is that of all cells, `Column.expects`.
    """

    features: Float32Array
    wrong: BoolArray
    num_unknown_and_missing: IntArray
    broken_rules: tuple[str | None, ...] = (None,)


@dataclass(frozen=True)
class Column(ABC):
    """A column of a table, as learned from the public file, which encodes the cells of any file as features.

    Attributes:
        name: the name of the column.
        has_missing: whether cells of the column are missing in the public file. If so, a feature marks missing cells.
            If not, a missing cell of another file is encoded as the mean, as a category that the public file does not
            have, or as an empty text.
    """

    name: str
    has_missing: bool

    # The name of the kind of column in a schema's file.
    kind: ClassVar[str] = ""
    # The keys of the column's entry in that file, without "kind".
    keys: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def expects(self) -> str:
        """The description of a valid cell, for an error message.

        A column that cannot become a feature describes what the public file would have to hold.
        """

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of each feature; an empty tuple if the column cannot become a feature."""
        return ()

    def encode(self, cells: Any, cell_notation: CellSpelling = USUAL) -> Encoded:
        """Returns the features of cells, `[num_cells, num_features]`, with counts.

        A column that cannot become a feature has 0 features.

        Args:
            cells: a pyarrow array of cells.
            cell_notation: the notation of numbers, dates and missing cells.
        """
        missing = is_null(as_texts(cells))
        return Encoded(
            features=np.zeros((len(cells), 0), np.float32),
            wrong=np.zeros_like(missing),
            num_unknown_and_missing=np.array([0, missing.sum()]),
        )

    def frame_columns(self, encoded_cells: Float32Array) -> dict[str, Any]:
        """Returns the columns of a data frame, by name, which features `[num_cells, num_features]` encode.

        Cells are recovered as far as the features determine them: numbers, dates and categories as one column, and a
        text as one column for each feature.
        """
        return dict(zip(self.feature_names, encoded_cells.T, strict=True))

    def plain(self) -> dict[str, Any]:
        """Returns the column as values for JSON, for the file of a schema."""
        return {"kind": self.kind}

    @classmethod
    def read(cls, name: str, schema_entry: Mapping[str, Any], schema_folder: Path | None) -> Self:
        """Builds the column from the entry in a schema's file that `plain` returned.

        Args:
            name: the name of the column.
            schema_entry: the content of the schema's file under that name.
            schema_folder: the folder of the schema, where a column of text has a further file; None if the schema has
                no folder.

        Raises:
            InvalidValue: the entry has impossible values. An entry of another form raises another error of Python.
        """
        return cls(name, has_missing=False)


class EmptyColumn(Column):
    """A column whose cells are all missing in the public file, so that it cannot become a feature."""

    kind: ClassVar[str] = "empty"

    @property
    def expects(self) -> str:
        """The description of what the public file would have to hold."""
        return "a value in some row of the public file"
