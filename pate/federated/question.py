"""What holders are asked for: votes on public samples, or in rounds a sum over their teachers."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.files.arrays import UNREADABLE, ArrayForm, arrays_of
from pate.validation import InvalidValue, require, require_choice, require_count, require_entries, require_moderate
from pate.votes.clipping import ClippedMoments, ClippedSum, Integers
from pate.votes.public_pca import PublicPCA
from pate.votes.share_sums import NUM_LENGTHS
from pate.votes.vote_file import CASTS, queries_digest

Array = NDArray[np.float64]

MOST_CELLS = 2**28
"""Labels of queries that a teacher is asked about in one request, Q times L."""

_RULE_OF_REQUEST = "a request as pate.federated sends it"
_FORMS_OF_REQUEST = {
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
            arrays = arrays_of(data, _FORMS_OF_REQUEST)
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
            raise InvalidValue(f"request: expected {_RULE_OF_REQUEST}") from None


OPENING, LENGTHS, SHARES, MOMENTS = KINDS = ("opening", "lengths", "shares", "moments")
"""Who are you; how long are your teachers' label shares; their clipped sum; the clipped sum of a round's votes."""

_RULE = "a question as pate.federated asks it"
_OPENED = {"inputs": ArrayForm("f"), "ids": ArrayForm("iuU", (None,)), "label_names": ArrayForm("U", (None,))}
_HEAD = {"kind": ArrayForm("U", ()), "asked": ArrayForm("U", ()), "num_labels": ArrayForm("i", ())}
_SIZE = (1e-50, 1e12)  # of lengths whose squares are numbers
_ANY = (-1e12, 1e12)
_RANGES: Mapping[str, tuple[float, float]] = {
    "center": (0, 1),
    "clip": _SIZE,
    "records_per_teacher": (1, 1e12),
    "weights": _ANY,
    "label_scale": _SIZE,
    "pool_center": _ANY,
    "projection": _ANY,
    "variances": (0, 1e30),
}
"""Between which numbers an array's entries are: beyond them all holders but one could be made to say a constant."""

_SHORTEST, _LONGEST = 1e-12, 1e3
_FAR = 100  # largest inputs of the opening that the center of the pool may be away
_STATES: Mapping[str, Mapping[str, int]] = {
    OPENING: {},
    LENGTHS: {},
    SHARES: {"center": 1, "clip": 0},
    MOMENTS: {
        "records_per_teacher": 0,
        "weights": 2,
        "label_scale": 1,
        "clip": 0,
        "pool_center": 1,
        "projection": 2,
        "variances": 1,
    },
}
"""Arrays of each kind, and how many axes they have."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """One question. All of it is public, or was released under the price before it is asked.

    Attributes:
        kind: one of `KINDS`.
        asked: the digest of the samples in the opening; all questions of a release name the same.
        num_labels: L.
        state: float64 arrays, by name: what the sum depends on beside the holder's teachers. Entries are finite: a
            center of shares is in [0, 1], `clip` and `label_scale` are in [1e-50, 1e12], `records_per_teacher` is in
            [1, 1e12], `variances` are in [0, 1e30], others are in [-1e12, 1e12].
        opening: of the first question, the public samples that trained teachers are asked of.
    """

    kind: str
    asked: str
    num_labels: int
    state: Mapping[str, Array] = field(default_factory=dict)
    opening: Request | None = None

    def __post_init__(self) -> None:
        axes = _STATES.get(self.kind)
        good = axes is not None and (self.opening is not None) == (self.kind == OPENING)
        if axes is None or not good or {name: value.ndim for name, value in self.state.items()} != dict(axes):
            raise InvalidValue(f"question: expected {_RULE}")
        require_count("question.num_labels", self.num_labels)
        for name, value in self.state.items():
            low, high = _RANGES[name]
            rule = f"finite numbers from {low:g} to {high:g}"
            require_entries(f"question.{name}", (value >= low) & (value <= high), rule)
        if self.kind in (SHARES, MOMENTS):
            self._require_shapes()
            self._require_heard()

    @classmethod
    def of_opening(cls, request: Request) -> Self:
        return cls(kind=OPENING, asked=request.digest, num_labels=request.num_labels, opening=request)

    @property
    def shape(self) -> tuple[int, ...]:
        if self.kind == MOMENTS:
            return self.state["weights"].shape
        return {OPENING: (0,), LENGTHS: (NUM_LENGTHS,), SHARES: (1, self.num_labels)}[self.kind]

    @property
    def reach(self) -> float:
        """How long the part of one teacher can be, in steps: half of what replacing it can move."""
        if self.kind == SHARES:
            return self.clipped_shares.l2_sensitivity / 2
        return self.clipped_moments.l2_sensitivity / 2 if self.kind == MOMENTS else 1.0

    @property
    def clipped_shares(self) -> ClippedSum:
        return ClippedSum(float(self.state["clip"]), (1, self.num_labels))

    @property
    def clipped_moments(self) -> ClippedMoments:
        return ClippedMoments(float(self.state["clip"]), num_teachers=1)

    @property
    def directions(self) -> PublicPCA:
        projection = self.state["projection"]
        has_height = len(self.state["weights"]) > projection.shape[1] + 1
        return PublicPCA(self.state["pool_center"], projection, self.state["variances"], has_height)

    def require_possible(self, total: Integers, num_teachers: int) -> None:
        """Raises for what no such teachers can have as their sum: more than a teacher's worth each."""
        require(total.shape == self.shape, "sum.shape", total.shape, str(self.shape))
        if self.kind == LENGTHS:
            good = bool((total >= 0).all()) and sum(total.tolist()) <= num_teachers  # where nothing overflows
        else:
            good = math.sqrt(float((total.astype(np.float64) ** 2).sum())) <= num_teachers * self.reach * (1 + 1e-9)
        if not good:
            raise InvalidValue(
                f"sum: expected one of {num_teachers} teachers, each within its clip; this one is longer"
            )

    def require_of(self, opening: Request) -> None:
        """Raises for a question that is not about the labels and samples of its opening."""
        require(self.num_labels == opening.num_labels, "question.num_labels", self.num_labels, str(opening.num_labels))
        if self.kind == MOMENTS:
            center, inputs = self.state["pool_center"], np.asarray(opening.inputs)
            near = center.shape == inputs.shape[1:] and np.abs(center).max() <= _FAR * np.abs(inputs).max()
            rule = f"one for each feature of the samples, up to {_FAR} times as large as they are"
            require(bool(near), "question.pool_center", "others", rule)

    @cached_property
    def digest(self) -> str:
        named = hashlib.sha256(repr(("question", self.kind, self.asked, self.num_labels)).encode())
        for name in sorted(self.state):
            named.update(repr((name, self.state[name].shape)).encode())
            named.update(np.ascontiguousarray(self.state[name], dtype="<f8").data)
        return named.hexdigest()

    def to_bytes(self) -> bytes:
        arrays: dict[str, NDArray[Any]] = {
            "kind": np.array(self.kind),
            "asked": np.array(self.asked),
            "num_labels": np.array(self.num_labels, np.int64),
        }
        arrays |= {name: np.asarray(value, dtype=np.float64) for name, value in self.state.items()}
        if (opening := self.opening) is not None:
            names = np.array(opening.label_names, np.str_)
            inputs = np.asarray(opening.inputs, dtype=np.float32)
            arrays |= dict(zip(_OPENED, (inputs, np.asarray(opening.record_ids), names), strict=True))
        return npz_bytes(**arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` made; raises `InvalidValue` for anything else."""
        try:
            states = {name: ArrayForm("f", (None,) * axes) for each in _STATES.values() for name, axes in each.items()}
            arrays = arrays_of(data, _HEAD, beside=_OPENED | states)
            kind = str(arrays["kind"])
            wanted = _STATES[kind].keys() | (_OPENED.keys() if kind == OPENING else set())
            if arrays.keys() != _HEAD.keys() | wanted:
                raise InvalidValue(f"question: expected {_RULE}")
            state = {name: np.asarray(arrays[name], dtype=np.float64) for name in _STATES[kind]}
            if kind == OPENING:
                names = tuple(str(name) for name in arrays["label_names"].tolist())
                inputs = np.asarray(arrays["inputs"], dtype=np.float32)
                return cls.of_opening(Request(inputs=inputs, record_ids=arrays["ids"], label_names=names))
            return cls(kind=kind, asked=str(arrays["asked"]), num_labels=int(arrays["num_labels"]), state=state)
        except InvalidValue:
            raise
        except UNREADABLE:
            raise InvalidValue(f"question: expected {_RULE}") from None

    def _require_heard(self) -> None:
        """Raises for a clip so long that votes of any records are cut to 0 on its grid, or so short that none count."""
        longest = math.sqrt(self.num_labels)
        if self.kind == MOMENTS:
            longest = float(np.linalg.norm(self.state["label_scale"]))
            longest /= math.sqrt(float(self.state["records_per_teacher"]))
        good = _SHORTEST * longest <= float(self.state["clip"]) <= _LONGEST * longest
        rule = f"{_SHORTEST:g} to {_LONGEST:g} times as long as what a teacher may say"
        require(good, "question.clip", float(self.state["clip"]), rule)

    def _require_shapes(self) -> None:
        labels, shapes = self.num_labels, {name: value.shape for name, value in self.state.items()}
        if self.kind == SHARES:
            good = shapes["center"] == (labels,)
        else:
            inputs, width = shapes["projection"]
            wide = width + 1 + self.directions.has_height
            wanted = {"weights": (wide, labels), "label_scale": (labels,), "clip": ()}
            wanted |= {
                "records_per_teacher": (),
                "pool_center": (inputs,),
                "projection": (inputs, width),
                "variances": (width,),
            }
            good = shapes == wanted and width <= inputs
            good = good and float(np.abs(self.state["projection"]).max(initial=0.0)) >= _SIZE[0]
        if not good:
            raise InvalidValue(f"question: expected {_RULE}, with arrays of one shape")
