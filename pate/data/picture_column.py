"""A column of pictures: each cell becomes the pixels of one picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.image_form import ImageForm
from pate.data.pictures import UNREADABLE
from pate.data.pixels import Pixels
from pate.data.table.column import Column, Encoded
from pate.data.table.spelling import USUAL, CellSpelling
from pate.validation import InvalidValue


@dataclass(frozen=True)
class PictureColumn(Column):
    """A column of pictures, each of which becomes a row of bytes `[channels * height * width]`.

    Attributes:
        form: the size and the colors to which pictures are brought.
        find_picture_file: a function from a cell to a file or an image; it returns None for a cell that names neither.
        readable_rule: the text of an error for a cell that names no picture, or a damaged one: what is expected.
    """

    form: ImageForm
    find_picture_file: Callable[[Any], Any]
    readable_rule: str = "pictures that can be read"

    @property
    def expects(self) -> str:
        """The field `readable_rule`."""
        return self.readable_rule

    def encode(self, cells: Any, cell_notation: CellSpelling = USUAL) -> Encoded:
        """Returns the pictures of cells as rows of bytes, uint8 `[num_cells, channels * height * width]`.

        A picture that cannot be read is marked as wrong, and its row is 0; `broken_rules` has the rule of the first.

        Args:
            cells: a pyarrow array of cells that `find_picture_file` takes, such as names of files.
            cell_notation: ignored.
        """
        levels: Any = np.zeros((len(cells), *self.form.input_shape), np.uint8)
        wrong = np.zeros(len(cells), np.bool_)
        first_broken_rule: str | None = None
        for row, cell in enumerate(cells.to_pylist()):
            try:
                levels[row] = self._levels(cell)
            except InvalidValue as error:
                wrong[row] = True
                if first_broken_rule is None:
                    is_unreadable = error.rule == UNREADABLE
                    first_broken_rule = self.readable_rule if is_unreadable else error.rule
        return Encoded(
            features=levels.reshape(len(levels), -1),
            wrong=wrong,
            num_unknown_and_missing=np.zeros(2, np.int64),
            broken_rules=(first_broken_rule,),
        )

    def _levels(self, cell: Any) -> NDArray[np.uint8]:
        """Returns the levels of a cell's picture; raises `InvalidValue` if the cell names none that can be read."""
        picture = self.find_picture_file(cell)
        if picture is None:
            raise InvalidValue(self.name, rule=UNREADABLE)
        return self.form.levels(picture, name=self.name, refuses_unknown_white=True)

    def pixels(self, features: NDArray[np.uint8]) -> Pixels:
        """Returns the rows that `encode` made, `[n, channels * height * width]`, as `Pixels` of n pictures."""
        channels, height, width = self.form.input_shape
        return Pixels(
            levels=features.reshape((len(features), channels, height, width)),
            rows=np.arange(len(features), dtype=np.int64),
        )
