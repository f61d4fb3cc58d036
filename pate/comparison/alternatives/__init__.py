"""Alternatives to PATE in a comparison, with the group of records as the unit of privacy.

Gradient descent (`DpGradientDescent`) sums the clipped gradients of all groups in every step. DP-FC
(`DpFeatureCovariance`) scales few such sums by the inverse covariance of the features. Least squares
(`DpLeastSquares`) solve for a linear model from one noisy sum and a covariance. DP-SGD (`DpSgd`) sums the clipped
gradients of a Poisson sample of the groups. Opacus clips and adds its gradients, this package samples groups and adds
noise. The noise of all is calibrated to the budget of the comparison. `AllRecords` has no privacy.
"""

from pate.comparison.all_records import AllRecords
from pate.comparison.alternatives.alternative import Alternative
from pate.comparison.alternatives.dp_fc import DpFeatureCovariance
from pate.comparison.alternatives.dp_gd import DpGradientDescent
from pate.comparison.alternatives.dp_ls import DpLeastSquares
from pate.comparison.alternatives.dp_sgd import DpSgd

__all__ = [
    "AllRecords",
    "Alternative",
    "DpFeatureCovariance",
    "DpGradientDescent",
    "DpLeastSquares",
    "DpSgd",
]
