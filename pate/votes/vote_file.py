"""Votes on disk, one bit each, read in blocks; vote files of holders, sums of several, all of them as one source."""

from __future__ import annotations

import hashlib
import math
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.accounting import Adjacency, PrivacyUnit
from pate.files import disk
from pate.files.arrays import UNREADABLE, check_members, is_array_file, read_array, read_header
from pate.files.disk import damaged, replacing
from pate.files.strict_json import from_json, to_json_line
from pate.validation import (
    InvalidValue,
    require,
    require_choice,
    require_count,
    require_entries,
    require_text,
)
from pate.votes.blocks import vote_blocks
from pate.votes.counts import Bits, histogram, limited, require_teacher_votes
from pate.votes.recipe import DEFAULT_RECIPE, Recipe
from pate.votes.source import TeacherVotes
from pate.votes.weighted import Array

if TYPE_CHECKING:
    from pate.votes.moment_votes import RoundVotes

# gives the votes of teachers 0, 1, … anew, `[c, Q, L]` a block
Blocks = Callable[[], Iterable[NDArray[Any]]]
Words = NDArray[np.uint64]
Packed = NDArray[np.uint8]

# what teachers say: a bit for each label of each query, or a number in [0, 1] as well
CASTS = ("bits", "confidences")
_FORMAT = 1
_HEXADECIMAL = 64
_RULE = "a whole vote file, as pate-vote writes it"
_REMEDY = "ask its holder for it again: the same pate-vote command writes the same file"
_SUM_RULE = "a whole file of sums, as pate-release sum=FILE writes it"
_SUM_REMEDY = "ask for it again: the same pate-release command writes the same file"
_BLOCK_BYTES = 32 * 2**20  # of unpacked votes held at once
_WHOLE = "a whole vote file"
_ANEW = "of a run, remove it, and the same command asks the teachers again; of others, save it anew"
_WORD = 8  # bytes
_CHUNK = 2**15  # words of one pass: what it reads and writes fits into a cache
_BITS_AT_ONCE = 2**24
_SAME = {
    "queries": "the queries that {first} answers: the same public samples, in the same order",
    "num_queries": "as many queries as in {first}",
    "num_labels": "as many labels as in {first}",
    "vote_clip": "the vote_clip of {first}",
    "cast": "the cast= of {first}",
    "dataset": "the data set of {first}",
}


def write_member(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    """Writes an array; equal arrays give equal bytes, as no time stamp goes in."""
    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def write_rows(
    archive: zipfile.ZipFile,
    name: str,
    shape: tuple[int, ...],
    descr: str,
    blocks: Iterable[NDArray[Any]],
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


def form_of(
    archive: zipfile.ZipFile, name: str, *, kinds: str
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and dtype of an array in C order, all bytes of which are in the file."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as member:
        shape, fortran_order, dtype = read_header(member, info.file_size, kinds=kinds)
    if fortran_order:
        raise ValueError(f"expected {dtype} in C order")
    return shape, dtype


def read_rows(
    archive: zipfile.ZipFile, name: str, num_rows: int, *, kinds: str
) -> Iterator[NDArray[Any]]:
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
    with (
        disk.reading(path, rule=rule, remedy=remedy, wrong=UNREADABLE),
        zipfile.ZipFile(path) as archive,
    ):
        check_members(archive, None)
        yield archive


def whole_blocks(
    blocks: Iterable[NDArray[Any]], shape: tuple[int, int, int]
) -> Iterator[NDArray[Any]]:
    """The blocks `[c, Q, L]`; raises `InvalidValue` unless they are the votes of N teachers together."""
    for block in vote_blocks(iter(blocks), num_teachers=shape[0], adjacency=Adjacency.REPLACE_ONE):
        require(
            block.shape[1:] == shape[1:], "votes.shape", block.shape, f"[c, {shape[1]}, {shape[2]}]"
        )
        yield block


def write_votes(
    archive: zipfile.ZipFile,
    blocks: Iterable[Any],
    shape: tuple[int, int, int],
    clip: int | None = None,
) -> None:
    """Writes bool blocks `[c, Q, L]` of N teachers together, of which each keeps to the clip, as `packed`."""

    def packed() -> Iterator[Packed]:
        for block in whole_blocks(blocks, shape):
            votes = require_teacher_votes("votes", block)
            if clip is not None:
                within = np.count_nonzero(votes, axis=-1) <= clip
                require_entries("votes", within, f"at most vote_clip={clip} labels of a query")
            yield np.packbits(votes, axis=-1)

    write_rows(archive, "packed", (*shape[:2], -(-shape[2] // 8)), "|u1", packed())


@dataclass(frozen=True)
class VoteStore:
    """A complete file of teacher votes: no epsilon covers it, it stays with the owner of the data.

    An .npz with `packed` uint8 `[num_teachers, num_queries, ceil(num_labels / 8)]` (the labels of one query,
    `numpy.packbits`, big-endian, zero padded) and `num_labels`. Votes are written and read a block of teachers at a
    time, so memory grows with neither the teachers nor the file. Made by `VoteStore.write` or `VoteStore.open`.
    """

    path: Path
    num_teachers: int
    num_queries: int
    num_labels: int

    @classmethod
    def write(
        cls,
        path: Path | str,
        blocks: Iterable[Bits],
        *,
        num_teachers: int,
        num_queries: int,
        num_labels: int,
    ) -> VoteStore:
        """Writes the votes of teachers 0, 1, … in order: bool blocks `[c, Q, L]`, together num_teachers of them.

        The file appears when it is complete, in a folder that is there; one of its name is replaced. Raises
        `InvalidValue` for a block of another shape or dtype, or another number of teachers; nothing is written then.
        """
        path = Path(path)
        sizes = (num_teachers, num_queries, num_labels)
        for name, value in zip(("num_teachers", "num_queries", "num_labels"), sizes, strict=True):
            require_count(name, value)
        with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
            write_member(archive, "num_labels", np.array(num_labels, np.int64))
            write_votes(archive, blocks, sizes)
        return cls(path, *sizes)

    @classmethod
    def open(cls, path: Path | str, *, num_teachers: int | None = None) -> VoteStore:
        """Opens a vote file, of so many teachers, and checks what it says of itself; `blocks` checks its content.

        Raises `InvalidValue` for no such file, a torn or foreign file, or another number of teachers.
        """
        with reading(path, _WHOLE, _ANEW) as archive:
            known = read_member(archive, "num_labels")
            (shape, dtype) = form_of(archive, "packed", kinds="biuf")
            if known.shape != () or known.dtype.kind not in "iu" or dtype != np.uint8:
                raise ValueError(
                    f"expected a whole number of labels, and uint8 in C order, found {dtype}"
                )
        num_labels = int(known)
        if len(shape) != 3 or min(shape) < 1 or num_labels < 1 or shape[2] != -(-num_labels // 8):
            raise damaged(
                path,
                f"packed [N, Q, ceil({num_labels} / 8)], none of them 0",
                f"shape {shape}",
                _ANEW,
            )
        if num_teachers is not None:
            require(
                shape[0] == num_teachers,
                "num_teachers",
                shape[0],
                f"{num_teachers} teachers in {path}",
            )
        return cls(Path(path), shape[0], shape[1], num_labels)

    def blocks(self) -> Iterator[NDArray[np.bool_]]:
        """Yields bool `[c, num_queries, num_labels]` for teachers 0.., c as memory allows; raises if damaged."""
        for packed in self.packed_blocks(
            max(1, _BLOCK_BYTES // (self.num_queries * self.num_labels))
        ):
            yield np.unpackbits(packed, axis=-1, count=self.num_labels).view(np.bool_)

    def packed_blocks(self, num_teachers: int = 1) -> Iterator[NDArray[np.uint8]]:
        """Yields the same packed, uint8 `[c, num_queries, ceil(num_labels / 8)]`, of c = `num_teachers` at most."""
        behind = (1 << (-self.num_labels % 8)) - 1
        with reading(self.path, _WHOLE, _ANEW) as archive:
            for packed in read_rows(archive, "packed", num_teachers, kinds="u"):
                if behind and (packed[..., -1] & behind).any():
                    raise damaged(
                        self.path, _WHOLE, f"bits behind label {self.num_labels - 1}", _ANEW
                    )
                yield packed

    def teacher_votes(self) -> NDArray[np.bool_]:
        """All votes at once, bool `[num_teachers, num_queries, num_labels]`: eight times the file."""
        return np.concatenate(list(self.blocks()))

    def histogram(self) -> NDArray[np.int64]:
        """Counts of votes, int64 `[num_queries, num_labels]`, a block at a time."""
        return sum(
            map(histogram, self.blocks()), np.zeros((self.num_queries, self.num_labels), np.int64)
        )


class StoredVotes(TeacherVotes):
    """Votes of a file. A teacher's votes stand for its records: its label shares are the means over the queries."""

    def __init__(self, store: VoteStore) -> None:
        self.store = store
        self.records_per_teacher = 1.0
        self.num_teachers = store.num_teachers
        self.num_queries = store.num_queries
        self.num_labels = store.num_labels

    def bits(self) -> Iterator[Bits]:
        """Yields the stored votes, `[c, Q, L]` a block."""
        return self.store.blocks()

    def label_shares(self) -> Array:
        """Returns each teacher's share of votes for each label, `[N, L]`."""
        return np.concatenate([block.mean(axis=1) for block in self.bits()])


@dataclass(frozen=True, kw_only=True)
class VoteManifest:
    """The head of a vote file.

    Of the records it says how many there are and in how many groups, which the holder vouches for, and nothing else:
    no digest of them, as whoever guesses records could check the guess.
    """

    holder: str  # who cast the votes; a name that no other holder of the release has.
    queries: str  # `queries_digest` of what was asked
    num_teachers: int  # of this holder
    num_queries: int  # Q
    num_labels: int  # L
    num_records: int  # private records that the teachers were dealt
    num_groups: int  # units of privacy among them; each is with one teacher.
    cast: str = "bits"  # one of `CASTS`
    # the most labels of a query that a teacher votes for, where votes were clipped; None for all.
    vote_clip: int | None = None
    dataset: str = "votes"  # the public name of the data set
    real: bool = True  # False for synthetic records
    # what stands for pictures, see `Preprocessing.origin`; public.
    features: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    # how teachers were made, by group and as YAML: what may be published of it.
    settings: Mapping[str, str] = field(default_factory=dict)
    format: int = _FORMAT  # version of the file
    unit: PrivacyUnit | None = None  # what a group is; None in a file of an earlier version

    def __post_init__(self) -> None:
        require_text("holder", self.holder)
        require(
            self.format == _FORMAT,
            "format",
            self.format,
            f"{_FORMAT}, the version that this package reads",
        )
        digest = len(self.queries) == _HEXADECIMAL and set(self.queries) <= set("0123456789abcdef")
        require(digest, "queries", "another text", "a SHA-256 in hexadecimal")
        for name in ("num_teachers", "num_queries", "num_labels", "num_records", "num_groups"):
            require_count(name, getattr(self, name))
        require_choice("cast", self.cast, CASTS)
        if self.vote_clip is not None:
            require_count("vote_clip", self.vote_clip)
        require(
            self.num_teachers <= self.num_groups,
            "num_teachers",
            self.num_teachers,
            "at most num_groups",
        )
        require(
            self.num_groups <= self.num_records,
            "num_groups",
            self.num_groups,
            "at most num_records",
        )
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
    """SHA-256 of the public samples `[Q, …]` as teachers are given them, and of their names `[Q]`, in hexadecimal."""
    digest = hashlib.sha256(
        repr(("queries", inputs.shape, [str(name) for name in record_ids.tolist()])).encode()
    )
    digest.update(np.ascontiguousarray(inputs, dtype="<f4").data)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class HoldersFile:
    """A file of one or more holders on disk. No epsilon covers it: only the aggregator may have it."""

    path: Path  # the file
    heads: tuple[VoteManifest, ...]  # what each holder vouches for
    record_ids: NDArray[Any]  # `[Q]`, whole numbers or texts: what the queries are called
    label_names: tuple[str, ...]  # L

    @property
    def manifest(self) -> VoteManifest:
        """What all of its holders say of the questions."""
        return self.heads[0]


class VoteFile(HoldersFile):
    """The votes of one holder.

    An .npz with the arrays of a `VoteStore` (`packed`, `num_labels`), `manifest` (JSON), the public `record_ids` and
    `label_names`. Votes that were cast as confidences bring float32 `confidences` `[N, Q, L]` and float64
    `label_shares` `[N, L]`: each teacher's share of its records with each label. Equal votes give equal bytes.
    """

    @classmethod
    def write(
        cls,
        path: Path | str,
        manifest: VoteManifest,
        *,
        bits: Blocks,
        record_ids: NDArray[Any],
        label_names: tuple[str, ...],
        confidences: Blocks | None = None,
        label_shares: NDArray[np.float64] | None = None,
    ) -> VoteFile:
        """Writes a file of mode 0600, which appears when it is complete; one of its name is replaced.

        Bits are clipped to the manifest's `vote_clip`. Confidences in [0, 1], float32, and label shares `[N, L]` are
        there where its `cast` says so. Raises `InvalidValue` for votes of another shape or dtype than it says.
        """
        teachers, queries, labels = manifest.shape
        require(
            len(record_ids) == queries,
            "len(record_ids)",
            len(record_ids),
            f"{queries}, one for each query",
        )
        require(
            len(label_names) == labels,
            "len(label_names)",
            len(label_names),
            f"{labels}, one for each label",
        )
        complete = (confidences is not None and label_shares is not None) == (
            manifest.cast == "confidences"
        )
        require(
            complete,
            "cast",
            manifest.cast,
            "confidences and label shares where it says so, and only there",
        )
        with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
            write_member(archive, "num_labels", np.array(labels, np.int64))
            write_member(archive, "manifest", np.array(manifest.to_text()))
            write_member(archive, "record_ids", np.asarray(record_ids))
            write_member(archive, "label_names", np.array(label_names, np.str_))
            write_votes(archive, bits(), manifest.shape, manifest.vote_clip)
            if confidences is not None and label_shares is not None:
                shares = np.asarray(label_shares, dtype="<f8")
                require(
                    shares.shape == (teachers, labels),
                    "label_shares.shape",
                    shares.shape,
                    f"[{teachers}, L]",
                )
                write_member(archive, "label_shares", shares)
                write_rows(
                    archive,
                    "confidences",
                    manifest.shape,
                    "<f4",
                    whole_blocks(confidences(), manifest.shape),
                )
        return cls(Path(path), (manifest,), np.asarray(record_ids), tuple(label_names))

    @classmethod
    def open(cls, path: Path | str) -> VoteFile:
        """Reads the head and checks that the votes are there; `bits` and `confidences` check what they say."""
        with reading(path, _RULE, _REMEDY) as archive:
            manifest = VoteManifest.from_text(str(read_member(archive, "manifest", kinds="U")))
            record_ids = read_member(archive, "record_ids", kinds="iuU")
            names = read_member(archive, "label_names", kinds="U")
        store = VoteStore.open(path)
        found = (
            (store.num_teachers, store.num_queries, store.num_labels),
            record_ids.shape,
            names.shape,
        )
        if found != (manifest.shape, (manifest.num_queries,), (manifest.num_labels,)):
            raise damaged(path, _RULE, "votes of another shape than its head says", _REMEDY)
        return cls(Path(path), (manifest,), record_ids, tuple(names.tolist()))

    def bits(self) -> Iterator[NDArray[np.bool_]]:
        """Votes of teachers 0, 1, …, bool `[c, Q, L]` a block; each teacher keeps to the head's clip."""
        clip = self.manifest.vote_clip
        for block in VoteStore.open(self.path).blocks():
            if clip is not None and (np.count_nonzero(block, axis=-1) > clip).any():
                raise damaged(
                    self.path, _RULE, f"more than vote_clip={clip} labels of a query", _REMEDY
                )
            yield block

    def confidences(self) -> Iterator[NDArray[np.float32]]:
        """Confidences of teachers 0, 1, …, float32 `[c, Q, L]` a block; the file has to hold them."""
        shape = self.manifest.shape
        rows = max(1, _BLOCK_BYTES // (4 * shape[1] * shape[2]))
        with reading(self.path, _RULE, _REMEDY) as archive:
            if form_of(archive, "confidences", kinds="f") != (shape, np.dtype("<f4")):
                raise ValueError("confidences of another shape than the head says")
            for block in read_rows(archive, "confidences", rows, kinds="f"):
                if not ((block >= 0) & (block <= 1)).all():  # NaN is neither
                    raise damaged(self.path, _RULE, "confidences beyond [0, 1]", _REMEDY)
                yield block

    def label_shares(self) -> NDArray[np.float64]:
        """Each teacher's share of its records with each label, `[N, L]`; the file has to hold them."""
        with reading(self.path, _RULE, _REMEDY) as archive:
            shares = read_member(archive, "label_shares", kinds="f")
        teachers, _, labels = self.manifest.shape
        if shares.shape != (teachers, labels) or not ((shares >= 0) & (shares <= 1)).all():
            raise damaged(
                self.path, _RULE, "label shares of another shape, or beyond [0, 1]", _REMEDY
            )
        return np.asarray(shares, dtype=np.float64)


class SumFile(HoldersFile):
    """How many teachers of some holders vote for each label of each query.

    An .npz with `sum_heads` (the manifest of each holder, as JSON), `record_ids`, `label_names` and `counts` `[Q, L]`
    in the shortest unsigned integers that hold the number of teachers. Equal sums give equal bytes.
    """

    @property
    def num_teachers(self) -> int:
        """The number of teachers behind the sum."""
        return sum(head.num_teachers for head in self.heads)

    @classmethod
    def write(
        cls,
        path: Path | str,
        heads: tuple[VoteManifest, ...],
        counts: NDArray[np.int64],
        *,
        record_ids: NDArray[Any],
        label_names: tuple[str, ...],
    ) -> Self:
        """Writes a file of mode 0600, which appears when it is complete; one of its name is replaced."""
        made = cls(Path(path), tuple(heads), np.asarray(record_ids), tuple(label_names))
        dtype = np.min_scalar_type(made.num_teachers)
        with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
            write_member(
                archive, "sum_heads", np.array([head.to_text() for head in made.heads], np.str_)
            )
            write_member(archive, "record_ids", made.record_ids)
            write_member(archive, "label_names", np.array(made.label_names, np.str_))
            write_member(archive, "counts", made._possible(counts).astype(dtype))
        return made

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Reads the head and checks that the counts are there; `counts` checks what they say."""
        with reading(path, _SUM_RULE, _SUM_REMEDY) as archive:
            heads, names = (
                read_member(archive, name, kinds="U") for name in ("sum_heads", "label_names")
            )
            ids = read_member(archive, "record_ids", kinds="iuU")
            manifests = tuple(VoteManifest.from_text(text) for text in heads.tolist())
            shape, _ = form_of(archive, "counts", kinds="u")
        good = len(manifests) > 0 and shape == (len(ids), len(names))
        if not good or any((head.num_queries, head.num_labels) != shape for head in manifests):
            raise damaged(
                path, _SUM_RULE, "counts of another shape than its heads say", _SUM_REMEDY
            )
        return cls(Path(path), manifests, ids, tuple(names.tolist()))

    def counts(self) -> NDArray[np.unsignedinteger[Any]]:
        """`[Q, L]`, none of them more than there are teachers."""
        with reading(self.path, _SUM_RULE, _SUM_REMEDY) as archive:
            return self._possible(read_member(archive, "counts", kinds="u"))

    def _possible(self, counts: NDArray[Any]) -> NDArray[Any]:
        within = (counts <= self.num_teachers) & (counts >= 0)
        require_entries(
            "counts", within, f"at most {self.num_teachers}, the teachers that are in them"
        )
        return counts


def _holds(path: Path | str, *, member: str) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{member}.npy" in archive.namelist()
    except (OSError, *UNREADABLE):
        return False


# whether it has a manifest of `pate-vote`, be it damaged or not
is_vote_file = partial(_holds, member="manifest")
# whether it has sums of `pate-release`, be it damaged or not
is_sum_file = partial(_holds, member="sum_heads")


def is_whole_archive(path: Path) -> bool:
    """Whether it is an .npy file, or an archive that ends where it should."""
    try:
        with path.open("rb") as file:
            return is_array_file(file.read(6)) or zipfile.is_zipfile(path)
    except OSError:
        return False


class BitSums:
    """Adds up rows of bits, 64 of them in one operation, in counters whose digits are rows of bits themselves.

    Rule: on a level of weight 2**i two rows and the one that is there become a sum, which stays, and a carry, which
    goes to the next level (a carry-save adder). A row costs less than one such addition in the mean, five operations
    for 64 bits, however many rows there are.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape  # of the bytes of one row, `[Q, B]`
        self._num_words = -(-shape[0] * shape[1] // _WORD)
        # the sum of each level, and beside it the row that waits
        self._levels: list[list[Words]] = []

    def add(self, row: Packed) -> None:
        """Adds the bits of bytes `[Q, B]`; the array may be used again afterward."""
        carry = np.zeros(self._num_words, dtype=np.uint64)
        carry.view(np.uint8)[: row.size] = row.reshape(-1)
        for level in self._levels:
            if len(level) == 1:
                level.append(carry)
                return
            kept = level[0]
            other = level.pop()
            for start in range(0, self._num_words, _CHUNK):
                a, b, c = (words[start : start + _CHUNK] for words in (kept, other, carry))
                either = a ^ b
                both = a & b
                np.bitwise_xor(either, c, out=a)  # the sum stays
                np.bitwise_and(either, c, out=either)
                np.bitwise_or(both, either, out=c)  # what is carried
        self._levels.append([np.zeros(self._num_words, dtype=np.uint64), carry])

    def counts(self, num_labels: int) -> NDArray[np.int64]:
        """How many rows have each bit, int64 `[Q, num_labels]`: the first bits of the B bytes of a query."""
        total = np.zeros((self.shape[0], num_labels), dtype=np.int64)
        rows = max(1, _BITS_AT_ONCE // (self.shape[1] * _WORD))
        for digit, level in enumerate(self._levels):
            for words in level:
                packed = words.view(np.uint8)[: math.prod(self.shape)].reshape(self.shape)
                for first in range(0, self.shape[0], rows):
                    bits = np.unpackbits(packed[first : first + rows], axis=1, count=num_labels)
                    total[first : first + rows] += bits.astype(np.int64) << digit
        return total


def _in_order(holder: str) -> tuple[bool, int, str]:
    """Sorts the names of holders: numbers by their size before names."""
    number = holder.isascii() and holder.isdigit()
    return not number, int(holder) if number else 0, holder


class GatheredVotes(TeacherVotes):
    """Votes of vote files and sums, for the same queries and labels; no holder is there twice.

    Holders, and with them teachers, are taken in the order of their names, whatever the files are called. Of sums there
    are counts alone. What is refused is told by the heads of files alone, so it says nothing about votes.
    """

    def __init__(self, files: Sequence[HoldersFile]) -> None:
        require(bool(files), "votes", [], "at least one vote file")
        self.files = tuple(sorted(files, key=lambda file: _in_order(file.heads[0].holder)))
        first = self.files[0]
        seen = dict[str, Path]()
        # all answer the same questions, no holder is there twice; no digest is said
        for file in self.files:
            for head in file.heads:
                for name, rule in _SAME.items():
                    same = getattr(head, name) == getattr(first.manifest, name)
                    shown = "others" if name == "queries" else getattr(head, name)
                    require(
                        same, f"votes={file.path}, {name}", shown, rule.format(first=first.path)
                    )
            same = np.array_equal(file.record_ids.astype(str), first.record_ids.astype(str))
            require(same, f"votes={file.path}, record_ids", "others", f"those of {first.path}")
            for place, (found, wanted) in enumerate(
                zip(file.label_names, first.label_names, strict=True)
            ):
                rule = f"{wanted}, as in {first.path}"
                require(found == wanted, f"votes={file.path}, label_names[{place}]", found, rule)
        for file in self.files:
            for head in file.heads:
                there = f"{seen.get(head.holder)} is of the same holder, whose records would count twice"
                rule = f"each holder once; {there}"
                require(head.holder not in seen, f"votes={file.path}, holder", head.holder, rule)
                seen[head.holder] = file.path
        heads = (head for file in self.files for head in file.heads)
        self.heads: tuple[VoteManifest, ...] = tuple(
            sorted(heads, key=lambda head: _in_order(head.holder))
        )
        self._are_sums = any(not isinstance(file, VoteFile) for file in self.files)
        self.record_ids: NDArray[Any] = self.files[0].record_ids
        self.label_names: tuple[str, ...] = self.files[0].label_names
        self.num_queries, self.num_labels = len(self.record_ids), len(self.label_names)
        self.num_teachers = sum(head.num_teachers for head in self.heads)
        # private ones, of all holders
        self.num_groups = sum(head.num_groups for head in self.heads)
        self.records_per_teacher = self.num_groups / self.num_teachers
        # the most that one has
        self.teachers_per_holder = max(head.num_teachers for head in self.heads)

    @classmethod
    def read(cls, paths: Sequence[Path | str]) -> GatheredVotes:
        """Reads files of votes or of sums."""
        return cls(
            [SumFile.open(path) if is_sum_file(path) else VoteFile.open(path) for path in paths]
        )

    @property
    def digest(self) -> str:
        """SHA-256 of all files, by holder: what a release that was begun is continued with. No epsilon covers it."""
        digest = hashlib.sha256(b"sums of holders" if self._are_sums else b"votes of holders")
        for file in self.files:
            with file.path.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        return digest.hexdigest()

    def _vote_files(self) -> list[VoteFile]:
        found = [file for file in self.files if isinstance(file, VoteFile)]
        if len(found) < len(self.files):
            rule = "one that reads counts, as sums do not say what one teacher votes for; or the vote files themselves"
            raise InvalidValue("aggregator", rule=rule)
        return found

    def bits(self) -> Iterator[Bits]:
        """Yields the votes of all files, `[c, Q, L]` a block."""
        return chain.from_iterable(file.bits() for file in self._vote_files())

    def confidences(self) -> Iterator[NDArray[Any]]:
        """The bits, clipped as they were cast, where files hold no more."""
        cast = self.heads[0].cast == "confidences"
        return chain.from_iterable(
            file.confidences() if cast else file.bits() for file in self._vote_files()
        )

    def label_shares(self) -> Array:
        """Files hold them beside confidences."""
        files = self._vote_files()
        cast = self.heads[0].cast
        rule = "vote files of pate-vote cast=confidences, which hold what a prevalence is released from"
        require(
            cast != "bits",
            "cast",
            cast,
            f"{rule}; or aggregator.prevalence_share=0 for a public center",
        )
        return np.concatenate([file.label_shares() for file in files])

    def in_rounds(
        self, *, noise_multiplier: float, recipe: Recipe = DEFAULT_RECIPE
    ) -> RoundVotes | None:
        """Raises `InvalidValue`: files hold the votes of one cast."""
        self._vote_files()
        rule = (
            "aggregator.rounds=1, one cast, as vote files hold; rounds ask each "
            "holder again: roll=, or pate.federated"
        )
        raise InvalidValue("aggregator.rounds", rule=rule)

    def accuracies(self, true: Bits) -> Array:
        """Returns each teacher's share of correct bits, `[N]`; `[0]` where files hold sums."""
        return np.zeros(0) if self._are_sums else super().accuracies(true)

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """Of sums a limit has to be that of the votes as they were cast."""
        if max_votes is not None and self._are_sums:
            clip = self.heads[0].vote_clip
            rule = f"sums of votes that were cast with vote_clip={max_votes}"
            require(clip is not None and clip <= max_votes, "vote_clip", clip, rule)
            max_votes = None
        return super().counts(max_votes)

    def _counted(self, max_votes: int | None) -> NDArray[np.int64]:
        """Packed bits are added as they are; what is clipped has to be looked at."""
        sums = BitSums((self.num_queries, -(-self.num_labels // 8)))
        total = np.zeros((self.num_queries, self.num_labels), dtype=np.int64)
        for file in self.files:
            if isinstance(file, SumFile):
                total += file.counts()
            elif (
                isinstance(file, VoteFile) and max_votes is None and file.manifest.vote_clip is None
            ):
                for block in VoteStore.open(file.path).packed_blocks():
                    for row in block:
                        sums.add(row)
            elif isinstance(file, VoteFile):
                for bits in file.bits():
                    total += histogram(bits if max_votes is None else limited(bits, max_votes))
        return total + sums.counts(self.num_labels)

    def write(self, path: Path | str) -> SumFile:
        """All of them as one file of sums."""
        counts = self.counts()
        return SumFile.write(
            path, self.heads, counts, record_ids=self.record_ids, label_names=self.label_names
        )
