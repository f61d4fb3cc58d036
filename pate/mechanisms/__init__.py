"""Mechanisms: one histogram of votes, or a batch of them, to one outcome each, with the price beside it."""

from typing import TYPE_CHECKING

from pate.mechanisms.noise.secret_generator import cipher_generator, secret_generator
from pate.validation import lazily

if TYPE_CHECKING:
    from pate.mechanisms.call_wrappers import BoundaryWrapper, ConditionalRelease, RunTwice
    from pate.mechanisms.canonical import CanonicalTopK
    from pate.mechanisms.gap_selection import FixedKRegularizer, GapSelection
    from pate.mechanisms.joint import JointTopK, PermuteAndFlipJointTopK
    from pate.mechanisms.noise.whole_numbers import DiscreteLaplace
    from pate.mechanisms.noisy_top_k import (
        GammaTopK,
        LaplaceTopK,
        LimitedDomainTopK,
        LipschitzTopK,
        OneShotTopK,
        PeelingTopK,
        SubsetPeeling,
        TopStableTopK,
    )
    from pate.mechanisms.permute_and_flip import PermuteAndFlipTopK
    from pate.mechanisms.stability_test import CertifiedTable, StabilityTest, optimal_stability_table
    from pate.mechanisms.thresholds import AboveThreshold, BetweenThresholds, SparseVector, SweepTopK


__all__ = [
    "AboveThreshold",
    "BetweenThresholds",
    "BoundaryWrapper",
    "CanonicalTopK",
    "CertifiedTable",
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
    "RunTwice",
    "SparseVector",
    "StabilityTest",
    "SubsetPeeling",
    "SweepTopK",
    "TopStableTopK",
    "cipher_generator",
    "optimal_stability_table",
    "secret_generator",
]

_LATER = {
    "call_wrappers": "BoundaryWrapper ConditionalRelease RunTwice",
    "canonical": "CanonicalTopK",
    "gap_selection": "FixedKRegularizer GapSelection",
    "joint": "JointTopK PermuteAndFlipJointTopK",
    "noise.whole_numbers": "DiscreteLaplace",
    "noisy_top_k": "GammaTopK LaplaceTopK LimitedDomainTopK LipschitzTopK OneShotTopK PeelingTopK SubsetPeeling "
    "TopStableTopK",
    "permute_and_flip": "PermuteAndFlipTopK",
    "stability_test": "CertifiedTable StabilityTest optimal_stability_table",
    "thresholds": "AboveThreshold BetweenThresholds SparseVector SweepTopK",
}
__getattr__ = lazily(__name__, _LATER)
