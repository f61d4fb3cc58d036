"""Rounds between holders, without a network: the release of `pate-train`, absences, and servers that are killed."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.aggregators import GaussianVotes
from pate.federated import Contribution, Question, Roll, answer_question
from pate.files.disk import make_folder
from pate.run.plan import Plan
from pate.run.stages.holder import HolderPlan
from pate.teachers import ConvexTeacher, KernelTeacher, SequentialEngine, Voter
from pate.validation import InvalidValue
from tests.e2e.federated_run import SmallHolders, federated_plan
from tests.e2e.rounds_run import HOLDERS, Exchanges, rounds_plan, small_rounds
from tests.e2e.small_run import SilentMonitor, charges, release_of, released, small_dataset, stopped
from tests.e2e.stages_of_run import contents, killed_at, student


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return release_of(rounds_plan(), tmp_path_factory.mktemp("train") / "train")


def exchange_of(folder: Path, plan: Plan, roll: Roll, spoil: Any = None) -> Exchanges:
    return Exchanges(SmallHolders(folder / "holders", HOLDERS, plan), roll, spoil)


def test_rounds_of_holders_release_what_train_does(expected: bytes, tmp_path: Path) -> None:
    plan = rounds_plan()
    made = small_rounds(plan, tmp_path)
    exchange = exchange_of(tmp_path, plan, made.roll)
    made.run(exchange, SilentMonitor())
    assert exchange.asked == ["opening", "lengths", "shares", "shares", "moments", "moments"]
    assert released(tmp_path / "release") == expected
    assert len(charges(tmp_path / "release")) == 1  # for the prevalence and all rounds


def test_kernel_teachers_of_holders_release_what_train_does(tmp_path: Path) -> None:
    plan = rounds_plan(teacher=KernelTeacher())
    made = small_rounds(plan, tmp_path)
    made.run(exchange_of(tmp_path, plan, made.roll))
    assert released(tmp_path / "release") == release_of(plan, tmp_path / "train")


def test_each_group_of_a_holder_may_be_a_teacher(tmp_path: Path) -> None:
    """Two places with 480 records each: they release nearly what a run with 960 teachers does."""
    plan, whole = rounds_plan(teacher=KernelTeacher(), num_teachers=None, target_epsilon=3.0), small_dataset()
    shares = {"north": slice(0, 480), "south": slice(480, 960)}

    def holder(name: str) -> tuple[HolderPlan, Path]:
        made = HolderPlan(
            load_dataset=lambda: replace(whole, private=whole.private.take(shares[name])),
            teacher=KernelTeacher(),
            num_teachers=None,
            engine=SequentialEngine(),
            holder=name,
            settings={"holder": name},
        )
        make_folder(tmp_path / name)
        return made, tmp_path / name

    made = replace(small_rounds(plan, tmp_path), roll=Roll({"north": 480, "south": 480}, 0))
    terms = made.run(Exchanges(holder, made.roll))
    assert terms.num_teachers == 960
    with np.load(tmp_path / "release" / "release" / "release.npz") as arrays:
        labels = whole.public.labels[: len(arrays["labels"])]
        assert (arrays["labels"] == labels).mean() > 0.85
    few = replace(small_rounds(plan, tmp_path / "few"), roll=Roll({"north": 480, "south": 12}, 0))
    with pytest.raises(InvalidValue, match="holder=south: num_teachers=480: expected 12"):
        few.run(Exchanges(holder, few.roll))


@pytest.mark.parametrize(
    ("teacher", "said"),
    [
        (ConvexTeacher(), "teacher=ConvexTeacher: expected teachers that answer in rounds"),
        (KernelTeacher(nonlinear=True), "teacher.nonlinear=true: expected null or false"),
    ],
)
def test_what_holders_cannot_do_in_rounds_is_refused(teacher: Voter, said: str, tmp_path: Path) -> None:
    plan = rounds_plan(holders=None, teacher=teacher)
    made = small_rounds(plan, tmp_path)
    with pytest.raises(InvalidValue, match=said):
        made.run(exchange_of(tmp_path, plan, made.roll))


def test_the_student_is_that_of_train_too(tmp_path: Path) -> None:
    plan = rounds_plan()
    made = small_rounds(plan, tmp_path)
    made.run(exchange_of(tmp_path, plan, made.roll))
    student(plan, tmp_path / "release")
    stopped(plan, tmp_path / "whole", "training the majority")
    whole, apart = contents(tmp_path / "whole" / "release"), contents(tmp_path / "release" / "release")
    assert whole.keys() == {"release.npz", "student/student.json", "student/student.safetensors"}
    assert {name: apart[name] for name in whole} == whole


def test_a_server_that_is_killed_anywhere_goes_on_with_the_same_bytes(expected: bytes, tmp_path: Path) -> None:
    plan = rounds_plan()
    killed = 0
    for number in range(3, 60, 7):
        folder = tmp_path / str(number)
        made = small_rounds(plan, folder)
        killed += killed_at(
            number, lambda made=made: made.run(exchange_of(tmp_path, plan, made.roll)), after=bool(number % 2)
        )
        made.run(exchange_of(tmp_path, plan, made.roll))
        assert released(folder / "release") == expected
        assert len(charges(folder / "release")) == 1
    assert killed >= 3


def without(kind: str, holder: str) -> Any:
    """Has one holder fail at questions of a kind, from the second of them on."""
    seen: list[str] = []

    def spoil(question: Question, name: str) -> Contribution | None:
        if question.kind != kind or name != holder:
            return None
        seen.append(question.digest)
        return Contribution(name, problem="its app failed (RuntimeError)") if len(set(seen)) > 1 else None

    return spoil


def test_a_holder_that_fails_between_rounds_adds_nothing_and_costs_nothing(expected: bytes, tmp_path: Path) -> None:
    plan, monitor = rounds_plan(), SilentMonitor()
    made = small_rounds(plan, tmp_path, max_absent=1)
    terms = made.run(exchange_of(tmp_path, plan, made.roll, without("moments", "3")), monitor)
    assert "holder=3: its app failed (RuntimeError)" in monitor.lines
    present = [sorted(np.load(path)["holders"].tolist()) for path in made.inbox.glob("moments-*.npz")]
    assert sorted(present) == [["1", "2", "3", "4"], ["1", "2", "4"]]
    assert released(tmp_path / "release") != expected  # the second round had fewer teachers in it
    whole = small_rounds(plan, tmp_path / "whole")
    assert terms.privacy.epsilon == whole.run(exchange_of(tmp_path, plan, whole.roll)).privacy.epsilon
    assert terms.num_teachers == 24


def test_a_holder_that_is_late_for_the_opening_may_answer_the_rounds(tmp_path: Path) -> None:
    plan = rounds_plan()
    made = small_rounds(plan, tmp_path, max_absent=1)
    holders = SmallHolders(tmp_path / "holders", HOLDERS, plan)

    def late(question: Question, name: str) -> Contribution | None:
        if name != "2" or question.kind != "opening":
            return None
        own, folder = holders(name)
        answer_question(own, question, folder)
        return Contribution(name, problem="no answer within 5 s")

    made.run(exchange_of(tmp_path, plan, made.roll, late))
    present = [sorted(np.load(path)["holders"].tolist()) for path in made.inbox.glob("*-*.npz")]
    assert present == [["1", "2", "3", "4"]] * 5


def test_too_many_absences_stop_a_round_that_the_same_call_asks_again(expected: bytes, tmp_path: Path) -> None:
    plan = rounds_plan()
    made = small_rounds(plan, tmp_path)
    with pytest.raises(InvalidValue, match=r"absent holders=1: expected at most max_absent=0 \(holder=3: its app"):
        made.run(exchange_of(tmp_path, plan, made.roll, without("moments", "3")))
    assert len(charges(tmp_path / "release")) == 1  # and nothing is published
    assert not (tmp_path / "release" / "release" / "release.npz").exists()
    again = exchange_of(tmp_path, plan, made.roll)
    made.run(again)
    assert again.asked == ["moments"]
    assert released(tmp_path / "release") == expected
    assert len(charges(tmp_path / "release")) == 1


def test_a_sum_that_is_lost_is_not_asked_for_again_once_its_round_is_released(expected: bytes, tmp_path: Path) -> None:
    plan = rounds_plan()
    made = small_rounds(plan, tmp_path)
    with pytest.raises(InvalidValue, match="absent holders"):
        made.run(exchange_of(tmp_path, plan, made.roll, without("moments", "3")))
    for each in made.inbox.glob("moments-*.npz"):
        each.unlink()
    again = exchange_of(tmp_path, plan, made.roll)
    made.run(again)
    assert again.asked == ["moments"], "the round before is read back from the ledger"
    assert released(tmp_path / "release") == expected
    (tmp_path / "release" / "manifest.json").unlink()
    shutil.rmtree(made.inbox)
    with pytest.raises(InvalidValue, match="data=another"):
        made.run(exchange_of(tmp_path, plan, made.roll))


def test_other_aggregators_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    plan = federated_plan(GaussianVotes(noise_std=1.0), HOLDERS)
    made = small_rounds(plan, tmp_path)
    with pytest.raises(InvalidValue, match="aggregator: expected centered_votes in rounds"):
        made.run(exchange_of(tmp_path, plan, made.roll))
    assert not (tmp_path / "release").exists()
