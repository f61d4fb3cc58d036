"""The inputs of fits and predictions: arrays, sparse matrices and DataFrames.

A DataFrame stays a DataFrame, so that a `ColumnTransformer` finds its columns. This module imports pandas only for the
digests of a DataFrame's rows.
"""

from __future__ import annotations

import hashlib
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pate.classifier.fit_warnings import SharedRows
from pate.errors import users_stack_level
from pate.validation import InvalidValue, printable, require, require_moderate


def require_readable(name: str, inputs: Any) -> None:
    """Raises `InvalidValue` for an array with masked entries or words that are no numbers, or a tensor with a gradient.

    A DataFrame is not checked. The error shows no entry, where numpy's own error would show a private one.
    """
    if is_frame(inputs):
        return
    type_name = type(inputs).__name__
    if np.ma.is_masked(inputs):
        rule = "an array without masked entries: .filled(…) says what they are"
        raise InvalidValue(name, type_name, rule=rule)
    is_tensor = hasattr(type(inputs), "requires_grad")
    try:
        array = np.asarray(inputs) if is_tensor else inputs
        if getattr(array, "dtype", None) is not None and array.dtype.kind in "OUS":
            np.asarray(array, dtype=np.float32)  # raises ValueError for words that are no numbers
    except RuntimeError as error:  # torch raises it for a tensor with a gradient
        raise InvalidValue(name, type_name, rule=".detach().cpu().numpy() of a tensor") from error
    except ValueError:
        raise InvalidValue(name, rule="numbers") from None


def is_frame(inputs: Any) -> bool:
    """Returns True if the inputs are a DataFrame of pandas, by its attributes; pandas is not imported."""
    return all(hasattr(inputs, name) for name in ("columns", "iloc", "dtypes", "select_dtypes"))


def column_labels(y: Any) -> tuple[str, ...]:
    """Returns the names of the columns of `y`, which are those of the labels; an empty tuple if `y` is no DataFrame.

    The result is empty, too, if two columns have one name, or if a name has no visible character.
    """
    if not is_frame(y):
        return ()
    names = tuple(printable(str(name)).strip() for name in y.columns)
    return names if all(names) and len(set(names)) == len(names) else ()


def require_samples(name: str, labels: Any) -> None:
    """Raises `InvalidValue` for labels that are not a sequence with an entry for each sample.

    Refused are a single value, such as a text or a number; a set or a dict; and an iterator, which has no length.

    Args:
        name: the name of the parameter.
        labels: the labels as the user passes them.
    """
    rule = "labels of samples"
    is_one_or_unordered = isinstance(labels, (str, bytes, dict, set, frozenset))
    is_readable = hasattr(labels, "__len__") or hasattr(labels, "__array__")
    require(is_readable and not is_one_or_unordered, name, type(labels).__name__, rule)
    require(getattr(labels, "ndim", 1) > 0, f"{name}.shape", (), rule)


def as_series_if_one_column(labels: Any) -> Any:
    """Returns the column of a DataFrame that has one column, as a Series; other labels are returned unchanged."""
    return labels.iloc[:, 0] if is_frame(labels) and labels.shape[1] == 1 else labels


def require_order_of_rows(name: str, row_values: Any, inputs: Any, *, rows_name: str) -> None:
    """Raises `InvalidValue` if two pandas objects have the same index labels in another order.

    Entries are taken by position. With the labels in another order, values would belong to other records, and other
    persons would be protected. Objects of which one has labels that the other lacks, or that have no index, are taken
    by position.

    Args:
        name: the name of the parameter that holds the values.
        row_values: one entry for each row, such as groups.
        inputs: the inputs of the rows.
        rows_name: the name of the parameter that holds the inputs.
    """
    if not (hasattr(row_values, "iloc") and hasattr(inputs, "iloc")):
        return
    index_of_values = row_values.index
    index_of_inputs = inputs.index
    if len(index_of_values) != len(index_of_inputs) or index_of_values.equals(index_of_inputs):
        return
    has_same_labels = (
        index_of_values.isin(index_of_inputs).all() and index_of_inputs.isin(index_of_values).all()
    )
    if has_same_labels:
        rule = (
            f"the index of {rows_name} in the same order: {name}.reindex({rows_name}.index) takes its labels, "
            f"{name}.to_numpy() the positions"
        )
        raise InvalidValue(name, type(row_values).__name__, rule=rule)


def require_same_columns(name: str, labels: Any, y: Any) -> None:
    """Raises `InvalidValue` if two DataFrames of labels have different columns, or the same ones in another order.

    Nothing is checked unless both are DataFrames.

    Args:
        name: the name of the parameter that holds `labels`.
        labels: labels of public samples or of test records.
        y: the private labels.
    """
    label_columns = getattr(labels, "columns", None)
    expected_columns = getattr(y, "columns", None)
    if label_columns is None or expected_columns is None:
        return
    rule = f"the columns of y in their order: {', '.join(map(str, expected_columns))}"
    is_same = list(label_columns) == list(expected_columns)
    require(is_same, f"{name}.columns", list(map(str, label_columns)), rule)


def rows_of(inputs: Any, rows: Any) -> Any:
    """Returns some rows of inputs; rows of a sparse matrix are returned as a dense array.

    Args:
        inputs: an array, a sparse matrix or a DataFrame.
        rows: the indices of the rows, a slice, or a mask of bool.
    """
    return inputs.iloc[rows] if is_frame(inputs) else dense(inputs[rows])


def dense(inputs: Any) -> Any:
    """Returns a sparse matrix as a dense array; other inputs are returned unchanged."""
    return inputs.toarray() if sparse.issparse(inputs) else inputs


def numbers_of(inputs: Any) -> NDArray[Any]:
    """Returns the numbers of inputs: an array as it is, or those columns of a DataFrame that hold numbers.

    The shape is `[num_rows, num_columns]`. For a sparse matrix, only the numbers that it stores are returned, `[n]`.
    """
    if sparse.issparse(inputs):
        return np.asarray(inputs.data)  # the stored entries of the sparse matrix
    if not is_frame(inputs):
        return np.asarray(inputs)
    # pandas.NA of nullable columns, such as Int64, is a missing number, as NaN is.
    return np.asarray(inputs.select_dtypes("number").to_numpy(np.float64, na_value=np.nan))


def require_moderate_numbers(name: str, inputs: Any) -> None:
    """Raises `InvalidValue` unless the numbers of inputs are missing or in [-1e12, 1e12]; see `require_moderate`.

    The error names the entry: `X[0, 2]` of an array, `X['age'][0]` of a DataFrame, and `X.data[7]` of a sparse matrix.
    It does not show the number.

    Args:
        name: the name of the parameter.
        inputs: an array, a sparse matrix or a DataFrame.
    """
    if is_frame(inputs):
        for column_name, column in inputs.select_dtypes("number").items():
            column_numbers = column.to_numpy(np.float64, na_value=np.nan)
            require_moderate(f"{name}[{column_name!r}]", column_numbers, allows_missing=True)
        return
    shown_name = f"{name}.data" if sparse.issparse(inputs) else name
    require_moderate(shown_name, numbers_of(inputs), allows_missing=True)


def rows_as_bytes(inputs: Any) -> NDArray[Any]:
    """Returns an array of bytes or numbers, `[num_rows, width]`, whose rows are equal for equal records.

    Raises:
        InvalidValue: a cell of a DataFrame cannot be hashed, such as a list.
    """
    if sparse.issparse(inputs):
        return _sparse_rows_as_bytes(inputs)
    if not is_frame(inputs):
        return np.ascontiguousarray(inputs)
    from pandas.util import hash_pandas_object

    try:
        row_hash_numbers = hash_pandas_object(inputs, index=False)
    except TypeError as error:
        rule = "cells that are numbers, dates or words, and no lists"
        raise InvalidValue("X", rule=rule) from error
    except UnicodeError:  # without the cause, which shows a cell
        raise InvalidValue("X", rule="words of whole characters, and bytes as words") from None
    return np.ascontiguousarray(row_hash_numbers.to_numpy()[:, None])


def _sparse_rows_as_bytes(inputs: Any) -> NDArray[np.uint8]:
    """Returns the SHA-256 digest of each row of a sparse matrix, `[num_rows, 32]`."""
    sparse_rows = sparse.csr_array(inputs)
    sparse_rows.sum_duplicates()
    sparse_rows.eliminate_zeros()
    column_indices = sparse_rows.indices.astype(np.int64)
    stored_numbers = sparse_rows.data
    row_digests = [
        hashlib.sha256(
            column_indices[start:end].tobytes() + stored_numbers[start:end].tobytes()
        ).digest()
        for start, end in pairwise(sparse_rows.indptr.tolist())
    ]
    return np.frombuffer(b"".join(row_digests), np.uint8).reshape(len(row_digests), -1)


def require_same_kind(private_inputs: Any, other_inputs: Any, *, name: str) -> None:
    """Raises `InvalidValue` unless public inputs, or inputs of test records, go together with the private inputs.

    Args:
        private_inputs: the private inputs.
        other_inputs: the other inputs.
        name: the name of the parameter that holds the other inputs.

    Raises:
        InvalidValue: one of the two is a DataFrame, and the other is none; or both are, and the other one has no rows,
            other columns or another order of columns.
    """
    if not is_frame(private_inputs):
        require(
            not is_frame(other_inputs), name, type(other_inputs).__name__, "an array, as X is one"
        )
        return
    require(
        is_frame(other_inputs),
        name,
        type(other_inputs).__name__,
        "a DataFrame with the columns of X",
    )
    private_columns = list(private_inputs.columns)
    other_columns = list(other_inputs.columns)
    lacking = [column for column in private_columns if column not in other_columns]
    if lacking:
        raise InvalidValue(name, rule=f"also the column {lacking[0]}, as X has it")
    if other_columns != private_columns:
        surplus = [column for column in other_columns if column not in private_columns]
        reason = f"it has also {surplus[0]}" if surplus else "they stand in another order"
        rule = f"those of X, {reason}; {name}[X.columns] takes them"
        raise InvalidValue(f"{name}.columns", rule=rule)
    if not len(other_inputs):
        raise InvalidValue(name, rule="at least one sample, it has no row")


def warn_of_shared_rows(
    private_inputs: Any, other_inputs: Any, *, name: str, consequence: str
) -> None:
    """Warns if most public inputs, or test inputs, are also private inputs, as when one X was passed twice.

    No warning is given if so many private records are alike that their different inputs are fewer than half of the
    records, as in a table of few words. Then equal inputs are no sign of one record.

    Args:
        private_inputs: the private inputs, `[num_private, num_features]`.
        other_inputs: the public inputs, or those of test records, `[num_others, num_features]`.
        name: the name of the parameter that holds the others.
        consequence: what follows for people whose records are in both.
    """
    if sparse.issparse(private_inputs) != sparse.issparse(other_inputs):
        private_inputs = sparse.csr_array(private_inputs)
        other_inputs = sparse.csr_array(other_inputs)
    distinct_private_rows = {row.tobytes() for row in rows_as_bytes(private_inputs)}
    if 2 * len(distinct_private_rows) < private_inputs.shape[0]:
        return
    num_shared = sum(row.tobytes() in distinct_private_rows for row in rows_as_bytes(other_inputs))
    num_others = other_inputs.shape[0]
    if 2 * num_shared > num_others:
        line = f"{num_shared} of {num_others} rows of {name} are rows of X: {consequence}"
        warnings.warn(line, SharedRows, stacklevel=users_stack_level())


def is_pandas_category(column_type: Any) -> bool:
    """Returns True if the type of a column of pandas is a category."""
    return hasattr(column_type, "categories")


def with_own_types(public_frame: Any, *, is_cut_from_records: bool) -> Any:
    """Returns a DataFrame of pandas whose column types follow from its own cells.

    Categories that no cell has are dropped, and missing objects become NaN.

    Args:
        public_frame: the public samples.
        is_cut_from_records: whether the samples were cut from a DataFrame with private records, and still have its
            column types. Then objects get the type of the cells that are left. Whole numbers become floats: they would
            be floats, too, if a cell of the other rows were missing.
    """
    typed_frame = (
        public_frame.infer_objects() if is_cut_from_records else public_frame.copy(deep=False)
    )
    for column_name in public_frame.columns:
        column_type = typed_frame[column_name].dtype
        if is_pandas_category(column_type):
            typed_frame[column_name] = typed_frame[column_name].cat.remove_unused_categories()
        elif is_cut_from_records and column_type.kind in "iu":
            typed_frame[column_name] = typed_frame[column_name].astype(np.float64)
        elif column_type.kind == "O":
            typed_frame[column_name] = typed_frame[column_name].where(
                typed_frame[column_name].notna(), np.nan
            )
    return typed_frame


def with_public_types(private_frame: Any, public_frame: Any) -> Any:
    """Returns private records with the column types of the public samples; both are DataFrames of pandas.

    The type of a column depends on all its cells: one text among numbers makes all of them objects, and one missing
    cell makes whole numbers floats. Estimators read columns by type. So if private columns kept their types, the column
    that one teacher reads would depend on the records of other teachers. One record could then change every vote.

    Each cell is converted by itself. A word that is no category of the public samples becomes a missing value, and
    each missing value of texts becomes NaN.

    Args:
        private_frame: the private records, with the columns of `public_frame`.
        public_frame: the public samples, whose types `with_own_types` has made to follow from these samples alone.

    Raises:
        InvalidValue: a private column has cells that do not fit the type of the public column.
    """
    converted = private_frame.copy(deep=False)
    for column_name in private_frame.columns:
        converted[column_name] = _with_type(
            private_frame[column_name], public_frame[column_name].dtype
        )
    return converted


def _with_type(column: Any, public_type: Any) -> Any:
    """Returns a private column with the type of the public column; raises `InvalidValue` if a cell does not fit.

    A cell that is no category of a public type of categories becomes a missing value.

    Args:
        column: the private column, a Series of pandas.
        public_type: the type of the public column.
    """
    name = f"X[{column.name!r}]"
    rule = (
        f"cells of the type {public_type}, which the column has in X_public, not {column.dtype}; "
        f"convert both alike, such as {name}.astype(float) and X_public[{column.name!r}].astype(float)"
    )
    if is_pandas_category(public_type):
        cells = column.astype(object)
        return cells.where(cells.isin(list(public_type.categories))).astype(public_type)
    # Texts, spans of time and dates are not converted. The text of a number depends on the type of its column: 1 is 1.0
    # where another cell is missing. And the way in which a column of texts is read as dates depends on other cells.
    if public_type.kind in "OmM" and column.dtype.kind != public_type.kind:
        raise InvalidValue(name, rule=rule)
    is_missing = column.isna()
    try:
        converted = column.astype(public_type)
    except (TypeError, ValueError):
        raise InvalidValue(name, rule=rule) from None
    if public_type.kind == "O":
        return converted.where(~is_missing, np.nan)
    if public_type.kind in "biu":
        # Of these types numpy has no missing value, cuts fractions off, and takes a text for True.
        is_lost = converted.isna() != is_missing
        is_changed = (converted != column) & ~is_missing
        if bool((is_lost | is_changed).any()):
            raise InvalidValue(name, rule=rule)
    return converted
