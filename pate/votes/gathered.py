"""Votes of several holders who were asked the same, as those of one ensemble."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue, require
from pate.votes.source import Array, Bits, SumsAlone, VoteSource
from pate.votes.vote_file import HoldersFile, SumFile, VoteFile, VoteManifest, is_sum_file

if TYPE_CHECKING:
    from pate.votes.moment_votes import RoundVotes


Words = NDArray[np.uint64]
Packed = NDArray[np.uint8]

_WORD = 8  # bytes
_CHUNK = 2**15  # words of one pass: what it reads and writes fits into a cache
_BITS_AT_ONCE = 2**24


class BitSums:
    """Adds up rows of bits, 64 of them in one operation, in counters whose digits are rows of bits themselves.

    Rule: a level of weight 2**i keeps at most one row. Two rows and the one that is there become a sum, which stays,
    and a carry, which goes to the next level (a carry-save adder). A row costs less than one such addition in the mean,
    five operations for 64 bits, however many rows there are.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape, self.num_rows = shape, 0  # of the bytes of one row, `[Q, B]`; rows that were added
        self._num_words = -(-shape[0] * shape[1] // _WORD)
        self._levels: list[Words] = []
        self._waiting: list[Words | None] = []

    def add(self, row: Packed) -> None:
        """Adds the bits of bytes `[Q, B]`; the array may be used again afterward."""
        carry, level = np.zeros(self._num_words, dtype=np.uint64), 0
        carry.view(np.uint8)[: row.size] = row.reshape(-1)
        while True:
            if level == len(self._levels):
                self._levels.append(np.zeros(self._num_words, dtype=np.uint64))
                self._waiting.append(None)
            other = self._waiting[level]
            if other is None:
                self._waiting[level] = carry
                break
            self._waiting[level] = None
            carry = _added(self._levels[level], other, carry)
            level += 1
        self.num_rows += 1

    def counts(self, num_labels: int) -> NDArray[np.int64]:
        """How many rows have each bit, int64 `[Q, num_labels]`: the first bits of the B bytes of a query."""
        total = np.zeros((self.shape[0], num_labels), dtype=np.int64)
        rows = max(1, _BITS_AT_ONCE // (self.shape[1] * _WORD))
        for level, (kept, waiting) in enumerate(zip(self._levels, self._waiting, strict=True)):
            for words in (kept, waiting):
                if words is None:
                    continue
                packed = words.view(np.uint8)[: self.shape[0] * self.shape[1]].reshape(self.shape)
                for first in range(0, self.shape[0], rows):
                    bits = np.unpackbits(packed[first : first + rows], axis=1, count=num_labels)
                    total[first : first + rows] += bits.astype(np.int64) << level
        return total


def _added(kept: Words, first: Words, second: Words) -> Words:
    """Adds two rows of bits to the one that is kept, in place; returns the carries, in the place of the second."""
    for start in range(0, len(kept), _CHUNK):
        part = slice(start, start + _CHUNK)
        a, b, c = kept[part], first[part], second[part]
        either = a ^ b
        both = a & b
        np.bitwise_xor(either, c, out=a)
        np.bitwise_and(either, c, out=either)
        np.bitwise_or(both, either, out=c)
    return second


_SAME = {
    "queries": "the queries that {first} answers: the same public samples, in the same order",
    "num_queries": "as many queries as in {first}",
    "num_labels": "as many labels as in {first}",
    "vote_clip": "the vote_clip of {first}",
    "cast": "the cast= of {first}",
    "dataset": "the data set of {first}",
}


def _require_together(files: Sequence[HoldersFile]) -> None:
    """Raises unless all files answer the same questions and no holder is there twice; says no digest."""
    first, seen = files[0], dict[str, Path]()
    for file in files:
        for head in file.heads:
            for name, rule in _SAME.items():
                same = getattr(head, name) == getattr(first.manifest, name)
                shown = "others" if name == "queries" else getattr(head, name)
                require(same, f"votes={file.path}, {name}", shown, rule.format(first=first.path))
        same = np.array_equal(file.record_ids.astype(str), first.record_ids.astype(str))
        require(same, f"votes={file.path}, record_ids", "others", f"those of {first.path}")
        for place, (found, wanted) in enumerate(zip(file.label_names, first.label_names, strict=True)):
            require(found == wanted, f"votes={file.path}, label_names[{place}]", found, f"{wanted}, as in {first.path}")
    for file in files:
        for head in file.heads:
            rule = f"each holder once; {seen.get(head.holder)} is of the same holder, whose records would count twice"
            require(head.holder not in seen, f"votes={file.path}, holder", head.holder, rule)
            seen[head.holder] = file.path


def _in_order(holder: str) -> tuple[bool, int, str]:
    """Sorts the names of holders: numbers by their size before names."""
    number = holder.isascii() and holder.isdigit()
    return not number, int(holder) if number else 0, holder


File = TypeVar("File", bound=HoldersFile)


class HolderVotes(VoteSource, Generic[File]):
    """Votes of files of one or more holders each, for the same queries and labels; no holder is there twice.

    Holders are taken in the order of their names, whatever the files are called. What is refused is told by the heads
    of files alone: whether votes are refused says nothing about votes.
    """

    digest_begins: ClassVar[bytes]  # tells the digests of one kind of source from those of another

    def __init__(self, files: Sequence[File]) -> None:
        if not files:
            raise InvalidValue("votes=[]: expected at least one vote file")
        self.files = tuple(sorted(files, key=lambda file: _in_order(file.heads[0].holder)))
        _require_together(self.files)
        heads = (head for file in self.files for head in file.heads)
        self.heads: tuple[VoteManifest, ...] = tuple(sorted(heads, key=lambda head: _in_order(head.holder)))
        self.record_ids: NDArray[Any] = self.files[0].record_ids
        self.label_names: tuple[str, ...] = self.files[0].label_names
        self.num_queries, self.num_labels = len(self.record_ids), len(self.label_names)
        self.num_teachers = sum(head.num_teachers for head in self.heads)
        self.num_groups = sum(head.num_groups for head in self.heads)  # private ones, of all holders
        self.records_per_teacher = self.num_groups / self.num_teachers
        self.teachers_per_holder = max(head.num_teachers for head in self.heads)  # the most that one has

    @property
    def digest(self) -> str:
        """SHA-256 of all files, by holder: what a release that was begun is continued with. No epsilon covers it."""
        digest = hashlib.sha256(self.digest_begins)
        for file in self.files:
            with file.path.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        return digest.hexdigest()


class GatheredVotes(HolderVotes[VoteFile]):
    """Votes of vote files. Teachers are numbered in the order of the holders."""

    digest_begins = b"votes of holders"

    @classmethod
    def read(cls, paths: Sequence[Path | str]) -> GatheredVotes:
        return cls([VoteFile.open(path) for path in paths])

    def bits(self) -> Iterator[Bits]:
        for file in self.files:
            yield from file.bits()

    def _counted(self, max_votes: int | None) -> NDArray[np.int64]:
        """Packed bits are added as they are; what is clipped has to be looked at."""
        if max_votes is not None or self.files[0].manifest.vote_clip is not None:
            return super()._counted(max_votes)
        sums = BitSums((self.num_queries, -(-self.num_labels // 8)))
        for file in self.files:
            for block in file.packed():
                for row in block:
                    sums.add(row)
        return sums.counts(self.num_labels)

    def confidences(self) -> Iterator[NDArray[Any]]:
        """The bits, clipped as they were cast, where files hold no more."""
        for file in self.files:
            yield from file.confidences() if file.manifest.cast == "confidences" else file.bits()

    def label_shares(self) -> Array:
        """Files hold them beside confidences."""
        if self.files[0].manifest.cast != "confidences":
            rule = "vote files of pate-vote cast=confidences, which hold what a prevalence is released from"
            raise InvalidValue(f"cast=bits: expected {rule}; or aggregator.prevalence_share=0 for a public center")
        return np.concatenate([file.label_shares() for file in self.files])

    def in_rounds(self, *, noise_multiplier: float) -> RoundVotes | None:
        rule = "aggregator.rounds=1, one cast, as vote files hold"
        raise InvalidValue(
            f"aggregator.rounds: expected {rule}; rounds ask each holder again: roll=, or pate.federated"
        )


class SummedVotes(SumsAlone, HolderVotes[VoteFile | SumFile]):
    """Votes of vote files and sums. Whichever way files were added up, the counts are the same."""

    gives_bits = False
    digest_begins = b"sums of holders"
    expected = "one that reads counts, as sums do not say what one teacher votes for; or the vote files themselves"

    @classmethod
    def read(cls, paths: Sequence[Path | str]) -> SummedVotes:
        return cls([SumFile.open(path) if is_sum_file(path) else VoteFile.open(path) for path in paths])

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """A limit has to be that of the votes as they were cast."""
        clip = self.files[0].manifest.vote_clip
        if max_votes is not None and (clip is None or clip > max_votes):
            raise InvalidValue(f"vote_clip={clip}: expected sums of votes that were cast with vote_clip={max_votes}")
        return np.asarray(self.remembered("counts", self._added_up))

    def write(self, path: Path | str) -> SumFile:
        """All of them as one file."""
        counts = self.counts()
        return SumFile.write(path, self.heads, counts, record_ids=self.record_ids, label_names=self.label_names)

    def _added_up(self) -> NDArray[np.int64]:
        total = np.zeros((self.num_queries, self.num_labels), dtype=np.int64)
        if votes := [file for file in self.files if isinstance(file, VoteFile)]:
            total += GatheredVotes(votes).counts()
        for file in self.files:
            if isinstance(file, SumFile):
                total += np.concatenate(list(file.blocks()))
        return total
