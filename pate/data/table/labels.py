"""Reading of labels: from a column of 0 and 1 for each label, or from one column that lists all labels of a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray
from pate.data.table.arrow import is_null, joined
from pate.data.table.cells import as_numbers, as_texts, with_missing
from pate.data.table.label_cells import NoNames, is_list, names_in
from pate.data.table.spelling import USUAL, CellSpelling, canonical_word
from pate.data.table.uncertain import NO, UNKNOWN, YES, UncertainLabels, label_word
from pate.validation import as_setting

Codes = NDArray[np.int8]
"""The codes of a label's cells, `[num_rows]`: `YES`, `NO` and `UNKNOWN` of `uncertain.py`, or `_WRONG`."""

LABEL_HINT = "; yes and no, true and false are taken too, and an empty cell is an unknown label"
"""The advice for a label's cell that cannot be read."""

_UNCERTAIN_HINT = (
    "; data.uncertain=missing (or positive, negative) says what -1, ? and uncertain mean"
)
# The codes of the words for no and yes that need no setting.
_CODE_OF_USUAL_WORD = {"false": NO, "no": NO, "true": YES, "yes": YES}
# The code of a cell that is no label.
_WRONG = -2


class Truths(NamedTuple):
    """The words that mean no and yes in a label's column, in canonical form and lower case (`label_word`).

    Attributes:
        no: the word for no; None if all cells have the word for yes.
        yes: the word for yes, which a setting names.
    """

    no: str | None
    yes: str


class ReadLabels(NamedTuple):
    """The labels of n rows of a table, and the cells that could not be read.

    Attributes:
        bits: the labels, bool `[n, num_labels]`; False where a label is not known.
        known: whether each label is known, bool `[n, num_labels]`; False where its cell is missing or wrong, or is an
            uncertain one that a setting reads as missing. If one cell lists all labels of a row, an empty or null cell
            lists none, and all of them are known.
        wrong: whether the cell of each label cannot be read, bool `[n, num_labels]`. If one cell lists all labels of a
            row, all of them are wrong together.
        num_unknown: the number of cells that list some name which no label has; 0 if each label has a column.
    """

    bits: BoolArray
    known: BoolArray
    wrong: BoolArray
    num_unknown: int = 0


@dataclass
class Labels:
    """A reader of labels from a table.

    Each label has a column of 0 and 1, of yes and no, or of two given words. A label is unknown where its cell is
    missing. Or one column lists all labels of a record, such as flu;cough. There, a cell that is null in the table
    lists no label, such as an empty cell or NA in a CSV file. For another word that a setting lists as missing, all
    labels of the record are unknown. The names of the labels come from public knowledge: from a setting or from the
    public file.

    Attributes:
        names: the names of the labels.
        no_and_yes_words: the words for no and yes, for labels that are not written as 0 and 1 or as yes and no.
        hint: the end of an error message on a cell that is no label. `read` replaces it if cells are lists.
        column_of_all_labels: the column that lists all labels; None if each label has a column.
        separator: the mark between two labels in that column.
        reading_of_uncertain_cells: the words that call a label uncertain, and how cells with such words are read.
        num_unknown: the number of cells that list a label which `names` lacks, in all splits that were read together.
            Such labels are left out. `Rows` adds up the counts of `read`.
    """

    names: tuple[str, ...]
    no_and_yes_words: Mapping[str, Truths] = field(default_factory=dict)
    hint: str = LABEL_HINT
    column_of_all_labels: str | None = None
    separator: str = ""
    reading_of_uncertain_cells: UncertainLabels = field(default_factory=UncertainLabels)
    num_unknown: int = 0

    def __post_init__(self) -> None:
        if self.reading_of_uncertain_cells.reading is None:
            self.hint += _UNCERTAIN_HINT

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The names of the columns that hold labels: one for each label, or the one column that lists all labels."""
        return self.names if self.column_of_all_labels is None else (self.column_of_all_labels,)

    @property
    def rule(self) -> str:
        """The description of a valid cell in the column that lists all labels."""
        return naming_rule(self.separator)

    def read(self, table: Any, cell_notation: CellSpelling = USUAL) -> ReadLabels:
        """Returns the labels of the rows in a pyarrow table.

        The result also marks the cells that are no label, and counts the cells that list a label which is none of the
        names.

        Args:
            table: a table that has the columns of the labels, with their cells as they are in the file.
            cell_notation: the notation of the cells.
        """
        cells = with_missing(table.select(list(self.label_columns)), cell_notation)
        if self.column_of_all_labels is not None:
            label_cells = joined(cells.column(self.column_of_all_labels))
            is_empty = is_null(joined(table.column(self.column_of_all_labels)))
            # The cell is a word that a setting lists as missing.
            is_row_unlabeled = is_null(label_cells) & ~is_empty
            return self._read_names(label_cells, is_row_unlabeled=is_row_unlabeled)
        codes = np.zeros((table.num_rows, len(self.names)), np.int8)
        for position, name in enumerate(self.names):
            codes[:, position] = self._codes(
                name, label_cells=cells.column(name), cell_notation=cell_notation
            )
        wrong = codes == _WRONG
        return ReadLabels(bits=codes == YES, known=(codes != UNKNOWN) & ~wrong, wrong=wrong)

    def _codes(self, label_name: str, label_cells: Any, cell_notation: CellSpelling) -> Codes:
        """Returns what a label's cells say, int8 `[num_rows]`: `YES`, `NO`, `UNKNOWN`, or `_WRONG` for other cells.

        A missing cell is `UNKNOWN`. An uncertain cell, such as -1, has the code that `reading_of_uncertain_cells` gives
        it.

        Args:
            label_name: the name of the label.
            label_cells: a pyarrow array of the label's cells, in which missing cells are null.
            cell_notation: the notation of the cells.
        """
        truths = self.no_and_yes_words.get(label_name)
        if truths is not None:
            code_of_word = {truths.yes: YES}
            if truths.no is not None:
                code_of_word[truths.no] = NO
            return self._codes_of_words(label_cells, code_of_word=code_of_word)
        numbers = as_numbers(cells=label_cells, cell_notation=cell_notation)
        codes = np.full(len(numbers), _WRONG, np.int8)
        codes[np.isnan(numbers)] = UNKNOWN
        for number, code in (
            *self.reading_of_uncertain_cells.codes_of_numbers.items(),
            (0, NO),
            (1, YES),
        ):
            codes[numbers == number] = code
        is_wrong = codes == _WRONG
        if is_wrong.any():
            codes_of_words = self._codes_of_words(label_cells, code_of_word=_CODE_OF_USUAL_WORD)
            codes[is_wrong] = codes_of_words[is_wrong]
        return codes

    def _codes_of_words(self, label_cells: Any, code_of_word: Mapping[str, int]) -> Codes:
        """Returns what a label's cells say, as `_codes` does, for cells that are words.

        Args:
            label_cells: a pyarrow array of the label's cells, in which missing cells are null.
            code_of_word: `YES` or `NO` for each word that means it, in the form of `label_word`. Words for uncertain
                are added. Any other word is `_WRONG`.
        """
        coded = as_texts(label_cells).dictionary_encode()
        cell_words = coded.dictionary.to_pylist()
        if any(map(is_list, cell_words)):
            self.hint = (
                f"; {as_setting(name='data.label_separator', value=';')} reads lists of labels"
            )
        code_of_any_word = {**self.reading_of_uncertain_cells.codes_of_words, **code_of_word}
        codes = [code_of_any_word.get(label_word(word), _WRONG) for word in cell_words]
        codes.append(UNKNOWN)  # the code of missing cells, which are the last of the distinct ones
        word_of_row = coded.indices.fill_null(len(cell_words)).to_numpy(zero_copy_only=False)
        return np.asarray(np.array(codes, np.int8)[word_of_row])

    def _read_names(self, label_cells: Any, is_row_unlabeled: BoolArray) -> ReadLabels:
        """Returns the labels of rows whose labels are listed in one cell each; an empty cell lists none.

        A cell is marked as wrong if it is not empty and cannot be read as a list of labels.

        Args:
            label_cells: a pyarrow array of the cells, in which missing cells are null.
            is_row_unlabeled: True for a cell that means that all labels of its row are unknown, bool
                `[num_rows]`.
        """
        coded = as_texts(label_cells).dictionary_encode()
        distinct_cells = coded.dictionary.to_pylist()
        label_of_name = {canonical_word(name): label for label, name in enumerate(self.names)}
        # One row for each of the distinct cells, and a last one for the empty cell.
        index_of_empty_cell = len(distinct_cells)
        bits_of_distinct_cells = np.zeros((index_of_empty_cell + 1, len(self.names)), np.bool_)
        is_cell_wrong = np.zeros_like(bits_of_distinct_cells)
        has_unknown_name = np.zeros(len(bits_of_distinct_cells), np.bool_)
        for number, cell in enumerate(distinct_cells):
            try:
                names = names_in(cell, separator=self.separator)
            except NoNames:
                is_cell_wrong[number] = True
                continue
            labels = [label_of_name[name] for name in names if name in label_of_name]
            bits_of_distinct_cells[number, labels] = True
            has_unknown_name[number] = not label_of_name.keys() >= set(names)
        cell_of_row = coded.indices.fill_null(index_of_empty_cell).to_numpy(zero_copy_only=False)
        tells_labels = np.repeat(~is_row_unlabeled[:, None], len(self.names), axis=1)
        return ReadLabels(
            bits=bits_of_distinct_cells[cell_of_row],
            known=tells_labels & ~is_cell_wrong[cell_of_row],
            wrong=is_cell_wrong[cell_of_row],
            num_unknown=int(has_unknown_name[cell_of_row].sum()),
        )


def naming_rule(separator: str) -> str:
    """Returns the description of a valid cell in a column that lists all labels of a record, for an error message.

    `separator` is the mark between two labels in a cell.
    """
    return f"names of labels with {separator} between them, or a list of names in quotes"
