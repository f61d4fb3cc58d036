"""Rows of a file of JSON lines as pyarrow tables of words.

Each line is parsed by Python's own `json`. `pandas.read_json` changes a whole number of 21 digits to another number,
and 1 to 1.0 if another line lacks the field. The blocks of its block-wise reader have different columns if a field
first occurs in a later block.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import cached_property
from itertools import islice
from typing import Any

from pate.data.table.arrow import import_pyarrow
from pate.data.table.column_names import column_name, require_columns
from pate.data.table.source_file import BATCH_ROWS, MISSING_WORDS, SourceFile

_BYTE_ORDER_MARK = "\ufeff"
# The mark between the words of a list, which become one cell.
_LIST_SEPARATOR = ";"


class JsonLines:
    """A reader of lines of JSON, each an object whose fields are columns.

    A field that an object lacks is a missing cell.

    Args:
        source_file: the file to read.
        columns_with_whole_lists: the columns in which a list stays a list, as JSON text. In other columns the items of
            a list are joined to one text.
    """

    def __init__(self, source_file: SourceFile, columns_with_whole_lists: Collection[str]) -> None:
        self._file = source_file
        self._columns_with_whole_lists = frozenset(columns_with_whole_lists)

    def batches(self, column_names: list[str] | None) -> Iterator[Any]:
        """Yields the content of the file as pyarrow tables in which every cell is a text, or null if it is missing.

        Args:
            column_names: the names of the columns to read; None for all columns.

        Raises:
            InvalidValue: a line is not a JSON object, two fields are one column by `column_name`, or there is no field.
        """
        pa = import_pyarrow()
        json_fields = self.fields
        name_of = {field: column_name(field) for field in json_fields}
        require_columns(self._file.setting, column_names=list(name_of.values()))
        if not json_fields:
            raise self._file.refusal("a line for each record, and the file is empty")
        fields_to_read = [
            field for field in json_fields if column_names is None or name_of[field] in column_names
        ]
        names_to_read = [name_of[field] for field in fields_to_read]
        for rows in self._rows():
            arrays = []
            for field, name in zip(fields_to_read, names_to_read, strict=True):
                keeps_lists = name in self._columns_with_whole_lists
                cells = [_cell(row.get(field), keeps_lists=keeps_lists) for row in rows]
                arrays.append(pa.array(cells, pa.string()))
            yield pa.table(arrays, names=names_to_read).select(column_names or names_to_read)

    @cached_property
    def fields(self) -> list[str]:
        """The names of all fields in any line, in the order of first occurrence."""
        fields: dict[str, None] = {}
        for json_objects in self._rows():
            for json_object in json_objects:
                fields.update(dict.fromkeys(json_object))
        return list(fields)

    def _rows(self) -> Iterator[list[dict[str, Any]]]:
        """Yields lists of the objects in some thousand lines each. Empty lines and byte-order marks are skipped."""
        with self._file.open_text() as text_file:
            while lines := list(islice(text_file, BATCH_ROWS)):
                json_lines = (line.strip().lstrip(_BYTE_ORDER_MARK) for line in lines)
                yield [self._row(json_line) for json_line in json_lines if json_line]

    def _row(self, json_line: str) -> dict[str, Any]:
        try:
            json_object = json.loads(json_line)
        except (ValueError, RecursionError) as error:
            if "\0" in json_line:
                raise self._file.nul_refusal() from None
            raise self._file.refusal(
                f"an object of JSON in each line ({type(error).__name__})"
            ) from None
        if not isinstance(json_object, dict):
            raise self._file.refusal(
                f"an object of JSON in each line, and one holds a {type(json_object).__name__}"
            )
        return json_object


def _cell(json_value: Any, *, keeps_lists: bool) -> str | None:
    """Returns the value of a JSON field as the text of a cell; None for null and other words for missing values.

    Truth values become 0 and 1, and an object its JSON. A list becomes its JSON if `keeps_lists` is true, and otherwise
    its items joined by semicolons.
    """
    if isinstance(json_value, list):
        if keeps_lists:
            return json.dumps(json_value, ensure_ascii=False)
        return _LIST_SEPARATOR.join(map(str, json_value))
    if isinstance(json_value, dict):
        return json.dumps(json_value)
    word = str(int(json_value) if isinstance(json_value, bool) else json_value)
    if word in MISSING_WORDS:
        return None
    return word.encode("utf-8", "replace").decode()  # half of a character such as \ud800
