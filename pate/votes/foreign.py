"""Vote sources made from files of other projects, for `pate-release votes=FILE`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.array_types import BoolArray, FloatArray, IntArray
from pate.errors import InvalidValue
from pate.validation import require
from pate.votes.imported import ImportedVotes, read_votes_of_teachers
from pate.votes.source import TeacherVotes


class ForeignVotes(TeacherVotes):
    """The votes in files of other projects: counts, or the votes of each teacher if the files hold them.

    The files must hold different teachers. Queries and labels are named by their index.

    Attributes:
        vote_paths: the files, sorted.
        record_ids: int64 `[num_queries]`, 0, 1, ...
        label_names: the names label_0, label_1, ... of the labels.
    """

    def __init__(
        self, paths: Sequence[Path], *, layout: str = "auto", num_teachers: int | None = None
    ) -> None:
        """Reads the counts of all files.

        Args:
            paths: the files. Two files with equal bytes are refused, as their teachers would be counted twice. Other
                overlaps between files cannot be noticed.
            layout: the layout of the arrays, as in `ImportedVotes.read`.
            num_teachers: the number of teachers of each file, as in `ImportedVotes.read`.

        Raises:
            InvalidValue: a file is missing or holds no votes, two files have equal bytes, or the files have different
                numbers of queries or labels.
        """
        require(bool(paths), "votes", [], "at least one vote file")
        self.vote_paths = tuple(sorted(paths))
        self._digests = distinct_digests(self.vote_paths)
        self._imported_votes = [
            ImportedVotes.read(vote_path, layout=layout, num_teachers=num_teachers)
            for vote_path in self.vote_paths
        ]
        counts_shape = self._imported_votes[0].counts.shape
        for vote_path, imported_votes in zip(self.vote_paths, self._imported_votes, strict=True):
            file_counts_shape = imported_votes.counts.shape
            if file_counts_shape != counts_shape:
                rule = f"[{counts_shape[0]}, {counts_shape[1]}], queries and labels as in {self.vote_paths[0]}"
                raise InvalidValue(f"votes={vote_path}, shape", list(file_counts_shape), rule=rule)
        self.num_queries, self.num_labels = counts_shape
        self.num_teachers = sum(
            imported_votes.num_teachers for imported_votes in self._imported_votes
        )
        self.records_per_teacher = 1.0
        self.record_ids = np.arange(self.num_queries, dtype=np.int64)
        self.label_names = tuple(f"label_{number}" for number in range(self.num_labels))

    @property
    def digest(self) -> str:
        """A digest of all files, by which an interrupted release is found again. No epsilon covers it."""
        return hashlib.sha256(b"votes of others" + b"".join(self._digests)).hexdigest()

    def bits(self) -> Iterator[BoolArray]:
        """Yields blocks of bits, `[num_teachers_in_block, num_queries, num_labels]`.

        Raises `InvalidValue` for files of counts.
        """
        self.require_teachers()
        return (
            np.asarray(read_votes_of_teachers(vote_path) >= 0.5) for vote_path in self.vote_paths
        )

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Yields blocks of confidences, `[num_teachers_in_block, num_queries, num_labels]`.

        Raises `InvalidValue` for files of counts.
        """
        self.require_teachers()
        file_arrays = (read_votes_of_teachers(vote_path) for vote_path in self.vote_paths)
        return (
            file_array.astype(np.bool_) if file_array.dtype.kind in "iu" else file_array
            for file_array in file_arrays
        )

    def label_shares(self) -> FloatArray:
        """Returns the share of queries in which each teacher votes for each label, `[num_teachers, num_labels]`.

        The files do not hold the teachers' records, so the votes stand in for them.
        """
        # The second axis of a block has the queries.
        share_blocks = [bits_of_teachers.mean(axis=1) for bits_of_teachers in self.bits()]
        return np.concatenate(share_blocks)

    def counts(self, max_votes: int | None = None) -> IntArray:
        """Returns the counts of votes, `[num_queries, num_labels]`.

        Args:
            max_votes: the largest number of votes of a teacher on a query; None for no limit.

        Raises:
            InvalidValue: a teacher may have more votes on a query, and not all files hold the votes of each teacher.
        """
        if max_votes is None or all(
            imported_votes.has_at_most(max_votes) for imported_votes in self._imported_votes
        ):
            count_tables = [imported_votes.counts for imported_votes in self._imported_votes]
            return np.asarray(np.sum(count_tables, axis=0, dtype=np.int64))
        return super().counts(max_votes)  # from the votes of each teacher, which are limited

    def require_teachers(self) -> None:
        """Raises `InvalidValue` unless all files hold the votes of each teacher."""
        if any(imported_votes.layout != "teacher_votes" for imported_votes in self._imported_votes):
            rule = "layout teacher_votes [N, Q, L] for this aggregator; counts do not show the votes of one teacher"
            raise InvalidValue("votes", self.vote_paths[0], rule=rule)


def distinct_digests(paths: Sequence[Path]) -> list[bytes]:
    """Returns the SHA-256 of each vote file, sorted.

    Args:
        paths: the files.

    Raises:
        InvalidValue: a file is missing, or two files have equal bytes.
    """
    path_of_digest: dict[bytes, Path] = {}
    for vote_path in paths:
        require(vote_path.is_file(), "votes", vote_path, "an existing file")
        with vote_path.open("rb") as vote_file:
            digest = hashlib.file_digest(vote_file, "sha256").digest()
        if digest in path_of_digest:
            rule = f"each file once; {path_of_digest[digest]} is the same, and its teachers would count twice"
            raise InvalidValue("votes", vote_path, rule=rule)
        path_of_digest[digest] = vote_path
    return sorted(path_of_digest)
