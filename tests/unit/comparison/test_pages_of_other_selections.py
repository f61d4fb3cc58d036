"""Pages of an earlier comparison in the same folder are replaced, or kept under other names."""

from collections.abc import Sequence
from pathlib import Path

from pate.comparison import Frontier, Run, read_runs
from pate.comparison.earlier_pages import PAGES, keep_earlier_pages
from pate.comparison.runs import write_runs
from tests.unit.comparison.conftest import private_run, run_with_scores


def write_pages(comparison_folder: Path, runs: Sequence[Run]) -> None:
    """Writes the table of runs, and stand-ins of the other pages that hold the method of the first run."""
    write_runs(comparison_folder / "comparison.csv", runs=runs)
    for file_name in PAGES[1:]:
        (comparison_folder / file_name).write_text(runs[0].aggregator)


def names_of_files(folder: Path) -> set[str]:
    """Returns the names of the files in a folder."""
    return {path.name for path in folder.iterdir()}


def test_pages_are_replaced_if_all_their_methods_are_compared_again(tmp_path: Path) -> None:
    """No earlier page is kept if the new runs have every method and epsilon of the earlier runs."""
    earlier_runs = [
        private_run(method_name="votes", epsilon=1.0, micro_f1=0.4),
        private_run(
            method_name="peeling", epsilon=1.0, micro_f1=None, seed=None, note="out of reach"
        ),
    ]
    assert keep_earlier_pages(comparison_folder=tmp_path, comparison_runs=earlier_runs) == ""
    write_pages(comparison_folder=tmp_path, runs=earlier_runs)
    more_runs = [
        private_run(method_name=name, epsilon=epsilon, micro_f1=0.4, seed=seed)
        for name in ("votes", "peeling")
        for epsilon in (1.0, 8.0)
        for seed in (0, 1)
    ]
    assert keep_earlier_pages(comparison_folder=tmp_path, comparison_runs=more_runs) == ""
    assert names_of_files(folder=tmp_path) == set(PAGES)


def test_pages_of_another_selection_are_kept_and_named(tmp_path: Path) -> None:
    """Earlier pages with a method that the new runs lack are renamed with a number, and the message names the method.

    A table of another version is kept in the same way.
    """
    for number, name in enumerate(("votes", "peeling"), start=1):
        write_pages(
            comparison_folder=tmp_path,
            runs=[private_run(method_name=name, epsilon=1.0, micro_f1=0.4)],
        )
        message = keep_earlier_pages(
            comparison_folder=tmp_path,
            comparison_runs=[private_run(method_name="joint", epsilon=1.0, micro_f1=0.5)],
        )
        assert (
            f"are of another selection ({name}); they are kept as comparison-{number}.csv, "
            in message
        )
        assert [run.aggregator for run in read_runs(tmp_path / f"comparison-{number}.csv")] == [
            name
        ]
        assert (tmp_path / f"frontier-{number}.html").read_text() == name
    assert names_of_files(folder=tmp_path).isdisjoint(PAGES)
    (tmp_path / "comparison.csv").write_text("of another version")
    assert "comparison-3.csv" in keep_earlier_pages(
        comparison_folder=tmp_path,
        comparison_runs=[private_run(method_name="joint", epsilon=1.0, micro_f1=0.5)],
    )


def test_methods_with_other_teachers_or_another_student_than_most_are_named() -> None:
    """A method with kernel teachers and a low-rank student gets a warning if most methods have linear ones.

    A method without teachers gets no warning.
    """
    linear_runs = [
        private_run(method_name=name, epsilon=1.0, micro_f1=0.4) for name in ("votes", "peeling")
    ]
    kernel_run = private_run(
        method_name="centered_votes",
        epsilon=1.0,
        micro_f1=0.5,
        teacher="kernel",
        student="low_rank",
        num_teachers=99,
    )
    run_without_teachers = private_run(
        method_name="dp_gd",
        epsilon=1.0,
        micro_f1=0.5,
        teacher=None,
        student=None,
        num_teachers=None,
    )
    baselines = [
        run_with_scores(name="all_records_model", micro_f1=0.6),
        run_with_scores(name="prior", micro_f1=0.2),
        run_with_scores(name="best_constant", micro_f1=0.2),
    ]
    frontier = Frontier(
        runs=(*baselines, *linear_runs, kernel_run, run_without_teachers), metric="micro_f1"
    )
    assert frontier.recipe_warnings == [
        "centered_votes (99) has kernel teachers and a low_rank student, "
        "where most here have linear teachers and a linear student: it is compared with these, too"
    ]
    linear_frontier = Frontier(
        runs=(*baselines, *linear_runs, run_without_teachers), metric="micro_f1"
    )
    assert linear_frontier.recipe_warnings == []
