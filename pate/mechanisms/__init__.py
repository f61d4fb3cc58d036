"""Mechanisms draw outcomes from private counts, gaps or bits, and most state the price of a draw as their `event`."""

from pate.mechanisms.calls.boundary import BoundaryWrapper
from pate.mechanisms.calls.conditional import ConditionalRelease
from pate.mechanisms.calls.run_twice import RunTwice
from pate.mechanisms.calls.sparse_vector import SparseVector
from pate.mechanisms.calls.sweep import SweepTopK
from pate.mechanisms.calls.thresholds import AboveThreshold, BetweenThresholds
from pate.mechanisms.certified_table import CertifiedTable
from pate.mechanisms.gap_selection import FixedKRegularizer, GapSelection
from pate.mechanisms.noise.discrete_laplace import DiscreteLaplace
from pate.mechanisms.noise.secret_generator import cipher_generator, secret_generator
from pate.mechanisms.stability_table import optimal_stability_table
from pate.mechanisms.stability_test import StabilityTest
from pate.mechanisms.top_k.canonical import CanonicalTopK
from pate.mechanisms.top_k.gamma import GammaTopK
from pate.mechanisms.top_k.joint import JointTopK, PermuteAndFlipJointTopK
from pate.mechanisms.top_k.laplace import LaplaceTopK
from pate.mechanisms.top_k.limited_domain import LimitedDomainTopK
from pate.mechanisms.top_k.lipschitz import LipschitzTopK
from pate.mechanisms.top_k.peeling import OneShotTopK, PeelingTopK, SubsetPeeling
from pate.mechanisms.top_k.permute_and_flip import PermuteAndFlipTopK
from pate.mechanisms.top_k.top_stable import TopStableTopK

__all__ = [
    "AboveThreshold", "BetweenThresholds", "BoundaryWrapper", "CanonicalTopK", "CertifiedTable", "ConditionalRelease",
    "DiscreteLaplace", "FixedKRegularizer", "GammaTopK", "GapSelection", "JointTopK", "LaplaceTopK",
    "LimitedDomainTopK", "LipschitzTopK", "OneShotTopK", "PeelingTopK", "PermuteAndFlipJointTopK",
    "PermuteAndFlipTopK", "RunTwice", "SparseVector", "StabilityTest", "SubsetPeeling", "SweepTopK", "TopStableTopK",
    "cipher_generator", "optimal_stability_table", "secret_generator"
]  # fmt: skip
