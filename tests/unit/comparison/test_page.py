"""The page, the picture and the console: self-contained, escaped, and they say what no epsilon covers."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from pate.cli.compare import print_frontier
from pate.comparison import Frontier
from pate.comparison.page import _limits, render_page
from tests.unit.report.test_page import Page, parsed_page

PARAMETERS = {"early@400": [(1.0, "noise_std 3"), (8.0, "noise_std <1>")]}


@pytest.mark.slow
def test_page_is_self_contained_and_escapes_names(frontier: Frontier) -> None:
    """The page loads nothing from elsewhere, and names and parameters with HTML characters are
    escaped.
    """
    html = render_page(frontier, parameters=PARAMETERS)
    parsed_page(html=html)
    assert "never<b>" not in html
    assert "noise_std &lt;1&gt;" in html
    assert not re.findall(r"#0[1-7]0[1-7]0[1-7]", html), "stand-in colors become variables"


@pytest.mark.slow
def test_tables_hold_scores_goals_and_what_is_out_of_reach(frontier: Frontier) -> None:
    """The page's tables have a mean, with its deviation for several seeds, the goals, and "out of
    reach" for a method without scores.
    """
    rows = Page(render_page(frontier, parameters=PARAMETERS)).texts(tag="tr")
    assert any(
        row.startswith("early (400)") and "0.300" in row and "0.550" in row and "±" not in row
        for row in rows
    )
    assert any(row.startswith("late (400)") and "0.200 ± 0.100" in row for row in rows)
    assert any(row.startswith("never<b> (400)") and row.count("out of reach") == 2 for row in rows)
    assert any("50% of the way (0.400)" in row and "80% of the way (0.520)" in row for row in rows)
    assert any(row.startswith("majority-vote student, 400 linear teachers") for row in rows)


def test_console_prints_scores_goals_and_warnings(frontier: Frontier, tmp_path: Path) -> None:
    """The console shows the best method at each epsilon, the scores, the goals, and a method
    without scores as out of reach, with its reason.

    It states that no epsilon covers the whole comparison.
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
    """The model of all records scores below the best constant, so there are no goals.

    The verdict still calls a score of 0.450 better than a constant.
    """
    runs = [
        replace(run, micro_f1=0.15) if run.aggregator == "all_records_model" else run
        for run in frontier.runs
    ]
    low = replace(frontier, runs=tuple(runs))
    assert low.ceiling() <= low.floor()
    said = low.verdict
    assert (
        "with 0.450, better than a constant;" in said
        and "no better" not in said
        and "reachable" not in said
    )
    assert {low.cheapest(line, share) for line in low.lines for share in low.shares} == {None}


def test_the_axis_holds_every_score_with_its_bar_and_nothing_outside_of_0_to_1(
    frontier: Frontier,
) -> None:
    """The limits of the vertical axis contain every score with its error bar and never leave the
    range of 0 to 1.
    """
    late = frontier.lines[0]
    near = replace(late, points=(replace(late.points[0], mean=0.0005, std=0.0005),))
    assert _limits(lines=[near, *frontier.lines[1:]], shown_levels=(0.2, 0.6)) == (
        0.0,
        pytest.approx(0.648),
    )
    spread = replace(late, points=(replace(late.points[0], mean=0.5, std=0.9),))
    assert _limits(lines=[spread], shown_levels=(0.2, 0.6)) == (0.0, 1.0)
