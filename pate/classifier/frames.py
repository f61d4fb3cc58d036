"""Inputs that are DataFrames, which stay so up to the estimators: columns by name, words, missing cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue


def is_frame(inputs: Any) -> bool:
    """Whether these are a DataFrame, told without loading pandas."""
    return all(hasattr(inputs, name) for name in ("columns", "iloc", "dtypes", "select_dtypes"))


def taken(inputs: Any, rows: Any) -> Any:
    """Some rows of an array or a DataFrame, by their places, a slice or a mask."""
    return inputs.iloc[rows] if is_frame(inputs) else inputs[rows]


def numbers_of(inputs: Any) -> NDArray[Any]:
    """The columns of numbers `[n, k]`."""
    return np.asarray(inputs.select_dtypes("number"), np.float64) if is_frame(inputs) else inputs


def rows_as_bytes(inputs: Any) -> NDArray[Any]:
    """A row of bytes or numbers for each record, equal for equal ones."""
    if not is_frame(inputs):
        return np.ascontiguousarray(inputs)
    from pandas.util import hash_pandas_object

    return np.ascontiguousarray(hash_pandas_object(inputs, index=False).to_numpy()[:, None])


def require_frames(private: Any, public: Any) -> bool:
    """Whether private and public inputs are DataFrames; raises where one of them alone is, or a name occurs twice."""
    framed = is_frame(private)
    if framed and len(private.columns) != len(set(private.columns)):
        raise InvalidValue("X.columns: expected each name once")
    if public is not None and is_frame(public) != framed:
        rule = "a DataFrame with the columns of X" if framed else "an array, as X is one"
        raise InvalidValue(f"X_public={type(public).__name__}: expected {rule}")
    if framed and public is not None:
        _require_same_columns(private, public)
    return framed


def _require_same_columns(private: Any, public: Any) -> None:
    """Raises unless public samples have the columns of the private records, in their order, and there are some."""
    wanted, found = list(private.columns), list(public.columns)
    lacking, others = [name for name in wanted if name not in found], [name for name in found if name not in wanted]
    if lacking:
        raise InvalidValue(f"X_public: expected also the column {lacking[0]}, as X has it")
    if found != wanted:
        has = f"it has also {others[0]}" if others else "they stand in another order"
        raise InvalidValue(f"X_public.columns: expected those of X, {has}; X_public[X.columns] takes them")
    if not len(public):
        raise InvalidValue("X_public: expected at least one sample, it has no row")
