"""The small run in rounds between holders: plans, the server's release, and an exchange without any network."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pate.aggregators import CenteredVotes
from pate.federated import Contribution, Question, Roll, RoundsOfHolders, answer_question
from pate.federated.gathering import Gathered, gathered
from pate.run.plan import Plan
from pate.run.stages.holder import HolderPlan
from pate.student import LowRankStudent
from pate.validation import InvalidValue
from tests.e2e.federated_run import federated_plan
from tests.e2e.small_run import NUM_QUERIES, NUM_TEACHERS, small_dataset
from tests.e2e.stages_of_run import release_plan

HOLDERS = 4


def rounds_plan(holders: int | None = HOLDERS, **changes: Any) -> Plan:
    """Two rounds of 24 trained teachers."""
    aggregator = CenteredVotes(noise_multiplier=1.0, rounds=2)
    return federated_plan(aggregator, holders, **({"student": LowRankStudent(), "target_epsilon": 8.0} | changes))


def small_rounds(plan: Plan, folder: Path, holders: int = HOLDERS, *, max_absent: int = 0) -> RoundsOfHolders:
    dataset = small_dataset()
    return RoundsOfHolders(
        plan=release_plan(plan),
        roll=Roll.numbered(holders, NUM_TEACHERS // holders, max_absent=max_absent),
        pool=np.asarray(dataset.public.inputs, dtype=np.float32),
        record_ids=dataset.published_ids,
        label_names=dataset.label_names,
        num_queries=NUM_QUERIES,
        inbox=folder / "inbox",
        output_dir=folder / "release",
    )


@dataclass
class Exchanges:
    """Asks holders in this process."""

    plans: Callable[[str], tuple[HolderPlan, Path]]  # of the holders
    roll: Roll  # who is expected
    # called with question and holder before it answers; what it returns is sent in place of an answer
    spoil: Callable[[Question, str], Contribution | None] | None = None
    asked: list[str] = field(default_factory=list)  # the kinds of all questions so far

    def __call__(self, question: Question) -> Gathered:
        self.asked.append(question.kind)
        return gathered(self.roll, question, self._answers(Question.from_bytes(question.to_bytes())))

    def _answers(self, question: Question) -> Iterator[Contribution]:
        for name in self.roll.holders:
            sent = None if self.spoil is None else self.spoil(question, name)
            yield sent or self._answer(question, name)

    def _answer(self, question: Question, name: str) -> Contribution:
        plan, folder = self.plans(name)
        try:
            return Contribution(name, answer_question(plan, question, folder))
        except InvalidValue as error:
            return Contribution(name, problem=str(error))
