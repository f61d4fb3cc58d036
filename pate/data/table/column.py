"""A column of a table: how its cells become features, and what a schema's file holds of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pate.data.table.arrow import is_missing
from pate.data.table.cells import as_texts
from pate.data.table.spelling import USUAL, Spelling

MISSING = "missing"  # in the name of the feature of missing cells

Block = NDArray[np.float32]
"""Features `[n, d]` of one column or of several."""


def wrong_cells_in_words(count: int, *, num_rows: int, first_row: int) -> str:
    """Returns in words how many cells are wrong, without their values; `first_row` counts from 0."""
    return f"{count} of {num_rows} rows hold something else, row {first_row + 1} is the first"


class Encoded(NamedTuple):
    """Features of a column or a table, and counts of the cells that they were made of."""

    features: Block  # [n, d]
    # [n] of a column, [n, num_columns] of a table: cells that are not of the column's kind
    wrong: NDArray[np.bool_]
    # [2], or [num_columns, 2]: how many cells the public file does not know, and how many are missing
    unknown_and_missing: NDArray[np.int64]


@dataclass(frozen=True)
class Column(ABC):
    """A column by what the public file says of it. It makes features of the cells of any file.

    Attributes:
        name: of the column.
        missing: whether cells are missing in the public file. They have a feature of their own then. Else a cell that
            is missing takes the place of the mean, or of a category that the public file does not have.
    """

    name: str
    missing: bool

    kind: ClassVar[str] = ""  # its name in a schema's file
    keys: ClassVar[tuple[str, ...]] = ()  # its entries there, beside the kind

    @property
    @abstractmethod
    def expects(self) -> str:
        """The rule for a cell in words; for the public file where the column can be no feature."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for each feature; none where the column can be no feature."""
        return ()

    def encode(self, array: Any, spelling: Spelling = USUAL) -> Encoded:
        """Encodes a pyarrow array `[n]` as features `[n, d]`. A column that can be no feature has d = 0."""
        missing = is_missing(as_texts(array))
        return Encoded(
            features=np.zeros((len(array), 0), np.float32),
            wrong=np.zeros_like(missing),
            unknown_and_missing=np.array([0, missing.sum()]),
        )

    def frame_columns(self, block: Block) -> dict[str, Any]:
        """Returns columns of a data frame for features `[n, d]`: the cells, as far as features tell them."""
        return dict(zip(self.feature_names, block.T, strict=True))

    def plain(self) -> dict[str, Any]:
        """Returns the column as JSON can hold it, for the file of a schema."""
        return {"kind": self.kind}

    @classmethod
    def read(cls, name: str, entry: Mapping[str, Any], folder: Path | None) -> Self:
        """Reads the entry of a schema's file that `plain` gave.

        Args:
            name: of the column.
            entry: the content of the file under that name.
            folder: the folder of the schema, which may hold further files; None where there are none.

        Raises:
            InvalidValue: impossible values. Other errors of Python are raised for entries of other kinds.
        """
        return cls(name, missing=False)


class EmptyColumn(Column):
    """A column whose cells are all missing in the public file."""

    kind = "empty"

    @property
    def expects(self) -> str:
        """The rule for the public file."""
        return "a value in some row of the public file"
