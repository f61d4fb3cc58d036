"""Commands of the reproductions on tiny inputs: tables, files, and mistakes in one line with exit code 2."""

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reproductions.counts import check_ins_look_alike, sparse_histogram
from reproductions.stable_top_k import exp1, exp2
from reproductions.top_k import error_curves
from reproductions.top_k.contender import FAMILIES
from reproductions.top_k.grid import RecallRow, SelectionGrid

Command = Callable[[list[str]], None]


def quick_arguments(arguments: list[str], folder: Path) -> list[str]:
    """Returns the arguments of a command, with three repeats and with files that go to a folder."""
    return [*arguments, "--repeats", "3", "--output-dir", str(folder)]


def rows_of(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a CSV file, each as a dictionary from the name of a column to its text."""
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture
def check_ins(tmp_path: Path) -> Path:
    """Returns a file of check-ins at six places, each with half as many visitors as the one before, rounded down."""
    path = tmp_path / "check_ins.txt"
    visits = [(user, place) for place in range(6) for user in range(60 >> place)]
    path.write_text(
        "".join(f"{user}\t2010-10-17T01:48:53Z\t39.7\t-104.9\tp{place}\n" for user, place in visits)
    )
    return path


@pytest.mark.slow
def test_exp1_on_check_ins_of_the_user(
    tmp_path: Path, check_ins: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Experiment 1 reads a user's check-ins, and writes a table and a picture.

    Each row costs at most its epsilon. At epsilon 900 every mechanism finds the true top 2.
    """
    arguments = [
        "--data",
        "brightkite",
        "--path",
        str(check_ins),
        "--k",
        "2",
        "--epsilon",
        "0.5",
        "900",
    ]
    exp1.main(quick_arguments(arguments, folder=tmp_path))
    printed = capsys.readouterr().out
    assert "brightkite (real): 6 items; 60 users" in printed
    assert "no epsilon covers" in printed
    rows = rows_of(path=tmp_path / "exp1.csv")
    assert len(rows) == 2 * 2 * len(FAMILIES)
    assert {float(row["recall_mean"]) for row in rows if row["epsilon"] == "900.0"} == {1.0}
    assert all(float(row["sound_epsilon"]) <= float(row["epsilon"]) * (1 + 1e-9) for row in rows)
    assert (tmp_path / "exp1.svg").read_text().startswith("<?xml")


@pytest.mark.slow
def test_exp2_prices_all_days_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Experiment 2 prices two days as two releases, and marks the paper's formula for stable top-k as false."""
    monkeypatch.setattr(
        exp2,
        "sparse_histogram",
        lambda least=0: sparse_histogram(num_items=40, num_counts=9, most=999, least=least),
    )
    arguments = "--num-days 2 --k 3 --epsilon 1 --sparse-k 5 --mechanisms peeling stable"
    exp2.main(quick_arguments(arguments.split(), folder=tmp_path))
    printed = capsys.readouterr().out
    assert "state cases look-alike (synthetic)" in printed
    assert "2 days share epsilon" in printed
    assert {row["releases"] for row in rows_of(path=tmp_path / "exp2_days.csv")} == {"2"}
    stable = rows_of(path=tmp_path / "exp2_prices.csv")[1]
    assert float(stable["paper"]) < float(stable["add_remove"]) <= 1 < float(stable["replace_one"])
    assert stable["paper_is"] == "false"
    assert len({row["data"] for row in rows_of(path=tmp_path / "exp2_sparse.csv")}) == 2


@pytest.mark.slow
def test_curves_have_quartiles_of_three_measures(tmp_path: Path, check_ins: Path) -> None:
    """Error curves have ordered quartiles of three measures of how far the picked counts are from the largest.

    There are curves for two mechanisms, two k and two adjacencies.
    """
    arguments = [
        "--data",
        "gowalla",
        "--path",
        str(check_ins),
        "--k",
        "1",
        "3",
        "--mechanisms",
        "joint",
        "canonical",
    ]
    error_curves.main(quick_arguments(arguments, folder=tmp_path))
    rows = rows_of(path=tmp_path / "error_curves.csv")
    assert len(rows) == 2 * 2 * 2 * 3
    assert all(float(row["lower"]) <= float(row["median"]) <= float(row["upper"]) for row in rows)


def test_a_cell_does_not_depend_on_other_cells() -> None:
    """A mechanism has the same scores alone as beside others, and other scores with another seed."""
    count_data = check_ins_look_alike(num_places=30, num_users=900)

    joint_grid = SelectionGrid(epsilons=[1.0], repeats=20, names=["joint"], ks=[6])

    def make_recall_rows(grid: SelectionGrid) -> list[RecallRow]:
        """Returns a row for each cell of a grid: a mechanism with one k, one epsilon and one adjacency."""
        return [
            RecallRow.from_scores(cell, scores=scores_of_repeats)
            for cell, scores_of_repeats in grid.cells(count_data)
        ]

    rows_of_joint_mechanism = make_recall_rows(joint_grid)
    rows_of_both_mechanisms = make_recall_rows(
        replace(joint_grid, names=["peeling", "joint"], ks=[2, 6])
    )
    assert all(row in rows_of_both_mechanisms for row in rows_of_joint_mechanism)
    reseeded_rows = make_recall_rows(replace(joint_grid, seed=1))
    assert [row.recall_mean for row in reseeded_rows] != [
        row.recall_mean for row in rows_of_joint_mechanism
    ]


@pytest.mark.parametrize(
    ("main", "arguments", "message"),
    [
        (
            exp1.main,
            ["--data", "gowalla"],
            "path=None: expected --path to your copy of the gowalla check-ins",
        ),
        (
            exp1.main,
            ["--data", "sparse", "--path", "no.txt"],
            "path=no.txt: expected none with data=sparse",
        ),
        (
            exp1.main,
            ["--data", "look_alike", "--epsilon", "0"],
            "epsilon=0.0: expected a number > 0",
        ),
        (
            exp1.main,
            ["--data", "look_alike", "--k", "99999"],
            "k=99999: expected below the number of items",
        ),
        (exp2.main, ["--path", "no.csv"], "path=no.csv: expected a file"),
        (exp2.main, ["--first-day", "2020-11-01"], "first_day=2020-11-01: expected a file, --path"),
        (
            exp2.main,
            ["--sparse-k", "15000"],
            "sparse_k=15000: expected below the number of items, 15000",
        ),
        (
            error_curves.main,
            ["--data", "foursquare", "--path", "no.txt"],
            "path=no.txt: expected a file",
        ),
        (
            error_curves.main,
            ["--data", "sparse", "--epsilon", "1", "2"],
            "epsilon=[1.0, 2.0]: expected one",
        ),
    ],
)
def test_mistakes_are_one_line(
    main: Command,
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A command with impossible arguments ends with exit code 2 and the expected line."""
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, "--output-dir", str(tmp_path)])
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1
