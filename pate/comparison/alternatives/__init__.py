"""Alternatives to PATE as methods of a comparison, with the same unit of privacy: gradient descent with noise.

`DpGradientDescent` sums the clipped gradients of all groups in every step. `DpSgd` sums those of a Poisson sample of
the groups; Opacus clips and adds them, sampling and noise are the house's own. Both are calibrated like an aggregator.
"""

from pate.comparison.all_records import AllRecords
from pate.comparison.alternatives.alternative import Alternative
from pate.comparison.alternatives.dp_gd import DpGradientDescent
from pate.comparison.alternatives.dp_sgd import DpSgd

__all__ = ["AllRecords", "Alternative", "DpGradientDescent", "DpSgd"]
