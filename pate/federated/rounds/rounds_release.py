"""A release of centered votes in rounds, of holders that keep their records, teachers and votes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.federated.request import Request
from pate.federated.roll import Roll
from pate.federated.rounds.asked_votes import AskedVotes
from pate.federated.rounds.gathering import Exchange
from pate.federated.rounds.inbox import RoundInbox
from pate.federated.rounds.question import Question
from pate.run.ensemble import NUM_ASKED
from pate.run.places import Places
from pate.run.progress import Monitor, NullMonitor
from pate.run.stages.cohort import Cohort
from pate.run.stages.release import ReleasePlan, release_votes
from pate.run.stages.terms import Terms
from pate.validation import InvalidValue, require, require_count
from pate.votes.vote_file import queries_digest


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundsOfHolders:
    """What the server does with rounds, whatever carries the messages.

    Rule: holders open the release; their teachers learn. Then each question is one sum: three for the prevalence, one
    for each round, every one against what was released before. The ledger is charged for the prevalence before its
    first sum, and for all rounds together before the noise of the first.

    Attributes:
        plan: what is released: `CenteredVotes` in rounds.
        roll: who is expected.
        pool: float32 `[P, d]`, public samples; trained teachers are asked of the first 2,048, the student learns from
            all of them.
        record_ids: `[P]`, what they are called.
        label_names: L.
        num_queries: how many of them the release is about, the first ones; None for all.
        inbox: the folder for sums, of mode 0700; no epsilon covers it.
        output_dir: the folder of the release; of it `release/` may be published.
    """

    plan: ReleasePlan
    roll: Roll
    pool: NDArray[np.float32]
    record_ids: NDArray[Any]
    label_names: tuple[str, ...]
    num_queries: int | None = None
    inbox: Path
    output_dir: Path

    def __post_init__(self) -> None:
        require(self.pool.ndim == 2, "pool.shape", self.pool.shape, "[P, d]: rounds are for rows of numbers")
        same = len(self.record_ids) == len(self.pool)
        require(same, "len(record_ids)", len(self.record_ids), f"{len(self.pool)}, one for each sample")
        count = require_count("num_queries", self._count)
        require(count <= len(self.pool), "num_queries", count, f"at most {len(self.pool)}, the public samples")

    @property
    def opening(self) -> Question:
        """The first question."""
        rows = slice(0, NUM_ASKED)
        inputs = np.asarray(self.pool[rows], dtype=np.float32)
        request = Request(inputs=inputs, record_ids=self.record_ids[rows], label_names=self.label_names)
        return Question.of_opening(request)

    def run(self, exchange: Exchange, monitor: Monitor | None = None) -> Terms:
        """Asks, releases, and asks again until all rounds are released; or goes on where it was killed.

        Args:
            exchange: has one question answered by all holders.
            monitor: told of progress, and who is absent.

        Raises:
            InvalidValue: too many holders are absent; whatever `release_votes` refuses. Where rounds were charged and
                not finished, the same call goes on with them at no further price.
        """
        monitor = monitor or NullMonitor()
        inbox = RoundInbox(self.inbox, self.roll, self.opening, exchange, monitor)
        source = AskedVotes(inbox, self.pool, self._count, len(self.label_names))
        return release_votes(self.plan, source, self._cohort(inbox), self.output_dir, monitor)

    @property
    def _count(self) -> int:
        return len(self.pool) if self.num_queries is None else self.num_queries

    def _cohort(self, inbox: RoundInbox) -> Cohort:
        heads = list(inbox.opened.values())
        first = heads[0]
        agreed = {
            name: text
            for name, text in first.settings.items()
            if all(head.settings.get(name) == text for head in heads)
        }
        names = {head.dataset for head in heads}
        if len(names) > 1:
            raise InvalidValue(f"dataset={', '.join(sorted(names))}: expected one name for the data of all holders")
        ids = self.record_ids[: self._count]
        return Cohort(
            dataset=first.dataset,
            real=all(head.real for head in heads),
            record_ids=ids,
            label_names=self.label_names,
            digest=inbox.digest,
            queries=queries_digest(np.asarray(self.pool[: self._count], dtype=np.float32), ids),
            places=Places(len(self.roll.holders), max(self.roll.holders.values())),
            num_groups=sum(head.num_groups for head in heads),
            features=first.features,
            settings=agreed,
        )
