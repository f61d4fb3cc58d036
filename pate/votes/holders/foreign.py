"""Votes of other projects, in the layouts that `pate-audit` reads, as a source that can be released."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue, require
from pate.votes.source import Array, Bits, VoteSource
from pate.votes.vote_files import ImportedVotes, read_teacher_votes


class ForeignVotes(VoteSource):
    """See `VoteSource`. Counts of votes, and the votes of each teacher where files hold them.

    Queries and labels have numbers for names. Files that are the same byte by byte are refused, as they are one file
    under two names; nothing else of these files says whose votes they are.

    Args:
        paths: of the files, whose teachers are all different.
        layout: see `ImportedVotes.read`.
        num_teachers: of each file, where it holds counts alone.

    Raises:
        InvalidValue: impossible votes, files of different shapes, or a file twice.
    """

    def __init__(self, paths: Sequence[Path], *, layout: str = "auto", num_teachers: int | None = None) -> None:
        self.paths = tuple(sorted(paths))
        self._digests = _require_different(self.paths)
        self._files = [ImportedVotes.read(path, layout=layout, num_teachers=num_teachers) for path in self.paths]
        shape = self._files[0].counts.shape
        for path, file in zip(self.paths, self._files, strict=True):
            rule = f"[{shape[0]}, {shape[1]}], queries and labels as in {self.paths[0]}"
            require(file.counts.shape == shape, f"votes={path}, shape", list(file.counts.shape), rule)
        self.num_queries, self.num_labels = shape
        self.num_teachers = sum(file.num_teachers for file in self._files)
        self.records_per_teacher = 1.0

    @property
    def knows_teachers(self) -> bool:
        """Whether the files say what each teacher votes for."""
        return all(file.layout == "teacher_votes" for file in self._files)

    @property
    def digest(self) -> str:
        """SHA-256 of all files: what a release that was begun is continued with. Covered by no epsilon."""
        return hashlib.sha256(b"votes of others" + b"".join(sorted(self._digests))).hexdigest()

    @property
    def record_ids(self) -> NDArray[Any]:
        """`[Q]`: numbers from 0."""
        return np.arange(self.num_queries, dtype=np.int64)

    @property
    def label_names(self) -> tuple[str, ...]:
        """L names: label_0, label_1 and so on."""
        return tuple(f"label_{number}" for number in range(self.num_labels))

    def bits(self) -> Iterator[Bits]:
        """See `VoteSource.bits`; raises where files hold counts alone."""
        self.require_teachers()
        return (np.asarray(read_teacher_votes(path) >= 0.5) for path in self.paths)

    def confidences(self) -> Iterator[NDArray[Any]]:
        """See `VoteSource.confidences`."""
        self.require_teachers()
        arrays = (read_teacher_votes(path) for path in self.paths)
        return (array.astype(np.bool_) if array.dtype.kind in "iu" else array for array in arrays)

    def label_shares(self) -> Array:
        """See `VoteSource.label_shares`: a teacher's votes stand for its records, as no more is known of them."""
        return np.concatenate([block.mean(axis=1) for block in self.bits()])

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """See `VoteSource.counts`."""
        known = [file.max_votes for file in self._files]
        if max_votes is not None and not all(most is not None and most <= max_votes for most in known):
            return super().counts(max_votes)  # which limits each teacher
        return np.asarray(np.sum([file.counts for file in self._files], axis=0, dtype=np.int64))

    def require_teachers(self) -> None:
        """Raises unless files say what each teacher votes for."""
        if not self.knows_teachers:
            rule = "layout teacher_votes [N, Q, L] for this aggregator; counts do not say what one teacher votes for"
            raise InvalidValue(f"votes={self.paths[0]}: expected {rule}")


def _require_different(paths: Sequence[Path]) -> list[bytes]:
    """SHA-256 of each file; raises where two are the same."""
    if not paths:
        raise InvalidValue("votes=[]: expected at least one vote file")
    seen: dict[bytes, Path] = {}
    for path in paths:
        require(path.is_file(), "votes", path, "an existing file")
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").digest()
        rule = f"each file once; {seen.get(digest)} is the same, and its teachers would count twice"
        require(digest not in seen, "votes", path, rule)
        seen[digest] = path
    return list(seen)
