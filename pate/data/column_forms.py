"""Columns of one kind that are all of an input or all labels: pictures, lists of numbers, lists of labels."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from pate.data.image_form import ImageForm
from pate.data.table.cells import arrow
from pate.validation import InvalidValue

Encoded = tuple[NDArray[Any], NDArray[np.bool_]]


@dataclass(frozen=True)
class ImageColumn:
    """A column of encoded pictures. It encodes batches as `TableSchema` does, each picture a row of bytes.

    Attributes:
        name: of the column.
        preprocessing: how pictures become inputs.
    """

    name: str
    preprocessing: ImageForm

    columns: ClassVar[tuple[()]] = ()

    def encode(self, batch: Any, _: Any = None) -> Encoded:
        """Bytes uint8 `[n, channels * height * width]`."""
        rows = [self._levels(place, cell) for place, cell in enumerate(batch.column(self.name).to_pylist())]
        return np.stack(rows), np.zeros((len(rows), 0), np.bool_)

    def require_right(self, *_: Any) -> None:
        """What cannot be read was refused at once."""

    def _levels(self, place: int, cell: Any) -> NDArray[np.uint8]:
        from PIL import Image, ImageOps

        content, path = (cell or {}).get("bytes"), (cell or {}).get("path")
        try:
            with Image.open(io.BytesIO(content) if content is not None else str(path)) as opened:
                return self.preprocessing.levels(ImageOps.exif_transpose(opened), self.name).ravel()
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            rule = f"pictures that can be read, one cannot, at place {place + 1} of its block"
            raise InvalidValue(f"data.inputs={self.name}: expected {rule}") from error


@dataclass(frozen=True)
class VectorColumn:
    """A column of lists of numbers, all of one length.

    Attributes:
        name: of the column.
        length: of every list.
    """

    name: str
    length: int

    columns: ClassVar[tuple[()]] = ()
    preprocessing: ClassVar[None] = None

    @classmethod
    def of(cls, name: str, part: Any) -> Self | None:
        """That of a part of a data set, by the length of its first list; None where the column holds no lists."""
        pa = arrow()
        column = part.select_columns([name]).with_format("arrow")[:1].column(name)
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        if not any(is_list(column.type) for is_list in lists):
            return None
        return cls(name, len(column[0].as_py() or ()))

    def encode(self, batch: Any, _: Any = None) -> Encoded:
        """Numbers float32 `[n, length]`."""
        cells = batch.column(self.name).to_pylist()
        wrong = sum(cell is None or len(cell) != self.length for cell in cells)
        if wrong or not self.length:
            rule = f"lists of {self.length} numbers, {wrong} of {len(cells)} records have others"
            raise InvalidValue(f"data.inputs={self.name}: expected {rule}")
        try:
            rows = np.array(cells, np.float32)
        except (TypeError, ValueError):
            rows = np.full((len(cells), self.length), np.nan, np.float32)
        if not np.isfinite(rows).all():
            raise InvalidValue(f"data.inputs={self.name}: expected lists of finite numbers")
        return rows, np.zeros((len(rows), 0), np.bool_)

    def require_right(self, *_: Any) -> None:
        """What is wrong was refused at once."""


@dataclass(frozen=True)
class LabelLists:
    """A column of lists that says all labels of a record.

    Attributes:
        name: of the column.
        names: of the labels.
        of_classes: whether a list holds the classes that apply; else a 0 or 1 for each label.
    """

    name: str
    names: tuple[str, ...]
    of_classes: bool

    @classmethod
    def of(cls, name: str, feature: Any) -> Self | None:
        """That of a feature of Hugging Face's library; None where it is no list.

        Raises:
            InvalidValue: a list whose labels are neither named nor counted by the feature.
        """
        inner = getattr(feature, "feature", None)
        if inner is None:
            return None
        if (names := getattr(inner, "names", None)) is not None:
            return cls(name, tuple(map(str, names)), True)
        if (length := getattr(feature, "length", -1)) > 0:
            return cls(name, tuple(f"{name}_{place}" for place in range(length)), False)
        rule = "columns of 0 and 1, lists of classes (ClassLabel with names), or lists of a length that the data say"
        raise InvalidValue(f"data.labels={name}: expected {rule}")

    def unfolded(self, batch: Any) -> Any:
        """A batch with a column for each label in the list's place; as it is where it has no such column.

        What a cell says is judged by `labels_of`, as in any column of labels: a list that is missing, or of another
        length, gives missing cells. A list with a class that is none, such as -1, gives -1 for each label.
        """
        if self.name not in batch.column_names:
            return batch
        pa = arrow()
        column = batch.column(self.name).combine_chunks()
        cells = self._of_classes(column) if self.of_classes else self._of_bits(column)
        batch = batch.drop_columns([self.name])
        for name, label in zip(self.names, cells, strict=True):
            batch = batch.append_column(name, pa.chunked_array([label]))
        return batch

    def _of_classes(self, column: Any) -> Iterator[Any]:
        pa = arrow()
        rows = pa.compute.list_parent_indices(column).to_numpy()
        said = pa.compute.list_flatten(column).cast(pa.int64()).fill_null(-1).to_numpy()
        known = (said >= 0) & (said < len(self.names))
        bits = np.zeros((len(column), len(self.names)), np.int8)
        bits[rows[known], said[known]] = 1
        bits[rows[~known]] = -1
        missing = column.is_null().to_numpy(zero_copy_only=False)
        return (pa.array(label, mask=missing) for label in bits.T)

    def _of_bits(self, column: Any) -> Iterator[Any]:
        pa = arrow()
        rows, said = pa.compute.list_parent_indices(column).to_numpy(), pa.compute.list_flatten(column)
        count = np.bincount(rows, minlength=len(column))
        first = np.cumsum(count) - count
        other = count != len(self.names)
        return (said.take(pa.array(first + place, mask=other)) for place in range(len(self.names)))
