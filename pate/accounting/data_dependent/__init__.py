"""Data-dependent cost: what a release cost on the given votes. It is itself private, and no guarantee."""

from pate.accounting.data_dependent.cost import (
    DataDependentCost,
    gap_selection_cost,
    gap_selection_rdp,
    one_bit_cost,
    top_log_odds,
)
from pate.accounting.data_dependent.gnmax import (
    gnmax_cost,
    gnmax_log_q,
    gnmax_rdp,
    gnmax_smooth_sensitivity,
    smooth_noise_rdp,
    theorem_6_rdp,
)
from pate.accounting.data_dependent.sanitizer import GapCostSanitizer, GnmaxCostSanitizer, estimated_epsilon, statement

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
