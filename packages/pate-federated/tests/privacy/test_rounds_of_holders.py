"""In rounds of holders, one group of records moves no sum further than is priced, also if a holder is absent."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

from pate.data import Dataset, Split
from pate.models import KernelTeacher, LinearTeacher, SequentialEngine, Voter
from pate.votes.label_shares import KNOWN_WEIGHT
from pate.votes.public_pca import PublicPCA
from pate_federated import Contribution, Question, Request, Roll, answer_question
from pate_federated.question import LENGTHS, MOMENTS, SHARES
from pate_federated.sum_of_answers import sum_of_answers
from pate_federated.vote_casting import HolderPlan

POOL = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
NAMES = ("a", "b")
ROLL_OF_HOLDERS = Roll.numbered(num_holders=3, teachers_each=2, max_absent=1)
UNKNOWN = -1
Labels = tuple[int, int]  # for each label 0, 1 or UNKNOWN
GroupChange = tuple[float, Labels] | None
KNOWN_LABELS: list[Labels] = [(0, 0), (1, 1)]
LABELS_WITH_GAPS: list[Labels] = [*KNOWN_LABELS, (UNKNOWN, UNKNOWN), (1, UNKNOWN), (UNKNOWN, 0)]


def all_changes(have_gaps: bool) -> list[GroupChange]:
    """Returns changes of the first group of records: new features and labels for all of them, or None for no change."""
    return [None, *product((-1e6, 0.0, 1.0, 1e6), LABELS_WITH_GAPS if have_gaps else KNOWN_LABELS)]


def dataset_with(
    group_change: GroupChange, *, have_gaps: bool, label_names: tuple[str, ...] = NAMES
) -> Dataset:
    """Returns a data set with six private records in two groups.

    Args:
        group_change: a number that replaces all features of the first group, and its new labels; None for no change.
        have_gaps: whether labels may be unknown.
        label_names: the names of its labels, the first ones of `NAMES`.
    """
    num_labels = len(label_names)
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(6, 3)).astype(np.float32)
    labels = rng.random((6, 2)) < 0.5
    known = np.ones((6, 2), dtype=np.bool_)
    if group_change is not None:
        all_features, label_row = group_change
        inputs[:3] = all_features
        labels[:3] = np.array(label_row) == 1
        known[:3] = np.array(label_row) != UNKNOWN
    labels = labels[:, :num_labels]
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
        label_names=label_names,
        private=Split(
            inputs,
            labels,
            record_ids=ids,
            group_ids=groups,
            known=known[:, :num_labels] if have_gaps else None,
        ),
        public=public,
        test=test,
    )


def holder_plan(
    group_change: GroupChange, *, holder: str, teacher: Voter, have_gaps: bool
) -> HolderPlan:
    """Returns the plan of a holder with two teachers and the data set `dataset_with(group_change)`.

    With gaps, the last holder has only the first label, and no unknown ones.
    """
    lacks_a_label = have_gaps and holder == "3"

    def load() -> Dataset:
        return dataset_with(
            group_change,
            have_gaps=have_gaps and not lacks_a_label,
            label_names=NAMES[:1] if lacks_a_label else NAMES,
        )

    return HolderPlan(
        load_dataset=load,
        teacher=teacher,
        num_teachers=2,
        engine=SequentialEngine(),
        holder=holder,
        seed=1,
        settings={"holder": holder},
    )


def questions(have_gaps: bool) -> list[Question]:
    """Returns the opening question and one of each kind, about labels with gaps or without.

    The student's weights in the question of moments are large.
    """
    center = np.array([0.2, 0.7])
    if have_gaps:
        center = np.append(center, KNOWN_WEIGHT * np.array([0.5, 0.9]))
    opening = Question.of_opening(Request(inputs=POOL, record_ids=np.arange(30), label_names=NAMES))
    public_pca = PublicPCA.fit(POOL, max_directions=3)
    rng = np.random.default_rng(1)
    state_by_kind: dict[str, dict[str, Any]] = {
        LENGTHS: {},
        SHARES: {"center": center, "clip": 0.05},
        MOMENTS: {
            "records_per_teacher": 3.0,
            "weights": rng.normal(size=(5, 2)) * 9,
            "label_scale": np.array([3.0, 0.4]) * 40,
            "clip": 0.6,
            "pool_center": public_pca.center,
            "projection": public_pca.projection,
            "variances": public_pca.variances,
        },
    }

    def question_of_kind(kind: str) -> Question:
        state = {
            name: np.asarray(value, dtype=np.float64) for name, value in state_by_kind[kind].items()
        }
        return Question(
            kind=kind,
            asked=opening.asked,
            num_labels=2,
            state=state,
            have_gaps=have_gaps and kind != MOMENTS,
        )

    return [opening, *map(question_of_kind, state_by_kind)]


@dataclass(frozen=True)
class TeacherCase:
    """The kind of teacher that all holders train, and whether labels may be unknown."""

    teacher: Voter
    have_gaps: bool


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of each holder to all questions, by the holder's name and the change of its first group."""

    teacher_case: TeacherCase
    sent: dict[tuple[str, GroupChange], list[bytes]]


@pytest.fixture(
    scope="module",
    params=[
        TeacherCase(LinearTeacher(device="cpu"), have_gaps=False),
        TeacherCase(KernelTeacher(), have_gaps=False),
        TeacherCase(LinearTeacher(device="cpu"), have_gaps=True),
        TeacherCase(KernelTeacher(), have_gaps=True),
    ],
    ids=["linear", "kernel", "linear with gaps", "kernel with gaps"],
)
def answers(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Returns the answers of all holders.

    The first holder's records are changed by each of `all_changes`. The others' are not changed.
    """
    teacher_case: TeacherCase = request.param

    def answers_of(holder: str, change: GroupChange) -> list[bytes]:
        folder = tmp_path_factory.mktemp(holder)
        plan = holder_plan(
            group_change=change,
            holder=holder,
            teacher=teacher_case.teacher,
            have_gaps=teacher_case.have_gaps,
        )
        return [
            answer_question(plan, question=question, folder=folder)
            for question in questions(teacher_case.have_gaps)
        ]

    changed_holder, *other_holders = ROLL_OF_HOLDERS.holders
    variants = [
        *((changed_holder, change) for change in all_changes(teacher_case.have_gaps)),
        *((holder, None) for holder in other_holders),
    ]
    return Answers(
        teacher_case,
        sent={(holder, change): answers_of(holder, change=change) for holder, change in variants},
    )


@pytest.mark.slow
@pytest.mark.parametrize("absent", ["", "3"])
def test_replacing_one_group_moves_a_sum_by_at_most_two_clips(
    answers: Answers, absent: str
) -> None:
    """If the first group of a holder is replaced by usual or extreme records, no sum moves further than is priced.

    The distance is Euclidean. For shares and moments, over half of the priced distance is attained. With gaps, labels
    become unknown too, and another holder lacks a label.
    """
    changed_holder, *other_holders = ROLL_OF_HOLDERS.holders
    have_gaps = answers.teacher_case.have_gaps
    for question_index, question in enumerate(questions(have_gaps)[1:], start=1):
        sums = []
        for change in all_changes(have_gaps):
            unchanged = [(holder, None) for holder in other_holders if holder != absent]
            present = [(changed_holder, change), *unchanged]
            unchecked_answers = [
                Contribution(
                    holder=holder, votes=answers.sent[holder, change_of_holder][question_index]
                )
                for holder, change_of_holder in present
            ]
            sums.append(
                sum_of_answers(
                    ROLL_OF_HOLDERS, question=question, unchecked_answers=unchecked_answers
                )
                .total.astype(np.float64)
                .ravel()
            )
        moved = max(
            float(np.linalg.norm(sum_of_variant - other))
            for sum_of_variant in sums
            for other in sums
        )
        most = np.sqrt(2) if question.kind == LENGTHS else 2 * question.reach
        assert moved <= most
        assert question.kind == LENGTHS or moved > 0.5 * most  # not by an empty bound
