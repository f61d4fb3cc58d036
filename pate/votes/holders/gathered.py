"""The votes of several holders as one source, once it is clear that they answer the same questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pate.validation import InvalidValue
from pate.votes.holders.bit_sums import BitSums
from pate.votes.holders.holder_votes import HolderVotes
from pate.votes.holders.vote_file import VoteFile
from pate.votes.source import Array, Bits

if TYPE_CHECKING:
    from pate.votes.round_votes import RoundVotes


class GatheredVotes(HolderVotes[VoteFile]):
    """See `HolderVotes`: of vote files. Teachers are numbered in the order of the holders."""

    digest_begins = b"votes of holders"

    @classmethod
    def read(cls, paths: Sequence[Path]) -> GatheredVotes:
        """Of files by their names; raises `DamagedFile` for one that is none."""
        return cls([VoteFile.open(path) for path in paths])

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
