"""What a vote file says of itself: which queries, which labels, how many teachers, and who vouches for them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.files.strict_json import from_json, to_json_line
from pate.validation import require, require_choice, require_count, require_text

CASTS = ("bits", "confidences")
"""What teachers say in a vote file: a bit for each label of each query, or a number in [0, 1] as well."""

_FORMAT = 1
_HEXADECIMAL = 64


@dataclass(frozen=True, kw_only=True)
class VoteManifest:
    """The head of a vote file.

    Of the records it says how many there are and in how many groups, which the holder vouches for, and nothing else:
    no digest of them, as whoever guesses records could check the guess.

    Attributes:
        holder: who cast the votes; a name that no other holder of the release has.
        queries: `queries_digest` of what was asked.
        num_teachers: of this holder.
        num_queries: Q.
        num_labels: L.
        num_records: private records that the teachers were dealt.
        num_groups: units of privacy among them; each is with one teacher.
        cast: one of `CASTS`.
        vote_clip: the most labels of a query that a teacher votes for, where votes were clipped; None for all.
        dataset: the public name of the data set.
        real: False for synthetic records.
        features: what stands for pictures, see `Preprocessing.origin`; public.
        settings: how teachers were made, by group and as YAML: what may be published of it.
        format: version of the file.
    """

    holder: str
    queries: str
    num_teachers: int
    num_queries: int
    num_labels: int
    num_records: int
    num_groups: int
    cast: str = "bits"
    vote_clip: int | None = None
    dataset: str = "votes"
    real: bool = True
    features: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    format: int = _FORMAT

    def __post_init__(self) -> None:
        require_text("holder", self.holder)
        require(self.format == _FORMAT, "format", self.format, f"{_FORMAT}, the version that this package reads")
        digest = len(self.queries) == _HEXADECIMAL and set(self.queries) <= set("0123456789abcdef")
        require(digest, "queries", "another text", "a SHA-256 in hexadecimal")
        for name in ("num_teachers", "num_queries", "num_labels", "num_records", "num_groups"):
            require_count(name, getattr(self, name))
        require_choice("cast", self.cast, CASTS)
        if self.vote_clip is not None:
            require_count("vote_clip", self.vote_clip)
        require(self.num_teachers <= self.num_groups, "num_teachers", self.num_teachers, "at most num_groups")
        require(self.num_groups <= self.num_records, "num_groups", self.num_groups, "at most num_records")
        require_text("dataset", self.dataset)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of all votes: teachers, queries, labels."""
        return self.num_teachers, self.num_queries, self.num_labels

    def to_text(self) -> str:
        """One line of JSON; equal manifests give equal text."""
        return to_json_line(self)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """What `to_text` wrote; raises `InvalidValue` for anything else."""
        return from_json(cls, text, name="manifest")


def queries_digest(inputs: NDArray[np.float32], record_ids: NDArray[Any]) -> str:
    """SHA-256 of public samples that are asked about, in their order, in hexadecimal.

    Args:
        inputs: float32 `[Q, …]`, as teachers are given them.
        record_ids: `[Q]`, what they are called where they are published.
    """
    digest = hashlib.sha256(repr(("queries", inputs.shape, [str(name) for name in record_ids.tolist()])).encode())
    digest.update(np.ascontiguousarray(inputs, dtype="<f4").data)
    return digest.hexdigest()
