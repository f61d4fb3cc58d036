"""The small run between holders: request, plans, release at the server, and an exchange without a network."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pate.aggregators import CenteredVotes
from pate.errors import InvalidValue
from pate.models import LowRankStudent
from pate.run.plan import Plan
from pate_federated import Contribution, Question, Request, Roll, RoundsOfHolders, answer_question
from pate_federated.collection import FederatedRelease
from pate_federated.sum_of_answers import SumOfAnswers, sum_of_answers
from pate_federated.summed_release import SummedRelease
from pate_federated.vote_casting import HolderPlan
from small_federation.stages import holder_plan, release_plan
from tests.e2e.small_run import NUM_HOLDERS, NUM_QUERIES, NUM_TEACHERS, seeded_plan, small_dataset


@dataclass(frozen=True)
class SmallHolders:
    """A function of a holder's name that returns its plan and folder, and that can be pickled for a simulation.

    Attributes:
        folder: the folder that the folders of all holders lie in.
        num_holders: the number of holders that the records are dealt to.
        plan: the plan of the whole run.
        before_answer: called with a holder's name before the holder answers; it may raise an error. None for no call.
    """

    folder: Path
    num_holders: int
    plan: Plan
    before_answer: Callable[[str], None] | None = None

    def __call__(self, holder: str) -> tuple[HolderPlan, Path]:
        if self.before_answer is not None:
            self.before_answer(holder)
        folder = self.folder / holder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return holder_plan(self.plan, holder=holder, num_holders=self.num_holders), folder


def small_request() -> Request:
    """Returns the request for votes on the queries of the small run."""
    dataset = small_dataset()
    return Request(
        inputs=np.asarray(dataset.public.inputs[:NUM_QUERIES], dtype=np.float32),
        record_ids=dataset.published_ids[:NUM_QUERIES],
        label_names=dataset.label_names,
    )


def small_roll(num_holders: int = NUM_HOLDERS, *, max_absent: int = 0) -> Roll:
    """Returns a roll, the list of expected holders, which have equally many of the small run's teachers."""
    return Roll.numbered(
        num_holders=num_holders, teachers_each=NUM_TEACHERS // num_holders, max_absent=max_absent
    )


def small_release(
    plan: Plan, folder: Path, num_holders: int = NUM_HOLDERS, *, max_absent: int = 0
) -> FederatedRelease:
    """Returns the server's release of vote files, in a folder; `max_absent` holders may be absent."""
    return FederatedRelease(
        request=small_request(),
        plan=release_plan(plan),
        roll=small_roll(num_holders=num_holders, max_absent=max_absent),
        inbox=folder / "inbox",
        output_dir=folder / "release",
    )


def summed_release(plan: Plan, folder: Path) -> SummedRelease:
    """Returns the server's release of a sum over four holders, one of which may be absent."""
    return SummedRelease(
        request=small_request(),
        dataset="small",
        real=False,
        plan=release_plan(plan),
        roll=small_roll(max_absent=1),
        inbox=folder / "inbox",
        output_dir=folder / "release",
    )


def rounds_plan() -> Plan:
    """Returns the small plan with centered votes in two rounds and a low-rank student."""
    aggregator = CenteredVotes(noise_multiplier=1.0, rounds=2)
    return replace(seeded_plan(aggregator), student=LowRankStudent(), target_epsilon=8.0)


def small_rounds(plan: Plan, folder: Path, *, max_absent: int = 0) -> RoundsOfHolders:
    """Returns the server of rounds of the small run, in a folder; `max_absent` holders may be absent."""
    dataset = small_dataset()
    return RoundsOfHolders(
        pool=np.asarray(dataset.public.inputs, dtype=np.float32),
        record_ids=dataset.published_ids,
        label_names=dataset.label_names,
        num_queries=NUM_QUERIES,
        plan=release_plan(plan),
        roll=small_roll(max_absent=max_absent),
        inbox=folder / "inbox",
        output_dir=folder / "release",
    )


# A function of a question and the name of a holder. It returns a contribution in place of the holder's answer, or None
# for the answer itself.
SpoilAnswer = Callable[[Question, str], Contribution | None]


@dataclass
class Exchanges:
    """An exchange of questions and answers with holders in this process, which stands for a network.

    Attributes:
        plan_and_folder_of: returns the plan and the folder of a holder, by the name of the holder.
        roll: the expected holders and their numbers of teachers.
        spoil: replaces answers of holders; None replaces no answer.
        asked: the kinds of all questions so far.
    """

    plan_and_folder_of: Callable[[str], tuple[HolderPlan, Path]]
    roll: Roll
    spoil: SpoilAnswer | None = None
    asked: list[str] = field(default_factory=list)

    def __call__(self, question: Question) -> SumOfAnswers:
        self.asked.append(question.kind)
        return sum_of_answers(
            self.roll,
            question=question,
            unchecked_answers=self._answers(Question.from_bytes(question.to_bytes())),
        )

    def _answers(self, question: Question) -> Iterator[Contribution]:
        """Yields the contribution of each holder to a question; the text of a refusal is in its `problem`."""
        for holder in self.roll.holders:
            replacement = None if self.spoil is None else self.spoil(question, holder)
            if replacement is not None:
                yield replacement
                continue
            plan, folder = self.plan_and_folder_of(holder)
            try:
                yield Contribution(
                    holder=holder, votes=answer_question(plan, question=question, folder=folder)
                )
            except InvalidValue as error:
                yield Contribution(holder=holder, problem=str(error))
