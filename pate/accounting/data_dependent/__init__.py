"""Data-dependent cost: what a release cost on the given votes. It is itself private, and no guarantee."""

from pate.accounting.data_dependent.cost import DataDependentCost, gap_selection_cost, one_bit_cost
from pate.accounting.data_dependent.gnmax import gnmax_cost
from pate.accounting.data_dependent.sanitizer import (
    GapCostSanitizer,
    GnmaxCostSanitizer,
    estimated_epsilon,
    statement,
)

__all__ = [
    "DataDependentCost",
    "GapCostSanitizer",
    "GnmaxCostSanitizer",
    "estimated_epsilon",
    "gap_selection_cost",
    "gnmax_cost",
    "one_bit_cost",
    "statement",
]
