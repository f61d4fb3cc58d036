"""Runs with centered votes: kernel and trained teachers, stopped and continued, charged once for each stage."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import ExactAccountant, Ledger
from pate.aggregators import CenteredVotes, GNMax
from pate.data.dataset import SharedRecords, require_dataset
from pate.pipeline import train
from pate.report import Report
from pate.report.metrics import micro_f1
from pate.run.plan import Plan
from pate.student import LinearStudent, LowRankStudent, StudentModel
from pate.teachers import ConvexTeacher, KernelTeacher, LinearTeacher
from pate.validation import InvalidValue
from pate.votes import VoteStore
from pate.votes.moment_votes import MomentVotes
from tests.e2e.small_run import (
    NUM_LABELS,
    NUM_QUERIES,
    SilentMonitor,
    charges,
    parts,
    small_dataset,
    small_plan,
    stopped,
)


def centered_plan(**changes: Any) -> Plan:
    values: dict[str, Any] = {
        "teacher": KernelTeacher(),
        "num_teachers": None,
        "aggregator": CenteredVotes(noise_multiplier=1.0),
        "student": LowRankStudent(),
        "accountant": ExactAccountant,
        "target_epsilon": 3.0,
    }
    return small_plan(**(values | changes))


def one_round() -> Plan:
    return centered_plan(aggregator=CenteredVotes(noise_multiplier=1.0, rounds=1))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    """A run in one round that was never stopped."""
    folder = tmp_path_factory.mktemp("centered") / "run"
    return folder, train(one_round(), folder, SilentMonitor())


@pytest.fixture(scope="module")
def in_rounds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    """The same in twenty rounds."""
    folder = tmp_path_factory.mktemp("rounds") / "run"
    return folder, train(centered_plan(), folder, SilentMonitor())


def test_rounds_cost_the_same_and_give_a_calibrated_student(
    whole: tuple[Path, Report], in_rounds: tuple[Path, Report]
) -> None:
    folder, report = in_rounds
    assert [charge["event"] for charge in charges(folder)] == [charge["event"] for charge in charges(whole[0])]
    assert report.privacy.epsilon == whole[1].privacy.epsilon
    assert report.student.micro_f1 > 0.8
    assert report.student.mean_average_precision > whole[1].student.mean_average_precision - 0.01
    with np.load(folder / "release" / "release.npz") as arrays:
        assert arrays["scores"].shape == arrays["labels"].shape == (NUM_QUERIES, NUM_LABELS)
    test = small_dataset().test
    said = StudentModel.load(folder / "release" / "student").predict_proba(test.inputs)
    np.testing.assert_allclose(said.mean(axis=0), test.labels.mean(axis=0), atol=0.1)


def test_a_run_that_is_killed_between_rounds_asks_only_for_the_others(
    in_rounds: tuple[Path, Report], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after three of twenty rounds: all were charged before the first; the same bytes; 17 more are gathered."""
    total, asked = MomentVotes.total, []

    def stopping(self: MomentVotes, *arguments: Any) -> Any:
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(0)
        return total(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(MomentVotes, "total", stopping)
        train(centered_plan(), tmp_path / "run", SilentMonitor())
    assert charges(tmp_path / "run") == charges(in_rounds[0])
    assert [part for part in parts(tmp_path / "run") if part.startswith("step-")] == ["step-0", "step-1", "step-2"]
    before = len(asked)
    monkeypatch.setattr(MomentVotes, "total", lambda *arguments: (asked.append(0), total(*arguments))[1])
    stopped(centered_plan(), tmp_path / "run", "training the majority")
    assert len(asked) - before == 17 + 20  # the twenty of the majority's student
    for name in ("release/release.npz", "release/student/student.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (in_rounds[0] / name).read_bytes()
    assert charges(tmp_path / "run") == charges(in_rounds[0])


def test_a_run_with_one_record_a_teacher(whole: tuple[Path, Report]) -> None:
    folder, report = whole
    assert report.teachers.num_teachers == 960
    assert report.teachers.records_per_teacher == 1
    assert report.teachers.mean_accuracy is None
    assert 2.9 < report.privacy.epsilon <= 3.0
    assert report.release.num_answered == NUM_QUERIES
    assert report.student.micro_f1 > 0.8
    assert report.student.micro_f1 > report.baselines.prior.micro_f1
    with np.load(folder / "release" / "release.npz") as arrays:
        assert arrays["scores"].shape == arrays["labels"].shape == (NUM_QUERIES, NUM_LABELS)
        assert arrays["noise_std"] > 0
    model = StudentModel.load(folder / "release" / "student")
    assert model.predict(small_dataset().test.inputs).shape == (300, NUM_LABELS)
    assert [charge["event"]["kind"] for charge in charges(folder)] == ["GaussianEvent"]
    assert charges(folder)[-1]["epsilon"] == pytest.approx(report.privacy.epsilon)


def test_trained_teachers_in_rounds_know_more(tmp_path: Path) -> None:
    """At the price of one matrix of votes."""
    ended = {}
    for rounds in (1, 2):
        aggregator, teacher = CenteredVotes(noise_multiplier=1.0, rounds=rounds), LinearTeacher(device="cpu")
        plan = centered_plan(teacher=teacher, num_teachers=60, aggregator=aggregator, target_epsilon=8.0)
        ended[rounds] = train(plan, tmp_path / str(rounds), SilentMonitor())
    assert charges(tmp_path / "1")[-1]["epsilon"] == charges(tmp_path / "2")[-1]["epsilon"]
    assert ended[2].student.mean_average_precision > ended[1].student.mean_average_precision + 0.02
    assert ended[2].teachers.mean_accuracy is not None


def test_other_students_learn_from_the_labels_and_a_public_center_costs_nothing(tmp_path: Path) -> None:
    aggregator = CenteredVotes(noise_multiplier=1.0, prevalence_share=0.0, center=0.4)
    plan = centered_plan(aggregator=aggregator, student=LinearStudent())
    stopped(plan, tmp_path / "run", "training the majority")
    said, test = StudentModel.load(tmp_path / "run" / "release" / "student"), small_dataset().test
    assert micro_f1(said.predict(test.inputs), test.labels) > 0.6
    assert len(charges(tmp_path / "run")) == 1
    assert "prevalence" not in parts(tmp_path / "run")


def test_an_aggregator_of_one_vote_a_teacher_gets_no_more_in_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several labels a sample: each teacher keeps one of its votes, whatever the others say."""
    seen: list[np.ndarray] = []
    aggregate = GNMax.aggregate

    def watched(self: GNMax, votes: Any, **options: Any) -> Any:
        seen.append(np.array(votes))
        return aggregate(self, votes, **options)

    monkeypatch.setattr(GNMax, "aggregate", watched)
    with pytest.raises(KeyboardInterrupt):
        plan = small_plan(aggregator=GNMax(noise_std=5.0))
        train(plan, tmp_path / "run", SilentMonitor(stop_at="training the student"))
    votes = VoteStore.open(tmp_path / "run" / "votes.npz").teacher_votes()
    assert votes.sum(axis=2).max() > 1
    (asked,) = [counts for counts in seen if len(counts) == votes.shape[1]]  # the others are made up, for the plan
    assert (asked.sum(axis=1) == votes.any(axis=2).sum(axis=0)).all()


CLASSES = {"cautious": 0.5, "usual": 3.0}


def with_budgets(**changes: Any) -> Plan:
    """Every third group is cautious."""
    dataset = small_dataset()
    words = np.where(dataset.private.group_ids % 3 == 0, "cautious", "usual")
    given = replace(dataset, budgets=words)
    return centered_plan(**({"load_dataset": lambda: given, "budgets": CLASSES} | changes))


def test_each_budget_class_is_told_its_epsilon_and_the_ledger_charges_the_largest(tmp_path: Path) -> None:
    monitor = SilentMonitor()
    report = train(with_budgets(ledger=tmp_path / "all.db"), tmp_path / "run", monitor)
    epsilons = report.privacy.classes
    assert all(0.99 * CLASSES[name] < epsilon <= CLASSES[name] for name, epsilon in epsilons.items())
    assert list(epsilons) == list(CLASSES) and report.privacy.epsilon == epsilons["usual"]
    assert any("who is in which class is taken as public" in line for line in monitor.lines)
    release = tmp_path / "run" / "release"
    assert json.loads((release / "privacy.json").read_text())["classes"] == {"cautious": 0.5, "usual": 3.0}
    for card in ("privacy_card.md", "README.md"):
        assert "cautious 0.5" in (release / card).read_text()
    assert "cautious 0.5" in Ledger.stored(tmp_path / "run" / "ledger.db").entries[0].description
    assert Report.read(tmp_path / "run" / "report.json").privacy.classes == epsilons


def convex(**changes: Any) -> Plan:
    return centered_plan(**({"teacher": ConvexTeacher(), "num_teachers": 4} | changes))


def votes(**changes: Any) -> CenteredVotes:
    return CenteredVotes(noise_multiplier=1.0, **changes)


GIVEN = {"center": np.full((NUM_QUERIES, NUM_LABELS), 0.3), "prevalence_share": 0.0}
REFUSED: dict[str, Callable[[], Plan]] = {
    "clip=3.0: expected no clip, but a clip_factor": lambda: convex(aggregator=votes(clip=3.0)),
    "center.ndim=2: expected 0 or 1": lambda: convex(aggregator=votes(**GIVEN)),
    "teacher=ConvexTeacher: expected no holders=": lambda: convex(holders=4),
    "aggregator=GNMax: expected centered_votes, or teachers that vote yes": lambda: convex(
        aggregator=GNMax(noise_std=9)
    ),
    "aggregator=StableTopK: expected centered_votes": lambda: centered_plan(aggregator=small_plan().aggregator),
    "teacher.num_teachers=0: expected a whole number >= 1": lambda: small_plan(num_teachers=None),
    "adjacency=add_remove: expected replace_one: a run with centered_votes": lambda: centered_plan(
        aggregator=votes(adjacency="add_remove")
    ),
    "adjacency=add_remove: expected replace_one: a run with": lambda: centered_plan(
        aggregator=votes(adjacency="add_remove"), num_teachers=24
    ),
    "data.budget: expected teacher=kernel aggregator=centered_votes, with one teacher": lambda: with_budgets(
        num_teachers=20
    ),
    "data.budget=several: expected a budget that noise is solved for": lambda: with_budgets(target_epsilon=None),
    "data.budget=usual: expected a class of budgets={cautious}": lambda: with_budgets(budgets={"cautious": 1.0}),
    "data.budget=cautious: expected a number > 0, the epsilon of a group": lambda: with_budgets(budgets=None),
    "redraw=true: expected false beside data.budget": lambda: with_budgets(redraw=True),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_is_refused_before_it_is_spent(message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=re.escape(message)):
        train(REFUSED[message](), tmp_path / "run", SilentMonitor())
    assert not charges(tmp_path / "run")


def test_records_of_several_owners_count_so_that_each_owner_counts_once(tmp_path: Path) -> None:
    """Where chains of owners link all records; without weights other teachers are refused, with what it costs."""
    dataset = small_dataset()
    rows = np.arange(len(dataset.private))
    shared = SharedRecords.of(("patient", "doctor"), [rows // 2, (rows + 1) // 2 % 50])
    assert shared.weights is not None and shared.num_groups == 1
    private = replace(dataset.private, group_ids=dataset.private.record_ids)
    given = replace(dataset, private=private, shared=shared)
    report = train(centered_plan(load_dataset=lambda: given), tmp_path / "run", SilentMonitor())
    assert report.privacy.unit.startswith("all records of one patient or one doctor")
    plan = small_plan(load_dataset=lambda: given)
    with pytest.raises(InvalidValue, match=r"data.group=\[patient,doctor\]: expected teacher=kernel .* 1 groups"):
        train(plan, tmp_path / "other", SilentMonitor())
    with pytest.raises(InvalidValue, match=r"data.group=.*expected none but in pate-train"):
        require_dataset(given)
