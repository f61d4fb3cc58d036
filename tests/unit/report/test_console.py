"""The output of a report on a terminal: scores, guarantee, warnings, and names with markup or control codes."""

import io
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pate.cli.monitor import ConsoleMonitor
from pate.report import Report, privacy_card
from pate.report.console import PlainConsole, print_lines, print_report
from pate.report.page import render_html
from pate.report.picture_arrays import PictureArrays
from pate.report.report import ReleaseSummary
from tests.e2e.small_run import without_pictures


def printed_report(report: Report, report_path: Path | None = None, width: int = 80) -> str:
    """Returns the text of a report on a terminal of `width` characters; `report_path` is printed if it is given."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, color_system=None)
    print_report(report, report_path=report_path, console=console)
    return buffer.getvalue()


def row_of_scores(text: str, model_name: str) -> list[str]:
    """Returns the cells behind the name of a model, in the one line that begins with the name."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(model_name)]
    return line.replace(model_name, "").split()


def test_six_models_by_five_metrics_the_guarantee_and_the_answers(report: Report) -> None:
    """The terminal shows six models by five metrics, epsilon rounded up, the answered queries and the report's path."""
    report_path = Path("/a/very/long/folder") / ("x" * 90) / "report.html"
    text = printed_report(report=report, report_path=report_path)
    scores_by_model = {
        "prior": "0.117 0.209 0.037 0.893 0.501",
        "best constant": "0.117 0.449 0.084 0.853 0.502",
        "private student": "0.314 0.384 0.254 0.914 0.654",
        "majority-vote student": "0.415 0.485 0.355 0.925 0.665",
        "true-label student": "0.516 0.586 0.456 0.936 0.676",
        "all-records model": "0.617 0.697 0.577 0.947 0.747",
    }
    for model, scores in scores_by_model.items():
        assert row_of_scores(text=text, model_name=model) == scores.split(), model
    assert text.startswith("Reached 39% of the reachable mean average precision")
    assert "epsilon <= 8.00 at delta = 1e-6 (replace_one, unit: one family of glosses)" in text
    assert "7.99" not in text
    assert "answered: 3 of 6 queries (50.0%)" in text.splitlines()
    assert f"report: {report_path}" in text.splitlines()  # on one line, however narrow the terminal


def test_warnings_are_printed_only_if_they_apply(report: Report) -> None:
    """Warnings on seeds, synthetic data, missing answers, and a large or infinite epsilon are printed where they apply.

    The usual run has none of these warnings.
    """
    usual = printed_report(report=report)
    assert "epsilon 3.66 as the paper accounts; not a bound" in usual
    privacy = report.privacy
    for unusual_report, line in (
        (
            replace(report, privacy=replace(privacy, noise_seeded=True)),
            "seeded noise protects nobody who knows the",
        ),
        (
            replace(
                report,
                release=replace(
                    report.release,
                    num_answered=0,
                    answer_rate=0.0,
                    label_accuracy=None,
                    micro_f1=None,
                ),
            ),
            "the student learned nothing, as no query was",
        ),
        (
            replace(report, data=replace(report.data, real=False)),
            "synthetic data: shows that the pipeline works and",
        ),
        (replace(report, data=replace(report.data, real=False)), "wordnet (synthetic)"),
        (
            replace(report, privacy=replace(privacy, epsilon=math.inf)),
            "no guarantee: epsilon is infinite",
        ),
        (
            replace(report, privacy=replace(privacy, epsilon=10.5)),
            "epsilon above 10 promises one person little",
        ),
    ):
        assert line not in usual
        assert line in printed_report(report=unusual_report)
    assert "paper" not in printed_report(
        report=replace(report, privacy=replace(privacy, paper_epsilon=None))
    )
    assert (
        row_of_scores(
            text=printed_report(report=replace(report, student=None)), model_name="private student"
        )
        == ["-"] * 5
    )


def test_markup_and_marks_of_tables_in_names_are_printed_as_text(report: Report) -> None:
    """Names with markup of the console are printed as text.

    A broken bar (¦), which would separate two cells of a table, becomes a bar (|), and a line break becomes a space.
    """
    privacy = replace(report.privacy, unit="[red]one record[/red]", mechanism="[bold]m")
    student_verdict = replace(report.verdict, text="=a¦b<br>c\nd[/]\\")
    text = printed_report(
        report=replace(
            report,
            privacy=privacy,
            verdict=student_verdict,
            data=replace(report.data, name="[link]:bug:¦x"),
        )
    )
    assert text.startswith("=a|b<br>c d[/]\\\n")
    assert "[red]one record[/red]" in text and "[bold]m" in text and "[link]:bug:|x (real)" in text


def test_control_codes_in_names_have_no_effect_on_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A name with control codes is escaped in lines, tables, progress bars and styled text, also with colors."""
    hostile_name = "flu\x1b[2J\u202e\x9b"
    name_with_shown_control_codes = r"flu\x1b[2J\u202e\x9b"
    output = io.StringIO()
    console = PlainConsole(
        file=output, force_terminal=True, color_system=None, width=120, legacy_windows=False
    )
    table = Table()
    table.add_column(header=hostile_name)
    table.add_row(Text(hostile_name), hostile_name)
    for cell in (Text(hostile_name), hostile_name, table):
        console.print(cell)
    monitor = ConsoleMonitor(console)
    with monitor.stage(hostile_name, total=2) as advance:
        advance(1, note=hostile_name)
    monitor.say(hostile_name)
    console_text = re.sub(r"\x1b\[(\?25[lh]|\d*[AK])", "", output.getvalue())  # what a bar moves
    assert console_text.replace("\r", "").replace("\n", "").isprintable()
    assert console_text.count(name_with_shown_control_codes) >= 5
    assert console_text.count(r"flu\x1") >= 7  # a table cuts what is wider than it was measured
    print_lines(hostile_name)
    assert capsys.readouterr().out == f"{name_with_shown_control_codes}\n"
    colored_output = io.StringIO()
    colored_console = PlainConsole(
        file=colored_output, force_terminal=True, color_system="standard"
    )
    colored_console.print(Text("x\x1b[0m", style="bold"))
    assert colored_output.getvalue() == "\x1b[1mx\\x1b[0m\x1b[0m\n"


PAYS = "pays: plain composition costs 21.77 instead of 8.00 for the queries that were asked, with the same noise"
DOES_NOT = "does not pay: plain composition costs less, 3.10 instead of 8.00"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon_of_plain_composition", "verdict"),
    [(21.7651, PAYS), (3.0912, DOES_NOT), (math.inf, "pays")],
)
def test_every_output_states_whether_target_charging_was_cheaper(
    report: Report, picture_arrays: PictureArrays, epsilon_of_plain_composition: float, verdict: str
) -> None:
    """Terminal, page and card of a session say whether it costs less than plain composition, and count its hits.

    A session charges only its hits, which are answers in a target set.
    """
    session_report = replace(
        report,
        privacy=replace(
            report.privacy,
            epsilon=7.9991,
            target_hits=5,
            plain_epsilon=epsilon_of_plain_composition,
        ),
        release=ReleaseSummary(
            num_queries=6,
            num_answered=3,
            answer_rate=0.5,
            label_accuracy=0.9,
            micro_f1=0.6,
            num_hits=2,
            remaining_hits=3,
            num_abstained=1,
            num_asked=6,
        ),
    )
    assert session_report.privacy.charging_sentence.startswith(verdict)
    text = printed_report(report=session_report, width=400)
    with without_pictures():
        page = render_html(session_report, picture_arrays)
    num_charged_hits = 2
    card = privacy_card(
        session_report.privacy,
        dataset="clinic",
        num_answered=3,
        num_labels=4,
        num_teachers=400,
        num_hits=num_charged_hits,
    )
    hits = "2 hits, 3 remaining, 1 abstentions; 6 of 6 queries asked"
    assert f"target charging {verdict}" in text and f"hits: {hits}" in text
    assert verdict in card and "| hits | 2 |" in card
    assert verdict in page and hits in page
    assert Report.from_json(session_report.to_json()) == session_report


def test_the_terminal_counts_groups_and_explains_missing_scores(
    report: Report,
) -> None:
    """The terminal counts private groups if their number differs from that of records.

    The reason is printed if a model has no scores.
    """
    assert "; 62,115 private records\n" in printed_report(report=report)
    report_with_groups = replace(report, data=replace(report.data, num_groups=1234))
    assert "62,115 private records of 1,234 groups\n" in printed_report(
        report=report_with_groups, width=200
    )
    report_of_single_records = replace(report, data=replace(report.data, num_groups=62115))
    assert "; 62,115 private records\n" in printed_report(report=report_of_single_records)
    baselines = replace(report.baselines, all_records_model=None)
    report_without_model = replace(
        report, baselines=baselines, left_out={"all_records_model": "all_records=false"}
    )
    assert "all-records model: not trained, as all_records=false" in printed_report(
        report=report_without_model
    )
