"""What goes out to holders: the public samples that are asked about, and how to answer."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.files.arrays import UNREADABLE, ArrayForm, arrays_of
from pate.validation import InvalidValue, require, require_choice, require_count, require_moderate
from pate.votes.vote_file import CASTS, queries_digest

MOST_CELLS = 2**28
"""Labels of queries that a teacher is asked about in one request, Q times L."""

_RULE = "a request as pate.federated sends it"
_FORMS = {
    "inputs": ArrayForm("f"),
    "ids": ArrayForm("iuU", (None,)),
    "label_names": ArrayForm("U", (None,)),
    "cast": ArrayForm("U", ()),
    "vote_clip": ArrayForm("i", ()),
}


def npz_bytes(**arrays: NDArray[Any]) -> bytes:
    """An .npz file without pickles; equal arrays give equal bytes."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """The questions of one release. All of it is public.

    Attributes:
        inputs: float32 `[Q, …]`, as teachers take them: finite, up to 1e12; Q L is at most `MOST_CELLS`.
        record_ids: `[Q]`, what the queries are called.
        label_names: L.
        cast: one of `CASTS`: bits, or confidences where the aggregator reads them.
        vote_clip: the most labels of a query that a teacher votes for; None for all.
    """

    inputs: NDArray[np.float32]
    record_ids: NDArray[Any]
    label_names: tuple[str, ...]
    cast: str = "bits"
    vote_clip: int | None = None

    def __post_init__(self) -> None:
        shape = np.shape(self.inputs)
        require(len(shape) > 0 and math.prod(shape) > 0, "inputs.shape", shape, "at least one query, of numbers")
        require_moderate("inputs", np.asarray(self.inputs))
        same = len(self.record_ids) == len(self.inputs)
        require(same, "len(record_ids)", len(self.record_ids), f"{len(self.inputs)}, one for each query")
        require(len(self.label_names) > 0, "label_names", "()", "at least one label")
        cells = self.num_queries * self.num_labels
        require(cells <= MOST_CELLS, "queries times labels", cells, f"at most {MOST_CELLS}")
        require_choice("cast", self.cast, CASTS)
        if self.vote_clip is not None:
            require_count("vote_clip", self.vote_clip)

    @property
    def num_queries(self) -> int:
        return len(self.inputs)

    @property
    def num_labels(self) -> int:
        return len(self.label_names)

    @cached_property
    def digest(self) -> str:
        return queries_digest(np.asarray(self.inputs, dtype=np.float32), self.record_ids)

    def to_bytes(self) -> bytes:
        return npz_bytes(
            inputs=np.asarray(self.inputs, dtype=np.float32),
            ids=np.asarray(self.record_ids),
            label_names=np.array(self.label_names, np.str_),
            cast=np.array(self.cast),
            vote_clip=np.array(self.vote_clip or 0, np.int64),
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` made; raises `InvalidValue` for anything else."""
        try:
            arrays = arrays_of(data, _FORMS)
            return cls(
                inputs=np.asarray(arrays["inputs"], dtype=np.float32),
                record_ids=arrays["ids"],
                label_names=tuple(str(name) for name in arrays["label_names"].tolist()),
                cast=str(arrays["cast"]),
                vote_clip=int(arrays["vote_clip"]) or None,
            )
        except InvalidValue:
            raise
        except UNREADABLE:
            raise InvalidValue(f"request: expected {_RULE}") from None
