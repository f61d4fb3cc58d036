"""Reports of a run: its metrics, `report.json` and the privacy card.

`report.json` is for the data owner alone. The privacy card and `privacy.json` may be published, and so may a dossier of
them. `pate.report.page` makes the HTML page of a report, `pate.report.console` prints on the terminal, and
`pate.report.tensorboard` writes curves. These modules are imported when they are used.
"""

from pate.accounting.rounding import ceil_to_decimals as round_up
from pate.accounting.rounding import format_delta, format_epsilon
from pate.report.card import PrivacyStatement, privacy_card
from pate.report.constants import Constant
from pate.report.intervals import metric_intervals
from pate.report.metrics import Scores, multilabel_metrics, per_label_metrics
from pate.report.privacy import Privacy
from pate.report.report import Report

__all__ = [
    "Constant",
    "Privacy",
    "PrivacyStatement",
    "Report",
    "Scores",
    "format_delta",
    "format_epsilon",
    "metric_intervals",
    "multilabel_metrics",
    "per_label_metrics",
    "privacy_card",
    "round_up",
]
