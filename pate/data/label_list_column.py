"""A column of a Hugging Face data set whose lists hold the labels of a record, and its replacement by columns of bits.

A list holds the classes that apply (`List(ClassLabel)`), or a 0 or 1 for each label.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray
from pate.data.table.arrow import import_pyarrow, is_null
from pate.data.table.cells import as_numbers
from pate.data.table.labels import Labels
from pate.validation import InvalidValue

# The bit of a label that its list does not tell readably. No label is written in this way, so `Labels` reports it as
# wrong.
_NO_BIT = 127


@dataclass(frozen=True)
class LabelListColumn:
    """A column of a Hugging Face data set, each cell of which is a list with the labels of a record.

    Attributes:
        name: the name of the column.
        label_names: the names of the labels.
        items_are_class_numbers: whether the items of a list are the numbers of the classes that apply. Otherwise they
            are bits, one for each label.
    """

    name: str
    label_names: tuple[str, ...]
    items_are_class_numbers: bool

    @classmethod
    def from_feature(
        cls, column_name: str, feature: Any, *, other_columns: Collection[str | None]
    ) -> Self | None:
        """Returns the column that a feature of a Hugging Face data set describes; None if its cells are no lists.

        Args:
            column_name: the name of the column.
            feature: the feature of the column.
            other_columns: the names of the columns that settings name for another purpose.

        Raises:
            InvalidValue: the column or one of its labels has the name of one of `other_columns`, or the number of
                labels is unknown.
        """
        # A `datasets.List` has a `feature`, that of its items, and a `length`. A `ClassLabel` has `names`.
        item_feature = getattr(feature, "feature", None)
        if item_feature is None:
            return None
        if column_name in other_columns:
            raise InvalidValue("data.labels", column_name, rule="a list that is no input")
        class_names = getattr(item_feature, "names", None)
        length = getattr(feature, "length", -1)
        if class_names is None and length <= 0:
            rule = (
                "columns of 0 and 1, lists of classes (ClassLabel with names), "
                "or lists of a length that the data state"
            )
            raise InvalidValue("data.labels", column_name, rule=rule)
        items_are_class_numbers = class_names is not None
        if class_names is None:
            class_names = [f"{column_name}_{position}" for position in range(length)]
        label_names = tuple(map(str, class_names))
        clashing_name = next((label for label in label_names if label in other_columns), None)
        if clashing_name is not None:
            rule = "labels called otherwise than the columns that are read"
            raise InvalidValue("data.labels", clashing_name, rule=rule)
        return cls(
            name=column_name,
            label_names=label_names,
            items_are_class_numbers=items_are_class_numbers,
        )

    def with_bits(self, table: Any) -> Any:
        """Returns a pyarrow table in which a column of bits for each label replaces this column.

        A bit is 0, 1, or -1 for uncertain, as the list says, and null if the list or the item of the label is missing.
        It is `_NO_BIT`, which readers refuse, if the list or the item cannot be read. A table without this column
        is returned unchanged.
        """
        if self.name not in table.column_names:
            return table
        pa = import_pyarrow()
        label_lists = table.column(self.name).combine_chunks()
        is_missing_list = np.repeat(is_null(label_lists)[:, None], len(self.label_names), axis=1)
        if self.items_are_class_numbers:
            bits = self._bits_of_classes(label_lists)
            is_unknown = is_missing_list
        else:
            bits, is_missing_item = self._bits_of_items(label_lists)
            is_unknown = is_missing_list | is_missing_item
        table = table.drop_columns([self.name])
        for label, label_bits, is_label_unknown in zip(
            self.label_names, bits.T, is_unknown.T, strict=True
        ):
            table = table.append_column(label, pa.array(label_bits, mask=is_label_unknown))
        return table

    def _bits_of_classes(self, class_lists: Any) -> NDArray[np.int8]:
        """Returns, for lists of numbers of classes, which classes each list has: 0 and 1, `[num_lists, num_labels]`.

        An item that is null or the number of no class makes every bit of its list `_NO_BIT`, which readers refuse.
        """
        compute = import_pyarrow().compute
        list_of_item = compute.list_parent_indices(class_lists).to_numpy()
        classes = (
            compute.list_flatten(class_lists)
            .cast(import_pyarrow().int64())
            .fill_null(-1)
            .to_numpy()
        )
        is_class = (classes >= 0) & (classes < len(self.label_names))
        bits = np.zeros((len(class_lists), len(self.label_names)), np.int8)
        bits[list_of_item[is_class], classes[is_class]] = 1
        bits[list_of_item[~is_class]] = _NO_BIT
        return bits

    def _bits_of_items(self, bit_lists: Any) -> tuple[NDArray[np.int8], BoolArray]:
        """Returns the bits of lists with an item for each label, and whether the item of each label is missing.

        Both arrays are `[num_lists, num_labels]`. A bit is 0, 1, or -1 for uncertain, and `_NO_BIT`, which readers
        refuse, for any other item and in lists of another length.
        """
        pa = import_pyarrow()
        items = pa.compute.list_flatten(bit_lists)
        list_of_item = pa.compute.list_parent_indices(bit_lists).to_numpy()
        num_items = np.bincount(list_of_item, minlength=len(bit_lists))
        first_items = np.cumsum(num_items) - num_items
        has_other_length = num_items != len(self.label_names)
        items_of_label = [
            items.take(pa.array(first_items + position, mask=has_other_length))
            for position in range(len(self.label_names))
        ]
        labels = Labels(self.label_names).read(pa.table(items_of_label, names=self.label_names))
        bits = np.zeros((len(bit_lists), len(self.label_names)), np.int8)
        bits[labels.bits] = 1
        bits[labels.wrong] = _NO_BIT
        # `labels` marks -1 as wrong. It is stored as -1, which the reader of the whole table reads as
        # `data.uncertain` says.
        for position, label_items in enumerate(items_of_label):
            bits[as_numbers(label_items) == -1, position] = -1
        bits[has_other_length] = _NO_BIT
        is_missing_item = ~labels.known & ~labels.wrong & ~has_other_length[:, None]
        return bits, is_missing_item
