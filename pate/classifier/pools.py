"""Which samples are private and which are public; DataFrames stay so up to the estimators."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pate.data.table.cells import one_spelling
from pate.validation import InvalidValue, require, require_array, require_entries, require_probability

_MISSING = ("nan", "None", "<NA>", "NaT")  # as numpy and pandas write what is not there


@dataclass(frozen=True, eq=False)
class Pools:
    """The private records and the public samples of a fit."""

    inputs: NDArray[np.float32]  # float32 `[n, d]`, or rows of a sparse matrix, or a DataFrame, private
    targets: NDArray[np.bool_]  # bool `[n, L]`, private
    groups: NDArray[np.int64]  # int64 `[n]`: records of one group stay together
    queries: NDArray[np.float32]  # float32 `[Q, d]`, or a DataFrame, public; `cut` leaves a sparse matrix as it is

    @classmethod
    def cut(
        cls,
        inputs: NDArray[np.float32],
        targets: NDArray[np.bool_],
        groups: Any,
        public: NDArray[np.float32] | None,
        fraction: float | None,
    ) -> Pools:
        """Takes public samples as given, or the last rows where they are declared public.

        Which rows these are depends on their number alone, so that whoever declares it knows whose inputs are public.
        """
        num_rows, given = inputs.shape[0], None if public is None else "given"
        ids = np.arange(num_rows)  # without groups every record is one
        if groups is not None:
            named = require_array("groups", groups, kinds=None)
            rule = f"({num_rows},), one group for each record"
            require(named.shape == (num_rows,), "groups.shape", named.shape, rule)
            if named.dtype.kind == "O":
                named = named.astype(np.str_)
            if named.dtype.kind == "U":
                words, word_of = np.unique(named, return_inverse=True)
                named = np.array([one_spelling(word) for word in words.tolist()], np.str_)[word_of]
            missing = np.isnan(named) if named.dtype.kind == "f" else np.isin(named, _MISSING)
            require_entries("groups", ~missing, "a group for each record, none missing")
            ids = np.unique(named, return_inverse=True)[1].astype(np.int64)
        rule = "public samples, or public_fraction, which declares the last rows of X public; not both"
        require((public is None) != (fraction is None), "X_public", given, rule)
        if public is not None:
            return cls(inputs, targets, ids, public)
        require(num_rows > 1, "n_samples", num_rows, "at least 2, of which one is public")
        share = require_probability("public_fraction", cast(float, fraction))
        kept = num_rows - max(int(share * num_rows), 1)
        shared = np.intersect1d(ids[:kept], ids[kept:])
        rule = "no group with private and public rows (public_fraction takes the last ones)"
        require(not len(shared), "groups", f"{len(shared)} in both", rule)
        return cls(inputs[:kept], targets[:kept], ids[:kept], inputs[kept:])


def require_readable(name: str, values: Any) -> None:
    """Raises where values cannot be read as numbers, before somebody says of an entry what it is."""
    masked = np.ma.is_masked(values)
    require(not masked, name, type(values).__name__, "an array without masked entries: .filled(…) says what they are")
    try:
        array = np.asarray(values) if hasattr(type(values), "requires_grad") else values
        if getattr(array, "dtype", None) is not None and array.dtype.kind in "OUS":
            np.asarray(array, dtype=np.float32)
    except RuntimeError as error:
        raise InvalidValue(f"{name}={type(values).__name__}: expected .detach().cpu().numpy() of a tensor") from error
    except ValueError:
        raise InvalidValue(f"{name}: expected numbers") from None


class SharedRows(UserWarning):
    """A warning: public samples are among the private records."""


def warn_of_shared_rows(private: NDArray[np.float32], public: NDArray[np.float32]) -> None:
    """Warns where most public inputs `[Q, d]` are among those `[n, d]` that are to be protected: X given twice, say."""
    if sparse.issparse(private) != sparse.issparse(public):
        private, public = sparse.csr_array(private), sparse.csr_array(public)
    known = {row.tobytes() for row in rows_as_bytes(private)}
    shared = sum(row.tobytes() in known for row in rows_as_bytes(public))
    if 2 * shared > (count := public.shape[0]):
        line = f"{shared} of {count} rows of X_public are rows of X: inputs that are public are not protected"
        warnings.warn(line, SharedRows, stacklevel=4)


def is_frame(inputs: Any) -> bool:
    """Whether these are a DataFrame, told without loading pandas."""
    return all(hasattr(inputs, name) for name in ("columns", "iloc", "dtypes", "select_dtypes"))


def taken(inputs: Any, rows: Any) -> Any:
    """Some rows, by their places, a slice or a mask; of a sparse matrix in full."""
    return inputs.iloc[rows] if is_frame(inputs) else dense(inputs[rows])


def dense(inputs: Any) -> Any:
    """A sparse matrix with its zeros, and anything else as it is."""
    return inputs.toarray() if sparse.issparse(inputs) else inputs


def numbers_of(inputs: Any) -> NDArray[Any]:
    """The columns of numbers `[n, k]`; of a sparse matrix those that it stores."""
    if sparse.issparse(inputs):
        return np.asarray(inputs.data)
    return np.asarray(inputs.select_dtypes("number"), np.float64) if is_frame(inputs) else inputs


def rows_as_bytes(inputs: Any) -> NDArray[Any]:
    """A row of bytes or numbers for each record, equal for equal ones."""
    if sparse.issparse(inputs):
        inputs = sparse.csr_array(inputs)
        inputs.sum_duplicates()
        inputs.eliminate_zeros()
        places = zip(inputs.indptr[:-1].tolist(), inputs.indptr[1:].tolist(), strict=True)
        columns, values = inputs.indices.astype(np.int64), inputs.data
        rows = [hashlib.sha256(columns[a:b].tobytes() + values[a:b].tobytes()).digest() for a, b in places]
        return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
    if not is_frame(inputs):
        return np.ascontiguousarray(inputs)
    from pandas.util import hash_pandas_object

    return np.ascontiguousarray(hash_pandas_object(inputs, index=False).to_numpy()[:, None])


def require_frames(private: Any, public: Any) -> bool:
    """Whether private and public inputs are DataFrames, of the same columns in the same order; raises where one is."""
    framed = is_frame(private)
    if framed and len(private.columns) != len(set(private.columns)):
        raise InvalidValue("X.columns: expected each name once")
    if public is not None:
        rule = "a DataFrame with the columns of X" if framed else "an array, as X is one"
        require(is_frame(public) == framed, "X_public", type(public).__name__, rule)
    if not framed or public is None:
        return framed
    wanted, found = list(private.columns), list(public.columns)
    if lacking := [name for name in wanted if name not in found]:
        raise InvalidValue(f"X_public: expected also the column {lacking[0]}, as X has it")
    if found != wanted:
        others = [name for name in found if name not in wanted]
        has = f"it has also {others[0]}" if others else "they stand in another order"
        raise InvalidValue(f"X_public.columns: expected those of X, {has}; X_public[X.columns] takes them")
    if not len(public):
        raise InvalidValue("X_public: expected at least one sample, it has no row")
    return True
