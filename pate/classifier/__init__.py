"""PATE as a scikit-learn estimator: `from pate import PATEClassifier`."""

from pate.extras import require_extra

require_extra(__name__, "train")

from pate.classifier.classifier import DoubtfulPlan, PATEClassifier, SeededNoise, UngroupedFit
from pate.classifier.past_fits import RepeatedRelease
from pate.classifier.samples import PublicGroups, SharedRows

__all__ = [
    "DoubtfulPlan",
    "PATEClassifier",
    "PublicGroups",
    "RepeatedRelease",
    "SeededNoise",
    "SharedRows",
    "UngroupedFit",
]
