"""A column of lists of numbers, such as embeddings: each cell is an input."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from pate.data.table.column import Column, Encoded
from pate.data.table.spelling import USUAL, CellSpelling


@dataclass(frozen=True)
class ListColumn(Column):
    """A column whose cells are lists of numbers; each list is an input.

    Attributes:
        length: the number of numbers in each list.
    """

    length: int

    @property
    def expects(self) -> str:
        """The description of a valid cell, for an error message."""
        return f"lists of {self.length} finite numbers"

    def encode(self, cells: Any, cell_notation: CellSpelling = USUAL) -> Encoded:
        """Returns lists of numbers as features `[num_cells, length]`.

        A cell is marked as wrong if it is no list of `length` numbers that are finite as float32. `cell_notation` is
        ignored.
        """
        features = np.full((len(cells), self.length), np.nan, np.float32)
        for row, number_list in enumerate(cells.to_pylist()):
            # An error means that the cell is no list, or that a number is missing. The row stays NaN. A number beyond
            # the range of float32 becomes infinite.
            with suppress(TypeError, ValueError), np.errstate(over="ignore"):
                if len(number_list) == self.length and np.isfinite(number_list).all():
                    features[row] = number_list
        is_list = np.isfinite(features).all(axis=1) & np.array(self.length > 0)
        return Encoded(
            features=features, wrong=~is_list, num_unknown_and_missing=np.zeros(2, np.int64)
        )
