"""Reports of a run: metrics, `report.json`, the console table, the page, the privacy card, TensorBoard.

`report.json`, the page and the events are the data owner's; only the privacy card may be published. Importing
this package loads none of it: each name is loaded when first used, torch and matplotlib with those that need them.
"""

from pate.files.lazy_names import lazy_names

with lazy_names(globals()):
    from pate.report.card import privacy_card
    from pate.report.console import print_report
    from pate.report.constants import Constant
    from pate.report.figures import RunFigures
    from pate.report.heading import Heading
    from pate.report.html import render_html
    from pate.report.intervals import metric_intervals
    from pate.report.metrics import multilabel_metrics, per_label_metrics
    from pate.report.report import DataSummary, Privacy, ReleaseSummary, Report, TeacherSummary
    from pate.report.rounding import format_delta, format_epsilon, round_up
    from pate.report.scores import Baselines, Scores
    from pate.report.tensorboard import RunWriter
    from pate.report.verdict import Verdict

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
