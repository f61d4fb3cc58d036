"""Answers to a question of rounds, and their sum: over a network, or as files that people carry."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from pate.federated.question import OPENING, Question, expected
from pate.federated.roll import Contribution, Roll, counted
from pate.files.arrays import ArrayForm, arrays_of, npz_bytes
from pate.files.disk import is_regular, make_folder, replacing
from pate.validation import require
from pate.votes.clipping import Integers
from pate.votes.vote_file import VoteManifest

_HEADS = 2**20  # bytes for names and headers
_FORMS = {"head": ArrayForm("U", ()), "question": ArrayForm("U", ()), "total": ArrayForm("biuf")}


def most_bytes(question: Question) -> int:
    """How long an answer to a question can be."""
    return 8 * math.prod(question.shape) + _HEADS


@dataclass(frozen=True, eq=False)
class SumAnswer:
    """One answer. No epsilon covers it: only the aggregator may have it."""

    head: VoteManifest  # what the holder vouches for, the same in all of its answers
    question: str  # the digest of what was asked
    total: Integers  # int64, in steps

    def to_bytes(self) -> bytes:
        head, question = np.array(self.head.to_text()), np.array(self.question)
        return npz_bytes(head=head, question=question, total=self.total.astype(np.int64))

    @classmethod
    def from_bytes(cls, data: bytes, question: Question) -> Self:
        """An answer to this question; raises `InvalidValue` for a torn one, one to another, one of another shape."""
        with expected("answer", "a whole answer, as pate.federated makes it"):
            size, most = len(data), most_bytes(question)
            require(size <= most, "size", size, f"at most {most} bytes, which such a sum takes")
            arrays = arrays_of(data, _FORMS)
            total = arrays["total"]
            found = cls(VoteManifest.from_text(str(arrays["head"])), str(arrays["question"]), total)
        require(found.question == question.digest, "question", "another", "the one that was asked")
        require(total.dtype == np.int64, "sum.dtype", total.dtype, "int64, whole numbers of steps")
        require(total.shape == question.shape, "sum.shape", total.shape, str(question.shape))
        return found


@dataclass(frozen=True, eq=False)
class Gathered:
    """What came of one question."""

    total: Integers  # int64, the sum over all holders that are in it
    holders: tuple[str, ...]  # who is in it
    heads: Mapping[str, VoteManifest] = field(default_factory=dict)  # what they vouch for, by name; of an opening alone
    # a line for each holder that is not in it, by name, and for strangers
    refused: Mapping[str, str] = field(default_factory=dict)

    def require_enough(self, roll: Roll) -> None:
        """Raises where more holders are absent than the roll allows."""
        roll.require_enough(self.holders, self.refused, "ask again: nothing is charged a second time")


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
        name = f"{question.kind}-{question.digest[:16]}"
        sent, answers = self.folder / "questions" / f"{name}.npz", self.folder / "answers" / name
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
        name, most = path.stem, most_bytes(question)
        if name not in self.roll.holders:
            return Contribution(name)
        if not is_regular(path) or path.stat().st_size > most:
            return Contribution(name, problem=f"expected a file of at most {most} bytes, as pate-vote writes it")
        return Contribution(name, path.read_bytes())
