"""What every output says of a charged aggregator, and that it says nothing of others."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from pate.cli.run import ConsoleMonitor
from pate.report import Report, privacy_card
from pate.report.console import print_report
from pate.report.page import render_html
from pate.report.report import ReleaseSummary, RunFigures
from pate.report.tables import charging_verdict, hit_counts

PAYS = "pays: plain composition costs 21.77 instead of 8.00 for the queries that were asked, with the same noise"
DOES_NOT = "does not pay: plain composition costs less, 3.10 instead of 8.00"


def charged(report: Report, plain_epsilon: float) -> Report:
    return replace(
        report,
        privacy=replace(report.privacy, epsilon=7.9991, target_hits=5, plain_epsilon=plain_epsilon),
        release=ReleaseSummary(6, 3, 0.5, 0.9, 0.6, num_hits=2, remaining_hits=3, num_abstained=1, num_asked=6),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("plain_epsilon", "verdict"), [(21.7651, PAYS), (3.0912, DOES_NOT)])
def test_every_output_says_whether_it_paid(
    report: Report, figures: RunFigures, plain_epsilon: float, verdict: str
) -> None:
    run = charged(report, plain_epsilon)
    assert charging_verdict(run.privacy).startswith(verdict)
    out = io.StringIO()
    print_report(run, console=Console(file=out, width=400))
    card = privacy_card(run.privacy, dataset="x", num_answered=3, num_labels=4, num_teachers=400, num_hits=2)
    page = render_html(run, figures)
    hits = "2 hits, 3 remaining, 1 abstentions; 6 of 6 queries asked"
    assert f"target charging {verdict}" in out.getvalue()
    assert f"hits: {hits}" in out.getvalue()
    assert verdict in card
    assert "| hits | 2 |" in card
    assert verdict in page
    assert hits in page
    assert Report.from_json(run.to_json()) == run


def test_infinite_plain_composition_is_said_to_be_worse(report: Report) -> None:
    assert charging_verdict(charged(report, math.inf).privacy).startswith("pays")


@pytest.mark.slow
def test_other_aggregators_say_nothing_of_hits(report: Report, figures: RunFigures) -> None:
    assert charging_verdict(report.privacy) == hit_counts(report.release) == ""
    assert "target charging" not in render_html(report, figures).lower()


def test_the_last_note_of_a_stage_stays_on_its_line() -> None:
    out = io.StringIO()
    with ConsoleMonitor(Console(file=out, width=200)).stage("releasing labels", 10) as advance:
        advance(5, "1 hits, 4 remaining, epsilon 8.00")
        advance(10, "2 hits, 3 remaining, epsilon 8.00")
    assert out.getvalue().startswith("releasing labels: ")
    assert out.getvalue().endswith("(2 hits, 3 remaining, epsilon 8.00)\n")
