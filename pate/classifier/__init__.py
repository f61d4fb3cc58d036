"""PATE as a scikit-learn estimator: `from pate import PATEClassifier`."""

from pate.classifier.classifier import DoubtfulPlan, PATEClassifier
from pate.classifier.pools import SharedRows
from pate.classifier.randomness import SeededNoise
from pate.classifier.repeats import RepeatedRelease

__all__ = ["DoubtfulPlan", "PATEClassifier", "RepeatedRelease", "SeededNoise", "SharedRows"]
