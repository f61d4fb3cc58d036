"""PATE as a scikit-learn estimator: `from pate import PATEClassifier`."""

from pate.validation import require_extra

require_extra(__name__, "train")

from pate.classifier.classifier import DoubtfulPlan, PATEClassifier
from pate.classifier.fits import RepeatedRelease, SeededNoise
from pate.classifier.pools import SharedRows

__all__ = ["DoubtfulPlan", "PATEClassifier", "RepeatedRelease", "SeededNoise", "SharedRows"]
