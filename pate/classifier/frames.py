"""DataFrames of any columns as inputs of numbers, by a schema that is fitted to public rows alone.

The schema is that of `data=table`: numbers and dates are clipped to the public range and standardized, and words are
one-hot encoded. If public cells of such a column are missing, a feature marks missing cells. A column is free text if
its 50 most frequent public words make up less than half of its public cells. Free text becomes tf-idf vectors of the
words in public texts.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pate.array_types import Float32Array
from pate.data.table.arrow import import_pyarrow
from pate.data.table.column import EmptyColumn, Encoded
from pate.data.table.frames import NOTATION_HINT, as_table, hints_for_frames
from pate.data.table.schema import TableSchema
from pate.data.table.text_column import TextColumn
from pate.data.texts.tfidf import TfidfVectors
from pate.validation import InvalidValue

# The prefix of the names of public columns in errors of tables.
_TABLE_PREFIX = "data.public."
# The rule of a public column that cannot be read.
_COLUMN_RULE = (
    f"numbers, dates or words; {NOTATION_HINT}, and "
    ".astype('category') keeps words that look like numbers or dates"
)


def as_pandas(inputs: Any) -> Any:
    """Returns a table or column of another library as a DataFrame or Series of pandas; other inputs are not changed.

    Such a table or column has the method `__arrow_c_stream__` of Arrow's PyCapsule interface: a DataFrame or Series of
    polars, a relation of DuckDB, or a table or `ChunkedArray` of pyarrow.
    """
    is_of_another_library = hasattr(inputs, "__arrow_c_stream__") and not hasattr(inputs, "iloc")
    if not is_of_another_library:
        return inputs
    with suppress(InvalidValue):
        return as_table(inputs).to_pandas()
    return import_pyarrow().chunked_array(inputs).to_pandas()


def fit_schema(public_frame: Any) -> TableSchema:
    """Returns the schema that public rows determine.

    Columns of the dtype `category` are words, even if their cells look like numbers.

    Args:
        public_frame: a DataFrame of public rows.

    Raises:
        InvalidValue: a public column has no cell, or numbers in a notation that is not read, or dates whose order of
            day and month is ambiguous; or the texts share no words.
    """
    public_table = as_table(public_frame)
    code_column_names = [
        str(column_name)
        for column_name, dtype in public_frame.dtypes.items()
        if str(dtype) == "category"
    ]
    try:
        schema = TableSchema.fit(public_table, code_columns=code_column_names)
    except InvalidValue as error:
        column_name = error.name.removeprefix(_TABLE_PREFIX)
        raise InvalidValue(f"X_public.{column_name}", rule=_COLUMN_RULE) from error
    for column in schema.columns:
        if isinstance(column, EmptyColumn):
            rule = "a column with cells, or none: leave it out of X and X_public"
            raise InvalidValue(f"X_public.{column.name}", "no cell", rule=rule)
    text_column_names = [column.name for column in schema.columns if isinstance(column, TextColumn)]
    if not text_column_names:
        return schema
    try:
        return schema.with_text_vectors(
            public_table, text_columns=text_column_names, fit_vectors=TfidfVectors.fit
        )
    except InvalidValue as error:
        rule = f"texts that share words in {', '.join(text_column_names)}; leave columns out that name a record"
        raise InvalidValue("X_public", type(public_frame).__name__, rule=rule) from error


def encode_records(frame: Any, schema: TableSchema, *, name: str) -> Encoded:
    """Returns the features of the rows of a DataFrame, with the number of cells whose value no public row has.

    Args:
        frame: a DataFrame with the columns of the schema.
        schema: the schema, which `fit_schema` made of public rows.
        name: the name of the parameter that holds the DataFrame, for errors.

    Raises:
        InvalidValue: a cell is no number or date although its column is one of numbers or dates. The error has the
            column and the number of such cells, and shows no cell.
    """
    with hints_for_frames():
        return schema.read_table(as_table(frame), name=name)


def encode_new(frame: Any, schema: TableSchema) -> Float32Array:
    """Returns the features of new rows, `[num_rows, num_features]`; warns of cells that are unlike the public ones.

    The warnings are `UnlikePublic`; `TableSchema.unknown_cell_remarks` tells which cells they count.

    Args:
        frame: a DataFrame with the columns of the schema.
        schema: the schema, which `fit_schema` made of public rows.

    Raises:
        InvalidValue: a column of the schema is missing, or a column of numbers or dates has a cell that cannot be read
            as one.
    """
    with hints_for_frames():
        return schema.inputs_with_warnings(frame, name="X")
