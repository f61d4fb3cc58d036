"""What holders are asked for in rounds: a sum over their teachers, as a public state defines it."""

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

from pate.federated.request import Request
from pate.files.arrays import UNREADABLE, arrays_in
from pate.validation import InvalidValue, require, require_positive
from pate.votes.clipped_moments import ClippedMoments
from pate.votes.clipping import ClippedSum, Integers
from pate.votes.public_pca import PublicPCA
from pate.votes.sums.share_sums import NUM_LENGTHS

Array = NDArray[np.float64]

OPENING, LENGTHS, SHARES, MOMENTS = KINDS = ("opening", "lengths", "shares", "moments")
"""Who are you; how long are your teachers' label shares; their clipped sum; the clipped sum of a round's votes."""

_RULE = "a question as pate.federated.rounds asks it"
_ORDINARY: Mapping[str, tuple[float, float]] = {
    "center": (0.0, 1.0),
    "records_per_teacher": (1e-3, 1e9),
    "label_scale": (1e-6, 1e6),
    "weights": (-1e9, 1e9),
    "pool_center": (-1e12, 1e12),
    "projection": (-1e50, 1e50),
    "variances": (0.0, 1e50),
}
"""What an honest server sends lies far inside of these. Beyond them lengths are not what they are in doubles, or votes
of any records are the same numbers, which a server could take off a sum to see one holder's."""
_SHORTEST, _LONGEST = 1e-12, 1e3
"""Clips, the longest one in lengths of the residuals that a teacher may have."""
_OPENED = ("inputs", "ids", "label_names")
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
        state: finite float64 arrays, by name: what the sum depends on beside the holder's teachers.
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
        if not all(np.isfinite(value).all() for value in self.state.values()):
            raise InvalidValue("question=NaN or infinity: expected finite numbers")
        if self.kind in (SHARES, MOMENTS):
            require_positive("question.clip", float(self.state["clip"]))
            self._require_shapes()
            _require_ordinary(self.state)

    @classmethod
    def of_opening(cls, request: Request) -> Self:
        """The first question of a release, which all holders have to be asked."""
        return cls(kind=OPENING, asked=request.digest, num_labels=request.num_labels, opening=request)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the sum; that of an opening is empty."""
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
        """How shares are clipped and rounded."""
        return ClippedSum(float(self.state["clip"]), (1, self.num_labels))

    @property
    def clipped_moments(self) -> ClippedMoments:
        """How votes of a round are clipped and cut."""
        return ClippedMoments(float(self.state["clip"]), num_teachers=1)

    @property
    def directions(self) -> PublicPCA:
        """Of the public pool, in which a round votes."""
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

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all of it, in hexadecimal."""
        named = hashlib.sha256(repr(("question", self.kind, self.asked, self.num_labels)).encode())
        for name in sorted(self.state):
            named.update(repr((name, self.state[name].shape)).encode())
            named.update(np.ascontiguousarray(self.state[name], dtype="<f8").data)
        return named.hexdigest()

    def to_bytes(self) -> bytes:
        """An .npz file without pickles."""
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
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What `to_bytes` made; raises `InvalidValue` for anything else."""
        try:
            arrays = arrays_in(data, texts=("kind", "asked", "ids", "label_names"))
            kind = str(arrays["kind"])
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
            good = shapes == wanted
        if not good:
            raise InvalidValue(f"question: expected {_RULE}, with arrays of one shape")


def _require_ordinary(state: Mapping[str, Array]) -> None:
    """Raises for numbers by which lengths would not be what they are, or all teachers would say the same."""
    for name, (low, high) in _ORDINARY.items():
        value = state.get(name, np.zeros(0))
        if not ((value >= low) & (value <= high)).all():
            raise InvalidValue(f"question.{name}: expected {_RULE}, from {low:g} to {high:g}")
    if "projection" in state and not np.abs(state["projection"]).max(initial=0.0) > 1e-50:
        raise InvalidValue(f"question.projection: expected {_RULE}, with numbers above 1e-50")
    longest = math.sqrt(state["center"].size) if "center" in state else float(np.linalg.norm(state["label_scale"]))
    longest /= math.sqrt(max(float(state.get("records_per_teacher", 1.0)), 1.0))
    clip = float(state["clip"])
    if not _SHORTEST * longest <= clip <= _LONGEST * longest:
        raise InvalidValue(f"question.clip: expected {_RULE}, from {_SHORTEST:g} to {_LONGEST:g} residuals long")
