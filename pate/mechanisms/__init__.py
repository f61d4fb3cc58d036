"""Mechanisms: one histogram of votes, or a batch of them, to one outcome each, with the price beside it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pate.mechanisms.noise.secret_generator import cipher_generator, secret_generator

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


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
