"""A comparison in the folder of an earlier one: whose pages are replaced, and whose are kept under another name."""

from collections.abc import Sequence
from pathlib import Path

from pate.comparison import Frontier, Run, read_runs
from pate.comparison.earlier_pages import PAGES, keep_earlier_pages
from pate.comparison.runs import write_runs
from tests.unit.comparison.conftest import released, scored


def write_pages(folder: Path, runs: Sequence[Run]) -> None:
    """Writes the table of runs, and the other pages with the name of the first run's method."""
    write_runs(folder / "comparison.csv", runs)
    for name in PAGES[1:]:
        (folder / name).write_text(runs[0].aggregator)


def names_of_files(folder: Path) -> set[str]:
    """Returns the names of the files in a folder."""
    return {path.name for path in folder.iterdir()}


def test_a_selection_that_has_all_of_the_earlier_one_replaces_it_without_a_word(
    tmp_path: Path,
) -> None:
    """The new runs have every method and epsilon of the earlier ones: nothing is kept, and no
    message is returned.
    """
    earlier = [
        released(name="votes", epsilon=1.0, micro_f1=0.4),
        released(name="peeling", epsilon=1.0, micro_f1=None, seed=None, note="out of reach"),
    ]
    assert keep_earlier_pages(tmp_path, runs=earlier) == ""
    write_pages(folder=tmp_path, runs=earlier)
    more = [
        released(name, epsilon, micro_f1=0.4, seed=seed)
        for name in ("votes", "peeling")
        for epsilon in (1.0, 8.0)
        for seed in (0, 1)
    ]
    assert keep_earlier_pages(tmp_path, runs=more) == ""
    assert names_of_files(folder=tmp_path) == set(PAGES)


def test_pages_of_another_selection_are_kept_and_named(tmp_path: Path) -> None:
    """The earlier pages have a method that the new runs lack: they are renamed with a number, and
    the message names the method.

    A table of another version is kept in the same way.
    """
    for number, name in enumerate(("votes", "peeling"), start=1):
        write_pages(folder=tmp_path, runs=[released(name, epsilon=1.0, micro_f1=0.4)])
        line = keep_earlier_pages(
            tmp_path, runs=[released(name="joint", epsilon=1.0, micro_f1=0.5)]
        )
        assert (
            f"are of another selection ({name}); they are kept as comparison-{number}.csv, " in line
        )
        assert [run.aggregator for run in read_runs(tmp_path / f"comparison-{number}.csv")] == [
            name
        ]
        assert (tmp_path / f"frontier-{number}.html").read_text() == name
    assert names_of_files(folder=tmp_path).isdisjoint(PAGES)
    (tmp_path / "comparison.csv").write_text("of another version")
    assert "comparison-3.csv" in keep_earlier_pages(
        tmp_path, runs=[released(name="joint", epsilon=1.0, micro_f1=0.5)]
    )


def test_methods_with_other_teachers_or_another_student_than_most_are_named() -> None:
    """One method has kernel teachers and a low-rank student where most have linear ones: `recipes`
    has one sentence about it.

    A method without teachers is not mentioned.
    """
    same = [released(name, epsilon=1.0, micro_f1=0.4) for name in ("votes", "peeling")]
    other = released(
        name="centered_votes",
        epsilon=1.0,
        micro_f1=0.5,
        teacher="kernel",
        student="low_rank",
        num_teachers=99,
    )
    plain = released(
        name="dp_gd", epsilon=1.0, micro_f1=0.5, teacher=None, student=None, num_teachers=None
    )
    levels = [
        scored(name="all_records_model", micro_f1=0.6),
        scored(name="prior", micro_f1=0.2),
        scored(name="best_constant", micro_f1=0.2),
    ]
    frontier = Frontier(runs=(*levels, *same, other, plain), metric="micro_f1")
    assert frontier.recipe_warnings == [
        "centered_votes (99) has kernel teachers and a low_rank student, "
        "where most here have linear teachers and a linear student: it is compared with these, too"
    ]
    assert Frontier(runs=(*levels, *same, plain), metric="micro_f1").recipe_warnings == []
