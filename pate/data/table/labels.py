"""Reading of labels: from a column of 0 and 1 for each label, or from one column that lists all labels of a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pate.data.table.cells import as_numbers, as_texts
from pate.data.table.label_cells import NoNames, is_list, names_in
from pate.data.table.spelling import USUAL, CellSpelling, canonical_word
from pate.validation import as_setting

Bits = NDArray[np.bool_]

LABEL_HINT = "; yes and no, true and false are taken too, an empty cell is not: leave its row out"


class Truths(NamedTuple):
    """The words that mean no and yes in a label's column, in the form that `label_word` returns.

    Attributes:
        no: the word for no; None if all cells have the word for yes.
        yes: the word for yes, which a setting names.
    """

    no: str | None
    yes: str


_USUAL_TRUTHS = {"false": False, "no": False, "true": True, "yes": True}


def label_word(word: str) -> str:
    """Returns a word of a label's column in the form in which such words are compared: canonical, in lower case."""
    return canonical_word(word).casefold()


class ReadLabels(NamedTuple):
    """The labels of some rows of a table, and the cells that could not be read."""

    bits: Bits  # [n, num_labels]
    wrong: Bits  # [n, num_labels], cells that are no label
    num_unknown: int = 0  # cells that list a label which is none of the names


@dataclass
class Labels:
    """A reader of labels from a table.

    Each label has a column of 0 and 1, of yes and no, or of two given words. Or one column lists all labels of a
    record, such as flu;cough, and an empty cell lists none. The names of the labels come from public knowledge: from a
    setting or from the public file.

    Attributes:
        names: the names of the labels.
        truths: the words for no and yes, for labels that are not written as 0 and 1 or as yes and no.
        hint: the end of an error message on a cell that is no label. `read` replaces it if cells are lists.
        column: the column that lists all labels; None if each label has a column.
        separator: the mark between two labels in that column.
        num_unknown: the number of private, public and test cells that list a label which `names` lacks. Such labels are
            left out. `Rows` adds up the counts of `read`.
    """

    names: tuple[str, ...]
    truths: Mapping[str, Truths] = field(default_factory=dict)
    hint: str = LABEL_HINT
    column: str | None = None
    separator: str = ""
    num_unknown: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that hold labels."""
        return self.names if self.column is None else (self.column,)

    @property
    def rule(self) -> str:
        """The description of a valid cell in the column that lists all labels."""
        return naming_rule(self.separator)

    def read(self, table: Any, spelling: CellSpelling = USUAL) -> ReadLabels:
        """Returns the labels of the rows in a pyarrow table, and the number of cells with labels that are unknown.

        Args:
            table: a table that has the columns of the labels.
            spelling: the notation of the cells.
        """
        if self.column is not None:
            return self._read_names(table.column(self.column))
        bits = np.zeros((table.num_rows, len(self.names)), np.bool_)
        wrong = np.zeros_like(bits)
        for place, name in enumerate(self.names):
            bits[:, place], wrong[:, place] = self._read_column(name, table.column(name), spelling)
        return ReadLabels(bits, wrong)

    def _read_column(self, name: str, column: Any, spelling: CellSpelling) -> tuple[Bits, Bits]:
        """Returns two arrays bool `[num_rows]`: the values of one label, and whether each cell could not be read.

        Args:
            name: the name of the label.
            column: a pyarrow array of the label's cells.
            spelling: the notation of the cells.
        """
        truths = self.truths.get(name)
        if truths is not None:
            truth_of = {truths.yes: True}
            if truths.no is not None:
                truth_of[truths.no] = False
            return self._read_words(column, value_of_word=truth_of)
        numbers = as_numbers(cells=column, spelling=spelling)
        bits = numbers == 1
        wrong = ~(bits | (numbers == 0))
        if wrong.any():
            word_bits, is_no_word = self._read_words(column, value_of_word=_USUAL_TRUTHS)
            bits = np.where(is_no_word, bits, word_bits)
            wrong &= is_no_word
        return bits, wrong

    def _read_words(self, column: Any, value_of_word: Mapping[str, bool]) -> tuple[Bits, Bits]:
        """Returns the values of a label, bool `[num_rows]`, and whether each cell is none of the known words.

        Args:
            column: a pyarrow array of the label's cells.
            value_of_word: the value that each known word means.
        """
        coded = as_texts(column).dictionary_encode()
        words = coded.dictionary.to_pylist()
        if any(map(is_list, words)):
            self.hint = (
                f"; {as_setting(name='data.label_separator', value=';')} reads lists of labels"
            )
        # the last entry is for empty cells
        truths = [value_of_word.get(label_word(word)) for word in words] + [None]
        codes = coded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
        bits = np.array([truth is True for truth in truths])[codes]
        wrong = np.array([truth is None for truth in truths])[codes]
        return bits, wrong

    def _read_names(self, column: Any) -> ReadLabels:
        """Returns the labels that cells list.

        A cell is marked as wrong if it is not empty and cannot be read as a list of labels.
        """
        coded = as_texts(column).dictionary_encode()
        cells = coded.dictionary.to_pylist()
        place_of = {canonical_word(name): place for place, name in enumerate(self.names)}
        # by the place of a cell among the different ones; the last is the empty cell
        bits = np.zeros((len(cells) + 1, len(self.names)), np.bool_)
        wrong = np.zeros_like(bits)
        has_unknown = np.zeros(len(bits), np.bool_)
        for row, cell in enumerate(cells):
            try:
                names = names_in(cell, self.separator)
            except NoNames:
                wrong[row] = True
                continue
            bits[row, [place_of[name] for name in names if name in place_of]] = True
            has_unknown[row] = not place_of.keys() >= set(names)
        codes = coded.indices.fill_null(len(cells)).to_numpy(zero_copy_only=False)
        return ReadLabels(bits[codes], wrong[codes], num_unknown=int(has_unknown[codes].sum()))


def naming_rule(separator: str) -> str:
    """Returns the description of a valid cell in a column that lists all labels of a record."""
    return f"names of labels with {separator} between them, or a list of names in quotes"
