"""The page of a run: one self-contained file, without scripts and without anything to fetch."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from pate.report.pictures import pictures
from pate.report.report import HEADLINE, PAPER_LABEL, SEEDED_WARNING, PrivacyCoverage, Report, RunFigures
from pate.report.tables import (
    METRIC_NAMES,
    Model,
    format_delta,
    format_epsilon,
    hit_counts,
    models,
    parameters,
    percent,
    terms,
)

DASH = "\N{EN DASH}"

_DIGITS = 3
_LEGEND = {
    PrivacyCoverage.COVERED: "Computed from the release alone, or from public parameters.",
    PrivacyCoverage.HELD_OUT: "The model or the labels come from the release; the score also reads true labels.",
    PrivacyCoverage.UNCOVERED: "Computed from private data, true labels or votes without noise. Keep it inside.",
}
_LABEL_COLUMNS = {
    ("student", "prevalence"): "frequency",
    ("student", "average_precision"): "average precision",
    ("majority_vote_student", "average_precision"): "AP, majority-vote student",
    ("all_records_model", "average_precision"): "AP, all-records model",
    ("student", "f1"): "F1",
    ("student", "precision"): "precision",
    ("student", "recall"): "recall",
}


def render_html(report: Report, figures: RunFigures) -> str:
    """Renders `report.html`, which marks what no epsilon covers and must not be published. Every text is escaped."""
    privacy, columns = report.privacy, _label_columns(figures)
    guarantee = [*terms(privacy)]
    if privacy.paper_epsilon is not None:
        guarantee.append(("epsilon of the paper", f"{format_epsilon(privacy.paper_epsilon)}, {PAPER_LABEL}"))
    return rendered(
        "report/report.html",
        title=f"{report.name} on {report.data.name}",
        legend=_LEGEND,
        report=report,
        privacy=privacy,
        release=report.release,
        data=report.data,
        student=report.student,
        prior=report.baselines.prior,
        bounded=math.isfinite(privacy.epsilon),
        pictures=pictures(report, figures),
        headline=HEADLINE,
        models=[(model.name, [_scored(report, model, key) for key in METRIC_NAMES]) for model in models(report)],
        terms=guarantee,
        parameters=parameters(privacy, report.name, digits=_DIGITS),
        hits=hit_counts(report.release),
        label_columns=columns,
        labels=[
            (name, [number(float(column[index])) for column in columns.values()])
            for index, name in enumerate(figures.label_names)
        ],
        versions=[(f"version of {name}", version) for name, version in report.versions.items()],
    )


def rendered(template: str, **values: Any) -> str:
    """A page: light, dark and in print, from the width of a phone on; every text is escaped but a picture's SVG.

    The template extends `report/page.html`, which reads a `title` and a `legend`.
    """
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    made = Environment(loader=PackageLoader("pate", ""), autoescape=True, undefined=StrictUndefined)
    made.trim_blocks = made.lstrip_blocks = True
    made.globals |= {"mark": PrivacyCoverage, "metrics": METRIC_NAMES, "dash": DASH, "seeded_warning": SEEDED_WARNING}
    made.filters |= {
        "breakable": _breakable,
        "delta": format_delta,
        "epsilon": format_epsilon,
        "number": number,
        "percent": percent,
    }
    return made


def number(value: float | None) -> str:
    """A score with three decimals, a dash where there is none."""
    return DASH if value is None or np.isnan(value) else f"{value:.3f}"


def _breakable(name: str) -> Markup:
    return Markup(str(escape(name)).replace(".", ".<wbr>").replace("_", "_<wbr>"))


def _scored(report: Report, model: Model, key: str) -> str:
    """A metric of a model, the headline with its interval."""
    value = number(getattr(model.scores, key, None))
    interval = report.intervals.get(model.key, {}).get(key)
    return f"{value}\n{interval[0]:.3f}{DASH}{interval[1]:.3f}" if interval and key == HEADLINE else value


def _label_columns(figures: RunFigures) -> dict[str, Any]:
    """Every label's metrics by heading; none without a student."""
    found = {
        name: figures.per_label[model][key]
        for (model, key), name in _LABEL_COLUMNS.items()
        if key in figures.per_label.get(model, {})
    }
    if found and figures.precision_recall and isinstance(thresholds := figures.precision_recall.threshold, tuple):
        found["threshold"] = np.asarray(thresholds)
    return found
