"""Data-dependent cost: what a release cost on the given votes. It is itself private, and no guarantee."""

from pate.accounting.data_dependent.charge import estimated_epsilon, statement
from pate.accounting.data_dependent.cost import DataDependentCost
from pate.accounting.data_dependent.gap_selection import gap_selection_cost, gap_selection_rdp, top_log_odds
from pate.accounting.data_dependent.gnmax import gnmax_cost, gnmax_log_q, gnmax_rdp, theorem_6_rdp
from pate.accounting.data_dependent.one_bit import one_bit_cost
from pate.accounting.data_dependent.sanitizer import GapCostSanitizer, GnmaxCostSanitizer
from pate.accounting.data_dependent.smooth_sensitivity import gnmax_smooth_sensitivity, smooth_noise_rdp

__all__ = [
    "DataDependentCost",
    "GapCostSanitizer",
    "GnmaxCostSanitizer",
    "estimated_epsilon",
    "gap_selection_cost",
    "gap_selection_rdp",
    "gnmax_cost",
    "gnmax_log_q",
    "gnmax_rdp",
    "gnmax_smooth_sensitivity",
    "one_bit_cost",
    "smooth_noise_rdp",
    "statement",
    "theorem_6_rdp",
    "top_log_odds",
]
