"""Mechanisms: one histogram of votes, or a batch of them, to one outcome each, with the price beside it."""

from pate.mechanisms.calls import (
    AboveThreshold,
    BetweenThresholds,
    BoundaryWrapper,
    ConditionalRelease,
    RunTwice,
    SparseVector,
    SweepTopK,
)
from pate.mechanisms.gap_selection import FixedKRegularizer, GapSelection
from pate.mechanisms.joint import CanonicalTopK, JointTopK, PermuteAndFlipJointTopK
from pate.mechanisms.noise.secret_generator import cipher_generator, secret_generator
from pate.mechanisms.noise.whole_numbers import DiscreteLaplace
from pate.mechanisms.stability_test import CertifiedTable, StabilityTest, optimal_stability_table
from pate.mechanisms.top_k import (
    GammaTopK,
    LaplaceTopK,
    LimitedDomainTopK,
    LipschitzTopK,
    OneShotTopK,
    PeelingTopK,
    PermuteAndFlipTopK,
    SubsetPeeling,
    TopStableTopK,
)

__all__ = [
    "AboveThreshold", "BetweenThresholds", "BoundaryWrapper", "CanonicalTopK", "CertifiedTable", "ConditionalRelease",
    "DiscreteLaplace", "FixedKRegularizer", "GammaTopK", "GapSelection", "JointTopK", "LaplaceTopK",
    "LimitedDomainTopK", "LipschitzTopK", "OneShotTopK", "PeelingTopK", "PermuteAndFlipJointTopK",
    "PermuteAndFlipTopK", "RunTwice", "SparseVector", "StabilityTest", "SubsetPeeling", "SweepTopK", "TopStableTopK",
    "cipher_generator", "optimal_stability_table", "secret_generator"
]  # fmt: skip
