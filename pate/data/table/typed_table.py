"""Rows of a Parquet, Feather or Arrow file as tables of typed cells, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from pate.data.table.arrow import import_pyarrow
from pate.data.table.column_names import column_name, require_columns
from pate.data.table.source_file import BATCH_ROWS, SourceFile


def typed_batches(source_file: SourceFile, column_names: list[str] | None) -> Iterator[Any]:
    """Yields the content of a Parquet, Feather or Arrow file as pyarrow tables. The first table has no rows.

    Args:
        source_file: the file.
        column_names: the names of the columns to read; None for all columns.

    Raises:
        InvalidValue: two columns have the same name. Damage raises an error of pyarrow.
    """
    pa = import_pyarrow()
    from pyarrow import parquet

    with ExitStack() as stack:
        if source_file.kind == "parquet":
            # With a buffer, pyarrow would hold the whole file in memory.
            source = stack.enter_context(parquet.ParquetFile(source_file.path, pre_buffer=False))
            schema = source.schema_arrow
            batches = None  # iterated below, when the columns are known
        else:
            # A memory map of the file would count as memory of the process.
            schema, batches = _open_arrow(stack.enter_context(pa.OSFile(str(source_file.path))))
        names = list(map(column_name, schema.names))
        require_columns(source_file.setting, column_names=names)
        column_names = column_names or names
        name_in_file = dict(zip(names, schema.names, strict=True))
        names_in_file = [name_in_file[column] for column in column_names]
        if batches is None:
            batches = source.iter_batches(BATCH_ROWS, columns=names_in_file)
        yield schema.empty_table().select(names_in_file).rename_columns(column_names)
        for batch in batches:
            yield pa.Table.from_batches([batch]).select(names_in_file).rename_columns(column_names)
            # Otherwise pyarrow would keep several times the memory that is in use.
            pa.default_memory_pool().release_unused()


def common_schema(source_files: Sequence[SourceFile], schemas: Sequence[Any]) -> Any:
    """Returns a pyarrow schema with the columns of the first file, whose types hold the cells of all files.

    A column of whole numbers in one file and of floats in another has floats, for example, as pandas writes a column
    with missing cells.

    Args:
        source_files: the files, for messages.
        schemas: the schema of each file; all have the same names of columns.

    Raises:
        InvalidValue: no type holds the cells of a column in all files, such as numbers and texts.
    """
    pa = import_pyarrow()
    fields = {field.name: pa.field(field.name, field.type) for field in schemas[0]}
    for file, schema in zip(source_files, schemas, strict=True):
        for name, field in fields.items():
            field_of_file = pa.field(name, schema.field(name).type)
            try:
                fields[name] = pa.unify_schemas(
                    [pa.schema([field]), pa.schema([field_of_file])], promote_options="permissive"
                ).field(0)
            except (pa.ArrowTypeError, pa.ArrowInvalid):
                raise file.refusal(
                    f"one type in each file for the column {name}, it has "
                    f"{field_of_file.type} and "
                    f"{source_files[0].path.name} {field.type}"
                ) from None
    return pa.schema(list(fields.values()))


def _open_arrow(source: Any) -> tuple[Any, Iterator[Any]]:
    """Returns the pyarrow schema and the record batches of a Feather or Arrow file that is open.

    The file may also be an Arrow stream, which has no index at its end.
    """
    from pyarrow import ipc

    try:
        file = ipc.open_file(source)
    except import_pyarrow().ArrowInvalid:
        source.seek(0)
        stream = ipc.open_stream(source)
        return stream.schema, iter(stream)
    return file.schema, (file.get_batch(index) for index in range(file.num_record_batches))
