"""Reading of the rows of one split: features, labels, and the names of records and owners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pate.accounting import PrivacyUnit
from pate.data.table.arrow import arrow, is_missing
from pate.data.table.cells import as_texts, with_missing
from pate.data.table.column import wrong_cells_in_words
from pate.data.table.labels import Labels
from pate.data.table.schema import TableSchema
from pate.data.table.table_file import NumberedBatch
from pate.data.texts.reading import as_strings
from pate.data.texts.vectors import NUM_COUNTED_TEXTS
from pate.files.array_rows import Spilled
from pate.validation import InvalidValue

Numbers = NDArray[np.int64]

_UNSEEN = r"^[\s\p{Z}\p{C}]*$"  # of words in which nobody sees a character
_GATHERED_BYTES = 2**25  # of batches with texts that are encoded at once


class Roles(NamedTuple):
    """The names of the columns that identify the record, its owners and their budget.

    Attributes:
        group: the columns that name the owner of a row, one column for each kind of owner.
        id: the column that names the record; None if there is none.
        budget: the column with the epsilon that a group agreed to; None if there is none.
    """

    group: tuple[str, ...] = ()
    id: str | None = None
    budget: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all these columns, each once."""
        columns = (*self.group, self.id, self.budget)
        return tuple(dict.fromkeys(column for column in columns if column is not None))

    @property
    def group_unit(self) -> PrivacyUnit:
        """The unit of privacy: all records of one owner."""
        if len(self.group) > 1:
            return PrivacyUnit.of_owners(self.group)
        return PrivacyUnit.of_column(self.group[0]) if self.group else PrivacyUnit("one row")


class _WrongCells:
    """Counts of wrong cells in each column, over several batches, and the first row with a wrong cell."""

    def __init__(self, num_columns: int) -> None:
        self.counts = np.zeros(num_columns, np.int64)
        self.first_rows = np.zeros(num_columns, np.int64)

    def add(self, is_wrong: NDArray[np.bool_], row_numbers: Numbers) -> None:
        """Adds the wrong cells of a batch to the counts.

        Args:
            is_wrong: whether each cell is wrong, `[num_rows, num_columns]`.
            row_numbers: the numbers of the rows, `[num_rows]`.
        """
        first_rows = row_numbers[is_wrong.argmax(axis=0)]
        self.first_rows = np.where(self.counts > 0, self.first_rows, first_rows)
        self.counts += is_wrong.sum(axis=0)


class Rows:
    """The rows of one split, read from a table.

    n is the number of rows.

    Attributes:
        inputs: features `[n, num_features]`; a read-only `np.memmap` if the table is large.
        labels: bool `[n, num_labels]`.
        labeled: False if all labels of public rows are missing; all of `labels` are False then.
        numbers: int64 `[n]`, the numbers of the rows in the file, from 0.
        groups: for each kind of owner, pyarrow words `[n]` that name the owner of each row.
        ids: pyarrow words `[n]` that name the records; None if no column does.
        budgets: pyarrow words `[n]`; None if no column has budgets.
        texts: the first 2,000 texts of each column of free text, by the column's name.
        unknown_and_missing: the numbers of unknown and of missing cells, `[num_columns, 2]`, see `Encoded`.

    Args:
        batches: the rows, some thousand at a time.
        schema: encodes the features.
        labels: reads the labels.
        roles: the columns that name records and owners.
        name: the name of the setting that names the file, for messages.
        split: the split that the rows belong to.

    Raises:
        InvalidValue: a cell, label, group or id is wrong. The message has the column and a count, but no cell.
    """

    def __init__(
        self,
        batches: Iterable[NumberedBatch],
        schema: TableSchema,
        labels: Labels,
        roles: Roles,
        *,
        name: str,
        split: str,
    ) -> None:
        self._schema = schema
        self._label_form = labels
        self._name = name
        self._wrong_cells = _WrongCells(len(schema.columns))
        self._wrong_labels = _WrongCells(len(labels.names))
        self.unknown_and_missing = np.zeros((len(schema.columns), 2), np.int64)
        self.texts: dict[str, list[str]] = {column: [] for column in schema.texts}
        self.labeled = split != "public"
        inputs = Spilled()
        bits = Spilled()
        numbers = [np.zeros(0, np.int64)]
        words: dict[str, list[Any]] = {column: [] for column in roles.columns}
        for batch_numbers, batch in batches:
            numbers.append(batch_numbers)
            inputs.append(self._encode(row_numbers=batch_numbers, batch=batch))
            cells = self._other_columns(batch, roles)
            bits.append(self._read_labels(row_numbers=batch_numbers, table=cells))
            for column, chunks in words.items():
                chunks.append(as_texts(cells.column(column)))
        self.numbers = np.concatenate(numbers)
        schema.require_no_wrong_cell(
            name,
            num_wrong=self._wrong_cells.counts,
            first_wrong=self._wrong_cells.first_rows,
            num_rows=len(self.numbers),
        )
        self._require_labels()
        joined = {column: arrow().chunked_array(chunks) for column, chunks in words.items()}
        for column, column_words in joined.items():
            self._require_values(column, column_words)
        self.groups = [joined[column] for column in roles.group]
        self.ids = None if roles.id is None else joined[roles.id]
        self.budgets = None if roles.budget is None else joined[roles.budget]
        self.inputs: Any = inputs.whole()
        self.labels = bits.whole()

    @property
    def record_names(self) -> list[str]:
        """The names of the records; an empty list if no column names them."""
        return [] if self.ids is None else list(self.ids.to_pylist())

    def _encode(self, row_numbers: Numbers, batch: Any) -> NDArray[np.float32]:
        encoded = self._schema.encode(batch)
        self._wrong_cells.add(encoded.wrong, row_numbers)
        self.unknown_and_missing += encoded.unknown_and_missing
        for column, texts in self.texts.items():
            cells = batch.column(column)[: NUM_COUNTED_TEXTS - len(texts)]
            texts += as_strings(as_texts(cells))
        return encoded.features

    def _other_columns(self, batch: Any, roles: Roles) -> Any:
        """Returns a pyarrow table of the columns of labels and roles, in which missing cells are null."""
        labels = [column for column in self._label_form.columns if column in batch.column_names]
        columns = list(dict.fromkeys((*labels, *roles.columns)))
        return with_missing(table=batch.select(columns), spelling=self._schema.spelling)

    def _read_labels(self, row_numbers: Numbers, table: Any) -> NDArray[np.bool_]:
        """Returns the labels of a batch, bool `[num_rows, num_labels]`.

        All are False if the columns of labels are missing, which public rows may lack.

        Args:
            row_numbers: the numbers of the rows, `[num_rows]`.
            table: the rows as a pyarrow table.
        """
        bits = np.zeros((len(row_numbers), len(self._label_form.names)), np.bool_)
        columns = [column for column in self._label_form.columns if column in table.column_names]
        if len(columns) == len(self._label_form.columns):
            bits, wrong = self._label_form.read(table, self._schema.spelling)
            self._wrong_labels.add(wrong, row_numbers)
        has_cells = any(not is_missing(as_texts(table.column(column))).all() for column in columns)
        self.labeled = self.labeled or has_cells
        return bits

    def _require_labels(self) -> None:
        """Raises `InvalidValue` if a cell is no label, unless the rows are public and all their labels are missing."""
        if not self.labeled:
            return
        form = self._label_form
        rows = zip(
            form.names,
            self._wrong_labels.counts.tolist(),
            self._wrong_labels.first_rows.tolist(),
            strict=True,
        )
        for label, count, row in rows:
            if not count:
                continue
            wrong_cells = wrong_cells_in_words(
                num_wrong=count, num_rows=len(self.numbers), first_row=row
            )
            if form.column is not None:
                rule = f"{form.rule}, {wrong_cells}"
                raise InvalidValue(f"{self._name}.{form.column}", rule=rule)
            rule = f"0 or 1 in a label's column, {wrong_cells}{form.hint}"
            raise InvalidValue(f"{self._name}.{label}", rule=rule)

    def _require_values(self, column: str, words: Any) -> None:
        """Raises `InvalidValue` if a cell of a column is missing or has only invisible characters."""
        compute = arrow().compute
        num_unseen = compute.sum(compute.match_substring_regex(words, _UNSEEN)).as_py() or 0
        num_missing = words.null_count + num_unseen
        if num_missing:
            rule = f"a value in each row, {num_missing} of {len(words)} rows have none"
            raise InvalidValue(f"{self._name}.{column}", rule=rule)


def gather_batches(
    batches: Iterable[NumberedBatch], *, file_size_kb: int, report_progress: Callable[[int], object]
) -> Iterator[NumberedBatch]:
    """Yields batches with columns of text, joined to larger batches so that all cores have texts to encode.

    Args:
        batches: the batches of a file.
        file_size_kb: the size of the file, in kB.
        report_progress: is called with the number of kB that are done so far, at most `file_size_kb`.
    """
    numbers: list[Numbers] = []
    tables: list[Any] = []
    num_kb_done = 0
    for batch_numbers, table in batches:
        numbers.append(batch_numbers)
        tables.append(table)
        num_bytes = sum(table.nbytes for table in tables)
        if num_bytes >= _GATHERED_BYTES:
            yield np.concatenate(numbers), arrow().concat_tables(tables)
            numbers = []
            tables = []
            num_kb_done += num_bytes // 1000
            report_progress(min(num_kb_done, file_size_kb))
    if tables:
        yield np.concatenate(numbers), arrow().concat_tables(tables)
        report_progress(file_size_kb)
