"""Alternatives to PATE in a comparison: gradient descent with noise, with the group of records as the unit of privacy.

`DpGradientDescent` sums the clipped gradients of all groups in every step. `DpSgd` sums the clipped gradients of a
Poisson sample of the groups; Opacus clips and adds the gradients, this package samples groups and adds noise. The noise
of both is calibrated to the budget of the comparison.
"""

from pate.comparison.all_records import AllRecords
from pate.comparison.alternatives.alternative import Alternative
from pate.comparison.alternatives.dp_gd import DpGradientDescent
from pate.comparison.alternatives.dp_sgd import DpSgd

__all__ = ["AllRecords", "Alternative", "DpGradientDescent", "DpSgd"]
