"""What a holder sends in rounds: one group of records moves no sum further than is priced, whoever is absent."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from pate.data import Dataset, Split
from pate.models import KernelTeacher, LinearTeacher, SequentialEngine, Voter
from pate.votes.public_pca import PublicPCA
from pate_federated import Contribution, Question, Request, Roll, answer_question
from pate_federated.question import LENGTHS, MOMENTS, SHARES
from pate_federated.summed_release import gathered
from pate_federated.vote_casting import HolderPlan

POOL = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
NAMES = ("a", "b")
ROLL = Roll.numbered(num_holders=3, teachers_each=2, max_absent=1)
First = tuple[float, bool] | None
FIRSTS: list[First] = [None, *product((-1e6, 0.0, 1.0, 1e6), (False, True))]


def records(first: First) -> Dataset:
    """Returns a data set of six private records in two groups.

    `first` replaces all features of the first group by a number, and all its labels by a truth value; None leaves it.
    """
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(6, 3)).astype(np.float32)
    labels = rng.random((6, 2)) < 0.5
    if first is not None:
        inputs[:3] = first[0]
        labels[:3] = first[1]
    ids = np.arange(6)
    groups = np.array([0, 0, 0, 1, 1, 1])
    public, test = (
        Split(inputs[:1], labels[:1], record_ids=np.array([number]), group_ids=np.array([number]))
        for number in (10, 11)
    )
    return Dataset(
        name="small",
        real=False,
        kind="features",
        label_names=NAMES,
        private=Split(inputs, labels, record_ids=ids, group_ids=groups),
        public=public,
        test=test,
    )


def plan(first: First, holder: str, teacher: Voter) -> HolderPlan:
    """Returns the plan of a holder with two teachers and the data set `records(first)`."""
    return HolderPlan(
        load_dataset=lambda: records(first),
        teacher=teacher,
        num_teachers=2,
        engine=SequentialEngine(),
        holder=holder,
        seed=1,
        settings={"holder": holder},
    )


def questions() -> list[Question]:
    """Returns the opening, and one question of each kind.

    The student's weights in the question of moments are large.
    """
    opening = Question.of_opening(Request(inputs=POOL, record_ids=np.arange(30), label_names=NAMES))
    pool = PublicPCA.fit(POOL, max_directions=3)
    rng = np.random.default_rng(1)
    states: dict[str, dict[str, Any]] = {
        LENGTHS: {},
        SHARES: {"center": np.array([0.2, 0.7]), "clip": 0.05},
        MOMENTS: {
            "records_per_teacher": 3.0,
            "weights": rng.normal(size=(5, 2)) * 9,
            "label_scale": np.array([3.0, 0.4]) * 40,
            "clip": 0.6,
            "pool_center": pool.center,
            "projection": pool.projection,
            "variances": pool.variances,
        },
    }

    def asked(kind: str) -> Question:
        state = {name: np.asarray(value, dtype=np.float64) for name, value in states[kind].items()}
        return Question(kind=kind, asked=opening.asked, num_labels=2, state=state)

    return [opening, *map(asked, states)]


@pytest.fixture(
    scope="module", params=[LinearTeacher(device="cpu"), KernelTeacher()], ids=["linear", "kernel"]
)
def answers(
    request: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, First], list[Any]]:
    """Returns the answers of each holder to all questions, by the holder's name and the change of its first group.

    Only the first holder's records are changed, by each of `FIRSTS`; the others have them unchanged.
    """

    def answered(name: str, held: First) -> list[Any]:
        folder = tmp_path_factory.mktemp(name)
        return [
            answer_question(plan(held, name, request.param), question, folder)
            for question in questions()
        ]

    own, *others = ROLL.holders
    variants = [*((own, first) for first in FIRSTS), *((name, None) for name in others)]
    return {who: answered(*who) for who in variants}


@pytest.mark.slow
@pytest.mark.parametrize("absent", ["", "3"])
def test_replacing_one_group_moves_a_sum_by_at_most_two_clips(answers: Any, absent: str) -> None:
    """The first group at one holder is as it was drawn, or replaced by extreme records in each of eight ways.

    No two sums of the holders differ by more than the priced distance in the Euclidean norm. For shares and moments,
    more than half of it is reached.
    """
    folder, *others = ROLL.holders
    for place, question in enumerate(questions()[1:], start=1):
        sums = []
        for first in FIRSTS:
            present = [(folder, first), *((name, None) for name in others if name != absent)]
            sent = [Contribution(holder=who[0], votes=answers[who][place]) for who in present]
            sums.append(
                gathered(ROLL, question, contributions=sent).total.astype(np.float64).ravel()
            )
        moved = max(
            float(np.linalg.norm(sum_of_variant - other))
            for sum_of_variant in sums
            for other in sums
        )
        most = np.sqrt(2) if question.kind == LENGTHS else 2 * question.reach
        assert moved <= most
        assert question.kind == LENGTHS or moved > 0.5 * most  # not by an empty bound
