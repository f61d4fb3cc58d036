"""Rows of a file of JSON lines as tables of words.

Each line is read by Python's own reader. `pandas.read_json` makes another number of a whole number of 21 digits, and
makes 1.0 of 1 where another line lacks the field. A field that first occurs behind the rows that it reads at once is
unknown there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import cached_property
from itertools import islice
from typing import Any

from pate.data.table.arrow import arrow
from pate.data.table.column_names import column_name, require_columns
from pate.data.table.source_file import BATCH_ROWS, MISSING_WORDS, SourceFile

_BYTE_ORDER_MARK = "\ufeff"
_LIST_SEPARATOR = ";"  # between the words of a list, which become one cell


class JsonLines:
    """Lines of JSON: an object each, whose fields are columns. A field that an object lacks is missing there.

    Args:
        file: to read.
        whole_lists: columns whose lists stay lists, as the text of a list. In other columns their words are joined.
    """

    def __init__(self, file: SourceFile, whole_lists: Collection[str]) -> None:
        self._file = file
        self._whole_lists = frozenset(whole_lists)

    def batches(self, columns: list[str] | None) -> Iterator[Any]:
        """Yields tables of words, all or some of the columns; raises `InvalidValue` for other lines."""
        pa = arrow()
        fields = self.fields
        name_of = {field: column_name(field) for field in fields}
        require_columns(self._file.name, list(name_of.values()))
        if not fields:
            raise self._file.refusal("a line for each record, and the file is empty")
        fields = [field for field in fields if columns is None or name_of[field] in columns]
        names = [name_of[field] for field in fields]
        for rows in self._rows():
            arrays = []
            for field, name in zip(fields, names, strict=True):
                cells = [self._cell(row.get(field), name) for row in rows]
                arrays.append(pa.array(cells, pa.string()))
            yield pa.table(arrays, names=names).select(columns or names)

    @cached_property
    def fields(self) -> list[str]:
        """The fields of all lines, in the order in which they first occur."""
        fields = dict[str, None]()
        for rows in self._rows():
            for row in rows:
                fields.update(dict.fromkeys(row))
        return list(fields)

    def _rows(self) -> Iterator[list[dict[str, Any]]]:
        """Yields the objects of some thousand lines at a time; empty lines and byte-order marks are passed over."""
        with self._file.open_text() as text:
            while lines := list(islice(text, BATCH_ROWS)):
                contents = (line.strip().lstrip(_BYTE_ORDER_MARK) for line in lines)
                yield [self._row(content) for content in contents if content]

    def _row(self, content: str) -> dict[str, Any]:
        try:
            row = json.loads(content)
        except (ValueError, RecursionError) as error:
            if "\0" in content:
                raise self._file.nul_refusal() from None
            raise self._file.refusal(
                f"an object of JSON in each line ({type(error).__name__})"
            ) from None
        if not isinstance(row, dict):
            raise self._file.refusal(
                f"an object of JSON in each line, and one holds a {type(row).__name__}"
            )
        return row

    def _cell(self, value: Any, column: str) -> str | None:
        """Returns a value as the word of a cell, None for a missing value; truths are 0 and 1."""
        if isinstance(value, list):
            if column in self._whole_lists:
                return json.dumps(value, ensure_ascii=False)
            return _LIST_SEPARATOR.join(map(str, value))
        if isinstance(value, dict):
            return json.dumps(value)
        word = str(int(value) if isinstance(value, bool) else value)
        return None if word in MISSING_WORDS else word
