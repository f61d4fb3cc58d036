"""Mechanisms: one histogram of votes, or a batch of them, to one outcome each, with the price beside it."""

from pate.mechanisms.above_threshold import AboveThreshold, ReleasedValues
from pate.mechanisms.between_thresholds import BetweenThresholds, Sides
from pate.mechanisms.boundary_wrapper import BoundaryOutcome, BoundaryWrapper
from pate.mechanisms.canonical import CanonicalTopK
from pate.mechanisms.certified_table import CertifiedTable
from pate.mechanisms.conditional_release import Conditional, ConditionalRelease
from pate.mechanisms.discrete_laplace import DiscreteLaplace
from pate.mechanisms.gamma import GammaTopK
from pate.mechanisms.gap_selection import GapSelection
from pate.mechanisms.joint import JointTopK
from pate.mechanisms.laplace import LaplaceTopK
from pate.mechanisms.limited_domain import LimitedDomainTopK
from pate.mechanisms.lipschitz import LipschitzTopK
from pate.mechanisms.one_shot import OneShotTopK
from pate.mechanisms.peeling import PeelingTopK
from pate.mechanisms.permute_and_flip import PermuteAndFlipTopK
from pate.mechanisms.permute_and_flip_joint import PermuteAndFlipJointTopK
from pate.mechanisms.regularizer import FixedKRegularizer
from pate.mechanisms.run_twice import RunTwice, TwoRuns
from pate.mechanisms.sparse_vector import SparseVector, SparseVectorSession
from pate.mechanisms.stability_table import StabilityTable, optimal_stability_table
from pate.mechanisms.stability_test import StabilityTest
from pate.mechanisms.subset_peeling import SubsetPeeling
from pate.mechanisms.sweep import ScoredTopK, SweepTopK
from pate.mechanisms.top_k import TopK
from pate.mechanisms.top_stable import TopStableTopK

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
    "optimal_stability_table",
]
