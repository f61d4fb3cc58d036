"""Label sets in one column: words that name all labels of a record."""

from __future__ import annotations

from typing import Any

import numpy as np

from pate.data.table.cells import arrow, as_texts, one_spelling


class LabelSets:
    """A column of words that name all labels of a record, such as flu;cough. An empty cell names none.

    Attributes:
        column: its name.
        names: of the labels, from public knowledge: a list, or the public file.
        separator: what stands between two labels.
        unknown: how often cells named a label that `names` lacks; it counts for nothing.
    """

    def __init__(self, column: str, names: tuple[str, ...], separator: str) -> None:
        self.column, self.names, self.separator, self.unknown = column, names, separator, 0

    def unfolded(self, batch: Any, *, count: bool = False) -> Any:
        """A batch with a column of 0 and 1 for each label in the column's place; as it is where it has no such column.

        Args:
            batch: a pyarrow table.
            count: whether labels that are unknown are counted.
        """
        if self.column not in batch.column_names:
            return batch
        pa, texts = arrow(), as_texts(batch.column(self.column)).array.dictionary_encode()
        place_of = {one_spelling(name): place for place, name in enumerate(self.names)}
        said = [label_words(text, self.separator) for text in texts.dictionary.to_pylist()]
        known = np.zeros((len(said) + 1, len(self.names)), np.int8)
        for row, words in enumerate(said):
            known[row, [place_of[word] for word in words if word in place_of]] = 1
        rows = texts.indices.fill_null(len(said)).to_numpy(zero_copy_only=False)
        if count:
            strange = np.array([*(any(word not in place_of for word in words) for words in said), False], np.int64)
            self.unknown += int(strange[rows].sum())
        batch = batch.drop_columns([self.column])
        for place, name in enumerate(self.names):
            batch = batch.append_column(name, pa.array(known[rows, place]))
        return batch


def label_words(text: str, separator: str) -> list[str]:
    """The labels that a cell names, each in one spelling."""
    return [word for part in text.split(separator) if (word := one_spelling(part))]
