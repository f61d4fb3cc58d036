"""Reports of a run: metrics, `report.json`, the console table, the page, the privacy card, TensorBoard.

`report.json`, the page and the events are the data owner's; only the privacy card may be published. Importing
this package loads neither torch nor matplotlib: the names that need them are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pate.report.card import privacy_card
from pate.report.console import print_report
from pate.report.constants import Constant
from pate.report.figures import RunFigures
from pate.report.heading import Heading
from pate.report.intervals import metric_intervals
from pate.report.metrics import multilabel_metrics, per_label_metrics
from pate.report.report import DataSummary, Privacy, ReleaseSummary, Report, TeacherSummary
from pate.report.rounding import format_delta, format_epsilon, round_up
from pate.report.scores import Baselines, Scores
from pate.report.verdict import Verdict

if TYPE_CHECKING:
    from pate.report.html import render_html
    from pate.report.tensorboard import RunWriter

__all__ = [
    "Baselines",
    "Constant",
    "DataSummary",
    "Heading",
    "Privacy",
    "ReleaseSummary",
    "Report",
    "RunFigures",
    "RunWriter",
    "Scores",
    "TeacherSummary",
    "Verdict",
    "format_delta",
    "format_epsilon",
    "metric_intervals",
    "multilabel_metrics",
    "per_label_metrics",
    "print_report",
    "privacy_card",
    "render_html",
    "round_up",
]

_HEAVY = {
    "render_html": "pate.report.html",
    "RunWriter": "pate.report.tensorboard",
}


def __getattr__(name: str) -> object:
    """Loads one of the names that need matplotlib or torch."""
    if name not in _HEAVY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HEAVY[name]), name)
