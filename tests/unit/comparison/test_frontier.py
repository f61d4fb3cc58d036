"""Means over seeds, goals, the cheapest epsilon of a goal, and the file comparison.csv, against values by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from pate.comparison import Frontier, Run, read_runs, write_runs
from pate.comparison.runs import METRIC_KEYS
from tests.refusals import ANY, refused_parameter


def test_mean_and_standard_deviation_over_seeds(frontier: Frontier) -> None:
    """Scores 0.1 and 0.3 of two seeds give a point with mean 0.2 and standard deviation 0.1.

    A method with one seed has no standard deviation.
    """
    line = frontier.lines[0]
    assert line.title == "late (400)"
    assert [point.epsilon for point in line.points] == [1.0, 8.0]
    assert line.points[0].mean == pytest.approx(0.2)
    assert line.points[0].std == pytest.approx(0.1)
    assert line.points[0].num_answered == 300
    assert frontier.lines[1].points[0].std is None, "one seed"
    assert frontier.has_spread
    runs_of_one_seed = tuple(run for run in frontier.runs if not run.seed)
    assert not replace(frontier, runs=runs_of_one_seed).has_spread


def test_the_cheapest_epsilon_of_each_goal(frontier: Frontier) -> None:
    """`Frontier.cheapest` is the smallest epsilon at which a method reaches a goal, or None.

    A goal is a share of the way from the score of the best constant (0.2) to the ceiling (0.6).
    """
    cheapest_epsilons = {
        line.title: [frontier.cheapest(line, share=share) for share in (0.5, 0.8)]
        for line in frontier.lines
    }
    assert cheapest_epsilons == {
        "late (400)": [None, None],
        "early (2,000)": [1.0, None],
        "early (400)": [8.0, 8.0],
        "never<b> (400)": [None, None],
    }


# The documented columns of comparison.csv, in their order.
DOCUMENTED_COLUMNS = [
    "aggregator",
    "adjacency",
    "epsilon",
    "delta",
    "accountant",
    "seed",
    "num_queries",
    "num_answered",
    "label_accuracy",
    "accuracy",
    "balanced_accuracy",
    "micro_f1",
    "macro_f1",
    "mean_average_precision",
]


def test_the_table_begins_with_the_documented_columns(frontier: Frontier, tmp_path: Path) -> None:
    """The first columns of comparison.csv are the documented ones, in their order, and each run is one line."""
    table_path = tmp_path / "comparison.csv"
    write_runs(table_path, runs=frontier.runs)
    lines = table_path.read_text().splitlines()
    assert lines[0].split(",")[: len(DOCUMENTED_COLUMNS)] == DOCUMENTED_COLUMNS
    assert len(lines) == 1 + len(frontier.runs)
    assert lines[1].startswith("prior,,,,,,600,,")
    assert lines[6].startswith("late,replace_one,1.0,1e-06,rdp,0,600,300,")
    assert set(METRIC_KEYS) <= set(DOCUMENTED_COLUMNS)


def test_runs_are_read_as_they_were_written(frontier: Frontier, tmp_path: Path) -> None:
    """Runs that are written to comparison.csv are read back equal."""
    table_path = tmp_path / "comparison.csv"
    write_runs(table_path, runs=frontier.runs)
    assert tuple(read_runs(table_path)) == frontier.runs


def test_file_that_is_no_comparison_is_refused(tmp_path: Path) -> None:
    """`read_runs` refuses a missing file, a file of other columns, and a text in place of a number."""
    with refused_parameter("comparison", value=ANY, rule_words="a comparison"):
        read_runs(tmp_path / "nothing.csv")
    other_path = tmp_path / "other.csv"
    other_path.write_text("a,b\n1,2\n")
    with refused_parameter("comparison", value=ANY, rule_words="the columns aggregator"):
        read_runs(other_path)
    run = Run(aggregator="gaussian_votes", num_queries=3)
    write_runs(other_path, runs=[run])
    other_path.write_text(other_path.read_text().replace(",3,", ",three,"))
    with refused_parameter("comparison.num_queries", value="three"):
        read_runs(other_path)


@pytest.mark.parametrize(
    "ending", [b"late,replace_one\n", b"late\0\n", b'"late', b"l\xe4te\n", b"1," * 99]
)
def test_damaged_row_of_the_table_is_refused(
    ending: bytes, frontier: Frontier, tmp_path: Path
) -> None:
    """`read_runs` refuses a file with a row of too few or too many cells, or with bytes that are not UTF-8."""
    table_path = tmp_path / "comparison.csv"
    write_runs(table_path, runs=frontier.runs)
    table_path.write_bytes(table_path.read_bytes() + ending)
    with refused_parameter("comparison", value=ANY, rule_words="in each row"):
        read_runs(table_path)
