"""The answers of a public model, which the answers of experts with private examples are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.array_types import FloatArray
from pate.files.arrays import ArrayForm, read_arrays
from pate.files.digests import file_digest
from pate.validation import InvalidValue, require, require_entries

NAME_FORMS = {
    "record_ids": ArrayForm(dtype_kinds="iuU", shape=(None,)),
    "label_names": ArrayForm(dtype_kinds="U", shape=(None,)),
}
"""The arrays that name queries and labels, in files of answers."""

_REMEDY = "write it anew, with numpy.savez"


@dataclass(frozen=True, eq=False)  # a generated __eq__ fails on arrays
class PublicAnswers:
    """The answers of a model that saw no private example: the probability of each label for each query.

    Attributes:
        probabilities: float64 `[num_queries, num_labels]` in [0, 1].
        record_ids: integers or texts `[num_queries]`, the public name of each query.
        label_names: the name of each label.
        digest: the SHA-256 digest of the file, in hexadecimal.
    """

    probabilities: FloatArray
    record_ids: NDArray[Any]
    label_names: tuple[str, ...]
    digest: str

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Returns the answers of the public model that an .npz file holds.

        The file has the array `answers`, floats `[num_queries, num_labels]`, which are log-odds. It may have
        `record_ids` and `label_names`. By default queries are named 0, 1, ... and labels label_0, label_1, ...

        Args:
            path: the file.

        Raises:
            InvalidValue: the file is missing, lacks `answers`, or has an array of another name, a log-odds that is not
                finite, or a name twice.
        """
        path = Path(path)
        require(path.is_file(), "public_answers", path, "an existing .npz file")
        arrays_of_public_model = read_arrays(
            path,
            forms={"answers": ArrayForm(dtype_kinds="f", shape=(None, None))},
            optional_forms=NAME_FORMS,
            remedy=_REMEDY,
        )
        log_odds = arrays_of_public_model["answers"].astype(np.float64)
        if log_odds.size == 0:
            rule = "at least one query and one label"
            raise InvalidValue("public_answers.shape", log_odds.shape, rule=rule)
        require_entries("public_answers", np.isfinite(log_odds), rule="finite log-odds")
        num_queries, num_labels = log_odds.shape
        record_ids = arrays_of_public_model.get(
            "record_ids", np.arange(num_queries, dtype=np.int64)
        )
        label_names = tuple(
            map(str, arrays_of_public_model.get("label_names", default_names(num_labels)))
        )
        _require_names("record_ids", query_or_label_names=record_ids, num_expected=num_queries)
        _require_names(
            "label_names", query_or_label_names=np.array(label_names), num_expected=num_labels
        )
        return cls(
            probabilities=logistic(log_odds),
            record_ids=record_ids,
            label_names=label_names,
            digest=file_digest(path, remedy=_REMEDY, rule="public answers"),
        )


def _require_names(
    array_name: str, *, query_or_label_names: NDArray[Any], num_expected: int
) -> None:
    """Raises `InvalidValue` unless there are as many names as expected, all different.

    Args:
        array_name: the name of the array in the file.
        query_or_label_names: the names.
        num_expected: the number of queries or labels.
    """
    num_different = len(np.unique(query_or_label_names))
    if not len(query_or_label_names) == num_different == num_expected:
        rule = f"{num_expected} different names, one for each in answers"
        raise InvalidValue(f"public_answers.{array_name}", len(query_or_label_names), rule=rule)


def logistic(log_odds: NDArray[np.floating]) -> FloatArray:
    """Returns the probabilities of log-odds, in [0, 1]."""
    return np.asarray(0.5 + 0.5 * np.tanh(log_odds / 2), dtype=np.float64)


def default_names(num_labels: int) -> NDArray[np.str_]:
    """Returns the names label_0, label_1, ... of labels without names."""
    return np.array([f"label_{number}" for number in range(num_labels)], dtype=np.str_)
