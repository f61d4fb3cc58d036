"""Votes of teachers on disk, one bit each, and read back in blocks."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from pate.files.arrays import UNREADABLE, check_members, one_line, read_array
from pate.files.disk import damaged, replacing, require_file, unreadable
from pate.validation import require, require_count
from pate.votes.histogram import histogram, require_teacher_votes
from pate.votes.source import Array, Bits, VoteSource

_Header = dict[str, object]


def write_archive(
    path: Path, scalars: Mapping[str, int], name: str, shape: tuple[int, ...], blocks: Iterable[NDArray[np.uint8]]
) -> None:
    """Writes whole numbers and one uint8 array, given as blocks of its rows, as an .npz file.

    The file appears under its name complete and flushed to the disk, or not at all. Equal arguments give
    equal bytes: no time stamp goes in.
    """
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for key, value in scalars.items():
            with archive.open(zipfile.ZipInfo(f"{key}.npy"), "w") as member:
                np.lib.format.write_array(member, np.array(value, np.int64))
        with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
            header: _Header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(member, header)
            for block in blocks:
                member.write(np.ascontiguousarray(block).data)


def read_scalar(archive: zipfile.ZipFile, name: str) -> int:
    """Reads a whole number that `write_archive` was given; raises one of `UNREADABLE` where there is another thing."""
    with archive.open(f"{name}.npy") as member:
        value = read_array(member, archive.getinfo(f"{name}.npy").file_size)
    if value.shape != () or value.dtype.kind not in "iu":
        raise ValueError(f"{name} is no whole number")
    return int(value)


def read_shape(archive: zipfile.ZipFile, name: str) -> tuple[int, ...]:
    """Reads the shape of the main array and checks that all of its bytes are in the file.

    Raises:
        ValueError: not a uint8 array in C order, or of another length than its header says; others of `UNREADABLE`.
    """
    with archive.open(f"{name}.npy") as member:
        shape = _read_header(member)
        length = member.tell() + math.prod(shape)
    found = archive.getinfo(f"{name}.npy").file_size
    if found != length:
        raise ValueError(f"{name} has {found} bytes where its header promises {length}")
    return shape


def read_blocks(path: Path, name: str, rows: int) -> Iterator[NDArray[np.uint8]]:
    """Yields the main array, up to `rows` rows of it at a time."""
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
        shape = _read_header(member)
        for first in range(0, shape[0], rows):
            count = min(rows, shape[0] - first)
            size = count * math.prod(shape[1:])
            data = member.read(size)
            if len(data) != size:
                raise ValueError("the file ends early")
            yield np.frombuffer(data, np.uint8).reshape(count, *shape[1:])


def _read_header(member: IO[bytes]) -> tuple[int, ...]:
    if np.lib.format.read_magic(member) != (1, 0):
        raise ValueError("another version of numpy's format")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(member)
    if dtype != np.uint8 or fortran_order:
        raise ValueError(f"expected uint8 in C order, found {str(dtype)[:40]}")
    return shape


_BLOCK_BYTES = 32 * 2**20  # of unpacked votes held at once
_RULE = "a whole vote file"
_REMEDY = "of a run, remove it, and the same command asks the teachers again; of others, save it anew"


@dataclass(frozen=True)
class VoteStore:
    """A complete file of teacher votes: no epsilon covers it, it stays with the owner of the data.

    An .npz with `packed` uint8 `[num_teachers, num_queries, ceil(num_labels / 8)]` (the labels of one
    query, `numpy.packbits`, big-endian, zero padded) and `num_labels`. Votes are written and read a block
    of teachers at a time, so memory grows with neither the teachers nor the file.

    Made by `VoteStore.write` or `VoteStore.open`.

    Attributes:
        path: the file.
        num_teachers: N.
        num_queries: Q.
        num_labels: L.
    """

    path: Path
    num_teachers: int
    num_queries: int
    num_labels: int

    @classmethod
    def write(
        cls,
        path: Path | str,
        blocks: Iterable[NDArray[np.bool_]],
        *,
        num_teachers: int,
        num_queries: int,
        num_labels: int,
    ) -> VoteStore:
        """Writes the votes of teachers 0, 1, … in order; the file appears when it is complete.

        Args:
            path: where, in a folder that is there; a file of that name is replaced.
            blocks: bool `[c, num_queries, num_labels]` each, together num_teachers teachers.
            num_teachers: N.
            num_queries: Q.
            num_labels: L.

        Raises:
            InvalidValue: a block of another shape or dtype, or too few or too many teachers; nothing
                is left under `path` then that was not there before.
        """
        shape = tuple(
            require_count(name, value)
            for name, value in (
                ("num_teachers", num_teachers),
                ("num_queries", num_queries),
                ("num_labels", num_labels),
            )
        )
        packed_shape = (num_teachers, num_queries, -(-num_labels // 8))
        write_archive(Path(path), {"num_labels": num_labels}, "packed", packed_shape, _pack(blocks, shape))
        return cls(Path(path), num_teachers, num_queries, num_labels)

    @classmethod
    def open(cls, path: Path | str, *, num_teachers: int | None = None) -> VoteStore:
        """Opens a vote file and checks what it says of itself; `blocks` checks its content.

        Args:
            path: the file.
            num_teachers: refuse a file of another number of teachers.

        Raises:
            InvalidValue: no such file, a torn or foreign file, or another number of teachers.
        """
        path = Path(path)
        require_file(path, rule=_RULE, remedy=_REMEDY)
        with _refusing_damage(path), zipfile.ZipFile(path) as archive:
            check_members(archive, None)
            num_labels, shape = read_scalar(archive, "num_labels"), read_shape(archive, "packed")
        consistent = len(shape) == 3 and min(shape) > 0 and num_labels > 0 and shape[2] == -(-num_labels // 8)
        if not consistent:
            raise damaged(path, f"packed [N, Q, ceil({num_labels} / 8)], none of them 0", f"shape {shape}", _REMEDY)
        if num_teachers is not None:
            require(shape[0] == num_teachers, "num_teachers", shape[0], f"{num_teachers} teachers in {path}")
        return cls(path, shape[0], shape[1], num_labels)

    def blocks(self) -> Iterator[NDArray[np.bool_]]:
        """Yields bool `[c, num_queries, num_labels]` for teachers 0.., c as memory allows.

        Raises:
            InvalidValue: bits set behind the last label, or bytes that fail the file's checksum.
        """
        for packed in self.packed_blocks(max(1, _BLOCK_BYTES // (self.num_queries * self.num_labels))):
            yield np.unpackbits(packed, axis=-1, count=self.num_labels).view(np.bool_)

    def packed_blocks(self, num_teachers: int = 1) -> Iterator[NDArray[np.uint8]]:
        """Yields the same packed, uint8 `[c, num_queries, ceil(num_labels / 8)]`.

        Args:
            num_teachers: of a block, c.

        Raises:
            InvalidValue: as `blocks`.
        """
        width = -(-self.num_labels // 8)
        behind = (1 << (8 * width - self.num_labels)) - 1
        blocks = read_blocks(self.path, "packed", num_teachers)
        while True:
            with _refusing_damage(self.path):  # but not what the caller does with a block
                packed = next(blocks, None)
            if packed is None:
                return
            if behind and (packed[..., -1] & behind).any():
                raise damaged(self.path, _RULE, f"bits behind label {self.num_labels - 1}", _REMEDY)
            yield packed

    def teacher_votes(self) -> NDArray[np.bool_]:
        """All votes at once, bool `[num_teachers, num_queries, num_labels]`: eight times the file."""
        return np.concatenate(list(self.blocks()))

    def histogram(self) -> NDArray[np.int64]:
        """Counts of votes, int64 `[num_queries, num_labels]`."""
        counts = np.zeros((self.num_queries, self.num_labels), np.int64)
        for block in self.blocks():
            counts += histogram(block)
        return counts


def _pack(blocks: Iterable[NDArray[np.bool_]], shape: tuple[int, ...]) -> Iterator[NDArray[np.uint8]]:
    written = 0
    for block in blocks:
        votes = require_teacher_votes("votes", block)
        require(votes.shape[1:] == shape[1:], "votes.shape", votes.shape, f"[c, {shape[1]}, {shape[2]}]")
        written += len(votes)
        require(written <= shape[0], "num_teachers", shape[0], f"room for the {written} teachers given")
        yield np.packbits(votes, axis=-1)
    require(written == shape[0], "num_teachers", shape[0], f"the {written} teachers given")


@contextmanager
def _refusing_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unreadable(path, error, rule=_RULE, remedy=_REMEDY) from error
    except UNREADABLE as error:
        raise damaged(path, _RULE, one_line(error), _REMEDY) from None


class StoredVotes(VoteSource):
    """See `VoteSource`. A teacher's votes stand for its records: its label shares are the means over the queries.

    Args:
        store: the file.
    """

    def __init__(self, store: VoteStore) -> None:
        self.store, self.records_per_teacher = store, 1.0
        self.num_teachers, self.num_queries, self.num_labels = store.num_teachers, store.num_queries, store.num_labels

    def bits(self) -> Iterator[Bits]:
        """See `VoteSource.bits`."""
        return self.store.blocks()

    def label_shares(self) -> Array:
        """See `VoteSource.label_shares`."""
        return np.concatenate([block.mean(axis=1) for block in self.bits()])
