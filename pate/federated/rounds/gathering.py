"""Answers to one question, checked one by one and added up; whoever's does not count adds nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from pate.federated.contribution import Contribution
from pate.federated.roll import Roll
from pate.federated.rounds.question import OPENING, Question
from pate.federated.rounds.sum_answer import SumAnswer
from pate.validation import InvalidValue, require
from pate.votes.clipping import Integers
from pate.votes.vote_file import VoteManifest


@dataclass(frozen=True, eq=False)
class Gathered:
    """What came of one question.

    Attributes:
        total: int64, the sum over all holders that are in it.
        holders: who is in it.
        heads: what they vouch for, by name; of an opening alone.
        refused: a line for each holder that is not in it, by name, and for strangers.
    """

    total: Integers
    holders: tuple[str, ...]
    heads: Mapping[str, VoteManifest] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def require_enough(self, roll: Roll) -> None:
        """Raises where more holders are absent than the roll allows."""
        absent = [name for name in roll.holders if name not in self.holders]
        why = "; ".join(self.refused.get(name, f"holder={name}: no answer") for name in absent)
        rule = f"at most max_absent={roll.max_absent} ({why}); ask again: nothing is charged a second time"
        require(len(absent) <= roll.max_absent, "absent holders", len(absent), rule)


Exchange = Callable[[Question], Gathered]
"""Has one question answered by all holders, and gives the sum."""


def gathered(roll: Roll, question: Question, contributions: Iterable[Contribution]) -> Gathered:
    """Adds up the answers that count.

    An answer counts where its holder is on the roll and answered once, and it is a whole sum, answers this question,
    and is no longer than that of as many teachers as the roll says. So whatever a holder sends, it moves a sum by what
    its own teachers are worth, and by no more.

    Args:
        roll: who is expected.
        question: what was asked.
        contributions: what came, in any order.
    """
    given = list(contributions)
    answers = Counter(each.holder for each in given if each.votes is not None)
    counted: dict[str, SumAnswer] = {}
    refused = {name: f"holder={name}: no answer" for name in roll.holders}
    for each in given:
        known = each.holder in roll.holders
        try:
            counted[each.holder] = _counted(each, roll, question, answers)
        except InvalidValue as error:
            refused[each.holder if known else "another"] = each.refused(str(error), is_known=known)
    total = np.zeros(question.shape, dtype=np.int64)
    for name in sorted(counted):
        total += counted[name].total
    heads = {name: each.head for name, each in sorted(counted.items())} if question.kind == OPENING else {}
    left = {name: line for name, line in refused.items() if name not in counted}
    return Gathered(total, tuple(sorted(counted)), heads, left)


def _counted(each: Contribution, roll: Roll, question: Question, answers: Counter[str]) -> SumAnswer:
    if each.holder not in roll.holders:
        raise InvalidValue("expected a holder on the roll")
    if answers[each.holder] > 1:
        raise InvalidValue(f"expected one answer, and {answers[each.holder]} came in its name")
    if each.votes is None:
        raise InvalidValue(each.problem)
    answer = SumAnswer.from_bytes(each.votes, question)
    wanted = {"holder": each.holder, "num_teachers": roll.holders[each.holder], "num_labels": question.num_labels}
    for name, value in wanted.items():
        found = getattr(answer.head, name)
        require(found == value, name, found, str(value))
    require(answer.head.queries == question.asked, "queries", "others", "those that were asked")
    if question.kind != OPENING:
        question.require_possible(answer.total, roll.holders[each.holder])
    return answer
