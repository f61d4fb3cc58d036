"""PATE as a scikit-learn estimator: `from pate import PATEClassifier`."""

from pate.extras import require_extra

require_extra(__name__, "train")

from pate.classifier.classifier import PATEClassifier
from pate.classifier.fit_warnings import (
    ClassesFromLabels,
    DoubtfulPlan,
    GapsFromLabels,
    PublicGroups,
    RepeatedRelease,
    SeededNoise,
    SharedRows,
    UngroupedFit,
)
from pate.classifier.search import PATESearch
from pate.data.table.schema import UnlikePublic

__all__ = [
    "ClassesFromLabels",
    "DoubtfulPlan",
    "GapsFromLabels",
    "PATEClassifier",
    "PATESearch",
    "PublicGroups",
    "RepeatedRelease",
    "SeededNoise",
    "SharedRows",
    "UngroupedFit",
    "UnlikePublic",
]
