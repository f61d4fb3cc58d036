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
from pate.federated.request import Request
from pate.federated.roll import Roll
from pate.federated.sum_terms import SumTerms
from pate.files.arrays import ArrayForm, read_arrays
from pate.files.atomic import make_folder, write_arrays
from pate.run.holders.unit import Places
from pate.run.progress import Monitor
from pate.run.stages.cohort import Cohort
from pate.run.stages.release import ReleasePlan, release_votes
from pate.run.stages.terms import Terms
from pate.validation import require
from pate.votes.source import VoteSource
from pate.votes.sums.counted_votes import CountedVotes
from pate.votes.sums.noisy_sum import NoisySum, Total

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

    Attributes:
        plan: what is released; an aggregator that reads counts.
        roll: who is expected.
        request: what is asked.
        inbox: the folder for the sum, of mode 0700.
        output_dir: the folder of the release; of it `release/` may be published.
        dataset: the public name of the holders' data; one ledger counts for one name.
        real: False for synthetic records.
        shares: of the sum, see `SumTerms.shares`; None with the holders' noise: its price rests on who can open it.
    """

    plan: ReleasePlan
    roll: Roll
    request: Request
    inbox: Path
    output_dir: Path
    dataset: str
    real: bool = True
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
        """The aggregator, where holders add the noise."""
        aggregator = self.plan.aggregator
        return aggregator if isinstance(aggregator, DistributedVotes) else None

    @property
    def terms(self) -> SumTerms:
        """Of the sum; every holder has the same."""
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
        source = self._noisy(ask) if self.noise is not None else self._counted(ask)
        digest = source.digest if isinstance(source, NoisySum) else _digest(source.counts())
        cohort = Cohort(
            dataset=self.dataset,
            real=self.real,
            record_ids=self.request.record_ids,
            label_names=self.request.label_names,
            digest=digest,
            queries=self.request.digest,
            places=Places(len(self.roll.holders), max(self.roll.holders.values())),
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
        total, holders = self._made(ask)
        absent = sum(count for name, count in self.roll.holders.items() if name not in holders)
        counts = total.copy()
        if self.plan.aggregator.single_label:
            counts[:, 0] += absent  # see `Collection.source`
        return CountedVotes(counts, num_teachers=self.roll.num_teachers, max_votes=self.request.vote_clip)

    def _made(self, ask: Callable[[], Summed]) -> Summed:
        """The sum, kept before anything is done with it."""
        path = self.inbox / "sum.npz"
        if not os.path.lexists(path):
            total, holders = ask()
            names = np.array(holders, dtype=np.str_)
            write_arrays(path, total=total, holders=names, asked=np.array(self.request.digest))
        found = read_arrays(path, _FORMS, remedy=_REMEDY, most=_MOST_BYTES)
        rule = "those of the request; take another inbox for another request"
        require(str(found["asked"]) == self.request.digest, "inbox, queries", "others", rule)
        return found["total"].astype(np.int64), tuple(found["holders"].tolist())


def _digest(counts: NDArray[np.int64]) -> str:
    return hashlib.sha256(b"summed votes" + np.ascontiguousarray(counts).tobytes()).hexdigest()
