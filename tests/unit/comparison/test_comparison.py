"""Whole comparisons on a small data set: their tables and pages, interruption and repetition, and refusals."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

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
from pate.comparison import Frontier, Method, PATEMethod, Run, compare, read_runs
from pate.comparison.alternatives import AllRecords
from pate.comparison.trial import Trial
from pate.data import Dataset
from pate.models import ConvexTeacher, KernelTeacher, LowRankStudent, StackedEngine, Voter
from pate.run.train import train
from tests.e2e.small_run import (
    NUM_LABELS,
    NUM_QUERIES,
    NUM_TEACHERS,
    SilentMonitor,
    small_dataset,
    small_plan,
    without_pictures,
)
from tests.refusals import ANY, refused_parameter
from tests.unit.comparison.conftest import VOTES, pate_method, small_comparison_plan

pytestmark = pytest.mark.slow
# An aggregator whose failures use up delta.
HOPELESS = StableTopK(selection_scale=4.0, test_std=6.0, failure_prob=1e-3)
# An aggregator that answers in rounds.
CHECKED = NotPriorTopK(
    prior_scale=3.0, prior_margin=-5.0, first_queries=10, target_hits=30, selection_scale=3.0, table_order=4.0,
    table_budget=0.5, failure_prob=1e-9, round_size=10,
)  # fmt: skip


def run_comparison(
    output_folder: Path,
    methods: tuple[Method, ...] = (),
    *,
    load_dataset: Callable[[], Dataset] = small_dataset,
    num_queries: int = NUM_QUERIES,
    target_delta: float = 1e-5,
    epsilons: tuple[float, ...] = (5.0, 50.0),
    seeds: tuple[int, ...] = (0, 1),
    ensemble_seed: int = 0,
    name: str = "small",
) -> Frontier:
    """Runs a small comparison, writes its files to `output_folder`, and returns its frontier, the scores by epsilon.

    `ensemble_seed` is the seed of the teachers.
    """
    comparison_plan = small_comparison_plan(
        methods,
        load_dataset=load_dataset,
        num_queries=num_queries,
        target_delta=target_delta,
        epsilons=epsilons,
        seeds=seeds,
        ensemble_seed=ensemble_seed,
        name=name,
    )
    return compare(comparison_plan, output_dir=output_folder, monitor=SilentMonitor())


@pytest.fixture(scope="module")
def finished_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of a comparison of six methods at two epsilons and two seeds."""
    comparison_folder = tmp_path_factory.mktemp("comparison") / "run"
    compared_methods = (
        pate_method(name="votes", aggregator=VOTES),
        pate_method(name="votes", aggregator=VOTES, num_teachers=12),
        pate_method(name="hopeless", aggregator=HOPELESS),
        pate_method(name="all", aggregator=FixedTopK(k=99, epsilon=1.0)),
        pate_method(name="gnmax", aggregator=GNMax(noise_std=1.0)),
        pate_method(name="checked", aggregator=CHECKED),
    )
    run_comparison(output_folder=comparison_folder, methods=compared_methods)
    return comparison_folder


def test_one_row_a_run_and_baselines_without_epsilon(finished_folder: Path) -> None:
    """The table has six rows of baselines without an epsilon, and then those of the methods.

    Two methods with the name `votes` become `votes` and `votes@12`, by their numbers of teachers. Both have a row for
    each of two epsilons and two seeds.
    """
    runs = read_runs(finished_folder / "comparison.csv")
    names_and_teacher_counts = [(run.aggregator, run.num_teachers) for run in runs]
    assert names_and_teacher_counts[:6] == [
        ("prior", None),
        ("best_constant", None),
        ("true_label_student", None),
        ("all_records_model", None),
        ("majority_vote_student", 24),
        ("majority_vote_student", 12),
    ]
    assert all(run.epsilon is None and run.micro_f1 is not None for run in runs[:6])
    assert (
        names_and_teacher_counts.count(("votes", 24))
        == names_and_teacher_counts.count(("votes@12", 12))
        == 4
    )
    for run in runs[6:14]:
        assert run.num_answered == run.num_queries == NUM_QUERIES
        assert run.adjacency == "replace_one"
        assert 0 < run.priced_epsilon <= run.epsilon * (1 + 1e-9)
        assert None not in (
            run.accuracy,
            run.micro_f1,
            run.label_accuracy,
            run.mean_average_precision,
        )


def test_the_page_states_the_unit_of_privacy(finished_folder: Path) -> None:
    """The page says that the unit of privacy is one group of records."""
    text = "the unit of privacy is one group of records, those with one number in group_ids, "
    assert text in (finished_folder / "frontier.html").read_text()


def test_method_that_is_not_trained_has_a_row_with_the_reason(finished_folder: Path) -> None:
    """A method whose failure probabilities use up delta, or whose k exceeds the number of labels, has no scores.

    Its row has the reason as the note. Rows of `gnmax` and `checked`, which are trained, have no note.
    """
    runs = {run.aggregator: run for run in read_runs(finished_folder / "comparison.csv")}
    hopeless_run = runs["hopeless"]
    assert "uses up target_delta" in hopeless_run.note
    assert hopeless_run.micro_f1 is None
    assert hopeless_run.seed is None
    assert hopeless_run.priced_epsilon is None
    assert "k=99: expected at most" in runs["all"].note
    assert runs["gnmax"].note == ""
    assert runs["gnmax"].num_answered == NUM_QUERIES
    assert runs["checked"].note == ""


def test_a_comparison_leaves_a_private_folder_with_a_page_and_a_picture(
    finished_folder: Path,
) -> None:
    """The folder has mode 0700, a page, a picture of over 10,000 bytes, and no scratch folder.

    The page says that no epsilon covers the comparison.
    """
    assert finished_folder.stat().st_mode & 0o777 == 0o700
    assert "No epsilon covers this comparison" in (finished_folder / "frontier.html").read_text()
    assert (finished_folder / "frontier.png").stat().st_size > 10_000
    assert list(finished_folder.rglob("scratch")) == []


@pytest.mark.parametrize(
    ("teacher", "num_teachers"),
    [(KernelTeacher(), None), (ConvexTeacher(), 5)],
    ids=["kernel", "convex"],
)
def test_a_comparison_scores_centered_votes_as_a_single_run_does(
    teacher: Voter, num_teachers: int | None, tmp_path: Path
) -> None:
    """In a comparison with seed 4, centered votes have the price and micro-F1 of `train` with the same settings.

    The votes are those of kernel teachers, or of 5 convex teachers. The run with seed 5 has another mean average
    precision.
    """
    aggregator = CenteredVotes(noise_multiplier=1.0)
    student = LowRankStudent(num_directions=6)
    centered = replace(
        pate_method(name="centered", aggregator=aggregator),
        num_teachers=num_teachers,
        teacher=teacher,
        student=student,
    )
    run_comparison(
        output_folder=tmp_path / "compare",
        methods=(centered,),
        seeds=(4, 5),
        ensemble_seed=4,
        epsilons=(3.0,),
    )
    runs = read_runs(tmp_path / "compare" / "comparison.csv")
    run_of_seed_4, run_of_seed_5 = (run for run in runs if run.epsilon == 3)
    training_plan = replace(
        small_plan(),
        num_teachers=num_teachers,
        teacher=teacher,
        student=student,
        aggregator=aggregator,
        target_epsilon=3.0,
        seed=4,
    )
    with without_pictures():
        report = train(training_plan, output_dir=tmp_path / "train", monitor=SilentMonitor())
    assert run_of_seed_4.num_teachers == report.teachers.num_teachers
    assert run_of_seed_4.priced_epsilon == pytest.approx(report.privacy.epsilon, rel=1e-9)
    assert run_of_seed_4.micro_f1 == pytest.approx(report.student.micro_f1, abs=1e-9)
    assert run_of_seed_5.mean_average_precision != run_of_seed_4.mean_average_precision
    assert not (tmp_path / "compare" / "scratch").exists()


def test_a_second_call_trains_and_releases_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second call of a comparison returns the stored runs, although training and drawing are disabled.

    A call with fewer epsilons and seeds returns the matching runs. No file of a run or a calibration is rewritten.
    """

    def times_of_changes() -> dict[Path, int]:
        """Returns the time of the last change of each file of runs and calibrations, in nanoseconds."""
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}

    first = run_comparison(output_folder=tmp_path)
    first_times = times_of_changes()
    monkeypatch.setattr(StackedEngine, "train", None)
    monkeypatch.setattr(GaussianVotes, "draw", None)
    assert run_comparison(output_folder=tmp_path).runs == first.runs
    assert run_comparison(output_folder=tmp_path, epsilons=(50.0,), seeds=(1,)).runs == tuple(
        run for run in first.runs if run.is_baseline or (run.epsilon, run.seed) == (50.0, 1)
    )
    assert times_of_changes() == first_times


def test_a_stopped_comparison_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second call finishes a stopped comparison with the same table as a comparison that was not stopped.

    Ctrl-C stops the first call when it writes its fifth run, so that four are stored.
    """
    whole = run_comparison(output_folder=tmp_path / "whole")
    original_write = Trial.write
    num_writes = 0

    def write_or_stop(trial: Trial, seed: int, comparison_run: Run) -> Run:
        """Writes a run, but is interrupted at the fifth one."""
        nonlocal num_writes
        num_writes += 1
        if num_writes == 5:
            raise KeyboardInterrupt
        scored_run = comparison_run
        return original_write(trial, seed=seed, comparison_run=scored_run)

    monkeypatch.setattr(Trial, "write", write_or_stop)
    with pytest.raises(KeyboardInterrupt):
        run_comparison(output_folder=tmp_path / "killed")
    assert len(list((tmp_path / "killed" / "runs").glob("*.json"))) == 4
    assert run_comparison(output_folder=tmp_path / "killed").runs == whole.runs
    whole_table = (tmp_path / "whole" / "comparison.csv").read_bytes()
    assert (tmp_path / "killed" / "comparison.csv").read_bytes() == whole_table


def test_calibrations_do_not_depend_on_private_labels(tmp_path: Path) -> None:
    """Comparisons of two data sets whose private labels are opposite have equal calibration files."""

    def load_opposite_labels() -> Dataset:
        """Returns the small data set with all private labels inverted."""
        dataset = small_dataset()
        return replace(dataset, private=replace(dataset.private, labels=~dataset.private.labels))

    run_comparison(output_folder=tmp_path / "a", epsilons=(50.0,), seeds=(0,))
    run_comparison(
        output_folder=tmp_path / "b",
        epsilons=(50.0,),
        seeds=(0,),
        load_dataset=load_opposite_labels,
    )
    first, second = (
        sorted((tmp_path / name / "calibrations").glob("*.json")) for name in ("a", "b")
    )
    assert [path.name for path in first] == [path.name for path in second]
    assert [path.read_text() for path in first] == [path.read_text() for path in second]


def test_impossible_comparisons_are_refused_before_training(tmp_path: Path) -> None:
    """More queries than public records, more teachers than groups, and too small a delta are refused.

    So is a comparison without a method that has privacy. No ensemble is trained.
    """
    many_teachers = pate_method(name="votes", aggregator=VOTES, num_teachers=5000)
    with refused_parameter("num_queries", value=900):
        run_comparison(output_folder=tmp_path, num_queries=900)
    with refused_parameter("num_teachers", value=5000):
        run_comparison(output_folder=tmp_path, methods=(many_teachers,))
    with refused_parameter("target_delta", value=1e-20):
        run_comparison(output_folder=tmp_path, target_delta=1e-20)
    with refused_parameter("aggregators", value="[all_records]"):
        run_comparison(output_folder=tmp_path, methods=(AllRecords(name="all_records"),))
    assert not (tmp_path / "ensembles").exists()


def test_a_folder_of_other_settings_or_data_is_refused(tmp_path: Path) -> None:
    """A folder that holds a comparison refuses another one with other settings or with other public labels."""
    run_comparison(output_folder=tmp_path, epsilons=(50.0,), seeds=(0,))
    with refused_parameter("output_dir", value=ANY, rule_words="new folder or this run's own"):
        run_comparison(output_folder=tmp_path, name="other")

    def load_other_public_labels() -> Dataset:
        """Returns the small data set with all public labels absent."""
        dataset = small_dataset()
        no_labels = np.zeros((140, NUM_LABELS), dtype=bool)
        return replace(dataset, public=replace(dataset.public, labels=no_labels))

    with refused_parameter("data", value="another"):
        run_comparison(output_folder=tmp_path, load_dataset=load_other_public_labels)


def test_stored_runs_are_named_by_the_comparison_that_shows_them(tmp_path: Path) -> None:
    """Runs of `votes` with 24 teachers are shown as `votes@24` if a later comparison also has `votes` with 12."""
    few_teachers = pate_method(name="votes", aggregator=VOTES, num_teachers=12)
    many_teachers = pate_method(name="votes", aggregator=VOTES)

    def names_of_votes(methods: tuple[PATEMethod, ...]) -> set[str]:
        """Runs a comparison, and returns the names of its methods that begin with `votes`."""
        runs = run_comparison(output_folder=tmp_path, methods=methods, epsilons=(5.0,)).runs
        return {run.aggregator for run in runs if run.aggregator.startswith("votes")}

    assert names_of_votes(methods=(many_teachers,)) == {"votes"}
    assert names_of_votes(methods=(few_teachers, many_teachers)) == {
        "votes",
        f"votes@{NUM_TEACHERS}",
    }
