"""Mechanisms: one histogram of votes, or a batch of them, to one outcome each, with the price beside it."""

from pate.files.lazy_names import lazy_names
from pate.mechanisms.noise.secret_generator import cipher_generator, secret_generator

with lazy_names(globals()):
    from pate.mechanisms.call_wrappers import (
        BoundaryOutcome,
        BoundaryWrapper,
        Conditional,
        ConditionalRelease,
        RunTwice,
        TwoRuns,
    )
    from pate.mechanisms.canonical import CanonicalTopK
    from pate.mechanisms.gap_selection import FixedKRegularizer, GapSelection
    from pate.mechanisms.joint import JointTopK, PermuteAndFlipJointTopK
    from pate.mechanisms.limited_domain import LimitedDomainTopK, TopStableTopK
    from pate.mechanisms.noise.whole_numbers import DiscreteLaplace
    from pate.mechanisms.noisy_top_k import GammaTopK, LaplaceTopK, LipschitzTopK
    from pate.mechanisms.peeling import OneShotTopK, PeelingTopK, SubsetPeeling
    from pate.mechanisms.permute_and_flip import PermuteAndFlipTopK
    from pate.mechanisms.sparse_vector import ScoredTopK, SparseVector, SparseVectorSession, SweepTopK
    from pate.mechanisms.stability_test import CertifiedTable, StabilityTable, StabilityTest, optimal_stability_table
    from pate.mechanisms.thresholds import AboveThreshold, BetweenThresholds, ReleasedValues, Sides
    from pate.mechanisms.top_k import TopK

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
