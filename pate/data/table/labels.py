"""Labels of records: a column of 0 and 1 for each label, or one column that names all labels of a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pate.data.table.cells import as_numbers, as_texts
from pate.data.table.label_cells import NoNames, is_list, names_in
from pate.data.table.spelling import USUAL, Spelling, canonical_word
from pate.validation import as_setting

Bits = NDArray[np.bool_]

LABEL_HINT = "; yes and no, true and false are taken too, an empty cell is not: leave its row out"


class Truths(NamedTuple):
    """The words of a label's column, as `label_word` gives them.

    Attributes:
        no: None where all cells have the word for yes.
        yes: that a setting names.
    """

    no: str | None
    yes: str


_USUAL_TRUTHS = {"false": False, "no": False, "true": True, "yes": True}


def label_word(word: str) -> str:
    """Returns a word of a label's column as words are compared there: canonical, in small letters."""
    return canonical_word(word).casefold()


class ReadLabels(NamedTuple):
    """Labels of a table."""

    bits: Bits  # [n, num_labels]
    wrong: Bits  # [n, num_labels], cells that are no label


@dataclass
class Labels:
    """Labels that have a column each, of 0 and 1, yes and no, or two words; or one column that names all of a record.

    Names, such as flu;cough, are from public knowledge: a list, or the public file. An empty cell names none.

    Attributes:
        names: of the labels.
        truths: the words of labels that are written in two other words than 0 and 1 or yes and no.
        hint: the end of a message on a cell that is no label; `read` replaces it where cells are lists.
        column: the column that names all labels; None where each label has a column.
        separator: of the names there.
        num_unknown: how many cells have named a label that `names` lacks; such names are left out.
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
        """The rule for a cell that names all labels of a record."""
        return naming_rule(self.separator)

    def read(self, table: Any, spelling: Spelling = USUAL) -> ReadLabels:
        """Reads the labels of a pyarrow table that has their columns, and counts names that are unknown."""
        if self.column is not None:
            return self._read_names(table.column(self.column))
        bits = np.zeros((table.num_rows, len(self.names)), np.bool_)
        wrong = np.zeros_like(bits)
        for place, name in enumerate(self.names):
            bits[:, place], wrong[:, place] = self._read_column(name, table.column(name), spelling)
        return ReadLabels(bits, wrong)

    def _read_column(self, name: str, column: Any, spelling: Spelling) -> tuple[Bits, Bits]:
        """Returns the bits `[n]` of one label, and which cells are no label."""
        truths = self.truths.get(name)
        if truths is not None:
            truth_of = {truths.yes: True}
            if truths.no is not None:
                truth_of[truths.no] = False
            return self._read_words(column, truth_of)
        numbers = as_numbers(column, spelling)
        bits = numbers == 1
        wrong = ~np.isin(numbers, (0, 1))
        if wrong.any():
            word_bits, is_no_word = self._read_words(column, _USUAL_TRUTHS)
            bits = np.where(is_no_word, bits, word_bits)
            wrong &= is_no_word
        return bits, wrong

    def _read_words(self, column: Any, truth_of: Mapping[str, bool]) -> tuple[Bits, Bits]:
        """Returns the bits `[n]` of words, and which cells are none of the words."""
        coded = as_texts(column).dictionary_encode()
        words = coded.dictionary.to_pylist()
        if any(map(is_list, words)):
            self.hint = f"; {as_setting('data.label_separator', ';')} reads lists of labels"
        truths = [truth_of.get(label_word(word)) for word in words] + [
            None
        ]  # the last: empty cells
        codes = coded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
        bits = np.array([truth is True for truth in truths])[codes]
        wrong = np.array([truth is None for truth in truths])[codes]
        return bits, wrong

    def _read_names(self, column: Any) -> ReadLabels:
        """Reads cells that name labels; a cell is wrong that names none and is not empty."""
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
        self.num_unknown += int(has_unknown[codes].sum())
        return ReadLabels(bits[codes], wrong[codes])


def naming_rule(separator: str) -> str:
    """Returns the rule for a cell that names all labels of a record."""
    return f"names of labels with {separator} between them, or a list of names in quotes"
