"""A random division of the rows of one file into private, public and test rows, which splits no group of rows."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from pate.array_types import IntArray
from pate.data.split import SPLITS
from pate.data.table.arrow import import_pyarrow
from pate.data.table.cells import as_texts, with_missing
from pate.data.table.column_names import require_column
from pate.data.table.csv_table import read_head
from pate.data.table.people import People
from pate.data.table.table_file import TableFile
from pate.files.atomic import atomic_write
from pate.validation import InvalidValue, require_count

# A group with at least this share of all rows is remarked on.
_LARGE_SHARE = 0.2

Write = Callable[[Any], object]
"""A function that appends a pyarrow table to a file."""


@dataclass(frozen=True)
class Dealing:
    """A random division of the rows of a file into private, public and test rows, by groups.

    The division depends only on the seed, the shares, and which rows belong to the same group.

    Attributes:
        table_file: the file with all rows.
        group: the column whose equal or similar cells mark rows that belong together; None if each row is a group of
            its own. Similar cells differ only in letter case, accents, punctuation, blanks or leading zeros.
        public_share: the share of groups that become public, above 0; at least one group does.
        test_share: the share of groups that become the test set, above 0; at least one group does. All other groups
            become private.
        seed: the seed of the random order of the groups.
    """

    table_file: TableFile
    group: str | None
    public_share: float
    test_share: float
    seed: int = 0

    def __post_init__(self) -> None:
        require_count("seed", self.seed, minimum=0)
        are_shares = self.public_share > 0 and self.test_share > 0
        leave_private_rows = self.public_share + self.test_share < 1
        if not are_shares or not leave_private_rows:
            rule = "two shares above 0, of the public and the test part, that leave a private one: split=.1,.1"
            raise InvalidValue("split", self._shares, rule=rule)

    @property
    def _shares(self) -> str:
        return f"{self.public_share},{self.test_share}"

    def write(self, folder: Path) -> dict[str, Path]:
        """Writes each split into a file of the kind of `table_file`, with rows in their original order.

        Args:
            folder: the folder of the new files.

        Returns:
            The path of each split's file, by the split's name.

        Raises:
            InvalidValue: a file of one of the new names already exists, or the shares leave no private group.
        """
        paths = {split: folder / f"{split}{self.table_file.ending}" for split in SPLITS}
        for part_file in paths.values():
            if part_file.exists():
                rule = "a folder without such a file, which is kept as it is"
                raise InvalidValue("output", part_file, rule=rule)
        part_of_row = self.part_of_row()
        # Lists of words stay lists, so that they are read as in the original file.
        table_file = replace(self.table_file, columns_with_whole_lists=tuple(self.table_file.names))
        with ExitStack() as stack:
            writers = [
                stack.enter_context(_writer(table_file, new_file=part_file))
                for part_file in paths.values()
            ]
            for row_numbers, batch in table_file.rows():
                for part, write in enumerate(writers):
                    write(batch.filter(import_pyarrow().array(part_of_row[row_numbers] == part)))
        return paths

    @cached_property
    def group_of_row(self) -> IntArray:
        """The number of each row's group, from 0, int64 `[num_rows]`.

        Raises `InvalidValue` if the column `group` is missing or has a missing cell.
        """
        if self.group is None:
            first_column_names = self.table_file.names[:1]
            num_rows_of_file = sum(
                table.num_rows for _, table in self.table_file.rows(first_column_names)
            )
            return np.arange(num_rows_of_file, dtype=np.int64)
        require_column(
            "group",
            column_name=self.group,
            column_names=self.table_file.names,
            table_description="data",
        )
        cell_notation = self.table_file.spelling()
        chunks = [
            as_texts(with_missing(table, cell_notation=cell_notation).column(0))
            for _, table in self.table_file.rows([self.group])
        ]
        words = import_pyarrow().chunked_array(chunks)
        if words.null_count:
            rule = f"a value in each row, {words.null_count} of {len(words)} rows have none"
            raise InvalidValue("group", self.group, rule=rule)
        return People.from_names(
            cells_of_splits=[words], cell_notation=cell_notation
        ).merged_by_similar_names()[0]

    def part_of_row(self) -> IntArray:
        """Returns the split of each row, `[num_rows]`, as an index into `SPLITS`: private, public, test.

        Raises `InvalidValue` if the shares, rounded to whole groups, leave no group for the private split.
        """
        num_groups = int(self.group_of_row.max()) + 1
        num_public_groups = max(round(self.public_share * num_groups), 1)
        num_test_groups = max(round(self.test_share * num_groups), 1)
        num_private_groups = num_groups - num_public_groups - num_test_groups
        if num_private_groups <= 0:
            rule = f"more than {num_groups} groups of rows"
            raise InvalidValue("split", self._shares, rule=rule)
        indices_of_parts = [SPLITS.index("public"), SPLITS.index("test"), SPLITS.index("private")]
        part_of_position = np.repeat(
            indices_of_parts, [num_public_groups, num_test_groups, num_private_groups]
        )
        groups_in_order_of_parts = np.random.default_rng(self.seed).permutation(num_groups)
        position_of_group = np.argsort(groups_in_order_of_parts)
        return part_of_position[position_of_group][self.group_of_row]

    def largest_remark(self) -> str | None:
        """Returns a remark if one of 15 or more groups has at least a fifth of all rows; None otherwise."""
        counts = np.bincount(self.group_of_row)
        has_few_groups = len(counts) < len(SPLITS) / _LARGE_SHARE
        if has_few_groups or counts.max() < _LARGE_SHARE * counts.sum():
            return None
        return (
            f"group={self.group}: one has {counts.max()} of {counts.sum()} rows, all of which are in "
            "one part"
        )


@contextmanager
def _writer(original_file: TableFile, new_file: Path) -> Iterator[Write]:
    """Opens a new file with the columns and the format of `original_file` for a `with` block.

    The block gets a function that appends a pyarrow table to the file.

    Args:
        original_file: the file whose columns and format are copied.
        new_file: the path of the new file.
    """
    with atomic_write(new_file) as out:
        if original_file.is_text:
            with ExitStack() as stack:
                binary_stream = out
                if new_file.suffix == ".gz":
                    gzip_stream = gzip.GzipFile(fileobj=out, mode="wb", mtime=0)
                    binary_stream = cast(BinaryIO, stack.enter_context(gzip_stream))
                text_stream = io.TextIOWrapper(binary_stream, original_file.read_in, newline="")
                yield (
                    _json_writer(text_stream)
                    if original_file.kind == "json"
                    else _csv_writer(text_stream, original_file)
                )
                text_stream.flush()
                text_stream.detach()  # otherwise it would close the file, which `atomic_write` closes
            return
        from pyarrow import ipc, parquet

        arrow_schema = next(original_file.batches()).schema
        writer = parquet.ParquetWriter if original_file.kind == "parquet" else ipc.new_file
        with writer(import_pyarrow().PythonFile(out, mode="w"), arrow_schema) as table_writer:
            yield table_writer.write_table


def _json_writer(text_stream: io.TextIOWrapper) -> Write:
    """Returns a function that appends the rows of a pyarrow table to a file of JSON lines."""

    def append_json_lines(table: Any) -> None:
        text_stream.writelines(
            json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()
        )

    return append_json_lines


def _csv_writer(text_stream: io.TextIOWrapper, original_file: TableFile) -> Write:
    """Writes the line of names into a CSV file, and returns a function that appends the rows of a pyarrow table.

    Args:
        text_stream: the new file.
        original_file: the file whose names and separator are copied.
    """
    head = read_head(original_file.source_files[0])
    rows = csv.writer(text_stream, delimiter=head.separator, lineterminator="\n")
    rows.writerow(head.column_names)

    def append_csv_rows(table: Any) -> None:
        rows.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))

    return append_csv_rows
