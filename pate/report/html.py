"""The page of a run: one self-contained file, without scripts and without anything to fetch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pate.report import html_elements
from pate.report.drawing.inline_svg import Picture
from pate.report.drawing.plots import pictures
from pate.report.figures import RunFigures
from pate.report.page import page, section
from pate.report.privacy_coverage import PAPER_LABEL, SEEDED_WARNING, PrivacyCoverage
from pate.report.report import Report
from pate.report.rounding import format_delta, format_epsilon
from pate.report.tables import METRIC_NAMES, Model, hit_counts, models, parameters, percent, terms
from pate.report.verdict import HEADLINE

_LABEL_COLUMNS = {
    ("student", "prevalence"): "frequency",
    ("student", "average_precision"): "average precision",
    ("majority_vote_student", "average_precision"): "AP, majority-vote student",
    ("all_records_model", "average_precision"): "AP, all-records model",
    ("student", "f1"): "F1",
    ("student", "precision"): "precision",
    ("student", "recall"): "recall",
}

_DIGITS = 3


def render_html(report: Report, figures: RunFigures) -> str:
    """Renders `report.html`, which marks what no epsilon covers and must not be published. Every text in it is escaped.

    Args:
        report: the run.
        figures: the arrays behind the pictures.
    """
    drawn = pictures(report, figures)
    return page(
        "report of a run",
        f"{report.name} on {report.data.name}",
        subtitle=report.heading.overrides,
        notices=_notices(report),
        legend=_LEGEND,
        sections=(
            section("student", "Student", _student(report, drawn)),
            section("privacy", "Privacy", _privacy(report, drawn)),
            section("release", "Release", _release(report, drawn)),
            section("votes", "Teachers and votes", _votes(report, drawn)),
            _labels(figures),
            section("data", "Data and run", _data(report)),
            f'<section id="caveats"><h2>What no epsilon covers</h2>{_caveats(report)}</section>',
        ),
        numbers=_key_numbers(report),
    )


_LEGEND = {
    PrivacyCoverage.COVERED: "Computed from the release alone, or from public parameters.",
    PrivacyCoverage.HELD_OUT: "The model or the labels come from the release; the score also reads true labels.",
    PrivacyCoverage.UNCOVERED: "Computed from private data, true labels or votes without noise. Keep it inside.",
}


def _notices(report: Report) -> str:
    """The verdict, and what a reader must know before any number, each in a line."""
    notices = [html_elements.verdict(report.verdict.text)]
    if np.isinf(report.privacy.epsilon):
        text = (
            "No guarantee: the epsilon of this run is infinite, and what it covers is protected no more than the rest."
        )
        notices.append(html_elements.notice(text, kind="warning"))
    seeded = "; its noise had a seed" if report.privacy.noise_seeded else ""
    synthetic = "" if report.data.real else "; the data are synthetic"
    text = f"Keep this page inside{seeded}{synthetic}."
    return "".join([*notices, html_elements.warning_link(text, "caveats", "What that means")])


def _caveats(report: Report) -> str:
    """The warnings in full, and what of report.json they are about."""
    notices = [
        html_elements.notice(
            "This page belongs to the data owner. Only the folder release may be published under the stated "
            f"epsilon; what is marked “{PrivacyCoverage.UNCOVERED.value}” may say more about the private records.",
            kind="plain",
        )
    ]
    if report.privacy.noise_seeded:
        notices.append(html_elements.notice(f"This run had a seed: {SEEDED_WARNING}.", kind="warning"))
    if not report.data.real:
        text = "Synthetic data: this run shows that the pipeline works and is no evidence of anything else."
        notices.append(html_elements.notice(text, kind="warning"))
    parts = html_elements.facts(
        "Keys of report.json that no epsilon covers.", report.not_covered.items(), PrivacyCoverage.UNCOVERED
    )
    return "".join(notices) + parts


def _key_numbers(report: Report) -> str:
    """The price, the answers and the student in three large numbers."""
    privacy, release = report.privacy, report.release
    prior, student = report.baselines.prior, report.student
    bounded = np.isfinite(privacy.epsilon)
    note = f"at delta {format_delta(privacy.delta)}, {privacy.adjacency}" if bounded else "no guarantee"
    epsilon = f"≤ {format_epsilon(privacy.epsilon)}" if bounded else "infinite"
    answered = f"{release.num_answered} of {release.num_queries} queries"
    score = html_elements.DASH if student is None else _number(student.mean_average_precision)
    against = f"a constant has {_number(prior.mean_average_precision)}" if prior else "no constant was scored"
    against = f"no student was trained; {against}" if student is None else against
    return (
        html_elements.key_number("Epsilon", epsilon, note, PrivacyCoverage.COVERED)
        + html_elements.key_number("Answered", percent(release.answer_rate), answered, PrivacyCoverage.COVERED)
        + html_elements.key_number("Mean average precision of the student", score, against, PrivacyCoverage.UNCOVERED)
    )


def _privacy(report: Report, drawn: Mapping[str, Picture]) -> str:
    """The price, its parameters, and the paper's figure."""
    privacy = report.privacy
    rows = [*terms(privacy)]
    if privacy.paper_epsilon is not None:
        text = f"{format_epsilon(privacy.paper_epsilon)}, {PAPER_LABEL}"
        rows.append(("epsilon of the paper", text))
    promise = html_elements.facts("The guarantee, epsilon and delta rounded up.", rows, PrivacyCoverage.COVERED)
    caption = "What was released by, numbers to three digits; report.json has them all."
    shown = parameters(privacy, report.name, digits=_DIGITS)
    return promise + _figures(drawn, "epsilon") + html_elements.facts(caption, shown, PrivacyCoverage.COVERED)


def _release(report: Report, drawn: Mapping[str, Picture]) -> str:
    """How many queries were answered and how right the answers are."""
    release = report.release
    rows = [
        ("correct bits in the answers", _number(release.label_accuracy)),
        ("micro-F1 of the answers", _number(release.micro_f1)),
    ]
    caption = "The released labels beside the true labels of the public pool."
    hits = ""
    if release.num_hits is not None:
        hits = html_elements.facts("Target charging.", [("hits", hit_counts(release))], PrivacyCoverage.COVERED)
    return _figures(drawn, "answers") + hits + html_elements.facts(caption, rows, PrivacyCoverage.HELD_OUT)


def _student(report: Report, drawn: Mapping[str, Picture]) -> str:
    """The private student beside its baselines."""
    rows = [(model.name, [_scored(report, model, key) for key in METRIC_NAMES], None) for model in models(report)]
    caption = f"Scores on {report.data.num_test:,} test samples. The student is covered; the true labels are not."
    if report.intervals:
        caption += f" Beneath the {METRIC_NAMES[HEADLINE]} is its 95% interval over test sets drawn again."
    table = html_elements.table(caption, ["model", *METRIC_NAMES.values()], rows, PrivacyCoverage.UNCOVERED)
    return table + _figures(drawn, "scores", "precision-recall", "curve", "labels")


def _scored(report: Report, model: Model, key: str) -> str:
    """A metric of a model, the headline with its interval."""
    value = _number(getattr(model.scores, key, None))
    interval = report.intervals.get(model.key, {}).get(key)
    return f"{value}\n{interval[0]:.3f}{html_elements.DASH}{interval[1]:.3f}" if interval and key == HEADLINE else value


def _votes(report: Report, drawn: Mapping[str, Picture]) -> str:
    """The ensemble and its votes, all of it uncovered."""
    teachers = report.teachers
    rows = [
        ("teachers", str(teachers.num_teachers)),
        ("private records per teacher, mean", f"{teachers.records_per_teacher:.3g}"),
        ("correct bits of a teacher, mean", _number(teachers.mean_accuracy)),
    ]
    return _figures(drawn, "gaps", "ranks") + html_elements.facts("The ensemble.", rows, PrivacyCoverage.UNCOVERED)


def _data(report: Report) -> str:
    """The data set and the run."""
    data = report.data
    rows = [
        ("data set", data.name),
        ("kind", "real" if data.real else "synthetic"),
        ("private records", f"{data.num_private:,}"),
        ("public samples", f"{data.num_public:,}"),
        ("test samples", f"{data.num_test:,}"),
        ("labels", str(data.num_labels)),
        ("positive labels per sample, mean", f"{data.label_cardinality:.2f}"),
        ("seed", "none" if report.seed is None else str(report.seed)),
        ("duration", f"{report.duration_s:.1f} s"),
    ]
    versions = [(f"version of {name}", version) for name, version in report.versions.items()]
    return html_elements.facts("The data and the run.", rows, PrivacyCoverage.UNCOVERED) + html_elements.facts(
        "What it ran with.", versions, PrivacyCoverage.COVERED
    )


def _labels(figures: RunFigures) -> str:
    """Every label's metrics, the section left out where there is no student."""
    columns = {
        (model, key): name for (model, key), name in _LABEL_COLUMNS.items() if key in figures.per_label.get(model, {})
    }
    if not columns:
        return ""
    values = {name: figures.per_label[model][key] for (model, key), name in columns.items()}
    if figures.precision_recall and isinstance(thresholds := figures.precision_recall.threshold, tuple):
        values["threshold"] = np.asarray(thresholds)
    rows = [
        (name, [_number(float(column[index])) for column in values.values()], None)
        for index, name in enumerate(figures.label_names)
    ]
    caption = "The private student on the test split, label by label, beside two models without noise."
    body = html_elements.table(caption, ["label", *values], rows, PrivacyCoverage.UNCOVERED)
    return f'<section id="each-label"><h2>Each label</h2>{body}</section>'


def _figures(drawn: Mapping[str, Picture], *names: str) -> str:
    """Those of the named pictures that were drawn."""
    return "".join(html_elements.figure(drawn[name]) for name in names if name in drawn)


def _number(value: float | None) -> str:
    return html_elements.DASH if value is None or np.isnan(value) else f"{value:.3f}"
