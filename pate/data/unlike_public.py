"""Records that do not look like the public ones: cells that the public file does not know, columns that say nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.data.preprocessing import Preprocessing
from pate.data.table.cells import Spelling, as_dates, as_numbers, as_texts
from pate.data.table.columns import CategoryColumn, Column, DateColumn, NumberColumn
from pate.data.table.schema import TableSchema

_FEWEST = 100  # records; fewer may all be rare ones
_BLOCK = 5000
_SHOWN = 5
_DAYS = 3e6  # of dates that have four digits for the year


class UnlikePublic(UserWarning):
    """A warning: cells of these records are not what the public file has, or a column tells a model nothing."""


def unlike_public(name: str, form: Preprocessing, inputs: NDArray[np.float32]) -> Iterator[str]:
    """A line for each such column of inputs `[n, …]`; it reads them until each column has told something."""
    tells: dict[str, bool] = {}
    for first in range(0, len(inputs), _BLOCK):
        for column, told in form.tells(inputs[first : first + _BLOCK]).items():
            tells[column] = told or tells.get(column, False)
        if all(tells.values()):
            return
    rule = "every cell is missing, or no word of the public file, or at one end of its range; in other words or units?"
    for column, told in tells.items():
        if not told and len(inputs) >= _FEWEST:
            yield f"{name}.{column}: {rule}"


def strange_cells(schema: TableSchema, table: Any, spelling: Spelling | None = None) -> NDArray[np.int64]:
    """Counts `[columns, 2]` of cells that the public file does not know, and of missing ones.

    Args:
        schema: what the public file says.
        table: new records, whose owner may see such counts; a pyarrow table that has the columns.
        spelling: of its cells; None for that of the public file.
    """
    said = schema.spelling if spelling is None else spelling
    known = said.known(table.select(list(schema.names)))
    return np.array([_strange(column, known.column(column.name), said) for column in schema.columns], np.int64)


def strange_lines(name: str, schema: TableSchema, counts: NDArray[np.int64], num_records: int) -> Iterator[str]:
    """A line for each column with such cells, those with most first; a handful of them.

    Missing cells are told of where the public file has none, or where there are no others.
    """
    lines = {}
    for column, (unknown, missing) in zip(schema.columns, counts.tolist(), strict=True):
        untold = missing if missing == num_records or not column.missing else 0
        if found := list(_found(column, unknown, untold)):
            lines[f"{name}.{column.name}: {num_records:,} cells, {', '.join(found)}"] = unknown + untold
    ordered = sorted(lines, key=lambda line: -lines[line])
    yield from ordered[:_SHOWN]
    if len(ordered) > _SHOWN:
        yield f"{name}: {len(ordered) - _SHOWN} more columns have such cells"


def _strange(column: Column, array: Any, spelling: Spelling) -> tuple[int, int]:
    if isinstance(column, NumberColumn):
        cells = as_dates(array) if isinstance(column, DateColumn) else as_numbers(array, spelling)
        outside = (cells.values < column.low) | (cells.values > column.high)
        return int((outside & ~cells.missing).sum()), int(cells.missing.sum())
    if isinstance(column, CategoryColumn):
        missing, (block, _) = as_texts(array).missing, column.encode(array, spelling)
        return int((block[:, len(column.categories)].astype(np.bool_) & ~missing).sum()), int(missing.sum())
    return 0, 0


def _found(column: Column, unknown: int, missing: int) -> Iterator[str]:
    """In words."""
    if unknown and isinstance(column, NumberColumn):
        low, high = (_shown(column, end) for end in (column.low, column.high))
        yield f"{unknown:,} outside the public range {low} to {high}"
    elif unknown:
        yield f"{unknown:,} with a word that the public file does not have"
    if missing:
        yield f"{missing:,} missing"


def _shown(column: NumberColumn, number: float) -> str:
    day = isinstance(column, DateColumn) and abs(number) < _DAYS
    return str(np.datetime64(int(number // 1), "D")) if day else f"{number:.6g}"
