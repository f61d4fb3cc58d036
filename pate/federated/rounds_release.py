"""A release of centered votes in rounds, of holders that keep their records, teachers and votes."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.federated.gathering import Exchange, Gathered
from pate.federated.question import LENGTHS, MOMENTS, SHARES, Question, Request
from pate.federated.roll import Roll
from pate.files.arrays import ArrayForm, read_arrays
from pate.files.disk import FROM_BACKUP, damaged, make_folder, read_text, read_value, write_arrays, write_text
from pate.files.values import to_json
from pate.run.ensemble import NUM_ASKED
from pate.run.places import Places
from pate.run.progress import Monitor, NullMonitor
from pate.run.stages.release import Cohort, ReleasePlan, Terms, release_votes
from pate.validation import InvalidValue, require, require_count
from pate.votes.clipping import ClippedMoments, ClippedSum, Integers
from pate.votes.moment_votes import MOST_PUBLIC, RoundVotes
from pate.votes.public_pca import RIDGE_IN_ROUNDS, SHARE_IN_ROUNDS, PublicPCA, affordable_directions
from pate.votes.source import Array, ShareSums, SumsAlone
from pate.votes.vote_file import VoteManifest, queries_digest

_REMEDY = f"{FROM_BACKUP}: later questions were asked about what was released of it"
_FORMS = {"total": ArrayForm("i"), "holders": ArrayForm("U", (None,))}
_MOST_BYTES = 2**36


@dataclass(frozen=True)
class _Opened:
    """What `opening.json` holds."""

    name: str  # of the release, random: sums of another inbox are not those of this one
    asked: str  # digest of the opening
    heads: Mapping[str, str] = field(default_factory=dict)  # what each holder vouches for, by name, as text


@dataclass(frozen=True, eq=False)
class RoundInbox:
    """Asks each question once, and keeps its sum. A server that was killed goes on with the sums that it has.

    A sum that is lost is not made again as soon as a later question was asked. With other holders present it would be
    another sum, and the same noise on both would give their difference away.
    """

    folder: Path  # of mode 0700; no epsilon covers what is in it
    roll: Roll  # who is expected
    opening: Question  # the first question
    exchange: Exchange  # has questions answered
    monitor: Monitor  # told who is absent

    @cached_property
    def opened(self) -> dict[str, VoteManifest]:
        return {name: VoteManifest.from_text(text) for name, text in self._opened.heads.items()}

    @property
    def digest(self) -> str:
        """Names the sums of this inbox. Covered by no epsilon."""
        return hashlib.sha256(to_json(self._opened).encode()).hexdigest()

    def sum(self, question: Question) -> Integers:
        _ = self.opened
        path = self.folder / f"{question.kind}-{question.digest[:16]}.npz"
        if not os.path.lexists(path):
            self._log(path.name)
            found = self._asked(question)
            write_arrays(path, total=found.total, holders=np.array(found.holders, dtype=np.str_))
        total = read_arrays(path, _FORMS, remedy=_REMEDY, most=_MOST_BYTES)["total"]
        if total.shape != question.shape:
            raise damaged(path, "a sum as it was kept", "another shape", _REMEDY)
        return total.astype(np.int64)

    def total(self, kind: str, num_labels: int, **state: Any) -> Integers:
        """The sum that answers a question of this kind, about the samples of the opening."""
        arrays = {name: np.asarray(value, dtype=np.float64) for name, value in state.items()}
        return self.sum(Question(kind=kind, asked=self.opening.asked, num_labels=num_labels, state=arrays))

    @cached_property
    def _opened(self) -> _Opened:
        path = self.folder / "opening.json"
        make_folder(self.folder)
        if not os.path.lexists(path):
            found = self._asked(self.opening)
            heads = {name: head.to_text() for name, head in found.heads.items()}
            write_text(path, to_json(_Opened(secrets.token_hex(16), self.opening.asked, heads)) + "\n")
        kept = read_value(_Opened, path, name="opening", rule="what holders vouched for", remedy=_REMEDY)
        rule = "those of the release; take another inbox for others"
        require(kept.asked == self.opening.asked, "inbox, samples", "others", rule)
        return kept

    def _asked(self, question: Question) -> Gathered:
        found = self.exchange(question)
        for line in found.refused.values():
            self.monitor.say(line)
        found.require_enough(self.roll)
        return found

    def _log(self, name: str) -> None:
        """Enters that a question is asked, before it is; the last one may be asked again."""
        path = self.folder / "asked.txt"
        rule = "the questions that were asked"
        asked = read_text(path, rule=rule, remedy=_REMEDY).split() if os.path.lexists(path) else []
        if name in asked[:-1]:
            raise InvalidValue(f"inbox={self.folder / name}: expected the sum that later questions rest on; {_REMEDY}")
        if name not in asked:
            write_text(path, "\n".join([*asked, name]) + "\n")


class AskedShares(ShareSums):
    """Sums of label shares that holders are asked for. Whoever is absent adds nothing."""

    def __init__(self, inbox: RoundInbox, num_labels: int) -> None:
        self._inbox, self.num_teachers, self.num_labels = inbox, inbox.roll.num_teachers, num_labels

    def lengths(self) -> Integers:
        return self._inbox.total(LENGTHS, self.num_labels)

    def total(self, clipped: ClippedSum, center: Array) -> Integers:
        return self._inbox.total(SHARES, self.num_labels, center=center, clip=clipped.clip)


class AskedMoments(RoundVotes):
    """Votes of rounds: each total is asked of all holders, and whoever is absent in a round adds nothing to it.

    Formal guarantee: see docs/proofs/vote_rounds.md, "Rounds of many holders".
    """

    def __init__(
        self,
        inbox: RoundInbox,
        directions: PublicPCA,  # of the public pool
        public_inputs: NDArray[np.float32],  # [m, d], what stands for the pool
        records_per_teacher: float,
        num_labels: int,
    ) -> None:
        self._inbox, self._directions = inbox, directions
        self.public = directions.with_constant(public_inputs).astype(np.float32)
        self.variances = directions.feature_variances
        self.num_teachers, self.records_per_teacher = inbox.roll.num_teachers, records_per_teacher
        self.num_labels = num_labels

    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        return self._inbox.total(
            MOMENTS,
            self.num_labels,
            records_per_teacher=self.records_per_teacher,
            weights=weights,
            label_scale=label_scale,
            clip=clipped.clip,
            pool_center=self._directions.center,
            projection=self._directions.projection,
            variances=self._directions.variances,
        )


class AskedVotes(SumsAlone):
    """Holders say sums and nothing finer, so no other form of votes is there. Queries are the first of the pool."""

    gives_bits = False
    expected = "centered_votes in rounds (aggregator.rounds=2 or more, or 200 teachers), which needs sums alone"

    def __init__(self, inbox: RoundInbox, pool: NDArray[np.float32], num_queries: int, num_labels: int) -> None:
        self._inbox, self._pool = inbox, pool
        self.num_teachers, self.num_queries, self.num_labels = inbox.roll.num_teachers, num_queries, num_labels
        heads = inbox.opened.values()
        self.records_per_teacher = sum(head.num_groups for head in heads) / sum(head.num_teachers for head in heads)

    def share_sums(self) -> AskedShares:
        return AskedShares(self._inbox, self.num_labels)

    def in_rounds(self, *, noise_multiplier: float) -> AskedMoments:
        count = affordable_directions(
            noise_multiplier=noise_multiplier,
            num_teachers=self.num_teachers,
            num_records=max(1, round(self.records_per_teacher * self.num_teachers)),
            num_labels=self.num_labels,
            noise_share=SHARE_IN_ROUNDS,
        )

        def moments() -> AskedMoments:
            rows = self._pool[: max(MOST_PUBLIC, self.num_queries)]
            directions = PublicPCA.of(self._pool, count, ridge=RIDGE_IN_ROUNDS)
            return AskedMoments(self._inbox, directions, rows, self.records_per_teacher, self.num_labels)

        found: AskedMoments = self.remembered(("moments", count), moments)
        return found


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
    inbox: Path | str
    output_dir: Path | str

    def __post_init__(self) -> None:
        require(self.pool.ndim == 2, "pool.shape", self.pool.shape, "[P, d]: rounds are for rows of numbers")
        same = len(self.record_ids) == len(self.pool)
        require(same, "len(record_ids)", len(self.record_ids), f"{len(self.pool)}, one for each sample")
        count = require_count("num_queries", self._count)
        require(count <= len(self.pool), "num_queries", count, f"at most {len(self.pool)}, the public samples")

    @property
    def opening(self) -> Question:
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
        inbox = RoundInbox(Path(self.inbox), self.roll, self.opening, exchange, monitor)
        source = AskedVotes(inbox, self.pool, self._count, len(self.label_names))
        heads, ids = list(inbox.opened.values()), self.record_ids[: self._count]
        names = sorted({head.dataset for head in heads})
        if len(names) > 1:
            raise InvalidValue(f"dataset={', '.join(names)}: expected one name for the data of all holders")
        cohort = Cohort.of_heads(
            heads,
            record_ids=ids,
            label_names=self.label_names,
            digest=inbox.digest,
            queries=queries_digest(np.asarray(self.pool[: self._count], dtype=np.float32), ids),
            places=Places.of(self.roll.holders),
            num_groups=sum(head.num_groups for head in heads),
        )
        return release_votes(self.plan, source, cohort, self.output_dir, monitor)

    @property
    def _count(self) -> int:
        return len(self.pool) if self.num_queries is None else self.num_queries
