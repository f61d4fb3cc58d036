"""The form of a table's labels: which columns hold them, and which words mean yes.

The names of labels are never learned from private rows, because a label that only one private record has would be
published. The word for no is read from all files, and is quoted only in remarks for the owner.

A word is the text of a whole cell, or an item of a cell that lists labels. Words are compared in their canonical form
(`canonical_word`). Words for yes and no are compared without regard to case too (`label_word`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pate.data.table.cells import as_texts, with_missing
from pate.data.table.label_cells import NoNames, are_lists_of_bits, names_in
from pate.data.table.labels import LABEL_HINT, Labels, Truths, naming_rule
from pate.data.table.spelling import canonical_word
from pate.data.table.table_file import TableFile
from pate.data.table.uncertain import UncertainLabels, label_word
from pate.validation import InvalidValue


def labels_with_columns(
    label_names: tuple[str, ...],
    table_files: Iterable[TableFile],
    *,
    word_for_yes: str | None,
    reading_of_uncertain_cells: UncertainLabels,
) -> Labels:
    """Returns the reader of labels that have a column each.

    Args:
        label_names: the names of the labels, which are the names of the columns.
        table_files: the files of all splits.
        word_for_yes: the word that means yes in labels of two arbitrary words; None for labels of 0 and 1, or yes and
            no.
        reading_of_uncertain_cells: the words that call a label uncertain, and how cells with such words are read. Words
            for uncertain do not count as words for yes or no.

    Raises:
        InvalidValue: no column of a label has the word `word_for_yes`, or such a column has more than one other word.
    """
    if word_for_yes is None:
        hint = f"{LABEL_HINT}; data.true=WORD names another word for yes"
        return Labels(label_names, hint=hint, reading_of_uncertain_cells=reading_of_uncertain_cells)
    if not label_names:
        return Labels(label_names, reading_of_uncertain_cells=reading_of_uncertain_cells)
    yes = label_word(word_for_yes)
    words_of: dict[str, set[str]] = {name: set() for name in label_names}
    for table_file in table_files:
        for name, column_words in _words_in(table_file, column_names=label_names).items():
            words_of[name] |= (
                set(map(label_word, column_words))
                - reading_of_uncertain_cells.codes_of_words.keys()
            )
    no_and_yes_words = {}
    for name, words in words_of.items():
        if yes in words:
            other_words = words - {yes}
            if len(other_words) >= 2:
                rule = (
                    f"{word_for_yes} and one other word in {name}, it has {len(other_words)} others"
                )
                raise InvalidValue("data.true", word_for_yes, rule=rule)
            no_and_yes_words[name] = Truths(no=next(iter(other_words), None), yes=yes)
    if len(no_and_yes_words) <= 0:
        rule = "a word of some label's column, and none has it"
        raise InvalidValue("data.true", word_for_yes, rule=rule)
    return Labels(
        label_names,
        no_and_yes_words=no_and_yes_words,
        reading_of_uncertain_cells=reading_of_uncertain_cells,
    )


def labels_in_one_column(
    label_setting: tuple[str, ...],
    table_files: Iterable[TableFile],
    *,
    public_file: TableFile | None,
    separator: str,
) -> Labels:
    """Returns the reader of labels that one column lists.

    Args:
        label_setting: the name of the column, followed by the names of the labels. A column alone means the labels that
            the public file lists. Labels alone mean the public column that lists some of these labels and no others.
            The first name is that of a column if any file has such a column, and otherwise that of a label.
        table_files: the files of all splits.
        public_file: the public file; None if no setting names one.
        separator: the mark between two labels in a cell.

    Raises:
        InvalidValue: there is no such column or more than one, a label has the name of a column, or a column stands
            alone whose public cells list no label or are no lists of names.
    """
    columns = {name for file in table_files for name in file.names}
    label_names: tuple[str, ...]
    if label_setting[0] not in columns:
        # The setting is [NAME,NAME].
        label_names = label_setting
        column_name = _column_naming(
            label_names=label_names, public_file=public_file, separator=separator
        )
    elif len(label_setting) > 1:
        # The setting is [COLUMN,NAME,NAME].
        column_name, *listed_names = label_setting
        label_names = tuple(listed_names)
    else:
        # The setting is [COLUMN].
        column_name = label_setting[0]
        public_label_names = _public_names(
            column_name, public_file=public_file, separator=separator
        )
        label_names = tuple(sorted(public_label_names))
    if not label_names:
        rule = (
            f"the labels too, [{column_name},NAME,NAME]: the public file names none, and those of private rows "
            "are secret"
        )
        raise InvalidValue("data.labels", f"[{column_name}]", rule=rule)
    clash = next((name for name in label_names if name in columns), None)
    if clash is not None:
        rule = "a label that is called otherwise than every column"
        raise InvalidValue("data.labels", clash, rule=rule)
    return Labels(label_names, column_of_all_labels=column_name, separator=separator)


def _column_naming(
    label_names: Sequence[str], public_file: TableFile | None, separator: str
) -> str:
    """Returns the name of the public column whose cells list some of the given labels and nothing else.

    Args:
        label_names: the names of the labels.
        public_file: the public file; None if no setting names one.
        separator: the mark between two labels in a cell.

    Raises:
        InvalidValue: there is no such column, or more than one.
    """
    names = {canonical_word(label) for label in label_names}
    # A label that contains the separator is one label in a cell that is a list, and several labels in another cell.
    names |= {name for label in label_names for name in names_in(cell=label, separator=separator)}
    columns_listing_labels = []
    if public_file is not None:
        for column_name, distinct_cells in _words_with_whole_lists(
            public_file, column_names=public_file.names
        ).items():
            try:
                column_labels = _names_in_cells(distinct_cells, separator=separator)
            except NoNames:
                continue
            if column_labels and column_labels <= names:
                columns_listing_labels.append(column_name)
    if len(columns_listing_labels) != 1:
        rule = "first the column that names them, behind it the labels: [COLUMN,NAME,NAME]"
        raise InvalidValue("data.labels", f"[{','.join(label_names)}]", rule=rule)
    return columns_listing_labels[0]


def _public_names(column_name: str, public_file: TableFile | None, separator: str) -> set[str]:
    """Returns the labels that the cells of a public column list.

    Args:
        column_name: the name of the column.
        public_file: the public file; None if no setting names one, and then there is no label.
        separator: the mark between two labels in a cell.

    Raises:
        InvalidValue: a cell cannot be read as a list of labels, or the cells are lists of 0 and 1.
    """
    if public_file is None:
        return set()
    distinct_cells = _words_with_whole_lists(public_file, column_names=[column_name]).get(
        column_name, set()
    )
    try:
        names = _names_in_cells(distinct_cells, separator=separator)
    except NoNames:
        raise InvalidValue(f"data.public.{column_name}", rule=naming_rule(separator)) from None
    if are_lists_of_bits(distinct_cells):
        rule = "names of labels, found lists of 0 and 1: a column for each label says the same"
        raise InvalidValue(f"data.public.{column_name}", rule=rule)
    return names


def _names_in_cells(cells: Iterable[str], separator: str) -> set[str]:
    """Returns the labels that cells list, as canonical words; raises `NoNames` if a cell is no list of names.

    `separator` is the mark between two labels in a cell.
    """
    return {name for cell in cells for name in names_in(cell, separator=separator)}


def _words_with_whole_lists(
    table_file: TableFile, column_names: Iterable[str]
) -> Mapping[str, set[str]]:
    """Returns the distinct texts of cells in the named columns of a file, by column. A JSON list is one text, its JSON.

    Columns that the file lacks are left out.
    """
    return _words_in(
        replace(table_file, columns_with_whole_lists=tuple(table_file.names)), column_names
    )


def _words_in(table_file: TableFile, column_names: Iterable[str]) -> Mapping[str, set[str]]:
    """Returns the distinct texts of cells in the named columns of a file, by column, without missing cells.

    Columns that the file lacks are left out.
    """
    words_of_column: dict[str, set[str]] = {
        name: set() for name in column_names if name in table_file.names
    }
    if not words_of_column:
        return words_of_column
    cell_notation = table_file.spelling()
    for _, batch in table_file.rows(list(words_of_column)):
        cells = with_missing(table=batch, cell_notation=cell_notation)
        for name, column_words in words_of_column.items():
            column_words.update(as_texts(cells.column(name)).drop_null().unique().to_pylist())
    return words_of_column
