import io
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pate.cli.run import ConsoleMonitor, print_lines
from pate.report import Report
from pate.report.console import PlainConsole, print_report


def printed(report: Report, path: Path | None = None, width: int = 80) -> str:
    buffer = io.StringIO()
    print_report(report, path, console=Console(file=buffer, width=width, color_system=None))
    return buffer.getvalue()


def row(text: str, name: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.strip().startswith(name)]
    return line.replace(name, "").split()


def test_six_models_by_five_metrics(report: Report) -> None:
    text = printed(report)
    assert row(text, "prior") == ["0.117", "0.209", "0.037", "0.893", "0.501"]
    assert row(text, "best constant") == ["0.117", "0.449", "0.084", "0.853", "0.502"]
    assert row(text, "private student") == ["0.314", "0.384", "0.254", "0.914", "0.654"]
    assert row(text, "majority-vote student") == ["0.415", "0.485", "0.355", "0.925", "0.665"]
    assert row(text, "true-label student") == ["0.516", "0.586", "0.456", "0.936", "0.676"]
    assert row(text, "all-records model") == ["0.617", "0.697", "0.577", "0.947", "0.747"]
    assert text.startswith("Reached 39% of the reachable mean average precision")


def test_the_guarantee_is_rounded_up_and_complete(report: Report) -> None:
    text = printed(report)
    assert "epsilon <= 8.00 at delta = 1e-6 (replace_one, unit: one family of glosses)" in text
    assert "7.99" not in text


def test_what_is_odd_about_a_run_is_said_and_only_then(report: Report) -> None:
    usual = printed(report)
    assert "epsilon 3.66 as the paper accounts; not a bound" in usual
    privacy, none = report.privacy, {"num_answered": 0, "answer_rate": 0.0, "label_accuracy": None, "micro_f1": None}
    for odd, line in (
        (replace(report, privacy=replace(privacy, noise_seeded=True)), "seeded noise protects nobody who knows the"),
        (replace(report, release=replace(report.release, **none)), "the student learned nothing, as no query was"),
        (replace(report, data=replace(report.data, real=False)), "synthetic data: shows that the pipeline works and"),
        (replace(report, data=replace(report.data, real=False)), "wordnet (synthetic)"),
    ):
        assert line not in usual
        assert line in printed(odd)
    assert "paper" not in printed(replace(report, privacy=replace(privacy, paper_epsilon=None)))


def test_answer_rate_and_path(report: Report) -> None:
    path = Path("/a/very/long/folder") / ("x" * 90) / "report.html"
    lines = printed(report, path).splitlines()
    assert "answered: 3 of 6 queries (50.0%)" in lines
    assert f"report: {path}" in lines  # on one line, however narrow the terminal


def test_no_guarantee_and_no_student(report: Report) -> None:
    bare = replace(report, student=None, privacy=replace(report.privacy, epsilon=math.inf))
    text = printed(bare)
    assert "no guarantee: epsilon is infinite" in text
    assert row(text, "private student") == ["-"] * 5


def test_markup_in_names_is_printed_as_it_is(report: Report) -> None:
    odd = replace(
        report,
        privacy=replace(report.privacy, unit="[red]one record[/red]", mechanism="[bold]m"),
        data=replace(report.data, name="[link]"),
    )
    text = printed(odd)
    assert "[red]one record[/red]" in text
    assert "[bold]m" in text
    assert "[link] (real)" in text


def test_names_of_others_do_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """In lines, tables, progress and styles, on a terminal that takes colors."""
    name, shown = "flu\x1b[2J\u202e\x9b", r"flu\x1b[2J\u202e\x9b"
    file = io.StringIO()
    console = PlainConsole(file=file, force_terminal=True, color_system=None, width=120, legacy_windows=False)
    table = Table(name)
    table.add_row(Text(name), name)
    for each in (Text(name), name, table):
        console.print(each)
    monitor = ConsoleMonitor(console)
    with monitor.stage(name, 2) as advance:
        advance(1, name)
    monitor.say(name)
    text = re.sub(r"\x1b\[(\?25[lh]|\d*[AK])", "", file.getvalue())  # what a bar moves
    assert text.replace("\r", "").replace("\n", "").isprintable()
    assert text.count(shown) >= 5
    assert text.count(r"flu\x1") >= 7  # a table cuts what is wider than it was measured
    print_lines(name)
    assert capsys.readouterr().out == f"{shown}\n"
    colored = PlainConsole(file=(of_color := io.StringIO()), force_terminal=True, color_system="standard")
    colored.print(Text("x\x1b[0m", style="bold"))
    assert of_color.getvalue() == "\x1b[1mx\\x1b[0m\x1b[0m\n"
