"""The sum of the answers of all holders to one question."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from pate.array_types import IntArray
from pate_federated.question import (
    Contribution,
    Question,
    Roll,
    SumAnswer,
    require_head,
    valid_answers,
)
from pate_federated.vote_file import VoteManifest


@dataclass(frozen=True, eq=False)
class SumOfAnswers:
    """The sum of the holders' answers to one question.

    Attributes:
        total: the sum over the holders, int64, in steps; for the kind "lengths" numbers of teachers.
        holders: the names of the holders in the sum.
        heads: the head of each holder's answer, by the holder's name; empty after a secure sum.
        refused: the reason for each holder that is not in the sum, by the holder's name; empty after a secure sum.
    """

    total: IntArray
    holders: tuple[str, ...]
    heads: Mapping[str, VoteManifest] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


# a function that has one question answered by all holders
Exchange = Callable[[Question], SumOfAnswers]


def sum_of_answers(
    roll: Roll, question: Question, unchecked_answers: Iterable[Contribution]
) -> SumOfAnswers:
    """Returns the sum of the valid answers to a question.

    An answer is valid by the rules of `valid_answers`, if it is complete and answers this question. An answer of a
    holder with k teachers must not be longer than k times `question.reach`. So a holder moves the sum by no more than
    its own teachers could.

    Args:
        roll: the expected holders.
        question: the question.
        unchecked_answers: the answers as they arrived, in any order.
    """

    def read_answer(holder: str, answer_bytes: bytes) -> SumAnswer:
        answer = SumAnswer.from_bytes(answer_bytes, question=question)
        require_head(
            answer.head,
            queries_digest=question.asked,
            holder=holder,
            num_teachers=roll.holders[holder],
            num_labels=question.num_labels,
        )
        question.require_possible(answer.total, num_teachers=roll.holders[holder])
        return answer

    answers, refusal_reasons = valid_answers(roll, unchecked_answers, read_answer=read_answer)
    total = sum(
        (answer.total for answer in answers.values()), np.zeros(question.shape, dtype=np.int64)
    )
    head_of_holder = {name: answer.head for name, answer in answers.items()}
    return SumOfAnswers(
        total=total, holders=tuple(answers), heads=head_of_holder, refused=refusal_reasons
    )
