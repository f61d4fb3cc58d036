"""Votes of teachers on disk, one bit each, and read back in blocks; the archives of arrays that hold votes."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency
from pate.files import disk
from pate.files.arrays import UNREADABLE, check_members, read_array, read_header
from pate.files.disk import damaged, replacing
from pate.validation import require, require_count
from pate.votes.clipping import histogram, require_teacher_votes, vote_blocks
from pate.votes.source import Array, Bits, VoteSource


def write_member(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    """Writes an array; equal arrays give equal bytes, as no time stamp goes in."""
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def write_rows(
    archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], descr: str, blocks: Iterable[NDArray[Any]]
) -> None:
    """Writes an array of that shape and dtype that is given as blocks of its rows."""
    header: dict[str, Any] = {"descr": descr, "fortran_order": False, "shape": shape}
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, header)
        for block in blocks:
            member.write(np.ascontiguousarray(block, dtype=descr).data)


def read_member(archive: zipfile.ZipFile, name: str, *, kinds: str = "biuf") -> NDArray[Any]:
    """An array of those dtypes; raises one of `UNREADABLE` where it is none."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as member:
        return read_array(member, info.file_size, kinds=kinds)


def form_of(archive: zipfile.ZipFile, name: str, *, kinds: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of an array in C order, all bytes of which are in the file."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as member:
        shape, fortran_order, dtype = read_header(member, info.file_size, kinds=kinds)
    if fortran_order:
        raise ValueError(f"expected {dtype} in C order")
    return shape, dtype


def read_rows(archive: zipfile.ZipFile, name: str, num_rows: int, *, kinds: str) -> Iterator[NDArray[Any]]:
    """Such an array, up to `num_rows` rows of it at a time."""
    shape, dtype = form_of(archive, name, kinds=kinds)
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as member:
        read_header(member, info.file_size, kinds=kinds)
        for first in range(0, shape[0], num_rows):
            count = min(num_rows, shape[0] - first)
            data = member.read(dtype.itemsize * count * math.prod(shape[1:]))
            yield np.frombuffer(data, dtype).reshape(count, *shape[1:])


@contextmanager
def reading(path: Path | str, rule: str, remedy: str) -> Iterator[zipfile.ZipFile]:
    """An archive of arrays; what reading it raises, as what is wrong with the file."""
    with disk.reading(path, rule=rule, remedy=remedy, wrong=UNREADABLE), zipfile.ZipFile(path) as archive:
        check_members(archive, None)
        yield archive


def whole_blocks(blocks: Iterable[NDArray[Any]], shape: tuple[int, int, int]) -> Iterator[NDArray[Any]]:
    """The blocks `[c, Q, L]`; raises `InvalidValue` unless they are the votes of N teachers together."""
    for block in vote_blocks(iter(blocks), num_teachers=shape[0], adjacency=Adjacency.REPLACE_ONE):
        require(block.shape[1:] == shape[1:], "votes.shape", block.shape, f"[c, {shape[1]}, {shape[2]}]")
        yield block


_BLOCK_BYTES = 32 * 2**20  # of unpacked votes held at once
_RULE = "a whole vote file"
_REMEDY = "of a run, remove it, and the same command asks the teachers again; of others, save it anew"


@dataclass(frozen=True)
class VoteStore:
    """A complete file of teacher votes: no epsilon covers it, it stays with the owner of the data.

    An .npz with `packed` uint8 `[num_teachers, num_queries, ceil(num_labels / 8)]` (the labels of one query,
    `numpy.packbits`, big-endian, zero padded) and `num_labels`. Votes are written and read a block of teachers at a
    time, so memory grows with neither the teachers nor the file.

    Made by `VoteStore.write` or `VoteStore.open`.
    """

    path: Path
    num_teachers: int
    num_queries: int
    num_labels: int

    @classmethod
    def write(
        cls, path: Path | str, blocks: Iterable[Bits], *, num_teachers: int, num_queries: int, num_labels: int
    ) -> VoteStore:
        """Writes the votes of teachers 0, 1, … in order: bool blocks `[c, Q, L]`, together num_teachers of them.

        The file appears when it is complete, in a folder that is there; one of its name is replaced.

        Raises:
            InvalidValue: a block of another shape or dtype, or another number of teachers; nothing is written then.
        """
        named = {"num_teachers": num_teachers, "num_queries": num_queries, "num_labels": num_labels}
        for name, value in named.items():
            require_count(name, value)
        path, sizes = Path(path), (num_teachers, num_queries, num_labels)
        checked = whole_blocks((require_teacher_votes("votes", block) for block in blocks), sizes)
        packed = (np.packbits(block, axis=-1) for block in checked)
        with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
            write_member(archive, "num_labels", np.array(num_labels, np.int64))
            write_rows(archive, "packed", (num_teachers, num_queries, -(-num_labels // 8)), "|u1", packed)
        return cls(path, *sizes)

    @classmethod
    def open(cls, path: Path | str, *, num_teachers: int | None = None) -> VoteStore:
        """Opens a vote file, of so many teachers, and checks what it says of itself; `blocks` checks its content.

        Raises:
            InvalidValue: no such file, a torn or foreign file, or another number of teachers.
        """
        with reading(path, _RULE, _REMEDY) as archive:
            known, (shape, dtype) = read_member(archive, "num_labels"), form_of(archive, "packed", kinds="biuf")
            if known.shape != () or known.dtype.kind not in "iu":
                raise ValueError("num_labels is no whole number")
            if dtype != np.uint8:
                raise ValueError(f"expected uint8 in C order, found {dtype}")
        num_labels = int(known)
        if len(shape) != 3 or min(shape) < 1 or num_labels < 1 or shape[2] != -(-num_labels // 8):
            raise damaged(path, f"packed [N, Q, ceil({num_labels} / 8)], none of them 0", f"shape {shape}", _REMEDY)
        if num_teachers is not None:
            require(shape[0] == num_teachers, "num_teachers", shape[0], f"{num_teachers} teachers in {path}")
        return cls(Path(path), shape[0], shape[1], num_labels)

    def blocks(self) -> Iterator[NDArray[np.bool_]]:
        """Yields bool `[c, num_queries, num_labels]` for teachers 0.., c as memory allows; raises if damaged."""
        for packed in self.packed_blocks(max(1, _BLOCK_BYTES // (self.num_queries * self.num_labels))):
            yield np.unpackbits(packed, axis=-1, count=self.num_labels).view(np.bool_)

    def packed_blocks(self, num_teachers: int = 1) -> Iterator[NDArray[np.uint8]]:
        """Yields the same packed, uint8 `[c, num_queries, ceil(num_labels / 8)]`, of c = `num_teachers` at most."""
        behind = (1 << (-self.num_labels % 8)) - 1
        with reading(self.path, _RULE, _REMEDY) as archive:
            for packed in read_rows(archive, "packed", num_teachers, kinds="u"):
                if behind and (packed[..., -1] & behind).any():
                    raise damaged(self.path, _RULE, f"bits behind label {self.num_labels - 1}", _REMEDY)
                yield packed

    def teacher_votes(self) -> NDArray[np.bool_]:
        """All votes at once, bool `[num_teachers, num_queries, num_labels]`: eight times the file."""
        return np.concatenate(list(self.blocks()))

    def histogram(self) -> NDArray[np.int64]:
        """Counts of votes, int64 `[num_queries, num_labels]`, a block at a time."""
        return sum(map(histogram, self.blocks()), np.zeros((self.num_queries, self.num_labels), np.int64))


class StoredVotes(VoteSource):
    """Votes of a file. A teacher's votes stand for its records: its label shares are the means over the queries."""

    def __init__(self, store: VoteStore) -> None:
        self.store, self.records_per_teacher = store, 1.0
        self.num_teachers, self.num_queries, self.num_labels = store.num_teachers, store.num_queries, store.num_labels

    def bits(self) -> Iterator[Bits]:
        return self.store.blocks()

    def label_shares(self) -> Array:
        return np.concatenate([block.mean(axis=1) for block in self.bits()])
