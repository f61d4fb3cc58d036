"""Rows of a Parquet, Feather or Arrow file as tables of typed cells, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from pate.data.table.arrow import arrow
from pate.data.table.column_names import column_name, require_columns
from pate.data.table.source_file import BATCH_ROWS, SourceFile


def typed_batches(file: SourceFile, columns: list[str] | None) -> Iterator[Any]:
    """Yields the content of a Parquet, Feather or Arrow file as pyarrow tables. The first table has no rows.

    Args:
        file: the file.
        columns: the names of the columns to read; None for all columns.

    Raises:
        InvalidValue: two columns have the same name. Damage raises an error of pyarrow.
    """
    pa = arrow()
    from pyarrow import parquet

    with ExitStack() as stack:
        if file.kind == "parquet":
            # with a buffer it would hold all that it will read
            source = stack.enter_context(parquet.ParquetFile(file.path, pre_buffer=False))
            schema = source.schema_arrow
            batches = None  # once the columns are known
        else:
            schema, batches = _open_arrow(stack.enter_context(pa.memory_map(str(file.path))))
        names = list(map(column_name, schema.names))
        require_columns(file.name, names)
        columns = columns or names
        name_in_file = dict(zip(names, schema.names, strict=True))
        names_in_file = [name_in_file[column] for column in columns]
        if batches is None:
            batches = source.iter_batches(BATCH_ROWS, columns=names_in_file)
        yield schema.empty_table().select(names_in_file).rename_columns(columns)
        for batch in batches:
            yield pa.Table.from_batches([batch]).select(names_in_file).rename_columns(columns)
            # else it keeps several times what is in use
            pa.default_memory_pool().release_unused()


def _open_arrow(source: Any) -> tuple[Any, Iterator[Any]]:
    """Returns the schema and the batches of an Arrow file.

    The file may also be an Arrow stream, which has no index at its end.
    """
    from pyarrow import ipc

    try:
        file = ipc.open_file(source)
    except arrow().ArrowInvalid:
        source.seek(0)
        stream = ipc.open_stream(source)
        return stream.schema, iter(stream)
    return file.schema, (file.get_batch(place) for place in range(file.num_record_batches))
