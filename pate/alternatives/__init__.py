"""Alternatives to PATE as methods of a comparison, with the same unit of privacy and the same scores."""

from pate.alternatives.all_records import AllRecords
from pate.alternatives.alternative import Alternative
from pate.alternatives.gradient_descent import DpGradientDescent
from pate.alternatives.learning_rule import LearningRule
from pate.alternatives.sgd import DpSgd

__all__ = ["AllRecords", "Alternative", "DpGradientDescent", "DpSgd", "LearningRule"]
