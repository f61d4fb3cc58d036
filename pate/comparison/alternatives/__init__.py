"""Alternatives to PATE as methods of a comparison, with the same unit of privacy and the same scores."""

from pate.comparison.alternatives.gradient_descent import Alternative, DpGradientDescent
from pate.comparison.alternatives.sgd import DpSgd
from pate.comparison.method import AllRecords

__all__ = ["AllRecords", "Alternative", "DpGradientDescent", "DpSgd"]
