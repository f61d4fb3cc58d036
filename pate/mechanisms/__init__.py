"""Mechanisms: one histogram of votes, or a batch of them, to one outcome each, with the price beside it."""

from pate.files.lazy_names import lazy_names
from pate.mechanisms.noise.secret_generator import cipher_generator, secret_generator

with lazy_names(globals()):
    from pate.mechanisms.noise.discrete_laplace import DiscreteLaplace
    from pate.mechanisms.stable.certified_table import CertifiedTable
    from pate.mechanisms.stable.gap_selection import GapSelection
    from pate.mechanisms.stable.regularizer import FixedKRegularizer
    from pate.mechanisms.stable.stability_table import StabilityTable, optimal_stability_table
    from pate.mechanisms.stable.stability_test import StabilityTest
    from pate.mechanisms.stable.top_stable import TopStableTopK
    from pate.mechanisms.target_charging.agreement import RunTwice, TwoRuns
    from pate.mechanisms.target_charging.boundary_wrapper import BoundaryOutcome, BoundaryWrapper
    from pate.mechanisms.target_charging.conditional_release import Conditional, ConditionalRelease
    from pate.mechanisms.threshold.above_threshold import AboveThreshold, ReleasedValues
    from pate.mechanisms.threshold.between_thresholds import BetweenThresholds, Sides
    from pate.mechanisms.threshold.sparse_vector import SparseVector, SparseVectorSession
    from pate.mechanisms.top_k.canonical import CanonicalTopK
    from pate.mechanisms.top_k.gamma import GammaTopK
    from pate.mechanisms.top_k.joint import JointTopK
    from pate.mechanisms.top_k.laplace import LaplaceTopK
    from pate.mechanisms.top_k.limited_domain import LimitedDomainTopK
    from pate.mechanisms.top_k.lipschitz import LipschitzTopK
    from pate.mechanisms.top_k.one_shot import OneShotTopK
    from pate.mechanisms.top_k.peeling import PeelingTopK
    from pate.mechanisms.top_k.permute_and_flip import PermuteAndFlipTopK
    from pate.mechanisms.top_k.permute_and_flip_joint import PermuteAndFlipJointTopK
    from pate.mechanisms.top_k.subset_peeling import SubsetPeeling
    from pate.mechanisms.top_k.sweep import ScoredTopK, SweepTopK
    from pate.mechanisms.top_k.top_k import TopK

__all__ = [
    "AboveThreshold",
    "BetweenThresholds",
    "BoundaryOutcome",
    "BoundaryWrapper",
    "CanonicalTopK",
    "CertifiedTable",
    "Conditional",
    "ConditionalRelease",
    "DiscreteLaplace",
    "FixedKRegularizer",
    "GammaTopK",
    "GapSelection",
    "JointTopK",
    "LaplaceTopK",
    "LimitedDomainTopK",
    "LipschitzTopK",
    "OneShotTopK",
    "PeelingTopK",
    "PermuteAndFlipJointTopK",
    "PermuteAndFlipTopK",
    "ReleasedValues",
    "RunTwice",
    "ScoredTopK",
    "Sides",
    "SparseVector",
    "SparseVectorSession",
    "StabilityTable",
    "StabilityTest",
    "SubsetPeeling",
    "SweepTopK",
    "TopK",
    "TopStableTopK",
    "TwoRuns",
    "cipher_generator",
    "optimal_stability_table",
    "secret_generator",
]
