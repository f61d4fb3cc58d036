"""PATE as a scikit-learn estimator: `from pate import PATEClassifier`."""

from pate.classifier.classifier import DoubtfulPlan, PATEClassifier
from pate.classifier.fits import RepeatedRelease, SeededNoise
from pate.classifier.pools import SharedRows

__all__ = ["DoubtfulPlan", "PATEClassifier", "RepeatedRelease", "SeededNoise", "SharedRows"]
