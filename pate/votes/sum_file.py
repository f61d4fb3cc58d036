"""The votes of some holders, added up, in a file: a step of a tree of sums."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.files.arrays import check_members
from pate.files.disk import damaged, replacing, require_file
from pate.validation import InvalidValue
from pate.votes.gathered import GatheredVotes, HolderVotes
from pate.votes.source import SumsAlone
from pate.votes.store import form_of, read_member, read_rows, refusing_damage, write_member, write_rows
from pate.votes.vote_file import HoldersFile, VoteFile, VoteManifest, holds

_RULE = "a whole file of sums, as pate-release sum=FILE writes it"
_REMEDY = "ask for it again: the same pate-release command writes the same file"
_HEADS, _COUNTS = "sum_heads", "counts"
_BLOCK_BYTES = 32 * 2**20


class SumFile(HoldersFile):
    """How many teachers of some holders vote for each label of each query.

    An .npz with `sum_heads` (the manifest of each holder, as JSON), `record_ids`, `label_names` and `counts` `[Q, L]`
    in the shortest unsigned integers that hold the number of teachers. Equal sums give equal bytes.
    """

    @property
    def num_teachers(self) -> int:
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
        """Writes a file of mode 0600, which appears when it is complete; one of its name is replaced.

        Raises:
            InvalidValue: counts that so many teachers cannot have.
        """
        made = cls(Path(path), tuple(heads), np.asarray(record_ids), tuple(label_names))
        dtype = np.min_scalar_type(made.num_teachers).newbyteorder("<")
        with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
            write_member(archive, _HEADS, np.array([head.to_text() for head in made.heads], np.str_))
            write_member(archive, "record_ids", made.record_ids)
            write_member(archive, "label_names", np.array(made.label_names, np.str_))
            write_rows(archive, _COUNTS, counts.shape, dtype.str, map(made._possible, _row_blocks(counts)))
        return made

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Reads the head and checks that the counts are there; `blocks` checks what they say.

        Raises:
            DamagedFile: no such file, a torn or a foreign one.
        """
        require_file(path, rule=_RULE, remedy=_REMEDY)
        with refusing_damage(path, _RULE, _REMEDY), zipfile.ZipFile(path) as archive:
            check_members(archive, None)
            heads, names = (read_member(archive, name, kinds="U") for name in (_HEADS, "label_names"))
            ids = read_member(archive, "record_ids", kinds="iu")
            manifests = tuple(VoteManifest.from_text(text) for text in heads.tolist())
            shape, _ = form_of(archive, _COUNTS, kinds="u")
        good = len(manifests) > 0 and shape == (len(ids), len(names))
        if not good or any((head.num_queries, head.num_labels) != shape for head in manifests):
            raise damaged(path, _RULE, "counts of another shape than its heads say", _REMEDY)
        return cls(Path(path), manifests, ids, tuple(names.tolist()))

    def blocks(self) -> Iterator[NDArray[np.unsignedinteger[Any]]]:
        """The counts, some queries at a time, `[q, L]`.

        Raises:
            DamagedFile: a checksum that fails, or more votes than there are teachers.
        """
        rows = max(1, _BLOCK_BYTES // (8 * self.manifest.num_labels))
        with refusing_damage(self.path, _RULE, _REMEDY), zipfile.ZipFile(self.path) as archive:
            yield from map(self._possible, read_rows(archive, _COUNTS, rows, kinds="u"))

    def _possible(self, block: NDArray[Any]) -> NDArray[Any]:
        teachers = self.num_teachers
        if not ((block <= teachers) & (block >= 0)).all():
            raise InvalidValue(f"counts: expected at most {teachers}, the teachers that are in them")
        return block


def is_sum_file(path: Path | str) -> bool:
    """Whether it is an archive of sums of `pate-release`, be it damaged or not."""
    return holds(path, _HEADS)


def _row_blocks(counts: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    rows = max(1, _BLOCK_BYTES // (8 * max(1, counts.shape[1])))
    return (counts[first : first + rows] for first in range(0, len(counts), rows))


class SummedVotes(SumsAlone, HolderVotes[VoteFile | SumFile]):
    """Votes of vote files and sums. Whichever way files were added up, the counts are the same."""

    gives_bits = False
    digest_begins = b"sums of holders"
    expected = "one that reads counts, as sums do not say what one teacher votes for; or the vote files themselves"

    @classmethod
    def read(cls, paths: Sequence[Path | str]) -> SummedVotes:
        """Of files by their names; raises `DamagedFile` for one that is none."""
        return cls([SumFile.open(path) if is_sum_file(path) else VoteFile.open(path) for path in paths])

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """A limit has to be that of the votes as they were cast."""
        clip = self.files[0].manifest.vote_clip
        if max_votes is not None and (clip is None or clip > max_votes):
            raise InvalidValue(f"vote_clip={clip}: expected sums of votes that were cast with vote_clip={max_votes}")
        found: NDArray[np.int64] = self.remembered("counts", self._total)
        return found

    def write(self, path: Path | str) -> SumFile:
        """All of them as one file."""
        counts = self.counts()
        return SumFile.write(path, self.heads, counts, record_ids=self.record_ids, label_names=self.label_names)

    def _total(self) -> NDArray[np.int64]:
        total = np.zeros((self.num_queries, self.num_labels), dtype=np.int64)
        votes = [file for file in self.files if isinstance(file, VoteFile)]
        if votes:
            total += GatheredVotes(votes).counts()
        for file in self.files:
            if isinstance(file, SumFile):
                first = 0
                for block in file.blocks():
                    total[first : first + len(block)] += block
                    first += len(block)
        return total
