"""A report is read from JSON as it was written, is refused if impossible or damaged, and has HTML for notebooks."""

import json
import math
from dataclasses import replace
from html import escape

import numpy as np
import pytest

from pate.report import Privacy, Report, Scores
from pate.report.report import ReleaseSummary
from tests.refusals import ANY, Refusal, refused_parameter


def strict_json(text: str) -> dict:
    """Returns the content of a JSON text, and fails on NaN and infinities, which strict JSON does not allow."""

    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is not strict JSON")

    return json.loads(text, parse_constant=refuse)


def test_every_entry_of_not_covered_is_a_field_of_the_report(report: Report) -> None:
    """A report is read as it was written, and each path in `not_covered` is a field of it."""
    data = strict_json(text=report.to_json())
    assert Report.from_json(report.to_json()) == report
    for path in data["not_covered"]:
        value = data
        for key in path.split("."):
            value = value[key]
        assert value is not None, path


def test_numbers_from_which_each_other_follow_are_not_covered_alike(report: Report) -> None:
    """Neither the number of private records nor that per teacher, from which the first one follows, is covered."""
    assert {"data.num_private", "teachers.records_per_teacher"} <= report.not_covered.keys()


def test_infinite_epsilon_is_the_string_inf(report: Report) -> None:
    """An infinite epsilon is written as "inf", and read as infinite."""
    report_without_guarantee = replace(
        report, privacy=replace(report.privacy, epsilon=math.inf, paper_epsilon=None)
    )
    data = strict_json(text=report_without_guarantee.to_json())
    assert data["privacy"]["epsilon"] == "inf"
    assert data["privacy"]["paper_epsilon"] is None
    assert Report.from_json(report_without_guarantee.to_json()) == report_without_guarantee


def test_undefined_metrics_are_null_and_numpy_numbers_are_numbers(report: Report) -> None:
    """Undefined metrics are null, and counts of NumPy are whole numbers."""
    undefined_report = replace(
        report,
        student=None,
        release=ReleaseSummary(
            num_queries=np.int64(6),
            num_answered=np.int64(0),
            answer_rate=0.0,
            label_accuracy=None,
            micro_f1=math.nan,
        ),
    )
    data = strict_json(text=undefined_report.to_json())
    assert data["student"] is None
    undefined_names = (
        "label_accuracy",
        "micro_f1",
        "num_hits",
        "remaining_hits",
        "num_abstained",
        "num_asked",
    )
    assert data["release"] == {
        "num_queries": 6,
        "num_answered": 0,
        "answer_rate": 0.0,
        **dict.fromkeys(undefined_names),
    }
    assert Report.from_json(undefined_report.to_json()).release.micro_f1 is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epsilon", -0.1),
        ("epsilon", math.nan),
        ("delta", 1.0),
        ("delta", math.nan),
        ("num_queries", 1.5),
        ("paper_epsilon", -1.0),
        ("plain_epsilon", -1.0),
    ],
)
def test_impossible_prices_are_refused(privacy: Privacy, field: str, value: float) -> None:
    """A price with an impossible number is refused under `privacy.` and the name of its field."""
    with refused_parameter(f"privacy.{field}", value=value):
        replace(privacy, **{field: value})


def test_contradictory_counts_are_refused(report: Report) -> None:
    """Counts that contradict each other, such as more answers than queries, and a score above 1 are refused."""
    for num_answered, answer_rate, refusal in (
        (7, 1.0, refused_parameter("release.num_answered", value=7)),
        (3, 0.6, refused_parameter("release.answer_rate", value=0.6)),
    ):
        with refusal:
            ReleaseSummary(
                num_queries=6,
                num_answered=num_answered,
                answer_rate=answer_rate,
                label_accuracy=None,
                micro_f1=None,
            )
    with refused_parameter("privacy.num_queries", value=5):
        replace(report, privacy=replace(report.privacy, num_queries=5))
    with refused_parameter("micro_f1", value=ANY, rule_words="a number in [0"):
        Scores(
            accuracy=0.5,
            balanced_accuracy=None,
            micro_f1=1.2,
            macro_f1=0.1,
            mean_average_precision=None,
        )


@pytest.mark.parametrize(
    ("old_text", "new_text", "refusal"),
    [
        (
            '"delta"',
            '"delta_"',
            refused_parameter("report.privacy", value="['delta', 'delta_']"),
        ),
        ('"delta": 1e-06,', "", refused_parameter("report.privacy", value="['delta']")),
        ('"real": true', '"real": 1', refused_parameter("report.data.real", value="int")),
        (
            '"epsilon": 7.9912',
            '"epsilon": NaN',
            refused_parameter("report", rule_words="strict JSON"),
        ),
        (
            '"epsilon": 7.9912',
            '"epsilon": "8"',
            refused_parameter("report.privacy.epsilon", value="str"),
        ),
        (
            '"num_labels": 4',
            '"num_labels": true',
            refused_parameter("report.data.num_labels", value="bool"),
        ),
        (
            '"num_teachers": 411',
            '"num_teachers": [1]',
            refused_parameter("report.teachers.num_teachers", value="list"),
        ),
    ],
)
def test_reading_names_the_invalid_key(
    report: Report, old_text: str, new_text: str, refusal: Refusal
) -> None:
    """A report with a wrong key or value is refused under the dotted name of its place in the JSON."""
    text = report.to_json()
    assert old_text in text
    with refusal:
        Report.from_json(text.replace(old_text, new_text))


def test_a_notebook_shows_price_scores_and_verdict(report: Report) -> None:
    """The HTML of a report has its terms, data, verdict and scores, and neither scripts nor links."""
    shown = report._repr_html_()
    for name, text in report.privacy.terms:
        assert escape(name) in shown and escape(text) in shown
    for text in ("Report of", "wordnet", report.verdict.text, "do not publish them"):
        assert escape(text) in shown
    assert report.student is not None
    assert f"{report.student.micro_f1:.3f}" in shown
    assert not any(word in shown for word in ("<script", "<style", "<img", "http"))


def test_a_report_without_a_student_is_shown_in_a_notebook(report: Report) -> None:
    """The HTML of a report without a student has no line of scores."""
    assert "student:" not in replace(report, student=None)._repr_html_()
