"""The votes of some holders, added up, in a file: a step of a tree of sums."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from pate.files.arrays import UNREADABLE, check_members, one_line, read_array, read_header
from pate.files.disk import damaged, replacing, require_file, unreadable
from pate.validation import InvalidValue, require
from pate.votes.gathered import GatheredVotes, HolderVotes
from pate.votes.source import Array, Bits
from pate.votes.vote_file import VoteFile, VoteManifest

_RULE = "a whole file of sums, as pate-release sum=FILE writes it"
_REMEDY = "ask for it again: the same pate-release command writes the same file"
_HEADS, _COUNTS = "sum_heads", "counts"
_BLOCK_BYTES = 32 * 2**20


@dataclass(frozen=True, eq=False)
class SumFile:
    """How many teachers of some holders vote for each label of each query. No epsilon covers it.

    An .npz with `sum_heads` (the manifest of each holder, as JSON), `record_ids`, `label_names` and `counts` `[Q, L]`
    in the shortest unsigned integers that hold the number of teachers. Equal sums give equal bytes.

    Attributes:
        path: the file.
        heads: of the holders that are in it.
        record_ids: `[Q]`.
        label_names: L.
    """

    path: Path
    heads: tuple[VoteManifest, ...]
    record_ids: NDArray[Any]
    label_names: tuple[str, ...]

    @property
    def manifest(self) -> VoteManifest:
        """What all holders say of the questions."""
        return self.heads[0]

    @property
    def num_teachers(self) -> int:
        """Of all holders."""
        return sum(head.num_teachers for head in self.heads)

    @classmethod
    def write(
        cls,
        path: Path,
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
        made = cls(path, tuple(heads), np.asarray(record_ids), tuple(label_names))
        dtype = np.min_scalar_type(made.num_teachers).newbyteorder("<")
        with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in {
                _HEADS: np.array([head.to_text() for head in made.heads], np.str_),
                "record_ids": made.record_ids,
                "label_names": np.array(made.label_names, np.str_),
            }.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
            with archive.open(zipfile.ZipInfo(f"{_COUNTS}.npy"), "w", force_zip64=True) as member:
                header: dict[str, Any] = {"descr": dtype.str, "fortran_order": False, "shape": counts.shape}
                np.lib.format.write_array_header_1_0(member, header)
                for block in _row_blocks(counts):
                    made._require_possible(block)
                    member.write(np.ascontiguousarray(block, dtype=dtype).data)
        return made

    @classmethod
    def open(cls, path: Path) -> Self:
        """Reads the head and checks that the counts are there; `blocks` checks what they say.

        Raises:
            DamagedFile: no such file, a torn or a foreign one.
        """
        require_file(path, rule=_RULE, remedy=_REMEDY)
        try:
            with zipfile.ZipFile(path) as archive:
                check_members(archive, None)
                heads, ids, names = (_read(archive, name) for name in (_HEADS, "record_ids", "label_names"))
                manifests = tuple(VoteManifest.from_text(text) for text in heads.tolist())
                info = archive.getinfo(f"{_COUNTS}.npy")
                with archive.open(info) as member:
                    shape, fortran_order, _ = read_header(member, info.file_size, kinds="u")
        except OSError as error:
            raise unreadable(path, error, rule=_RULE, remedy=_REMEDY) from error
        except UNREADABLE as error:
            raise damaged(path, _RULE, one_line(error), _REMEDY) from None
        good = len(manifests) > 0 and not fortran_order and shape == (len(ids), len(names))
        if not good or any((head.num_queries, head.num_labels) != shape for head in manifests):
            raise damaged(path, _RULE, "counts of another shape than its heads say", _REMEDY)
        return cls(path, manifests, ids, tuple(names.tolist()))

    def blocks(self) -> Iterator[NDArray[np.unsignedinteger[Any]]]:
        """The counts, some queries at a time, `[q, L]`.

        Raises:
            DamagedFile: a checksum that fails, or more votes than there are teachers.
        """
        try:
            with zipfile.ZipFile(self.path) as archive:
                info = archive.getinfo(f"{_COUNTS}.npy")
                with archive.open(info) as member:
                    (queries, labels), _, dtype = read_header(member, info.file_size, kinds="u")
                    rows = max(1, _BLOCK_BYTES // (dtype.itemsize * labels))
                    for first in range(0, queries, rows):
                        block = _taken(member, min(rows, queries - first), labels, dtype)
                        self._require_possible(block)
                        yield block
        except InvalidValue as error:
            raise damaged(self.path, _RULE, str(error), _REMEDY) from None
        except OSError as error:
            raise unreadable(self.path, error, rule=_RULE, remedy=_REMEDY) from error
        except UNREADABLE as error:
            raise damaged(self.path, _RULE, one_line(error), _REMEDY) from None

    def _require_possible(self, block: NDArray[Any]) -> None:
        teachers = self.num_teachers
        good = bool((block <= teachers).all()) and bool((block >= 0).all())
        if not good:
            raise InvalidValue(f"counts: expected at most {teachers}, the teachers that are in them")


def is_sum_file(path: Path) -> bool:
    """Whether it is an archive of sums of `pate-release`, be it damaged or not."""
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{_HEADS}.npy" in archive.namelist()
    except (OSError, *UNREADABLE):
        return False


def _read(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as member:
        return read_array(member, info.file_size, kinds="iu" if name == "record_ids" else "U")


def _taken(member: IO[bytes], rows: int, labels: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    data = member.read(rows * labels * dtype.itemsize)
    require(len(data) == rows * labels * dtype.itemsize, "counts", "fewer", "as many as the header says")
    return np.frombuffer(data, dtype).reshape(rows, labels)


def _row_blocks(counts: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    rows = max(1, _BLOCK_BYTES // (8 * max(1, counts.shape[1])))
    return (counts[first : first + rows] for first in range(0, len(counts), rows))


_COUNTS_ONLY = "one that reads counts, as sums do not say what one teacher votes for; or the vote files themselves"


class SummedVotes(HolderVotes[VoteFile | SumFile]):
    """See `HolderVotes`: of vote files and sums. Whichever way files were added up, the counts are the same."""

    gives_bits = False
    digest_begins = b"sums of holders"

    @classmethod
    def read(cls, paths: Sequence[Path]) -> SummedVotes:
        """Of files by their names; raises `DamagedFile` for one that is none."""
        return cls([SumFile.open(path) if is_sum_file(path) else VoteFile.open(path) for path in paths])

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """See `VoteSource.counts`; a limit has to be that of the votes as they were cast."""
        clip = self.files[0].manifest.vote_clip
        if max_votes is not None and (clip is None or clip > max_votes):
            raise InvalidValue(f"vote_clip={clip}: expected sums of votes that were cast with vote_clip={max_votes}")
        found: NDArray[np.int64] = self.remembered("counts", self._total)
        return found

    def bits(self) -> Iterator[Bits]:
        """Raises `InvalidValue`: there are none."""
        raise InvalidValue(f"aggregator: expected {_COUNTS_ONLY}")

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Raises `InvalidValue`: there are none."""
        raise InvalidValue(f"aggregator: expected {_COUNTS_ONLY}")

    def label_shares(self) -> Array:
        """Raises `InvalidValue`: there are none."""
        raise InvalidValue(f"aggregator: expected {_COUNTS_ONLY}")

    def write(self, path: Path) -> SumFile:
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
