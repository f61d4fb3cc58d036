"""Votes of holders as counts: of vote files, and of files in which some are added up already."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue
from pate.votes.holders.gathered import GatheredVotes
from pate.votes.holders.manifest import VoteManifest
from pate.votes.holders.same_questions import in_order, require_together
from pate.votes.holders.sum_file import SumFile, is_sum_file
from pate.votes.holders.vote_file import VoteFile
from pate.votes.source import Array, Bits, VoteSource

_RULE = "one that reads counts, as sums do not say what one teacher votes for; or the vote files themselves"


class SummedVotes(VoteSource):
    """See `VoteSource`. Sums of sums are sums: whichever way files were added up, the counts are the same.

    Args:
        files: of vote files and sums, such that no holder is in two of them.

    Raises:
        InvalidValue: no file, or files that do not go together.
    """

    gives_bits = False

    def __init__(self, files: Sequence[VoteFile | SumFile]) -> None:
        if not files:
            raise InvalidValue("votes=[]: expected at least one file")
        self.files = tuple(sorted(files, key=lambda file: in_order(file.heads[0].holder)))
        require_together(self.files)
        first = self.files[0]
        self.heads: tuple[VoteManifest, ...] = tuple(
            sorted((head for file in self.files for head in file.heads), key=lambda head: in_order(head.holder))
        )
        self.num_teachers = sum(head.num_teachers for head in self.heads)
        self.num_groups = sum(head.num_groups for head in self.heads)
        self.num_queries, self.num_labels = first.manifest.num_queries, first.manifest.num_labels
        self.records_per_teacher = self.num_groups / self.num_teachers
        self.record_ids, self.label_names = first.record_ids, first.label_names
        self.teachers_per_holder = max(head.num_teachers for head in self.heads)

    @classmethod
    def read(cls, paths: Sequence[Path]) -> SummedVotes:
        """Of files by their names; raises `DamagedFile` for one that is none."""
        return cls([SumFile.open(path) if is_sum_file(path) else VoteFile.open(path) for path in paths])

    @property
    def digest(self) -> str:
        """SHA-256 of all files: what a release that was begun is continued with. Covered by no epsilon."""
        digest = hashlib.sha256(b"sums of holders")
        for file in self.files:
            with file.path.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        return digest.hexdigest()

    def counts(self, max_votes: int | None = None) -> NDArray[np.int64]:
        """See `VoteSource.counts`; a limit has to be that of the votes as they were cast."""
        clip = self.files[0].manifest.vote_clip
        if max_votes is not None and (clip is None or clip > max_votes):
            raise InvalidValue(f"vote_clip={clip}: expected sums of votes that were cast with vote_clip={max_votes}")
        found: NDArray[np.int64] = self.remembered("counts", self._total)
        return found

    def bits(self) -> Iterator[Bits]:
        """Raises `InvalidValue`: there are none."""
        raise InvalidValue(f"aggregator: expected {_RULE}")

    def confidences(self) -> Iterator[NDArray[Any]]:
        """Raises `InvalidValue`: there are none."""
        raise InvalidValue(f"aggregator: expected {_RULE}")

    def label_shares(self) -> Array:
        """Raises `InvalidValue`: there are none."""
        raise InvalidValue(f"aggregator: expected {_RULE}")

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
