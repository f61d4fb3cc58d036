"""Votes of holders as counts: of vote files, and of files in which some are added up already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue
from pate.votes.holders.gathered import GatheredVotes, HolderVotes
from pate.votes.holders.sum_file import SumFile, is_sum_file
from pate.votes.holders.vote_file import VoteFile
from pate.votes.source import Array, Bits

_RULE = "one that reads counts, as sums do not say what one teacher votes for; or the vote files themselves"


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
