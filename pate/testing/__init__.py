"""The verifier: compares a price with exact or sampled distributions on all neighbors of small instances."""

from pate.testing.divergences import compose, hockey_stick, lower_bound, renyi
from pate.testing.verifier import (
    Claim,
    PriceRefuted,
    Verdict,
    all_histograms,
    neighbors,
    verify,
    verify_densities,
    verify_distributions,
    verify_samples,
)

__all__ = [
    "Claim",
    "PriceRefuted",
    "Verdict",
    "all_histograms",
    "compose",
    "hockey_stick",
    "lower_bound",
    "neighbors",
    "renyi",
    "verify",
    "verify_densities",
    "verify_distributions",
    "verify_samples",
]
