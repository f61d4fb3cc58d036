"""Runs with centered votes, of kernel teachers and of trained ones, which may be killed and continued."""

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.accounting import Adjacency, ExactAccountant, Ledger
from pate.aggregators import CenteredVotes, GNMax
from pate.data.dataset import require_dataset
from pate.data.shared_records import SharedRecords
from pate.files import array_rows
from pate.models import (
    ConvexTeacher,
    KernelTeacher,
    LinearStudent,
    LinearTeacher,
    LowRankStudent,
    StudentModel,
)
from pate.report import Report
from pate.report.metrics import micro_f1
from pate.run.plan import Plan
from pate.run.train import train
from pate.validation import InvalidValue
from pate.votes import VoteStore
from tests.e2e.small_run import (
    NUM_LABELS,
    NUM_QUERIES,
    SilentMonitor,
    charges_beside,
    part_names_of_release,
    run_until,
    small_dataset,
    small_plan,
    watch_sums,
)
from tests.refusals import refused_parameter

Ended = tuple[Path, Report]


CENTERED_VOTES = CenteredVotes(noise_multiplier=1.0)


def centered_plan() -> Plan:
    """Returns the small plan with centered votes and a kernel teacher for each group of private records."""
    return replace(
        small_plan(),
        teacher=KernelTeacher(),
        num_teachers=None,
        aggregator=CENTERED_VOTES,
        student=LowRankStudent(),
        accountant=ExactAccountant,
        target_epsilon=3.0,
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Returns folder and report of the centered plan's run in one round, that is, with one matrix of votes."""
    folder = tmp_path_factory.mktemp("centered") / "run"
    return folder, train(
        replace(centered_plan(), aggregator=replace(CENTERED_VOTES, rounds=1)), output_dir=folder
    )


@pytest.fixture(scope="module")
def in_rounds(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Returns folder and report of the centered plan's run in twenty rounds.

    In each round all teachers vote on what the student so far gets wrong.
    """
    folder = tmp_path_factory.mktemp("rounds") / "run"
    return folder, train(centered_plan(), output_dir=folder)


def test_rounds_cost_the_same_and_give_a_calibrated_student(whole: Ended, in_rounds: Ended) -> None:
    """A run in twenty rounds has the same event and epsilon as a run in one round, and both students beat the prior.

    With twenty rounds, each label's mean probability on test records is within 0.1 of the label's frequency.
    """
    folder, report = in_rounds
    folder_of_one_round, report_of_one_round = whole
    (charge,) = charges_beside(folder)
    (charge_of_one_round,) = charges_beside(folder_of_one_round)
    assert charge["event"] == charge_of_one_round["event"]
    assert charge["event"]["kind"] == "GaussianEvent"
    assert charge["epsilon"] == pytest.approx(report.privacy.epsilon)
    assert 2.9 < report.privacy.epsilon == report_of_one_round.privacy.epsilon <= 3.0
    assert (
        report_of_one_round.teachers.num_teachers,
        report_of_one_round.teachers.records_per_teacher,
        report_of_one_round.teachers.mean_accuracy,
    ) == (
        960,
        1,
        None,
    )
    assert report_of_one_round.release.num_answered == NUM_QUERIES
    assert min(report.student.micro_f1, report_of_one_round.student.micro_f1) > max(
        0.8, report_of_one_round.baselines.prior.micro_f1
    )
    assert (
        report.student.mean_average_precision
        > report_of_one_round.student.mean_average_precision - 0.01
    )
    for run_folder in (folder, folder_of_one_round):
        with np.load(run_folder / "release" / "release.npz") as arrays:
            assert arrays["scores"].shape == arrays["labels"].shape == (NUM_QUERIES, NUM_LABELS)
            assert run_folder == folder or arrays["noise_std"] > 0
    test = small_dataset().test
    probabilities = StudentModel.load(folder / "release" / "student").predict_proba(test.inputs)
    np.testing.assert_allclose(probabilities.mean(axis=0), test.labels.mean(axis=0), atol=0.1)


@pytest.mark.parametrize("has_scratch_file", [True, False])
def test_a_release_does_not_depend_on_where_features_lie(
    has_scratch_file: bool, in_rounds: Ended, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Release and student have the same bytes with features in memory, in a scratch file, or made anew in each round.

    In each of twenty rounds the teachers vote on the errors of the student so far. No scratch file remains.
    """
    rounds_folder, _ = in_rounds
    monkeypatch.setattr(array_rows, "MAX_BYTES_IN_MEMORY", 0)
    train(replace(centered_plan(), scratch=has_scratch_file), output_dir=tmp_path / "run")
    for name in ("release/release.npz", "release/student/student.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (rounds_folder / name).read_bytes()
    assert sorted(os.listdir(tmp_path / "run")) == sorted(os.listdir(rounds_folder))


def test_a_run_killed_between_rounds_asks_for_the_others(
    in_rounds: Ended, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is killed after three of twenty rounds has paid for all of them, and computes only 17 more sums.

    The run then computes 20 sums for the student of the majority vote. Bytes and charges are those of an uninterrupted
    run.
    """
    rounds_folder, _ = in_rounds
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        watch_sums(patch, max_sums=3)
        train(centered_plan(), output_dir=tmp_path / "run")
    assert charges_beside(run_folder=tmp_path / "run") == charges_beside(rounds_folder)
    assert [
        part
        for part in part_names_of_release(run_folder=tmp_path / "run")
        if part.startswith("step-")
    ] == [
        "step-0",
        "step-1",
        "step-2",
    ]
    questions = watch_sums(monkeypatch)
    run_until(centered_plan(), folder=tmp_path / "run", stage="training the majority")
    assert len(questions) == 17 + 20  # the twenty of the majority's student
    for name in ("release/release.npz", "release/student/student.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (rounds_folder / name).read_bytes()
    assert charges_beside(run_folder=tmp_path / "run") == charges_beside(rounds_folder)


def test_a_killed_run_with_public_labels_goes_on_from_the_same_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose student begins with labels of public rows can be killed after three rounds and continued.

    Release, student and charges are those of an uninterrupted run. The report of the latter has the scores of a student
    that learned from those labels alone.
    """
    plan = replace(centered_plan(), num_public_labels=40)
    report = train(plan, output_dir=tmp_path / "whole")
    assert report.baselines.start_alone is not None
    assert report.privacy.parameters["num_public_labels"] == 40
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        watch_sums(patch, max_sums=3)
        train(plan, output_dir=tmp_path / "run")
    train(plan, output_dir=tmp_path / "run")
    for name in ("release/release.npz", "release/student/student.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert charges_beside(run_folder=tmp_path / "run") == charges_beside(
        run_folder=tmp_path / "whole"
    )


def test_trained_teachers_in_rounds_know_more(tmp_path: Path) -> None:
    """At equal epsilon, sixty linear teachers give a better student in two rounds than in one.

    In the second round the teachers vote on what the student so far gets wrong. The mean average precision is higher by
    at least 0.02.
    """
    reports = {}
    for rounds in (1, 2):
        plan = replace(
            centered_plan(),
            aggregator=replace(CENTERED_VOTES, rounds=rounds),
            teacher=LinearTeacher(device="cpu"),
            num_teachers=60,
            target_epsilon=8.0,
        )
        reports[rounds] = train(plan, output_dir=tmp_path / str(rounds) / "run")
    charges_of_one, charges_of_two = (
        charges_beside(run_folder=tmp_path / rounds / "run") for rounds in ("1", "2")
    )
    assert charges_of_one[-1]["epsilon"] == charges_of_two[-1]["epsilon"]
    precision_of_one = reports[1].student.mean_average_precision
    assert reports[2].student.mean_average_precision > precision_of_one + 0.02
    assert reports[2].teachers.mean_accuracy is not None


def test_other_students_learn_from_the_labels_and_a_public_center_costs_nothing(
    tmp_path: Path,
) -> None:
    """A linear student that learns from labels of centered votes has a micro F1 above 0.6.

    If the votes are centered on a given number, the ledger has one charge, and no prevalence of labels is released.
    """
    plan = replace(
        centered_plan(),
        aggregator=replace(CENTERED_VOTES, prevalence_share=0.0, center=0.4),
        student=LinearStudent(),
    )
    run_until(plan, folder=tmp_path / "run", stage="training the majority")
    student = StudentModel.load(tmp_path / "run" / "release" / "student")
    test = small_dataset().test
    assert micro_f1(student.predict(test.inputs), true_labels=test.labels) > 0.6
    assert len(charges_beside(run_folder=tmp_path / "run")) == 1
    assert "prevalence" not in part_names_of_release(run_folder=tmp_path / "run")


def test_one_vote_a_teacher_is_no_more_in_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`GNMax` counts one vote of each teacher, also where teachers predict several labels.

    The counts of a query add up to the number of teachers that predict at least one label.
    """
    drawn_counts: list[np.ndarray] = []
    draw = GNMax.draw

    def record_and_draw(gnmax: GNMax, vote_counts: Any, vote_shape: Any, rng: Any) -> Any:
        drawn_counts.append(np.array(vote_counts))
        return draw(gnmax, vote_counts, vote_shape, rng)

    monkeypatch.setattr(GNMax, "draw", record_and_draw)
    run_until(
        replace(small_plan(), aggregator=GNMax(noise_std=5.0)),
        folder=tmp_path / "run",
        stage="training the student",
    )
    votes = VoteStore.open(tmp_path / "run" / "votes.npz").teacher_votes()
    assert votes.sum(axis=2).max() > 1
    # other counts are of made-up votes, for the plan's price
    (counts_of_queries,) = [counts for counts in drawn_counts if len(counts) == votes.shape[1]]
    assert (counts_of_queries.sum(axis=1) == votes.any(axis=2).sum(axis=0)).all()


EPSILON_OF_BUDGET_CLASS = {"cautious": 0.5, "usual": 3.0}


def plan_with_budget_classes() -> Plan:
    """Returns the centered plan on records of two budget classes; a third of them are in the cautious class."""
    dataset = small_dataset()
    budget_classes = np.where(dataset.private.group_ids % 3 == 0, "cautious", "usual")
    dataset_with_budget_classes = replace(dataset, budgets=budget_classes)
    return replace(
        centered_plan(),
        load_dataset=lambda: dataset_with_budget_classes,
        budgets=EPSILON_OF_BUDGET_CLASS,
    )


def test_each_budget_class_has_its_epsilon(
    tmp_path: Path,
) -> None:
    """A third of the records has a budget of epsilon 0.5, the others one of 3, and each class gets its own epsilon.

    The epsilon of a class is over 99% of its budget and at most all of it. The report states both epsilons, and
    `privacy.json`, cards and ledger state them rounded up.
    """
    monitor = SilentMonitor()
    report = train(
        replace(plan_with_budget_classes(), ledger=tmp_path / "all.db"),
        output_dir=tmp_path / "run",
        monitor=monitor,
    )
    epsilons = report.privacy.classes
    assert all(
        0.99 * EPSILON_OF_BUDGET_CLASS[name] < epsilon <= EPSILON_OF_BUDGET_CLASS[name]
        for name, epsilon in epsilons.items()
    )
    assert (
        list(epsilons) == list(EPSILON_OF_BUDGET_CLASS)
        and report.privacy.epsilon == epsilons["usual"]
    )
    assert any("who is in which class is taken as public" in line for line in monitor.lines)
    release = tmp_path / "run" / "release"
    assert json.loads((release / "privacy.json").read_text())["classes"] == {
        "cautious": 0.5,
        "usual": 3.0,
    }
    for card in ("privacy_card.md", "README.md"):
        assert "cautious 0.5" in (release / card).read_text()
    assert "cautious 0.5" in Ledger.stored(path=tmp_path / "all.db").entries[0].description
    assert Report.read(tmp_path / "run" / "report.json").privacy.classes == epsilons


def convex_plan() -> Plan:
    """Returns the centered plan with four convex teachers."""
    return replace(centered_plan(), teacher=ConvexTeacher(), num_teachers=4)


CENTER_PER_QUERY = np.full((NUM_QUERIES, NUM_LABELS), 0.3)
ADD_REMOVE_VOTES = replace(CENTERED_VOTES, adjacency=Adjacency.ADD_REMOVE)
ADD_REMOVE_REFUSED = "adjacency=add_remove: expected replace_one: a run with centered_votes"
REFUSED = [
    (
        "clip=3.0: expected no clip, but a clip_factor",
        lambda: replace(convex_plan(), aggregator=replace(CENTERED_VOTES, clip=3.0)),
    ),
    (
        "center.ndim=2: expected 0 or 1",
        lambda: replace(
            convex_plan(),
            aggregator=replace(CENTERED_VOTES, prevalence_share=0.0, center=CENTER_PER_QUERY),
        ),
    ),
    (
        "teacher=ConvexTeacher: expected no holders=",
        lambda: replace(convex_plan(), holders=4),
    ),
    (
        "aggregator=GNMax: expected centered_votes, or",
        lambda: replace(convex_plan(), aggregator=GNMax(noise_std=9)),
    ),
    (
        "aggregator=StableTopK: expected cen",
        lambda: replace(centered_plan(), aggregator=small_plan().aggregator),
    ),
    (
        "teacher.num_teachers=0: expected a whole number >= 1",
        lambda: replace(small_plan(), num_teachers=None),
    ),
    (
        ADD_REMOVE_REFUSED,
        lambda: replace(centered_plan(), aggregator=ADD_REMOVE_VOTES),
    ),
    (
        ADD_REMOVE_REFUSED,
        lambda: replace(centered_plan(), aggregator=ADD_REMOVE_VOTES, num_teachers=24),
    ),
    (
        "data.budget: expected teacher=kernel aggregator=centered_votes, with one",
        lambda: replace(plan_with_budget_classes(), num_teachers=20),
    ),
    (
        "data.budget=several: expected a budget that noise is solved for",
        lambda: replace(plan_with_budget_classes(), target_epsilon=None),
    ),
    (
        "data.budget=usual: expected a class of budgets={cautious}",
        lambda: replace(plan_with_budget_classes(), budgets={"cautious": 1.0}),
    ),
    (
        "data.budget=cautious: expected a number > 0, the epsilon of a group",
        lambda: replace(plan_with_budget_classes(), budgets=None),
    ),
    (
        "redraw=true: expected false beside data.budget",
        lambda: replace(plan_with_budget_classes(), redraw=True),
    ),
]


@pytest.mark.parametrize(("message", "make_plan"), REFUSED)
def test_an_impossible_plan_is_refused_before_a_charge(
    message: str, make_plan: Callable[[], Plan], tmp_path: Path
) -> None:
    """A plan that contradicts itself is refused with the expected message, and the ledger has no charge."""
    with pytest.raises(InvalidValue, match=re.escape(message)):
        train(make_plan(), output_dir=tmp_path / "run")
    assert not charges_beside(run_folder=tmp_path / "run")


def test_records_of_several_owners_count_so_that_each_owner_counts_once(tmp_path: Path) -> None:
    """A run on records that have a patient and a doctor as owners protects one owner of either kind by weights.

    The weights of an owner's records sum to at most 1. Records of different owners are linked in chains here, so that
    all of them form one group. Teachers that do not read weights are refused.
    """
    dataset = small_dataset()
    rows = np.arange(len(dataset.private))
    shared_records = SharedRecords.from_owners(
        owner_kinds=("patient", "doctor"), owner_numbers_of_kinds=[rows // 2, (rows + 1) // 2 % 50]
    )
    assert shared_records.weights is not None and shared_records.num_linked_groups == 1
    private = replace(dataset.private, group_ids=dataset.private.record_ids)
    dataset_of_shared_records = replace(dataset, private=private, shared=shared_records)
    report = train(
        replace(centered_plan(), load_dataset=lambda: dataset_of_shared_records),
        output_dir=tmp_path / "run",
    )
    assert report.privacy.unit.startswith(
        "one value of the column patient, or one of the column doctor"
    )
    plan = replace(small_plan(), load_dataset=lambda: dataset_of_shared_records)
    with refused_parameter(
        "data.group", value="[patient,doctor]", rule_words="linked records are 1 groups"
    ):
        train(plan, output_dir=tmp_path / "other")
    with refused_parameter("data.group", value="['patient', 'doctor']"):
        require_dataset(dataset_of_shared_records)


@pytest.mark.slow
def test_many_records_have_baselines_of_a_sample(
    in_rounds: Ended, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If there are too many private records, two baselines learn from a random sample of groups of them.

    The two are the student of the majority vote and the model of all records. The report says so, and the release has
    the same bytes.
    """
    rounds_folder, report_of_rounds = in_rounds
    monkeypatch.setattr("pate.run.record_sample.MAX_ROWS", 700)
    plan_with_sampled_baselines = replace(centered_plan(), all_records=None)
    report = train(plan_with_sampled_baselines, output_dir=tmp_path / "run")
    words = "a random sample of whole groups, 700 of 960 private records"
    assert report.sampled == {"majority_vote_student": words, "all_records_model": words}
    assert words in report.verdict.text
    assert (
        report.baselines.majority_vote_student != report_of_rounds.baselines.majority_vote_student
    )
    release = rounds_folder / "release" / "release.npz"
    assert (tmp_path / "run" / "release" / "release.npz").read_bytes() == release.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("all_records", "is_there"), [(False, False), (True, True)])
def test_the_setting_asks_for_baselines_of_all_records_or_of_none(
    all_records: bool, is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`all_records=true` computes two baselines from all records, however many there are.

    The two are the student of the majority vote and the model of all records. With `all_records=false` neither is
    computed, and the report has the reason.
    """
    monkeypatch.setattr("pate.run.record_sample.MAX_ROWS", 700)
    report = train(replace(centered_plan(), all_records=all_records), output_dir=tmp_path / "run")
    baselines = ("majority_vote_student", "all_records_model")
    assert report.sampled == {}
    assert [getattr(report.baselines, name) is not None for name in baselines] == [is_there] * 2
    assert all(
        ("all_records=false" in report.reason_without(name)) != is_there for name in baselines
    )


@pytest.mark.slow
def test_features_made_anew_in_each_round_leave_the_same_release(
    in_rounds: Ended, tmp_path: Path
) -> None:
    """With `scratch=false`, which computes the features anew in each round, the release has the same bytes."""
    rounds_folder, _ = in_rounds
    train(replace(centered_plan(), scratch=False), output_dir=tmp_path / "run")
    release = rounds_folder / "release" / "release.npz"
    assert (tmp_path / "run" / "release" / "release.npz").read_bytes() == release.read_bytes()
