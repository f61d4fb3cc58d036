"""A release of centered votes in rounds, of holders that keep their records, teachers and votes.

Each question is a sum over the teachers of all holders, over a network, or as files that people carry.
"""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pate.federated.question import LENGTHS, MOMENTS, OPENING, SHARES, Question, Request, SumAnswer
from pate.federated.roll import Contribution, Roll, counted
from pate.files.arrays import ArrayForm, read_arrays
from pate.files.disk import (
    FROM_BACKUP,
    damaged,
    is_regular,
    make_folder,
    read_text,
    read_value,
    replacing,
    write_arrays,
    write_text,
)
from pate.files.values import to_json
from pate.run.ensemble import NUM_ASKED
from pate.run.places import Places
from pate.run.progress import Monitor
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


@dataclass(frozen=True, eq=False)
class Gathered:
    """What came of one question."""

    total: Integers  # int64, the sum over all holders that are in it
    holders: tuple[str, ...]  # who is in it
    heads: Mapping[str, VoteManifest] = field(default_factory=dict)  # what they vouch for, by name; of an opening alone
    # a line for each holder that is not in it, by name, and for strangers
    refused: Mapping[str, str] = field(default_factory=dict)


Exchange = Callable[[Question], Gathered]
"""Has one question answered by all holders, and gives the sum."""


def gathered(roll: Roll, question: Question, contributions: Iterable[Contribution]) -> Gathered:
    """Adds up the answers that count.

    An answer counts as `counted` says, where it is a whole sum and answers this question. It is no longer than that of
    as many teachers as the roll says, so it moves a sum by what its own teachers are worth, and no more.
    """

    def read(holder: str, sent: bytes) -> SumAnswer:
        answer = SumAnswer.from_bytes(sent, question)
        wanted = {"holder": holder, "num_teachers": roll.holders[holder], "num_labels": question.num_labels}
        for name, value in wanted.items():
            found = getattr(answer.head, name)
            require(found == value, name, found, str(value))
        require(answer.head.queries == question.asked, "queries", "others", "those that were asked")
        if question.kind != OPENING:
            question.require_possible(answer.total, roll.holders[holder])
        return answer

    answers, refused = counted(roll, contributions, read)
    total = sum((answer.total for answer in answers.values()), np.zeros(question.shape, dtype=np.int64))
    heads = {name: answer.head for name, answer in answers.items()} if question.kind == OPENING else {}
    return Gathered(total, tuple(answers), heads, refused)


class AnswersAwaited(Exception):
    """A question is out, in a file for the holders, and answers are not there yet, as HOLDER.npz in a folder."""

    def __init__(self, question: Path, answers: Path, missing: tuple[str, ...]) -> None:
        super().__init__(f"{question}: {len(missing)} holders have not answered")
        self.question, self.answers, self.missing = question, answers, missing


@dataclass(frozen=True)
class Mailbox:
    """An exchange: writes a question to `questions/NAME.npz`, and reads `answers/NAME/HOLDER.npz`."""

    folder: Path  # of both, of mode 0700
    roll: Roll  # who is expected
    wait: bool = True  # whether all of them are waited for; else `max_absent` of them may stay away

    def __call__(self, question: Question) -> Gathered:
        """The sum of the answers that are there; raises `AnswersAwaited` where they are too few."""
        sent, answers = self.folder / "questions" / f"{question.name}.npz", self.folder / "answers" / question.name
        make_folder(sent.parent)
        make_folder(answers)
        if not os.path.lexists(sent):
            with replacing(sent) as file:
                file.write(question.to_bytes())
        there = {path.stem for path in answers.glob("*.npz")}
        missing = tuple(holder for holder in self.roll.holders if holder not in there)
        if len(missing) > (0 if self.wait else self.roll.max_absent):
            raise AnswersAwaited(sent, answers, missing)
        return gathered(self.roll, question, [self._read(answers / f"{name}.npz", question) for name in sorted(there)])

    def _read(self, path: Path, question: Question) -> Contribution:
        """The answer of a holder; files of strangers, pipes, folders and files that are too large are not read."""
        name, most = path.stem, question.most_bytes
        if name not in self.roll.holders:
            return Contribution(name)
        if not is_regular(path) or path.stat().st_size > most:
            return Contribution(name, problem=f"expected a file of at most {most} bytes, as pate-vote writes it")
        return Contribution(name, path.read_bytes())


@dataclass(frozen=True)
class Opened:
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
    def opened(self) -> Opened:
        path = self.folder / "opening.json"
        make_folder(self.folder)
        if not os.path.lexists(path):
            heads = {name: head.to_text() for name, head in self._asked(self.opening).heads.items()}
            write_text(path, to_json(Opened(secrets.token_hex(16), self.opening.asked, heads)) + "\n")
        kept = read_value(Opened, path, name="opening", rule="what holders vouched for", remedy=_REMEDY)
        rule = "those of the release; take another inbox for others"
        require(kept.asked == self.opening.asked, "inbox, samples", "others", rule)
        return kept

    def total(self, kind: str, **state: Any) -> Integers:
        """The sum that answers a question of this kind, about the samples of the opening."""
        arrays = {name: np.asarray(value, dtype=np.float64) for name, value in state.items()}
        asked = self.opened.asked
        question = Question(kind=kind, asked=asked, num_labels=self.opening.num_labels, state=arrays)
        path = self.folder / f"{question.name}.npz"
        if not os.path.lexists(path):
            self._log(path.name)
            found = self._asked(question)
            write_arrays(path, total=found.total, holders=np.array(found.holders, dtype=np.str_))
        total = read_arrays(path, _FORMS, remedy=_REMEDY, most=_MOST_BYTES)["total"]
        if total.shape != question.shape:
            raise damaged(path, "a sum as it was kept", "another shape", _REMEDY)
        return total.astype(np.int64)

    def _asked(self, question: Question) -> Gathered:
        found = self.exchange(question)
        for line in found.refused.values():
            self.monitor.say(line)
        self.roll.require_enough(found.holders, found.refused, "ask again: nothing is charged a second time")
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

    def __init__(self, inbox: RoundInbox) -> None:
        self._inbox, self.num_teachers, self.num_labels = inbox, inbox.roll.num_teachers, inbox.opening.num_labels

    def lengths(self) -> Integers:
        return self._inbox.total(LENGTHS)

    def total(self, clipped: ClippedSum, center: Array) -> Integers:
        return self._inbox.total(SHARES, center=center, clip=clipped.clip)


class AskedMoments(RoundVotes):
    """Votes of rounds: each total is asked of all holders, and whoever is absent in a round adds nothing to it.

    Formal guarantee: see docs/proofs/vote_rounds.md, "Rounds of many holders".
    """

    def __init__(
        self, inbox: RoundInbox, directions: PublicPCA, rows: NDArray[np.float32], records_per_teacher: float
    ) -> None:
        """Along directions of the public pool; rows, `[m, d]`, stand for it."""
        self._inbox, self._directions = inbox, directions
        self.public = directions.with_constant(rows).astype(np.float32)
        self.variances = directions.feature_variances
        self.num_teachers, self.records_per_teacher = inbox.roll.num_teachers, records_per_teacher
        self.num_labels = inbox.opening.num_labels

    def total(self, weights: Array, label_scale: Array, clipped: ClippedMoments) -> Integers:
        return self._inbox.total(
            MOMENTS,
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

    def __init__(
        self, inbox: RoundInbox, pool: NDArray[np.float32], num_queries: int, records_per_teacher: float
    ) -> None:
        self._inbox, self._pool, self.num_queries = inbox, pool, num_queries
        self.num_teachers, self.num_labels = inbox.roll.num_teachers, inbox.opening.num_labels
        self.records_per_teacher = records_per_teacher

    def share_sums(self) -> AskedShares:
        return AskedShares(self._inbox)

    def in_rounds(self, *, noise_multiplier: float) -> AskedMoments:
        count = affordable_directions(
            noise_multiplier=noise_multiplier,
            num_teachers=self.num_teachers,
            num_records=max(1, round(self.records_per_teacher * self.num_teachers)),
            num_labels=self.num_labels,
            noise_share=SHARE_IN_ROUNDS,
        )

        def moments() -> AskedMoments:
            directions = PublicPCA.of(self._pool, count, ridge=RIDGE_IN_ROUNDS)
            rows = self._pool[: max(MOST_PUBLIC, self.num_queries)]
            return AskedMoments(self._inbox, directions, rows, self.records_per_teacher)

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
        if self.num_queries is not None:
            count = require_count("num_queries", self.num_queries)
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
        monitor = monitor or Monitor()
        inbox = RoundInbox(Path(self.inbox), self.roll, self.opening, exchange, monitor)
        heads = [VoteManifest.from_text(text) for text in inbox.opened.heads.values()]
        names = sorted({head.dataset for head in heads})
        if len(names) > 1:
            raise InvalidValue(f"dataset={', '.join(names)}: expected one name for the data of all holders")
        asked, num_groups = self.pool[: self.num_queries], sum(head.num_groups for head in heads)
        ids, num_present = self.record_ids[: self.num_queries], sum(head.num_teachers for head in heads)
        cohort = Cohort.of_heads(
            heads,
            record_ids=ids,
            label_names=self.label_names,
            digest=hashlib.sha256(to_json(inbox.opened).encode()).hexdigest(),  # of its sums; covered by no epsilon
            queries=queries_digest(np.asarray(asked, dtype=np.float32), ids),
            places=Places.of(self.roll.holders),
            num_groups=num_groups,
        )
        source = AskedVotes(inbox, self.pool, len(asked), num_groups / num_present)
        return release_votes(self.plan, source, cohort, self.output_dir, monitor)
