"""Votes of other projects as a source that can be released: `pate-release votes=FILE`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import require
from pate.votes.counts import Bits
from pate.votes.imported import ImportedVotes, read_teacher_votes
from pate.votes.source import TeacherVotes
from pate.votes.weighted import Array


class ForeignVotes(TeacherVotes):
    """The votes of files of other projects: counts, and the votes of each teacher where files hold them.

    The teachers of several files are all different. Queries and labels have numbers for names.

    Attributes:
        paths: of the files, sorted.
        record_ids: int64 `[Q]`, 0, 1, ….
        label_names: `[L]`, label_0, label_1, ….
    """

    def __init__(
        self, paths: Sequence[Path], *, layout: str = "auto", num_teachers: int | None = None
    ) -> None:
        """Reads the counts of all files.

        Args:
            paths: of the files. Two that are the same byte by byte are refused: they are one file under two names,
                whose teachers would count twice. Nothing else shows whose votes they are.
            layout: as in `ImportedVotes.read`.
            num_teachers: as in `ImportedVotes.read`, of each file.

        Raises:
            InvalidValue: a file without votes, or files of different queries or labels.
        """
        require(bool(paths), "votes", [], "at least one vote file")
        self.paths = tuple(sorted(paths))
        self._digests = self._distinct_digests()
        self._files = [
            ImportedVotes.read(path, layout=layout, num_teachers=num_teachers)
            for path in self.paths
        ]
        shape = self._files[0].counts.shape
        for path, file in zip(self.paths, self._files, strict=True):
            file_shape = file.counts.shape
            rule = f"[{shape[0]}, {shape[1]}], queries and labels as in {self.paths[0]}"
            require(file_shape == shape, f"votes={path}, shape", list(file_shape), rule)
        self.num_queries, self.num_labels = shape
        self.num_teachers = sum(file.num_teachers for file in self._files)
        self.records_per_teacher = 1.0
        self.record_ids = np.arange(self.num_queries, dtype=np.int64)
        self.label_names = tuple(f"label_{number}" for number in range(self.num_labels))

    def _distinct_digests(self) -> list[bytes]:
        """Returns the SHA-256 of each file, sorted; raises for two files of the same bytes."""
        path_of = dict[bytes, Path]()
        for path in self.paths:
            require(path.is_file(), "votes", path, "an existing file")
            with path.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").digest()
            rule = f"each file once; {path_of.get(digest)} is the same, and its teachers would count twice"
            require(digest not in path_of, "votes", path, rule)
            path_of[digest] = path
        return sorted(path_of)

    @property
    def digest(self) -> str:
        """The SHA-256 of all files, by which a release that was begun is continued. Covered by no epsilon."""
        return hashlib.sha256(b"votes of others" + b"".join(self._digests)).hexdigest()

    def bits(self) -> Iterator[Bits]:
        """Yields the bits of the files' teachers, `[c, Q, L]` a block; raises where files hold counts alone."""
        self.require_teachers()
        return (np.asarray(read_teacher_votes(path) >= 0.5) for path in self.paths)

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Yields the confidences of the files' teachers, `[c, Q, L]` a block; raises where files hold counts alone."""
        self.require_teachers()
        arrays = (read_teacher_votes(path) for path in self.paths)
        return (array.astype(np.bool_) if array.dtype.kind in "iu" else array for array in arrays)

    def label_shares(self) -> Array:
        """Returns each teacher's share of votes for each label, `[N, L]`.

        Votes stand for the teacher's records, of which a file knows nothing.
        """
        return np.concatenate([block.mean(axis=1) for block in self.bits()])

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """Returns how many teachers vote for each label of each query, `[Q, L]`.

        Where `max_votes` is less than some teacher's votes, each teacher is limited; raises where files hold counts
        alone.
        """
        if max_votes is None or all(_is_within(file.max_votes, max_votes) for file in self._files):
            tables = [file.counts for file in self._files]
            return np.asarray(np.sum(tables, axis=0, dtype=np.int64))
        return super().counts(max_votes)  # which limits each teacher

    def require_teachers(self) -> None:
        """Raises `InvalidValue` unless all files hold the votes of each teacher."""
        rule = "layout teacher_votes [N, Q, L] for this aggregator; counts do not say what one teacher votes for"
        has_teachers = all(file.layout == "teacher_votes" for file in self._files)
        require(has_teachers, "votes", self.paths[0], rule)


def _is_within(file_max_votes: int | None, max_votes: int) -> bool:
    """Returns whether a file is known to have at most so many votes of a teacher in a query."""
    return file_max_votes is not None and file_max_votes <= max_votes
