"""What a holder adds to a secure sum: its counts, with its share of the noise where that was agreed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import DistributedVotes
from pate.federated.request import Request
from pate.federated.sum_terms import SumTerms
from pate.files.atomic import locked, write_text
from pate.files.reading import FROM_BACKUP, read_text
from pate.mechanisms import secret_generator
from pate.run.stages.holder import HolderPlan
from pate.validation import InvalidValue, require, require_count
from pate.votes.holders import VoteFile

_LOCK = "notes.lock"


@dataclass(frozen=True)
class HolderSum:
    """A holder's side of a secure sum. All of it is the holder's own: nothing comes from the server.

    Attributes:
        terms: of the sum.
        noise: the aggregator whose share of the noise is added; None where the server adds the noise, and sees the sum.
        seed: of the noise, for tests; whoever knows it is a colluder. None draws from the operating system.
        max_answers: to how many requests numbers with noise are sent in all: each is a release, at the price of one.
    """

    terms: SumTerms
    noise: DistributedVotes | None = None
    seed: int | None = None
    max_answers: int = 1

    def __post_init__(self) -> None:
        require_count("max_answers", self.max_answers)

    def numbers(self, plan: HolderPlan, request: Request, votes: Path, folder: Path) -> NDArray[np.float64]:
        """What is sent for one request, `[Q, L]`.

        With noise a request is answered once: two sums over different holders would differ by one holder's counts.

        Raises:
            InvalidValue: a request that was answered before; votes beyond the terms.
        """
        file = VoteFile.open(votes)
        counts = np.zeros((request.num_queries, request.num_labels), dtype=np.int64)
        for block in file.bits():
            counts += block.sum(axis=0, dtype=np.int64)
        if self.noise is None:
            return self.terms.require_sendable(counts)
        most = self.noise.max_votes
        require(request.vote_clip == most, "vote_clip", request.vote_clip, f"max_votes={most} of the agreed noise")
        self._answer_once(folder, request)
        rng = secret_generator() if self.seed is None else self._seeded(plan.holder)
        noisy = self.noise.contribution(counts, num_teachers=file.manifest.num_teachers, rng=rng)
        return self.terms.require_sendable(noisy)

    def _answer_once(self, folder: Path, request: Request) -> None:
        """Notes on disk, before anything is sent, that this request has its answer."""
        path = folder / f"answered-{request.digest}"
        with locked(folder / _LOCK):
            rule = "a request that was not answered before: a second noisy sum is a second release"
            if os.path.lexists(path):
                raise InvalidValue(f"request: expected {rule}")
            others = len(list(folder.glob("answered-*")))
            rule = f"at most {self.max_answers}, the max_answers of this holder"
            require(others < self.max_answers, "requests answered with noise", others + 1, rule)
            write_text(path, "")

    def _seeded(self, holder: str) -> np.random.Generator:
        return np.random.default_rng([self.seed or 0, *holder.encode()])


def first_note(path: Path, text: str) -> str | None:
    """Writes a note where none is of that name, and says what is in an earlier one; for processes side by side."""
    with locked(path.parent / _LOCK):
        if os.path.lexists(path):
            return read_text(path, remedy=FROM_BACKUP)
        write_text(path, text)
    return None
