"""Votes on disk, one bit each, written and read a block of teachers at a time."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.array_types import BoolArray, FloatArray, IntArray
from pate.files.archives import form_of, read_member, read_rows, reading, write_member, write_rows
from pate.files.atomic import atomic_write
from pate.files.reading import damaged
from pate.validation import InvalidValue, require, require_count, require_entries
from pate.votes.blocks import vote_blocks
from pate.votes.counts import histogram, require_teacher_votes
from pate.votes.source import TeacherVotes

Packed = NDArray[np.uint8]

BLOCK_BYTES = 32 * 2**20
"""The bytes of unpacked votes that are held at once."""

# The rule and the remedy in the error of a damaged file.
_RULE = "a whole vote file"
_REMEDY = (
    "of a run, remove it, and the same command asks the teachers again; of others, save it anew"
)


def blocks_of_shape(
    blocks: Iterable[NDArray[Any]], *, votes_shape: tuple[int, int, int]
) -> Iterator[NDArray[Any]]:
    """Yields blocks of votes, cuts large ones, and raises `InvalidValue` unless all together have the given shape.

    Args:
        blocks: bits or confidences in [0, 1], `[num_teachers_in_block, num_queries, num_labels]`.
        votes_shape: (num_teachers, num_queries, num_labels) of all blocks together.
    """
    num_teachers, num_queries, num_labels = votes_shape
    rule = f"[num_teachers_in_block, {num_queries}, {num_labels}]"
    checked_blocks = vote_blocks(
        iter(blocks), num_teachers=num_teachers, adjacency=Adjacency.REPLACE_ONE
    )
    for vote_block in checked_blocks:
        require(vote_block.shape[1:] == votes_shape[1:], "votes.shape", vote_block.shape, rule)
        yield vote_block


def write_votes(
    archive: zipfile.ZipFile,
    *,
    blocks: Iterable[Any],
    votes_shape: tuple[int, int, int],
    max_votes: int | None = None,
) -> None:
    """Writes blocks of votes as the member `packed` of an archive.

    Args:
        archive: an archive that is open for writing.
        blocks: bool `[num_teachers_in_block, num_queries, num_labels]`.
        votes_shape: (num_teachers, num_queries, num_labels) of all blocks together.
        max_votes: the largest number of votes of a teacher on a query, above which `InvalidValue` is raised; None for
            no limit.
    """

    def packed_blocks() -> Iterator[Packed]:
        for vote_block in blocks_of_shape(blocks, votes_shape=votes_shape):
            checked_votes = require_teacher_votes("votes", vote_block)
            if max_votes is not None:
                is_within = np.count_nonzero(checked_votes, axis=-1) <= max_votes
                require_entries(
                    "votes", is_within, rule=f"at most vote_clip={max_votes} labels of a query"
                )
            yield np.packbits(checked_votes, axis=-1)

    num_teachers, num_queries, num_labels = votes_shape
    packed_shape = (num_teachers, num_queries, -(-num_labels // 8))
    write_rows(
        archive,
        array_name="packed",
        array_shape=packed_shape,
        dtype_text="|u1",
        row_blocks=packed_blocks(),
    )


@dataclass(frozen=True)
class VoteStore:
    """A complete file of teacher votes, made by `VoteStore.write` or `VoteStore.open`.

    The votes are private: no epsilon covers the file, and it stays with the owner of the data. The file is an .npz with
    two arrays. `packed` is uint8 `[num_teachers, num_queries, ceil(num_labels / 8)]`: the bits of each query, by
    `numpy.packbits`, big-endian and padded with zeros. `num_labels` is a number. Votes are written and read one block
    of teachers at a time, so the memory needed does not grow with the file.

    Attributes:
        path: the file.
        num_teachers: the number of teachers.
        num_queries: the number of queries.
        num_labels: the number of labels.
    """

    path: Path
    num_teachers: int
    num_queries: int
    num_labels: int

    @classmethod
    def write(
        cls,
        path: Path | str,
        blocks: Iterable[BoolArray],
        *,
        num_teachers: int,
        num_queries: int,
        num_labels: int,
    ) -> VoteStore:
        """Writes the votes of all teachers to a file, and returns the store that reads it.

        The file appears when it is complete, in an existing folder. A file of the same name is replaced.

        Args:
            path: the file to write.
            blocks: bool `[num_teachers_in_block, num_queries, num_labels]`, in the order of the teachers.
            num_teachers: the number of teachers of all blocks together.
            num_queries: the number of queries.
            num_labels: the number of labels.

        Raises:
            InvalidValue: a block has another shape or type, or there is another number of teachers. No file is written.
        """
        path = Path(path)
        require_count("num_teachers", num_teachers)
        require_count("num_queries", num_queries)
        require_count("num_labels", num_labels)
        votes_shape = (num_teachers, num_queries, num_labels)
        with atomic_write(path) as vote_file, zipfile.ZipFile(vote_file, "w") as archive:
            write_member(archive, array_name="num_labels", array=np.array(num_labels, np.int64))
            write_votes(archive, blocks=blocks, votes_shape=votes_shape)
        return cls(path, num_teachers=num_teachers, num_queries=num_queries, num_labels=num_labels)

    @classmethod
    def open(cls, path: Path | str, *, num_teachers: int | None = None) -> VoteStore:
        """Returns the store of a vote file, once the form of the file is checked; `blocks` checks the content.

        Args:
            path: the file.
            num_teachers: the number of teachers that the file must have; None for any.

        Raises:
            InvalidValue: there is no such file, it is incomplete or no vote file, or it has another number of teachers.
        """
        with reading(path, rule=_RULE, remedy=_REMEDY) as archive:
            num_labels_array = read_member(archive, array_name="num_labels")
            packed_shape, packed_dtype = form_of(archive, array_name="packed", dtype_kinds="biuf")
            is_count = num_labels_array.shape == () and num_labels_array.dtype.kind in "iu"
            if not is_count or packed_dtype != np.uint8:
                rule = "a whole number of labels, and uint8 in C order"
                raise ValueError(f"expected {rule}, found {packed_dtype}")
        num_labels = int(num_labels_array)
        if (
            len(packed_shape) != 3
            or min(packed_shape) < 1
            or num_labels < 1
            or packed_shape[2] != -(-num_labels // 8)
        ):
            rule = f"packed [N, Q, ceil({num_labels} / 8)], none of them 0"
            raise damaged(path, rule, finding=f"shape {packed_shape}", remedy=_REMEDY)
        if num_teachers is not None and packed_shape[0] != num_teachers:
            rule = f"{num_teachers} teachers in {path}"
            raise InvalidValue("num_teachers", packed_shape[0], rule=rule)
        return cls(
            Path(path),
            num_teachers=packed_shape[0],
            num_queries=packed_shape[1],
            num_labels=num_labels,
        )

    def blocks(self) -> Iterator[BoolArray]:
        """Yields blocks of votes that fit into memory, bool `[num_teachers_in_block, num_queries, num_labels]`.

        Raises `InvalidValue` if the file is damaged.
        """
        teachers_at_once = max(1, BLOCK_BYTES // (self.num_queries * self.num_labels))
        for packed_block in self.packed_blocks(teachers_at_once):
            # Unpacked bits are bytes of 0 or 1, which are read as bool without a copy.
            yield np.unpackbits(packed_block, axis=-1, count=self.num_labels).view(np.bool_)

    def packed_blocks(self, num_teachers: int = 1) -> Iterator[NDArray[np.uint8]]:
        """Yields blocks of packed votes, uint8 `[num_teachers_in_block, num_queries, ceil(num_labels / 8)]`.

        Args:
            num_teachers: the largest number of teachers of a block.

        Raises:
            InvalidValue: the file is damaged.
        """
        # The bits of the last byte that belong to no label.
        padding = (1 << (-self.num_labels % 8)) - 1
        with reading(self.path, rule=_RULE, remedy=_REMEDY) as archive:
            # A row of the array has the votes of one teacher on all queries.
            packed_blocks = read_rows(
                archive, array_name="packed", rows_per_block=num_teachers, dtype_kinds="u"
            )
            for packed_block in packed_blocks:
                if padding and (packed_block[..., -1] & padding).any():
                    finding = f"bits behind label {self.num_labels - 1}"
                    raise damaged(self.path, rule=_RULE, finding=finding, remedy=_REMEDY)
                yield packed_block

    def teacher_votes(self) -> BoolArray:
        """Returns all votes, bool `[num_teachers, num_queries, num_labels]`.

        They take about eight times as much memory as the file takes on disk.
        """
        blocks_of_votes = list(self.blocks())
        return np.concatenate(blocks_of_votes)

    def histogram(self) -> IntArray:
        """Returns the counts of votes, int64 `[num_queries, num_labels]`, adding up one block at a time."""
        counts = np.zeros((self.num_queries, self.num_labels), np.int64)
        for vote_block in self.blocks():
            counts += histogram(vote_block)
        return counts


class StoredVotes(TeacherVotes):
    """A vote source that reads a vote file.

    The file does not hold the teachers' records, so a teacher's label shares are the means of its votes over the
    queries.
    """

    def __init__(self, store: VoteStore) -> None:
        """Stores the opened vote file."""
        self.store = store
        self.records_per_teacher = 1.0
        self.num_teachers = store.num_teachers
        self.num_queries = store.num_queries
        self.num_labels = store.num_labels

    def bits(self) -> Iterator[BoolArray]:
        """Yields blocks of the votes in the file, bool `[num_teachers_in_block, num_queries, num_labels]`."""
        return self.store.blocks()

    def label_shares(self) -> FloatArray:
        """Returns the share of queries in which each teacher votes for each label, `[num_teachers, num_labels]`."""
        # The second axis of a block has the queries.
        share_blocks = [votes_of_teachers.mean(axis=1) for votes_of_teachers in self.bits()]
        return np.concatenate(share_blocks)
