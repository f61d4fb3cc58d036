"""Alternatives to PATE as methods of a comparison, with the same unit of privacy and the same scores."""

from pate.comparison.alternatives.all_records import AllRecords
from pate.comparison.alternatives.alternative import Alternative
from pate.comparison.alternatives.gradient_descent import DpGradientDescent
from pate.comparison.alternatives.learning_rule import LearningRule
from pate.comparison.alternatives.sgd import DpSgd

__all__ = ["AllRecords", "Alternative", "DpGradientDescent", "DpSgd", "LearningRule"]
