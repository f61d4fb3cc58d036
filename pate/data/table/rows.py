"""Rows of one split as features, labels and the words that name their records and owners."""

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
from pate.files.arrays import Spilled
from pate.validation import InvalidValue

Numbers = NDArray[np.int64]

_UNSEEN = r"^[\s\p{Z}\p{C}]*$"  # of words in which nobody sees a character
_GATHERED_BYTES = 2**25  # of batches with texts that are encoded at once


class Roles(NamedTuple):
    """Columns that name things.

    Attributes:
        group: the columns that tell whose a row is, one for each kind of owner.
        id: the column that names the record.
        budget: the column that tells what epsilon a group agreed to.
    """

    group: tuple[str, ...] = ()
    id: str | None = None
    budget: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All of the columns, each once."""
        columns = (*self.group, self.id, self.budget)
        return tuple(dict.fromkeys(column for column in columns if column is not None))

    @property
    def group_unit(self) -> PrivacyUnit:
        """The unit of privacy that the columns of groups make."""
        if len(self.group) > 1:
            return PrivacyUnit.of_owners(self.group)
        return PrivacyUnit.of_column(self.group[0]) if self.group else PrivacyUnit("one row")


class _WrongCells:
    """Counts of wrong cells by column, over batches, and the first row with one."""

    def __init__(self, num_columns: int) -> None:
        self.counts = np.zeros(num_columns, np.int64)
        self.first_rows = np.zeros(num_columns, np.int64)

    def add(self, wrong: NDArray[np.bool_], numbers: Numbers) -> None:
        """Adds which cells of a batch are wrong, `[n, num_columns]`, and the numbers `[n]` of its rows."""
        first_rows = numbers[wrong.argmax(axis=0)]
        self.first_rows = np.where(self.counts > 0, self.first_rows, first_rows)
        self.counts += wrong.sum(axis=0)


class Rows:
    """The rows of one split.

    Attributes:
        inputs: features `[n, d]`, of a large table a read-only `np.memmap`.
        labels: bool `[n, num_labels]`.
        labeled: False where all labels of public rows are missing; their bits are False then.
        numbers: int64 `[n]`, the numbers of the rows in the file, from 0.
        groups: pyarrow words `[n]` of each column that tells whose a row is.
        ids: pyarrow words `[n]`, or None where no column names records.
        budgets: pyarrow words `[n]`, or None where no column tells budgets.
        texts: the first texts of each column of text, by its name.
        unknown_and_missing: counts of cells `[num_columns, 2]`, see `Encoded`.

    Args:
        batches: of the rows, with their numbers.
        schema: makes the features.
        labels: reads the labels.
        roles: the columns that name records and owners.
        name: of the setting that names the file, for messages.
        split: whose rows these are.

    Raises:
        InvalidValue: cells, labels, groups or ids are wrong; the message has the column and a count, and no cell.
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
            inputs.append(self._encode(batch_numbers, batch))
            cells = self._other_columns(batch, roles)
            bits.append(self._read_labels(batch_numbers, cells))
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
        """The words that name records; none where no column names them."""
        return [] if self.ids is None else list(self.ids.to_pylist())

    def _encode(self, numbers: Numbers, batch: Any) -> NDArray[np.float32]:
        encoded = self._schema.encode(batch)
        self._wrong_cells.add(encoded.wrong, numbers)
        self.unknown_and_missing += encoded.unknown_and_missing
        for column, texts in self.texts.items():
            cells = batch.column(column)[: NUM_COUNTED_TEXTS - len(texts)]
            texts += as_strings(as_texts(cells))
        return encoded.features

    def _other_columns(self, batch: Any, roles: Roles) -> Any:
        """Returns the columns of labels and roles, missing cells null."""
        labels = [column for column in self._label_form.columns if column in batch.column_names]
        columns = list(dict.fromkeys((*labels, *roles.columns)))
        return with_missing(batch.select(columns), self._schema.spelling)

    def _read_labels(self, numbers: Numbers, table: Any) -> NDArray[np.bool_]:
        """Returns the bits of a batch; all False where it lacks a column of labels, as public rows may."""
        bits = np.zeros((len(numbers), len(self._label_form.names)), np.bool_)
        columns = [column for column in self._label_form.columns if column in table.column_names]
        if len(columns) == len(self._label_form.columns):
            bits, wrong = self._label_form.read(table, self._schema.spelling)
            self._wrong_labels.add(wrong, numbers)
        has_cells = any(not is_missing(as_texts(table.column(column))).all() for column in columns)
        self.labeled = self.labeled or has_cells
        return bits

    def _require_labels(self) -> None:
        """Raises where a cell is no label, unless all labels of public rows are missing."""
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
            wrong_cells = wrong_cells_in_words(count, num_rows=len(self.numbers), first_row=row)
            if form.column is not None:
                rule = f"{form.rule}, {wrong_cells}"
                raise InvalidValue(f"{self._name}.{form.column}", rule=rule)
            rule = f"0 or 1 in a label's column, {wrong_cells}{form.hint}"
            raise InvalidValue(f"{self._name}.{label}", rule=rule)

    def _require_values(self, column: str, words: Any) -> None:
        """Raises unless each row has a word in which a character is seen."""
        compute = arrow().compute
        num_unseen = compute.sum(compute.match_substring_regex(words, _UNSEEN)).as_py() or 0
        num_missing = words.null_count + num_unseen
        if num_missing:
            rule = f"a value in each row, {num_missing} of {len(words)} rows have none"
            raise InvalidValue(f"{self._name}.{column}", rule=rule)


def gather_batches(
    batches: Iterable[NumberedBatch], *, size_kb: int, advance: Callable[[int], object]
) -> Iterator[NumberedBatch]:
    """Yields batches with texts, joined until all cores have texts to encode.

    Args:
        batches: of a file.
        size_kb: of the file, in kB.
        advance: is called with the number of kB that are done, `size_kb` at most.
    """
    numbers = list[Numbers]()
    tables = list[Any]()
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
            advance(min(num_kb_done, size_kb))
    if tables:
        yield np.concatenate(numbers), arrow().concat_tables(tables)
        advance(size_kb)
