"""Whole comparisons on a small data set: resumed, reused, the same as single runs; no method breaks the others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pate.aggregators import (
    CenteredVotes,
    FixedTopK,
    GaussianVotes,
    GNMax,
    NotPriorTopK,
    StableTopK,
)
from pate.comparison import Frontier, PATEMethod, Run, compare, read_runs
from pate.comparison.trial import Trial
from pate.models import ConvexTeacher, KernelTeacher, LowRankStudent, StackedEngine, Voter
from pate.run.train import train
from tests.e2e.small_run import (
    NUM_LABELS,
    NUM_QUERIES,
    NUM_TEACHERS,
    SilentMonitor,
    small_dataset,
    small_plan,
)
from tests.refusals import ANY, refused
from tests.unit.comparison.conftest import VOTES, method, plan

pytestmark = pytest.mark.slow
HOPELESS = StableTopK(selection_scale=4.0, test_std=6.0, failure_prob=1e-3)
CHECKED = NotPriorTopK(
    prior_scale=3.0, prior_margin=-5.0, first_queries=10, target_hits=30, selection_scale=3.0, table_order=4.0,
    table_budget=0.5, failure_prob=1e-9, round_size=10,
)  # fmt: skip


def run_comparison(
    folder: Path,
    methods: tuple[PATEMethod, ...] = (),
    *,
    load_dataset: Callable[[], Any] = small_dataset,
    num_queries: int = NUM_QUERIES,
    target_delta: float = 1e-5,
    epsilons: tuple[float, ...] = (5.0, 50.0),
    seeds: tuple[int, ...] = (0, 1),
    ensemble_seed: int = 0,
    name: str = "small",
) -> Frontier:
    """Returns the frontier of a small comparison, whose files are written to `folder`."""
    comparison_plan = plan(
        methods,
        load_dataset=load_dataset,
        num_queries=num_queries,
        target_delta=target_delta,
        epsilons=epsilons,
        seeds=seeds,
        ensemble_seed=ensemble_seed,
        name=name,
    )
    return compare(comparison_plan, output_dir=folder, monitor=SilentMonitor())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a comparison of six methods at two epsilons and two seeds."""
    folder = tmp_path_factory.mktemp("comparison") / "run"
    methods = (
        method(name="votes", aggregator=VOTES),
        method(name="votes", aggregator=VOTES, num_teachers=12),
        method(name="hopeless", aggregator=HOPELESS),
        method(name="all", aggregator=FixedTopK(k=99, epsilon=1.0)),
        method(name="gnmax", aggregator=GNMax(noise_std=1.0)),
        method(name="checked", aggregator=CHECKED),
    )
    run_comparison(folder=folder, methods=methods)
    return folder


def test_one_row_a_run_and_baselines_without_epsilon(finished: Path) -> None:
    """The table has six rows of baselines without an epsilon, and then four rows of each method,
    one for each epsilon and seed.

    Two methods with the name `votes` become `votes` and `votes@12`, by their numbers of teachers.
    """
    runs = read_runs(finished / "comparison.csv")
    names = [(item.aggregator, item.num_teachers) for item in runs]
    untaught = ("prior", "best_constant", "true_label_student", "all_records_model")
    assert names[:6] == [
        *((name, None) for name in untaught),
        *(("majority_vote_student", T) for T in (24, 12)),
    ]
    assert all(item.epsilon is None and item.micro_f1 is not None for item in runs[:6])
    # no two methods share a name
    assert names.count(("votes", 24)) == names.count(("votes@12", 12)) == 4
    for item in runs[6:14]:
        assert (item.num_answered, item.num_queries, item.adjacency) == (
            NUM_QUERIES,
            NUM_QUERIES,
            "replace_one",
        )
        assert 0 < item.priced_epsilon <= item.epsilon * (1 + 1e-9)
        assert None not in (
            item.accuracy,
            item.micro_f1,
            item.label_accuracy,
            item.mean_average_precision,
        )


def test_the_page_says_what_its_epsilons_are_for(finished: Path) -> None:
    """The page states the unit of privacy."""
    words = "the unit of privacy is one group of records, those with one number in group_ids, "
    assert words in (finished / "frontier.html").read_text()


def test_method_that_is_not_trained_has_a_row_with_the_reason(finished: Path) -> None:
    """A method whose failures use up delta, or whose k exceeds the number of labels, has a row with
    this reason and no scores.

    The rows of other methods have no note.
    """
    runs = {item.aggregator: item for item in read_runs(finished / "comparison.csv")}
    assert "uses up target_delta" in runs["hopeless"].note
    assert (runs["hopeless"].micro_f1, runs["hopeless"].seed, runs["hopeless"].priced_epsilon) == (
        None,
        None,
        None,
    )
    assert "k=99: expected at most" in runs["all"].note
    assert runs["gnmax"].note == ""  # each teacher's votes are cut down to what it is priced for
    assert runs["gnmax"].num_answered == NUM_QUERIES
    assert runs["checked"].note == ""


def test_folder_is_the_owners_alone_and_its_page_is_there(finished: Path) -> None:
    """The folder has mode 0700, a page, a picture of over 10,000 bytes, and no scratch folder.

    The page says that no epsilon covers the comparison.
    """
    assert finished.stat().st_mode & 0o777 == 0o700
    assert "No epsilon covers this comparison" in (finished / "frontier.html").read_text()
    assert (finished / "frontier.png").stat().st_size > 10_000
    assert list(finished.rglob("scratch")) == []


@pytest.mark.parametrize(
    ("teacher", "num_teachers"), [(KernelTeacher(), None), (ConvexTeacher(), 5)]
)
def test_centered_votes_of_teachers_without_bits_are_those_of_the_training_command(
    teacher: Voter, num_teachers: int | None, tmp_path: Path
) -> None:
    """Centered votes of kernel teachers, or of 5 convex teachers, are compared at two seeds.

    The run with seed 4 has the price and scores of `train` with the same settings; the other seed
    has another score.
    """
    votes = CenteredVotes(noise_multiplier=1.0)
    student = LowRankStudent(num_directions=6)
    centered = replace(
        method(name="centered", aggregator=votes),
        num_teachers=num_teachers,
        teacher=teacher,
        student=student,
    )
    run_comparison(
        folder=tmp_path / "compare",
        methods=(centered,),
        seeds=(4, 5),
        ensemble_seed=4,
        epsilons=(3.0,),
    )
    first, second = [
        item for item in read_runs(tmp_path / "compare" / "comparison.csv") if item.epsilon == 3
    ]
    training_plan = replace(
        small_plan(),
        num_teachers=num_teachers,
        teacher=teacher,
        student=student,
        aggregator=votes,
        target_epsilon=3.0,
        seed=4,
    )
    report = train(training_plan, output_dir=tmp_path / "train", monitor=SilentMonitor())
    assert first.num_teachers == report.teachers.num_teachers
    assert first.priced_epsilon == pytest.approx(report.privacy.epsilon, rel=1e-9)
    assert first.micro_f1 == pytest.approx(report.student.micro_f1, abs=1e-9)
    assert second.mean_average_precision != first.mean_average_precision
    assert not (tmp_path / "compare" / "scratch").exists()


def test_a_second_call_trains_and_releases_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comparison is called again with training and drawing disabled: it returns the stored runs.

    A call with fewer epsilons and seeds returns the matching runs, and no file is rewritten.
    """
    first = run_comparison(folder=tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    monkeypatch.setattr(StackedEngine, "train", None)
    monkeypatch.setattr(GaussianVotes, "draw", None)
    assert run_comparison(folder=tmp_path).runs == first.runs
    assert run_comparison(folder=tmp_path, epsilons=(50.0,), seeds=(1,)).runs == tuple(
        item for item in first.runs if item.is_baseline or (item.epsilon, item.seed) == (50.0, 1)
    )
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == kept


def test_a_stopped_comparison_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fifth write of a comparison is interrupted; a second call finishes with the same table as
    a comparison without interruption.
    """
    whole = run_comparison(folder=tmp_path / "whole")
    write = Trial.write
    count = 0

    def stopped(trial: Trial, seed: int, run: Run) -> Run:
        nonlocal count
        count += 1
        if count == 5:
            raise KeyboardInterrupt
        return write(trial, seed, run=run)

    monkeypatch.setattr(Trial, "write", stopped)
    with pytest.raises(KeyboardInterrupt):
        run_comparison(folder=tmp_path / "killed")
    assert len(list((tmp_path / "killed" / "runs").glob("*.json"))) == 4
    assert run_comparison(folder=tmp_path / "killed").runs == whole.runs
    texts = [(tmp_path / name / "comparison.csv").read_bytes() for name in ("whole", "killed")]
    assert texts[0] == texts[1]


def test_calibration_does_not_depend_on_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparisons of two data sets whose private labels are opposite have equal calibration files."""

    def other() -> Any:
        data = small_dataset()
        return replace(data, private=replace(data.private, labels=~data.private.labels))

    run_comparison(folder=tmp_path / "a", epsilons=(50.0,), seeds=(0,))
    run_comparison(folder=tmp_path / "b", epsilons=(50.0,), seeds=(0,), load_dataset=other)
    first, second = (
        sorted((tmp_path / name / "calibrations").glob("*.json")) for name in ("a", "b")
    )
    assert [path.name for path in first] == [path.name for path in second]
    assert [path.read_text() for path in first] == [path.read_text() for path in second]


def test_impossible_comparisons_are_refused_before_training(tmp_path: Path) -> None:
    """More queries than public records, more teachers than groups, or too small a delta is refused
    before an ensemble is trained.
    """
    many_teachers = method(name="votes", aggregator=VOTES, num_teachers=5000)
    with refused("num_queries", value=900):
        run_comparison(folder=tmp_path, num_queries=900)
    with refused("num_teachers", value=5000):
        run_comparison(folder=tmp_path, methods=(many_teachers,))
    with refused("target_delta", value=1e-20):
        run_comparison(folder=tmp_path, target_delta=1e-20)
    assert not (tmp_path / "ensembles").exists()


def test_a_folder_of_other_settings_or_data_is_refused(tmp_path: Path) -> None:
    """A folder that holds a comparison refuses a second one with other settings or with other
    public labels.
    """
    run_comparison(folder=tmp_path, epsilons=(50.0,), seeds=(0,))
    with refused("output_dir", value=ANY, rule="new folder or this run's own"):
        run_comparison(folder=tmp_path, name="other")

    def other() -> Any:
        data = small_dataset()
        return replace(
            data, public=replace(data.public, labels=np.zeros((140, NUM_LABELS), dtype=bool))
        )

    with refused("data", value="another"):
        run_comparison(folder=tmp_path, load_dataset=other)


def test_kept_results_have_the_name_of_the_call_that_shows_them(tmp_path: Path) -> None:
    """Runs stored as `votes` are shown as `votes@24` in a later comparison that also has `votes`
    with 12 teachers.
    """
    few = method(name="votes", aggregator=VOTES, num_teachers=12)
    many = method(name="votes", aggregator=VOTES)
    runs = [
        run_comparison(folder=tmp_path, methods=methods, epsilons=(5.0,)).runs
        for methods in ((many,), (few, many))
    ]
    names = [
        {item.aggregator for item in found if item.aggregator.startswith("votes")} for found in runs
    ]
    assert names == [{"votes"}, {"votes", f"votes@{NUM_TEACHERS}"}]
