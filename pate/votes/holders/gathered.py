"""The votes of several holders as one source, once it is clear that they answer the same questions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue
from pate.votes.holders.bit_sums import BitSums
from pate.votes.holders.manifest import VoteManifest
from pate.votes.holders.same_questions import in_order, require_together
from pate.votes.holders.vote_file import VoteFile
from pate.votes.source import Array, Bits, VoteSource

if TYPE_CHECKING:
    from pate.votes.round_votes import RoundVotes


class GatheredVotes(VoteSource):
    """See `VoteSource`. All files answer the same queries with the same labels, and no holder is there twice.

    Teachers are numbered in the order of the holders' names, whatever the files are called. What is refused is told by
    the heads of files alone: whether votes are refused says nothing about votes.

    Args:
        files: one for each holder.

    Raises:
        InvalidValue: no file, or files that do not go together.
    """

    def __init__(self, files: Sequence[VoteFile]) -> None:
        if not files:
            raise InvalidValue("votes=[]: expected at least one vote file")
        self.files = tuple(sorted(files, key=lambda file: in_order(file.manifest.holder)))
        first = self.files[0]
        require_together(self.files)
        self.num_teachers = sum(head.num_teachers for head in self.heads)
        self.num_queries, self.num_labels = first.manifest.num_queries, first.manifest.num_labels
        self.num_groups = sum(head.num_groups for head in self.heads)
        self.records_per_teacher = self.num_groups / self.num_teachers

    @classmethod
    def read(cls, paths: Sequence[Path]) -> GatheredVotes:
        """Of files by their names; raises `DamagedFile` for one that is none."""
        return cls([VoteFile.open(path) for path in paths])

    @property
    def heads(self) -> tuple[VoteManifest, ...]:
        """What each holder vouches for, in the order of the teachers."""
        return tuple(file.manifest for file in self.files)

    @property
    def record_ids(self) -> NDArray[Any]:
        """`[Q]`, what the queries are called."""
        return self.files[0].record_ids

    @property
    def label_names(self) -> tuple[str, ...]:
        """L."""
        return self.files[0].label_names

    @property
    def teachers_per_holder(self) -> int:
        """The most teachers that one holder has."""
        return max(head.num_teachers for head in self.heads)

    @property
    def digest(self) -> str:
        """SHA-256 of all files, by holder: what a release that was begun is continued with. Covered by no epsilon."""
        digest = hashlib.sha256(b"votes of holders")
        for file in self.files:
            with file.path.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        return digest.hexdigest()

    def bits(self) -> Iterator[Bits]:
        """See `VoteSource.bits`."""
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
        """See `VoteSource.confidences`: the bits, clipped as they were cast, where files hold no more."""
        for file in self.files:
            yield from file.confidences() if file.manifest.cast == "confidences" else file.bits()

    def label_shares(self) -> Array:
        """See `VoteSource.label_shares`; files hold them beside confidences."""
        if self.files[0].manifest.cast != "confidences":
            rule = "vote files of pate-vote cast=confidences, which hold what a prevalence is released from"
            raise InvalidValue(f"cast=bits: expected {rule}; or aggregator.prevalence_share=0 for a public center")
        return np.concatenate([file.label_shares() for file in self.files])

    def in_rounds(self, *, noise_multiplier: float) -> RoundVotes | None:
        """Raises: a file is one cast, and rounds ask teachers again."""
        rule = (
            "aggregator.rounds=1, one cast, as vote files hold; rounds ask each holder again: roll=, or pate.federated"
        )
        raise InvalidValue(f"aggregator.rounds: expected {rule}")
