"""The page, the picture and the console output of a comparison."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from pate.cli.compare import print_frontier
from pate.comparison import Frontier
from pate.comparison.page import _axis_limits, render_page
from tests.unit.report.test_page import Page, parsed_page

# Parameters of methods in words, with an epsilon each, for the page.
EPSILONS_AND_TEXTS_BY_METHOD = {"early@400": [(1.0, "noise_std 3"), (8.0, "noise_std <1>")]}


@pytest.mark.slow
def test_page_is_self_contained_and_escapes_names(frontier: Frontier) -> None:
    """The page loads nothing from elsewhere, and escapes HTML characters in names and parameters."""
    html = render_page(frontier, parameter_texts_by_method=EPSILONS_AND_TEXTS_BY_METHOD)
    parsed_page(html=html)
    assert "never<b>" not in html
    assert "noise_std &lt;1&gt;" in html
    assert not re.findall(r"#0[1-7]0[1-7]0[1-7]", html), "stand-in colors become variables"


@pytest.mark.slow
def test_tables_of_the_page_have_scores_and_goals(frontier: Frontier) -> None:
    """The tables of the page have the mean score of each method, and the standard deviation over several seeds.

    A method without scores is called out of reach. The goals are headings.
    """
    rows = Page(
        html=render_page(frontier, parameter_texts_by_method=EPSILONS_AND_TEXTS_BY_METHOD)
    ).texts_of(tag="tr")
    assert any(
        row.startswith("early (400)") and "0.300" in row and "0.550" in row and "±" not in row
        for row in rows
    )
    assert any(row.startswith("late (400)") and "0.200 ± 0.100" in row for row in rows)
    assert any(row.startswith("never<b> (400)") and row.count("out of reach") == 2 for row in rows)
    assert any("50% of the way (0.400)" in row and "80% of the way (0.520)" in row for row in rows)
    assert any(row.startswith("majority-vote student, 400 linear teachers") for row in rows)


def test_console_prints_scores_goals_and_warnings(frontier: Frontier, tmp_path: Path) -> None:
    """The console shows the best method at each epsilon and all scores.

    It names a method without scores with the reason, and states that no epsilon covers the whole comparison.
    """
    console = Console(file=io.StringIO(), width=160)
    print_frontier(frontier, folder=tmp_path, console=console)
    text = console.file.getvalue()
    assert text.startswith("Best micro-F1 at epsilon 1 early (2,000)")
    assert "0.200 ± 0.100" in text
    assert re.search(r"early +2,000 +0\.450 +0\.500", text), "one seed has no spread"
    assert "never<b> (400): out of reach at 2 epsilons: target_epsilon=1: expected more" in text
    assert "No epsilon covers this comparison. Each release has its own price" in text
    assert str(tmp_path / "comparison.csv") in text


def test_score_above_the_floor_is_called_better_without_a_higher_ceiling(
    frontier: Frontier,
) -> None:
    """The verdict calls a score of 0.450 better than a constant, although the model of all records is not.

    There are no goals in this case.
    """
    runs = [
        replace(run, micro_f1=0.15) if run.aggregator == "all_records_model" else run
        for run in frontier.runs
    ]
    low_frontier = replace(frontier, runs=tuple(runs))
    assert low_frontier.ceiling() <= low_frontier.floor()
    assert "with 0.450, better than a constant;" in low_frontier.verdict
    assert "no better" not in low_frontier.verdict
    assert "reachable" not in low_frontier.verdict
    for method_line in low_frontier.lines:
        for share_of_the_way in low_frontier.shares:
            assert low_frontier.cheapest(method_line, share=share_of_the_way) is None


def test_the_axis_contains_all_bars_and_stays_between_0_and_1(
    frontier: Frontier,
) -> None:
    """The vertical axis contains every score with its error bar, and does not leave the range of 0 to 1."""
    method_line = frontier.lines[0]
    line_near_0 = replace(
        method_line, points=(replace(method_line.points[0], mean=0.0005, std=0.0005),)
    )
    bottom, top = _axis_limits(
        method_lines=[line_near_0, *frontier.lines[1:]], scores_of_levels=(0.2, 0.6)
    )
    assert bottom == 0.0
    assert top == pytest.approx(0.648)
    line_with_long_bar = replace(
        method_line, points=(replace(method_line.points[0], mean=0.5, std=0.9),)
    )
    assert _axis_limits(method_lines=[line_with_long_bar], scores_of_levels=(0.2, 0.6)) == (
        0.0,
        1.0,
    )
