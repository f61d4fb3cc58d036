"""Aggregators: votes `[Q, L]` to a `Release(labels, answered, event)`; numpy and scipy only."""

from pate.aggregators.aggregator import Aggregator
from pate.aggregators.gaussian_votes import GaussianVotes
from pate.aggregators.release import Release
from pate.aggregators.stable_fixed_top_k import StableFixedTopK
from pate.aggregators.stable_top_k import StableTopK

__all__ = ["Aggregator", "GaussianVotes", "Release", "StableFixedTopK", "StableTopK"]
