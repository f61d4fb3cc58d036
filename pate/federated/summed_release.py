"""A release of a secure sum: the server never has a holder's votes, and with distributed noise no sum without noise."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pate.aggregators import DistributedVotes
from pate.federated.question import Request
from pate.federated.roll import Roll
from pate.federated.secure_sum import SumTerms
from pate.files.arrays import ArrayForm, read_arrays
from pate.files.disk import FROM_BACKUP, locked, make_folder, read_text, write_arrays, write_text
from pate.mechanisms import secret_generator
from pate.run.places import Places
from pate.run.progress import Monitor
from pate.run.stages.holder import HolderPlan
from pate.run.stages.release import Cohort, ReleasePlan, Terms, release_votes
from pate.validation import InvalidValue, require, require_count
from pate.votes.source import CountedVotes, NoisySum, Total, VoteSource
from pate.votes.vote_file import VoteFile

_LOCK = "notes.lock"


@dataclass(frozen=True)
class HolderSum:
    """A holder's side of a secure sum. All of it is the holder's own: nothing comes from the server."""

    terms: SumTerms  # of the sum
    # the aggregator whose share of the noise is added; None where the server adds the noise, and sees the sum
    noise: DistributedVotes | None = None
    # of the noise, for tests; whoever knows it is a colluder. None draws from the operating system
    seed: int | None = None
    # to how many requests numbers with noise are sent in all: each is a release, at the price of one
    max_answers: int = 1

    def __post_init__(self) -> None:
        require_count("max_answers", self.max_answers)

    def numbers(self, plan: HolderPlan, request: Request, votes: Path, folder: Path) -> NDArray[np.float64]:
        """What is sent for one request, `[Q, L]`; raises for votes beyond the terms.

        With noise a request is answered once: two sums over different holders would differ by one holder's counts.
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
        rng = secret_generator() if self.seed is None else np.random.default_rng([self.seed, *plan.holder.encode()])
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


def first_note(path: Path, text: str) -> str | None:
    """Writes a note where none is of that name, and says what is in an earlier one; for processes side by side."""
    with locked(path.parent / _LOCK):
        if os.path.lexists(path):
            return read_text(path, remedy=FROM_BACKUP)
        write_text(path, text)
    return None


_FORMS = {"total": ArrayForm("i", (None, None)), "holders": ArrayForm("U", (None,)), "asked": ArrayForm("U", ())}
_REMEDY = "restore it from a backup; without noise, remove it and holders are asked again"
_MOST_BYTES = 2**36

Summed = tuple[NDArray[np.int64], tuple[str, ...]]
"""The sum `[Q, L]`, and who is in it."""


@dataclass(frozen=True, kw_only=True)
class SummedRelease:
    """What the server does with a secure sum, whatever carries the messages.

    With `DistributedVotes` the ledger is charged before holders are asked, since what they send is the release. They
    answer once: if the sum is lost after that, the release is refused and stays charged.
    """

    plan: ReleasePlan  # what is released; an aggregator that reads counts
    roll: Roll  # who is expected
    request: Request  # what is asked
    inbox: Path  # the folder for the sum, of mode 0700
    output_dir: Path  # the folder of the release; of it `release/` may be published
    dataset: str  # the public name of the holders' data; one ledger counts for one name
    real: bool = True  # False for synthetic records
    # of the sum, see `SumTerms.shares`; None with the holders' noise: its price rests on who can open it
    shares: int | None = None

    def __post_init__(self) -> None:
        if self.noise is not None:
            target, rule = (
                self.plan.target_epsilon,
                "None: holders have agreed on the noise; pate-account solves for it",
            )
            require(target is None, "target_epsilon", target, rule)
            clip, most = self.request.vote_clip, self.noise.max_votes
            require(clip == most, "vote_clip", clip, f"max_votes={most} of the aggregator")
            rule = "None with distributed_votes: nobody may open a sum of fewer holders than its price counts on"
            require(self.shares is None, "shares", self.shares, rule)

    @property
    def noise(self) -> DistributedVotes | None:
        aggregator = self.plan.aggregator
        return aggregator if isinstance(aggregator, DistributedVotes) else None

    @property
    def terms(self) -> SumTerms:
        if self.noise is not None:
            return SumTerms.of_noise(self.noise, self.roll)
        return SumTerms.of_counts(self.roll, self.shares)

    def run(self, ask: Callable[[], Summed], monitor: Monitor | None = None) -> Terms:
        """Has the sum made once, and releases it, or continues where it was killed.

        Args:
            ask: has holders make the sum, by `secure_sum`.
            monitor: told of progress.

        Raises:
            InvalidValue: too few holders; whatever `release_votes` refuses.
        """
        _ = self.terms
        make_folder(self.inbox)
        source: VoteSource
        if self.noise is not None:
            source = self._noisy(ask)
            digest = source.digest
        else:
            source = self._counted(ask)
            digest = hashlib.sha256(b"summed votes" + np.ascontiguousarray(source.counts()).tobytes()).hexdigest()
        cohort = Cohort(
            dataset=self.dataset,
            real=self.real,
            record_ids=self.request.record_ids,
            label_names=self.request.label_names,
            digest=digest,
            queries=self.request.digest,
            places=Places.of(self.roll.holders),
        )
        return release_votes(self.plan, source, cohort, self.output_dir, monitor)

    def _noisy(self, ask: Callable[[], Summed]) -> NoisySum:
        def total() -> Total:
            found, holders = self._made(ask)
            return found, len(holders)

        request = self.request
        asked = repr((request.digest, request.vote_clip, sorted(self.roll.holders.items())))
        return NoisySum(
            total,
            num_teachers=self.roll.num_teachers,
            num_queries=request.num_queries,
            num_labels=request.num_labels,
            digest=hashlib.sha256(asked.encode()).hexdigest(),
        )

    def _counted(self, ask: Callable[[], Summed]) -> VoteSource:
        counts, holders = self._made(ask)
        if self.plan.aggregator.single_label:  # see `Collection.source`
            counts[:, 0] += sum(count for name, count in self.roll.holders.items() if name not in holders)
        return CountedVotes(counts, num_teachers=self.roll.num_teachers, max_votes=self.request.vote_clip)

    def _made(self, ask: Callable[[], Summed]) -> Summed:
        path = self.inbox / "sum.npz"
        if not os.path.lexists(path):
            total, holders = ask()
            asked = np.array(self.request.digest)
            write_arrays(path, total=total, holders=np.array(holders, dtype=np.str_), asked=asked)
        found = read_arrays(path, _FORMS, remedy=_REMEDY, most=_MOST_BYTES)
        rule = "those of the request; take another inbox for another request"
        require(str(found["asked"]) == self.request.digest, "inbox, queries", "others", rule)
        return found["total"].astype(np.int64), tuple(found["holders"].tolist())
