"""Alternatives to PATE as methods of a comparison, with the same unit of privacy and the same scores."""

from pate.comparison.alternatives.alternative import AllRecords, Alternative
from pate.comparison.alternatives.gradient_descent import DpGradientDescent
from pate.comparison.alternatives.sgd import DpSgd

__all__ = ["AllRecords", "Alternative", "DpGradientDescent", "DpSgd"]
