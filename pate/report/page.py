"""The page of a run: one self-contained file, without scripts and without anything to fetch."""

import math
from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from pate.report.pictures import pictures
from pate.report.report import DASH, HEADLINE, METRIC_NAMES, MODEL_NAMES, PrivacyCoverage, Report, RunFigures, add_words

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
    columns = _label_columns(figures)
    return rendered(
        "report/report.html",
        title=f"{report.name} on {report.data.name}",
        legend=_LEGEND,
        report=report,
        bounded=math.isfinite(report.privacy.epsilon),
        pictures=pictures(report, figures),
        models=[(name, [_scored(report, key, metric) for metric in METRIC_NAMES]) for key, name in MODEL_NAMES.items()],
        label_columns=columns,
        labels=[
            (name, [number(float(column[index])) for column in columns.values()])
            for index, name in enumerate(figures.label_names)
        ],
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
    add_words(made)
    made.globals |= {"mark": PrivacyCoverage, "dash": DASH, "headline": HEADLINE}
    made.filters["number"] = number
    made.filters["breakable"] = lambda name: Markup(str(escape(name)).replace(".", ".<wbr>").replace("_", "_<wbr>"))
    return made


def number(value: float | None) -> str:
    """A score with three decimals, a dash where there is none."""
    return DASH if value is None or np.isnan(value) else f"{value:.3f}"


def _scored(report: Report, model: str, metric: str) -> str:
    """A metric of a model, the headline with its interval."""
    value = number(getattr(report.models[model], metric, None))
    interval = report.intervals.get(model, {}).get(metric)
    return f"{value}\n{interval[0]:.3f}{DASH}{interval[1]:.3f}" if interval and metric == HEADLINE else value


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
