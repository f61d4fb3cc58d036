"""The verifier, which compares a claimed price of privacy with the distributions of a mechanism on neighboring data."""

from pate.testing.claim import Claim
from pate.testing.composition import compose
from pate.testing.divergences import hockey_stick, renyi
from pate.testing.lower_bounds import lower_bound
from pate.testing.neighbors import all_histograms, neighbors
from pate.testing.samples import verify_samples
from pate.testing.verdict import PriceRefuted, Verdict
from pate.testing.verifier import verify, verify_densities, verify_distributions

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
