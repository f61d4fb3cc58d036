"""Reading of the rows of one split: features, labels, and the names of records and owners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pate.accounting import PrivacyUnit
from pate.array_types import BoolArray, IntArray
from pate.data.table.arrow import import_pyarrow, is_null, joined
from pate.data.table.cells import as_texts, with_missing
from pate.data.table.column import Encoded, row_in_words, wrong_cells_in_words
from pate.data.table.fingerprints import CellDigest
from pate.data.table.labels import Labels, ReadLabels
from pate.data.table.schema import TableSchema
from pate.data.table.table_file import NumberedBatch
from pate.data.texts.reading import as_strings
from pate.data.texts.vectors import NUM_COUNTED_TEXTS
from pate.files.array_rows import Spilled
from pate.pool import in_order
from pate.validation import InvalidValue

# The number of bytes of a megabyte.
MEGABYTE = 10**6
# A regular expression of words without a visible character.
_INVISIBLE_WORD = r"^[\s\p{Z}\p{C}]*$"
# The size from which on batches with texts are encoded.
_GATHERED_BYTES = 2**25


class Roles(NamedTuple):
    """The names of the columns that identify the record, its owners and their budget.

    Attributes:
        group: the columns that name the owner of a row, one column for each kind of owner.
        id: the column that names the record; None if there is none.
        budget: the column with the epsilon that a group agreed to, or the name of a class of budgets; None if there is
            none.
    """

    group: tuple[str, ...] = ()
    id: str | None = None
    budget: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of owners, record and budget, each once."""
        columns = (*self.group, self.id, self.budget)
        return tuple(dict.fromkeys(column for column in columns if column is not None))

    @property
    def group_unit(self) -> PrivacyUnit:
        """The unit of privacy: all rows of one owner; one row if no column names owners."""
        if len(self.group) > 1:
            return PrivacyUnit.of_owners(columns=self.group)
        return PrivacyUnit.of_column(column=self.group[0]) if self.group else PrivacyUnit("one row")


class _WrongCells:
    """Counts of wrong cells in each column, over several batches, and each column's first row with a wrong cell.

    `broken_rules` has the first broken rule of each column, as `Encoded.broken_rules`.
    """

    def __init__(self, num_columns: int) -> None:
        self.num_wrong_per_column = np.zeros(num_columns, np.int64)
        self.first_wrong_row_per_column = np.zeros(num_columns, np.int64)
        self.broken_rules: tuple[str | None, ...] = (None,) * num_columns

    def add(
        self,
        is_wrong: BoolArray,
        row_numbers: IntArray,
        *,
        broken_rules: Sequence[str | None] | None = None,
    ) -> None:
        """Adds the wrong cells of a batch to the counts.

        Args:
            is_wrong: whether each cell is wrong, `[num_rows, num_columns]`.
            row_numbers: the numbers of the rows, `[num_rows]`.
            broken_rules: the broken rule of each column in the batch, or None.
        """
        if broken_rules is not None:
            pairs = zip(self.broken_rules, broken_rules, strict=True)
            self.broken_rules = tuple(earlier or later for earlier, later in pairs)
        first_row_in_batch = row_numbers[is_wrong.argmax(axis=0)]
        self.first_wrong_row_per_column = np.where(
            self.num_wrong_per_column > 0, self.first_wrong_row_per_column, first_row_in_batch
        )
        self.num_wrong_per_column += is_wrong.sum(axis=0)


@dataclass(frozen=True, eq=False)  # == of arrays is an array
class _EncodedBatch:
    """Some thousand rows of a table after reading.

    Attributes:
        row_numbers: the numbers of the rows, `[num_rows]`.
        encoded: the features, with counts of cells.
        read_labels: the labels; None if the rows lack a column of labels, which public rows may do.
        is_labeled: False if the rows are public and all cells of labels are missing. True otherwise, and also once an
            earlier batch had a label.
        cells_of_column: the cells of each column that names records, owners or budgets, by its name: a pyarrow array of
            int64 or of words.
        texts: up to 2,000 of the batch's first cells in each column of free text, by the column's name.
        row_hashes_for_digest: the hash of all cells of each row, `[num_rows]`; None if there is no digest.
    """

    row_numbers: IntArray
    encoded: Encoded
    read_labels: ReadLabels | None
    is_labeled: bool
    cells_of_column: dict[str, Any]
    texts: dict[str, list[str]]
    row_hashes_for_digest: NDArray[np.uint64] | None


class Rows:
    """The rows of one split, read from a table.

    n is the number of rows.

    Attributes:
        inputs: features `[n, num_features]`; `FileRows` if the table is large.
        labels: bool `[n, num_labels]`; False where a label is unknown.
        known: bool `[n, num_labels]`, which labels are known. None if all are, unless a setting says what uncertain
            labels mean; also None if `labeled` is False.
        labeled: False if all labels of public rows are missing; all of `labels` are False then.
        row_numbers: int64 `[n]`, the numbers of the rows in the table, from 0.
        owner_cells_of_kinds: for each kind of owner, a chunked pyarrow array `[n]` that names the owner of each
            row: whole numbers where the column has such a type, and otherwise words.
        ids: the names of the records in the same form; None if no column names them.
        budget_cells: pyarrow words `[n]`; None if no column has budgets.
        texts: the first 2,000 texts of each column of free text, by the column's name.
        num_unknown_and_missing: the numbers of unknown and of missing cells, `[num_columns, 2]`, see `Encoded`.

    Args:
        batches: the rows, some thousand at a time, as pairs of row numbers and a pyarrow table.
        schema: encodes the features.
        label_form: reads the labels.
        roles: the columns that name records and owners.
        setting_name: the name of the setting that names the table, for messages.
        split_name: the split that the rows belong to: private, public or test.
        cell_hasher: receives all cells of the batches; None if no digest of them is needed.
        in_threads: whether several batches are encoded at a time, by the pool of threads that is open.
        describe_row: returns the words for a row in a message, from its number.

    Raises:
        InvalidValue: a cell, label, group or id is wrong. The message has the column and a count, but no cell.
    """

    def __init__(
        self,
        batches: Iterable[NumberedBatch],
        schema: TableSchema,
        label_form: Labels,
        roles: Roles,
        *,
        setting_name: str,
        split_name: str,
        cell_hasher: CellDigest | None = None,
        in_threads: bool = False,
        describe_row: Callable[[int], str] = row_in_words,
    ) -> None:
        self._schema = schema
        self._label_form = label_form
        self._setting_name = setting_name
        self._split = split_name
        self._describe_row = describe_row
        self._wrong_cells = _WrongCells(num_columns=len(schema.columns))
        self._wrong_labels = _WrongCells(num_columns=len(label_form.names))
        self.num_unknown_and_missing = np.zeros((len(schema.columns), 2), np.int64)
        self.texts: dict[str, list[str]] = {column_name: [] for column_name in schema.texts}
        self.labeled = split_name != "public"
        inputs = Spilled()
        labels_of_batches: list[BoolArray] = []
        known_of_batches: list[BoolArray | None] = []
        row_numbers_of_batches = [np.zeros(0, np.int64)]
        chunks_of_column: dict[str, list[Any]] = {column_name: [] for column_name in roles.columns}

        def read(numbered_batch: NumberedBatch) -> _EncodedBatch:
            return self._read(numbered_batch, roles=roles, cell_hasher=cell_hasher)

        encoded_batches = in_order(read, batches) if in_threads else map(read, batches)
        for encoded_batch in encoded_batches:
            row_numbers_of_batches.append(encoded_batch.row_numbers)
            inputs.append(encoded_batch.encoded.features)
            labels_of_batches.append(self._add(encoded_batch))
            known_of_batches.append(_known_mask(encoded_batch))
            for column_name, chunks in chunks_of_column.items():
                chunks.append(encoded_batch.cells_of_column[column_name])
            if cell_hasher is not None and encoded_batch.row_hashes_for_digest is not None:
                cell_hasher.add(encoded_batch.row_hashes_for_digest)
        self.row_numbers = np.concatenate(row_numbers_of_batches)
        schema.require_no_wrong_cell(
            setting_name,
            num_wrong_per_column=self._wrong_cells.num_wrong_per_column,
            first_wrong_row_per_column=self._wrong_cells.first_wrong_row_per_column,
            broken_rules=self._wrong_cells.broken_rules,
            num_rows=len(self.row_numbers),
            describe_row=describe_row,
        )
        self._require_labels()
        cells_of_column = {
            column_name: import_pyarrow().chunked_array(chunks)
            for column_name, chunks in chunks_of_column.items()
        }
        for column_name, cells_of_role in cells_of_column.items():
            self._require_values(column_name, cells_of_role=cells_of_role)
        self.owner_cells_of_kinds = [cells_of_column[column_name] for column_name in roles.group]
        self.ids = None if roles.id is None else cells_of_column[roles.id]
        self.budget_cells = (
            None if roles.budget is None else as_texts(cells_of_column[roles.budget])
        )
        self.inputs: Any = inputs.whole()
        self.labels = np.concatenate(labels_of_batches)
        self.known = self._join_masks(
            known_of_batches=known_of_batches, labels_of_batches=labels_of_batches
        )

    @property
    def record_names(self) -> list[str]:
        """The name of each record as a text, in the order of the rows; an empty list if no column names them."""
        return [] if self.ids is None else list(as_texts(self.ids).to_pylist())

    def _read(
        self, numbered_batch: NumberedBatch, roles: Roles, cell_hasher: CellDigest | None
    ) -> _EncodedBatch:
        """Reads a batch: features, labels, names, texts and hashes. Several threads may read different batches at once.

        Args:
            numbered_batch: the batch, with the numbers of its rows.
            roles: the columns that name records and owners.
            cell_hasher: computes the hashes of the rows; None if no digest is needed.
        """
        row_numbers, batch = numbered_batch
        label_form = self._label_form
        label_columns = [
            column for column in label_form.label_columns if column in batch.column_names
        ]
        columns_with_repeats = [*label_columns, *roles.columns]
        label_and_role_columns = list(dict.fromkeys(columns_with_repeats))
        cells = with_missing(
            table=batch.select(label_and_role_columns), cell_notation=self._schema.spelling
        )
        is_labeled = self.labeled or any(
            not is_null(as_texts(cells.column(column))).all() for column in label_columns
        )
        read_labels = None
        if len(label_columns) == len(label_form.label_columns):
            read_labels = label_form.read(batch, cell_notation=self._schema.spelling)
        return _EncodedBatch(
            row_numbers=row_numbers,
            encoded=self._schema.encode(batch),
            read_labels=read_labels,
            is_labeled=is_labeled,
            cells_of_column={column: _names(cells.column(column)) for column in roles.columns},
            texts={
                column: as_strings(as_texts(batch.column(column)[:NUM_COUNTED_TEXTS]))
                for column, texts in self.texts.items()
                if len(texts) < NUM_COUNTED_TEXTS
            },
            row_hashes_for_digest=None if cell_hasher is None else cell_hasher.hashes(batch),
        )

    def _add(self, encoded_batch: _EncodedBatch) -> BoolArray:
        """Adds the counts and texts of a batch to those of this object, and returns the batch's labels.

        The labels are bool `[num_rows, num_labels]`; all are False if the batch has none.
        """
        self._wrong_cells.add(
            is_wrong=encoded_batch.encoded.wrong,
            row_numbers=encoded_batch.row_numbers,
            broken_rules=encoded_batch.encoded.broken_rules,
        )
        self.num_unknown_and_missing += encoded_batch.encoded.num_unknown_and_missing
        self.labeled = self.labeled or encoded_batch.is_labeled
        for column, texts in encoded_batch.texts.items():
            num_wanted = NUM_COUNTED_TEXTS - len(self.texts[column])
            self.texts[column] += texts[:num_wanted]
        read_labels = encoded_batch.read_labels
        if read_labels is None:
            return np.zeros((len(encoded_batch.row_numbers), len(self._label_form.names)), np.bool_)
        self._wrong_labels.add(is_wrong=read_labels.wrong, row_numbers=encoded_batch.row_numbers)
        self._label_form.num_unknown += read_labels.num_unknown
        return read_labels.bits

    def _join_masks(
        self,
        *,
        known_of_batches: Sequence[BoolArray | None],
        labels_of_batches: Sequence[BoolArray],
    ) -> BoolArray | None:
        """Returns which labels of all rows are known, bool `[n, num_labels]`, for the attribute `known`.

        The result is None if all labels are known and no setting says what uncertain labels mean, or if the rows are
        public and no label of any row is known. In the second case, `labeled` is False afterwards.

        Args:
            known_of_batches: which labels of each batch are known, `[num_rows, num_labels]`; None if all are.
            labels_of_batches: the labels of each batch, `[num_rows, num_labels]`.

        Raises:
            InvalidValue: no label of any row is known, unless the rows are public.
        """
        have_gaps = any(known is not None for known in known_of_batches)
        may_have_gaps = have_gaps or self._label_form.reading_of_uncertain_cells.reading is not None
        if not self.labeled or not may_have_gaps:
            return None
        mask = np.concatenate(
            [
                np.ones_like(labels) if known is None else known
                for known, labels in zip(known_of_batches, labels_of_batches, strict=True)
            ]
        )
        if mask.any():
            return mask
        if self._split != "public":
            name = f"{self._setting_name}.{self._label_form.label_columns[0]}"
            raise InvalidValue(name, rule="a label in some row, no cell tells one")
        self.labeled = False
        return None

    def _require_labels(self) -> None:
        """Raises `InvalidValue` if a cell in a column of labels is no label, with the number of these cells.

        Public rows whose labels are all missing are accepted.
        """
        if not self.labeled:
            return
        label_form = self._label_form
        rows = zip(
            label_form.names,
            self._wrong_labels.num_wrong_per_column.tolist(),
            self._wrong_labels.first_wrong_row_per_column.tolist(),
            strict=True,
        )
        for label, num_wrong_cells, first_wrong_row in rows:
            if not num_wrong_cells:
                continue
            wrong_cells = wrong_cells_in_words(
                num_wrong=num_wrong_cells,
                num_rows=len(self.row_numbers),
                first_row_in_words=self._describe_row(first_wrong_row),
            )
            if label_form.column_of_all_labels is not None:
                rule = f"{label_form.rule}, {wrong_cells}"
                raise InvalidValue(
                    f"{self._setting_name}.{label_form.column_of_all_labels}", rule=rule
                )
            rule = f"0 or 1 in a label's column, {wrong_cells}{label_form.hint}"
            raise InvalidValue(f"{self._setting_name}.{label}", rule=rule)

    def _require_values(self, column_name: str, cells_of_role: Any) -> None:
        """Raises `InvalidValue` if a name in a column of owners, records or budgets is missing or invisible.

        Args:
            column_name: the name of the column.
            cells_of_role: the cells of the column, a pyarrow array of int64 or of words.
        """
        pa = import_pyarrow()
        num_missing = cells_of_role.null_count
        if cells_of_role.type == pa.string():
            is_invisible = pa.compute.match_substring_regex(cells_of_role, pattern=_INVISIBLE_WORD)
            num_missing += pa.compute.sum(is_invisible).as_py() or 0
        if num_missing:
            rule = f"a value in each row, {num_missing} of {len(cells_of_role)} rows have none"
            raise InvalidValue(f"{self._setting_name}.{column_name}", rule=rule)


def _known_mask(encoded_batch: _EncodedBatch) -> BoolArray | None:
    """Returns which labels of a batch are known, `[num_rows, num_labels]`; None if all are or it has no labels."""
    if encoded_batch.read_labels is None or encoded_batch.read_labels.known.all():
        return None
    return encoded_batch.read_labels.known


def _names(cells: Any) -> Any:
    """Returns the cells of a column as names, a pyarrow array `[num_rows]`: int64 for whole numbers, else words.

    Whole numbers are recognized by the type of the array, not by the text of cells. uint64 becomes words.
    """
    pa = import_pyarrow()
    if pa.types.is_integer(cells.type) and cells.type != pa.uint64():
        return joined(cells).cast(pa.int64())
    return as_texts(cells)


def report_batches(
    batches: Iterable[NumberedBatch], *, file_size_mb: int, report_progress: Callable[..., object]
) -> Iterator[NumberedBatch]:
    """Yields batches as they are, and reports how many megabytes and rows were read.

    Args:
        batches: pairs of row numbers and a pyarrow table, of a file or of several files.
        file_size_mb: the size of all files, in MB.
        report_progress: is called with the number of MB that are read, at most `file_size_mb`, and the number of rows
            in words.
    """
    num_bytes = 0
    num_rows = 0
    for batch_numbers, table in batches:
        yield batch_numbers, table
        num_bytes += table.nbytes
        num_rows += len(batch_numbers)
        report_progress(min(num_bytes // MEGABYTE, file_size_mb), f"{num_rows:,} rows")


def gather_batches(
    batches: Iterable[NumberedBatch], *, file_size_kb: int, report_progress: Callable[[int], object]
) -> Iterator[NumberedBatch]:
    """Joins batches to batches of at least 32 MB, so that all cores have texts to encode, and yields these.

    The last one may be smaller.

    Args:
        batches: pairs of row numbers and a pyarrow table, in the order of the file.
        file_size_kb: the size of the file, in kB.
        report_progress: is called with the number of kB that are done so far, at most `file_size_kb`.
    """
    row_numbers_of_batches: list[IntArray] = []
    tables_of_batches: list[Any] = []
    num_kb_done = 0
    for batch_numbers, table in batches:
        row_numbers_of_batches.append(batch_numbers)
        tables_of_batches.append(table)
        num_bytes = sum(table.nbytes for table in tables_of_batches)
        if num_bytes >= _GATHERED_BYTES:
            yield (
                np.concatenate(row_numbers_of_batches),
                import_pyarrow().concat_tables(tables_of_batches),
            )
            row_numbers_of_batches = []
            tables_of_batches = []
            num_kb_done += num_bytes // 1000
            report_progress(min(num_kb_done, file_size_kb))
    if tables_of_batches:
        yield (
            np.concatenate(row_numbers_of_batches),
            import_pyarrow().concat_tables(tables_of_batches),
        )
        report_progress(file_size_kb)
