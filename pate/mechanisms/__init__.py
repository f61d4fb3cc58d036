"""Mechanisms: one histogram of votes, or a batch of them, to one outcome each, with the price beside it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pate.mechanisms.noise.secret_generator import cipher_generator, secret_generator

if TYPE_CHECKING:
    from pate.mechanisms.call_wrappers import BoundaryWrapper, ConditionalRelease, RunTwice
    from pate.mechanisms.canonical import CanonicalTopK
    from pate.mechanisms.gap_selection import FixedKRegularizer, GapSelection
    from pate.mechanisms.joint import JointTopK, PermuteAndFlipJointTopK
    from pate.mechanisms.limited_domain import LimitedDomainTopK, TopStableTopK
    from pate.mechanisms.noise.whole_numbers import DiscreteLaplace
    from pate.mechanisms.noisy_top_k import GammaTopK, LaplaceTopK, LipschitzTopK
    from pate.mechanisms.peeling import OneShotTopK, PeelingTopK, SubsetPeeling
    from pate.mechanisms.permute_and_flip import PermuteAndFlipTopK
    from pate.mechanisms.sparse_vector import SparseVector, SweepTopK
    from pate.mechanisms.stability_test import CertifiedTable, StabilityTest, optimal_stability_table
    from pate.mechanisms.thresholds import AboveThreshold, BetweenThresholds

_MODULE_OF = {
    "AboveThreshold": "thresholds",
    "BetweenThresholds": "thresholds",
    "BoundaryWrapper": "call_wrappers",
    "CanonicalTopK": "canonical",
    "CertifiedTable": "stability_test",
    "ConditionalRelease": "call_wrappers",
    "DiscreteLaplace": "noise.whole_numbers",
    "FixedKRegularizer": "gap_selection",
    "GammaTopK": "noisy_top_k",
    "GapSelection": "gap_selection",
    "JointTopK": "joint",
    "LaplaceTopK": "noisy_top_k",
    "LimitedDomainTopK": "limited_domain",
    "LipschitzTopK": "noisy_top_k",
    "OneShotTopK": "peeling",
    "PeelingTopK": "peeling",
    "PermuteAndFlipJointTopK": "joint",
    "PermuteAndFlipTopK": "permute_and_flip",
    "RunTwice": "call_wrappers",
    "SparseVector": "sparse_vector",
    "StabilityTest": "stability_test",
    "SubsetPeeling": "peeling",
    "SweepTopK": "sparse_vector",
    "TopStableTopK": "limited_domain",
    "optimal_stability_table": "stability_test",
}
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


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
