"""PATE as a scikit-learn estimator: `from pate import PATEClassifier`."""

from pate.extras import require_extra

require_extra(__name__, "train")

from pate.classifier.classifier import PATEClassifier
from pate.classifier.fit_warnings import (
    DoubtfulPlan,
    PublicGroups,
    RepeatedRelease,
    SeededNoise,
    SharedRows,
    UngroupedFit,
)

__all__ = [
    "DoubtfulPlan",
    "PATEClassifier",
    "PublicGroups",
    "RepeatedRelease",
    "SeededNoise",
    "SharedRows",
    "UngroupedFit",
]
