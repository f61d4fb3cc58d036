"""Data-dependent cost: what a release cost on the votes at hand; private itself, and never a guarantee."""

from pate.accounting.data_dependent.cost import DataDependentCost
from pate.accounting.data_dependent.gap_selection import gap_selection_cost, gap_selection_rdp, top_log_odds
from pate.accounting.data_dependent.one_bit import one_bit_cost

__all__ = [
    "DataDependentCost",
    "gap_selection_cost",
    "gap_selection_rdp",
    "one_bit_cost",
    "top_log_odds",
]
